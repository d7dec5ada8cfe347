"""Damage to files that are beside those of batches is said, by the name of the file; or it does no harm.

`inputs/*` says which files have been read, `retention.json` how old results are, and `added-streams.json` which streams
came over HTTP.
"""

from __future__ import annotations

import random
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.property.beside import Found, build, go_on
from tests.property.damage import DAMAGES, damaged_copy, judge

NAMES = ("inputs/*", "retention.json", "added-streams.json")
UNNAMED = {("retention.json", "removed"), ("added-streams.json", "removed"), ("inputs/*", "longer")}
"""What cannot be told from a file that was never written: ages that are not known are those of new results, and streams
have files of their own, so that one which nobody attaches is said by its name when its queries are to be run. Nor does
anybody read what is behind the part of a log that counts."""


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Found]:
    """A state directory, and what comes of it when it is whole."""
    base = tmp_path_factory.mktemp("beside")
    build(base / "state")
    shutil.copytree(base / "state", base / "whole")
    expected = go_on(base / "whole")
    assert [len(names) for names in expected.read.values()] == [6, 6]
    assert len(expected.added) == 2
    assert expected.values == [0, 1, 2, 3, 4, 5]
    assert expected.warnings == []
    return base / "state", expected


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", NAMES)
def test_damage_beside_batches_is_said_or_does_no_harm(
    story: tuple[Path, Found], tmp_path: Path, name: str, damage: str
) -> None:
    root, expected = story
    chosen = [str(path.relative_to(root)) for path in sorted(root.glob(name))]
    assert chosen
    draw = random.Random(f"{name} {damage}")
    for number, file in enumerate(each for each in chosen for _ in range(5 if damage == "flipped" else 1)):
        target = tmp_path / str(number)
        damaged_copy(root, target, file, DAMAGES[damage]((root / file).read_bytes(), draw))
        wanted = replace(expected, added=[]) if (name, damage) == ("added-streams.json", "removed") else expected
        outcome = judge(target, wanted, go_on)
        shutil.rmtree(target)
        assert outcome.kind in ("said", "right"), f"{file} {damage}: {outcome.kind}\n{outcome.text}"
        if (name, damage) not in UNNAMED:
            assert Path(file).name in outcome.text, f"{file} {damage}: it is not named\n{outcome.text}"

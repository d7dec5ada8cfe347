"""Damage to what is known of ended queries and of sinks is said, by the name of the file; or it does no harm.

`ended.sqlite` has the records of queries that have ended, `sinks/*.json` how far each sink has got, and `identity.json`
by which name the directories of sinks know the state directory.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from tests.property.damage import DAMAGES, damaged_copy, judge
from tests.property.queries_beside import Queries, build, fresh_sinks, go_on, sinks_of

NAMES = ("ended.sqlite", "sinks/*.json", "identity.json")
FLIPS = {"ended.sqlite": 40}
"""Single bits; of a database most are in pages that nobody looks at."""


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Queries]:
    """A state directory, its sinks as they were, and what comes of both when they are whole."""
    base = tmp_path_factory.mktemp("queries")
    root, saved = base / "state", base / "saved"
    build(root)
    shutil.copytree(base / "out", saved)
    shutil.copytree(root, base / "whole")
    expected = go_on(base / "whole")
    assert len(expected.records) == 3 + 12
    assert all(expected.latest)
    assert [len(files) for files in expected.delivered] == [19, 19]
    assert [folder.name for folder in sinks_of(root)] == ["first", "second"]
    return root, saved, expected


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", NAMES)
def test_damage_to_what_is_known_of_queries_is_said_or_does_no_harm(
    story: tuple[Path, Path, Queries], name: str, damage: str
) -> None:
    root, saved, expected = story
    chosen = [str(path.relative_to(root)) for path in sorted(root.glob(name))]
    assert chosen
    draw = random.Random(f"{name} {damage}")
    times = FLIPS.get(name, 5) if damage == "flipped" else 1
    for number, file in enumerate(each for each in chosen for _ in range(times)):
        target = root.parent / f"copy-{number}"
        damaged_copy(root, target, file, DAMAGES[damage]((root / file).read_bytes(), draw))
        fresh_sinks(saved, root)
        outcome = judge(target, expected, go_on)
        shutil.rmtree(target)
        assert outcome.kind in ("said", "right"), f"{file} {damage}: {outcome.kind}\n{outcome.text}"
        if outcome.kind == "said":
            assert Path(file).name in outcome.text, f"{file} {damage}: another file is named\n{outcome.text}"

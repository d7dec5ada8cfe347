"""Damage to any file of a state directory is said, and by its name; or it does no harm. Nothing is lost silently.

`WEFT_DAMAGE_CASES=20 pytest tests/property/test_damage.py` tries so many files of each kind, and so many flips of each.
"""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest

from tests.property.damage import DAMAGES, Results, build, damaged_copy, files_by_kind, go_on, judge, small_sizes
from weft.storage import directory

CASES = int(os.environ.get("WEFT_DAMAGE_CASES", "1"))
KINDS = (
    *("bucket", "merged", "windows", "combinations", "intermediate", "sessions", "pairs", "copied rows"),
    *("changelog", "commits", "checkpoints", "packs", "streams", "head", "format.json"),
    *("identity.json", "ended.sqlite"),
)


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Results]:
    """A state directory, and what comes of it when it is whole."""
    base = tmp_path_factory.mktemp("damage")
    with small_sizes():
        build(base / "state").core.directory.close()
        shutil.copytree(base / "state", base / "whole")
        expected = go_on(base / "whole")
    assert all(sum(rows.values()) for rows in expected.values())
    return base / "state", expected


def test_there_is_a_file_of_every_kind(story: tuple[Path, Results]) -> None:
    assert set(files_by_kind(story[0])) == set(KINDS)


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("kind", KINDS)
def test_damage_is_said_or_does_no_harm(
    story: tuple[Path, Results], tmp_path: Path, kind: str, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(directory.os, "fsync", lambda _: None)  # it is the same disk for all, and nobody pulls the plug
    root, expected = story
    draw = random.Random(f"{kind} {damage}")
    names = files_by_kind(root)[kind]
    chosen = draw.sample(names, min(CASES, len(names)))
    if damage == "flipped":
        chosen = [name for name in chosen for _ in range(CASES + 2)]
    for number, name in enumerate(chosen):
        data = DAMAGES[damage]((root / name).read_bytes(), draw)
        target = tmp_path / str(number)
        damaged_copy(root, target, name, data)
        with small_sizes():
            outcome = judge(target, expected)
        shutil.rmtree(target)
        assert outcome.kind in ("said", "right"), f"{name} {damage}: {outcome.kind}\n{outcome.text}"
        if outcome.kind == "said":
            assert Path(name).name in outcome.text, f"{name} {damage}: another file is named\n{outcome.text}"


def test_a_directory_that_is_whole_is_right(story: tuple[Path, Results], tmp_path: Path) -> None:
    root, expected = story
    shutil.copytree(root, tmp_path / "copy")
    with small_sizes():
        outcome = judge(tmp_path / "copy", expected)
    assert outcome.kind == "right", outcome.text

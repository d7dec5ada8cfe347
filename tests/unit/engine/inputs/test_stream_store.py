"""Names, and declarations of streams on disk."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.engine_sample import stream
from weft.engine.inputs.stream_store import check_name, load_streams, save_stream
from weft.errors import InvalidName, StateCorrupt
from weft.plan.stream import FileSource, Format, FrameSource, Stream
from weft.plan.types import DataType, Field, Kind, Schema
from weft.storage.directory import Directory

KINDS = st.sampled_from([kind for kind in Kind if kind not in (Kind.DECIMAL, Kind.OTHER)])
TYPES = st.one_of(
    st.builds(DataType, KINDS),
    st.builds(lambda p, s: DataType(Kind.DECIMAL, p, min(p, s)), st.integers(1, 38), st.integers(0, 38)),
    st.just(DataType(Kind.OTHER, text="array<struct<a:int>>")),
)
FIELDS = st.lists(st.builds(Field, st.text(min_size=1, max_size=8), TYPES), max_size=4).map(tuple)
DURATIONS = st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=36_500))
OPTIONS = st.dictionaries(st.text(max_size=4), st.text(max_size=4), max_size=3).map(lambda o: tuple(sorted(o.items())))
SOURCES = st.just(FrameSource()) | st.builds(
    FileSource,
    st.text(min_size=1, max_size=9),
    st.sampled_from(Format),
    st.none() | st.integers(1, 99),
    OPTIONS,
    st.sampled_from(["quarantine", "fail"]),
)
NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,20}", fullmatch=True)
DECLARED = st.builds(
    Stream, NAMES, st.builds(Schema, FIELDS), st.text(max_size=4), DURATIONS, st.none() | DURATIONS, SOURCES,
    max_ahead=st.none() | DURATIONS,
)  # fmt: skip


@given(st.lists(DECLARED, max_size=3, unique_by=lambda each: each.name))
@settings(max_examples=12)
def test_declarations_survive(tmp_path_factory: pytest.TempPathFactory, streams: list[Stream]) -> None:
    directory = Directory.open(tmp_path_factory.mktemp("streams"))
    for each in streams:
        save_stream(directory, each)
    assert load_streams(directory) == {each.name: each for each in streams}
    directory.close()


def test_a_declaration_that_cannot_be_read_is_corrupt(tmp_path: Path) -> None:
    directory = Directory.open(tmp_path)
    save_stream(directory, stream("a"))
    directory.path("streams", "a.json").write_bytes(b'{"name": "a", ')
    with pytest.raises(StateCorrupt, match=r"a\.json"):
        load_streams(directory)


@given(NAMES)
def test_plain_names_are_allowed(name: str) -> None:
    assert check_name("query", name) == name


@pytest.mark.parametrize(
    "name",
    ["", " ", "a b", "a/b", "../a", ".a", "-a", "a\n", "a`b", "a'b", 'a"b', "é", "¹", "a" * 129, "a;b", "a\x00", "*"],
)
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(InvalidName, match=r"stream name .* is not allowed"):
        check_name("stream", name)


def test_the_longest_name_is_allowed() -> None:
    assert check_name("query", "a" * 128)

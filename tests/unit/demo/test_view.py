"""The view fits every screen, and says what it is given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from io import StringIO

import pytest
from rich.cells import cell_len
from rich.console import Console

from weft.demo.count import Counted
from weft.demo.observe import Figures, Latency, QueryFigures, Sharing, StreamFigures
from weft.demo.view import Screen, clock_text, progress_line, queries_that_fit, short, sparkline

NOON = datetime(2026, 1, 2, 12, 0, 0, 750_000, tzinfo=UTC)


def query(number: int, state: str = "live") -> QueryFigures:
    brief = "p⋈a RANGE 4s: p.price BETWEEN 54.00 AND 65.99 AND a.gemPack IN (12, 13, 14) " * 2
    start = NOON if number else None
    counted = Counted(1_234_567 * number, 17.4)
    return QueryFigures(f"tumble-{number}", brief, state, timedelta(seconds=number), start, counted)


def figures(queries: int = 5) -> Figures:
    joins = tuple((f"ads ⋈ purchases on key{number}, userID", 40 - number) for number in range(5))
    return Figures(
        elapsed=timedelta(seconds=31.5),
        duration=timedelta(seconds=60),
        batch=30,
        streams=tuple(
            StreamFigures(name, 123_456_789, 10_012.3, 321, NOON if name == "ads" else None)
            for name in ("purchases", "ads")
        ),
        queries=tuple(query(number) for number in range(queries)),
        live=queries,
        created=71,
        ended=33,
        result_rows=99,
        sharing=Sharing(joins, joins, 246_913_578, 7_246_913_578),
        latency=Latency((0.5, 0.75, 1.0) * 40, (1.2,), (0.1,)),
    )


def drawn(shown: Figures, width: int, height: int) -> list[str]:
    console = Console(file=StringIO(), width=width, height=height, force_terminal=True, color_system=None)
    return [
        "".join(segment.text for segment in line).rstrip()
        for line in console.render_lines(Screen(shown), console.options.update(height=None), pad=False)
    ]


@pytest.mark.parametrize("queries", [0, 1, 9, 10, 11, 12, 26, 27, 28, 400])
@pytest.mark.parametrize(("width", "height"), [(80, 24), (120, 40), (60, 20), (200, 60)])
def test_it_fits(width: int, height: int, queries: int) -> None:
    lines = drawn(figures(queries), width, height)
    assert len(lines) <= height
    assert max(map(cell_len, lines)) <= width


@pytest.mark.parametrize(("width", "height"), [(80, 24), (120, 40)])
def test_it_shows_what_there_is(width: int, height: int) -> None:
    text = "\n".join(drawn(figures(), width, height))
    for word in (
        "31 of 60 s",
        "5 queries live, 71 came, 33 left",
        "10,012",
        "123,456,789",
        "321",
        "12:00:00.7",
        "batch 0.75 s",
        "event to result 1.20 s",
        "create to live 0.10 s",
        "246.91 M rows read once; 7.25 G if each query ran apart (29.4 ×)",
        "40 × ads ⋈ purchases on key0, userID",
        "more",
        "tumble-4",
        "4.94 M",
        "p⋈a RANGE 4s",
        "all",
    ):
        assert word in text, word
    assert ("rows/s  asks for" in text) == (width >= 100)


def test_those_that_do_not_fit_are_counted() -> None:
    lines = drawn(figures(40), 80, 24)
    assert lines[-1] == f"and {40 - queries_that_fit(24)} more that came earlier"
    assert sum("tumble-" in line for line in lines) == queries_that_fit(24)


@pytest.mark.parametrize("state", ["pending", "live", "dropped", "failed"])
def test_every_state_can_be_shown(state: str) -> None:
    shown = replace(figures(), queries=(query(9, state),))
    assert any(state in line for line in drawn(shown, 80, 24))


def test_pending_queries_are_complete_from_nowhere_yet() -> None:
    shown = replace(figures(), queries=(query(0, "pending"),))
    assert not any(" all " in line for line in drawn(shown, 80, 24))


def test_without_figures_yet() -> None:
    empty = replace(
        figures(0),
        duration=None,
        latency=Latency((), (), ()),
        sharing=Sharing((), (), 0, 0),
        queries=(replace(query(1), rows=None),),
    )
    text = "\n".join(drawn(empty, 80, 24))
    assert "Ctrl-C to stop" in text
    assert "0 rows read once" in text


def test_a_progress_line_is_one_line() -> None:
    line = progress_line(figures())
    assert "\n" not in line
    for word in ("32 s", "batch 30", "20,025 rows/s", "642 late", "5 queries (71 came, 33 left)", "246.91 M"):
        assert word in line


@pytest.mark.parametrize(
    ("function", "value", "expected"),
    [
        (sparkline, [], ""),
        (sparkline, [0.0], ""),
        (sparkline, [0.0, 0.5, 1.0], "▁▅█"),
        (short, 0, "0"),
        (short, 999_999, "999,999"),
        (short, 12_345_678, "12.35 M"),
        (short, 12_345_678_901, "12.35 G"),
        (clock_text, None, "–"),
        (clock_text, NOON, "12:00:00.7"),
    ],
)
def test_small_texts(function: Callable[[object], str], value: object, expected: str) -> None:
    assert function(value) == expected

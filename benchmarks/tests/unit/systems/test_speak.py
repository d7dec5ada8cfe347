from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TextIO

import numpy as np
import pyarrow as pa
import pytest

from tests.meta.project import ROOT
from weft_bench.driver.messages import (
    Answer,
    Command,
    Create,
    Drop,
    Failed,
    Figures,
    Live,
    Message,
    Order,
    QueryOrder,
    Ready,
    Refused,
    Report,
    Stop,
    from_line,
    to_line,
)
from weft_bench.paths import python_path
from weft_bench.systems.speak import Line, describe, newest_counts, serve

ORDER = Order((), "scratch", 0.0, 1, 1)
BASE = datetime(2024, 1, 1, tzinfo=UTC)
MICROS = int(BASE.timestamp()) * 1_000_000


class Broken(TextIO):
    """Where nobody listens any more."""

    def write(self, text: str) -> int:
        raise BrokenPipeError

    def flush(self) -> None:
        raise BrokenPipeError


class Noted:
    """A system that does nothing but remember."""

    def __init__(self, line: Line) -> None:
        self.line = line
        self.done: list[str] = []

    def create(self, queries: tuple[QueryOrder, ...]) -> None:
        if queries[0].text == "wrong":
            raise ValueError("cannot be\nexpressed")
        if queries[0].text == "fatal":
            self.line.fail("out of memory")
            self.line.fail("and more")
            return
        self.line.say(Live(tuple(query.name for query in queries), 1.0))

    def drop(self, names: tuple[str, ...]) -> None:
        raise KeyError(names[0])

    def figures(self) -> Figures:
        return Figures(state_bytes=7)


def talk(*said: Command | str) -> tuple[int, list[Message | None], list[str]]:
    """Serve these lines; the status, the answers, and what was seen of the system's life."""
    life: list[str] = []

    @contextmanager
    def start(order: Order, line: Line) -> Iterator[Noted]:
        life.append(f"started in {order.scratch}")
        yield Noted(line)
        life.append("ended")

    lines = [each if isinstance(each, str) else to_line(each) for each in said]
    outgoing = io.StringIO()
    status = serve(Line(io.StringIO("".join(f"{line}\n" for line in lines)), outgoing), start)
    return status, [from_line(line) for line in outgoing.getvalue().splitlines()], life


def test_a_system_is_ordered_asked_and_stopped() -> None:
    query = QueryOrder("q", "SELECT 1")
    status, answers, life = talk(ORDER, "noise", Create((query,)), Report(), Stop(), Report())
    assert status == 0
    assert answers == [Ready(), Live(("q",), 1.0), Figures(state_bytes=7)]
    assert life == ["started in scratch", "ended"]


def test_the_end_of_the_driver_is_a_stop() -> None:
    status, answers, life = talk(ORDER)
    assert (status, answers) == (0, [Ready()])
    assert life[-1] == "ended"


def test_a_request_that_fails_is_refused_and_the_system_goes_on() -> None:
    status, answers, _ = talk(ORDER, Create((QueryOrder("q", "wrong"),)), Drop(("p",)), Report(), Stop())
    assert status == 0
    assert answers[1:] == [
        Refused(("q",), "ValueError: cannot be"),
        Refused(("p",), "KeyError: 'p'"),
        Figures(state_bytes=7),
    ]


def test_a_system_that_cannot_go_on_says_so_once_and_ends_with_another_status() -> None:
    status, answers, life = talk(ORDER, Create((QueryOrder("q", "fatal"),)))
    assert status == 1
    assert answers == [Ready(), Failed("out of memory")]
    assert life[-1] == "ended"


@pytest.mark.parametrize("first", [Report(), '@bench {"say": "nonsense"}', '@bench {"say": "drop"}'])
def test_what_does_not_begin_with_an_order_fails(first: Command | str) -> None:
    status, answers, life = talk(first)
    assert status == 1
    assert isinstance(answers[0], Failed)
    assert life == []


def test_a_system_that_cannot_start_fails() -> None:
    @contextmanager
    def start(order: Order, line: Line) -> Iterator[Noted]:
        raise RuntimeError("no Java")
        yield Noted(line)

    outgoing = io.StringIO()
    assert serve(Line(io.StringIO(to_line(ORDER) + "\n"), outgoing), start) == 1
    assert from_line(outgoing.getvalue().strip()) == Failed("RuntimeError: no Java")


def test_if_nobody_listens_the_commands_end() -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading, encoding="utf-8") as incoming:
        line = Line(incoming, Broken())
        line.say(Ready())
        assert list(line.commands()) == []
        os.close(writing)


def test_libraries_cannot_print_between_the_lines() -> None:
    program = (
        "import os, subprocess, sys; from weft_bench.systems.speak import standard_line; "
        "from weft_bench.driver.messages import Ready; line = standard_line(); print('loud', flush=True); "
        "subprocess.run([sys.executable, '-c', 'print(1)']); os.write(1, b'raw'); line.say(Ready())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": python_path()},
        cwd=ROOT,
        input="",
        capture_output=True,
        text=True,
        check=True,
    )
    answer: Answer = Ready()
    assert done.stdout == to_line(answer) + "\n"
    assert "loud" in done.stderr
    assert "raw" in done.stderr


def times(*milliseconds: int | None) -> pa.Array:
    values = [None if each is None else BASE + timedelta(milliseconds=each) for each in milliseconds]
    return pa.array(values, pa.timestamp("us", "UTC"))


def test_event_times_are_rounded_down_to_ten_milliseconds() -> None:
    assert newest_counts(times(0, 9, 10, 19, 25)) == ((MICROS, 2.0), (MICROS + 10_000, 2.0), (MICROS + 20_000, 1.0))


def test_the_event_time_of_a_row_is_its_largest() -> None:
    table = pa.table({"a": times(5, 40, None, None), "b": times(30, 10, 20, None)})
    assert newest_counts(table["a"], table["b"]) == (
        (MICROS + 20_000, 1.0),
        (MICROS + 30_000, 1.0),
        (MICROS + 40_000, 1.0),
    )


def test_rows_far_apart_and_other_units_are_counted_too() -> None:
    seconds = pa.chunked_array([pa.array([0, 86_400 * 365], pa.timestamp("s")), pa.array([0], pa.timestamp("s"))])
    assert newest_counts(seconds) == ((0, 2.0), (86_400 * 365 * 1_000_000, 1.0))


def test_counts_are_those_of_counting_one_by_one() -> None:
    rng = np.random.default_rng(3)
    micros = MICROS + rng.integers(0, 3_000_000, 20_000)
    expected: dict[int, float] = {}
    for each in micros:
        expected[int(each) // 10_000 * 10_000] = expected.get(int(each) // 10_000 * 10_000, 0) + 1
    assert dict(newest_counts(pa.array(micros, pa.timestamp("us")))) == expected


def test_nothing_has_no_event_times() -> None:
    assert newest_counts() == ()
    assert newest_counts(times()) == ()
    assert newest_counts(times(None)) == ()


def test_an_error_is_a_line() -> None:
    assert describe(ValueError("a\nb")) == "ValueError: a"
    assert describe(ValueError()) == "ValueError: no message"
    assert len(describe(ValueError("x" * 9_999))) == 500

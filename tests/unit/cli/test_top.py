"""`weft top`: one look, and the live view."""

from __future__ import annotations

import json
import os
import pty
import termios
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from rich.console import Console

from tests.support.cli_fake import FakeBackend, query, run, tick
from weft.cli import top as top_module
from weft.cli.top import View, watch
from weft.errors import EngineStopped

Backend = Callable[..., FakeBackend]


def drawn(view: View, height: int = 30) -> list[str]:
    console = Console(width=100, height=height, force_terminal=True, color_system=None)
    with console.capture() as captured:
        console.print(view, height=height)
    return [line.rstrip() for line in captured.get().splitlines()]


def view(*ticks: dict[str, Any], **histories: list[float | None]) -> View:
    made = View(histories)
    for each in ticks:
        made.take(each)  # type: ignore[arg-type]
    return made


def test_one_look_if_nobody_watches(backend: Backend) -> None:
    backend(ticks=[tick(big={}, bigger={"rows_per_second": 99.0})], queries=[query()])
    done = run("top")
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert lines[0].startswith("weft running  batch 7  4,200 rows/s  latency 0.25 s  2 queries live")
    assert [line.split()[0] for line in lines if line][1:] == ["stream", "purchases", "query", "bigger", "big"]


def test_one_look_as_json(backend: Backend) -> None:
    backend(ticks=[tick(big={}), tick(8)])
    assert json.loads(run("top", "--json").stdout) == tick(big={})


def test_without_an_engine_there_is_nothing_to_see(backend: Backend) -> None:
    backend(ticks=EngineStopped("no engine is working on this path"))
    assert run("top").exit_code == 8


@pytest.mark.parametrize("arguments", [(), ("--json",)])
def test_an_engine_that_is_not_there_yet_is_said(backend: Backend, arguments: tuple[str, ...]) -> None:
    starting = {"status": None, "state": "starting", "error": ""}
    backend(ticks=[starting], queries=[])
    done = run("top", *arguments)
    assert (done.exit_code, done.stdout) == (8, "")
    assert "the engine is starting" in done.stderr
    assert drawn(view(tick(), starting)) == ["the engine is starting"]


def test_latencies_become_a_line() -> None:
    shown = drawn(view(tick(big={"latency_seconds": 0.8}), tick(big={"latency_seconds": 0.2}), big=[0.1, None]))
    assert shown[-1].endswith("▂ █▃")


def test_only_as_many_queries_as_fit_are_drawn() -> None:
    shown = drawn(view(tick(**{f"q{number}": {} for number in range(50)})), height=12)
    assert len(shown) <= 12
    assert shown[-1] == "and 45 more"


def test_why_a_query_failed_is_drawn_in_place_of_its_line() -> None:
    assert drawn(view(tick(big={"state": "failed", "error": "division\nby zero"})))[-1].endswith("division\\nby zero")


def test_what_the_engine_lacks_is_in_the_first_line() -> None:
    failing = tick()
    failing["status"] |= {"state": "failed", "error": "disk full", "pending": 2, "failed": 1}
    assert "weft failed" in drawn(view(failing))[0]
    assert "0 queries live, 2 pending, 1 failed  disk full" in drawn(view(failing))[0]


def test_before_the_first_tick_it_waits() -> None:
    assert drawn(view()) == ["waiting for the first batch …"]


def test_it_is_drawn_after_every_tick_until_q() -> None:
    drawings: list[list[str]] = []
    enough = threading.Event()

    def ticks() -> Iterator[Any]:
        yield from (tick(1), tick(2))
        enough.wait(60)

    made = view()

    def key(_: float) -> str:
        return "Q" if len(drawings) == 3 else ""

    watch(ticks(), made, key=key, draw=lambda: drawings.append(drawn(made)))
    enough.set()
    assert ["batch" in each[0] and each[0].split()[3] for each in drawings] == ["first", "1", "2"]


def test_an_error_while_watching_is_raised() -> None:
    def ticks() -> Iterator[Any]:
        yield tick()
        raise EngineStopped("the engine has failed")

    with pytest.raises(EngineStopped):
        watch(ticks(), view(), key=lambda _: "", draw=lambda: None)


def test_it_ends_when_there_are_no_more_ticks() -> None:
    watch(iter([]), view(), key=lambda _: "", draw=lambda: None)


def test_keys_are_read_without_enter_and_the_terminal_is_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    master, slave = pty.openpty()
    with open(slave, encoding="utf-8") as terminal, open(master, "wb", buffering=0) as keyboard:
        monkeypatch.setattr("sys.stdin", terminal)
        before = termios.tcgetattr(slave)
        with top_module._keys() as key:
            assert key(0.0) == ""
            keyboard.write(b"q")
            assert key(60.0) == "q"
        assert termios.tcgetattr(slave) == before


def test_without_a_keyboard_it_only_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    with open(os.devnull, encoding="utf-8") as nothing:
        monkeypatch.setattr("sys.stdin", nothing)
        with top_module._keys() as key:
            assert key(0.0) == ""

"""`weft top`: a live view of the engine, its streams and its busiest queries."""

from __future__ import annotations

import os
import queue
import select
import sys
import termios
import threading
import tty
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.live import Live
from rich.table import Table
from rich.text import Text

from weft.cli import show
from weft.cli.command import CommandSession, screen, shared, write_json
from weft.errors import EngineStopped

if TYPE_CHECKING:
    from weft.service.http.shapes import Tick

_POINTS = 24
_LOOK_EVERY = 0.25
_LINES_BESIDES = 6
"""Lines of the screen besides those of streams and queries."""


class View:
    """The last tick and the recent latencies of each query, fitted to the height of the screen."""

    def __init__(self, histories: Mapping[str, list[float | None]]) -> None:
        self._histories = {name: deque(values, maxlen=_POINTS) for name, values in histories.items()}
        self._tick: Tick | None = None
        self._instead = "waiting for the first batch …"

    def take(self, tick: Tick) -> None:
        """Show `tick` from now on."""
        if (stopped := _stopped(tick)) is not None:
            self._tick, self._instead = None, f"{stopped.message} {stopped.detail}".strip()
            return
        self._tick = tick
        before, self._histories = self._histories, {}
        for name, query in tick["queries"].items():
            history = self._histories[name] = before.get(name, deque(maxlen=_POINTS))
            history.append(query["latency_seconds"])

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if self._tick is None:
            yield Text(show.visible(self._instead), style="dim")
            return
        height = options.height or (console.size.height if console.is_terminal else 10_000)
        room = max(1, height - _LINES_BESIDES - len(self._tick["streams"]))
        yield Group(_head(self._tick["status"]), Text(), _streams(self._tick["streams"]), Text(), self._queries(room))

    def _queries(self, room: int) -> Group:
        assert self._tick is not None
        busiest = sorted(self._tick["queries"].items(), key=lambda item: (-(item[1]["rows_per_second"] or 0), item[0]))
        table = show.grid("query", "state", right=("rows/s", "rows", "latency"))
        table.add_column("", no_wrap=True)
        for name, query in busiest[:room]:
            table.add_row(
                Text(name, style="cyan"),
                Text(query["state"], style=show.STYLES.get(query["state"], "")),
                show.count(query["rows_per_second"]),
                show.count(query["rows"]),
                show.seconds(query["latency_seconds"]),
                Text(show.visible(query["error"]), style="red")
                if query["error"]
                else Text(show.sparkline(list(self._histories[name])), style="green"),
            )
        hidden = len(busiest) - room
        return Group(table, *([Text(f"and {hidden} more", style="dim")] if hidden > 0 else []))


def _stopped(tick: Mapping[str, Any]) -> EngineStopped | None:
    """Return an error if a tick has no status, because the engine is starting or has failed; else None."""
    if tick["status"]:
        return None
    return EngineStopped(f"the engine is {tick['state']}", detail=tick["error"])


def _first(ticks: Iterator[Tick]) -> Tick:
    tick = next(ticks)
    if (stopped := _stopped(tick)) is not None:
        raise stopped
    return tick


def _head(status: Mapping[str, Any]) -> Text:
    style = {"running": "green", "failed": "red", "failing": "red", "stuck": "red"}.get(status["state"], "yellow")
    text = Text.assemble(("weft ", "bold cyan"), (status["state"], style), no_wrap=True, overflow="ellipsis")
    text.append(f"  batch {status['batch']}  {show.count(status['rows_per_second'])} rows/s")
    text.append(f"  latency {show.seconds(status['latency_seconds'])}  {status['live']} queries live", "bold")
    for state, color in (("pending", "yellow"), ("failed", "red")):
        if status[state]:
            text.append(f", {status[state]} {state}", color)
    if status["error"]:
        text.append(f"  {show.visible(status['error'])}", "red")
    return text.append("  q ends", "dim")


def _streams(streams: Mapping[str, Mapping[str, Any]]) -> Table:
    table = show.grid("stream", right=("rows/s", "rows"))
    for name, stream in sorted(streams.items()):
        table.add_row(Text(name, style="cyan"), show.count(stream["rows_per_second"]), show.count(stream["rows"]))
    return table


@shared
def top(session: CommandSession) -> None:
    """The engine, its streams and its busiest queries, live; one look if stdout is no terminal."""
    ticks = session.backend.ticks()
    if session.json:
        write_json(_first(ticks))
        return
    queries = session.backend.queries()
    view = View({query["name"]: [point["latency_seconds"] for point in query["history"]] for query in queries})
    if not sys.stdout.isatty():
        view.take(_first(ticks))
        screen().print(view)
        return
    with Live(view, console=Console(highlight=False), auto_refresh=False, screen=True) as live, _keys() as key:
        watch(ticks, view, key=key, draw=live.refresh)


def watch(ticks: Iterator[Tick], view: View, *, key: Callable[[float], str], draw: Callable[[], None]) -> None:
    """Draw the view after every tick, until q is pressed or the ticks end."""
    fresh: queue.SimpleQueue[Tick | BaseException | None] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(ticks, fresh), name="weft-top", daemon=True).start()
    draw()
    while "q" not in key(_LOOK_EVERY).lower():
        while not fresh.empty():
            match fresh.get():
                case None:
                    return
                case BaseException() as error:
                    raise error
                case tick:
                    view.take(tick)
                    draw()


def _read(ticks: Iterator[Tick], fresh: queue.SimpleQueue[Tick | BaseException | None]) -> None:
    """Put ticks into a queue; runs in a thread, because keys must not wait for ticks."""
    try:
        for tick in ticks:
            fresh.put(tick)
        fresh.put(None)
    except BaseException as error:
        fresh.put(error)


@contextmanager
def _keys() -> Iterator[Callable[[float], str]]:
    """Yield a function that waits some seconds for keys, without echo and Enter, and returns them ("" if none)."""
    if not sys.stdin.isatty():
        never = threading.Event()
        yield lambda seconds: "q" if never.wait(seconds) else ""
        return
    terminal = sys.stdin.fileno()
    saved = termios.tcgetattr(terminal)

    def pressed(seconds: float) -> str:
        ready, _, _ = select.select([terminal], [], [], seconds)
        return os.read(terminal, 64).decode(errors="replace") if ready else ""

    try:
        tty.setcbreak(terminal)
        yield pressed
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, saved)

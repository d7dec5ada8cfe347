from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from io import StringIO
from itertools import pairwise
from pathlib import Path
from typing import cast

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from weft.engine import Query
from weft_bench.arrivals import Arrival, FileFeed, LiveFeed, create_by_the_clock
from weft_bench.data import Load, file_of, generate
from weft_bench.deployment import Phase, Report, Spread, parse, phase, spread, to_json, to_tables
from weft_bench.measure import Batch


def report(*, p99: float, during: float) -> Report:
    times = Spread(0.1, p99, 3.0)
    return Report(1.0, 1000, 100.0, times, times, times, _phase(1000.0), _phase(during))


def _phase(rate: float) -> Phase:
    return Phase(rate, 10, 0.4, 0.6, 0)


@given(st.lists(st.floats(0, 1e6), min_size=1))
def test_percentiles_are_durations_that_were_seen(durations: list[float]) -> None:
    found = spread(durations)
    assert {found.p50, found.p99, found.largest} <= set(durations)
    assert found.p50 <= found.p99 <= found.largest == max(durations)


def test_percentiles_by_nearest_rank() -> None:
    assert spread([float(number) for number in range(1000, 0, -1)]) == Spread(500.0, 990.0, 1000.0)


def test_a_phase_is_measured_from_trigger_to_trigger() -> None:
    batches = [Batch(n, 10.0 + n, 0.3 + 0.1 * n, 50) for n in range(5)]
    found = phase(batches, 11.0, 14.0, files_waiting=1)
    assert (found.rows_per_second, found.batches, found.files_waiting) == (50.0, 3, 1)
    assert found.batch_seconds == pytest.approx(0.5)
    assert found.longest_batch_seconds == pytest.approx(0.6)


def test_a_phase_without_batches_has_no_rate() -> None:
    assert phase([], 0.0, 1.0, files_waiting=3) == Phase(0.0, 0, 0.0, 0.0, 3)
    assert phase([Batch(0, 0.5, 0.1, 9)], 0.0, 1.0, files_waiting=0).rows_per_second == 0.0


@pytest.mark.parametrize(("p99", "during", "met"), [(1.9, 900.0, (True, True)), (2.0, 899.0, (False, False))])
def test_bars(p99: float, during: float, met: tuple[bool, bool]) -> None:
    found = report(p99=p99, during=during)
    assert (found.in_time, found.undisturbed) == met
    value = json.loads(json.dumps(to_json(found)))
    assert (value["in_time"], value["undisturbed"]) == met
    assert value["to_live"]["p99"] == p99


def test_tables_show_milliseconds() -> None:
    console = Console(width=120, record=True, file=StringIO())
    for table in to_tables(report(p99=1.25, during=950.0)):
        console.print(table)
    text = console.export_text()
    assert "1,250.0" in text
    assert "950" in text


def test_default_settings_are_those_of_the_requirement() -> None:
    settings = parse([])
    assert (settings.running, settings.per_second, settings.seconds, settings.interval) == (20, 100.0, 10, 1.0)
    assert parse(["--interval", "0.5", "--rate", "1000"]).load == Load(500)


class Answer:
    """What `create` returns, as far as it is used: live when somebody says so."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.live = threading.Event()

    def wait_live(self, timeout: float | None = None) -> bool:
        return self.live.wait(timeout)


def as_create(create: Callable[[str], Answer]) -> Callable[[str], Query]:
    return cast("Callable[[str], Query]", create)


def test_calls_are_made_in_order_and_seen_to_be_live() -> None:
    called: list[str] = []

    def create(text: str) -> Answer:
        called.append(text)
        answer = Answer(text)
        answer.live.set()
        return answer

    texts = [f"q{number}" for number in range(20)]
    arrivals = create_by_the_clock(as_create(create), texts, per_second=1e9, patience=1.0)
    assert called == texts
    assert len(arrivals) == 20
    assert all(each.due <= each.called <= each.returned <= each.live for each in arrivals)


def test_a_query_that_never_comes_to_life_is_named() -> None:
    with pytest.raises(TimeoutError, match='query "q" was not live'):
        create_by_the_clock(as_create(Answer), ["q"], per_second=1.0, patience=0.01)


def test_what_a_call_raises_is_raised() -> None:
    def refuse(text: str) -> Answer:
        raise ValueError(text)

    with pytest.raises(ValueError, match="q"):
        create_by_the_clock(as_create(refuse), ["q"], per_second=1.0, patience=1.0)


def test_waiting_for_earlier_calls_counts() -> None:
    arrival = Arrival(due=1.0, called=1.5, returned=1.75, live=3.0)
    assert (arrival.latency, arrival.latency_since_due, arrival.call) == (1.5, 2.0, 0.25)


def test_files_arrive_in_order(tmp_path: Path) -> None:
    generate(tmp_path / "staged", Load(rate=5, keys=2), 3)
    feed = FileFeed(tmp_path / "staged", tmp_path / "in", seconds=3, interval=0.01)
    with feed:
        feed.join()
    assert feed.fed == 3
    for name in ("A", "B"):
        moved = sorted((tmp_path / "in" / name).iterdir(), key=lambda path: path.stat().st_mtime_ns)
        assert moved == [file_of(tmp_path / "in", name, second) for second in range(3)]


def test_live_files_hold_the_time_since_the_file_before(tmp_path: Path) -> None:
    with LiveFeed(tmp_path, Load(rate=50, keys=2), files=3, interval=0.05) as feed:
        feed.join()
    assert feed.fed == 3
    for name in ("A", "B"):
        spans = [pc.min_max(pq.read_table(file_of(tmp_path, name, number))["ts"]).as_py() for number in range(3)]
        assert all(before["max"] < after["min"] for before, after in pairwise(spans))
        assert abs(spans[-1]["max"].timestamp() - time.time()) < 60
        assert all(span["max"].timestamp() <= time.time() for span in spans)
    assert {path.name for path in tmp_path.iterdir()} == {"A", "B"}

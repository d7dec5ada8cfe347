from __future__ import annotations

import io
import queue
import threading
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.tests.unit.driver import tiny
from weft_bench.data import START
from weft_bench.driver import generator
from weft_bench.driver.generator import Files, Generator, Pace, file_of, run
from weft_bench.driver.profile import Constant, Sinusoid, Steps
from weft_bench.driver.releases import (
    Answer,
    Command,
    End,
    Factory,
    GeneratorOrder,
    Hold,
    Passed,
    Prepared,
    Rate,
    Released,
    Saturate,
    from_line,
    order_from_line,
    order_to_line,
    to_line,
)
from weft_bench.driver.rows import BLOCK, Rows
from weft_bench.driver.source import Source

BEGIN = int(START.timestamp()) * 1_000_000


def rows_of(make: object = tiny.make, *, rows_per_second: float = 1000.0) -> Rows:
    stream = replace(tiny.workload().streams[0], make=make)
    return Rows(stream, seed=1, rows_per_second=rows_per_second)


def started(folder: Path, **more: object) -> tuple[Generator, list[Released]]:
    said: list[Released] = []

    def say(answer: Answer) -> None:
        assert isinstance(answer, Released)
        said.append(answer)

    order = GeneratorOrder(tiny.FACTORY, str(folder), **more)  # type: ignore[arg-type]
    return Generator(Files(tiny.workload(), folder), order, say), said


def micros(folder: Path, stream: str, number: int) -> np.ndarray:
    return pq.read_table(file_of(folder, stream, number))["ts"].cast(pa.int64()).to_numpy()


def test_rows_are_the_same_however_they_are_cut() -> None:
    whole = rows_of().between(0, 2 * BLOCK + 7)
    one = rows_of()
    cut = pa.concat_tables([one.between(0, 1), one.between(1, BLOCK + 5), one.between(BLOCK + 5, 2 * BLOCK + 7)])
    assert whole.equals(cut)
    assert whole.schema.names == ["ts", "k", "v"]
    assert whole.schema.types == [pa.timestamp("us", "UTC"), pa.int64(), pa.int32()]


def test_event_times_go_on_where_values_repeat() -> None:
    rows = rows_of(rows_per_second=1000.0)  # thirty seconds are three blocks
    first, again = rows.between(0, 100), rows.between(3 * BLOCK, 3 * BLOCK + 100)
    assert first.drop(["ts"]).equals(again.drop(["ts"]))
    assert not rows.between(BLOCK, BLOCK + 100).drop(["ts"]).equals(first.drop(["ts"]))
    assert again["ts"].cast(pa.int64()).to_pylist()[:3] == [BEGIN + 30_000_000 + step for step in (0, 1000, 2000)]


def test_rows_that_depend_on_their_number_are_never_repeated() -> None:
    rows = rows_of(tiny.make_numbered)
    assert rows.between(95_000, 105_000)["k"].to_pylist() == list(range(95_000, 105_000))
    assert rows.between(105_000, 105_001)["k"].to_pylist() == [105_000]


def test_a_stream_that_does_not_make_its_columns_is_refused() -> None:
    with pytest.raises(ValueError, match=r'stream "A" makes \[\'k\'\]'):
        rows_of(lambda _rng, numbers: {"k": pa.array(numbers)})


def test_a_type_nobody_knows_is_refused() -> None:
    stream = replace(tiny.workload().streams[0], columns={"ts": "timestamp", "k": "money"})
    with pytest.raises(ValueError, match='column "k" of stream "A"'):
        Rows(stream, seed=1, rows_per_second=1.0)


def test_rows_are_due_by_the_clock() -> None:
    pace = Pace(base=100.0, began=50.0, rate=10.0, profile=Constant())
    assert [pace.position(moment) for moment in (49.0, 50.0, 51.5)] == [100.0, 100.0, 115.0]


def test_files_have_what_was_due_since_the_last(tmp_path: Path) -> None:
    made, said = started(tmp_path)
    assert made.obey(Rate(1000.0), 100.0)
    for moment in (100.25, 100.5, 101.5):
        assert not made.tick(moment, moment)
    assert [each.rows for each in said] == [
        {"A": (0, 62), "B": (0, 187)},
        {"A": (62, 125), "B": (187, 375)},
        {"A": (125, 375), "B": (375, 1125)},
    ]
    assert [each.due for each in said] == [(100.0, 100.25), (100.25, 100.5), (100.5, 101.5)]
    # Twenty thousand rows are a second of event time, whatever the rate.
    assert [each.event for each in said] == [
        (BEGIN, BEGIN + 12_500),
        (BEGIN + 12_500, BEGIN + 25_000),
        (BEGIN + 25_000, BEGIN + 75_000),
    ]
    for stream in "AB":
        times = np.concatenate([micros(tmp_path, stream, number) for number in range(3)])
        assert len(times) == said[-1].rows[stream][1]
        assert (np.diff(times) > 0).all()
        assert times[0] >= BEGIN
        assert times[-1] < BEGIN + 75_000
    assert not any((tmp_path / "_making").iterdir())


def test_no_file_is_without_rows(tmp_path: Path) -> None:
    made, said = started(tmp_path)
    made.obey(Rate(4.0), 100.0)
    for tick in range(1, 9):
        made.tick(100.0 + tick / 4, 100.0 + tick / 4)
    assert [each.rows["A"] for each in said] == [(0, 1), (1, 2)]
    assert [each.due for each in said] == [(100.0, 101.0), (101.0, 102.0)]


def test_a_new_rate_begins_with_a_new_file_and_a_break_is_nobodys_time(tmp_path: Path) -> None:
    made, said = started(tmp_path)
    made.obey(Rate(1000.0), 100.0)
    made.obey(Rate(2000.0), 100.1)
    made.obey(Hold(), 100.2)
    made.tick(150.0, 150.0)
    made.obey(Rate(1000.0), 200.0)
    made.tick(200.1, 200.1)
    assert [each.due for each in said] == [(100.0, 100.1), (100.1, 100.2), (200.0, 200.1)]
    assert [each.rows["B"][1] for each in said] == [75, 225, 300]


def test_a_profile_begins_again_with_every_rate(tmp_path: Path) -> None:
    made, said = started(tmp_path, profile=Steps(1.0, (1.0, 3.0)))
    for begin in (100.0, 110.0):
        made.obey(Rate(1000.0), begin)
        made.tick(begin + 1, begin + 1)
        made.tick(begin + 2, begin + 2)
        made.obey(Hold(), begin + 2)
    assert [each.rows["A"][1] - each.rows["A"][0] for each in said] == [250, 750, 250, 750]


def test_a_saturated_queue_is_filled_as_it_is_emptied(tmp_path: Path) -> None:
    made, said = started(tmp_path)
    made.obey(Saturate(ahead=1000, file=400), 100.0)
    while made.tick(100.0, 100.0):
        pass
    assert len(said) == 3
    made.obey(Passed(400), 100.1)
    while made.tick(100.2, 100.2):
        pass
    assert [each.rows["A"][1] for each in said] == [100, 200, 300, 400]
    made.obey(Rate(400.0), 101.0)
    made.tick(102.0, 102.0)
    assert said[-1].due == (101.0, 102.0)
    assert said[-1].rows["A"] == (400, 500)


def test_late_files_say_so(tmp_path: Path) -> None:
    made, said = started(tmp_path)
    now = time.time()
    made.obey(Rate(1000.0), now - 5)
    made.tick(now, now - 3)
    assert said[0].late >= 3


def test_the_loop_obeys_and_ticks_until_the_end(tmp_path: Path) -> None:
    made, said = started(tmp_path)
    commands: queue.Queue[Command] = queue.Queue()
    commands.put(Rate(100_000.0))
    timer = threading.Timer(0.3, commands.put, [End()])
    timer.start()
    run(made, commands, 0.05)
    timer.join()
    assert len(said) >= 2


@pytest.mark.parametrize("message", [Rate(5.0), Hold(), Saturate(1.0, 2.0), Passed(7), End(), Prepared()])
def test_messages_survive_their_lines(message: Command | Answer) -> None:
    assert from_line(to_line(message)) == message


def test_what_is_no_message_is_refused() -> None:
    for line in ('{"say": "hello"}', "[]", "7"):
        with pytest.raises(ValueError, match="no such message"):
            from_line(line)


def test_orders_survive_their_lines() -> None:
    order = GeneratorOrder(Factory("a:b", {"c": 1}), "feed", 0.5, Sinusoid(10, 0.5))
    assert order_from_line(order_to_line(order)) == order


def test_a_factory_gives_workloads_only() -> None:
    assert Factory(tiny.FACTORY.path, {"rows_per_second": 7}).load().rows_per_second == 7
    with pytest.raises(ValueError, match="gives QueryOrder, not a workload"):
        Factory("benchmarks.tests.unit.driver.tiny:query", {"name": "q"}).load()


def test_a_generator_whose_driver_is_gone_ends(tmp_path: Path) -> None:
    out = io.StringIO()
    generator.main(io.StringIO(order_to_line(GeneratorOrder(tiny.FACTORY, str(tmp_path))) + "\n"), out)
    assert out.getvalue() == to_line(Prepared()) + "\n"


def test_the_process_keeps_its_rate(tmp_path: Path) -> None:
    heard: queue.Queue[Answer] = queue.Queue()
    failures: list[str] = []
    log = tmp_path / "log"
    source = Source(GeneratorOrder(tiny.FACTORY, str(tmp_path), 0.1), log=log, hear=heard.put, failed=failures.append)
    try:
        assert heard.get(timeout=60) == Prepared()
        source.send(Rate(20_000.0))
        files = [each for _ in range(8) if isinstance(each := heard.get(timeout=60), Released)]
    finally:
        source.stop(5.0)
    assert failures == []
    assert [each.number for each in files] == list(range(8))
    for before, after in pairwise(files):
        assert before.due[1] == after.due[0]
    rows = sum(last - first for each in files for first, last in each.rows.values())
    assert rows == pytest.approx(20_000 * (files[-1].due[1] - files[0].due[0]), abs=2)


def test_a_generator_that_cannot_begin_says_why(tmp_path: Path) -> None:
    failures: queue.Queue[str] = queue.Queue()
    order = GeneratorOrder(Factory("weft_bench.driver.nowhere:workload"), str(tmp_path))
    source = Source(order, log=tmp_path / "log", hear=lambda _: None, failed=failures.put)
    try:
        assert "No module named 'weft_bench.driver.nowhere'" in failures.get(timeout=60)
    finally:
        source.stop(5.0)

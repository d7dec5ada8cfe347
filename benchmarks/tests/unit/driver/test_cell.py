"""The driver's own figures, with real processes: a system whose rate and delay are known is measured."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from benchmarks.tests.unit.driver import tiny
from weft_bench.driver.cell import run_cell
from weft_bench.driver.plan import Churned, Limits, Progress, Quiet, Saturated, Searched, Steady
from weft_bench.driver.releases import Factory
from weft_bench.driver.schedule import Waves, all_at_once
from weft_bench.record import Cell, Run, from_json, to_json

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(300)]
RATE = 20_000
FIVE_PER_CENT = 0.05


def test_latencies_of_a_known_delay_are_measured_within_five_per_cent(tmp_path: Path) -> None:
    delay, capacity, rate = 3.0, 40_000, 10_000
    told: list[Progress] = []
    settings = {"delay": str(delay), "capacity": str(capacity), "create": "1"}
    cell = run_cell(
        tiny.plan(tmp_path, queries=3, settings=settings, phases=(Steady(seconds=5, rate=rate),)), tell=told.append
    )
    assert cell.failure == ""
    # A row waits for its file, half of the interval on average, and for the rows of the file to be passed.
    passing = 0.25 * rate / capacity
    assert cell.event_latency is not None
    assert cell.event_latency.average == pytest.approx(0.25 / 2 + passing + delay, rel=2 * FIVE_PER_CENT)
    assert cell.event_latency.p50 == pytest.approx(0.25 / 2 + passing + delay, rel=FIVE_PER_CENT)
    assert cell.event_latency.count == pytest.approx(rate * 5 * 0.75, rel=FIVE_PER_CENT)
    assert cell.processing_latency is not None
    assert cell.processing_latency.average == pytest.approx(passing + delay, rel=FIVE_PER_CENT)
    assert cell.deployment is not None
    assert (cell.deployment.count, cell.deployment.least) == (3, pytest.approx(1.0, rel=0.5))
    assert cell.peak_memory > 0
    assert cell.samples
    assert "steady" in {each.phase for each in told}
    assert max(each.queries for each in told) == 3
    assert from_json(to_json(Run("e", "t", "now", {}, {}, (cell,)))).cells == (cell,)
    assert {each.name for each in tmp_path.iterdir()} == {"system.log", "generator.log"}


def test_throughput_with_a_queue_that_is_never_empty_is_measured_within_five_per_cent(tmp_path: Path) -> None:
    plan = tiny.plan(
        tmp_path, queries=4, settings={"capacity": str(RATE)}, phases=(Saturated(seconds=6),), guess=RATE / 2
    )
    cell = run_cell(plan, tell=lambda _: None)
    assert cell.failure == ""
    assert cell.slowest == pytest.approx(RATE, rel=FIVE_PER_CENT)
    assert cell.overall == pytest.approx(4 * RATE, rel=FIVE_PER_CENT)


def test_the_sustainable_rate_is_found_within_five_per_cent(tmp_path: Path) -> None:
    settings = {"delay": "0.1", "capacity": str(RATE)}
    plan = tiny.plan(tmp_path, settings=settings, phases=(Searched(seconds=4),), guess=1.04 * RATE)
    cell = run_cell(plan, tell=lambda _: None)
    assert cell.failure == ""
    assert cell.sustainable == pytest.approx(RATE, rel=FIVE_PER_CENT)
    assert {attempt.sustained for attempt in cell.attempts} == {True, False}
    for attempt in cell.attempts:
        if attempt.rate < 0.97 * RATE:
            assert attempt.sustained, attempt
        if attempt.rate > 1.06 * RATE:
            assert not attempt.sustained, attempt


def test_a_system_that_falls_behind_is_found_out(tmp_path: Path) -> None:
    settings = {"delay": "0.1", "capacity": str(RATE / 2)}
    phases = (Searched(seconds=3, attempts=1),)
    cell = run_cell(tiny.plan(tmp_path, settings=settings, phases=phases, guess=RATE / 0.95), tell=lambda _: None)
    assert "no sustainable rate" in cell.failure
    (attempt,) = cell.attempts
    assert not attempt.sustained
    assert attempt.rate == pytest.approx(RATE, rel=FIVE_PER_CENT)
    assert attempt.pulled == pytest.approx(RATE / 2, rel=FIVE_PER_CENT)
    # What comes out in a second was due within half a second.
    assert attempt.growth == pytest.approx(0.5, rel=0.1)
    assert "latency grew" in attempt.why


def test_a_full_queue_ends_an_attempt_even_if_nobody_looks_at_results(tmp_path: Path) -> None:
    plan = tiny.plan(
        tmp_path,
        settings={"capacity": str(RATE / 2)},
        phases=(Searched(seconds=30, attempts=1),),
        guess=RATE / 0.95,
        limits=Limits(start=60, queue=1.0),
        opening=all_at_once([tiny.query("silent")]),
    )
    cell = run_cell(plan, tell=lambda _: None)
    (attempt,) = cell.attempts
    assert "queue full" in attempt.why
    assert attempt.latency is None
    assert max(sample.waiting for sample in cell.samples) < 4 * RATE


def test_requests_in_waves_are_measured_beside_the_oldest_query(tmp_path: Path) -> None:
    plan = tiny.plan(
        tmp_path,
        settings={"delay": "0.5", "create": "0.2", "drop": "0.1", "readers": "each"},
        phases=(Quiet(seconds=2, rate=5000), Churned(seconds=5, rate=5000), Saturated(seconds=3, churning=True)),
        waves=Waves(number=2, every=1.0, living=1.5),
        pool=(tiny.query("wave"),),
        queries=4,
    )
    cell = run_cell(plan, tell=lambda _: None)
    assert cell.failure == ""
    assert cell.queries == 4
    for latency in (cell.latency_before, cell.latency_during):
        assert latency is not None
        assert 0.5 <= latency.average <= 1.5
    assert cell.deployment is not None
    assert cell.removal is not None
    assert cell.deployment.count >= 10
    assert cell.deployment.least >= 0.2
    assert cell.removal.count == cell.deployment.count
    assert cell.refused == 0
    assert cell.query_throughput == pytest.approx(2.0, rel=0.5)
    assert max(sample.queries for sample in cell.samples) >= 3
    assert cell.slowest is not None


def failing(folder: Path, **more: object) -> Cell:
    phases = (Steady(seconds=2, rate=5000), Steady(seconds=60, rate=5000))
    limits = Limits(start=60, request=1.0, opening=30)
    return run_cell(
        tiny.plan(folder, **({"settings": {}, "phases": phases, "limits": limits} | more)),  # type: ignore[arg-type]
        tell=lambda _: None,
    )


def test_what_was_measured_before_a_failure_is_kept(tmp_path: Path) -> None:
    cell = failing(tmp_path, settings={"fail_after": "25000"})
    assert cell.failure == "fake: this was one row too many"
    assert cell.event_latency is not None
    assert cell.samples


def test_a_system_that_dies_is_reported_with_its_last_words(tmp_path: Path) -> None:
    cell = failing(tmp_path, settings={"die_after": "5000"})
    assert "the system ended with status 3" in cell.failure
    assert "there is no way on from here" in cell.failure


def test_queries_that_are_refused_fail_the_cell(tmp_path: Path) -> None:
    cell = failing(tmp_path, settings={"refuse": "q"})
    assert cell.failure == "1 of 1 queries did not become live: fake: refused"
    assert cell.refused == 1


def test_queries_that_are_never_answered_fail_the_cell(tmp_path: Path) -> None:
    cell = failing(tmp_path, settings={"mute": "q"})
    assert cell.failure == "1 of 1 queries did not become live: not answered within 1 s"


def test_a_system_that_is_never_ready_fails_the_cell(tmp_path: Path) -> None:
    command = (sys.executable, "-c", "import time; time.sleep(600)")
    cell = failing(tmp_path, command=command, limits=Limits(start=3.0))
    assert "was not ready within 3 s" in cell.failure


def test_a_system_that_is_not_there_fails_the_cell(tmp_path: Path) -> None:
    assert "FileNotFoundError" in failing(tmp_path, command=("no-such-program",)).failure


def test_a_workload_that_is_not_there_fails_the_cell(tmp_path: Path) -> None:
    assert "ModuleNotFoundError" in failing(tmp_path, workload=Factory("weft.nowhere:none")).failure


def test_waves_need_queries(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no waves or no queries"):
        tiny.plan(tmp_path, settings={}, phases=(Churned(),))


PROGRAM = """
import signal
import sys
from pathlib import Path
from benchmarks.tests.unit.driver import tiny
from weft_bench.driver.cell import run_cell
from weft_bench.driver.plan import Steady
signal.signal(signal.SIGINT, signal.default_int_handler)  # jobs in the background of a shell ignore it
plan = tiny.plan(Path(sys.argv[1]), settings={}, phases=(Steady(seconds=600, rate=5000),))
run_cell(plan, tell=lambda progress: print(progress.phase, flush=True))
"""


def test_an_interrupt_ends_all_children(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    environment = {"PYTHONPATH": "src:benchmarks:."}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        while process.stdout.readline().strip() != "steady":
            assert process.poll() is None
        children = psutil.Process(process.pid).children(recursive=True)
        assert len(children) == 2
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert "KeyboardInterrupt" in errors
    assert not any(each.is_running() for each in children)
    assert not (tmp_path / "feed").exists()

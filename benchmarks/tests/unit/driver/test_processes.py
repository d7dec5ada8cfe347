from __future__ import annotations

import os
import queue
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from benchmarks.tests.unit.driver.tiny import FAKE, query
from weft_bench.driver.child import Child, ChildEnded
from weft_bench.driver.messages import (
    Answer,
    Create,
    Drop,
    Failed,
    Figures,
    Gone,
    Live,
    Order,
    Ready,
    Refused,
    Report,
)
from weft_bench.driver.system import System
from weft_bench.driver.watch import Watch, processor_seconds
from weft_bench.paths import python_path

PATIENCE = 60.0


@contextmanager
def child(program: str, folder: Path) -> Iterator[tuple[Child, queue.Queue[str | None]]]:
    heard: queue.Queue[str | None] = queue.Queue()
    process = Child(
        (sys.executable, "-c", program),
        environment=dict(os.environ),
        log=folder / "log",
        hear=heard.put,
        ended=lambda: heard.put(None),
    )
    try:
        yield process, heard
    finally:
        process.end()


@contextmanager
def fake(folder: Path, **settings: str) -> Iterator[tuple[System, queue.Queue[Answer]]]:
    heard: queue.Queue[Answer] = queue.Queue()
    order = Order((), str(folder), interval=0.0, cores=1, heap_gigabytes=1, settings=settings)
    environment = {**os.environ, "PYTHONPATH": python_path()}
    system = System(FAKE, order, environment=environment, log=folder / "log", hear=heard.put)
    try:
        yield system, heard
    finally:
        system.stop(0.0)


def test_lines_go_to_and_fro(tmp_path: Path) -> None:
    with child("print('heard', input())", tmp_path) as (process, heard):
        process.send("hello")
        assert heard.get(timeout=PATIENCE) == "heard hello"
        assert heard.get(timeout=PATIENCE) is None
        assert process.status(PATIENCE) == 0
        with pytest.raises(ChildEnded, match=f"process {process.pid} has ended"):
            process.send("again")


def test_the_end_of_its_errors_is_kept(tmp_path: Path) -> None:
    program = "import sys; sys.stderr.write('x' * 9000 + 'the end'); sys.exit(3)"
    with child(program, tmp_path) as (process, heard):
        assert heard.get(timeout=PATIENCE) is None
        assert process.status(PATIENCE) == 3
        assert process.tail().endswith("xxx" + "the end")
        assert len(process.tail()) <= 4000


def test_descendants_of_a_process_that_ended_by_itself_are_ended_too(tmp_path: Path) -> None:
    program = (
        "import subprocess, sys\n"
        "held = subprocess.Popen([sys.executable, '-c', 'input()'], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)\n"
        "print(held.pid, flush=True)\n"
        "import os; os._exit(0)"
    )
    # The grandchild would end with its parent's pipe: a sleeper does not.
    program = program.replace("'input()'", "'import time; time.sleep(600)'")
    with child(program, tmp_path) as (process, heard):
        orphan = psutil.Process(int(heard.get(timeout=PATIENCE) or 0))
        assert process.status(PATIENCE) == 0
        assert orphan.is_running()
    psutil.wait_procs([orphan], timeout=PATIENCE)
    assert not orphan.is_running() or orphan.status() == psutil.STATUS_ZOMBIE


def test_requests_are_answered(tmp_path: Path) -> None:
    with fake(tmp_path, refuse="bad") as (system, heard):
        assert heard.get(timeout=PATIENCE) == Ready()
        system.send(Create((query("q1"), query("q2"))))
        live = heard.get(timeout=PATIENCE)
        assert isinstance(live, Live)
        assert live.names == ("q1", "q2")
        system.send(Create((query("bad"),)))
        assert heard.get(timeout=PATIENCE) == Refused(("bad",), "fake: refused")
        system.send(Drop(("q1",)))
        assert isinstance(heard.get(timeout=PATIENCE), Gone)
        system.send(Report())
        assert heard.get(timeout=PATIENCE) == Figures(result_rows=0, note="fake")
        assert system.stop(PATIENCE)
    assert heard.empty()


def test_a_system_that_dies_says_why(tmp_path: Path) -> None:
    with fake(tmp_path) as (system, heard):
        assert heard.get(timeout=PATIENCE) == Ready()
        os.kill(system.pid, signal.SIGKILL)
        failed = heard.get(timeout=PATIENCE)
        assert isinstance(failed, Failed)
        assert failed.error.startswith("the system ended with status -9")
        # What it printed besides messages is said too.
        assert "a line that is no message" in failed.error


def test_a_message_nobody_understands_is_a_failure(tmp_path: Path) -> None:
    heard: queue.Queue[Answer] = queue.Queue()
    program = (sys.executable, "-c", """print('@bench {"say": "nonsense"}', flush=True); input()""")
    order = Order((), str(tmp_path), interval=0.0, cores=1, heap_gigabytes=1)
    system = System(program, order, environment=dict(os.environ), log=tmp_path / "log", hear=heard.put)
    try:
        failed = heard.get(timeout=PATIENCE)
        assert isinstance(failed, Failed)
        assert "what nobody understands" in failed.error
    finally:
        system.stop(0.0)


def test_processor_time_and_memory_of_a_tree_are_seen(tmp_path: Path) -> None:
    program = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'while True: pass'])"
    with child(program, tmp_path) as (process, _), Watch(process.pid) as watch:
        end = time.time() + PATIENCE
        while processor_seconds(process.pid) < 0.5 and time.time() < end:
            pass
        usage = watch.reading()
        assert usage.cores > 0
        assert usage.memory > 0
        assert watch.peak >= usage.memory

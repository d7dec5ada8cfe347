"""Running cases as child processes, with a time limit and an eye on their memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

import psutil

from weft_bench.case import Case, Kind, Outcome, System
from weft_bench.data import link_files
from weft_bench.memory import MemoryWatch, end_tree
from weft_bench.paths import python_path

START_UP = 120.0
"""Seconds a child may take beside what is measured: to start, to check results, to end."""
_LARGEST_HEAP = 8
_GIGABYTE = 1 << 30


def run_child(case: Case, data: Path, *, limit: float, spike: Path | None = None) -> Outcome:
    """The outcome of a case over the generated files in `data`; failures are outcomes too."""
    with tempfile.TemporaryDirectory(prefix="case-", dir=data, ignore_cleanup_errors=True) as name:
        folder = Path(name)
        link_files(data, folder, case.seconds, streams=case.kind.streams)
        command = _spike_command(case, spike) if spike is not None else _command(case, folder, limit)
        with (folder / "stderr").open("w+b") as log:
            child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, env=_environment(case, folder)
            )
            with MemoryWatch(child.pid) as memory:
                said, failure = _listen(child, limit + START_UP)
            log.seek(0)
            outcome = read_outcome(said.splitlines(), case)
            if outcome is None:
                outcome = Outcome(note=failure)
                sys.stderr.write(log.read().decode(errors="replace"))
    course = memory.samples if case.kind is Kind.FAN_OUT else ()
    return outcome.with_memory(rss=memory.rss, pss=memory.pss, samples=course)


def _listen(child: subprocess.Popen[bytes], limit: float) -> tuple[str, str]:
    """What a child prints, and what to say if there is no outcome in it."""
    try:
        said, _ = child.communicate(timeout=limit)
        failure = f"failed with status {child.returncode}"
    except subprocess.TimeoutExpired:
        end_tree(child.pid)
        said, _ = child.communicate()
        failure = f"ended after {limit:.0f} s without an outcome"
    return said.decode(errors="replace"), failure


def _command(case: Case, folder: Path, limit: float) -> list[str]:
    order = {"case": case.to_json(), "folder": str(folder), "limit": limit}
    return [sys.executable, "-m", "weft_bench.child", json.dumps(order)]


def _spike_command(case: Case, spike: Path) -> list[str]:
    options = {
        "queries": case.queries,
        "rate": case.load.rate,
        "seconds": case.seconds,
        "keys": case.load.keys,
        "files": case.files,
    }
    return [sys.executable, str(spike), *(text for key, value in options.items() for text in (f"--{key}", str(value)))]


def _environment(case: Case, folder: Path) -> dict[str, str]:
    """Whatever a case writes goes to its folder, and plain Spark gets the heap its state needs."""
    own = {"SPARK_LOCAL_DIRS": str(folder / "spark"), "TMPDIR": str(folder), "PYTHONPATH": python_path()}
    return os.environ | own | (largest_heap() if case.system is System.SPARK else {})


def largest_heap() -> dict[str, str]:
    """What gives a child's Spark half of the memory there is."""
    heap = min(_LARGEST_HEAP, max(2, psutil.virtual_memory().total // _GIGABYTE // 2))
    return {"PYSPARK_SUBMIT_ARGS": f"--driver-memory {heap}g pyspark-shell"}


def read_outcome(lines: Iterable[str], case: Case) -> Outcome | None:
    """The outcome among what a child printed; None if it did not come to it."""
    values = []
    for line in lines:
        if line.startswith("{"):
            try:
                values.append(json.loads(line))
            except ValueError:
                continue
    if not values:
        return None
    last = values[-1]
    if case.system is not System.SPIKE:
        return Outcome.from_json(last["outcome"])
    return Outcome(last["input_rows_per_s"], last["batch_ms"] / 1000, note=f"{last['pairs']:,} pairs")

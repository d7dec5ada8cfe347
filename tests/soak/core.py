"""`python -m tests.soak.core --batches 100000` or `--queries 100000`: the engine's core alone, in this process.

No Spark takes part: the stages of a batch run here. So a run is long in batches and queries but short in time, and what
grows with history shows. Now and then the state directory is copied and opened by a new process: that is what a restart
would take.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from tests.soak.measures import state_sizes
from tests.soak.plots import draw
from tests.soak.report import Report, judge_all, machine, publish
from tests.soak.series import Samples, of_folders
from tests.soak.small import Small
from tests.soak.verdict import Rule
from weft.engine.core import CHECKPOINT_EVERY, Core
from weft.storage.directory import Directory

SAMPLES = 100
OPENINGS = 10
_GROUP = 20
"""Queries that come together, between two batches."""
_KEPT = {"batches": 100, "queries": 50}
"""Batches whose results are kept."""
_ROUND, _IDLE = 50, 10
"""Of so many groups, the first few come and go without any batch, as if there were no input; then ended queries are
listed, and a stream is declared and dropped, once in every round."""
_TRIES = 3
_AHEAD = CHECKPOINT_EVERY // 2
"""Batches before the first that counts, so that samples fall between two checkpoints, not just behind one."""


class Watch:
    """Measures one run."""

    def __init__(self, small: Small, axis: str, total: int) -> None:
        self._small, self._total = small, total
        self.samples = Samples(axis)
        self._process = psutil.Process()
        self._done = 0
        self._since = time.monotonic()
        self._sampled = self._opened = 0

    def step(self, done: int) -> None:
        """So many batches or queries are done."""
        if done * SAMPLES < (self._sampled + 1) * self._total:
            return
        self._sampled = done * SAMPLES // self._total
        now = time.monotonic()
        values = {"step.seconds": (now - self._since) / (done - self._done)} | self._figures()
        if done * OPENINGS >= (self._opened + 1) * self._total:
            self._opened = done * OPENINGS // self._total
            values |= open_elsewhere(self._small.path)
            print(f"{done:,} of {self._total:,} {self.samples.axis}: {_shown(values)}", flush=True)
        self.samples.add(done, values)
        self._done, self._since = done, time.monotonic()

    def _figures(self) -> dict[str, float]:
        with self._process.oneshot():
            values = {
                "process.rss": float(self._process.memory_info().rss),
                "process.threads": float(self._process.num_threads()),
                "process.fds": float(self._process.num_fds()),
            }
        newest = max((self._small.path / "checkpoints").glob("*.json"), default=None)
        values |= of_folders("", state_sizes(self._small.path))
        return values if newest is None else values | {"checkpoint.bytes": float(newest.stat().st_size)}


def open_elsewhere(path: Path) -> dict[str, float]:
    """What a new process takes to open a copy of a state directory: the shortest of some times, and its memory."""
    copy = path.with_name(path.name + "-copy")
    shutil.copytree(path, copy)
    try:
        command = [sys.executable, "-m", "tests.soak.core", "--open", str(copy)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        found: dict[str, float] = json.loads(done.stdout)
        return found
    finally:
        shutil.rmtree(copy)


def open_here(path: Path) -> dict[str, float]:
    """Open a state directory, some times after each other."""
    seconds = []
    for _ in range(_TRIES):
        began = time.monotonic()
        directory = Directory.open(path)
        core = Core(directory)
        seconds.append(time.monotonic() - began)
        directory.close()
        del core
    return {"reopen.seconds": min(seconds), "opened.rss": float(psutil.Process().memory_info().rss)}


def run_batches(small: Small, total: int) -> Samples:
    """So many tiny batches."""
    watch = Watch(small, "batches", total)
    for done in range(1, total + 1):
        small.batch()
        watch.step(done)
    return watch.samples


def run_queries(small: Small, total: int) -> Samples:
    """So many queries that are created and dropped, with a tiny batch now and then."""
    watch = Watch(small, "queries", total)
    for done in range(_GROUP, total + _GROUP, _GROUP):
        small.come_and_go(_GROUP)
        turn = done // _GROUP
        if turn % _ROUND >= _IDLE:
            small.batch()
        if turn % _ROUND == 0:
            small.look_back()
            small.stream_comes_and_goes()
        watch.step(done)
    return watch.samples


@contextmanager
def _state_directory() -> Iterator[Path]:
    """In memory where there is such a file system: flushing to a disk would take most of the time."""
    shared = Path("/dev/shm")
    parent = tempfile.mkdtemp(prefix="weft-soak-", dir=shared if shared.is_dir() else None)
    try:
        yield Path(parent) / "state"
    finally:
        shutil.rmtree(parent, ignore_errors=True)


def main() -> int:
    """Run what was asked for; 1 if something grows."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak.core", description=__doc__)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--batches", type=int, metavar="N", help="run N tiny batches")
    what.add_argument("--queries", type=int, metavar="N", help="create and drop N queries")
    what.add_argument("--open", type=Path, metavar="DIR", help="open a state directory and say how long that took")
    parser.add_argument("--out", type=Path, default=Path("soak-out"), help="for the table, the picture and the samples")
    parser.add_argument("--publish", type=Path, metavar="PAGE", help="also put them into this page")
    parser.add_argument("--tolerance", type=float, default=10.0, help="growth in percent of the mean per 100,000")
    given = parser.parse_args()
    if given.open is not None:
        print(json.dumps(open_here(given.open)))
        return 0
    key, total = ("batches", given.batches) if given.batches is not None else ("queries", given.queries)
    began = time.monotonic()
    with _state_directory() as state:
        small = Small(state, kept=_KEPT[key])
        for _ in range(_AHEAD):
            small.batch()
        samples = (run_batches if key == "batches" else run_queries)(small, total)
    report = _report(key, total, samples, given.tolerance / 100)
    report.facts["duration"] = f"{(time.monotonic() - began) / 60:.1f} minutes"
    given.out.mkdir(parents=True, exist_ok=True)
    picture = given.out / f"soak-{key}.png"
    samples.write_csv(given.out / f"soak-{key}.csv")
    draw(report, samples, picture)
    text = report.to_markdown(picture.name)
    (given.out / f"soak-{key}.md").write_text(text, encoding="utf-8")
    if given.publish is not None:
        publish(given.publish, report, picture)
    print(text)
    return 0 if report.passed else 1


def _report(key: str, total: int, samples: Samples, tolerance: float) -> Report:
    rule = Rule(per=100_000, tolerance=tolerance)
    title = {"batches": f"{total:,} tiny batches", "queries": f"{total:,} queries created and dropped"}[key]
    report = Report(key, title, f"python -m tests.soak.core --{key} {total}", rule, unit=f"100,000 {key}")
    report.facts = {
        "load": f"joins, aggregates, sessions and a selection over two streams; the results of {_KEPT[key]} batches "
        "are kept",
        **machine(),
    }
    if key == "queries":
        report.facts["queries"] = (
            f"{_GROUP} come together, with keys and constants of their own, then there is a batch; they go two groups "
            f"later. In every {_ROUND} groups, {_IDLE} come and go without a batch, all that have ended are listed, "
            "and a stream is declared and dropped"
        )
    if total < 50_000:
        report.notes.append(f"A short run: growth is extrapolated from {total:,} to 100,000.")
    report.judged = judge_all(samples, rule)
    return report


def _shown(values: dict[str, float]) -> str:
    chosen = ("process.rss", "state.files", "state.bytes", "reopen.seconds", "step.seconds")
    return ", ".join(f"{name} {values[name]:,.4g}" for name in chosen if name in values)


if __name__ == "__main__":
    sys.exit(main())

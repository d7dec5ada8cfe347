"""All systems of the benchmark by the names that `--systems` takes."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from weft_bench.experiments import SHARED_BY_HAND, Impossible, Options, Program
from weft_bench.paths import python_path
from weft_bench.record import Cell
from weft_bench.systems import flink
from weft_bench.systems.limit_files import write_files
from weft_bench.systems.limits import Limit, limit
from weft_bench.workloads.model import Dialect, Workload
from weft_bench.workloads.shapes import CannotSay

OnePass = Callable[[Workload, int], Cell]
"""A limit: from a workload and a number of queries to a cell."""
Contender = Callable[[Options], Program | OnePass]
"""Makes a system ready, which may mean to install it; raises Impossible where it cannot be had."""

LIMIT_ROWS = 4_000_000
"""Of all streams together, in the one batch of a limit."""
_SECONDS = (8, 60)
"""Of event time in that batch, at least: windows shall fill; and at most."""
_BENCHMARKS: Mapping[str, str] = {"benchmarks": "weft_bench", "src": "weft.bench"}
"""Where a checkout has the benchmark: the folder, and the package in it. Older checkouts have it in weft."""


def _ours(name: str, module: str, dialect: Dialect, *, shares: bool, **settings: str) -> Contender:
    """A program of this project on Spark; it takes heap and cores from its order."""
    command = (sys.executable, "-m", f"weft_bench.systems.{module}")
    program = Program(name, dialect, command, {"PYTHONPATH": python_path()}, settings, shares=shares)
    return lambda options: program


def _other(options: Options) -> Program:
    """Another checkout of weft, to compare two versions in turns; $WEFT_OTHER names the folder that holds it."""
    root = Path(os.environ.get("WEFT_OTHER") or os.devnull).absolute()
    for folder, package in _BENCHMARKS.items():
        if root.joinpath(folder, *package.split("."), "systems", "weft.py").is_file():
            # With -P the current folder is not searched, which may be that of this checkout.
            command = (sys.executable, "-P", "-m", f"{package}.systems.weft")
            path = os.pathsep.join(dict.fromkeys([str(root / "src"), str(root / folder)]))
            return Program("weft-other", Dialect.WEFT, command, {"PYTHONPATH": path}, {}, shares=True)
    raise Impossible("set WEFT_OTHER to the root of another checkout of weft")


def _flink(name: str, mode: str, options: Options) -> Program:
    try:
        home = flink.prepare(tell=_tell)
    except flink.FlinkNotInstalled as error:
        raise Impossible(f"Flink cannot be had: {error}") from error
    command, environment = tuple(home.command()), home.environment(os.environ)
    return Program(name, Dialect.FLINK, command, environment, {"mode": mode}, together=mode == "set")


def _tell(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def _limit(name: Limit, options: Options) -> OnePass:
    return partial(run_limit, name)


def run_limit(name: Limit, workload: Workload, queries: int) -> Cell:
    """One batch over rows that are written for it; `overall` counts them once for each query, as for all systems."""
    least, most = _SECONDS
    seconds = min(max(least, LIMIT_ROWS // workload.rows_per_second), most)
    with tempfile.TemporaryDirectory(prefix="weft-limit-", ignore_cleanup_errors=True) as folder:
        write_files(workload, Path(folder), seconds=seconds)
        try:
            shot = limit(name, workload, queries, folder=Path(folder))
        except CannotSay as reason:
            raise Impossible(str(reason)) from reason
    return Cell(
        system=name,
        queries=queries,
        overall=shot.rows_per_second * queries,
        slowest=shot.rows_per_second,
        note=f"a limit, not a streaming system: {shot.rows:,} rows in one batch of {shot.seconds:.2f} s, "
        f"{sum(shot.results):,} result rows",
    )


CONTENDERS: Mapping[str, Contender] = {
    "weft": _ours("weft", "weft", Dialect.WEFT, shares=True),
    "weft-delivered": _ours("weft-delivered", "weft", Dialect.WEFT, shares=True, deliver="all"),
    "weft-other": _other,
    "spark": _ours("spark", "spark", Dialect.SPARK, shares=False, mode="each"),
    "spark-shared": _ours("spark-shared", "spark", Dialect.SPARK, shares=True, mode=SHARED_BY_HAND),
    "flink": partial(_flink, "flink", "set"),
    "flink-jobs": partial(_flink, "flink-jobs", "jobs"),
    **{name.value: partial(_limit, name) for name in Limit},
}
"""By the name on the command line."""


def streams(name: str) -> bool:
    """Whether a system is a streaming one, or a limit that runs one batch."""
    if name not in CONTENDERS:
        raise ValueError(f'no system is named "{name}"; there are {", ".join(CONTENDERS)}')
    return name not in tuple(Limit)

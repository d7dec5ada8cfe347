"""An engine that works through the files of test_crash, in a process of its own that may be killed at any moment.

Run it again and it goes on: it asks for what is not there yet. What it prints is for the test to read.
"""

from __future__ import annotations

import faulthandler
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import weft
from weft.spark.session import local_session


@dataclass(frozen=True, slots=True)
class Wish:
    """A query to be created at or after batch `create`, and dropped at or after batch `drop`."""

    name: str
    sql: str
    create: int = 0
    drop: int | None = None
    sink: bool = False


def _range(seconds: int, key: str = "k") -> str:
    return f"a [RANGE {seconds} SECONDS] x JOIN b [RANGE {seconds} SECONDS] y ON x.{key} = y.{key}"


WISHES = (
    Wish("join", f"SELECT x.v, y.v AS w FROM {_range(3)} WHERE x.v > 100", sink=True),
    Wish("select", "SELECT ts, v FROM a WHERE v < 500", sink=True),
    Wish("self", "SELECT x.v, y.v AS w FROM a [RANGE 2 SECONDS] x JOIN a [RANGE 2 SECONDS] y ON x.k = y.k"),
    Wish(
        "tumble",
        "SELECT x.v, y.v AS w, window_start FROM a [TUMBLE 4 SECONDS] x JOIN b [TUMBLE 4 SECONDS] y ON x.name = y.name",
    ),
    Wish("leaves", f"SELECT x.v, y.v AS w FROM {_range(1)}", drop=9),
    Wish("comes", f"SELECT x.v, y.v AS w FROM {_range(4)} WHERE y.v < 800", create=3, sink=True),
    Wish("passes", "SELECT x.v, y.v AS w FROM a [UNBOUNDED] x JOIN b [UNBOUNDED] y ON x.k = y.k", create=4, drop=12),
    Wish(
        "sums",
        "SELECT name, window_start, COUNT(*) AS n, SUM(v) AS s FROM a [RANGE 3 SECONDS SLIDE 1 SECOND] WHERE v > 100 "
        "GROUP BY name",
        sink=True,
    ),
    Wish(
        "joined_sums",
        "SELECT x.name, window_start, COUNT(*) AS n, SUM(x.v) AS s FROM a [TUMBLE 4 SECONDS] x "
        "JOIN b [TUMBLE 4 SECONDS] y ON x.k = y.k GROUP BY x.name",
        create=2,
    ),
    Wish("sessions", "SELECT k, window_start, window_end, COUNT(*) AS n FROM b [SESSION 400 MILLISECONDS] GROUP BY k"),
    Wish("opaque", "SELECT v FROM b WHERE upper(name) LIKE 'N1%'", create=7),
)


def files_read(engine: weft.Engine) -> dict[str, dict[str, int]]:
    """For each stream and file the batch that has read it."""
    found: dict[str, dict[str, int]] = {}
    for manifest in engine.core.inventory.results_of(0):
        for stream, names in manifest.files:
            found.setdefault(stream, {}).update(dict.fromkeys(names, manifest.batch))
    return found


def run(root: Path, files: int) -> None:
    """Work until `files` of each stream are read and what was read is committed."""
    faulthandler.register(signal.SIGUSR1)  # the test asks for stacks when nothing happens any more
    spark = local_session()
    say("java", spark._jvm.java.lang.ProcessHandle.current().pid())  # type: ignore[union-attr]
    engine = weft.Engine(path=root / "state", partitions=2, spark=spark)
    say("opened", engine.core.next_batch, *sorted(record.name for record in engine.core.roster.records.values()))
    for name in ("a", "b"):
        source = weft.files(root / name, max_files_per_batch=1)
        engine.stream(name, source, time="ts", lateness="2 seconds")
    grant(engine, root)
    engine.start("0 seconds")
    seen = -1
    while not is_done(engine, files):
        if engine.wait(0):
            raise SystemExit("the engine ended by itself")
        if engine.core.next_batch != seen:
            seen = engine.core.next_batch
            say("batch", seen)
        grant(engine, root)
        time.sleep(0.01)
    engine.stop()
    spark.stop()
    say("done")


def is_done(engine: weft.Engine, files: int) -> bool:
    """Whether everything there is has been read."""
    return [len(engine.core.files.names.get(stream, ())) for stream in ("a", "b")] == [files] * 2


def grant(engine: weft.Engine, root: Path) -> None:
    """Ask for everything whose time has come and that was not asked for before."""
    batch = engine.core.next_batch
    known = {record.name: record for record in engine.core.roster.records.values()}
    waiting = {query.name for query in engine.queries()}
    for wish in WISHES:
        if wish.create <= batch and wish.name not in known and wish.name not in waiting:
            engine.create(wish.sql, name=wish.name, sink=weft.parquet(root / "out" / wish.name) if wish.sink else None)
            say("asked", wish.name)
        elif wish.name in known and wish.drop is not None and batch >= wish.drop and known[wish.name].ended is None:
            engine.query(wish.name).drop()


def say(*words: object) -> None:
    """One line for the test."""
    print(*words, flush=True)


if __name__ == "__main__":
    run(Path(sys.argv[1]), int(sys.argv[2]))

"""A state directory with every kind of file, and what becomes of it when one of them is damaged."""

from __future__ import annotations

import os
import pickle
import random
import shutil
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

from tests.support.engine_sample import JOIN, STREAMS, rows
from tests.support.forced_plans import random_planner
from tests.support.harness import CoreHarness
from weft.engine import core as core_module
from weft.errors import ResultsGone, StateCorrupt, StateVersion
from weft.planner.joins.planners import Planner
from weft.storage import compaction, journal
from weft.storage.data_file import forget_checked

SESSION = "[SESSION 3 SECONDS]"
QUERIES = {
    "select": "SELECT x FROM a WHERE x > 2",
    "join": JOIN,
    "count": "SELECT k, COUNT(*) AS n, SUM(x) AS s FROM a [TUMBLE 4 SECONDS] GROUP BY k",
    "wide": "SELECT p.x AS px, q.x AS qx, r.x AS rx FROM a [RANGE 6 SECONDS] p JOIN b [RANGE 6 SECONDS] q ON p.k = q.k "
    "JOIN c [RANGE 6 SECONDS] r ON q.j = r.j",
    "sessions": f"SELECT p.x AS px, q.x AS qx FROM a {SESSION} p JOIN b {SESSION} q ON p.k = q.k",
    "counted": f"SELECT p.k AS k, COUNT(*) AS n FROM a {SESSION} p JOIN b {SESSION} q ON p.k = q.k GROUP BY p.k",
}
BATCHES, MORE = 13, 2
_SMALL = 2500
"""Some files of results are packed, and some are not."""
Results = dict[str, Counter[tuple[object, ...]]]


@contextmanager
def small_sizes() -> Iterator[None]:
    """Checkpoints, merges and packs after a few batches."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(core_module, "CHECKPOINT_EVERY", 5)
        patch.setattr(compaction, "FAN_IN", 3)
        patch.setattr(journal, "SMALL", _SMALL)
        yield


def inputs(batch: int) -> dict[str, list[pa.RecordBatch]]:
    """Rows of a batch: some keys are everywhere, most are in one stream only."""
    draw = random.Random(batch)
    found = {}
    for name in "abc":
        count = 60 if name == "a" else 6
        some = [(batch, draw.randrange(1000 + 3), draw.randrange(9), draw.randrange(3), "text") for _ in range(count)]
        found[name] = [rows(*some, *((batch, k, 5, k, "hot") for k in range(batch % 3)))]
    return found


def planner() -> Planner:
    """One that keeps an intermediate result."""
    return random_planner(3)


def build(path: Path) -> CoreHarness:
    """A state directory in the middle of its life."""
    harness = CoreHarness(path, list(STREAMS.values()), partitions=2, planner=planner())
    harness.create_many([(sql, name) for name, sql in QUERIES.items()])
    for batch in range(BATCHES):
        if batch == 7:
            harness.create("SELECT k FROM b", "late")
            harness.create("SELECT k FROM c", "short")
        if batch == 9:
            harness.drop("short")
        harness.batch(inputs(batch))
    harness.core.trim_results(1)
    harness.create("SELECT j FROM b", "last")
    harness.create("SELECT x FROM c", "dropped")
    harness.drop("dropped")
    return harness


def go_on(path: Path) -> Results:
    """Open it, run some batches, and read everything."""
    harness = CoreHarness(path, [], partitions=2, planner=planner())
    for _ in range(MORE):
        harness.batch(inputs(harness.core.next_batch))
    found = {name: Counter(harness.results(name)) for name in (*QUERIES, "late", "last", "short")}
    harness.core.directory.close()
    return found


@dataclass(frozen=True)
class Outcome:
    """What a process that opened a damaged directory came to."""

    kind: str
    """ "right", "said", "wrong", "raw" or "crash"."""
    text: str = ""


def judge(path: Path, expected: object, use: Callable[[Path], object] = go_on) -> Outcome:
    """Open and use a directory in a process of its own, whose crash is seen as one."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        with open(write, "wb") as pipe:
            pickle.dump(_judged(path, expected, use), pipe)
        os._exit(0)
    os.close(write)
    with open(read, "rb") as pipe:
        data = pipe.read()
    _, status = os.waitpid(child, 0)
    if status or not data:
        return Outcome("crash", f"status {status}")
    found: Outcome = pickle.loads(data)
    return found


def _judged(path: Path, expected: object, use: Callable[[Path], object]) -> Outcome:
    forget_checked()
    try:
        found = use(path)
    except (StateCorrupt, StateVersion, ResultsGone) as error:
        # A reader of a result file knows only that it is gone; `engine/results/result_log.py` says what that means.
        return Outcome("said", str(error))
    except BaseException:
        return Outcome("raw", traceback.format_exc())
    if found != expected:
        return Outcome("wrong", f"found {found}\n\nbut expected {expected}")
    return Outcome("right", "\n".join(getattr(found, "warnings", ())))


# ---- files and damage

Damage = Callable[[bytes, random.Random], bytes | None]


def flip(data: bytes, draw: random.Random) -> bytes:
    at = draw.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << draw.randrange(8)]) + data[at + 1 :]


def cut_line(data: bytes, draw: random.Random) -> bytes:
    lines = data.split(b"\n")
    return b"\n".join([*lines[:-2], b""]) if len(lines) > 2 else data[: len(data) // 3]


DAMAGES: dict[str, Damage] = {
    "removed": lambda data, draw: None,
    "emptied": lambda data, draw: b"",
    "cut": lambda data, draw: data[: draw.randrange(1, len(data))],
    "without the last line": cut_line,
    "flipped": flip,
    "zeroed": lambda data, draw: bytes(len(data)),
    "longer": lambda data, draw: data + b"\0" * 8,
}


_FIRST = {"s": "sessions"} | {
    f"{letter}{partition}": kind
    for letter, kind in (("w", "windows"), ("c", "combinations"), ("s", "intermediate"))
    for partition in range(2)
}


def kind_of(name: str) -> str:
    """What a file of the state directory is."""
    folder, _, rest = name.partition("/")
    if folder != "data":
        return folder
    stem = rest.partition("/")[2]
    for suffix, kind in ((".pairs.arrow", "pairs"), (".rows.arrow", "copied rows")):
        if stem.endswith(suffix):
            return kind
    first = stem.split("-")[0]
    if first in _FIRST:
        return _FIRST[first]
    return "merged" if "-m" in stem else "bucket"


def files_by_kind(root: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if path.is_file() and name != "lock":
            found.setdefault(kind_of(name), []).append(name)
    return found


def damaged_copy(source: Path, target: Path, name: str, data: bytes | None) -> None:
    """A copy of a state directory in which one file is another, or is missing."""
    shutil.copytree(source, target, copy_function=os.link)
    path = target / name
    path.unlink()
    # Files that are written in place must not be the same as in the original.
    for own in ("lock", "head", "ended.sqlite"):
        if own != name and (target / own).exists():
            (target / own).unlink()
            shutil.copy(source / own, target / own)
    for log in (target / "changelog").iterdir():
        content = log.read_bytes()
        log.unlink()
        log.write_bytes(content)
    if data is not None:
        path.write_bytes(data)
    elif path.exists():
        path.unlink()

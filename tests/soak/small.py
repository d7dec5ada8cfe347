"""A small engine in this process, without Spark: tiny batches, and queries that come and go."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path
from random import Random

from tests.support.engine_sample import rows, stream
from tests.support.harness import CoreHarness
from weft.engine.queries.look import page_of

_RANGE, _LONGER = "[RANGE 2 SECONDS]", "[RANGE 3 SECONDS]"
_BASE = (
    ("selection", "SELECT k, x FROM a WHERE x > 5"),
    ("join", f"SELECT p.x AS px, q.x AS qx FROM a {_RANGE} p JOIN b {_RANGE} q ON p.k = q.k"),
    ("longer", f"SELECT p.x AS px, q.s AS s FROM a {_LONGER} p JOIN b {_LONGER} q ON p.k = q.k WHERE p.x > 3"),
    ("tumbling", "SELECT k, window_start, COUNT(*) AS n, SUM(x) AS s FROM a [TUMBLE 2 SECONDS] GROUP BY k"),
    ("sliding", "SELECT k, window_start, MAX(x) AS m FROM a [RANGE 4 SECONDS SLIDE 2 SECONDS] GROUP BY k"),
    ("endless", "SELECT k, COUNT(*) AS n FROM a [SESSION 60 SECONDS] GROUP BY k"),
    ("session", "SELECT k, window_start, COUNT(*) AS n FROM b [SESSION 1 SECOND] GROUP BY k"),
)
_PARTS = 1
_JOINS = ("p.k = q.k", "p.x = q.x", "p.s = q.s", "p.k = q.x", "p.k = q.k AND p.x = q.x", "p.k + p.x = q.k")
_GROUPS = ("k", "x", "s", "k, x", "k, s")


class Small:
    """An engine core on a path, with rows for it.

    Results older than `kept` batches are given up, as an engine with `keep_results` would.
    """

    def __init__(self, path: Path, *, kept: int) -> None:
        self.path = path
        self._kept = kept
        self.harness = CoreHarness(path, [stream("a"), stream("b")], partitions=_PARTS)
        self.harness.create_many([(sql, name) for name, sql in _BASE])
        self._second = 0
        self._queries = new_queries(Random(1))
        self._guests: list[list[str]] = []
        self._extra = 0

    @property
    def next_batch(self) -> int:
        """Its number."""
        return self.harness.core.next_batch

    def batch(self) -> None:
        """A few rows of both streams, one second after those before."""
        now = self._second = self._second + 1
        inputs = {"a": [rows((now, now % 5, now % 10), (now, now % 3, now % 7, None, f"s{now % 9}"))]}
        if now % 2:
            inputs["b"] = [rows((now, now % 4, now % 6, None, f"t{now % 11}"))]
        self.harness.batch(inputs)
        if self.next_batch > self._kept:
            self.harness.core.trim_results(self.next_batch - self._kept)

    def come_and_go(self, number: int) -> None:
        """Create so many queries together, and drop those that came the time before the last."""
        new = list(islice(self._queries, number))
        self.harness.create_many([(sql, name) for name, sql in new])
        self._guests.append([name for name, _ in new])
        if len(self._guests) > 2:
            names = self.harness.core.roster.names
            self.harness.core.submit(drop=[names[name] for name in self._guests.pop(0)])

    def look_back(self) -> int:
        """List queries that have ended, as somebody would who looks at them page by page; how many there are."""
        core, after, found = self.harness.core, 0, 0
        while page := page_of(core, "", after=after, limit=1000, live=False):
            after, found = int(page[-1].id[1:]), found + len(page)
        return found

    def stream_comes_and_goes(self) -> None:
        """Declare a stream, read it by a query for a batch, and drop both; two names take turns."""
        name, core = f"extra{self._extra % 2}", self.harness.core
        self._extra += 1
        core.add_stream(stream(name))
        self.harness.create(f"SELECT x FROM {name} WHERE x > {self._extra % 7}", f"of_{name}")
        self._second += 1
        self.harness.batch({name: [rows((self._second, 1, 9))]})
        core.submit(drop=[core.roster.names[f"of_{name}"]])
        core.drop_stream(name)


def new_queries(chance: Random) -> Iterator[tuple[str, str]]:
    """Names and texts without end: every shape, with constants and keys of their own."""
    for number in count():
        limit, seconds = chance.randrange(10), chance.randrange(2, 5)
        window = f"[RANGE {seconds} SECONDS]"
        join, group = chance.choice(_JOINS), chance.choice(_GROUPS)
        texts = (
            f"SELECT k, x FROM a WHERE x > {limit} AND k < {number % 7}",
            f"SELECT k, s FROM b WHERE x + {number} > k OR s LIKE 't{limit}%'",
            f"SELECT p.x AS px, q.x AS qx FROM a {window} p JOIN b {window} q ON {join} WHERE p.x > {limit}",
            f"SELECT {group}, COUNT(*) AS n FROM a [TUMBLE {seconds} SECONDS] WHERE x > {limit} GROUP BY {group}",
            f"SELECT {group}, MIN(k) AS m FROM b [SESSION {seconds} SECONDS] WHERE x > {limit} GROUP BY {group}",
        )
        yield f"guest{number}", texts[number % len(texts)]

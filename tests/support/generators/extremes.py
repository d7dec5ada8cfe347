"""Rows at both ends of event time, and what queries over them must give, in whole numbers by nested loops."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from random import Random

import pyarrow as pa

from tests.support.harness import CoreHarness
from tests.support.read_results import read_chunk
from weft.execution.results.read import chunks_of, plan_reading
from weft.plan.time import TIME_MAX, TIME_MIN
from weft.planner.strategy import choose_strategy

SECOND = 1_000_000
SIZE, SLIDE, GAP = 10 * SECOND, 4 * SECOND, 3 * SECOND
LATENESS = 20 * SECOND
SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.int64()), ("x", pa.int32())])
YEAR_1, YEAR_9999, YEAR_10000 = -62_135_596_800 * SECOND, 253_402_300_799 * SECOND, 253_402_300_800 * SECOND
ANCHORS = (TIME_MIN, -(2**62), YEAR_1, 0, YEAR_9999, YEAR_10000, 2**62, TIME_MAX)

Row = tuple[int, int, int]
"""Event time, key, value."""
Result = tuple[int, ...]
Batches = Sequence[Mapping[str, Sequence[Row]]]


def draw_rows(random: Random, count: int) -> list[list[Row]]:
    """Rows around the anchors, mostly in order, in batches."""
    times = []
    for anchor in random.sample(ANCHORS, random.randint(1, 4)):
        for _ in range(random.randint(1, count)):
            near = anchor + random.choice((0, 1, -1, random.randint(-30, 30) * SECOND, random.randint(-9, 9)))
            times.append(max(TIME_MIN, min(TIME_MAX, near)))
    if random.random() < 0.8:
        times.sort()
    rows = [(time, random.randint(1, 2), random.randint(0, 99)) for time in times]
    cuts = sorted(random.randint(0, len(rows)) for _ in range(random.randint(0, 3)))
    return [rows[a:b] for a, b in zip([0, *cuts], [*cuts, len(rows)], strict=True)]


def to_batch(rows: Sequence[Row]) -> pa.RecordBatch:
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    times = pa.array(columns[0], pa.int64()).cast(SCHEMA.types[0])
    return pa.RecordBatch.from_arrays(
        [times, pa.array(columns[1], pa.int64()), pa.array(columns[2], pa.int32())], schema=SCHEMA
    )


def results(harness: CoreHarness, name: str, columns: Sequence[str]) -> Counter[Result]:
    """A query's committed rows; timestamps as numbers, which have no years."""
    core = harness.core
    record = next(each for each in core.roster.records.values() if each.name == name)
    data = str(core.directory.path("data"))
    reading = plan_reading(
        record,
        core.roster.bound_query(record.id),
        choose_strategy(core.roster.bound_query(record.id), record.route),
        core.streams,
        data=data,
    )
    found: Counter[Result] = Counter()
    for chunk in chunks_of(reading, core.inventory.results):
        table = read_chunk(reading, chunk)
        found.update(zip(*(table.column(column).cast(pa.int64()).to_pylist() for column in columns), strict=True))
    return found


# ---- the contract, once more


def admitted(batches: Batches, stream: str) -> list[Row]:
    """Rows that are not late against the watermark of the batch before."""
    found, top = list[Row](), None
    for batch in batches:
        rows = batch.get(stream, ())
        found += [row for row in rows if top is None or row[0] >= top - LATENESS]
        top = max([row[0] for row in rows] + ([] if top is None else [top]), default=None)
    return found


def watermark(batches: Batches, streams: Iterable[str]) -> int | None:
    tops = [max((row[0] for batch in batches for row in batch.get(each, ())), default=None) for each in streams]
    return None if None in tops else min(top for top in tops if top is not None) - LATENESS


def windows(earliest: int, latest: int, size: int, slide: int) -> Iterator[int]:
    """Beginnings of the windows that hold both; none is before the earliest time there is."""
    start = earliest // slide * slide
    while start + size > latest:
        if start >= TIME_MIN:
            yield start
        start -= slide


def close(size: int) -> Callable[..., bool]:
    return lambda *rows: max(row[0] for row in rows) - min(row[0] for row in rows) < size


def end_of(start: int, size: int) -> int:
    return min(start + size, TIME_MAX)


def sessions(rows: Sequence[tuple[Row, int]], longest: int | None) -> Iterator[list[tuple[Row, int]]]:
    """Sessions of each key over tagged rows."""
    for key in {row[1] for row, _ in rows}:
        mine = sorted((each for each in rows if each[0][1] == key), key=lambda each: each[0][0])
        session: list[tuple[Row, int]] = []
        for each in mine:
            cut = longest is not None and session and each[0][0] // longest != session[0][0][0] // longest
            if session and (cut or each[0][0] - session[-1][0][0] >= GAP):
                yield session
                session = []
            session.append(each)
        yield session


@dataclass(frozen=True, slots=True)
class Case:
    """A query, the columns to compare, and its rows by the contract."""

    sql: str
    columns: tuple[str, ...]
    expected: Callable[[Batches], Counter[Result]]


def _selection(batches: Batches) -> Counter[Result]:
    return Counter(row for row in admitted(batches, "a"))


def _windowed(size: int, slide: int) -> Callable[[Batches], Counter[Result]]:
    def expected(batches: Batches) -> Counter[Result]:
        return Counter(
            (row[2], start, end_of(start, size))
            for row in admitted(batches, "a")
            for start in windows(row[0], row[0], size, slide)
        )

    return expected


def _joined(streams: str, fits: Callable[..., bool]) -> Callable[[Batches], Counter[Result]]:
    def expected(batches: Batches) -> Counter[Result]:
        sides = [admitted(batches, each) for each in streams]
        return Counter(
            tuple(row[2] for row in rows)
            for rows in product(*sides)
            if len({row[1] for row in rows}) == 1 and fits(*rows)
        )

    return expected


def _joined_windows(batches: Batches) -> Counter[Result]:
    return Counter(
        (p[2], q[2], start, end_of(start, SIZE))
        for p, q in product(admitted(batches, "a"), admitted(batches, "b"))
        if p[1] == q[1]
        for start in windows(min(p[0], q[0]), max(p[0], q[0]), SIZE, SLIDE)
    )


def _aggregated(streams: str, size: int, slide: int) -> Callable[[Batches], Counter[Result]]:
    def expected(batches: Batches) -> Counter[Result]:
        until = watermark(batches, streams)
        groups: Counter[tuple[int, int]] = Counter()
        sums: Counter[tuple[int, int]] = Counter()
        for rows in product(*(admitted(batches, each) for each in streams)):
            if len({row[1] for row in rows}) == 1:
                times = [row[0] for row in rows]
                for start in windows(min(times), max(times), size, slide):
                    if until is not None and start + size <= until:
                        groups[rows[0][1], start] += 1
                        sums[rows[0][1], start] += rows[0][2]
        return Counter((key, count, sums[key, start], start, start + size) for (key, start), count in groups.items())

    return expected


def _ended(batches: Batches, streams: str, longest: int | None) -> Iterator[tuple[list[tuple[Row, int]], int, int]]:
    """Sessions that have ended, where each begins and where it ends."""
    until = watermark(batches, streams)
    tagged = [(row, side) for side, each in enumerate(streams) for row in admitted(batches, each)]
    for session in sessions(tagged, longest):
        first, end = session[0][0][0], session[-1][0][0] + GAP
        if longest is not None:
            end = min(end, (first // longest + 1) * longest)
        if until is not None and end <= until:
            yield session, first, end


def _session_groups(longest: int | None) -> Callable[[Batches], Counter[Result]]:
    return lambda batches: Counter(
        (rows[0][0][1], len(rows), sum(row[2] for row, _ in rows), first, end)
        for rows, first, end in _ended(batches, "a", longest)
    )


def _session_pairs(longest: int | None) -> Callable[[Batches], Counter[Result]]:
    return lambda batches: Counter(
        (p[2], q[2], first, end)
        for rows, first, end in _ended(batches, "ab", longest)
        for (p, left), (q, right) in product(rows, rows)
        if (left, right) == (0, 1)
    )


def _session_pair_groups(longest: int | None) -> Callable[[Batches], Counter[Result]]:
    def expected(batches: Batches) -> Counter[Result]:
        found: Counter[Result] = Counter()
        for rows, first, end in _ended(batches, "ab", longest):
            left, right = ([row for row, side in rows if side == each] for each in (0, 1))
            if left and right:
                total = len(right) * sum(row[2] for row in left)
                found[left[0][1], len(left) * len(right), total, first, end] += 1
        return found

    return expected


_EDGES = ("window_start", "window_end")
_PAIR = ("0.x", "1.x")
_GROUP = ("g0", "a0", "a1", *_EDGES)
_SUM = "COUNT(*) AS n, SUM(p.x) AS s, window_start, window_end"
_SLIDING, _SESSION = "[RANGE 10 SECONDS SLIDE 4 SECONDS]", "[SESSION 3 SECONDS]"
_RANGE, _TUMBLE = "[RANGE 10 SECONDS]", "[TUMBLE 10 SECONDS]"
_AND_C = "JOIN c {0} r ON q.k = r.k"


def _pair(select: str, window: str) -> str:
    return f"SELECT {select} FROM a {window} p JOIN b {window} q ON p.k = q.k"


CASES = {
    "selection": Case("SELECT ts, k, x FROM a", ("0.ts", "0.k", "0.x"), _selection),
    "tumbling": Case(
        f"SELECT x, window_start, window_end FROM a {_TUMBLE}", ("0.x", *_EDGES), _windowed(SIZE, SIZE)
    ),
    "sliding": Case(f"SELECT x, window_start, window_end FROM a {_SLIDING}", ("0.x", *_EDGES), _windowed(SIZE, SLIDE)),
    "range_join": Case(_pair("p.x, q.x", _RANGE), _PAIR, _joined("ab", close(SIZE))),
    "unbounded_join": Case(_pair("p.x, q.x", "[UNBOUNDED]"), _PAIR, _joined("ab", lambda *_: True)),
    "interval_join": Case(
        _pair("p.x, q.x", "[UNBOUNDED]") + " AND q.ts BETWEEN p.ts AND p.ts + INTERVAL 5 SECONDS",
        _PAIR,
        _joined("ab", lambda p, q: 0 <= q[0] - p[0] <= 5 * SECOND),
    ),
    "sliding_join": Case(
        _pair("p.x, q.x, window_start, window_end", _SLIDING), (*_PAIR, *_EDGES), _joined_windows
    ),
    "theta_join": Case(
        f"SELECT p.x, q.x FROM a {_RANGE} p JOIN b {_RANGE} q ON p.k = q.k AND p.x < q.x",
        _PAIR,
        _joined("ab", lambda p, q: close(SIZE)(p, q) and p[2] < q[2]),
    ),
    "three": Case(
        _pair("p.x, q.x, r.x", _RANGE) + " " + _AND_C.format(_RANGE),
        (*_PAIR, "2.x"),
        _joined("abc", close(SIZE)),
    ),
    "tumbling_sum": Case(
        f"SELECT p.k, {_SUM} FROM a {_TUMBLE} p GROUP BY p.k", _GROUP, _aggregated("a", SIZE, SIZE)
    ),
    "sliding_sum": Case(
        f"SELECT p.k, {_SUM} FROM a {_SLIDING} p GROUP BY p.k", _GROUP, _aggregated("a", SIZE, SLIDE)
    ),
    "joined_sum": Case(
        _pair(f"p.k, {_SUM}", _SLIDING) + " GROUP BY p.k", _GROUP, _aggregated("ab", SIZE, SLIDE)
    ),
    "three_sum": Case(
        _pair(f"p.k, {_SUM}", _SLIDING) + " " + _AND_C.format(_SLIDING) + " GROUP BY p.k",
        _GROUP,
        _aggregated("abc", SIZE, SLIDE),
    ),
}  # fmt: skip
for _name, _window, _longest in (("", _SESSION, None), ("_cut", "[SESSION 3 SECONDS MAX 7 SECONDS]", 7 * SECOND)):
    CASES |= {
        f"session_sum{_name}": Case(
            f"SELECT p.k, {_SUM} FROM a {_window} p GROUP BY p.k", _GROUP, _session_groups(_longest)
        ),
        f"session_join{_name}": Case(
            _pair("p.x, q.x, window_start, window_end", _window), (*_PAIR, *_EDGES), _session_pairs(_longest)
        ),
        f"session_join_sum{_name}": Case(
            _pair(f"p.k, {_SUM}", _window) + " GROUP BY p.k", _GROUP, _session_pair_groups(_longest)
        ),
    }

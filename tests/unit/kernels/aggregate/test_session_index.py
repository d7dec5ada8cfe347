"""Finding cells of sessions without looking at all of them, against looking at all of them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.kernels.aggregate.cells import LAST, ROWS, Cells
from weft.kernels.aggregate.session_index import chosen_cells, ending_spans, index_sessions, surely_open_after
from weft.kernels.aggregate.sessions import SessionQuery
from weft.plan.time import TIME_MAX, TIME_MIN

TIMES = st.integers(-30, 30)
QUERY = st.builds(
    lambda slot, gap, times: SessionQuery(slot, gap, None if times is None else gap * times),
    st.integers(0, 3), st.integers(1, 9), st.none() | st.integers(1, 4),
)  # fmt: skip
RUNS = st.lists(st.tuples(TIMES, st.integers(0, 4)), min_size=1, max_size=12)


@given(queries=st.lists(QUERY, min_size=1, max_size=3), after=st.none() | TIMES, upto=TIMES, runs=RUNS)
@settings(max_examples=200)
def test_every_session_that_ends_is_found_by_its_last_row(
    queries: list[SessionQuery], after: int | None, upto: int, runs: list[tuple[int, int]]
) -> None:
    last, group = (np.array(each, np.int64) for each in zip(*runs, strict=True))
    hashes = np.array([7, 3, 7, 2**63, 0], np.uint64)
    index = index_sessions(group, last, hashes)
    spans = ending_spans(queries, after=after, upto=upto)
    found = index.ending(last, spans)
    wanted = [n for n, time in enumerate(last) if any((a is None or time > a) and time <= b for a, b in spans)]
    assert found.tolist() == wanted
    for query in queries:
        over = query.over(last, last, upto)
        ends_now = over if after is None else over & ~query.over(last, last, after)
        assert set(np.flatnonzero(ends_now)) <= set(found), "a row that is a session of its own"
        if int(last.max()) > surely_open_after(queries, upto):
            assert not all(each.over(last, last, upto).all() for each in queries)
    assert index.newest(last) == max(last)
    for chosen in ([7], [3, 2**63], [], [1]):
        groups = index.groups_with(np.array(sorted(chosen), np.uint64))
        assert groups.tolist() == [n for n, value in enumerate(hashes.tolist()) if value in chosen]
        assert index.cells_of(groups).tolist() == [n for n, of in enumerate(group) if of in groups]


def test_chosen_cells_have_their_own_groups_only() -> None:
    cells = Cells(
        groups=(pa.array(["a", "b", "c"]),),
        group_count=3,
        sets=np.ones((1, 1), np.uint64),
        slices=np.array([5, 6, 7, 8]),
        classes=np.zeros(4, np.int32),
        group=np.array([2, 0, 2, 1], np.int32),
        lanes={ROWS: np.array([1, 2, 3, 4]), LAST: np.array([5, 6, 7, 8])},
    )
    found = chosen_cells(cells, np.array([0, 3]))
    assert found.groups[0].take(pa.array(found.group)).to_pylist() == ["c", "b"]
    assert (found.group_count, found.lanes[ROWS].tolist(), found.classes.dtype) == (2, [1, 4], np.int64)


def test_spans_stay_within_the_range_of_times() -> None:
    query = SessionQuery(0, 5, 10)
    for after, upto in ((TIME_MIN, TIME_MIN), (TIME_MAX, TIME_MAX), (None, TIME_MIN)):
        for span in ending_spans([query], after=after, upto=upto):
            assert all(edge is None or TIME_MIN <= edge <= TIME_MAX for edge in span)

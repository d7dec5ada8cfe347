"""Weaving of aggregations: who shares a store of slices, what it accumulates, who is classed with whom."""

from __future__ import annotations

import pytest

from tests.unit.engine.sample import live
from weft.optimize.slices import SMALLEST_FAMILY, slice_sides, weave_slices
from weft.plan.changelog import LiveQuery
from weft.plan.expression import to_sql
from weft.plan.key import key_text
from weft.plan.shared import SliceStore

SECOND = 1_000_000
ON = "FROM a [TUMBLE 5 SECONDS] p JOIN b [TUMBLE 5 SECONDS] q ON p.k = q.k"


def one(
    select: str, slot: int = 0, *, where: str = "", window: str = "[TUMBLE 5 SECONDS]", group: str = "k"
) -> LiveQuery:
    condition = f" WHERE {where}" if where else ""
    return live(f"SELECT {select} FROM a {window}{condition} GROUP BY {group}", slot)


def texts(store: SliceStore) -> list[tuple[str, str]]:
    return [(function.value, "" if part is None else to_sql(part)) for function, part in store.accumulators]


def test_equal_groupings_share_a_store_whatever_they_filter_and_compute() -> None:
    queries = [
        one("COUNT(*)", 0),
        one("SUM(x), MIN(s)", 1, where="x > 3"),
        one("SUM(x), AVG(j)", 2, window="[RANGE 8 SECONDS SLIDE 3 SECONDS]"),
    ]
    (store,), (aggregate,) = weave_slices(queries)
    assert store.slots == aggregate.slots == 0b111
    assert texts(store) == [("count", "`j`"), ("min", "`s`"), ("sum", "`j`"), ("sum", "`x`")]
    assert aggregate.stores == (store.id,)
    assert aggregate.streams == ("a",)
    assert store.side.route == 1


@pytest.mark.parametrize(
    "other",
    [
        one("COUNT(*)", 1, group="j"),
        one("COUNT(*)", 1, group="k, j"),
        one("COUNT(*)", 1, window="[SESSION 5 SECONDS]"),
        live("SELECT COUNT(*) FROM b [TUMBLE 5 SECONDS] GROUP BY k", 1),
        live(f"SELECT COUNT(*) {ON}", 1),
    ],
    ids=["key", "keys", "session", "stream", "join"],
)
def test_other_groupings_have_stores_of_their_own(other: LiveQuery) -> None:
    stores, aggregates = weave_slices([one("COUNT(*)", 0), other])
    assert len(stores) == 2 + other.query.is_join
    assert [bin(each.slots).count("1") for each in aggregates] == [1, 1]
    assert len({store.id for store in stores}) == len(stores)


def test_a_join_accumulates_what_each_side_needs_by_join_key_and_group() -> None:
    query = live(f"SELECT q.s, COUNT(*), SUM(p.x), SUM(p.x * q.j), COUNT(q.j), MAX(q.s) {ON} GROUP BY q.s")
    stores, (aggregate,) = weave_slices([query])
    by_stream = {store.side.stream: store for store in stores}
    assert texts(by_stream["a"]) == [("sum", "`x`")]
    assert texts(by_stream["b"]) == [("count", "`j`"), ("max", "`s`"), ("sum", "`j`")]
    assert aggregate.stores == (by_stream["a"].id, by_stream["b"].id)
    assert aggregate.streams == ("a", "b")
    left, right = slice_sides(query.query)
    assert (key_text(left.keys), left.route, left.joined) == ("`k`", 1, True)
    assert (key_text(right.keys), right.route, right.joined) == ("`k`, `s`", 1, True)


def test_the_roles_of_one_stream_are_apart() -> None:
    query = live(f"SELECT COUNT(*) {ON}".replace("b [", "a ["))
    stores, (aggregate,) = weave_slices([query])
    assert len(stores) == 2
    assert aggregate.streams == ("a",)


def test_queries_are_classed_by_the_columns_they_filter() -> None:
    queries = [one("COUNT(*)", slot, where=f"x > {slot}") for slot in range(SMALLEST_FAMILY)]
    queries += [one("COUNT(*)", 10 + slot, where=f"j = {slot} AND x = {slot}") for slot in range(SMALLEST_FAMILY)]
    queries += [one("COUNT(*)", 20, where="s = 'a'"), one("COUNT(*)", 21)]
    (store,), _ = weave_slices(queries)
    found = {family.columns: family.slots for family in store.families}
    assert found == {("x",): 0b111, ("j", "x"): 0b111 << 10, (): 0b11 << 20}
    assert sum(family.slots for family in store.families) == store.slots


def test_a_family_knows_its_windows_each_once_and_its_least_gap() -> None:
    windows = ["[TUMBLE 5 SECONDS]", "[TUMBLE 5 SECONDS]", "[RANGE 8 SECONDS SLIDE 3 SECONDS]"]
    (store,), _ = weave_slices([one("COUNT(*)", slot, window=window) for slot, window in enumerate(windows)])
    (family,) = store.families
    assert family.windows == ((5 * SECOND, 5 * SECOND), (8 * SECOND, 3 * SECOND))
    assert family.gap is None
    gaps = ["[SESSION 7 SECONDS]", "[SESSION 2 SECONDS]", "[SESSION 9 SECONDS]"]
    (store,), _ = weave_slices([one("COUNT(*)", slot, window=window) for slot, window in enumerate(gaps)])
    (family,) = store.families
    assert (family.windows, family.gap) == ((), 2 * SECOND)


def test_queries_without_aggregation_have_no_part_in_it() -> None:
    assert weave_slices([live("SELECT x FROM a")]) == ((), ())


def test_the_order_of_queries_does_not_matter() -> None:
    queries = [one("COUNT(*)", 0), one("SUM(x)", 1, group="j"), live(f"SELECT COUNT(*) {ON}", 2), one("MAX(s)", 3)]
    assert weave_slices(queries) == weave_slices(queries[::-1])

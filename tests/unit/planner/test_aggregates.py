"""Weaving of aggregations: who shares a store of slices, what it accumulates, who is classed with whom."""

from __future__ import annotations

import pytest

from tests.support.engine_sample import live
from weft.plan.changelog import LiveQuery
from weft.plan.expression import to_sql
from weft.plan.key import key_text
from weft.plan.shared import SliceStore
from weft.plan.types import BIGINT, BOOLEAN, DOUBLE, INT, DataType, Kind
from weft.planner.aggregates import SMALLEST_FAMILY, plan_aggregates, sliced_relations
from weft.planner.join_aggregates import over_combinations

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
    (store,), (aggregate,) = plan_aggregates(queries)
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
    stores, aggregates = plan_aggregates([one("COUNT(*)", 0), other])
    assert len(stores) == 2 + (len(other.query.relations) == 2)
    assert [bin(each.slots).count("1") for each in aggregates] == [1, 1]
    assert len({store.id for store in stores}) == len(stores)


def test_a_join_accumulates_what_each_side_needs_by_join_key_and_group() -> None:
    query = live(f"SELECT q.s, COUNT(*), SUM(p.x), SUM(p.x * q.j), COUNT(q.j), MAX(q.s) {ON} GROUP BY q.s")
    stores, (aggregate,) = plan_aggregates([query])
    by_stream = {store.side.stream: store for store in stores}
    assert texts(by_stream["a"]) == [("sum", "`x`")]
    assert texts(by_stream["b"]) == [("count", "`j`"), ("max", "`s`"), ("sum", "`j`")]
    assert aggregate.stores == (by_stream["a"].id, by_stream["b"].id)
    assert aggregate.streams == ("a", "b")
    left, right = sliced_relations(query.strategy)
    assert (key_text(left.keys), left.route, left.joined) == ("`k`", 1, True)
    assert (key_text(right.keys), right.route, right.joined) == ("`k`, `s`", 1, True)


def test_the_roles_of_one_stream_are_apart() -> None:
    query = live(f"SELECT COUNT(*) {ON}".replace("b [", "a ["))
    stores, (aggregate,) = plan_aggregates([query])
    assert len(stores) == 2
    assert aggregate.streams == ("a",)


def test_queries_are_classed_by_the_columns_they_filter() -> None:
    queries = [one("COUNT(*)", slot, where=f"x > {slot}") for slot in range(SMALLEST_FAMILY)]
    queries += [one("COUNT(*)", 10 + slot, where=f"j = {slot} AND x = {slot}") for slot in range(SMALLEST_FAMILY)]
    queries += [one("COUNT(*)", 20, where="s = 'a'"), one("COUNT(*)", 21)]
    (store,), _ = plan_aggregates(queries)
    found = {family.columns: family.slots for family in store.families}
    assert found == {("x",): 0b111, ("j", "x"): 0b111 << 10, (): 0b11 << 20}
    assert sum(family.slots for family in store.families) == store.slots


def test_a_family_knows_its_windows_each_once_and_its_least_gap() -> None:
    windows = ["[TUMBLE 5 SECONDS]", "[TUMBLE 5 SECONDS]", "[RANGE 8 SECONDS SLIDE 3 SECONDS]"]
    (store,), _ = plan_aggregates([one("COUNT(*)", slot, window=window) for slot, window in enumerate(windows)])
    (family,) = store.families
    assert family.windows == ((5 * SECOND, 5 * SECOND), (8 * SECOND, 3 * SECOND))
    assert family.gap is None
    gaps = ["[SESSION 7 SECONDS]", "[SESSION 2 SECONDS]", "[SESSION 9 SECONDS]"]
    (store,), _ = plan_aggregates([one("COUNT(*)", slot, window=window) for slot, window in enumerate(gaps)])
    (family,) = store.families
    assert (family.windows, family.gap) == ((), 2 * SECOND)


THREE = "FROM a [TUMBLE 5 SECONDS] p JOIN b [TUMBLE 5 SECONDS] q ON p.k = q.k JOIN c [TUMBLE 5 SECONDS] r ON q.j = r.j"
TURNED = "FROM c [TUMBLE 7 SECONDS] r JOIN b [TUMBLE 7 SECONDS] q ON r.j = q.j JOIN a [TUMBLE 7 SECONDS] p ON q.k = p.k"


def test_equal_groupings_of_combinations_share_a_store_whatever_order_and_windows_they_have() -> None:
    queries = [
        live(f"SELECT r.k, COUNT(*), SUM(p.x * q.j) {THREE} GROUP BY r.k", 0),
        live(f"SELECT r.k, AVG(q.j * p.x) {TURNED} WHERE p.x > 3 GROUP BY r.k", 1),
    ]
    (store,), (aggregate,) = plan_aggregates(queries)
    assert store.slots == aggregate.slots == 0b11
    factors = "(CAST(`a#0.x` AS bigint) * `b#0.j`)"
    assert texts(store) == [("count", factors), ("sum", factors)]
    assert aggregate.stores == (store.id,)
    assert aggregate.streams == ("a", "b", "c")
    assert (key_text(store.side.keys), store.side.route, store.side.joined) == ("`c#0.k`", 1, False)
    (family,) = store.families
    assert family.windows == ((5 * SECOND, 5 * SECOND), (7 * SECOND, 7 * SECOND))


@pytest.mark.parametrize(
    "other",
    [
        live(f"SELECT COUNT(*) {THREE} GROUP BY q.k", 1),
        live(f"SELECT COUNT(*) {THREE}", 1),
        live(f"SELECT COUNT(*) {THREE} AND p.x < r.x GROUP BY r.k", 1),
        live("SELECT COUNT(*) FROM c [TUMBLE 5 SECONDS] GROUP BY k", 1),
    ],
    ids=["key", "none", "condition", "stream"],
)
def test_other_groupings_of_combinations_have_stores_of_their_own(other: LiveQuery) -> None:
    stores, aggregates = plan_aggregates([live(f"SELECT COUNT(*) {THREE} GROUP BY r.k", 0), other])
    assert len({store.id for store in stores}) == len(aggregates) == 2


def test_combinations_are_classed_by_the_columns_all_predicates_read() -> None:
    queries = [live(f"SELECT COUNT(*) {THREE} WHERE p.x > {slot} AND r.x > 1", slot) for slot in range(SMALLEST_FAMILY)]
    queries.append(live(f"SELECT COUNT(*) {THREE} WHERE q.x > 1", 9))
    (store,), _ = plan_aggregates(queries)
    assert {family.columns: family.slots for family in store.families} == {("a#0.x", "c#0.x"): 0b111, (): 1 << 9}


@pytest.mark.parametrize(
    ("call", "wanted"),
    [
        ("SUM(p.x)", ("`a#0.x`", INT)),
        ("SUM(q.x * p.x)", ("(CAST(`a#0.x` AS bigint) * CAST(`b#0.x` AS bigint))", BIGINT)),
        ("SUM(CAST(p.x AS DOUBLE) * r.x)", ("(CAST(`a#0.x` AS double) * CAST(`c#0.x` AS double))", DOUBLE)),
        (
            "SUM(CAST(p.x AS DECIMAL(12, 2)) * r.x)",
            ("(CAST(`a#0.x` AS decimal(12,2)) * CAST(`c#0.x` AS decimal(10,0)))", DataType(Kind.DECIMAL, 23, 2)),
        ),
        (
            "COUNT(p.s * r.x)",
            (
                "(CASE WHEN ((`a#0.s` IS NOT NULL) AND (`c#0.x` IS NOT NULL)) "
                "THEN TRUE ELSE CAST(NULL AS boolean) END)",
                BOOLEAN,
            ),
        ),
    ],
)
def test_arguments_over_combinations(call: str, wanted: tuple[str, DataType]) -> None:
    found = over_combinations(live(f"SELECT {call} {THREE}").query)
    (argument,) = found.calls[0].arguments
    assert argument is not None
    assert (to_sql(argument), argument.type) == wanted


def test_queries_without_aggregation_have_no_part_in_it() -> None:
    assert plan_aggregates([live("SELECT x FROM a")]) == ((), ())


def test_the_order_of_queries_does_not_matter() -> None:
    queries = [one("COUNT(*)", 0), one("SUM(x)", 1, group="j"), live(f"SELECT COUNT(*) {ON}", 2), one("MAX(s)", 3)]
    assert plan_aggregates(queries) == plan_aggregates(queries[::-1])

"""Joins of three to six relations: shapes, names, connections and aggregation."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.sql_streams import ads, aggregation, bound, calls, distances, joined_by
from weft.errors import AmbiguousColumn, CrossProduct, UnknownColumn, UnsupportedQuery
from weft.plan.aggregation import GroupKey
from weft.plan.expression import TRUE, Column, to_sql
from weft.plan.query import Condition, KeyPair
from weft.plan.types import BIGINT, INT
from weft.plan.window import EVERYTHING, Sliding
from weft.sql.names.connection import linked_groups

SECOND = timedelta(seconds=1)
IMPOSSIBLE = "the conditions contradict each other: the query will never give a row"


@pytest.mark.parametrize(
    ("names", "where", "wanted"),
    [
        ("abc", "a.userID = b.userID AND b.gemPack = c.gemPack", ["0.userID = 1.userID", "1.gemPack = 2.gemPack"]),
        (
            "abcd",
            "d.userID = a.userID AND a.gemPack = c.gemPack AND b.label = a.label",
            ["0.label = 1.label", "0.gemPack = 2.gemPack", "0.userID = 3.userID"],
        ),
        (
            "abc",
            "a.userID = b.userID AND b.userID = c.userID AND c.userID = a.userID",
            ["0.userID = 1.userID", "0.userID = 2.userID", "1.userID = 2.userID"],
        ),
        (
            "abcdef",
            "a.userID = b.userID AND b.userID = c.userID AND c.label = d.label AND b.gemPack = e.gemPack "
            "AND f.fee = e.fee AND f.userID = a.userID",
            [
                "0.userID = 1.userID", "0.userID = 5.userID", "1.userID = 2.userID", "1.gemPack = 4.gemPack",
                "2.label = 3.label", "4.fee = 5.fee",
            ],
        ),
        (
            "abc",
            "(a.userID, a.gemPack) = (b.userID, b.gemPack) AND c.gemPack = b.gemPack AND b.gemPack = c.gemPack",
            ["0.gemPack = 1.gemPack", "0.userID = 1.userID", "1.gemPack = 2.gemPack"],
        ),
    ],
    ids=["chain", "star", "cycle", "mixed", "several columns"],
)  # fmt: skip
def test_shapes(names: str, where: str, wanted: list[str]) -> None:
    """No equality is added that was not written, and one written twice is kept once."""
    query = ads(names, where)
    assert joined_by(query) == wanted
    assert len(query.relations) > 2
    assert len(query.relations) != 2
    assert not query.conditions
    assert query.bounds == EVERYTHING
    assert len(query.pair_bounds) == len(names) * (len(names) - 1) // 2
    assert [relation.role for relation in query.relations] == list(range(len(names)))


def test_roles_count_per_stream() -> None:
    query = bound(
        "SELECT 1 FROM ads [RANGE 1 s] a JOIN purchases [RANGE 1 s] p USING (userID) JOIN ads [RANGE 1 s] b "
        "USING (userID) JOIN purchases [RANGE 1 s] q USING (userID) JOIN ads [RANGE 1 s] c USING (userID)"
    )
    assert [(each.stream, each.role) for each in query.relations] == [
        ("ads", 0), ("purchases", 0), ("ads", 1), ("purchases", 1), ("ads", 2),
    ]  # fmt: skip
    assert joined_by(query) == [f"0.userID = {other}.userID" for other in (1, 2, 3, 4)]


@pytest.mark.parametrize(
    "text",
    [
        "ads [RANGE 2 s] a JOIN ads [RANGE 2 s] b ON a.userID = b.userID JOIN purchases [RANGE 3 s] p "
        "ON p.userID = b.userID AND p.price > 5",
        "ads [RANGE 2 s] a, ads [RANGE 2 s] b, purchases [RANGE 3 s] p WHERE a.userID = b.userID "
        "AND b.userID = p.userID AND price > 5",
        "ads [RANGE 2 s] a, ads [RANGE 2 s] b INNER JOIN purchases [RANGE 3 s] AS p ON b.userID = p.userID "
        "WHERE a.userID = b.userID AND 5 < p.price",
        "ads [RANGE 2 s] a JOIN ads [RANGE 2 s] b JOIN purchases [RANGE 3 s] p ON b.userID = p.userID "
        "WHERE b.userID = a.userID AND p.price > 5",
    ],
)
def test_ways_to_write_one_join(text: str) -> None:
    query = bound(f"SELECT a.gemPack + b.gemPack + p.price AS x, p.name FROM {text}")
    assert joined_by(query) == ["0.userID = 1.userID", "1.userID = 2.userID"]
    assert [each.columns for each in query.relations] == [("gemPack",), ("gemPack",), ("price", "name")]
    assert query.outputs[0].sql == "`0.gemPack` + `1.gemPack` + `2.price`"
    assert query.outputs[0].type == INT
    assert query.outputs[1].source == "2.name"
    assert [each.predicate and to_sql(each.predicate) for each in query.relations] == [
        None, None, "(`price` > CAST('5' AS int))",
    ]  # fmt: skip
    assert distances(query) == {
        (0, 1): (-1_999_999, 1_999_999), (0, 2): (-1_999_999, 2_999_999), (1, 2): (-1_999_999, 2_999_999),
    }  # fmt: skip


def test_keys_are_coerced_pair_by_pair() -> None:
    query = bound(
        "SELECT 1 FROM purchases [RANGE 1 s] p, ads [RANGE 1 s] a, purchases [RANGE 1 s] q "
        "WHERE p.price = a.userID AND q.tiny + 1 = p.price AND upper(q.name) = a.label"
    )
    assert [(key.left_relation, key.right_relation, key.type.ddl()) for key in query.keys] == [
        (0, 1, "bigint"), (0, 2, "int"), (1, 2, "string"),
    ]  # fmt: skip
    assert to_sql(query.keys[0].left) == "CAST(`price` AS bigint)"
    assert query.notices == ('join key "upper(`name`)" is evaluated by Spark: stream "purchases" takes the row path',)


# ---- USING and visibility


def test_using_makes_one_column_of_three() -> None:
    query = bound(
        "SELECT userID, c.userID FROM ads [RANGE 1 s] a JOIN ads [RANGE 1 s] b USING (userID) "
        "JOIN ads [RANGE 1 s] c USING (USERID) WHERE userID > 3"
    )
    assert joined_by(query) == ["0.userID = 1.userID", "0.userID = 2.userID"]
    assert [output.source for output in query.outputs] == ["0.userID", "2.userID"]
    assert query.relations[0].predicate is not None
    assert query.relations[1].predicate is None


def test_using_takes_the_first_column_of_the_left_side_as_spark_does() -> None:
    query = bound(
        "SELECT c.userID FROM ads [RANGE 1 s] a JOIN ads [RANGE 1 s] b ON a.label = b.label "
        "JOIN ads [RANGE 1 s] c USING (userID)"
    )
    assert joined_by(query) == ["0.label = 1.label", "0.userID = 2.userID"]
    with pytest.raises(AmbiguousColumn) as caught:
        bound(
            "SELECT 1 FROM ads [RANGE 1 s] a JOIN ads [RANGE 1 s] b ON a.label = b.label "
            "JOIN ads [RANGE 1 s] c USING (userID) WHERE userID = 1"
        )
    assert "It exists in a and b." in caught.value.detail


def test_using_may_begin_in_the_middle() -> None:
    query = bound(
        "SELECT label FROM purchases [RANGE 1 s] p JOIN ads [RANGE 1 s] a USING (userID) "
        "JOIN ads [RANGE 1 s] b USING (label)"
    )
    assert joined_by(query) == ["0.userID = 1.userID", "1.label = 2.label"]
    assert query.outputs[0].source == "1.label"


def test_using_sees_only_its_own_chain() -> None:
    query = bound(
        "SELECT b.userID FROM ads [RANGE 1 s] a, ads [RANGE 1 s] b JOIN ads [RANGE 1 s] c USING (userID) "
        "WHERE a.label = c.label"
    )
    assert joined_by(query) == ["0.label = 2.label", "1.userID = 2.userID"]
    with pytest.raises(AmbiguousColumn):
        bound(
            "SELECT userID FROM ads [RANGE 1 s] a, ads [RANGE 1 s] b JOIN ads [RANGE 1 s] c USING (userID) "
            "WHERE a.label = c.label"
        )


def test_star_after_several_using() -> None:
    query = bound(
        "SELECT * FROM odd [RANGE 1 s] o, ads [RANGE 1 s] a JOIN ads [RANGE 1 s] b USING (userID) "
        "JOIN ads [RANGE 1 s] c USING (label) WHERE o.`select` = a.gemPack"
    )
    assert [output.source for output in query.outputs] == [
        "0.event time", "0.a.b", "0.we`ird", "0.select",
        "1.label", "1.userID", "1.ts", "1.gemPack", "1.fee", "1.shown",
        "2.ts", "2.gemPack", "2.fee", "2.label", "2.shown",
        "3.ts", "3.userID", "3.gemPack", "3.fee", "3.shown",
    ]  # fmt: skip


def test_names_in_on_mean_what_is_joined_so_far() -> None:
    """`price` is in p and q, but q comes later."""
    query = bound(
        "SELECT 1 FROM purchases [RANGE 1 s] p JOIN ads [RANGE 1 s] a ON price = fee AND p.userID = a.userID "
        "JOIN purchases [RANGE 1 s] q ON q.userID = a.userID"
    )
    assert joined_by(query)[0].startswith("0.CAST(price AS decimal")
    with pytest.raises(AmbiguousColumn, match='"price"'):
        bound(
            "SELECT 1 FROM purchases [RANGE 1 s] p JOIN ads [RANGE 1 s] a ON p.userID = a.userID "
            "JOIN purchases [RANGE 1 s] q ON q.userID = a.userID AND price = 1"
        )
    with pytest.raises(UnknownColumn) as caught:
        bound(
            "SELECT 1 FROM ads [RANGE 1 s] a JOIN ads [RANGE 1 s] b ON name = a.label "
            "JOIN purchases [RANGE 1 s] q ON q.userID = a.userID"
        )
    assert "q has" not in caught.value.hint


# ---- connection


def test_relations_apart_are_named() -> None:
    with pytest.raises(CrossProduct, match='no condition joins "b" with the other relations') as caught:
        ads("abc", "a.userID = c.userID AND b.gemPack > 3")
    assert caught.value.hint == "Add one: ON a.key = b.key."
    with pytest.raises(CrossProduct, match='"c" and "d" with'):
        ads("abcd", "a.userID = b.userID AND c.userID = d.userID")


def test_any_condition_connects() -> None:
    assert joined_by(ads("abc", "a.userID = b.userID AND b.gemPack < c.gemPack")) == ["0.userID = 1.userID"]
    assert ads("abc", "a.gemPack + b.gemPack = c.gemPack").conditions[0].relations == (0, 1, 2)


def test_relations_joined_by_time_alone() -> None:
    query = ads("abc", "a.userID = b.userID AND c.ts > b.ts + INTERVAL 1 SECOND AND a.ts < b.ts")
    assert query.conditions == (Condition((1, 2), TRUE),)
    assert distances(query)[1, 2] == (-4_999_998, -1_000_001)
    query = ads("abc", "a.userID = b.userID AND c.ts = b.ts + INTERVAL 1 SECOND AND a.ts = b.ts - INTERVAL 1 SECOND")
    assert joined_by(query) == ["0.userID = 1.userID", "1.(ts + INTERVAL '1' SECOND) = 2.ts"]
    assert query.conditions == ()


@given(st.integers(1, 6), st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=3), max_size=6))
def test_components(count: int, links: list[list[int]]) -> None:
    links = [[each % count for each in link] for link in links]
    groups = linked_groups(count, links)
    assert sorted(each for group in groups for each in group) == list(range(count))
    assert [group[0] for group in groups] == sorted(min(group) for group in groups)
    assert all(any(set(link) <= set(group) for group in groups) for link in links)
    for group in groups:
        for cut in range(1, len(group)):
            inside = set(group[:cut])
            assert any(inside & set(link) and set(link) - inside for link in links)


@pytest.mark.parametrize(
    ("where", "noticed"),
    [
        ("a.gemPack = b.gemPack AND b.gemPack = c.gemPack AND a.gemPack < c.gemPack", True),
        ("a.gemPack = b.gemPack AND b.gemPack = c.gemPack AND a.gemPack <= c.gemPack", False),
        ("a.gemPack = b.userID AND b.userID = c.gemPack AND c.gemPack <> a.gemPack", True),
        ("a.gemPack = b.gemPack AND b.gemPack = c.gemPack AND a.gemPack = 1 AND c.gemPack = 2", True),
        ("a.gemPack = b.gemPack AND b.gemPack = c.gemPack AND a.gemPack = 1 AND c.gemPack = 1", False),
        ("a.gemPack = b.userID AND b.userID = c.gemPack AND a.gemPack = 1 AND c.gemPack = 1.5", False),
        ("a.gemPack = b.gemPack AND b.userID = c.userID AND a.gemPack = 1 AND c.gemPack = 2", False),
        ("a.label = b.label AND b.label = c.label AND a.label = 'x' AND c.label = 'y'", True),
        ("a.fee = b.gemPack AND b.gemPack = c.fee AND a.fee = 1.0 AND c.fee = 1", False),
    ],
)
def test_contradicting_equalities_are_noticed(where: str, *, noticed: bool) -> None:
    assert ads("abc", where).notices == ((IMPOSSIBLE,) if noticed else ())


# ---- aggregation


def test_aggregation_over_three_relations() -> None:
    query = bound(
        "SELECT b.label, userID, count(*), sum(a.gemPack * c.gemPack), max(p.price), count(p.name) "
        "FROM ads [TUMBLE 5 s] a JOIN ads [TUMBLE 5 s] b USING (userID) JOIN ads [TUMBLE 5 s] c USING (userID) "
        "JOIN purchases [TUMBLE 5 s] p USING (userID) GROUP BY b.label, userID HAVING min(c.fee) > 1"
    )
    assert [(key.relation, to_sql(key.expression)) for key in aggregation(query).keys] == [
        (1, "`label`"),
        (0, "`userID`"),
    ]
    assert calls(query) == [
        ("rows", "", "", "", ""),
        ("sum", "`gemPack`", "", "`gemPack`", ""),
        ("max", "", "", "", "`price`"),
        ("count", "", "", "", "`name`"),
        ("min", "", "", "`fee`", ""),
    ]
    assert query.sliding == Sliding(5 * SECOND, 5 * SECOND)
    assert query.relations[3].columns == ()


def test_products_without_the_first_relation() -> None:
    query = ads(
        "abc", "a.userID = b.userID AND b.userID = c.userID GROUP BY c.gemPack", "[TUMBLE 5 s]",
        "avg(2 * b.gemPack * c.gemPack), sum(1) FILTER (WHERE c.gemPack > 1)",
    )  # fmt: skip
    found = calls(query)
    assert found[0] == ("sum", "", "(CAST('2' AS int) * `gemPack`)", "`gemPack`")
    assert found[2][3].startswith("(CASE WHEN")
    assert aggregation(query).keys == (GroupKey(Column("gemPack", INT), 2, INT),)


def test_products_are_over_two_relations_only() -> None:
    with pytest.raises(UnsupportedQuery, match="mixes relations"):
        ads(
            "abc", "a.userID = b.userID AND b.userID = c.userID", "[TUMBLE 5 s]",
            "sum(a.gemPack * b.gemPack * c.gemPack)",
        )  # fmt: skip


def test_window_functions_over_a_join() -> None:
    with pytest.raises(UnsupportedQuery, match="over a join") as caught:
        bound(
            "SELECT count(*) FROM ads a JOIN ads b USING (userID) JOIN ads c USING (userID) "
            "GROUP BY window(a.ts, '5 seconds')"
        )
    assert caught.value.hint.startswith("Write the window on all relations: ads [TUMBLE 5 SECONDS] AS a JOIN")


# ---- values


def test_values_check_themselves() -> None:
    column = Column("x", BIGINT)
    with pytest.raises(ValueError, match="1, 1"):
        KeyPair(column, column, BIGINT, 1, 1)
    for relations in ((0,), (1, 0), (1, 1)):
        with pytest.raises(ValueError, match="not several relations in order"):
            Condition(relations, TRUE)


def test_binding_does_not_depend_on_how_it_is_spaced() -> None:
    text = "SELECT 1 FROM ads [RANGE 1 s] a, ads [RANGE 2 s] b, ads [RANGE 3 s] c WHERE a.fee < b.fee AND b.fee = c.fee"
    assert replace(bound(text), sql="") == replace(bound(text.replace(" ", "\n ")), sql="")

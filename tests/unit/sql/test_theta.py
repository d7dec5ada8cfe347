"""Join conditions that are no equalities: how they are named, typed, ordered and left to Spark."""

from __future__ import annotations

import pytest

from tests.support.sql_streams import bound, join, keys
from weft.errors import CrossProduct, TypeMismatch
from weft.plan.expression import TRUE, Call, Column, Literal, Opaque, columns_of, to_sql
from weft.plan.query import BoundQuery, Condition
from weft.plan.types import BOOLEAN, INT


def conditions(query: BoundQuery) -> list[str]:
    return [to_sql(condition.expression) for condition in query.conditions]


def test_a_comparison() -> None:
    query = join("p.userID = a.userID AND p.price > a.gemPack")
    comparison = Call("gt", (Column("0.price", INT), Column("1.gemPack", INT)), BOOLEAN)
    assert query.conditions == (Condition((0, 1), comparison),)
    assert keys(query) == [("`userID`", "`userID`", "bigint")]
    assert len(query.relations) == 2
    assert query.conditions
    assert len(query.relations) == 2
    assert query.pair_bounds == ()
    assert (query.bounds.low, query.bounds.high) == (-4_999_999, 4_999_999)
    assert query.notices == ()


@pytest.mark.parametrize(
    ("on", "wanted"),
    [
        ("p.price < a.gemPack", "(`0.price` < `1.gemPack`)"),
        ("a.gemPack >= p.price", "(`0.price` <= `1.gemPack`)"),
        ("a.gemPack <> p.price", "(`0.price` <> `1.gemPack`)"),
        ("a.gemPack != p.price", "(`0.price` <> `1.gemPack`)"),
        ("a.userID <=> p.userID", "(`0.userID` <=> `1.userID`)"),
        ("p.price >= a.userID", "(CAST(`0.price` AS bigint) >= `1.userID`)"),
        ("p.price + a.gemPack = 10", "((`0.price` + `1.gemPack`) = CAST('10' AS int))"),
        ("10 > p.price + a.gemPack", "((`0.price` + `1.gemPack`) < CAST('10' AS int))"),
        ("p.price * 2 < a.gemPack - 1", "((`0.price` * CAST('2' AS int)) < (`1.gemPack` - CAST('1' AS int)))"),
        ("p.price + a.gemPack = p.tiny", "((`0.price` + `1.gemPack`) = CAST(`0.tiny` AS int))"),
        ("NOT p.price < a.gemPack", "(NOT (`0.price` < `1.gemPack`))"),
        (
            "p.userID = a.userID OR p.gemPack = a.gemPack",
            "((`0.userID` = `1.userID`) OR (`0.gemPack` = `1.gemPack`))",
        ),
        ("p.price IN (a.gemPack, 3)", None),
        ("p.day < a.shown", "(CAST(`0.day` AS timestamp) < `1.shown`)"),
        ("upper(p.name) < a.label", "(upper(`0.name`) < `1.label`)"),
        ("a.label > upper(p.name)", "(upper(`0.name`) < `1.label`)"),
        ("startswith(p.name, a.label)", "startswith(`0.name`, `1.label`)"),
        ("p.addr.city < a.label", "(`0.addr`.`city` < `1.label`)"),
        ("abs(p.price - a.gemPack) <= 5", "(abs((`0.price` - `1.gemPack`)) <= CAST('5' AS int))"),
        ("p.ts <> a.ts", "(`0.ts` <> `1.ts`)"),
        ("p.ts < a.shown + INTERVAL 1 MONTH", "(`0.ts` < `1.shown` + INTERVAL '1' MONTH)"),
    ],
)
def test_conditions_alone(on: str, wanted: str | None) -> None:
    query = join(on)
    assert query.keys == ()
    assert [condition.relations for condition in query.conditions] == [(0, 1)]
    assert wanted is None or conditions(query) == [wanted]
    assert all(name.startswith(("0.", "1.")) for name in columns_of(query.conditions[0].expression))


def test_between_is_two_conditions() -> None:
    assert conditions(join("p.price BETWEEN a.gemPack AND a.gemPack + 5")) == [
        "(`0.price` >= `1.gemPack`)", "(`0.price` <= (`1.gemPack` + CAST('5' AS int)))",
    ]  # fmt: skip
    query = join("a.gemPack BETWEEN p.price AND 7")
    assert conditions(query) == ["(`0.price` <= `1.gemPack`)"]
    assert query.relations[1].predicate is not None
    assert len(conditions(join("p.price NOT BETWEEN a.gemPack AND 7"))) == 1


def test_conditions_keep_their_order_and_come_once() -> None:
    query = join("a.gemPack <> p.price AND p.cost / a.gemPack > 2 AND p.price <> a.gemPack AND p.price < a.gemPack")
    assert conditions(query) == [
        "(`0.price` <> `1.gemPack`)", "(`0.cost` / `1.gemPack` > 2)", "(`0.price` < `1.gemPack`)",
    ]  # fmt: skip
    assert query.notices == ('"p.cost / a.gemPack > 2" is evaluated by Spark on every combination of rows',)


def test_what_spark_evaluates_names_its_columns() -> None:
    query = join("concat(p.addr.city, a.label, p.name) = 'x'")
    wanted = Opaque("concat(`0.addr`.`city`, `1.label`, `0.name`) = 'x'", ("0.name", "0.addr", "1.label"), BOOLEAN)
    assert query.conditions == (Condition((0, 1), wanted),)


def test_odd_names() -> None:
    query = bound(
        "SELECT 1 FROM odd [RANGE 1 s] o JOIN odd [RANGE 1 s] b ON o.`a.b` < b.`select` AND o.`we``ird` < b.`we``ird`"
    )
    assert conditions(query) == ["(`0.a.b` < `1.select`)", "(`0.we``ird` < `1.we``ird`)"]


def test_constants() -> None:
    query = join("p.userID = a.userID AND (p.price + a.gemPack) <=> 99999999999999999999")
    assert query.conditions == ()
    assert query.relations[0].predicate == Literal(False, BOOLEAN)
    with pytest.raises(CrossProduct, match='no condition joins "p" and "a"'):
        join("NOT (p.price + a.gemPack <=> 99999999999999999999)")


def test_event_times_alone() -> None:
    """The bounds say it all; the condition only says that the relations are joined."""
    query = join("p.ts < a.ts")
    assert query.conditions == (Condition((0, 1), TRUE),)
    assert (query.bounds.low, query.bounds.high) == (-4_999_999, -1)
    query = join("p.ts BETWEEN a.ts AND a.ts + INTERVAL 1 SECOND", "", "[UNBOUNDED]")
    assert (query.conditions, query.bounds.low, query.bounds.high) == ((Condition((0, 1), TRUE),), 0, 1_000_000)
    query = join("p.ts < a.ts AND p.price < a.gemPack")
    assert conditions(query) == ["(`0.price` < `1.gemPack`)"]


def test_equal_event_times_at_a_distance_are_a_key_beside_conditions() -> None:
    query = join("p.ts = a.ts + INTERVAL 1 SECOND AND p.price < a.gemPack")
    assert keys(query) == [("`ts`", "(`ts` + INTERVAL '1' SECOND)", "timestamp")]
    assert conditions(query) == ["(`0.price` < `1.gemPack`)"]


def test_mistakes_are_told_in_the_words_of_the_query() -> None:
    with pytest.raises(TypeMismatch, match=r"`p\.day` of type date with `a\.userID`"):
        join("p.day < a.userID")
    with pytest.raises(TypeMismatch, match="boolean"):
        join("p.price + a.gemPack")
    with pytest.raises(TypeMismatch, match="boolean"):
        join("concat_ws('', p.name, a.label)")


def test_conditions_of_several_relations() -> None:
    query = bound(
        "SELECT 1 FROM purchases [RANGE 1 s] p, ads [RANGE 1 s] a, ads [RANGE 1 s] b "
        "WHERE a.gemPack + b.gemPack > p.price AND b.fee < a.fee AND greatest(p.price, b.gemPack) = a.gemPack"
    )
    assert [condition.relations for condition in query.conditions] == [(0, 1, 2), (1, 2), (0, 1, 2)]
    assert conditions(query)[:2] == ["((`1.gemPack` + `2.gemPack`) > `0.price`)", "(`1.fee` > `2.fee`)"]


def test_impossible_conditions_are_noticed() -> None:
    query = join("p.gemPack = a.gemPack AND p.gemPack <> a.gemPack")
    assert query.notices == ("the conditions contradict each other: the query will never give a row",)
    assert query.conditions


def test_aggregation_over_a_theta_join() -> None:
    query = bound(
        "SELECT count(*) FROM purchases [TUMBLE 5 s] p JOIN ads [TUMBLE 5 s] a ON p.price < a.gemPack GROUP BY a.label"
    )
    assert query.conditions
    assert query.aggregation is not None

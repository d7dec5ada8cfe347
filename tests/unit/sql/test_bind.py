"""What a query becomes: relations, keys, outputs, notices."""

from __future__ import annotations

import pytest

from tests.support.sql_streams import STREAMS, bound, join, keys, predicate
from weft.plan.expression import Call, Column, Literal, Opaque
from weft.plan.query import Output
from weft.plan.types import BIGINT, BOOLEAN, INT, STRING, TIMESTAMP, Kind

TYPICAL = """
SELECT p.userID, p.gemPack, p.price
FROM purchases [RANGE 8 SECONDS SLIDE 4 SECONDS] AS p
JOIN ads       [RANGE 8 SECONDS SLIDE 4 SECONDS] AS a
  ON p.userID = a.userID AND p.gemPack = a.gemPack
WHERE p.price > 10 AND a.gemPack IN (3, 5)
"""


def test_the_typical_join() -> None:
    query = bound(TYPICAL)
    assert query.sql == TYPICAL
    assert len(query.relations) == 2
    purchases, ads = query.relations
    assert (purchases.stream, purchases.alias, purchases.role) == ("purchases", "p", 0)
    assert (ads.stream, ads.alias, ads.role) == ("ads", "a", 0)
    assert purchases.predicate == Call("gt", (Column("price", INT), Literal(10, INT)), BOOLEAN)
    assert ads.predicate == Call("in", (Column("gemPack", INT), Literal(3, INT), Literal(5, INT)), BOOLEAN)
    assert purchases.columns == ("userID", "gemPack", "price")
    assert ads.columns == ()
    assert keys(query) == [("`gemPack`", "`gemPack`", "int"), ("`userID`", "`userID`", "bigint")]
    assert query.outputs[0] == Output("userID", "`0.userID`", BIGINT, "0.userID")
    assert query.notices == ()


def test_selection_over_one_relation() -> None:
    query = bound("SELECT userID FROM purchases")
    assert len(query.relations) != 2
    assert query.relations[0].predicate is None
    assert query.relations[0].window is None
    assert query.relations[0].columns == ("userID",)
    assert query.sliding is None


@pytest.mark.parametrize(
    "text",
    [
        "SELECT p.userID FROM purchases [RANGE 5 SECONDS] p INNER JOIN ads [RANGE 5 SECONDS] a ON p.userID = a.userID",
        "SELECT p.userID FROM purchases [RANGE 5 SECONDS] AS p, ads [RANGE 5 SECONDS] AS a WHERE p.userID = a.userID",
        "SELECT userID FROM purchases [RANGE 5 SECONDS] p JOIN ads [RANGE 5 SECONDS] a USING (userid)",
        "select P.USERID from PURCHASES [range 5 seconds] p join Ads [range 5 seconds] A on a.userid = p.userid;",
        "SELECT `p`.`userID` FROM `purchases`[RANGE 5 SECONDS]p JOIN `ads`[RANGE 5 SECONDS]a ON (p.userID)=(a.userID)",
        "SELECT p.userID FROM purchases [RANGE 5 SECONDS] p JOIN ads [RANGE 5 SECONDS] a WHERE a.userID = p.userID",
        "SELECT p.userID /* x */ FROM purchases [RANGE 5 SECONDS] p -- y\n JOIN ads [RANGE 5 SECONDS] a\n"
        "ON (p.userID, 1) = (a.userID, 1) AND p.userID = a.userID",
    ],
)
def test_ways_to_write_one_join(text: str) -> None:
    query = bound(text)
    assert keys(query) == [("`userID`", "`userID`", "bigint")]
    assert query.outputs[0].sql == "`0.userID`"
    assert query.relations[0].columns == ("userID",)
    assert (query.bounds.low, query.bounds.high) == (-4_999_999, 4_999_999)


def test_self_join_has_two_roles() -> None:
    query = bound("SELECT a.price, b.price FROM purchases [RANGE 1 s] a JOIN purchases [RANGE 2 s] b USING (userID)")
    assert [relation.role for relation in query.relations] == [0, 1]
    assert [output.source for output in query.outputs] == ["0.price", "1.price"]
    assert [output.name for output in query.outputs] == ["price", "price"]


def test_star_gives_all_columns() -> None:
    query = bound("SELECT * FROM ads")
    assert [output.name for output in query.outputs] == list(STREAMS["ads"].schema.names())
    assert query.relations[0].columns == STREAMS["ads"].schema.names()


def test_star_of_one_relation() -> None:
    query = bound("SELECT a.*, p.price FROM purchases [RANGE 1 s] p JOIN ads [RANGE 1 s] a USING (userID)")
    assert [output.source for output in query.outputs][:2] == ["1.ts", "1.userID"]
    assert query.outputs[-1].source == "0.price"
    assert query.relations[0].columns == ("price",)


def test_using_columns_come_first_and_once() -> None:
    query = bound("SELECT * FROM ads [RANGE 1 s] a JOIN ads [RANGE 1 s] b USING (label, userID)")
    assert [output.source for output in query.outputs] == [
        "0.userID", "0.label", "0.ts", "0.gemPack", "0.fee", "0.shown", "1.ts", "1.gemPack", "1.fee", "1.shown",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "name", "sql", "type_"),
    [
        ("price", "price", "`0.price`", "int"),
        ("PRICE", "PRICE", "`0.price`", "int"),
        ("price AS p", "p", "`0.price`", "int"),
        ("price `x y`", "x y", "`0.price`", "int"),
        ("price * 2 + 1", "((price * 2) + 1)", "`0.price` * 2 + 1", "int"),
        ("price / 2", "(price / 2)", "`0.price` / 2", "double"),
        ("tiny + 1", "(tiny + 1)", "`0.tiny` + 1", "int"),
        ("score * 2", "(score * 2)", "`0.score` * 2", "double"),
        ("upper(name)", "upper(name)", "upper(`0.name`)", "string"),
        ("coalesce(price, 1L)", "coalesce(price, 1)", "coalesce(`0.price`, CAST(1 AS BIGINT))", "bigint"),
        ("addr.city", "city", "`0.addr`.`city`", None),
        ("purchases.addr.zip", "zip", "`0.addr`.`zip`", None),
        ("cost + 1", "(cost + 1)", "`0.cost` + 1", None),
        ("tags", "tags", "`0.tags`", "array<string>"),
        ("'it\\'s'", "it's", "'it\\'s'", "string"),
        ("CAST(name AS INT)", "name", "CAST(`0.name` AS INT)", "int"),
        ("to_char(price, '999') AS c", "c", "to_char(`0.price`, '999')", "string"),
        ("transform(tags, t -> concat(t, '!')) AS t", "t", "transform(`0.tags`, `t` -> concat(`t`, '!'))", None),
        ("price > 5 AND ok", "((price > 5) AND ok)", "`0.price` > 5 AND `0.ok`", "boolean"),
        ("ts + INTERVAL 1 DAY AS t", "t", "`0.ts` + INTERVAL '1' DAY", "timestamp"),
    ],
)
def test_outputs(text: str, name: str, sql: str, type_: str | None) -> None:
    output = bound(f"SELECT {text} FROM purchases").outputs[0]
    assert (output.name, output.sql, output.type and output.type.ddl()) == (name, sql, type_)


def test_outputs_may_mix_relations() -> None:
    query = bound("SELECT p.price + a.gemPack AS x FROM purchases [RANGE 1 s] p JOIN ads [RANGE 1 s] a USING (userID)")
    assert query.outputs[0].sql == "`0.price` + `1.gemPack`"
    assert query.outputs[0].type == INT
    assert query.outputs[0].source is None
    assert [relation.columns for relation in query.relations] == [("price",), ("gemPack",)]


def test_window_columns() -> None:
    query = bound("SELECT window_start, window_END AS e, userID FROM purchases [TUMBLE 5 SECONDS]")
    assert query.outputs[0] == Output("window_start", "`window_start`", TIMESTAMP, "window_start")
    assert query.outputs[1] == Output("e", "`window_end`", TIMESTAMP, "window_end")
    assert query.relations[0].columns == ("userID",)


def test_odd_names_are_quoted() -> None:
    query = bound("SELECT `a.b`, `we``ird`, odd.`select` FROM odd WHERE upper(`we``ird`) = 'x' AND `A.B` = 1")
    assert [output.sql for output in query.outputs] == ["`0.a.b`", "`0.we``ird`", "`0.select`"]
    opaque, plain = query.relations[0].predicate.args  # type: ignore[union-attr]
    assert opaque == Opaque("upper(`we``ird`) = 'x'", ("we`ird",), BOOLEAN)
    assert plain == Call("eq", (Column("a.b", INT), Literal(1, INT)), BOOLEAN)


def test_predicates_keep_their_order() -> None:
    query = bound(
        "SELECT 1 FROM purchases [RANGE 1 s] p JOIN ads [RANGE 1 s] a ON p.price > 1 AND p.userID = a.userID "
        "AND (a.gemPack > 2 AND p.ok) WHERE p.price < 9 AND (p.tiny = 1 OR p.tiny = 2)"
    )
    first, second = query.relations
    assert isinstance(first.predicate, Call)
    assert [part.name if isinstance(part, Call) else part for part in first.predicate.args] == [
        "gt", Column("ok", BOOLEAN), "lt", "or",
    ]  # fmt: skip
    assert isinstance(second.predicate, Call)
    assert second.predicate.name == "gt"


def test_constant_conditions() -> None:
    assert predicate("1 = 1 AND TRUE AND 'a' < 'b'") == ""
    assert predicate("1 > 2") == "FALSE"
    assert predicate("NULL") == "FALSE"
    assert predicate("length('abc') = 3") == "(length('abc') = CAST('3' AS int))"
    joined = join("p.userID = a.userID AND FALSE")
    assert joined.relations[0].predicate == Literal(False, BOOLEAN)
    assert joined.relations[1].predicate is None


def test_only_the_opaque_conjunct_is_left_to_spark() -> None:
    query = bound("SELECT 1 FROM purchases WHERE price > 5 AND upper(name) = 'A' AND (ok OR tags[0] = 'x')")
    plain, first, second = query.relations[0].predicate.args  # type: ignore[union-attr]
    assert isinstance(plain, Call)
    assert first == Opaque("upper(`name`) = 'A'", ("name",), BOOLEAN)
    assert second == Opaque("`ok` OR `tags`[0] = 'x'", ("ok", "tags"), BOOLEAN)
    assert query.notices == (
        '"upper(name) = \'A\'" is evaluated by Spark: stream "purchases" takes the row path',
        '"ok OR tags[0] = \'x\'" is evaluated by Spark: stream "purchases" takes the row path',
    )


def test_keys_are_coerced_to_the_common_type() -> None:
    assert keys(join("p.price = a.userID")) == [("CAST(`price` AS bigint)", "`userID`", "bigint")]
    assert keys(join("p.cost = a.fee")) == [("CAST(`cost` AS decimal(12,3))", "`fee`", "decimal(12,3)")]
    assert keys(join("p.day = a.shown")) == [("CAST(`day` AS timestamp)", "`shown`", "timestamp")]
    assert keys(join("a.gemPack + 1 = p.price * 2")) == [
        ("(`price` * CAST('2' AS int))", "(`gemPack` + CAST('1' AS int))", "int")
    ]


def test_keys_only_spark_can_compute() -> None:
    query = join("upper(p.name) = a.label AND p.ratio = a.fee AND p.name = a.gemPack")
    assert keys(query) == [
        ("(CAST(`name` AS BIGINT))", "CAST(`gemPack` AS bigint)", "bigint"),
        ("(upper(`name`))", "`label`", "string"),
        ("`ratio`", "(CAST(`fee` AS DOUBLE))", "double"),
    ]
    assert len(query.notices) == 3
    assert isinstance(query.keys[1].left, Opaque)
    assert query.keys[1].left.type == STRING


def test_equal_keys_are_one() -> None:
    assert len(join("p.userID = a.userID AND a.userID = p.userID AND (p.userID) = a.userid").keys) == 1


def test_functions_keep_their_name() -> None:
    query = bound("SELECT log2(ratio) a, nvl2(price, 1, 2) b, date_sub(day, 1) c, Len(name) d FROM purchases")
    assert [output.sql for output in query.outputs] == [
        "log2(`0.ratio`)", "nvl2(`0.price`, 1, 2)", "date_sub(`0.day`, 1)", "Len(`0.name`)",
    ]  # fmt: skip


def test_hints_and_comments_are_ignored() -> None:
    query = bound("SELECT /*+ BROADCAST(p) */ price /* ; DROP */ FROM purchases p -- end")
    assert [output.sql for output in query.outputs] == ["`0.price`"]


def test_nested_columns_only_travel() -> None:
    query = bound("SELECT tags, addr FROM purchases WHERE tags IS NOT NULL")
    assert all(output.type is not None and output.type.kind is Kind.OTHER for output in query.outputs)
    assert isinstance(query.relations[0].predicate, Opaque)


def test_a_join_after_on_takes_indexed_columns() -> None:
    assert keys(join("CAST(p.tags[0] AS STRING) = a.label"))[0][0] == "(CAST(`tags`[0] AS STRING))"
    assert predicate("name IS DISTINCT FROM tags[0]") == "(`name` IS DISTINCT FROM `tags`[0])"

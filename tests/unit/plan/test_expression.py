"""Expressions as Spark SQL text: right, quoted, and an identity; conjunctions, columns and guards."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
import sqlglot
from hypothesis import given
from hypothesis import strategies as st

from weft.plan.expression import (
    FUNCTIONS,
    TRUE,
    Call,
    Column,
    Expression,
    Literal,
    Opaque,
    Value,
    columns_of,
    conjuncts,
    guard_opaque,
    quote,
    quote_string,
    to_sql,
)
from weft.plan.types import BIGINT, BOOLEAN, DATE, DOUBLE, INT, NULL, STRING, TIMESTAMP, DataType, Kind

A, B, S = Column("a", INT), Column("b", INT), Column("s", STRING)
ONE, TWO = Literal(1, INT), Literal(2, INT)
DECIMAL = DataType(Kind.DECIMAL, 10, 2)
NTZ = DataType(Kind.TIMESTAMP_NTZ)
MOMENT = datetime(2020, 2, 29, 23, 59, 59, 7, tzinfo=UTC)


def call(name: str, *args: Expression, type_: DataType = BOOLEAN) -> Call:
    return Call(name, args, type_)


@pytest.mark.parametrize(
    ("value", "type_", "text"),
    [
        (True, BOOLEAN, "TRUE"),
        (False, BOOLEAN, "FALSE"),
        (None, INT, "CAST(NULL AS int)"),
        (None, NULL, "CAST(NULL AS void)"),
        (None, DECIMAL, "CAST(NULL AS decimal(10,2))"),
        (-5, BIGINT, "CAST('-5' AS bigint)"),
        (0.1, DOUBLE, "CAST('0.1' AS double)"),
        (float("nan"), DOUBLE, "CAST('nan' AS double)"),
        (float("-inf"), DOUBLE, "CAST('-inf' AS double)"),
        (Decimal("1.50"), DECIMAL, "CAST('1.50' AS decimal(10,2))"),
        ("it's", STRING, r"'it\'s'"),
        (b"\x00\xff", DataType(Kind.BINARY), "X'00ff'"),
        (date(33, 4, 3), DATE, "DATE'0033-04-03'"),
        (MOMENT, TIMESTAMP, "TIMESTAMP'2020-02-29 23:59:59.000007+00:00'"),
        (MOMENT.replace(tzinfo=None), NTZ, "TIMESTAMP_NTZ'2020-02-29 23:59:59.000007'"),
        (datetime(1, 1, 1, tzinfo=UTC), TIMESTAMP, "TIMESTAMP'0001-01-01 00:00:00.000000+00:00'"),
        (datetime(987, 1, 1), NTZ, "TIMESTAMP_NTZ'0987-01-01 00:00:00.000000'"),  # noqa: DTZ001
    ],
)
def test_literals(value: Value, type_: DataType, text: str) -> None:
    assert to_sql(Literal(value, type_)) == text


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (A, "`a`"),
        (Column("we`ird na.me", INT), "`we``ird na.me`"),
        (call("eq", A, B), "(`a` = `b`)"),
        (call("eq_null_safe", A, B), "(`a` <=> `b`)"),
        (call("and", call("lt", A, B), TRUE, TRUE), "((`a` < `b`) AND TRUE AND TRUE)"),
        (call("not", call("is_null", A)), "(NOT (`a` IS NULL))"),
        (call("is_not_null", A), "(`a` IS NOT NULL)"),
        (call("neg", A, type_=INT), "(- `a`)"),
        (call("int_div", A, B, type_=INT), "(`a` div `b`)"),
        (call("mod", A, B, type_=INT), "(`a` % `b`)"),
        (call("in", A, ONE, TWO), "(`a` IN (CAST('1' AS int), CAST('2' AS int)))"),
        (call("like", S, Literal("a%", STRING)), "(`s` LIKE 'a%')"),
        (call("like", S, Literal("a%", STRING), Literal("\\", STRING)), r"(`s` LIKE 'a%' ESCAPE '\\')"),
        (call("cast", A, type_=DECIMAL), "CAST(`a` AS decimal(10,2))"),
        (call("case", TRUE, A, TRUE, B, S), "(CASE WHEN TRUE THEN `a` WHEN TRUE THEN `b` ELSE `s` END)"),
        (call("starts_with", S, S), "startswith(`s`, `s`)"),
        (call("ends_with", S, S), "endswith(`s`, `s`)"),
        (call("coalesce", A, B, type_=INT), "coalesce(`a`, `b`)"),
        (call("length", S, type_=INT), "length(`s`)"),
        (Opaque("upper(`s`)", ("s",)), "(upper(`s`))"),
    ],
)  # fmt: skip
def test_text(expression: Expression, text: str) -> None:
    assert to_sql(expression) == text


def test_every_function_has_a_text_that_parses() -> None:
    arity = {
        "case": (TRUE, A, B),
        "not": (TRUE,),
        "and": (TRUE, TRUE),
        "or": (TRUE, TRUE),
        "like": (S, Literal("%", STRING)),
    }
    unary = "is_null is_not_null neg abs cast length year month day hour minute second".split()
    for name in sorted(FUNCTIONS):
        args = arity.get(name, (A,) if name in unary else (A, B))
        assert sqlglot.parse_one(to_sql(call(name, *args)), dialect="spark") is not None, name


def test_only_functions_of_the_algebra_can_be_called() -> None:
    with pytest.raises(ValueError, match="not a function of the algebra: sleep"):
        call("sleep", ONE)


@given(st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), min_size=1, max_size=20))
def test_a_quoted_name_is_read_as_that_name(name: str) -> None:
    assert quote(name)[1:-1].replace("``", "`") == name
    assert sqlglot.parse_one(quote(name), dialect="spark").name == name


@given(st.text(st.sampled_from("a'\"\\\n`%_;--é"), max_size=20))
def test_a_quoted_string_is_read_as_that_text(text: str) -> None:
    quoted = quote_string(text)
    assert quoted[1:-1].replace("\\\\", "\x00").replace("\\'", "'").replace("\x00", "\\") == text
    assert "'" not in quoted[1:-1].replace("\\\\", "").replace("\\'", ""), "the string ends before it should"


EXPRESSIONS: st.SearchStrategy[Expression] = st.recursive(
    st.sampled_from(
        [A, B, Column("a`b", INT), Column("a, b", INT), ONE, TWO, Literal(None, INT), Literal("a", STRING)]
    ),
    lambda inner: st.one_of(
        st.builds(call, st.sampled_from(["eq", "lt", "and", "or"]), inner, inner),
        st.builds(lambda arg: call("not", arg), inner),
        st.builds(lambda args: call("coalesce", *args, type_=INT), st.lists(inner, min_size=1, max_size=3)),
    ),
    max_leaves=6,
)  # fmt: skip


@given(EXPRESSIONS, EXPRESSIONS)
def test_text_is_an_identity(first: Expression, second: Expression) -> None:
    assert (to_sql(first) == to_sql(second)) == (first == second)


@given(EXPRESSIONS)
def test_columns_are_those_in_the_text(expression: Expression) -> None:
    parsed = sqlglot.parse_one(to_sql(expression), dialect="spark")
    assert columns_of(expression) == {column.name for column in parsed.find_all(sqlglot.exp.Column)}


def test_conjuncts_are_flat_and_in_order() -> None:
    parts = [call("lt", A, Literal(n, INT)) for n in range(4)]
    nested = call("and", parts[0], call("and", parts[1], call("and", parts[2])), parts[3])
    assert list(conjuncts(nested)) == parts
    assert list(conjuncts(None)) == []
    assert list(conjuncts(call("or", *parts))) == [call("or", *parts)]


def test_an_opaque_part_says_its_columns() -> None:
    part = Opaque("f(`z`)", ("z",), BOOLEAN)
    whole = call("and", call("lt", A, B), call("not", part))
    assert columns_of(whole) == {"a", "b", "z"}


def test_an_opaque_conjunct_is_computed_only_where_those_before_it_hold() -> None:
    before, part = call("ne", A, ONE), Opaque("10 / `z` > 1", ("z",), BOOLEAN)
    guarded = guard_opaque(call("and", before, part))
    assert guarded == call(
        "and", before, Opaque("CASE WHEN (`a` <> CAST('1' AS int)) THEN 10 / `z` > 1 END", ("a", "z"), BOOLEAN)
    )


@pytest.mark.parametrize("predicate", [None, TRUE, call("and", call("lt", A, B), TRUE), Opaque("f(1)", (), BOOLEAN)])
def test_nothing_to_guard_leaves_the_predicate_as_it_is(predicate: Expression | None) -> None:
    assert guard_opaque(predicate) is predicate

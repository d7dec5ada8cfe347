"""Typing: Spark's ANSI rules, literals folded, comparisons in canonical form."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.sql_streams import predicate
from weft.plan.expression import Call, Column, Expression, Literal
from weft.plan.types import BIGINT, BOOLEAN, DOUBLE, INT, STRING, TIMESTAMP, DataType, Kind
from weft.sql.syntax.literal import number
from weft.sql.types.coercion import bind_comparison, common_type, widens

FLOAT = DataType(Kind.FLOAT)
DATE = DataType(Kind.DATE)


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        # integers and exact numbers: the literal moves to the column's own steps
        ("userID = 5", "(`userID` = CAST('5' AS bigint))"),
        ("5 < userID", "(`userID` > CAST('5' AS bigint))"),
        ("price > 10.5", "(`price` > CAST('10' AS int))"),
        ("price >= 10.5", "(`price` >= CAST('11' AS int))"),
        ("price < 10.5", "(`price` < CAST('11' AS int))"),
        ("price <= -10.5", "(`price` <= CAST('-11' AS int))"),
        ("price = 10.0", "(`price` = CAST('10' AS int))"),
        ("price = 10.5", "(`price` <> `price`)"),
        ("price <> 10.5", "(`price` = `price`)"),
        ("price <=> 10.5", "FALSE"),
        ("price > 3000000000", "(`price` <> `price`)"),
        ("price < 3000000000L", "(`price` = `price`)"),
        ("tiny >= -1000", "(`tiny` = `tiny`)"),
        ("price = '5'", "(`price` = CAST('5' AS int))"),
        ("price = -2147483648", "(`price` = CAST('-2147483648' AS int))"),
        ("cost >= 3", "(`cost` >= CAST('3.00' AS decimal(10,2)))"),
        ("cost > 1.234", "(`cost` > CAST('1.23' AS decimal(10,2)))"),
        ("cost < 1.234", "(`cost` < CAST('1.24' AS decimal(10,2)))"),
        ("cost = 1.5BD", "(`cost` = CAST('1.50' AS decimal(10,2)))"),
        # floating point
        ("ratio < 3", "(`ratio` < CAST('3.0' AS double))"),
        ("ratio < 2.5", "(`ratio` < CAST('2.5' AS double))"),
        ("ratio = '1e3'", "(`ratio` = CAST('1000.0' AS double))"),
        ("score = 0.1", "(CAST(`score` AS double) = CAST('0.1' AS double))"),
        ("score = 1.5F", "(`score` = CAST('1.5' AS float))"),
        ("price > 1e1", "(CAST(`price` AS double) > CAST('10.0' AS double))"),
        ("score < ratio", "(CAST(`score` AS double) < `ratio`)"),
        # between columns
        ("price = userID", "(CAST(`price` AS bigint) = `userID`)"),
        ("price = cost", "(CAST(`price` AS decimal(12,2)) = CAST(`cost` AS decimal(12,2)))"),
        ("day < ts", "(CAST(`day` AS timestamp) < `ts`)"),
        # text, dates and times
        ("name > 'a'", "(`name` > 'a')"),
        ("day > '2020-1-2'", "(`day` > DATE'2020-01-02')"),
        ("day = DATE'2020-01-02'", "(`day` = DATE'2020-01-02')"),
        ("ts < '2020-01-02'", "(`ts` < TIMESTAMP'2020-01-02 00:00:00.000000+00:00')"),
        ("ts < TIMESTAMP'2020-01-02 03:04:05.6789+02:00'", "(`ts` < TIMESTAMP'2020-01-02 01:04:05.678900+00:00')"),
        ("ts >= DATE'2020-01-02'", "(`ts` >= TIMESTAMP'2020-01-02 00:00:00.000000+00:00')"),
        ("local = '2020-01-02T03:04:05'", "(`local` = TIMESTAMP_NTZ'2020-01-02 03:04:05.000000')"),
        ("ok = 'yes'", "(`ok` = TRUE)"),
        ("price = NULL", "(`price` = CAST(NULL AS int))"),
        # IN, LIKE, BETWEEN, NULL tests, logic
        ("price IN (1, 2.0, 2, 3.5)", "(`price` IN (CAST('1' AS int), CAST('2' AS int)))"),
        ("price IN (1, NULL)", "(`price` IN (CAST('1' AS int), CAST(NULL AS int)))"),
        ("price IN (3.5)", "(`price` <> `price`)"),
        ("price NOT IN ('1')", "(NOT (`price` IN (CAST('1' AS int))))"),
        ("name IN ('a', 'b')", "(`name` IN ('a', 'b'))"),
        ("ratio IN (1, 2.5)", "(`ratio` IN (CAST('1.0' AS double), CAST('2.5' AS double)))"),
        ("price IN (gemPack, price)", "((`price` = `gemPack`) OR (`price` = `price`))"),
        ("price BETWEEN 1 AND 5.5", "((`price` >= CAST('1' AS int)) AND (`price` <= CAST('5' AS int)))"),
        ("name LIKE 'a%'", "(`name` LIKE 'a%')"),
        ("name NOT LIKE 'a%'", "(NOT (`name` LIKE 'a%'))"),
        ("name LIKE 'a!_' ESCAPE '!'", "(`name` LIKE 'a!_' ESCAPE '!')"),
        ("name NOT LIKE 'a!_' ESCAPE '!'", "(NOT (`name` LIKE 'a!_' ESCAPE '!'))"),
        ("name IS NULL", "(`name` IS NULL)"),
        ("name IS NOT NULL", "(`name` IS NOT NULL)"),
        ("NOT (ok OR price = 1)", "(NOT (`ok` OR (`price` = CAST('1' AS int))))"),
        ("name IS DISTINCT FROM 'a'", "(NOT (`name` <=> 'a'))"),
        # arithmetic
        ("price > 10 * 60", "(`price` > CAST('600' AS int))"),
        ("tiny + 1 > 5", "((CAST(`tiny` AS int) + CAST('1' AS int)) > CAST('5' AS int))"),
        ("userID - gemPack > 5", "((`userID` - CAST(`gemPack` AS bigint)) > CAST('5' AS bigint))"),
        ("price / 2 > 1.5", "((CAST(`price` AS double) / CAST('2.0' AS double)) > CAST('1.5' AS double))"),
        ("price DIV 2 = 1", "((CAST(`price` AS bigint) div CAST('2' AS bigint)) = CAST('1' AS bigint))"),
        ("price % 2 = 0", "((`price` % CAST('2' AS int)) = CAST('0' AS int))"),
        ("-price > -5", "((- `price`) > CAST('-5' AS int))"),
        ("abs(price) = 3", "(abs(`price`) = CAST('3' AS int))"),
        # functions
        ("char_length(name) > 2", "(length(`name`) > CAST('2' AS int))"),
        ("year(ts) = 2020", "(year(`ts`) = CAST('2020' AS int))"),
        ("extract(month FROM day) = 1", "(month(`day`) = CAST('1' AS int))"),
        ("startswith(name, 'a')", "startswith(`name`, 'a')"),
        ("if(ok, price, 0) > 1", "((CASE WHEN `ok` THEN `price` ELSE CAST('0' AS int) END) > CAST('1' AS int))"),
        ("nvl(userID, 0) = 0", "(coalesce(`userID`, CAST('0' AS bigint)) = CAST('0' AS bigint))"),
        ("CASE tiny WHEN 1 THEN ok END",
         "(CASE WHEN (`tiny` = CAST('1' AS tinyint)) THEN `ok` ELSE CAST(NULL AS boolean) END)"),
        ("CAST(price AS BIGINT) > 5", "(CAST(`price` AS bigint) > CAST('5' AS bigint))"),
        ("CAST('7' AS INT) < price", "(`price` > CAST('7' AS int))"),
    ],
)  # fmt: skip
def test_predicates(condition: str, expected: str) -> None:
    assert predicate(condition) == expected


@pytest.mark.parametrize(
    "condition",
    [
        "name = 5", "cost > ratio", "cost > 1e0", "cost > '1.5'", "cost + 1 > 2", "cost * 2 > 5", "name ILIKE 'a'",
        "upper(name) RLIKE 'a+'", "name LIKE ANY ('a', 'b')", "name NOT ILIKE 'a'", "ok IS TRUE",
        "second(local) = 1", "extract(second FROM ts) > 1", "hour(day) = 1", "CAST(name AS INT) = 1",
        "TRY_CAST(price AS BIGINT) = 1 OR TRY_CAST('x' AS INT) = 1", "local = ts", "raw = X'00'", "price & 1 = 1",
        "price IN (1, '2')", "name || 'x' = 'ax'", "ts + INTERVAL 1 DAY > ts", "length(raw) = 1", "price <=> tags[0]",
        "ts > '2020-01-01 00:00:00 Europe/Berlin'", "if(ok, 1, 2.5) > 2", "tags IS NULL", "cost IN (1, 2.5D)",
    ],
)  # fmt: skip
def test_left_to_spark(condition: str) -> None:
    text = predicate(condition)
    assert text.startswith("(")
    assert "CAST('5' AS" not in text


@pytest.mark.parametrize(
    ("text", "value", "ddl"),
    [
        ("5", 5, "int"), ("2147483648", 2147483648, "bigint"), ("9223372036854775808", None, "decimal(19,0)"),
        ("1.5", Decimal("1.5"), "decimal(2,1)"), ("0.5", Decimal("0.5"), "decimal(1,1)"),
        ("00.50", Decimal("0.50"), "decimal(2,2)"), ("0.0", Decimal("0.0"), "decimal(1,1)"),
        ("10.", Decimal(10), "decimal(2,0)"), (".25", Decimal("0.25"), "decimal(2,2)"), ("1e3", 1000.0, "double"),
    ],
)  # fmt: skip
def test_numbers_have_sparks_types(text: str, value: object, ddl: str) -> None:
    found = number(text)
    assert found.type.ddl() == ddl
    assert value is None or found.value == value


def test_common_types() -> None:
    decimal = DataType(Kind.DECIMAL, 10, 2)
    assert common_type(INT, BIGINT) == BIGINT
    assert common_type(INT, FLOAT) == DOUBLE
    assert common_type(FLOAT, FLOAT) == FLOAT
    assert common_type(decimal, DOUBLE) == DOUBLE
    assert common_type(decimal, BIGINT) == DataType(Kind.DECIMAL, 22, 2)
    assert common_type(STRING, INT) == BIGINT
    assert common_type(STRING, DATE) == DATE
    assert common_type(DATE, TIMESTAMP) == TIMESTAMP
    assert common_type(BOOLEAN, INT) is None
    assert common_type(DATE, BIGINT) is None
    assert common_type(DataType(Kind.OTHER, text="array<int>"), STRING) is None


def test_widening_never_loses() -> None:
    assert widens(INT, BIGINT)
    assert widens(INT, DataType(Kind.DECIMAL, 12, 2))
    assert not widens(INT, DataType(Kind.DECIMAL, 11, 2))
    assert not widens(BIGINT, INT)
    assert not widens(DOUBLE, FLOAT)
    assert not widens(DataType(Kind.DECIMAL, 10, 2), DOUBLE)


_OPERATORS = {
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b, "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b,
}  # fmt: skip
_TYPES = [DataType(Kind.TINYINT), INT, BIGINT, DataType(Kind.DECIMAL, 5, 2), DataType(Kind.DECIMAL, 3, 3)]


@given(
    st.sampled_from(_TYPES),
    st.sampled_from(sorted(_OPERATORS)),
    st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-2000, max_value=2000),
    st.integers(-200_000, 200_000),
    st.booleans(),
)
@example(DataType(Kind.TINYINT), "gt", Decimal("-128.5"), -128, False)
@example(DataType(Kind.TINYINT), "le", Decimal("127.5"), 127, False)
def test_moved_literals_answer_the_same(
    type_: DataType, name: str, literal: Decimal, steps: int, flipped: bool
) -> None:
    """For every value the column can hold, the rewritten comparison says what the exact one says."""
    limit = 10**type_.precision - 1 if type_.kind is Kind.DECIMAL else 127
    steps = max(-limit, min(limit, steps))
    value = Decimal(steps).scaleb(-type_.scale)
    column = Column("x", type_)
    constant = number(str(abs(literal)))
    constant = Literal(literal, constant.type) if isinstance(constant.value, Decimal) else Literal(int(literal), INT)
    exact = Decimal(str(constant.value))
    found = bind_comparison(name, constant, column) if flipped else bind_comparison(name, column, constant)
    expected = _OPERATORS[name](exact, value) if flipped else _OPERATORS[name](value, exact)
    assert _evaluate(found, value) is expected
    assert isinstance(found, Call)
    assert found.args[0] == column
    assert all(arg.type == type_ for arg in found.args)


def _evaluate(expression: Expression, value: Decimal) -> bool:
    assert isinstance(expression, Call)
    left, right = (value if isinstance(arg, Column) else Decimal(str(arg.value)) for arg in expression.args)  # type: ignore[union-attr]
    return bool(_OPERATORS[expression.name](left, right))

"""Rows of all types with nasty values, and expressions of the algebra over them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

from weft.kernels.arrow_types import arrow_schema
from weft.plan.expression import Call, Column, Expression, Literal, Opaque
from weft.plan.types import BIGINT, BOOLEAN, DATE, DOUBLE, INT, STRING, TIMESTAMP, DataType, Field, Kind, Schema

TINYINT, SMALLINT, FLOAT = DataType(Kind.TINYINT), DataType(Kind.SMALLINT), DataType(Kind.FLOAT)
BINARY, NTZ = DataType(Kind.BINARY), DataType(Kind.TIMESTAMP_NTZ)
MONEY, HUGE, LONG_MONEY = (
    DataType(Kind.DECIMAL, 10, 2),
    DataType(Kind.DECIMAL, 38, 4),
    DataType(Kind.DECIMAL, 18, 6),
)

NAN, INF = float("nan"), float("inf")


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def plain(text: str) -> datetime:
    return datetime.fromisoformat(text)


# type, values of ordinary rows, values that hurt
_VALUES: dict[str, tuple[DataType, list[Any], list[Any]]] = {
    "flag": (BOOLEAN, [True, False, None], [True, False, None]),
    "tiny": (TINYINT, [1, -2, 7, None], [127, -128, 0, None]),
    "small": (SMALLINT, [10, -20, 3, None], [32767, -32768, 0, None]),
    "number": (INT, [5, -7, 12, 1, None], [2**31 - 1, -(2**31), 0, None, -1]),
    "other": (INT, [2, -3, 5, None], [0, -1, None, 2**31 - 1]),
    "long": (BIGINT, [100, -7, 12345678901, None], [2**63 - 1, -(2**63), 0, None, -1]),
    "single": (FLOAT, [0.5, -1.25, 3.75, None], [NAN, INF, -INF, -0.0, 0.0, 3.4028234663852886e38, None]),
    "real": (DOUBLE, [0.1, -2.5, 1e6, 7.0, None], [NAN, INF, -INF, -0.0, 0.0, 5e-324, 9.3e18, None]),
    "ratio": (DOUBLE, [2.0, -0.5, 3.0, None], [0.0, NAN, -0.0, 1.0, None, -INF]),
    "money": (MONEY, ["1.50", "-2.25", "100.00", None], ["99999999.99", "-99999999.99", "0.00", None]),
    "rest": (MONEY, ["0.30", "-7.00", "3.33", None], ["0.00", "99999999.99", None]),
    "huge": (
        HUGE,
        ["1.2345", "-2.0000", "9.9999", None],
        ["9999999999999999999999999999999999.9999", "-9999999999999999999999999999999999.9999", "0.0000", None],
    ),
    "text": (
        STRING,
        ["abc", "a%c", "A_c\n", "naïve 😀", None],
        ["", "\0", "a\\b", "%", "_", "zz\u2028z", "😀😀", "\ufffd", None, " 12 "],
    ),
    "word": (STRING, ["a", "c", "ï", "", None], ["😀", "\\", "%", None, "zzz"]),
    "digits": (STRING, ["12", " -7\t", "+3", None], ["99999999999999999999", "1.5", "", "abc", None]),
    "blob": (BINARY, [b"abc", b"\x00\xff", None], [b"", b"\xff\xff", b"\x00", None]),
    "day": (
        DATE,
        [date(2024, 2, 29), date(1969, 12, 31), date(2000, 1, 1), None],
        [date(1, 1, 1), date(9999, 12, 31), date(1582, 10, 10), date(1900, 3, 1), None, date(1600, 2, 29)],
    ),
    "moment": (
        TIMESTAMP,
        [at("2024-02-29T23:59:59.999999"), at("1969-12-31T23:59:59.999999"), at("2001-09-09T01:46:40"), None],
        [at("0001-01-01T00:00:00"), at("9999-12-31T23:59:59.999999"), at("1582-10-04T12:34:56.5"), None],
    ),
    "clock": (
        NTZ,
        [plain("2024-02-29T00:00:00.000001"), plain("1950-06-15T12:30:45.5"), None],
        [plain("0001-01-01T00:00:00"), plain("9999-12-31T23:59:59.999999"), None],
    ),
}
SCHEMA = Schema(tuple(Field(name, type_) for name, (type_, _, _) in _VALUES.items()))
ROWS = 24


def _column(type_: DataType, values: list[Any], shift: int) -> list[Any]:
    """The values over and over; every column in another rhythm, so that they meet in many combinations."""
    cells = [values[(row + row // len(values) * shift) % len(values)] for row in range(ROWS)]
    return [Decimal(cell) if type_.kind is Kind.DECIMAL and cell is not None else cell for cell in cells]


def table(*, nasty: bool) -> pa.Table:
    """All columns; ordinary values only, or those that hurt only."""
    columns = [
        _column(type_, hurting if nasty else ordinary, shift)
        for shift, (type_, ordinary, hurting) in enumerate(_VALUES.values())
    ]
    return pa.table(dict(zip(_VALUES, columns, strict=True)), schema=arrow_schema(SCHEMA))


def column(name: str) -> Column:
    return Column(name, _VALUES[name][0])


def constant(value: Any, type_: DataType) -> Literal:
    return Literal(Decimal(value) if type_.kind is Kind.DECIMAL and value is not None else value, type_)


def call(name: str, *args: Expression, type: DataType = BOOLEAN) -> Call:
    return Call(name, args, type)


_CONSTANTS: dict[str, list[Any]] = {
    "flag": [True],
    "tiny": [-128],
    "small": [3],
    "number": [5, -(2**31)],
    "long": [2**63 - 1],
    "single": [0.5, NAN],
    "real": [0.0, NAN, -INF],
    "money": ["1.50"],
    "huge": ["-2.0000"],
    "text": ["abc", "", "a"],
    "blob": [b"\x00"],
    "day": [date(1969, 12, 31)],
    "moment": [at("1969-12-31T23:59:59.999999")],
    "clock": [plain("1950-06-15T12:30:45.5")],
}
_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge", "eq_null_safe")
_INTEGERS = (TINYINT, SMALLINT, INT, BIGINT)


def comparisons() -> Iterator[Expression]:
    for name, values in _CONSTANTS.items():
        left = column(name)
        for index, value in enumerate(values):
            for operator in _COMPARISONS if index == 0 else ("eq", "lt", "ge"):
                yield call(operator, left, constant(value, left.type))
        yield call("lt", constant(values[0], left.type), left)
        yield call("eq", left, constant(None, left.type))
        yield call("eq_null_safe", left, constant(None, left.type))
        yield call("in", left, *(constant(value, left.type) for value in values))
        yield call("in", left, constant(values[0], left.type), constant(None, left.type))
        yield call("not", call("in", left, constant(values[-1], left.type), constant(None, left.type)))
        yield call("is_null", left)
        yield call("is_not_null", left)
    for pair in (("number", "other"), ("real", "ratio"), ("money", "rest"), ("text", "word")):
        for operator in _COMPARISONS:
            yield call(operator, *(column(name) for name in pair))
    # Spark turns long lists into a hash set.
    yield call("in", column("real"), *(constant(float(n), DOUBLE) for n in range(12)), constant(NAN, DOUBLE))
    yield call("in", column("number"), *(constant(n, INT) for n in range(-8, 8)), constant(None, INT))


def logic() -> Iterator[Expression]:
    flag, positive = column("flag"), call("gt", column("number"), constant(0, INT))
    unknown = constant(None, BOOLEAN)
    boom = call("gt", call("div", column("real"), column("ratio"), type=DOUBLE), constant(1.0, DOUBLE))
    nonzero = call("ne", column("ratio"), constant(0.0, DOUBLE))
    for name in ("and", "or"):
        yield call(name, flag, positive)
        yield call(name, flag, unknown)
        yield call(name, positive, flag, call("like", column("text"), constant("a%", STRING)))
        yield call(name, flag, boom)
        yield call(name, boom, flag)
    yield call("not", flag)
    yield call("and", nonzero, boom)
    yield call("or", call("not", nonzero), boom)
    yield call("and", call("not", call("eq_null_safe", column("ratio"), constant(0.0, DOUBLE))), boom)
    yield call("case", nonzero, boom, constant(False, BOOLEAN))
    yield call("case", call("not", nonzero), constant(True, BOOLEAN), boom)
    yield call("case", flag, column("number"), positive, column("other"), constant(None, INT), type=INT)
    yield call("case", positive, column("text"), column("word"), type=STRING)
    yield call("coalesce", column("number"), column("other"), constant(9, INT), type=INT)
    yield call("coalesce", column("text"), column("word"), type=STRING)
    quotient = call("div", column("real"), column("ratio"), type=DOUBLE)
    yield call("coalesce", constant(1.0, DOUBLE), quotient, type=DOUBLE)
    yield call("coalesce", column("real"), quotient, type=DOUBLE)
    yield call("eq", call("case", flag, constant(1, INT), constant(0, INT), type=INT), constant(1, INT))


def arithmetic() -> Iterator[Expression]:
    pairs = [("number", "other"), ("long", "long"), ("tiny", "tiny"), ("small", "small"), ("real", "ratio")]
    for left, right in (*pairs, ("single", "single")):
        for name in ("add", "sub", "mul", "mod"):
            yield call(name, column(left), column(right), type=column(left).type)
        if column(left).type in _INTEGERS:
            yield call("int_div", column(left), column(right), type=BIGINT)
        for name in ("neg", "abs"):
            yield call(name, column(left), type=column(left).type)
    yield call("div", column("real"), column("ratio"), type=DOUBLE)
    yield call("div", column("real"), constant(-0.0, DOUBLE), type=DOUBLE)
    yield call("div", column("real"), constant(-3.0, DOUBLE), type=DOUBLE)
    yield call("div", constant(None, DOUBLE), column("ratio"), type=DOUBLE)
    for divisor in (3, -3, -1, 0):
        yield call("mod", column("number"), constant(divisor, INT), type=INT)
        yield call("int_div", column("long"), constant(divisor, BIGINT), type=BIGINT)
    yield call("mod", column("real"), constant(INF, DOUBLE), type=DOUBLE)
    money, rest = column("money"), column("rest")
    sums, product = DataType(Kind.DECIMAL, 11, 2), DataType(Kind.DECIMAL, 21, 4)
    yield call("add", money, rest, type=sums)
    yield call("sub", money, rest, type=sums)
    yield call("mul", money, rest, type=product)
    yield call("mod", money, rest, type=MONEY)
    yield call("int_div", money, rest, type=BIGINT)
    yield call("neg", money, type=MONEY)
    yield call("abs", money, type=MONEY)
    huge = column("huge")
    yield call("add", huge, huge, type=HUGE)
    yield call("sub", huge, huge, type=HUGE)
    yield call("mul", huge, constant("1.0000", HUGE), type=DataType(Kind.DECIMAL, 38, 6))
    # NULL is decided before the operand that would raise is looked at.
    overflow = call("mul", column("number"), column("number"), type=INT)
    yield call("add", column("other"), overflow, type=INT)
    yield call("lt", constant(0, INT), overflow)


def texts() -> Iterator[Expression]:
    text, word = column("text"), column("word")
    patterns = ["abc", "a%", "%c", "%b%", "a_c", "_", "%", "", "a\\%c", "%\\_%", "\\\\%", "__", "%😀", "_%_", "a%c%",
                ".*", "%.%", "[a]%", "%\n"]  # fmt: skip
    for pattern in patterns:
        yield call("like", text, constant(pattern, STRING))
    yield call("like", text, constant("a!%c", STRING), constant("!", STRING))
    yield call("like", text, constant("a\\b", STRING), constant("!", STRING))
    yield call("like", text, constant("a%%c", STRING), constant("%", STRING))
    yield call("like", text, constant("a\\c", STRING))
    yield call("like", text, constant("a\\", STRING))
    for name in ("starts_with", "ends_with", "contains"):
        yield call(name, text, constant("a", STRING))
        yield call(name, text, constant("", STRING))
        yield call(name, text, constant(None, STRING))
        yield call(name, text, word)
        yield call(name, constant("a😀c", STRING), word)
    yield call("length", text, type=INT)
    yield call("length", column("blob"), type=INT)
    yield call("gt", call("length", text, type=INT), constant(2, INT))


def times() -> Iterator[Expression]:
    for name in ("year", "month", "day", "hour", "minute", "second"):
        for source in ("day", "moment", "clock"):
            yield call(name, column(source), type=INT)


_NUMBERS = ("flag", "tiny", "small", "number", "long", "single", "real", "money", "huge")
_NUMBER_TYPES = (BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, MONEY, HUGE, LONG_MONEY)


def casts() -> Iterator[Expression]:
    for name in _NUMBERS:
        for type_ in _NUMBER_TYPES:
            if type_ != column(name).type:
                yield call("cast", column(name), type=type_)
    for name in ("flag", "tiny", "long", "money", "huge", "day", "moment", "clock"):
        yield call("cast", column(name), type=STRING)
    for name, types in (("day", (TIMESTAMP, NTZ)), ("moment", (DATE, NTZ, BIGINT, INT, DOUBLE)), ("clock", (DATE,))):
        for type_ in types:
            yield call("cast", column(name), type=type_)
    yield call("cast", column("clock"), type=TIMESTAMP)
    yield call("cast", column("number"), type=TIMESTAMP)
    yield call("cast", column("long"), type=TIMESTAMP)
    yield call("cast", column("text"), type=BINARY)
    for type_ in (TINYINT, INT, BIGINT, DOUBLE, FLOAT, MONEY):
        yield call("cast", column("digits"), type=type_)


STRINGS = [
    "1", "+1", "-1", " 1 ", "\t1\n", "1.", ".5", "1.5", "1e3", "1E-2", "1d", "1f", "1L", "0x10", "0x1p3", "--1", "",
    " ", "127", "128", "-128", "-129", "9223372036854775807", "9223372036854775808", "nan", "NaN", "+NaN", "inf",
    "-INF", "Infinity", "+infinity", "infinit", "1e400", "-1e400", "1e-400", "0.005", "0.015", "99999999.994",
    "99999999.995", "t", "TRUE", " yes ", "y", "N", "no", "f", "false", "tru", "2", "2024-02-29", "2023-02-29",
    "2024", "2024-1", "2024-1-5", "2024-01-05T10", "2024-01-05 x", "20240105", "99999-01-01", "-0001-01-01",
    "24-01-01", "2024-13-01", "2024-00-10", "2024-1-", "\x7f5", "\u00a05", "１２", "1 2", "1_000", "+", "-", ".",
    "e5", "1e", "1e+",
]  # fmt: skip


def string_casts() -> Iterator[Expression]:
    """Casts of single strings, most of which are wrong for most types."""
    for type_ in (TINYINT, BIGINT, DOUBLE, MONEY, BOOLEAN, DATE):
        yield call("cast", Column("text", STRING), type=type_)


def opaque() -> Iterator[Expression]:
    half = Opaque("`number` % 2", ("number",), INT)
    yield half
    yield call("eq", half, constant(1, INT))


# WHERE clauses as users write them, for the way through the binder.
CLAUSES = (
    "number > 3 AND number <= 12",
    "number BETWEEN -7 AND 5 OR number IS NULL",
    "number IN (1, 5, NULL)",
    "number NOT IN (1, 5)",
    "tiny < 100 AND small >= -20",
    "long > 12345678900",
    "long = number",
    "number > 1.5",
    "number < 2.5e0",
    "real > 0 AND ratio <> 0 AND real / ratio > 1",
    "real = 'NaN'",
    "real >= 1e6",
    "single < 0.5",
    "money > 1.5",
    "money = rest",
    "money * 2 > 3",
    "huge < 0",
    "text LIKE 'a%'",
    "text LIKE '%c' OR word = 'c'",
    "text >= 'a' AND text < 'b'",
    "NOT (text = 'abc')",
    "length(text) = 3",
    "upper(text) = 'ABC'",
    "text || word LIKE '%c'",
    "startswith(text, 'a') AND NOT flag",
    "flag",
    "flag IS NOT TRUE",
    "flag <=> NULL",
    "day >= DATE'1970-01-01'",
    "day = '2000-01-01'",
    "moment > TIMESTAMP'2000-01-01 00:00:00'",
    "moment >= '2024-02-29'",
    "day < moment",
    "year(moment) = 1969 AND hour(moment) = 23",
    "CASE WHEN number > 0 THEN other ELSE tiny END > 1",
    "coalesce(number, other, 0) = 0",
    "blob = X'616263'",
    "number % 2 = 1",
    "abs(number) > 5",
)


def corpus() -> list[Expression]:
    """Every expression over `SCHEMA`."""
    makers = (comparisons, logic, arithmetic, texts, times, casts, opaque)
    return [expression for maker in makers for expression in maker()]

from __future__ import annotations

import math
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from weft.kernels.arrow_types import arrow_schema, arrow_type, from_arrow
from weft.kernels.expression.evaluate import EvaluationError, batch_columns, evaluate
from weft.kernels.expression.raises import may_raise
from weft.plan.expression import Call, Column, Expression, Literal, Opaque
from weft.plan.types import BIGINT, BOOLEAN, DATE, DOUBLE, INT, STRING, TIMESTAMP, DataType, Field, Kind, Schema

A, B = Column("a", INT), Column("b", INT)
X, Y = Column("x", DOUBLE), Column("y", DOUBLE)
S, P = Column("s", STRING), Column("p", STRING)
NAN = math.nan


def call(name: str, *args: Expression, type: DataType = BOOLEAN) -> Call:
    return Call(name, args, type)


def lit(value: Any, type: DataType = INT) -> Literal:
    return Literal(value, type)


def batch(**columns: list[Any]) -> pa.RecordBatch:
    types = {"a": pa.int32(), "b": pa.int32(), "x": pa.float64(), "y": pa.float64(), "s": pa.string(), "p": pa.string(),
             "f": pa.bool_(), "l": pa.int64()}  # fmt: skip
    return pa.record_batch({name: pa.array(cells, types[name]) for name, cells in columns.items()})


def values(expression: Expression, **columns: list[Any]) -> list[Any]:
    result = evaluate(expression, batch(**columns))
    assert isinstance(result, pa.Array)
    return result.to_pylist()  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("eq", [True, False, False, True, None]),
        ("ne", [False, True, True, False, None]),
        ("lt", [False, False, True, False, None]),
        ("le", [True, False, True, True, None]),
        ("gt", [False, True, False, False, None]),
        ("ge", [True, True, False, True, None]),
        ("eq_null_safe", [True, False, False, True, False]),
    ],
)
def test_nan_is_one_value_above_all_and_zero_has_no_sign(name: str, expected: list[Any]) -> None:
    left, right = [NAN, NAN, math.inf, -0.0, None], [NAN, math.inf, NAN, 0.0, NAN]
    assert values(call(name, X, Y), x=left, y=right) == expected


@pytest.mark.parametrize("constant", [NAN, 1.0])
def test_comparing_with_a_constant_equals_comparing_with_a_column(constant: float) -> None:
    cells = [NAN, 1.0, -math.inf, math.inf, None, 0.0]
    for name in ("eq", "ne", "lt", "le", "gt", "ge"):
        spelled = values(call(name, X, Y), x=cells, y=[constant] * 6)
        assert values(call(name, X, lit(constant, DOUBLE)), x=cells) == spelled
        mirrored = values(call(name, Y, X), x=cells, y=[constant] * 6)
        assert values(call(name, lit(constant, DOUBLE), X), x=cells) == mirrored


def test_in_with_null_is_unknown_unless_found() -> None:
    expression = call("in", A, lit(1), lit(None), lit(3))
    assert values(expression, a=[1, 2, None, 3]) == [True, None, None, True]
    assert values(call("not", expression), a=[1, 2, None, 3]) == [False, None, None, False]
    assert values(call("in", X, lit(NAN, DOUBLE), lit(0.0, DOUBLE)), x=[NAN, -0.0, 1.0, None]) == [
        True, True, False, None,
    ]  # fmt: skip


def test_and_or_are_three_valued() -> None:
    f, g = Column("f", BOOLEAN), call("gt", A, lit(0))
    columns: dict[str, list[Any]] = {
        "f": [True, True, True, False, False, False, None, None, None],
        "a": [1, 0, None] * 3,
    }
    assert values(call("and", f, g), **columns) == [True, False, None, False, False, False, None, False, None]
    assert values(call("or", f, g), **columns) == [True, True, True, True, False, None, True, None, None]


QUOTIENT = call("div", X, Y, type=DOUBLE)
RISKY = call("gt", QUOTIENT, lit(1.0, DOUBLE))


def test_decided_rows_are_not_evaluated() -> None:
    nonzero = call("ne", Y, lit(0.0, DOUBLE))
    columns: dict[str, list[Any]] = {"x": [4.0, 4.0, None, 1.0], "y": [2.0, 0.0, 0.0, 2.0]}
    assert values(call("and", nonzero, RISKY), **columns) == [True, False, False, False]
    assert values(call("or", call("not", nonzero), RISKY), **columns) == [True, True, True, False]
    chosen = call("case", nonzero, QUOTIENT, lit(-1.0, DOUBLE), type=DOUBLE)
    assert values(chosen, **columns) == [2.0, -1.0, -1.0, 0.5]
    first = call("coalesce", Y, QUOTIENT, type=DOUBLE)
    assert values(first, **columns) == [2.0, 0.0, 0.0, 2.0]
    with pytest.raises(EvaluationError, match=r"division by zero in \(`x` / `y`\)"):
        values(RISKY, **columns)


def test_an_undecided_null_is_evaluated_further() -> None:
    expression = call("and", call("gt", A, lit(0)), RISKY)
    assert values(expression, a=[0, None], x=[1.0, 1.0], y=[0.0, 1.0]) == [False, False]
    with pytest.raises(EvaluationError):
        values(expression, a=[None], x=[1.0], y=[0.0])


def test_null_operands_win_over_failures() -> None:
    overflow = call("mul", B, B, type=INT)
    assert values(call("add", A, overflow, type=INT), a=[None, 1], b=[2**31 - 1, 3]) == [None, 10]
    assert values(QUOTIENT, x=[None, 1.0], y=[0.0, None]) == [None, None]
    # The divisor is looked at first: where it is NULL the dividend is not computed.
    dividend = call("cast", overflow, type=BIGINT)
    assert values(call("int_div", dividend, Column("l", BIGINT), type=BIGINT), b=[2**31 - 1], l=[None]) == [None]


@pytest.mark.parametrize(
    "expression",
    [
        call("add", A, lit(1), type=INT),
        call("mul", A, lit(2), type=INT),
        call("mod", A, lit(0), type=INT),
        call("int_div", A, lit(0), type=BIGINT),
        call("cast", A, type=DataType(Kind.TINYINT)),
        call("neg", call("sub", call("neg", A, type=INT), lit(1), type=INT), type=INT),
    ],
)
def test_overflow_and_zero_divisors_raise(expression: Call) -> None:
    assert may_raise(expression)
    with pytest.raises(EvaluationError, match="`a`"):
        values(expression, a=[None, 2**31 - 1])
    assert values(expression, a=[None, None]) == [None, None]
    assert values(expression, a=[]) == []


def test_division_truncates_and_the_remainder_has_the_sign_of_the_dividend() -> None:
    assert values(call("mod", A, B, type=INT), a=[7, -7, 7, -7, -(2**31)], b=[3, 3, -3, -3, -1]) == [1, -1, 1, -1, 0]
    assert values(call("int_div", A, B, type=BIGINT), a=[7, -7, -(2**31)], b=[-2, 2, -1]) == [-3, -3, 2**31]
    assert values(call("mod", X, Y, type=DOUBLE), x=[-5.5, 5.0], y=[2.0, math.inf]) == [-1.5, 5.0]


@pytest.mark.parametrize(
    ("pattern", "escape", "expected"),
    [
        ("a%", "\\", ["a", "abc", "a\nb", "a_c", "a%c"]),
        ("a_c", "\\", ["abc", "a_c", "a%c"]),
        ("a\\_c", "\\", ["a_c"]),
        ("a!%c", "!", ["a%c"]),
        ("%b", "\\", ["a\nb"]),
        ("%b%", "\\", ["abc", "a\nb"]),
        ("a_b", "\\", ["a\nb"]),
        ("_", "\\", ["a", "😀"]),
        ("", "\\", [""]),
        ("%", "\\", ["a", "abc", "a\nb", "a_c", "a%c", "😀", ""]),
        (".*", "\\", []),
    ],
)
def test_like(pattern: str, escape: str, expected: list[str]) -> None:
    cells = ["a", "abc", "a\nb", "a_c", "a%c", "😀", "", None]
    expression = call("like", S, lit(pattern, STRING), lit(escape, STRING))
    found = values(expression, s=cells)
    assert [cell for cell, hit in zip(cells, found, strict=True) if hit] == expected
    assert found[-1] is None
    assert not may_raise(expression)


@pytest.mark.parametrize("pattern", ["a\\b", "a\\"])
def test_a_wrong_escape_raises(pattern: str) -> None:
    expression = call("like", S, lit(pattern, STRING))
    assert may_raise(expression)
    with pytest.raises(EvaluationError, match="escape"):
        values(expression, s=["a"])


def test_parts_of_strings_by_column_on_slices() -> None:
    whole = batch(s=["zz", "abc", "aé", None, "x"], p=["z", "bc", "é", "q", None])
    for name, expected in (
        ("starts_with", [False, False, None, None]),
        ("ends_with", [True, True, None, None]),
        ("contains", [True, True, None, None]),
    ):
        assert evaluate(call(name, S, P), whole.slice(1)).to_pylist() == expected


def test_length_counts_characters() -> None:
    assert values(call("length", S, type=INT), s=["", "é", "😀😀", None]) == [0, 1, 2, None]


def test_fields_of_time_before_the_epoch_and_beyond_python() -> None:
    moments = pa.array([-1, 0, -62_135_596_800_000_000, 2**63 - 1, None], pa.timestamp("us", "UTC"))
    data = pa.record_batch({"t": moments, "d": moments.cast(pa.timestamp("us")).cast(pa.date32())})
    moment, day = Column("t", TIMESTAMP), Column("d", DATE)
    expected = {
        "year": [1969, 1970, 1, 294247, None],
        "month": [12, 1, 1, 1, None],
        "day": [31, 1, 1, 10, None],
        "hour": [23, 0, 0, 4, None],
        "minute": [59, 0, 0, 0, None],
        "second": [59, 0, 0, 54, None],
    }
    for name, cells in expected.items():
        assert evaluate(call(name, moment, type=INT), data).to_pylist() == cells
        of_day = cells if name in ("year", "month", "day") else [0, 0, 0, 0, None]
        assert evaluate(call(name, day, type=INT), data).to_pylist() == of_day


def test_decimals() -> None:
    money, wider = DataType(Kind.DECIMAL, 10, 2), DataType(Kind.DECIMAL, 11, 2)
    data = pa.record_batch({"m": pa.array([Decimal("1.50"), Decimal("-99999999.99"), None], pa.decimal128(10, 2))})
    m = Column("m", money)
    assert evaluate(call("add", m, m, type=wider), data).to_pylist() == [
        Decimal("3.00"),
        Decimal("-199999999.98"),
        None,
    ]
    halves = call("cast", m, type=DataType(Kind.DECIMAL, 10, 1))
    assert evaluate(halves, data.slice(0, 1)).to_pylist() == [Decimal("1.5")]
    assert evaluate(call("eq", m, Literal(Decimal("1.50"), money)), data).to_pylist() == [True, False, None]


def test_opaque_is_read_under_its_own_text() -> None:
    part = Opaque("upper(`s`) = 'A'", ("s",), BOOLEAN)
    data = pa.record_batch({part.sql: [True, None]})
    assert evaluate(call("not", part), data).to_pylist() == [False, None]
    assert batch_columns(call("and", part, call("gt", A, lit(1)))) == {"a", part.sql}


def test_chunks_dictionaries_and_slices() -> None:
    chunked = pa.chunked_array([pa.array(["a", None]).dictionary_encode(), pa.array(["b"]).dictionary_encode()])
    table = pa.table({"s": chunked, "a": pa.chunked_array([[1], [2, 3]], pa.int32())})
    expression = call("and", call("eq", S, lit("b", STRING)), call("gt", A, lit(1)))
    assert evaluate(expression, table).to_pylist() == [False, None, True]
    assert evaluate(expression, table.slice(1)).to_pylist() == [None, True]
    assert evaluate(call("eq", S, lit("b", STRING)), table.slice(0, 0)).to_pylist() == []


def test_constants_fill_all_rows() -> None:
    assert values(lit(7), a=[1, 2]) == [7, 7]
    assert values(call("add", lit(1), lit(2), type=INT), a=[0]) == [3]
    assert values(call("eq", A, lit(None)), a=[1, 2]) == [None, None]


def test_casts_only_spark_evaluates_say_so() -> None:
    expression = call("cast", X, type=STRING)
    assert may_raise(expression)
    with pytest.raises(EvaluationError, match="only Spark"):
        values(expression, x=[1.0])


@pytest.mark.parametrize(
    "type_",
    [DataType(kind) for kind in Kind if kind not in (Kind.DECIMAL, Kind.OTHER)] + [DataType(Kind.DECIMAL, 12, 3)],
)
def test_types_go_to_arrow_and_back(type_: DataType) -> None:
    assert from_arrow(arrow_type(type_)) == type_


def test_other_types_travel_only() -> None:
    nested = from_arrow(pa.list_(pa.struct([("a", pa.int32()), ("b", pa.map_(pa.string(), pa.float64()))])))
    assert nested == DataType(Kind.OTHER, text="array<struct<`a`:int,`b`:map<string,double>>>")
    assert from_arrow(pa.dictionary(pa.int8(), pa.large_string())) == STRING
    with pytest.raises(ValueError, match='column "n"'):
        arrow_schema(Schema((Field("n", nested),)))
    data = pa.record_batch({"n": pa.array([[1], None])})
    assert evaluate(call("is_null", Column("n", nested)), data).to_pylist() == [False, True]


def test_timestamps_of_all_kinds_are_microseconds() -> None:
    moment = datetime(2024, 1, 1, tzinfo=UTC)
    data = pa.record_batch({"t": pa.array([moment], pa.timestamp("ms", "Europe/Berlin"))})
    assert evaluate(Column("t", TIMESTAMP), data) == pa.array([moment], pa.timestamp("us", "UTC"))


def test_a_part_of_a_row_is_found_in_linear_time() -> None:
    """Comparing at every place would take 10^11 steps."""
    text, part = "a" * 1_000_000, "a" * 300_000 + "b"
    batch = pa.table({"t": [text, text + "b", "abab", "", None], "p": [part, part, "bab", "", "a"]})
    found = evaluate(Call("contains", (Column("t", STRING), Column("p", STRING)), BOOLEAN), batch)
    assert found.to_pylist() == [False, True, True, True, None]


def test_patterns() -> None:
    batch = pa.table({"t": ["abc", "b", "a\n", None]})
    found = evaluate(Call("rlike", (Column("t", STRING), Literal("^[ab]$", STRING)), BOOLEAN), batch)
    assert found.to_pylist() == [False, True, True, None]

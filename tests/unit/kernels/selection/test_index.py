"""The index against the plain meaning of predicates: conjunct by conjunct, row by row, with `evaluate`."""

from __future__ import annotations

import math
import pickle
import tracemalloc
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from weft.kernels.bitset import rows_with_slot, set_from_words, set_to_words
from weft.kernels.expression.evaluate import EvaluationError, evaluate
from weft.kernels.selection import conditions as predicate_bits
from weft.kernels.selection.index import QuerySets, Want, build_index, opaque_predicates
from weft.plan.expression import Call, Column, Expression, Literal, Opaque, conjuncts
from weft.plan.slots import Slots, slot_numbers, slot_set, words_for
from weft.plan.types import BIGINT, BOOLEAN, DATE, DOUBLE, INT, STRING, TIMESTAMP, DataType, Kind

NAN = math.nan
FLOAT, MONEY, HUGE = DataType(Kind.FLOAT), DataType(Kind.DECIMAL, 10, 2), DataType(Kind.DECIMAL, 38, 4)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# Few values per type, so that constants and rows often meet.
VALUES: dict[str, tuple[DataType, pa.DataType, list[Any]]] = {
    "flag": (BOOLEAN, pa.bool_(), [True, False]),
    "tiny": (DataType(Kind.TINYINT), pa.int8(), [-128, -1, 0, 1, 127]),
    "number": (INT, pa.int32(), [-(2**31), -1, 0, 1, 2, 3, 2**31 - 1]),
    "long": (BIGINT, pa.int64(), [-(2**63), -(2**63) + 1, -1, 0, 1, 2**62, 2**63 - 2, 2**63 - 1]),
    "single": (FLOAT, pa.float32(), [NAN, math.inf, -math.inf, 0.0, -0.0, 1.5, -1.5]),
    "real": (DOUBLE, pa.float64(), [NAN, math.inf, -math.inf, 0.0, -0.0, 5e-324, -5e-324, 1.0, 2.0]),
    "money": (MONEY, pa.decimal128(10, 2), [Decimal("-99999999.99"), Decimal("0.00"), Decimal("0.01")]),
    "huge": (HUGE, pa.decimal128(38, 4), [Decimal("9" * 34 + ".9999"), Decimal("-1.0000"), Decimal("0.0001")]),
    "text": (STRING, pa.string(), ["", "\0", "a", "a\0", "ab", "b", "é", "😀", "\uffff"]),
    "blob": (DataType(Kind.BINARY), pa.binary(), [b"", b"\0", b"\xff", b"a"]),
    "day": (DATE, pa.date32(), [date(1, 1, 1), date(1969, 12, 31), date(1970, 1, 1), date(9999, 12, 31)]),
    "moment": (TIMESTAMP, pa.timestamp("us", "UTC"), [EPOCH, EPOCH - timedelta(microseconds=1), None]),
}


def call(name: str, *args: Expression, type: DataType = BOOLEAN) -> Call:
    return Call(name, args, type)


def comparisons(column: Column) -> st.SearchStrategy[Expression]:
    constant = st.sampled_from([*VALUES[column.name][2], None]).map(lambda value: Literal(value, column.type))
    operators = st.sampled_from(["eq", "ne", "lt", "le", "gt", "ge", "eq_null_safe"])
    return st.one_of(
        st.builds(lambda name, value: call(name, column, value), operators, constant),
        st.builds(lambda name, value: call(name, value, column), operators, constant),
        st.lists(constant, min_size=1, max_size=4).map(lambda options: call("in", column, *options)),
        st.sampled_from(["is_null", "is_not_null"]).map(lambda name: call(name, column)),
    )


def combined(parts: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    return st.recursive(
        parts,
        lambda inner: st.one_of(
            inner.map(lambda part: call("not", part)),
            st.lists(inner, min_size=2, max_size=3).map(lambda some: call("and", *some)),
            st.lists(inner, min_size=2, max_size=3).map(lambda some: call("or", *some)),
        ),
        max_leaves=4,
    )


NUMBER, LONG, REAL, TEXT = (Column(name, VALUES[name][0]) for name in ("number", "long", "real", "text"))
WIDENED = Call("cast", (NUMBER,), BIGINT)
RESIDUAL: list[Expression] = [
    call("like", TEXT, Literal("a%", STRING)),
    call("lt", WIDENED, LONG),
    call("gt", WIDENED, Literal(2**40, BIGINT)),
    call("le", WIDENED, Literal(1, BIGINT)),
    call("ge", call("length", TEXT, type=INT), Literal(2, INT)),
    call("eq", call("year", Column("day", DATE), type=INT), Literal(1969, INT)),
    Column("flag", BOOLEAN),
    Literal(True, BOOLEAN),
    Literal(None, BOOLEAN),
    Opaque("`number` + 1 > 1", ("number",), BOOLEAN),
]
RAISING: list[Expression] = [
    call("gt", call("add", NUMBER, Literal(1, INT), type=INT), Literal(1, INT)),
    call("lt", call("div", REAL, REAL, type=DOUBLE), Literal(2.0, DOUBLE)),
    call("is_not_null", call("int_div", Literal(6, BIGINT), LONG, type=BIGINT)),
    call("eq", call("neg", LONG, type=BIGINT), Literal(-1, BIGINT)),
]
SINGLE = st.sampled_from([Column(name, type_) for name, (type_, _, _) in VALUES.items()]).flatmap(
    lambda column: combined(comparisons(column))
)
MIXED = combined(st.one_of(SINGLE, st.sampled_from(RESIDUAL)))
ANY = st.one_of(SINGLE, SINGLE, MIXED, st.sampled_from(RESIDUAL), st.sampled_from(RAISING))
PREDICATES = st.one_of(
    st.none(), ANY, st.lists(ANY, min_size=2, max_size=4).map(lambda parts: Call("and", tuple(parts), BOOLEAN))
)


@st.composite
def wanted(draw: st.DrawFn) -> tuple[list[Want], int]:
    slots = draw(st.lists(st.integers(0, 150), unique=True, max_size=12))
    starts = st.sampled_from([None, None, -(2**63), -5, 0, 3, 2**63 - 1])
    wants = [Want(slot, draw(PREDICATES), draw(starts)) for slot in slots]
    return wants, draw(st.integers(words_for(slot_set(slots)), 4))


@st.composite
def batches(draw: st.DrawFn) -> tuple[pa.RecordBatch | pa.Table, np.ndarray[Any, Any]]:
    rows = draw(st.integers(0, 12))
    columns: dict[str, pa.Array] = {}
    for name, (_, arrow, values) in VALUES.items():
        cells = draw(st.lists(st.sampled_from([*values, None]), min_size=rows, max_size=rows))
        columns[name] = pa.array(cells, arrow)
        if draw(st.booleans()) and arrow in (pa.string(), pa.int32(), pa.int64()):
            columns[name] = columns[name].dictionary_encode()
    columns["`number` + 1 > 1"] = pa.array(
        [None if n is None else n > 0 for n in columns["number"].to_pylist()], pa.bool_()
    )
    times = np.array(draw(st.lists(st.integers(-6, 6), min_size=rows, max_size=rows)), np.int64)
    first = draw(st.integers(0, rows))
    batch = pa.record_batch(columns).slice(first)
    if draw(st.booleans()):
        cut = batch.num_rows // 2
        return pa.concat_tables([pa.table(batch.slice(0, cut)), pa.table(batch.slice(cut))]), times[first:]
    return batch, times[first:]  # fmt: skip


def alone(want: Want, batch: pa.RecordBatch | pa.Table, times: np.ndarray[Any, Any]) -> list[bool] | None:
    """Which rows a want takes, by itself; None if it fails."""
    taken = []
    for row in range(batch.num_rows):
        taken.append(want.start is None or times[row] >= want.start)
        for part in conjuncts(want.predicate):
            if not taken[row]:
                break
            try:
                taken[row] = evaluate(part, batch.slice(row, 1))[0].as_py() is True
            except EvaluationError:
                return None
    return taken


def check(tagged: QuerySets, wants: list[Want], batch: pa.RecordBatch | pa.Table, times: np.ndarray[Any, Any]) -> None:
    expected = {want.slot: alone(want, batch, times) for want in wants}
    assert tagged.failures.keys() == {slot for slot, rows in expected.items() if rows is None}
    for slot, rows in expected.items():
        assert rows_with_slot(tagged.sets, slot).tolist() == (rows or [False] * batch.num_rows), slot
    live = slot_set(expected)
    assert all(set_from_words(row) & ~live == 0 for row in tagged.sets)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(wanted(), batches())
def test_every_row_gets_the_slots_that_want_it(
    want: tuple[list[Want], int], data: tuple[pa.RecordBatch | pa.Table, np.ndarray[Any, Any]]
) -> None:
    wants, words = want
    batch, times = data
    index = build_index(wants, words)
    tagged = index.tag(batch, times)
    assert tagged.sets.shape == (batch.num_rows, words)
    assert tagged.sets.dtype == np.uint64
    assert tagged.sets.flags.c_contiguous
    check(tagged, wants, batch, times)
    copied = pickle.loads(pickle.dumps(index)).tag(batch, times)
    assert np.array_equal(copied.sets, tagged.sets)
    assert copied.failures == tagged.failures


COLUMNS = [Column(name, VALUES[name][0]) for name in ("flag", "number", "long", "real", "text", "moment")]
SEVERAL = st.recursive(
    st.one_of(st.sampled_from(COLUMNS).flatmap(comparisons), st.sampled_from(RESIDUAL)),
    lambda inner: st.one_of(
        inner.map(lambda part: call("not", part)),
        st.lists(inner, min_size=2, max_size=4).map(lambda some: call("and", *some)),
        st.lists(inner, min_size=2, max_size=4).map(lambda some: call("or", *some)),
    ),
    max_leaves=10,
)


def _drawn_rows(rows: int, seed: int) -> pa.RecordBatch:
    rng = np.random.default_rng(seed)
    columns = {}
    for name, (_, arrow, values) in VALUES.items():
        choices = [*values, None]
        columns[name] = pa.array([choices[at] for at in rng.integers(0, len(choices), rows)], arrow)
    columns["`number` + 1 > 1"] = pa.array([n is not None and n > 0 for n in columns["number"].to_pylist()], pa.bool_())
    return pa.record_batch(columns)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(
    st.lists(SEVERAL, min_size=1, max_size=8), st.integers(0, 300), st.integers(0, 99), st.sampled_from([64, 1 << 16])
)
def test_and_or_not_over_several_columns_are_what_evaluation_says(
    predicates: list[Expression], rows: int, seed: int, step: int
) -> None:
    wants = [Want(3 * slot, predicate, None) for slot, predicate in enumerate(predicates)]
    wants += [Want(3 * slot + 1, call("not", predicate), 7) for slot, predicate in enumerate(predicates)]
    batch, times = _drawn_rows(rows, seed), np.arange(rows) % 20
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(predicate_bits, "_MOST_ROWS", step)
        patch.setattr(predicate_bits, "_FEWEST_ROWS", step)
        tagged = build_index(wants, 2).tag(batch, times)
    assert tagged.failures == {}
    for want in wants:
        assert want.predicate is not None
        expected = np.array([value is True for value in evaluate(want.predicate, batch).to_pylist()], np.bool_)
        if want.start is not None:
            expected &= times >= want.start
        assert np.array_equal(rows_with_slot(tagged.sets, want.slot), expected), want.predicate


def test_a_condition_of_several_columns_takes_bits_not_ranks() -> None:
    rng = np.random.default_rng(3)
    rows, count = 1 << 17, 320
    wants = [
        Want(slot, call("or", call("gt", NUMBER, Literal(slot, INT)), call("lt", LONG, Literal(slot, BIGINT))), 0)
        for slot in range(count)
    ]
    index = build_index(wants, words_for(slot_set(range(count))))
    columns = {"number": pa.array(rng.integers(0, count, rows), pa.int32()), "long": rng.integers(0, count, rows)}
    batch, times = pa.record_batch(columns), np.arange(rows)
    index.tag(batch.slice(0, 64), times[:64])
    tracemalloc.start()
    sets = index.tag(batch, times).sets
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * sets.nbytes, "a rank for each row and predicate would be 160 MiB"
    for want in wants[::40]:
        assert want.predicate is not None
        assert np.array_equal(
            rows_with_slot(sets, want.slot), evaluate(want.predicate, batch).to_numpy(zero_copy_only=False)
        )


def test_a_failure_in_a_later_piece_of_the_rows_clears_the_earlier_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_MOST_ROWS", "_FEWEST_ROWS"):
        monkeypatch.setattr(predicate_bits, name, 64)
    division = call("gt", call("div", Literal(1.0, DOUBLE), REAL, type=DOUBLE), Literal(0.4, DOUBLE))
    wants = [
        Want(0, division, None),
        Want(1, division, 200),
        Want(2, call("or", division, Column("flag", BOOLEAN)), None),
    ]
    values = pa.array([2.0] * 100 + [0.0] + [2.0] * 199)
    batch = pa.record_batch({"real": values, "flag": pa.array([True] * 300)})
    tagged = build_index(wants, 1).tag(batch, np.arange(300))
    assert tagged.failures.keys() == {0, 2}
    assert [set_from_words(row) for row in tagged.sets] == [0] * 200 + [2] * 100


def _range_wants(count: int, rng: np.random.Generator) -> list[Want]:
    wants = []
    for slot in range(count):
        column = Column(f"f{slot % 3}", INT)
        low, high = sorted(int(value) for value in rng.integers(0, 500, 2))
        between = call("and", call("ge", column, Literal(low, INT)), call("lt", column, Literal(high, INT)))
        wants.append(Want(slot, between, int(rng.integers(0, 50))))
    return wants


def test_many_wants_on_many_rows() -> None:
    rng = np.random.default_rng(5)
    wants = _range_wants(1000, rng)
    columns = {f"f{at}": pa.array(rng.integers(0, 500, 2000), pa.int32()) for at in range(3)}
    times = rng.integers(0, 60, 2000)
    index = build_index(wants, 16)
    sets = index.tag(pa.record_batch(columns), times).sets
    for want in wants[::37]:
        assert want.predicate is not None
        rows = evaluate(want.predicate, pa.record_batch(columns)).to_numpy(zero_copy_only=False) & (times >= want.start)
        assert np.array_equal(rows_with_slot(sets, want.slot), rows)
    assert len(pickle.dumps(index)) < 60_000


@pytest.mark.parametrize("span", [2**20, 2**62])
def test_cuts_far_apart_are_searched(span: int) -> None:
    rng = np.random.default_rng(7)
    cuts = sorted(int(cut) for cut in rng.integers(-span, span, 300))
    keys = np.concatenate([rng.integers(-span, span, 500), np.array([*cuts, -(2**63), 2**63 - 1])])
    wants = [Want(slot, call("lt", LONG, Literal(cut, BIGINT)), None) for slot, cut in enumerate(cuts)]
    sets = build_index(wants, 5).tag(pa.record_batch({"long": keys}), np.zeros(len(keys), np.int64)).sets
    for slot, cut in enumerate(cuts):
        assert np.array_equal(rows_with_slot(sets, slot), keys < cut)


def test_a_failing_want_disturbs_nobody_and_guards_protect() -> None:
    quotient = call("gt", call("div", Literal(1.0, DOUBLE), REAL, type=DOUBLE), Literal(0.4, DOUBLE))
    guard = call("ne", REAL, Literal(0.0, DOUBLE))
    wants = [
        Want(0, quotient, None),
        Want(1, call("and", guard, quotient), None),
        Want(2, quotient, 1),
        Want(3, call("and", quotient, guard), None),
        Want(4, None, None),
        Want(5, guard, 2),
    ]
    batch = pa.record_batch({"real": [0.0, 1.0, 4.0, 2.0]})
    tagged = build_index(wants, 1).tag(batch, np.arange(4))
    assert tagged.failures.keys() == {0, 3}
    assert "division by zero in (CAST('1.0' AS double) / `real`)" in tagged.failures[0]
    assert [set(slot_numbers(set_from_words(row))) for row in tagged.sets] == [{4}, {1, 2, 4}, {4, 5}, {1, 2, 4, 5}]


def test_columns_and_opaque_parts() -> None:
    part, other = Opaque("f(`text`)", ("text",), BOOLEAN), Opaque("g(`number`)", ("number",), INT)
    wants = [
        Want(0, call("and", part, call("gt", LONG, Literal(1, BIGINT))), 5),
        Want(1, call("or", part, call("gt", other, Literal(3, INT))), None),
    ]
    assert opaque_predicates(wants) == (part, other)
    assert build_index(wants, 1).columns == {"f(`text`)", "g(`number`)", "long"}


def test_a_constant_predicate_that_raises_fails_its_own_want() -> None:
    boom = call("eq", call("mod", Literal(1, INT), Literal(0, INT), type=INT), Literal(0, INT))
    wants = [Want(0, boom, 5), Want(1, boom, 0), Want(2, call("and", Column("flag", BOOLEAN), boom), None)]
    tagged = build_index(wants, 1).tag(pa.record_batch({"flag": [False, None]}), np.array([1, 2]))
    assert tagged.failures.keys() == {1}
    assert not tagged.sets.any()


def test_wrong_slots_are_refused() -> None:
    with pytest.raises(ValueError, match="same slot"):
        build_index([Want(1, None, None), Want(1, None, 3)], 1)
    with pytest.raises(ValueError, match="slot 64"):
        build_index([Want(64, None, None)], 1)


@given(st.integers(0, 2**200 - 1))
def test_bitsets_are_words_and_back(mask: int) -> None:
    words = words_for(Slots(mask))
    assert set_from_words(set_to_words(mask, words)) == mask
    assert slot_set(slot_numbers(mask)) == mask
    row = set_to_words(mask, words).reshape(1, -1)
    assert [slot for slot in range(words * 64) if rows_with_slot(row, slot)[0]] == list(slot_numbers(mask))

"""Words: there and back, in the order of the values, for every type."""

from __future__ import annotations

from decimal import Decimal
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.cell_cases import TYPES, Value, array, canonical, decimal_type, rank, typed_values
from weft.kernels.aggregate.sort_codes import (
    decimal_limbs,
    from_codes,
    is_direct,
    plain_numbers,
    to_codes,
    to_decimals,
    unify_codes,
)
from weft.kernels.arrow_types import arrow_type
from weft.plan.types import BIGINT, DOUBLE, STRING, DataType


@pytest.mark.parametrize("type_", TYPES, ids=DataType.ddl)
def test_words_are_in_the_order_of_values(type_: DataType) -> None:
    values = sorted(TYPES[type_], key=rank)
    found = to_codes(array(type_, values))
    assert found.valid is None
    for (a, word_a), (b, word_b) in pairwise(zip(values, found.words.tolist(), strict=True)):
        assert word_a < word_b or (canonical(a) == canonical(b) and word_a == word_b)
    assert (found.dictionary is None) == is_direct(arrow_type(type_))


@given(case=typed_values(most=12), skip=st.integers(0, 3))
@settings(max_examples=100)
def test_there_and_back(case: tuple[DataType, list[Value]], skip: int) -> None:
    type_, values = case
    column = array(type_, values).slice(min(skip, len(values) - 1))
    found = to_codes(column)
    back = from_codes(found.words, column.type, found.dictionary, found.valid)
    back.validate(full=True)
    assert back.type == column.type
    assert [canonical(v) for v in back.to_pylist()] == [canonical(v) for v in column.to_pylist()]


@pytest.mark.parametrize("type_", [*(arrow_type(each) for each in TYPES), pa.null()], ids=str)
def test_nothing_and_nothing_but_null(type_: pa.DataType) -> None:
    for column in (pa.array([], type_), pa.nulls(3, type_)):
        found = to_codes(column)
        assert from_codes(found.words, type_, found.dictionary, found.valid).equals(column)


def test_both_zeros_and_all_nans_are_one_word() -> None:
    odd = np.array([0x7FF8000000000001, 0xFFF8000000000000], np.uint64).view(np.float64)
    words = to_codes(pa.array([0.0, -0.0, float("nan"), *odd, float("inf")])).words
    assert words[0] == words[1]
    assert words[2] == words[3] == words[4] > words[5]


@given(parts=st.lists(st.lists(st.sampled_from(TYPES[STRING]), max_size=4), min_size=1, max_size=4))
@settings(max_examples=50)
def test_dictionaries_become_one(parts: list[list[str]]) -> None:
    dictionaries = [to_codes(array(STRING, part)).dictionary for part in parts]
    merged, maps = unify_codes([each for each in dictionaries if each is not None])
    assert merged.to_pylist() == sorted({text for part in parts for text in part}, key=rank)
    for old, new in zip(dictionaries, maps, strict=True):
        assert old is not None
        assert merged.take(pa.array(new)).to_pylist() == old.to_pylist()


@pytest.mark.parametrize("precision", [1, 5, 18, 19, 38])
def test_decimals_from_unscaled_words(precision: int) -> None:
    type_ = arrow_type(decimal_type(precision, 1))
    found = to_decimals(np.array([-9, 0, 7]), type_, np.array([False, True, False]))
    found.validate(full=True)
    assert found.to_pylist() == [Decimal("-0.9"), None, Decimal("0.7")]
    assert to_decimals(np.array([-9]), type_, None).to_pylist() == [Decimal("-0.9")]


def test_limbs_of_a_slice_are_those_of_its_rows() -> None:
    values = [Decimal(10) ** 37, Decimal(-1), Decimal(2**64 + 5), None]
    column = pa.array(values, pa.decimal128(38, 0)).slice(1, 2)
    assert decimal_limbs(column).tolist() == [[-1, -1], [5, 1]]
    assert decimal_limbs(column.slice(0, 0)).shape == (0, 2)


def test_plain_numbers_are_zero_where_null() -> None:
    assert plain_numbers(array(DOUBLE, [1.5, None])).tolist() == [1.5, 0.0]
    assert plain_numbers(array(BIGINT, [2**63 - 1])).tolist() == [2**63 - 1]

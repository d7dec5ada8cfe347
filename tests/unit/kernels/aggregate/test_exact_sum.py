"""Sums and products of integers of any size, against Python's own."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.kernels.aggregate.exact_sum import sum_of, times, to_limbs

EDGES = [0, 1, -1, 2**31, 2**32 - 1, -(2**32), 2**61, 2**62, -(2**62), 2**63 - 1, -(2**63)]
LONGS = st.integers(-(2**63), 2**63 - 1) | st.sampled_from(EDGES)
WIDE = st.integers(-(10**76), 10**76) | LONGS


@given(values=st.lists(LONGS, max_size=8))
@settings(max_examples=100)
def test_longs_through_limbs(values: list[int]) -> None:
    found = sum_of(to_limbs(np.array(values, np.int64), "x"), "x")
    assert found is not None
    assert [int(value) for value in found] == values


@given(values=st.lists(WIDE, min_size=1, max_size=8))
@settings(max_examples=100)
def test_integers_of_any_size_through_limbs(values: list[int]) -> None:
    found = sum_of(to_limbs(np.array(values, object), "x"), "x")
    assert found is not None
    assert [int(value) for value in found] == values


@given(values=st.lists(WIDE, min_size=1, max_size=20), narrow=st.lists(LONGS, max_size=20))
@settings(max_examples=50)
def test_lanes_add_up_limb_by_limb(values: list[int], narrow: list[int]) -> None:
    parts = [to_limbs(np.array([value], object), "x") for value in values]
    parts += [to_limbs(np.array([value], np.int64), "x") for value in narrow]
    names = {name for part in parts for name in part}
    lanes = {name: np.array([sum(int(part[name][0]) for part in parts if name in part)]) for name in names}
    found = sum_of(lanes, "x")
    assert found is not None
    assert int(found[0]) == sum(values) + sum(narrow)


@given(pairs=st.lists(st.tuples(LONGS, LONGS), max_size=8), big=st.booleans())
@settings(max_examples=100)
def test_products(pairs: list[tuple[int, int]], big: bool) -> None:
    left, right = (np.array([pair[n] for pair in pairs], object if big and n else np.int64) for n in (0, 1))
    assert [int(value) for value in times(left, right)] == [a * b for a, b in pairs]


def test_an_argument_without_lanes_has_no_sum() -> None:
    assert sum_of({"sum0:y": np.zeros(1, np.int64)}, "x") is None


def test_one_limb_is_its_own_sum_and_not_shared() -> None:
    lane = np.array([2**62, -(2**62)])
    found = sum_of({"sum0:x": lane}, "x")
    assert found is not None
    assert found.tolist() == lane.tolist()
    found[0] = 0
    assert lane[0] == 2**62


@pytest.mark.parametrize("digits", [38, 44])
def test_the_product_of_sums_of_the_longest_decimals_fits(digits: int) -> None:
    value = np.array([10**digits - 1, -(10**digits) + 1], object)
    found = sum_of(to_limbs(times(value, value[::-1].copy()), "x"), "x")
    assert found is not None
    assert [int(each) for each in found] == [-((10**digits - 1) ** 2)] * 2

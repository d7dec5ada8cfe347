"""Sketches: near enough, and the same for any order and any way to cut the rows."""

from __future__ import annotations

import math
import sys
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.cell_cases import INFINITY, NAN, rank
from weft.kernels.aggregate.cells import Detail, merge_details
from weft.kernels.aggregate.sketch import (
    REGISTERS,
    histogram_codes,
    histogram_values,
    hll_codes,
    hll_estimates,
    quantile_codes,
)
from weft.kernels.key_hash import hash_keys

EDGE = [0.0, -0.0, 5e-324, 1e-301, 1e-299, -1e-299, 1.0, -1.0, 9e307, sys.float_info.max, -sys.float_info.max]
DOUBLES = st.floats(-1e6, 1e6) | st.sampled_from([*EDGE, INFINITY, -INFINITY, NAN])


def registers(values: range | list[str]) -> Detail:
    """The sketch of one cell."""
    found, ranks = hll_codes(hash_keys([pa.array(values)]).h)
    return merge_details("registers:x", Detail(np.zeros(len(found), np.int64), found, ranks))


def estimate(*parts: Detail) -> int:
    cells, codes, ranks = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("cells", "codes", "weights")
    )
    merged = merge_details("registers:x", Detail(cells, codes, ranks))
    return int(hll_estimates(merged.cells, merged.weights, 1)[0])


@pytest.mark.parametrize("count", [1, 2, 10, 100, 1000, 3000, 8000, 10_000, 12_000, 20_000, 50_000, 100_000])
def test_distinct_values_are_estimated_within_five_percent(count: int) -> None:
    assert abs(estimate(registers(range(count))) - count) <= 0.05 * count
    if count <= 10_000:
        texts = [f"value {n}" for n in range(count)]
        assert abs(estimate(registers(texts)) - count) <= 0.05 * count


@given(size=st.integers(0, 3000), cuts=st.lists(st.integers(0, 3000), max_size=4))
@settings(max_examples=20)
def test_merged_sketches_are_the_sketch_of_all(size: int, cuts: list[int]) -> None:
    edges = sorted({0, size, *(cut for cut in cuts if cut < size)})
    parts = [registers(range(max(0, a - 50), b)) for a, b in pairwise(edges)]
    assert estimate(*parts, registers(range(0))) == estimate(registers(range(size)))


def test_groups_are_estimated_apart() -> None:
    sketch = registers(range(500))
    twice = Detail(
        np.concatenate([sketch.cells, sketch.cells + 2]), *(np.tile(p, 2) for p in (sketch.codes, sketch.weights))
    )
    assert hll_estimates(twice.cells, twice.weights, 3).tolist() == [estimate(sketch), 0, estimate(sketch)]


def test_a_hash_without_bits_has_the_last_rank() -> None:
    found, ranks = hll_codes(np.array([0, 2**64 - 1, 1 << 51], np.uint64))
    assert found.tolist() == [0, REGISTERS - 1, 0]
    assert ranks.tolist() == [53, 1, 1]


# ---- quantiles


@given(values=st.lists(DOUBLES, min_size=1, max_size=30))
@settings(max_examples=100)
def test_buckets_are_in_the_order_of_values_and_near_them(values: list[float]) -> None:
    ordered = sorted(values, key=rank)
    codes = histogram_codes(np.array(ordered))
    assert (codes[1:] >= codes[:-1]).all()
    for value, got in zip(ordered, histogram_values(codes).tolist(), strict=True):
        assert (
            (math.isnan(value) and math.isnan(got)) or got == value or abs(got - value) <= 0.0051 * abs(value) + 1e-300
        )


def test_the_largest_doubles_are_not_infinite() -> None:
    values = np.array([9e307, sys.float_info.max, -sys.float_info.max])
    assert np.isfinite(histogram_values(histogram_codes(values))).all()


@given(
    groups=st.lists(st.lists(st.floats(-1e9, 1e9) | st.sampled_from([0.0, NAN, INFINITY]), max_size=20), max_size=4),
    fraction=st.sampled_from([0.0, 0.01, 0.25, 0.5, 0.75, 0.99, 1.0]),
)
@settings(max_examples=100)
def test_quantiles_are_near_the_value_of_that_rank(groups: list[list[float]], fraction: float) -> None:
    owner = np.repeat(np.arange(len(groups)), [len(group) for group in groups]).astype(np.int64)
    values = np.array([value for group in groups for value in group])
    detail = merge_details("histogram:x", Detail(owner, histogram_codes(values), np.ones(len(owner), np.int64)))
    codes = quantile_codes(detail.cells, detail.codes, detail.weights, len(groups), fraction)
    for group, got in zip(groups, histogram_values(codes).tolist(), strict=True):
        if group:
            wanted = sorted(group, key=rank)[max(1, math.ceil(fraction * len(group))) - 1]
            close = got == wanted or abs(got - wanted) <= 0.01 * abs(wanted) + 1e-300
            assert close or (math.isnan(got) and math.isnan(wanted))

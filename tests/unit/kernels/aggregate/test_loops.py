"""The loops of shared aggregation against dictionaries and lists."""

from __future__ import annotations

import math
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.cell_cases import NAN, spread
from weft.kernels.aggregate.loops import (
    add_spread,
    add_values,
    expand_sets,
    fan_out,
    keep_greatest,
    keep_least,
    number_large,
    number_sets,
    number_small,
    repeat_details,
)
from weft.kernels.aggregate.sort_codes import Longs
from weft.kernels.bitset import set_to_words

TARGETS = st.lists(st.tuples(st.integers(0, 5), st.integers(-1, 3)), max_size=20)
SETS = st.lists(st.sampled_from([0, 1, 2, 3, 1 << 63, 1 << 64, 1 << 100, 2**128 - 1]), min_size=1, max_size=20)


def longs(values: list[int]) -> Longs:
    return np.array(values, np.int64)


def check_numbers(keys: list[int], numbers: Longs, found: Longs) -> None:
    assert [found[number] if number >= 0 else -1 for number in numbers] == keys
    assert sorted(found.tolist()) == sorted(set(keys) - {-1})


@given(keys=st.lists(st.integers(-1, 40), max_size=30))
def test_small_keys_are_numbered_densely_and_in_order(keys: list[int]) -> None:
    numbers, found = number_small(longs(keys), 41)
    check_numbers(keys, numbers, found)
    assert found.tolist() == sorted(found.tolist())


@given(keys=st.lists(st.integers(-1, 3) | st.sampled_from([2**62, 2**62 - 1, 2**40, 2**63 - 1]), max_size=60))
def test_large_keys_are_numbered_densely(keys: list[int]) -> None:
    check_numbers(keys, *number_large(longs(keys)))


@given(sets=SETS, mask=st.sampled_from([2**128 - 1, 1, 1 << 100, 3 | 1 << 64]), limit=st.integers(1, 8))
@settings(max_examples=100)
def test_query_sets_are_numbered(sets: list[int], mask: int, limit: int) -> None:
    words = np.stack([set_to_words(each, 2) for each in sets])
    masked = set_to_words(mask, 2)
    numbers, firsts = number_sets(words, np.flatnonzero(masked), masked, limit)
    distinct = {each & mask for each in sets} - {0}
    if len(distinct) > limit:
        assert len(firsts) == limit + 1
        return
    assert len(firsts) == len(distinct)
    for each, number in zip(sets, numbers, strict=True):
        assert sets[firsts[number]] & mask == each & mask if each & mask else number == -1


@given(sets=SETS, slots=st.lists(st.sampled_from([0, 1, 63, 64, 100, 127]), min_size=1, max_size=6, unique=True))
def test_rows_once_for_each_of_their_queries(sets: list[int], slots: list[int]) -> None:
    words = np.stack([set_to_words(each, 2) for each in sets])
    at = longs([slot // 64 for slot in slots]), longs([slot % 64 for slot in slots])
    start, end = len(sets) // 3, len(sets)
    rows, queries = expand_sets(words, *at, start, end)
    wanted = [(row, q) for row in range(start, end) for q, slot in enumerate(slots) if sets[row] >> slot & 1]
    assert list(zip(rows.tolist(), queries.tolist(), strict=True)) == wanted


@given(
    classes=st.lists(st.integers(0, 2), max_size=12),
    members=st.lists(st.lists(st.integers(0, 9), max_size=4), min_size=3, max_size=3),
    most=st.integers(1, 6),
)
def test_cells_once_for_each_member_of_their_class(classes: list[int], members: list[list[int]], most: int) -> None:
    offsets = np.cumsum([0, *(len(each) for each in members)]).astype(np.int64)
    flat = longs([member for each in members for member in each])
    start, found, steps = 0, [], 0
    while start < len(classes):
        cells, chosen, end = fan_out(longs(classes), offsets, flat, start, most)
        assert end > start
        assert len(cells) <= most + 3
        found += list(zip(cells.tolist(), chosen.tolist(), strict=True))
        start, steps = end, steps + 1
    assert found == [(cell, member) for cell, number in enumerate(classes) for member in members[number]]


@given(pairs=TARGETS, values=st.lists(st.integers(-9, 9), min_size=6, max_size=6))
def test_values_go_to_their_targets(pairs: list[tuple[int, int]], values: list[int]) -> None:
    source, target = longs([s for s, _ in pairs]), longs([t for _, t in pairs])
    arrived: dict[int, list[int]] = defaultdict(list)
    for s, t in pairs:
        arrived[t].append(values[s])
    total, doubles, least, greatest = np.zeros(4, np.int64), np.zeros(4), np.full(4, 99), np.full(4, -99)
    add_values(source, target, longs(values), total)
    add_values(source, target, np.array(values, np.float64), doubles)
    keep_least(source, target, longs(values), least)
    keep_greatest(source, target, longs(values), greatest)
    assert total.tolist() == doubles.tolist() == [sum(arrived[t]) for t in range(4)]
    assert least.tolist() == [min(arrived[t], default=99) for t in range(4)]
    assert greatest.tolist() == [max(arrived[t], default=-99) for t in range(4)]


def spreads_of(groups: list[list[float]]) -> tuple[int, float]:
    """Count and spread of all values, accumulated group by group and then merged."""
    state = (np.zeros(len(groups), np.int64), np.zeros(len(groups)), np.zeros(len(groups)))
    values = np.array([value for group in groups for value in group])
    rows = (np.ones(len(values), np.int64), values, values - values)
    owner = np.repeat(np.arange(len(groups)), [len(group) for group in groups]).astype(np.int64)
    add_spread(np.arange(len(values)), owner, rows, state)
    whole = (np.zeros(1, np.int64), np.zeros(1), np.zeros(1))
    add_spread(np.arange(len(groups)), np.zeros(len(groups), np.int64), state, whole)
    return int(whole[0][0]), float(whole[2][0])


@given(groups=st.lists(st.lists(st.floats(-1e6, 1e6), max_size=6), min_size=1, max_size=5))
@settings(max_examples=100)
def test_deviations_merge_without_loss(groups: list[list[float]]) -> None:
    values = [value for group in groups for value in group]
    count, found = spreads_of(groups)
    assert count == len(values)
    wanted = spread(values) if values else 0.0
    assert math.isclose(found, wanted, rel_tol=1e-9, abs_tol=1e-12 * sum(v * v for v in values))


@pytest.mark.parametrize(
    ("groups", "wanted"), [([[1e200]], 0.0), ([[1e200], []], 0.0), ([[1e200], [1e200]], 0.0), ([[NAN, 1.0]], NAN)]
)
def test_deviations_of_few_and_odd_numbers(groups: list[list[float]], wanted: float) -> None:
    _, found = spreads_of(groups)
    assert found == wanted or (math.isnan(found) and math.isnan(wanted))


@given(cells=st.lists(st.integers(0, 5), max_size=12).map(sorted), pairs=TARGETS)
def test_entries_once_for_each_target_of_their_cell(cells: list[int], pairs: list[tuple[int, int]]) -> None:
    entries, owners = repeat_details(longs(cells), longs([s for s, _ in pairs]), longs([t for _, t in pairs]))
    wanted = [(at, t) for s, t in pairs if t >= 0 for at, cell in enumerate(cells) if cell == s]
    assert list(zip(entries.tolist(), owners.tolist(), strict=True)) == wanted

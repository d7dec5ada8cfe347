"""Slots: bitsets, reuse, and how many words they take."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.support.engine_sample import live
from weft.plan.slots import NO_SLOTS, Slots, free_slots, slot_set, words_for

SETS = st.sets(st.integers(0, 300), max_size=40)


@given(SETS)
def test_a_set_of_slots_has_exactly_their_bits(slots: set[int]) -> None:
    mask = slot_set(slots)
    assert {slot for slot in range(302) if mask >> slot & 1} == slots


@given(SETS, st.integers(0, 20))
def test_free_slots_are_the_lowest_that_are_not_taken(taken: set[int], count: int) -> None:
    assert free_slots(slot_set(taken), count) == tuple(slot for slot in range(400) if slot not in taken)[:count]


@given(SETS)
def test_words_are_as_many_as_the_highest_slot_needs_and_at_least_one(slots: set[int]) -> None:
    words = words_for(slot_set(slots))
    assert words == max(1, max(slots, default=0) // 64 + 1)


def test_words_at_the_edges() -> None:
    assert [words_for(Slots(1 << slot)) for slot in (0, 63, 64, 127, 128)] == [1, 1, 2, 2, 3]
    assert words_for(NO_SLOTS) == 1


def test_a_live_query_says_its_slot() -> None:
    assert live("SELECT x FROM a", 7).slot == 7

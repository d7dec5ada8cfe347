"""Slots and sets of slots.

A slot is the number of a live query. A set of slots is an integer: bit s says whether slot s is in the set.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NewType

Slots = NewType("Slots", int)
"""A set of slots."""

NO_SLOTS = Slots(0)


def slot_set(numbers: Iterable[int]) -> Slots:
    """Return the set of these slots."""
    mask = 0
    for number in numbers:
        mask |= 1 << number
    return Slots(mask)


def slot_numbers(slots: int) -> Iterator[int]:
    """Yield the slots in a set, ascending: the inverse of `slot_set`."""
    while slots:
        lowest = slots & -slots
        yield lowest.bit_length() - 1
        slots ^= lowest


def free_slots(taken: Slots, count: int) -> tuple[int, ...]:
    """Return the lowest `count` slots that are not taken. Reusing slots of ended queries keeps query-sets short."""
    free: list[int] = []
    slot = 0
    while len(free) < count:
        if not taken >> slot & 1:
            free.append(slot)
        slot += 1
    return tuple(free)


def words_for(taken: Slots) -> int:
    """Return the number of 64-bit words of a query-set: enough for the highest slot taken, and at least one."""
    return max(1, (taken.bit_length() + 63) // 64)

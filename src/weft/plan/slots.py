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
    """The set of these slots."""
    found = 0
    for number in numbers:
        found |= 1 << number
    return Slots(found)


def slot_numbers(slots: int) -> Iterator[int]:
    """The slots in a set, ascending. The inverse of `slot_set`."""
    while slots:
        lowest = slots & -slots
        yield lowest.bit_length() - 1
        slots ^= lowest


def free_slots(taken: Slots, count: int) -> tuple[int, ...]:
    """The lowest `count` slots that are not taken. Slots of ended queries are used again, so query-sets stay short."""
    found: list[int] = []
    slot = 0
    while len(found) < count:
        if not taken >> slot & 1:
            found.append(slot)
        slot += 1
    return tuple(found)


def words_for(taken: Slots) -> int:
    """The number of 64-bit words that a query-set needs. Unused slots at the end need none."""
    return max(1, (taken.bit_length() + 63) // 64)

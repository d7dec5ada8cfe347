"""Disjoint sets of numbers (union-find)."""

from __future__ import annotations

from collections.abc import Callable


def disjoint_sets(count: int) -> tuple[Callable[[int], int], Callable[[int, int], None]]:
    """Return `find` and `join` of a union-find over 0..count-1; `find` returns the smallest element of a set."""
    parent = list(range(count))

    def find(element: int) -> int:
        while parent[element] != element:
            parent[element] = parent[parent[element]]
            element = parent[element]
        return element

    def join(one: int, other: int) -> None:
        first, second = sorted((find(one), find(other)))
        parent[second] = first

    return find, join

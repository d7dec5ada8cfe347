"""Which query makes a batch fail: found by halves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

Each = TypeVar("Each")


def find_culprit(suspects: Sequence[Each], fails: Callable[[Sequence[Each]], bool]) -> Each | None:
    """The one of the suspects that makes `fails` true by itself; None if none does.

    With several of them one is found, and the next one when this is asked again. It takes about twice the logarithm of
    their number of trials.
    """
    if not suspects or fails(()) or not fails(suspects):
        return None  # it fails without any of them, or it has passed
    while len(suspects) > 1:
        half = len(suspects) // 2
        left, right = suspects[:half], suspects[half:]
        if fails(left):
            suspects = left
        elif fails(right):
            suspects = right
        else:
            return None  # they fail only together
    return suspects[0]

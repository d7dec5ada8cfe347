"""Binary search for the query that makes a batch fail."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

Each = TypeVar("Each")
_SURE = 3
"""Number of times that a suspect must make the difference before it is blamed."""


def find_culprit(
    suspects: Sequence[Each],
    fails: Callable[[Sequence[Each]], bool],
    *,
    peers: Callable[[Each], Sequence[Each]],
    alone: bool = False,
) -> Each | None:
    """Return the last of the shortest prefix of `suspects` for which `fails` is true; None if no suspect is to blame.

    If suspects fail only together, the last of them is returned, unless a culprit has to fail `alone`. Of several
    culprits one is returned; a call without it finds the next. The number of trials is about logarithmic, plus a few
    for confirmation: no suspect is blamed for an intermittent fault, nor for a fault that all its `peers` have on their
    own. With `alone`, a suspect without peers is blamed only if there is no other suspect.
    """
    if not suspects or fails(()) or not fails(suspects):
        return None  # the batch fails without any suspect, or succeeds with all of them
    passed, failed = 0, len(suspects)
    while failed - passed > 1:
        middle = (passed + failed) // 2
        if fails(suspects[:middle]):
            failed = middle
        else:
            passed = middle
    suspect = suspects[failed - 1]
    for _ in range(1 if alone else _SURE):
        if not fails(suspects[:failed]) or fails(suspects[: failed - 1]):
            return None  # the fault is intermittent
    if not fails([suspect]):
        return None if alone else suspect
    others = peers(suspect)
    if others:
        return None if all(fails([other]) for other in others) else suspect
    return None if alone and len(suspects) > 1 else suspect

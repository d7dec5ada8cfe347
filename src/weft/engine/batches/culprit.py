"""Which query makes a batch fail: found by halves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

Each = TypeVar("Each")
_SURE = 3
"""Times that the one who was found has to make the difference."""


def find_culprit(
    suspects: Sequence[Each],
    fails: Callable[[Sequence[Each]], bool],
    *,
    peers: Callable[[Each], Sequence[Each]],
    alone: bool = False,
) -> Each | None:
    """The last of the shortest row of suspects, from the first on, for which `fails` is true; None if nobody is to
    blame.

    So those that fail only together are found as well: the last of them is to blame, unless it has to fail `alone`.
    With several culprits one is found, and the next one when this is asked again. It takes about the logarithm of their
    number of trials, and a few more to be sure: a fault that comes and goes blames nobody, and neither does one that
    all the `peers` of the one who is found have by themselves as well.
    """
    if not suspects or fails(()) or not fails(suspects):
        return None  # it fails without any of them, or it has passed
    passed, failed = 0, len(suspects)
    while failed - passed > 1:
        middle = (passed + failed) // 2
        if fails(suspects[:middle]):
            failed = middle
        else:
            passed = middle
    found = suspects[failed - 1]
    for _ in range(1 if alone else _SURE):
        if not fails(suspects[:failed]) or fails(suspects[: failed - 1]):
            return None  # it does not fail always
    if not fails([found]):
        return None if alone else found
    others = peers(found)
    if others:
        return None if all(fails([other]) for other in others) else found
    return None if alone and len(suspects) > 1 else found

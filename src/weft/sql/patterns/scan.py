"""Whether finding all matches of a pattern may read far beyond each of them.

One search reads a text once. But a search that has a match in hand goes on while a better one is possible: `x.*y|x`
reads on to the end for a `y`, gives back one `x`, and the next search does it again. With many matches that is the
square of the text. What is found here is never wrong about a pattern it calls safe; it may be about others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from weft.sql.patterns.characters import CharacterSet


@dataclass(frozen=True, slots=True)
class Step:
    """One character of a set, repeated; a `high` of None is without end."""

    characters: CharacterSet
    low: int = 1
    high: int | None = 1
    lazy: bool = False

    @property
    def varies(self) -> bool:
        """Whether there is more than one number of repetitions."""
        return self.low != self.high


def stays_near(steps: Sequence[Step]) -> bool:
    """Whether a sequence of steps never reads far beyond its match, although some step has no end."""
    return _is_certain(steps) or _is_lazy(steps)


def _is_certain(steps: Sequence[Step]) -> bool:
    """Every character decides whether a repetition goes on: when what follows has begun, nothing better is left."""
    return not any(_meet(step.characters, each) for at, step in enumerate(steps) if step.varies
                   for each in _following(steps[at + 1 :]))  # fmt: skip


def _following(steps: Sequence[Step]) -> list[CharacterSet]:
    """What the next character may be after a step."""
    found = []
    for step in steps:
        found.append(step.characters)
        if step.low > 0:
            break
    return found


def _is_lazy(steps: Sequence[Step]) -> bool:
    """One lazy repetition between parts of bounded length: the first end that is found is the best."""
    endless = [at for at, step in enumerate(steps) if step.high is None]
    if len(endless) != 1 or not steps[endless[0]].lazy:
        return False
    return not any(step.varies for step in steps[: endless[0]])


def _meet(one: CharacterSet, other: CharacterSet) -> bool:
    return any(low <= last and first <= high for low, high in one.ranges for first, last in other.ranges)

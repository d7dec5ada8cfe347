"""Analysis whether finding all matches of a pattern may read far beyond each of them.

One search reads a text once, but it does not stop at a match while a better one is possible: `x.*y|x` reads to the end
of the text for a `y`, returns one `x`, and the next search reads to the end again. With many matches the time is
quadratic in the text. The analysis is conservative: a pattern that it calls safe is safe, other patterns may be too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from weft.sql.patterns.characters import CharacterSet


@dataclass(frozen=True, slots=True)
class RepeatedSet:
    """A character of a set, repeated `low` to `high` times; a `high` of None is unbounded."""

    characters: CharacterSet
    low: int = 1
    high: int | None = 1
    lazy: bool = False

    @property
    def varies(self) -> bool:
        """Whether the number of repetitions is not fixed."""
        return self.low != self.high


def stays_near(steps: Sequence[RepeatedSet]) -> bool:
    """Return whether a sequence of steps with an unbounded step never reads far beyond its match."""
    return _is_certain(steps) or _is_lazy(steps)


def _is_certain(steps: Sequence[RepeatedSet]) -> bool:
    """Return whether the next character always decides if a repetition continues: then no better match can follow."""
    return not any(_meet(step.characters, following) for i, step in enumerate(steps) if step.varies
                   for following in _following(steps[i + 1 :]))  # fmt: skip


def _following(steps: Sequence[RepeatedSet]) -> list[CharacterSet]:
    """Return the sets that can match the next character, given the remaining steps."""
    sets = []
    for step in steps:
        sets.append(step.characters)
        if step.low > 0:
            break
    return sets


def _is_lazy(steps: Sequence[RepeatedSet]) -> bool:
    """Return whether the only unbounded step is lazy and follows fixed steps: then the first match is the best."""
    unbounded = [i for i, step in enumerate(steps) if step.high is None]
    if len(unbounded) != 1 or not steps[unbounded[0]].lazy:
        return False
    return not any(step.varies for step in steps[: unbounded[0]])


def _meet(left: CharacterSet, right: CharacterSet) -> bool:
    return any(low <= last and first <= high for low, high in left.ranges for first, last in right.ranges)

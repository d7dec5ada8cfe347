"""Joins as a whole: windows that fit together, distances in time, and no relation left without a connection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from weft.errors import CrossProduct, InvalidWindow, MissingWindow
from weft.plan.window import EVERYTHING, Session, Sliding, TimeBounds, Unbounded, Window, pair_bounds, window_text
from weft.sql.names.condition import Conditions
from weft.sql.names.connection import common_key, components, is_impossible
from weft.sql.names.scope import Source

# What nothing satisfies.
NOTHING = TimeBounds(1, 0)
_NEVER = "contradict each other: the query will never give a row"


@dataclass(frozen=True, slots=True)
class JoinTimes:
    """Admissible distances of event times: `bounds` if two relations are joined, `pairs` if more are."""

    bounds: TimeBounds = EVERYTHING
    pairs: tuple[tuple[int, int, TimeBounds], ...] = ()
    notices: tuple[str, ...] = ()


def check_join(sources: Sequence[Source], found: Conditions) -> JoinTimes:
    """The distances a join admits; every relation must be limited in time and connected with the others."""
    windows = [source.window if source.window is not None else Unbounded() for source in sources]
    limits = {
        (first, second): pair_bounds(windows[first], windows[second]).intersect(
            found.bounds.get((first, second), EVERYTHING)
        )
        for first, second in combinations(range(len(sources)), 2)
    }
    closed = limits if len(sources) == 2 else close_bounds(limits, len(sources))
    _check_limits(sources, closed)
    _check_equal_windows(sources)
    _check_connected(sources, found)
    _check_sessions(sources, found)
    notices = tuple(f"the time conditions {_NEVER}" for bounds in closed.values() if _is_empty(bounds))
    if found.others or len(sources) > 2:
        predicates = [found.predicate(source.index) for source in sources]
        if is_impossible(found.keys, found.others, predicates):
            notices += (f"the conditions {_NEVER}",)
    if len(sources) == 2:
        return JoinTimes(bounds=closed[0, 1], notices=notices)
    return JoinTimes(pairs=tuple((*pair, bounds) for pair, bounds in closed.items()), notices=notices)


def close_bounds(limits: Mapping[tuple[int, int], TimeBounds], count: int) -> dict[tuple[int, int], TimeBounds]:
    """Each pair's bounds of ti − tj as tight as all together make them: shortest paths; all empty if one is."""
    # most[i, j] is the largest ti − tj.
    most: dict[tuple[int, int], int | None] = {(each, each): 0 for each in range(count)}
    for (first, second), bounds in limits.items():
        most[first, second] = bounds.high
        most[second, first] = None if bounds.low is None else -bounds.low
    for middle in range(count):
        for first in range(count):
            for second in range(count):
                one, two, whole = most[first, middle], most[middle, second], most[first, second]
                if one is not None and two is not None and (whole is None or one + two < whole):
                    most[first, second] = one + two
    # A way around that ends before it began: then distances would shrink for ever.
    if any((around := most[each, each]) is not None and around < 0 for each in range(count)):
        return dict.fromkeys(limits, NOTHING)
    return {
        (first, second): TimeBounds(None if (low := most[second, first]) is None else -low, most[first, second])
        for first, second in limits
    }


def _is_empty(bounds: TimeBounds) -> bool:
    return bounds.low is not None and bounds.high is not None and bounds.low > bounds.high


def _check_limits(sources: Sequence[Source], limits: Mapping[tuple[int, int], TimeBounds]) -> None:
    """A relation without a window needs a limit on how much later each other relation's rows can be."""
    for source in sources:
        if source.window is not None:
            continue
        for other in sources:
            first, second = sorted((source.index, other.index))
            if first == second:
                continue
            end = limits[first, second].low if source.index == first else limits[first, second].high
            if end is None:
                raise MissingWindow(
                    f'relation "{source.alias}" has no window',
                    detail="Without one, its rows would have to be kept for ever.",
                    hint=f"Write {source.stream.name} [RANGE 10 SECONDS] AS {source.alias}, or limit its age: "
                    f"{other.alias}.{other.stream.time} <= {source.alias}.{source.stream.time} + INTERVAL 10 SECONDS.",
                )


def _check_equal_windows(sources: Sequence[Source]) -> None:
    first = sources[0]
    if not any(isinstance(source.window, Sliding | Session) for source in sources):
        return
    other = next((source for source in sources if source.window != first.window), None)
    if other is None:
        return
    raise InvalidWindow(
        f'relations "{first.alias}" and "{other.alias}" have windows that do not fit together',
        detail=f'"{first.alias}" has {_text(first.window)}, "{other.alias}" has {_text(other.window)}.',
        hint="A sliding, tumbling or session window must be the same on "
        f"{'both' if len(sources) == 2 else 'all'} relations.",
    )


def _text(window: Window | None) -> str:
    return "no window" if window is None else window_text(window)


def _check_connected(sources: Sequence[Source], found: Conditions) -> None:
    links = [(key.left_relation, key.right_relation) for key in found.keys]
    groups = components(len(sources), [*links, *(condition.relations for condition in found.others)])
    if len(groups) == 1:
        return
    # The relation that stands alone is the mistake; of several, the one written last.
    apart = min(reversed(groups), key=len)
    other = next(source for source in sources if source.index not in apart)
    one = sources[apart[0]]
    names = " and ".join(f'"{sources[index].alias}"' for index in apart)
    what = f"{names} with the other relations" if len(sources) > 2 else f'"{other.alias}" and "{one.alias}"'
    raise CrossProduct(f"no condition joins {what}", hint=f"Add one: ON {other.alias}.key = {one.alias}.key.")


def _check_sessions(sources: Sequence[Source], found: Conditions) -> None:
    """Sessions are of the rows with one join key, so there must be one, and it must be a key of every relation."""
    if not isinstance(sources[0].window, Session):
        return
    pair = len(sources) == 2 and not found.others  # its keys are of both anyway
    if not found.keys or (not pair and common_key(found.keys, len(sources)) is None):
        names = ", ".join(f'"{source.alias}"' for source in sources)
        raise InvalidWindow(
            f"relations {names} have session windows but no join key in common",
            detail="A session is of the rows of one join key.",
            hint="Join all relations on the same columns, or use [RANGE …] windows.",
        )

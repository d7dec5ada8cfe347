"""Checks of a join as a whole: its windows, its bounds on event times, and the connections of its relations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from weft.errors import CrossProduct, InvalidWindow, MissingWindow
from weft.plan.window import EVERYTHING, Session, Sliding, TimeBounds, Unbounded, Window, pair_bounds, window_text
from weft.sql.names.condition import Conditions
from weft.sql.names.connection import common_key, is_impossible, linked_groups
from weft.sql.names.scope import Source

# Bounds that no distance satisfies.
NOTHING = TimeBounds(1, 0)
_NEVER = "contradict each other: the query will never give a row"


@dataclass(frozen=True, slots=True)
class JoinTimes:
    """Bounds on the distances of event times: `bounds` for a join of two relations, `pairs` for more."""

    bounds: TimeBounds = EVERYTHING
    pairs: tuple[tuple[int, int, TimeBounds], ...] = ()
    notices: tuple[str, ...] = ()


def check_join(sources: Sequence[Source], found: Conditions) -> JoinTimes:
    """Return the time bounds of a join; refuse a relation that is unlimited in time or not connected with others."""
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
    """Return the tightest bounds on ti − tj that `limits` imply (shortest paths); all are empty if one is."""
    # largest[i, j] is the largest possible ti − tj; None if it is unlimited.
    largest: dict[tuple[int, int], int | None] = {(relation, relation): 0 for relation in range(count)}
    for (first, second), bounds in limits.items():
        largest[first, second] = bounds.high
        largest[second, first] = None if bounds.low is None else -bounds.low
    for middle in range(count):
        for first in range(count):
            for second in range(count):
                left, right, direct = largest[first, middle], largest[middle, second], largest[first, second]
                if left is not None and right is not None and (direct is None or left + right < direct):
                    largest[first, second] = left + right
    # A negative cycle: no event times satisfy all limits.
    if any((cycle := largest[relation, relation]) is not None and cycle < 0 for relation in range(count)):
        return dict.fromkeys(limits, NOTHING)
    return {
        (first, second): TimeBounds(None if (low := largest[second, first]) is None else -low, largest[first, second])
        for first, second in limits
    }


def _is_empty(bounds: TimeBounds) -> bool:
    return bounds.low is not None and bounds.high is not None and bounds.low > bounds.high


def _check_limits(sources: Sequence[Source], limits: Mapping[tuple[int, int], TimeBounds]) -> None:
    """Refuse a relation without a window if rows of another relation can be later by any length of time."""
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


def _check_connected(sources: Sequence[Source], conditions: Conditions) -> None:
    links = [(key.left_relation, key.right_relation) for key in conditions.keys]
    groups = linked_groups(len(sources), [*links, *(condition.relations for condition in conditions.others)])
    if len(groups) == 1:
        return
    # Report the smallest group, which is most likely the mistake; of several, the last one of the query.
    apart = min(reversed(groups), key=len)
    other = next(source for source in sources if source.index not in apart)
    separate = sources[apart[0]]
    names = " and ".join(f'"{sources[index].alias}"' for index in apart)
    relations = f"{names} with the other relations" if len(sources) > 2 else f'"{other.alias}" and "{separate.alias}"'
    raise CrossProduct(f"no condition joins {relations}", hint=f"Add one: ON {other.alias}.key = {separate.alias}.key.")


def _check_sessions(sources: Sequence[Source], conditions: Conditions) -> None:
    """Refuse session windows without a join key that all relations share: a session has the rows of one join key."""
    if not isinstance(sources[0].window, Session):
        return
    is_pair = len(sources) == 2 and not conditions.others  # every key of a pair is a key of both
    if not conditions.keys or (not is_pair and common_key(conditions.keys, len(sources)) is None):
        names = ", ".join(f'"{source.alias}"' for source in sources)
        raise InvalidWindow(
            f"relations {names} have session windows but no join key in common",
            detail="A session is of the rows of one join key.",
            hint="Join all relations on the same columns, or use [RANGE …] windows.",
        )

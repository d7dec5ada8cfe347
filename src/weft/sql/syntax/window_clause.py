"""Parse the window clause of a relation, such as `[RANGE 8 SECONDS SLIDE 4 SECONDS]`."""

from __future__ import annotations

import re
from datetime import timedelta

from weft.errors import InvalidWindow, QuerySyntaxError
from weft.plan.window import Range, Session, Sliding, Unbounded, Window
from weft.sql.syntax.duration import LONGEST, read_micros

# The most windows that a row may be in: it gives one result per window, and a query with more is a mistake.
MOST_WINDOWS_PER_TUPLE = 10_000

_CLAUSE = re.compile(r"\s*(RANGE|TUMBLE|SESSION)\s+(.+?)(?:\s+(SLIDE|MAX)\s+(.+?))?\s*", re.IGNORECASE | re.DOTALL)
_SECOND = {"RANGE": "SLIDE", "SESSION": "MAX"}
"""The keyword before the second duration."""
_QUOTED = re.compile(r"""(?:INTERVAL\s*)?(?:'([^']*)'|"([^"]*)"|(.+))""", re.IGNORECASE | re.DOTALL)
_HINT = (
    "Windows are [RANGE 8 SECONDS SLIDE 4 SECONDS], [TUMBLE 5 SECONDS], [RANGE 10 SECONDS], [SESSION 5 SECONDS], "
    "[SESSION 5 MINUTES MAX 1 HOUR] and [UNBOUNDED]; units go from MICROSECONDS to DAYS."
)


def parse_window(text: str, *, relation: str, position: str) -> Window:
    """Return the window that `text` (without brackets) declares on `relation`; `position` is for error messages."""
    if text.strip().upper() == "UNBOUNDED":
        return Unbounded()
    match = _CLAUSE.fullmatch(text)
    kind = match[1].upper() if match else ""
    if match is None or (match[3] is not None and match[3].upper() != _SECOND.get(kind)):
        raise QuerySyntaxError(f'malformed window of relation "{relation}" at {position}', hint=_HINT)
    size = read_size(match[2], relation=relation, position=position)
    second = read_size(match[4], relation=relation, position=position) if match[4] is not None else None
    if kind == "SESSION":
        return session(size, second, relation=relation)
    if kind == "TUMBLE":
        second = size
    return Range(size) if second is None else sliding(size, second, relation=relation)


def session(gap: timedelta, longest: timedelta | None, *, relation: str) -> Session:
    """Return the session window of a relation; refuse a longest session that is shorter than the gap."""
    if longest is not None and longest < gap:
        raise InvalidWindow(
            f'the sessions of relation "{relation}" cannot be shorter than their gap',
            hint="Give MAX a longer duration than the gap, or leave it out.",
        )
    return Session(gap, longest)


def sliding(size: timedelta, slide: timedelta, *, relation: str) -> Sliding:
    """Return the sliding window of a relation; refuse one that puts a row into too many windows."""
    if size > slide * MOST_WINDOWS_PER_TUPLE:
        raise InvalidWindow(
            f'window of relation "{relation}" puts every row into more than {MOST_WINDOWS_PER_TUPLE} windows',
            hint="Use a longer SLIDE, or [RANGE …] without SLIDE for a continuous window.",
        )
    return Sliding(size, slide)


def read_size(text: str, *, relation: str, position: str) -> timedelta:
    """Return the duration that a window writes as `8 SECONDS`, `'8 seconds'` or `INTERVAL 8 SECONDS`."""
    quoted = _QUOTED.fullmatch(text.strip())
    body = next((group for group in quoted.groups() if group is not None), "") if quoted else ""
    micros = read_micros(body)
    return checked_size(micros, text, relation=relation, position=position)


def checked_size(micros: int | None, text: str, *, relation: str, position: str) -> timedelta:
    """Return `micros` as a duration; refuse None (`text` is not a duration), and durations out of range."""
    if micros is None:
        raise QuerySyntaxError(
            f'"{text.strip()[:60]}" is not a duration in the window of relation "{relation}" at {position}', hint=_HINT
        )
    if micros <= 0:
        raise InvalidWindow(f'window of relation "{relation}" must be longer than zero', detail=f"At {position}.")
    if micros > LONGEST / timedelta(microseconds=1):
        raise InvalidWindow(
            f'window of relation "{relation}" is too long',
            detail=f"At {position}.",
            hint=f"The longest is {LONGEST.days} days; for full history write [UNBOUNDED].",
        )
    return timedelta(microseconds=micros)

"""Regular expressions over arrays of text, with Java's results and in linear time (`sql/patterns/pattern.py`).

Finding all matches of some patterns reads far beyond each of them; for those, matches in a long text are limited, and
so is the time. Patterns have been checked when their query was created; those that are not taken there never come here.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weft.kernels.expression.values import Datum, RowError
from weft.sql.patterns.pattern import read_pattern, replacement

_LINE_ENDS = r"(?:\r\n|[\n\r\x{85}\x{2028}\x{2029}])\z"
_WHOLE = "weft"
MOST_MATCHES = 1000
"""How many matches a pattern that reads beyond them may have in a text of any length."""
_MOST_STEPS = 50_000_000
"""In a short text it may have more: so many that all of them together read this many characters."""


def matches(value: Datum, pattern: str) -> Datum:
    """Whether the pattern is found in the text."""
    found = read_pattern(pattern)
    result = _search(value, found.text)
    if not found.ends:
        return result
    # `$` matches at the end and before a line end that ends the text: the latter is the end of the text without it.
    shorter = pc.replace_substring_regex(value, pattern=_LINE_ENDS, replacement="")
    return pc.or_(result, _search(shorter, found.text))


def extract(value: Datum, pattern: str, group: int) -> Datum:
    """What a group of the first match holds; empty if there is no match."""
    found = read_pattern(pattern)
    name = f"g{group}" if group else _WHOLE
    groups = _extracted(value, rf"(?P<{_WHOLE}>{found.text})")
    return pc.if_else(pc.is_null(groups), _empty_where_valid(value), pc.struct_field(groups, _field(groups, name)))


def first_match(value: Datum, pattern: str) -> Datum:
    """The first match, NULL if there is none or if it is empty."""
    found = extract(value, pattern, 0)
    return pc.if_else(pc.equal(found, ""), pa.scalar(None, found.type), found)


def position(value: Datum, pattern: str) -> Datum:
    """Where the first match begins, in characters from one; zero if there is none."""
    before = _extracted(value, rf"\A(?P<{_WHOLE}>(?s:.*?))(?:{read_pattern(pattern).text})")
    place = pc.add(pc.utf8_length(pc.struct_field(before, _field(before, _WHOLE))), pa.scalar(1, pa.int32()))
    zero = pc.if_else(pc.is_valid(value), pa.scalar(0, pa.int32()), pa.scalar(None, pa.int32()))
    return pc.coalesce(place, zero)


def replace(value: Datum, pattern: str, by: str) -> Datum:
    """The text with all matches replaced."""
    found = read_pattern(pattern)
    _check_matches(value, pattern)
    return _run(pc.replace_substring_regex, value, pattern=found.text, replacement=replacement(by, found.groups))


def count(value: Datum, pattern: str) -> Datum:
    """How many matches there are."""
    _check_matches(value, pattern)
    return _run(pc.count_substring_regex, value, pattern=read_pattern(pattern).text).cast(pa.int32())


def split(value: Datum, pattern: str, limit: int) -> Datum:
    """The parts between the matches, at most `limit` of them if that is positive."""
    most = limit - 1 if limit > 0 else -1
    if most == 0:
        return pa.ListArray.from_arrays(np.arange(len(value) + 1, dtype=np.int32), value, mask=value.is_null())
    if limit <= 0 or limit > MOST_MATCHES:
        _check_matches(value, pattern)
    return _run(pc.split_pattern_regex, value, pattern=read_pattern(pattern).text, max_splits=most)


def _check_matches(value: Datum, pattern: str) -> None:
    """Refuses texts in which all matches cannot be found in time linear in the text."""
    found = read_pattern(pattern)
    if not found.scans:
        return
    sizes = pc.fill_null(pc.binary_length(value), 0).to_numpy(zero_copy_only=False)
    for row in np.flatnonzero(sizes.astype(np.int64) ** 2 > _MOST_STEPS):
        most = max(MOST_MATCHES, _MOST_STEPS // int(sizes[row]))
        parts = _run(pc.split_pattern_regex, value.slice(int(row), 1), pattern=found.text, max_splits=most + 1)
        if len(parts[0]) > most + 1:
            raise RowError(
                f"the pattern '{pattern[:60]}' has more than {most} matches in a text of {int(sizes[row])} bytes, and "
                "may read the rest of it for each: write what it repeats so that it ends where the match does"
            )


def _search(value: Datum, pattern: str) -> Datum:
    return _run(pc.match_substring_regex, value, pattern=pattern)


def _extracted(value: Datum, pattern: str) -> Datum:
    return _run(pc.extract_regex, value, pattern=pattern)


def _field(groups: Datum, name: str) -> int:
    return int(groups.type.get_field_index(name))


def _empty_where_valid(value: Datum) -> Datum:
    return pc.if_else(pc.is_valid(value), pa.scalar("", value.type), pa.scalar(None, value.type))


def _run(function, value: Datum, **options: object) -> Datum:  # type: ignore[no-untyped-def]
    try:
        return function(value, **options)
    except pa.ArrowInvalid as error:
        raise RowError("the pattern is too large") from error

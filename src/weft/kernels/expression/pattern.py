"""Regular expressions over arrays of text, with Java's results and in linear time (`sql/patterns/pattern.py`).

Finding all matches of some patterns reads far beyond each match. For these patterns, the number of matches in a long
text is limited, which bounds the time. Unsupported patterns are rejected when their query is created.
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
"""The number of matches that a pattern that reads beyond its matches may have in a text of any length."""
_MOST_STEPS = 50_000_000
"""Such a pattern may have more matches in a short text, if together they read at most this many characters."""


def matches(value: Datum, pattern: str) -> Datum:
    """Return whether the pattern matches somewhere in the text."""
    parsed = read_pattern(pattern)
    result = _search(value, parsed.text)
    if not parsed.ends:
        return result
    # `$` also matches before a line end at the end of the text: search the text without this line end, too.
    shorter = pc.replace_substring_regex(value, pattern=_LINE_ENDS, replacement="")
    return pc.or_(result, _search(shorter, parsed.text))


def extract(value: Datum, pattern: str, group: int) -> Datum:
    """Return the text of a group in the first match, or an empty text if nothing matches."""
    parsed = read_pattern(pattern)
    name = f"g{group}" if group else _WHOLE
    groups = _extracted(value, rf"(?P<{_WHOLE}>{parsed.text})")
    return pc.if_else(pc.is_null(groups), _empty_where_valid(value), pc.struct_field(groups, _field(groups, name)))


def first_match(value: Datum, pattern: str) -> Datum:
    """Return the first match, or NULL if it is empty or nothing matches."""
    first = extract(value, pattern, 0)
    return pc.if_else(pc.equal(first, ""), pa.scalar(None, first.type), first)


def position(value: Datum, pattern: str) -> Datum:
    """Return where the first match begins, counted in characters from one, or zero if nothing matches."""
    before = _extracted(value, rf"\A(?P<{_WHOLE}>(?s:.*?))(?:{read_pattern(pattern).text})")
    start = pc.add(pc.utf8_length(pc.struct_field(before, _field(before, _WHOLE))), pa.scalar(1, pa.int32()))
    zero = pc.if_else(pc.is_valid(value), pa.scalar(0, pa.int32()), pa.scalar(None, pa.int32()))
    return pc.coalesce(start, zero)


def replace(value: Datum, pattern: str, by: str) -> Datum:
    """Replace all matches in the text by `by`."""
    parsed = read_pattern(pattern)
    _check_matches(value, pattern)
    return _run(pc.replace_substring_regex, value, pattern=parsed.text, replacement=replacement(by, parsed.groups))


def count(value: Datum, pattern: str) -> Datum:
    """Return the number of matches in the text."""
    _check_matches(value, pattern)
    return _run(pc.count_substring_regex, value, pattern=read_pattern(pattern).text).cast(pa.int32())


def split(value: Datum, pattern: str, limit: int) -> Datum:
    """Split the text at the matches, into at most `limit` pieces if `limit` is positive."""
    splits = limit - 1 if limit > 0 else -1
    if splits == 0:
        return pa.ListArray.from_arrays(np.arange(len(value) + 1, dtype=np.int32), value, mask=value.is_null())
    if limit <= 0 or limit > MOST_MATCHES:
        _check_matches(value, pattern)
    return _run(pc.split_pattern_regex, value, pattern=read_pattern(pattern).text, max_splits=splits)


def _check_matches(value: Datum, pattern: str) -> None:
    """Raise RowError if all matches in a text cannot be found in time linear in its length."""
    parsed = read_pattern(pattern)
    if not parsed.scans:
        return
    sizes = pc.fill_null(pc.binary_length(value), 0).to_numpy(zero_copy_only=False)
    for row in np.flatnonzero(sizes.astype(np.int64) ** 2 > _MOST_STEPS):
        limit = max(MOST_MATCHES, _MOST_STEPS // int(sizes[row]))
        pieces = _run(pc.split_pattern_regex, value.slice(int(row), 1), pattern=parsed.text, max_splits=limit + 1)
        if len(pieces[0]) > limit + 1:
            raise RowError(
                f"the pattern '{pattern[:60]}' has more than {limit} matches in a text of {int(sizes[row])} bytes, and "
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

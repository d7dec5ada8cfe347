"""String functions: LIKE, starts_with, ends_with, contains and length."""

from __future__ import annotations

from functools import lru_cache

import numba as nb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from weft.kernels.expression.values import Datum, RowError, to_array, with_nulls_of

_ANY, _ONE = "%", "_"


def like(value: Datum, pattern: str, escape: str) -> Datum:
    """Return whether the entire string matches: `_` is one character, `%` any number; `escape` makes them literal."""
    parts = split_pattern(pattern, escape)
    match parts:
        case ():
            return pc.equal(value, pa.scalar("", value.type))
        case ((text, False),):
            return pc.equal(value, pa.scalar(text, value.type))
        case (("%", True),):
            return pc.starts_with(value, pattern="")
        case ((text, False), ("%", True)):
            return pc.starts_with(value, pattern=text)
        case (("%", True), (text, False)):
            return pc.ends_with(value, pattern=text)
        case (("%", True), (text, False), ("%", True)):
            return pc.match_substring(value, pattern=text)
        case _:
            return _match_regex(value, parts)


@lru_cache(maxsize=4096)
def split_pattern(pattern: str, escape: str) -> tuple[tuple[str, bool], ...]:
    """Return literal texts (False) and wildcards (True) in order; raise RowError if `escape` escapes nothing."""
    parts: list[tuple[str, bool]] = []
    text = ""
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            following = next(characters, None)
            if following is None or following not in (_ANY, _ONE, escape):
                raise RowError(f"the pattern {pattern!r} has its escape character where nothing needs escaping")
            text += following
        elif character in (_ANY, _ONE):
            if text:
                parts.append((text, False))
                text = ""
            if not (character == _ANY and parts and parts[-1] == (_ANY, True)):
                parts.append((character, True))
        else:
            text += character
    if text:
        parts.append((text, False))
    return tuple(parts)


def find_text(name: str, value: Datum, part: Datum) -> Datum:
    """Evaluate starts_with, ends_with or contains; the result is NULL where either argument is NULL."""
    if isinstance(part, pa.Scalar) and part.is_valid:
        return _SIMPLE[name](value, pattern=part.as_py())
    if isinstance(value, pa.Scalar) and isinstance(part, pa.Scalar):
        return pa.scalar(None, pa.bool_())
    rows = len(part) if isinstance(value, pa.Scalar) else len(value)
    texts, parts = to_array(value, rows), to_array(part, rows)
    matches = np.zeros(rows, np.bool_)
    _find_rows(*_bytes_of(texts), *_bytes_of(parts), _PLACES[name], matches)
    return with_nulls_of(matches, pa.bool_(), texts, parts)


def length(value: Datum) -> Datum:
    """Return the number of characters of a string, or of bytes of a binary."""
    count = pc.utf8_length(value) if pt.is_string(value.type) else pc.binary_length(value)
    return count.cast(pa.int32())


_SIMPLE = {"starts_with": pc.starts_with, "ends_with": pc.ends_with, "contains": pc.match_substring}
_PLACES = {"starts_with": 0, "ends_with": 1, "contains": 2}
_REGEX_SPECIAL = frozenset("\\.+*?()|[]{}^$-/#&~")


def _match_regex(value: Datum, parts: tuple[tuple[str, bool], ...]) -> Datum:
    body = "".join((".*" if text == _ANY else ".") if wild else _quote(text) for text, wild in parts)
    try:
        return pc.match_substring_regex(value, pattern=rf"\A(?s:{body})\z")
    except pa.ArrowInvalid as error:
        raise RowError("the pattern is too large") from error


def _quote(text: str) -> str:
    return "".join(_quote_character(character) for character in text)


def _quote_character(character: str) -> str:
    if character == "\0":
        return r"\x00"
    return "\\" + character if character in _REGEX_SPECIAL else character


def _bytes_of(array: pa.Array) -> tuple[npt.NDArray[np.generic], npt.NDArray[np.generic]]:
    _, offsets, data = array.buffers()
    content = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
    if offsets is None:
        return np.zeros(len(array) + 1, np.int32), content
    return np.frombuffer(offsets, np.int32, count=len(array) + 1, offset=array.offset * 4), content


@nb.njit(cache=True, nogil=True)
def _find_rows(starts, data, part_starts, part_data, place, matches):  # type: ignore[no-untyped-def]
    """Set matches[i] if text i contains part i at its start (place 0), at its end (1) or anywhere (2)."""
    for i in range(len(matches)):
        text = data[starts[i] : starts[i + 1]]
        part = part_data[part_starts[i] : part_starts[i + 1]]
        if len(part) > len(text):
            continue
        if place == 0:
            matches[i] = _same(text, part, 0)
        elif place == 1:
            matches[i] = _same(text, part, len(text) - len(part))
        else:
            matches[i] = _within(text, part)


@nb.njit(cache=True, nogil=True)
def _same(text, part, start):  # type: ignore[no-untyped-def]
    for k in range(len(part)):  # noqa: SIM110
        if text[start + k] != part[k]:
            return False
    return True


@nb.njit(cache=True, nogil=True)
def _within(text, part):  # type: ignore[no-untyped-def]
    """Return whether `text` contains `part`, in linear time by the algorithm of Knuth, Morris and Pratt."""
    if len(part) == 0:
        return True
    fallback = np.zeros(len(part), np.int64)
    matched = 0
    for k in range(1, len(part)):
        while matched and part[k] != part[matched]:
            matched = fallback[matched - 1]
        matched += part[k] == part[matched]
        fallback[k] = matched
    matched = 0
    for k in range(len(text)):
        while matched and text[k] != part[matched]:
            matched = fallback[matched - 1]
        matched += text[k] == part[matched]
        if matched == len(part):
            return True
    return False

"""Arrow types of payload columns, including nested Spark types, which are parsed from their DDL."""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.types as pt

from weft.kernels.arrow_types import arrow_type
from weft.plan.types import DataType, Kind

_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_FIELD = re.compile(r"(?:`(?P<quoted>(?:[^`]|``)+)`|(?P<plain>[^:`]+)):(?P<type>.+)", re.DOTALL)
_TOKEN = re.compile(r"`(?:[^`]|``)*`|.", re.DOTALL)


def payload_type(type_: DataType) -> pa.DataType:
    """Return the Arrow type of any Spark type, nested or not; raise ValueError if Arrow has no counterpart."""
    return arrow_type(type_) if type_.kind is not Kind.OTHER else _parse(type_.text)


def _parse(text: str) -> pa.DataType:
    head, _, tail = text.partition("<")
    inner = tail.removesuffix(">")
    match head:
        case "array":
            return pa.list_(_parse(inner))
        case "map":
            key, value = _split(inner)
            return pa.map_(_parse(key), _parse(value))
        case "struct":
            return pa.struct([_field(part) for part in _split(inner)])
        case _:
            return arrow_type(_scalar(text))


def _scalar(text: str) -> DataType:
    if match := _DECIMAL.fullmatch(text):
        return DataType(Kind.DECIMAL, int(match[1]), int(match[2]))
    kind = next((kind for kind in Kind if kind == text), Kind.OTHER)
    if kind is Kind.OTHER:
        raise ValueError(f"type {text} has no counterpart in Arrow")
    return DataType(kind)


def _field(text: str) -> pa.Field:
    match = _FIELD.fullmatch(text)
    if match is None:
        raise ValueError(f"not a field of a struct: {text}")
    quoted = match["quoted"]
    return pa.field(match["plain"] if quoted is None else quoted.replace("``", "`"), _parse(match["type"]))


def _split(text: str) -> list[str]:
    """Split text at the commas that lie outside brackets and quotes."""
    parts, depth = [""], 0
    for token in _TOKEN.findall(text):
        depth += (token in "<(") - (token in ">)")
        if token == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += token
    return parts if text else []


_FAMILIES = (
    (pt.is_integer, pt.is_floating),
    (pt.is_integer, pt.is_decimal),
    (pt.is_timestamp, pt.is_date),
    (pt.is_string, pt.is_large_string, pt.is_string_view),
    (pt.is_binary, pt.is_large_binary, pt.is_fixed_size_binary, pt.is_binary_view),
    (pt.is_boolean,),
)
_LISTS = (pt.is_list, pt.is_large_list, pt.is_fixed_size_list)


def casts_safely(found: pa.DataType, target: pa.DataType) -> bool:
    """Return whether a safe cast from `found` to `target` either keeps every value or fails.

    Arrow checks integers, decimals and units of time, but silently rounds a double and truncates a timestamp to a date.
    """
    if pt.is_null(found) or found == target:
        return True
    if any(is_list(found) for is_list in _LISTS) and pt.is_list(target):
        return casts_safely(found.value_type, target.value_type)
    if pt.is_map(found) and pt.is_map(target):
        return casts_safely(found.key_type, target.key_type) and casts_safely(found.item_type, target.item_type)
    if pt.is_struct(found) and pt.is_struct(target):
        return all(
            casts_safely(field.type, target.field(field.name).type) for field in found if field.name in target.names
        )
    if (pt.is_floating(found) and pt.is_floating(target)) and found.bit_width > target.bit_width:
        return False
    if pt.is_timestamp(found) and pt.is_date(target):
        return False
    return any(any(kind(found) for kind in family) and any(kind(target) for kind in family) for family in _FAMILIES)

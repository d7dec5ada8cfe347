"""Rules on the arguments of functions: they bound time and result size, and make the value depend on the row alone.

The rules apply to calls that Spark evaluates. Where a rule requires a constant, it must be a literal.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

from sqlglot import exp

from weft.errors import InvalidStream, UnsupportedQuery
from weft.plan.types import Schema
from weft.sql.syntax.function_marks import MARK
from weft.sql.syntax.parse import strip
from weft.sql.syntax.schema import parse_schema

MOST_REPEATS = 10_000
"""The largest count of repeat, space, lpad and rpad."""
LONGEST_SEARCH = 1000
"""The longest text to search for: Spark compares it at every position."""
LONGEST_FORMAT = 100
MOST_DIGITS = 100
MOST_EDITS = 100
_CHARSETS = frozenset("utf-8 us-ascii iso-8859-1 utf-16 utf-16be utf-16le utf-32".split())
_URL_KEY = re.compile(r"[A-Za-z0-9_-]{1,100}")
_SPECIFIER = re.compile(r"%(?:[0-9]{1,2}\$)?[-#+ 0,(]*(?:[0-9]{1,3})?(?:\.[0-9]{1,2})?[bscdoxXeEfgGn%]")
_UNBOUNDED_TYPE = re.compile(r"\b(?:timestamp|time|decimal|interval|variant)\b")
_FIELD_NAME = re.compile(r"(?:`(?:[^`]|``)*`|\w+):")

Rule = Callable[[exp.Expr, list[exp.Expr]], None]


def function_name(node: exp.Expr) -> str:
    """Return the name, in lower case, of the function that a node calls; an empty text for other nodes."""
    if isinstance(node, exp.Anonymous):
        return node.name.removeprefix(MARK).lower()
    return _GRAMMAR.get(type(node), "")


_GRAMMAR: dict[type[exp.Expr], str] = {
    exp.Array: "array", exp.VarMap: "map", exp.Struct: "struct", exp.Substring: "substring", exp.Trim: "trim",
    exp.Overlay: "overlay", exp.StrPosition: "position", exp.Extract: "extract", exp.DPipe: "concat",
}  # fmt: skip


def arguments(node: exp.Expr) -> list[exp.Expr]:
    """Return the arguments of a call in the order of Spark's function, whatever the grammar of the call."""
    if isinstance(node, exp.StrPosition):
        return [node.args["substr"], node.this]
    if isinstance(node, exp.Anonymous | exp.Array | exp.Struct):
        return list(node.expressions)
    return [child for child in node.iter_expressions() if not isinstance(child, exp.Var)]


def text_of(node: exp.Expr | None) -> str | None:
    """Return the text of a string literal; None for other nodes."""
    inner = strip(node) if node is not None else None
    return inner.name if isinstance(inner, exp.Literal) and inner.is_string else None


def literal_number(node: exp.Expr | None) -> int | None:
    """Return the value of an integer literal; None for other nodes."""
    inner = strip(node) if node is not None else None
    sign = 1
    if isinstance(inner, exp.Neg):
        inner, sign = strip(inner.this), -1
    if isinstance(inner, exp.Literal) and not inner.is_string and re.fullmatch("[0-9]{1,18}", inner.name):
        return sign * int(inner.name)
    return None


def check_rules(node: exp.Expr) -> None:
    """Refuse a call whose arguments break a rule of its function."""
    rule = _RULES.get(function_name(node))
    if rule is not None:
        rule(node, arguments(node))


def refused(node: exp.Expr, why: str, hint: str) -> UnsupportedQuery:
    """Return the error for a call that breaks a rule."""
    return UnsupportedQuery(f"function {function_name(node)}() is not supported like this: {why}", hint=hint)


def _whole_number(place: int, low: int, high: int) -> Rule:
    def check(node: exp.Expr, args: list[exp.Expr]) -> None:
        value = literal_number(args[place]) if len(args) > place else low
        if value is None or not low <= value <= high:
            raise refused(
                node,
                f"argument {place + 1} must be a literal from {low} to {high}",
                "The size of its result must be known when the query is created.",
            )

    return check


def _literal_text(places: tuple[int, ...], longest: int, node: exp.Expr, args: list[exp.Expr]) -> None:
    for place in places:
        if len(args) > place:
            value = text_of(args[place])
            if value is None or len(value) > longest:
                raise refused(
                    node,
                    f"argument {place + 1} must be a string literal of at most {longest} characters",
                    "What it does with every row must be known when the query is created.",
                )


def _format_number(node: exp.Expr, args: list[exp.Expr]) -> None:
    if len(args) > 1 and text_of(args[1]) is not None:
        _literal_text((1,), LONGEST_FORMAT, node, args)
    else:
        _whole_number(1, 0, MOST_DIGITS)(node, args)


def _padding(node: exp.Expr, args: list[exp.Expr]) -> None:
    _whole_number(1, 0, MOST_REPEATS)(node, args)
    _literal_text((2,), LONGEST_SEARCH, node, args)


def _levenshtein(node: exp.Expr, args: list[exp.Expr]) -> None:
    limit = literal_number(args[2]) if len(args) == 3 else None
    if limit is None or not 0 <= limit <= MOST_EDITS:
        raise refused(
            node,
            f"a third argument, a literal up to {MOST_EDITS}, is missing",
            "Without a limit its time grows with the product of both lengths: levenshtein(a, b, 10).",
        )


def _parse_url(node: exp.Expr, args: list[exp.Expr]) -> None:
    _literal_text((1,), LONGEST_FORMAT, node, args)
    if len(args) > 2 and not _URL_KEY.fullmatch(text_of(args[2]) or ""):
        raise refused(node, "the key must be a literal of letters, digits, _ and -", "Spark takes it for a pattern.")


def _format_string(node: exp.Expr, args: list[exp.Expr]) -> None:
    _literal_text((0,), LONGEST_SEARCH, node, args)
    remainder = _SPECIFIER.sub("", text_of(args[0]) or "") if args else ""
    if "%" in remainder:
        raise refused(
            node, "the format has a specifier that is not supported, or a width above 999",
            "Use %s, %d, %f, %e, %x and the like.",
        )  # fmt: skip


def _from_json(node: exp.Expr, args: list[exp.Expr]) -> None:
    ddl = text_of(args[1]) if len(args) == 2 else None
    if ddl is None:
        raise refused(
            node, "a schema as string literal, and no options, must be the second argument",
            "Write from_json(body, 'id bigint, name string').",
        )  # fmt: skip
    try:
        schema = _json_schema(ddl)
    except InvalidStream as error:
        raise refused(node, f"the schema is not valid ({error.message})", error.hint) from error
    types = " ".join(_FIELD_NAME.sub("", field.type.ddl()) for field in schema)
    if match := _UNBOUNDED_TYPE.search(types):
        raise refused(
            node, f"a field of type {match[0]} in the schema is not taken",
            "Read it as string or double, and cast it: Spark completes times by the clock, and decimals without bound.",
        )  # fmt: skip


def _json_schema(ddl: str) -> Schema:
    """Return the schema of a text that is a single type or a list of fields."""
    try:
        return parse_schema(f"value {ddl}")
    except InvalidStream:
        return parse_schema(ddl)


def _one_argument(hint: str, node: exp.Expr, args: list[exp.Expr]) -> None:
    if len(args) != 1:
        raise refused(node, "it has more than one argument", hint)


def _charset(node: exp.Expr, args: list[exp.Expr]) -> None:
    if len(args) != 2 or (text_of(args[1]) or "").lower() not in _CHARSETS:
        raise refused(node, "the second and last argument must be a character set", "Write 'UTF-8'.")


def _texts(*places: int) -> Rule:
    return partial(_literal_text, places, LONGEST_SEARCH)


_FORMAT = partial(_literal_text, (1,), LONGEST_FORMAT)
_ROUNDING = _whole_number(1, -MOST_DIGITS, MOST_DIGITS)
_RULES: dict[str, Rule] = {
    **dict.fromkeys(("round", "bround", "ceil", "ceiling", "floor"), _ROUNDING),
    **dict.fromkeys(
        "date_format from_unixtime to_char to_date to_number to_timestamp to_timestamp_ltz to_timestamp_ntz "
        "to_unix_timestamp to_varchar try_to_date try_to_number try_to_timestamp unix_timestamp".split(),
        _FORMAT,
    ),
    "array_join": _texts(1, 2),
    "array_sort": partial(_one_argument, "A comparison of your own is not supported."),
    "concat_ws": _texts(0),
    "contains": _texts(1),
    "decode": _charset,
    "encode": _charset,
    "format_number": _format_number,
    "format_string": _format_string,
    "from_json": _from_json,
    "get_json_object": _texts(1),
    "instr": _texts(1),
    "levenshtein": _levenshtein,
    "locate": _texts(0),
    "lpad": _padding,
    "parse_url": _parse_url,
    "position": _texts(0),
    "printf": _format_string,
    "repeat": _whole_number(1, 0, MOST_REPEATS),
    "replace": _texts(1, 2),
    "rpad": _padding,
    "space": _whole_number(0, 0, MOST_REPEATS),
    "split_part": _texts(1),
    "substring_index": _texts(1),
    "to_binary": _FORMAT,
    "to_json": partial(_one_argument, "Options are not supported."),
    "translate": _texts(1, 2),
    "try_parse_url": _parse_url,
    "try_to_binary": _FORMAT,
}

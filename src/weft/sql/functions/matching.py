"""LIKE and regular expressions that Spark evaluates: checked, and replaced by weft's own functions.

Spark's matcher backtracks, in unbounded time. To Spark, weft's functions are Python functions, and Spark computes those
for all rows, even for rows that a condition around them excludes. The matched text must therefore be an expression that
cannot fail.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

from sqlglot import exp

from weft.errors import QuerySyntaxError, UnsupportedQuery
from weft.plan.expression import OWN_FUNCTIONS, backtracks
from weft.plan.types import STRING
from weft.sql.functions.argument_rules import function_name, literal_number, text_of
from weft.sql.patterns.characters import PatternError
from weft.sql.patterns.pattern import LONGEST_PATTERN, read_pattern, replacement
from weft.sql.syntax.parse import strip

IsText = Callable[[exp.Expr], bool]

_MOST_WILDCARDS = 100
_LONGEST_LIKE = 10_000
_REGEX = {
    "regexp": "rlike", "regexp_like": "rlike", "rlike": "rlike", "regexp_extract": "regexp_extract",
    "regexp_substr": "regexp_substr", "regexp_instr": "regexp_instr", "regexp_replace": "regexp_replace",
    "regexp_count": "regexp_count", "split": "split",
}  # fmt: skip
# After a match, these functions search the remaining text as if it were a text of its own.
_RESTARTING = ("regexp_count", "split")
_MOST_ARGUMENTS = {"regexp_extract": 3, "regexp_replace": 4, "split": 3}
# Text functions that never fail; those of the second list only if all arguments but the first are literals.
_TOTAL = frozenset(
    "base64 btrim char_length concat get_json_object hex initcap lcase length lower ltrim md5 reverse rtrim sha sha1 "
    "soundex trim ucase upper".split()
) | frozenset(OWN_FUNCTIONS.values())
_TOTAL_OF_ONE = frozenset(
    "concat_ws get left lpad repeat replace right rpad substr substring substring_index translate".split()
)
_CHOICES = frozenset("coalesce ifnull nvl nullif".split())


def is_matching(node: exp.Expr) -> bool:
    """Return whether a node matches a text with a pattern."""
    return isinstance(node, exp.Like | exp.ILike | exp.RegexpLike) or function_name(node) in _REGEX


def hardened_match(node: exp.Expr, is_text: IsText) -> exp.Expr:
    """Return a node for the same match in bounded time; raise `UnsupportedQuery` if that is not possible."""
    if isinstance(node, exp.Like | exp.ILike):
        return _like(node, is_text)
    if isinstance(node, exp.RegexpLike):
        return _regex("rlike", node, [node.this, node.expression], is_text)
    return _regex(function_name(node), node, list(node.expressions), is_text)


def check_like(pattern: str, escape: str) -> None:
    """Refuse a LIKE pattern that is malformed or too large."""
    i = wildcards = 0
    while i < len(pattern):
        wildcards += pattern[i] in "%_"
        if pattern[i] == escape:
            i += 1
            if i == len(pattern) or pattern[i] not in ("_", "%", escape):
                raise QuerySyntaxError(
                    f"the LIKE pattern '{pattern[:60]}' has an escape character before neither % nor _ nor itself",
                    hint="Double the escape character to match it.",
                )
        i += 1
    if wildcards > _MOST_WILDCARDS or len(pattern) > _LONGEST_LIKE:
        raise UnsupportedQuery(
            f"the LIKE pattern '{pattern[:60]}' is too large",
            hint=f"A pattern has at most {_MOST_WILDCARDS} wildcards and {_LONGEST_LIKE} characters.",
        )


def checked_regex(pattern: str, function: str) -> str | None:
    """Return the text of a pattern without operators, else None; refuse patterns that need more than linear time."""
    try:
        parsed = read_pattern(pattern)
        if parsed.ends and function != "rlike":
            raise PatternError(
                'it has a "$", which also matches before a line end', hint="Write \\\\z for the end of the text."
            )
        if parsed.begins and function in _RESTARTING:
            raise PatternError(
                'it has a "^", which matches only once', hint="Use regexp_extract() or regexp_replace()."
            )
        if parsed.empty and function in (*_RESTARTING, "regexp_replace") and (pattern or function != "split"):
            raise PatternError("it matches the empty text", hint="Write + instead of *.")
    except PatternError as error:
        raise unsupported_pattern(pattern, function, error) from error
    return parsed.plain


def unsupported_pattern(pattern: str, function: str, error: PatternError) -> UnsupportedQuery:
    """Return the error for a pattern that weft does not support."""
    name = "RLIKE" if function == "rlike" else f"{function}()"
    return UnsupportedQuery(
        f"the pattern '{pattern[:60]}' of {name} is not supported: {error.reason}",
        detail="Patterns are matched in linear time, so not all of Java's are possible (docs/reference/functions.md).",
        hint=error.hint or "Use LIKE, or a simpler pattern.",
    )


def _like(node: exp.Expr, is_text: IsText) -> exp.Expr:
    escape = text_of(node.parent.expression) if isinstance(node.parent, exp.Escape) else "\\"
    if escape is None or len(escape) != 1:
        raise UnsupportedQuery("the character after ESCAPE must be a literal", hint="Write ESCAPE '!'.")
    operand = strip(node.expression)
    if not isinstance(operand, exp.Any | exp.All):
        return _one_like(node, node.expression, escape, is_text)
    if isinstance(node.parent, exp.Escape):
        raise UnsupportedQuery("ESCAPE after LIKE ANY or LIKE ALL is not supported", hint="Write them with OR and AND.")
    listed = strip(operand.this)
    patterns = listed.expressions if isinstance(listed, exp.Tuple) else [listed]
    matches: list[exp.Expr] = [exp.Paren(this=_one_like(node.copy(), pattern, escape, is_text)) for pattern in patterns]
    kind = exp.Or if isinstance(operand, exp.Any) else exp.And
    return exp.Paren(this=reduce(lambda left, right: kind(this=left, expression=right), matches))


def _one_like(node: exp.Expr, pattern: exp.Expr, escape: str, is_text: IsText) -> exp.Expr:
    text = text_of(pattern)
    if text is None:
        raise _no_literal("LIKE")
    check_like(text, escape)
    literal = exp.Literal.string(text)
    if not backtracks(text, escape):
        node.set("expression", literal)
        return node
    subject = node.this
    _check_total(subject, "LIKE", is_text)
    values = [subject.copy(), literal]
    if isinstance(node, exp.ILike):
        values = [exp.Anonymous(this="lower", expressions=[value]) for value in values]
    match = exp.Anonymous(this=OWN_FUNCTIONS["like"], expressions=[*values, exp.Literal.string(escape)])
    return exp.Paren(this=exp.Not(this=match)) if node.args.get("negate") else match


def _regex(name: str, node: exp.Expr, args: list[exp.Expr], is_text: IsText) -> exp.Expr:
    function = _REGEX[name]
    pattern = text_of(args[1]) if len(args) > 1 else None
    if pattern is None or len(args) > _MOST_ARGUMENTS.get(function, 2):
        raise _no_literal(f"{name}()")
    literal_text = checked_regex(pattern, function)
    if function == "split" and literal_text is not None:
        return node  # a text without operators does not backtrack
    if function == "rlike" and literal_text is not None:
        return exp.Anonymous(this="contains", expressions=[args[0].copy(), exp.Literal.string(literal_text)])
    _check_total(args[0], f"{name}()", is_text)
    further = _further(function, pattern, args[2:])
    values = [args[0].copy(), exp.Literal.string(pattern), *further]
    return exp.Anonymous(this=OWN_FUNCTIONS[function], expressions=values)


def _further(function: str, pattern: str, args: list[exp.Expr]) -> list[exp.Expr]:
    """Return the arguments after the pattern, with defaults filled in."""
    parsed = read_pattern(pattern)
    match function:
        case "regexp_extract":
            group = literal_number(args[0]) if args else 1
            if group is None or not 0 <= group <= parsed.groups:
                raise UnsupportedQuery(
                    f"the pattern '{pattern[:60]}' of regexp_extract() has {parsed.groups} groups, not that one",
                    hint="The third argument must be the number of a group, 0 for the whole match; it is 1 by default.",
                )
            return [exp.Literal.number(group)]
        case "regexp_replace":
            text = text_of(args[0]) if args else None
            if text is None or (len(args) > 1 and literal_number(args[1]) != 1) or len(text) > LONGEST_PATTERN:
                raise UnsupportedQuery(
                    "the replacement of regexp_replace() must be a short string literal",
                    hint="Write regexp_replace(name, '[0-9]+', '#'); it starts at the first character.",
                )
            try:
                replacement(text, parsed.groups)
            except PatternError as error:
                raise unsupported_pattern(pattern, function, error) from error
            return [exp.Literal.string(text)]
        case "split":
            limit = literal_number(args[0]) if args else -1
            if limit is None or abs(limit) > 2**31 - 1:
                raise UnsupportedQuery("the limit of split() must be a literal", hint="Write split(name, '[,;]', 2).")
            return [exp.Literal.number(limit)]
        case _:
            return []


def _no_literal(name: str) -> UnsupportedQuery:
    return UnsupportedQuery(
        f"the pattern of {name} must be one string literal", hint="A pattern is checked when the query is created."
    )


def _check_total(node: exp.Expr, name: str, is_text: IsText) -> None:
    if node.find_ancestor(exp.Lambda):
        raise UnsupportedQuery(f"{name} inside a lambda is not supported", hint="Compare with =, or use contains().")
    if not _is_total(node, is_text):
        raise UnsupportedQuery(
            f"{name} is only supported on text that can be computed of every row",
            detail="It is matched before any condition around it is looked at.",
            hint="Match a column, or text functions of columns; get(tags, 0) instead of tags[0].",
        )


def _is_total(node: exp.Expr, is_text: IsText) -> bool:
    """Return whether an expression has a value in every row, without an error."""
    node = strip(node)
    match node:
        case exp.Column() | exp.Literal() | exp.Null() | exp.Boolean():
            return True
        case exp.Dot():
            return _is_total(node.this, is_text)
        case exp.Cast() | exp.TryCast():
            is_string = node.args["to"].sql(dialect="spark").upper() == "STRING"
            return is_string and _is_total(node.this, is_text)
        case exp.DPipe() | exp.And() | exp.Or() | exp.Not() | exp.Is() | exp.Like() | exp.ILike():
            return all(_is_total(part, is_text) for part in node.iter_expressions())
        case _:
            return _is_total_call(node, is_text)


def _is_total_call(node: exp.Expr, is_text: IsText) -> bool:
    name = function_name(node)
    parts = [part for part in node.iter_expressions() if not isinstance(part, exp.Var)]
    if name in _CHOICES:
        return all(is_text(part) and _is_total(part, is_text) for part in parts)
    if name in _TOTAL_OF_ONE and name != "concat_ws":
        return _is_total(parts[0], is_text) and all(
            text_of(part) is not None or literal_number(part) is not None for part in parts[1:]
        )
    return name in _TOTAL | {"concat_ws"} and all(_is_total(part, is_text) for part in parts)


def text_test(type_of: Callable[[exp.Expr], object]) -> IsText:
    """Return a function that tells whether a node is known to be text."""
    return lambda node: type_of(node) == STRING

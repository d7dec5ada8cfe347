"""Spark SQL of syntax nodes, generated from the tree; no part of the user's text is copied into it."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import ErrorLevel, exp
from sqlglot.errors import UnsupportedError

from weft.errors import QueryTooLarge, UnsupportedQuery
from weft.plan.expression import quote, quote_string
from weft.sql.functions.allowlist import COMPUTED
from weft.sql.syntax.function_marks import MARK
from weft.sql.syntax.parse import called, calls_in, strip

_LONGEST = 1_000_000


def spark_text(node: exp.Expr, name_of: Callable[[exp.Column], tuple[str, ...]]) -> str:
    """Return the node in Spark SQL; `name_of` gives each column's name and the struct fields taken from it."""
    holder = exp.Paren(this=node.copy())
    originals = node.find_all(exp.Column)
    for column, original in zip(list(holder.find_all(exp.Column)), list(originals), strict=True):
        first, *path = (exp.to_identifier(part, quoted=True) for part in name_of(original))
        column.replace(exp.Dot.build([first, *path]) if path else first)
    for identifier in holder.find_all(exp.Identifier):
        identifier.set("quoted", True)
    for literal in list(holder.find_all(exp.Literal)):
        if literal.is_string and not isinstance(literal.parent, exp.Interval):
            # `quote_string` quotes all strings that go to Spark; the generator writes a Var unchanged.
            literal.replace(exp.Var(this=quote_string(literal.name)))
    text = _generate(holder.this, quoted=True)
    if "${" in text:
        # Only a name can still contain "${": nothing can be escaped between backquotes.
        raise UnsupportedQuery(
            f'a name with "${{" in the expression "{short_text(node)}" is not supported',
            hint="Spark would take it for a variable; AS can give any name to a column of the result.",
        )
    if len(text) > _LONGEST:
        raise QueryTooLarge(
            f'the expression "{short_text(node)}" is longer than {_LONGEST} characters when spelled out'
        )
    return text


def default_name(node: exp.Expr) -> str:
    """Return the name of an output without alias: Spark's name in the simple cases."""
    node = strip(node)
    while isinstance(node, exp.Cast | exp.TryCast) and not isinstance(node.this, exp.Literal):
        node = strip(node.this)
    if isinstance(node, exp.Literal):
        return node.name
    holder = exp.Paren(this=node.copy())
    for call in list(calls_in(holder, COMPUTED)):
        _name_aggregate(call)
    for paren in list(holder.this.find_all(exp.Paren)):
        paren.replace(strip(paren))
    for column in list(holder.find_all(exp.Column)):
        column.replace(exp.to_identifier(column.name, quoted=False))
    _name_literals(holder)
    for binary in list(holder.this.find_all(exp.Binary, exp.In, exp.Not)):
        if not isinstance(binary, exp.Dot | exp.PropertyEQ | exp.Kwarg):
            paren = exp.Paren()
            binary.replace(paren)
            paren.set("this", binary)
    text = _generate(holder.this, quoted=False)
    return text.replace(" FILTER(WHERE ", " FILTER (WHERE ") if holder.find(exp.Filter) else text


def _name_literals(holder: exp.Expr) -> None:
    """Rewrite literals as in Spark's column names: text without quotes, and numbers without suffix."""
    for literal in list(holder.find_all(exp.Literal)):
        if isinstance(literal.parent, exp.TryCast) and not literal.is_string:
            literal.parent.replace(literal)  # 10L
        elif not isinstance(literal.parent, exp.Cast | exp.Interval):
            literal.set("is_string", False)


def _name_aggregate(call: exp.Expr) -> None:
    """Rewrite a call as in Spark's column names: in lower case, COUNT(*) as count(1), percentiles with accuracy."""
    name = called(call, COMPUTED)
    call.set("this", name)
    for array in list(call.find_all(exp.Array)):
        array.replace(exp.Anonymous(this="array", expressions=array.expressions))
    for star in list(call.find_all(exp.Star)):
        star.replace(exp.Literal.number(1))
    if name in ("percentile_approx", "approx_percentile") and len(call.expressions) == 2:
        call.append("expressions", exp.Literal.number(10000))


def short_text(node: exp.Expr) -> str:
    """Return the text of a node for an error message."""
    try:
        text = node.sql(dialect="spark", comments=False, normalize_functions=False)
    except (ValueError, RecursionError):
        return type(node).__name__
    text = text.replace(MARK, "")
    return text if len(text) <= 120 else text[:117] + "…"


def quoted_column(relation: int | None, name: str) -> str:
    """Return the backquoted name of a column in a combination."""
    return quote(combined_name(relation, name))


def combined_name(relation: int | None, name: str) -> str:
    """Return the name of a column in a combination: the relation's index, a dot and the column's name."""
    return name if relation is None else f"{relation}.{name}"


def _generate(node: exp.Expr, *, quoted: bool) -> str:
    for call in node.find_all(exp.Anonymous):
        call.set("this", call.name.removeprefix(MARK))
    try:
        return node.sql(
            dialect="spark",
            identify=quoted,
            comments=False,
            normalize_functions=False,
            unsupported_level=ErrorLevel.RAISE,
        )
    except (UnsupportedError, AttributeError, TypeError, ValueError) as error:
        raise UnsupportedQuery(f'the expression "{short_text(node)}" is not supported') from error

"""Spark SQL text of syntax nodes, written from the tree: nothing of the user's text is pasted."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import ErrorLevel, exp
from sqlglot.errors import UnsupportedError

from weft.errors import UnsupportedQuery
from weft.plan.expression import quote
from weft.sql.parse import strip
from weft.sql.scan import MARK


def spark_text(node: exp.Expr, name_of: Callable[[exp.Column], tuple[str, ...]]) -> str:
    """The node in Spark SQL; `name_of` gives each column's name and the struct fields taken from it."""
    holder = exp.Paren(this=node.copy())
    originals = node.find_all(exp.Column)
    for column, original in zip(list(holder.find_all(exp.Column)), list(originals), strict=True):
        first, *path = (exp.to_identifier(part, quoted=True) for part in name_of(original))
        column.replace(exp.Dot.build([first, *path]) if path else first)
    for identifier in holder.find_all(exp.Identifier):
        identifier.set("quoted", True)
    return _generate(holder.this, quoted=True)


def default_name(node: exp.Expr) -> str:
    """The name Spark gives an output without alias, as far as that is simple."""
    node = strip(node)
    while isinstance(node, exp.Cast | exp.TryCast) and not isinstance(node.this, exp.Literal):
        node = strip(node.this)
    if isinstance(node, exp.Literal):
        return node.name
    holder = exp.Paren(this=node.copy())
    for paren in list(holder.this.find_all(exp.Paren)):
        paren.replace(strip(paren))
    for column in list(holder.find_all(exp.Column)):
        column.replace(exp.to_identifier(column.name, quoted=False))
    for literal in list(holder.find_all(exp.Literal)):
        if isinstance(literal.parent, exp.TryCast) and not literal.is_string:
            literal.parent.replace(literal)  # 10L
        elif not isinstance(literal.parent, exp.Cast | exp.Interval):
            literal.set("is_string", False)
    for binary in list(holder.this.find_all(exp.Binary, exp.In, exp.Not)):
        if not isinstance(binary, exp.Dot | exp.PropertyEQ | exp.Kwarg):
            paren = exp.Paren()
            binary.replace(paren)
            paren.set("this", binary)
    return _generate(holder.this, quoted=False)


def short_text(node: exp.Expr) -> str:
    """The node for an error message."""
    try:
        text = node.sql(dialect="spark", comments=False, normalize_functions=False)
    except (ValueError, RecursionError):
        return type(node).__name__
    text = text.replace(MARK, "")
    return text if len(text) <= 120 else text[:117] + "…"


def quoted_column(relation: int | None, name: str) -> str:
    """A column of a matched combination, backquoted."""
    return quote(combined_name(relation, name))


def combined_name(relation: int | None, name: str) -> str:
    """The name a column has in a matched combination: its relation's index, a dot, its own name."""
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

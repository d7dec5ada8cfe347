"""Arguments of aggregate calls: over one relation, or a product of factors that are each over one relation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce

from sqlglot import exp

from weft.errors import UnsupportedQuery
from weft.plan.expression import Expression, Opaque
from weft.plan.types import DataType
from weft.sql.names.scope import Scope
from weft.sql.syntax.parse import strip
from weft.sql.syntax.spark_text import short_text
from weft.sql.types.bind_expression import bind_expression
from weft.sql.types.coercion import coerce_key
from weft.sql.types.decimal_type import bind_typed


@dataclass(frozen=True, slots=True)
class Argument:
    """The argument of a call: an expression per relation or None, the types of these expressions, and the text."""

    expressions: tuple[Expression | None, ...]
    types: tuple[DataType | None, ...]
    text: str


def bind_argument(node: exp.Expr, condition: exp.Expr | None, scope: Scope, *, products: bool) -> Argument:
    """Return the argument of a call; it is NULL where `condition` (of FILTER) is not true, so the row is ignored."""
    text = short_text(node)
    shares = _shares(node, scope, products=products)
    owner = _owner(shares, condition, scope)
    expressions: list[Expression | None] = [None] * len(scope.sources)
    for relation, share in shares.items():
        expressions[relation] = _bind(share, condition if relation == owner else None, relation, scope)
    types = tuple(expression.type for expression in expressions if expression is not None)
    return Argument(tuple(expressions), types, text)


def relations_in(node: exp.Expr, scope: Scope) -> set[int]:
    """Return the relations that an argument or the condition of FILTER reads."""
    relations = set()
    for column in node.find_all(exp.Column):
        relation = scope.resolve(column).relation
        if relation is None:
            raise UnsupportedQuery(
                f'"{column.name}" inside an aggregate function is not supported',
                hint="It is the same for all rows of a group: use it outside of the function.",
            )
        relations.add(relation)
    return relations


def _shares(node: exp.Expr, scope: Scope, *, products: bool) -> dict[int, exp.Expr]:
    """Return the share of the argument that each relation computes."""
    relations = relations_in(node, scope)
    if len(relations) <= 1:
        return {min(relations, default=0): node}
    if len(relations) > 2:
        raise _mixed(node, products=products)
    factors: dict[int, list[exp.Expr]] = {relation: [] for relation in sorted(relations)}
    for factor in _factors(node):
        owners = relations_in(factor, scope)
        if not products or len(owners) > 1:
            raise _mixed(node, products=products)
        factors[min(owners, default=min(relations))].append(factor)
    return {relation: reduce(_times, parts) for relation, parts in factors.items()}


def _factors(node: exp.Expr) -> list[exp.Expr]:
    """Return the operands of nested multiplications, left to right."""
    factors, stack = [], [node]
    while stack:
        part = strip(stack.pop())
        if isinstance(part, exp.Mul):
            stack += (part.expression, part.this)
        else:
            factors.append(part)
    return factors


def _times(first: exp.Expr, second: exp.Expr) -> exp.Expr:
    sides = (exp.Paren(this=side.copy()) if isinstance(side, exp.Binary) else side.copy() for side in (first, second))
    left, right = sides
    return exp.Mul(this=left, expression=right)


def _mixed(node: exp.Expr, *, products: bool) -> UnsupportedQuery:
    hint = "The argument must be over one relation"
    hint += ", or a product over two of factors that are each over one." if products else "."
    return UnsupportedQuery(f'the aggregate argument "{short_text(node)}" mixes relations', hint=hint)


def _owner(shares: dict[int, exp.Expr], condition: exp.Expr | None, scope: Scope) -> int | None:
    """Return the relation whose share gets the condition of FILTER; move a constant argument to that relation."""
    if condition is None:
        return None
    relations = relations_in(condition, scope) or {min(shares)}
    owner = min(relations)
    if len(relations) == 1 and owner not in shares and not relations_in(shares[min(shares)], scope):
        shares[owner] = shares.pop(min(shares))
    if len(relations) > 1 or owner not in shares:
        raise UnsupportedQuery(
            f"the condition of FILTER (WHERE {short_text(condition)}) and what it filters are over different relations",
            hint="Both must be over one relation, or move the condition to WHERE.",
        )
    return owner


def _bind(node: exp.Expr, condition: exp.Expr | None, relation: int, scope: Scope) -> Expression:
    argument = bind_typed(strip(node), relation, scope)
    if condition is None:
        return argument
    case = exp.Case(ifs=[exp.If(this=condition.copy(), true=node.copy())])
    bound = bind_expression(case, relation, scope)
    # CASE with one branch has the type of the branch. If a cast gives the branch its type, CASE needs that cast, too.
    if not isinstance(bound, Opaque) or argument.type is None:
        return bound
    return coerce_key(bound, argument.type) if isinstance(argument, Opaque) else replace(bound, type=argument.type)

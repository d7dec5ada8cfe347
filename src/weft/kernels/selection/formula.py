"""Predicates over several attributes as formulas of ranges, exact in three-valued logic.

A formula states for which attribute values a predicate is TRUE (or FALSE). NOT is therefore pushed down to the
comparisons, where it selects other ranges; above the comparisons only AND and OR of two-valued facts remain.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from weft.kernels.selection.ranges import Ranges, intersect, ranges_of, unite
from weft.plan.expression import Call, Expression


@dataclass(frozen=True, slots=True)
class Leaf:
    """The fact that an attribute (None for the event time) has a value in these ranges; `guards` as in `Attribute`."""

    attribute: Expression | None
    guards: tuple[Expression, ...]
    ranges: Ranges


@dataclass(frozen=True, slots=True)
class FormulaNode:
    """The AND of the parts if `both`, else the OR."""

    both: bool
    parts: tuple[Formula, ...]


Formula: TypeAlias = Leaf | FormulaNode


def formula_of(predicate: Expression, *, truth: bool = True) -> Formula:
    """Return the formula for the predicate being TRUE (or FALSE). Nothing in the predicate may raise."""
    if (single := ranges_of(predicate, truth)) is not None:
        return Leaf(single[0], (), single[1])
    match predicate:
        case Call(name="not", args=(arg,)):
            return formula_of(arg, truth=not truth)
        case Call(name="and" | "or" as name, args=args):
            return connect([formula_of(arg, truth=truth) for arg in args], both=(name == "and") == truth)
        case _:
            raise AssertionError("only AND, OR and NOT are no ranges of one attribute")


def connect(formulas: list[Formula], *, both: bool) -> Formula:
    """Return the AND or OR of formulas. Ranges of the same attribute are combined."""
    leaves: dict[tuple[Expression | None, tuple[Expression, ...]], Ranges] = {}
    nodes: dict[Formula, None] = {}
    combine = intersect if both else unite
    for formula in formulas:
        nested = isinstance(formula, FormulaNode) and formula.both == both
        for part in formula.parts if nested and isinstance(formula, FormulaNode) else (formula,):
            if isinstance(part, Leaf):
                place = (part.attribute, part.guards)
                leaves[place] = combine(leaves[place], part.ranges) if place in leaves else part.ranges
            else:
                nodes[part] = None
    parts = (*(Leaf(*place, ranges) for place, ranges in leaves.items()), *nodes)
    return parts[0] if len(parts) == 1 else FormulaNode(both, parts)

"""Predicates over several attributes as formulas of ranges, exact in three-valued logic.

A predicate is TRUE, or FALSE, for certain values of its attributes only, so NOT can be moved down to the comparisons,
where it becomes another range; above them there is only AND and OR of facts that are true or not, never NULL.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from weft.kernels.selection.ranges import Ranges, intersect, ranges_of, unite
from weft.plan.expression import Call, Expression


@dataclass(frozen=True, slots=True)
class Leaf:
    """An attribute has a value in these ranges. None is the event time; `guards` are as in `Attribute`."""

    attribute: Expression | None
    guards: tuple[Expression, ...]
    ranges: Ranges


@dataclass(frozen=True, slots=True)
class Node:
    """All of the parts hold, or (not `both`) at least one does."""

    both: bool
    parts: tuple[Formula, ...]


Formula: TypeAlias = Leaf | Node


def formula_of(predicate: Expression, *, truth: bool = True) -> Formula:
    """When the predicate is TRUE (or FALSE), as a formula; nothing in the predicate may raise."""
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
    """AND or OR of some formulas; ranges of the same attribute become one."""
    leaves: dict[tuple[Expression | None, tuple[Expression, ...]], Ranges] = {}
    nodes: dict[Formula, None] = {}
    combine = intersect if both else unite
    for formula in formulas:
        nested = isinstance(formula, Node) and formula.both == both
        for part in formula.parts if nested and isinstance(formula, Node) else (formula,):
            if isinstance(part, Leaf):
                place = (part.attribute, part.guards)
                leaves[place] = combine(leaves[place], part.ranges) if place in leaves else part.ranges
            else:
                nodes[part] = None
    parts = (*(Leaf(*place, ranges) for place, ranges in leaves.items()), *nodes)
    return parts[0] if len(parts) == 1 else Node(both, parts)

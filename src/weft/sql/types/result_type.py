"""Types of expressions, as far as they are known without asking Spark."""

from __future__ import annotations

from sqlglot import exp

from weft.plan.expression import OWN_FUNCTIONS
from weft.plan.types import BOOLEAN, INT, STRING, TIMESTAMP, DataType, Kind
from weft.sql.functions.allowlist import RESULT_TYPES
from weft.sql.syntax.function_marks import MARK
from weft.sql.syntax.literal import NeedsSpark
from weft.sql.syntax.parse import strip
from weft.sql.types.translate import Names, data_type, translate

_BOOLEAN_NODES = (exp.Predicate, exp.Connector, exp.Not, exp.Escape)
_TEXT_NODES = (exp.Substring, exp.Trim, exp.Concat, exp.Overlay, exp.Left, exp.Right, exp.Replace)
_OWN_TYPES = {
    OWN_FUNCTIONS[name]: type_
    for type_, names in (
        (BOOLEAN, "like rlike"),
        (STRING, "regexp_extract regexp_substr regexp_replace"),
        (INT, "regexp_instr regexp_count"),
    )
    for name in names.split()
}


def type_of(node: exp.Expr, names: Names) -> DataType | None:
    """Return the type of a node's value; None if only Spark knows it."""
    try:
        return translate(node, names).type
    except NeedsSpark:
        return opaque_type(node, names)


def opaque_type(node: exp.Expr, names: Names) -> DataType | None:
    """Return the type of a node that Spark evaluates, if the outermost operation alone determines it."""
    node = strip(node)
    match node:
        case exp.Cast() | exp.TryCast():
            target = data_type(node.args["to"])
            return None if target.kind is Kind.OTHER else target
        case exp.Anonymous():
            name = node.name.removeprefix(MARK).lower()
            return RESULT_TYPES.get(name) or _OWN_TYPES.get(name)
        case exp.Add() | exp.Sub() if isinstance(strip(node.expression), exp.Interval):
            return TIMESTAMP if opaque_type(node.this, names) == TIMESTAMP else None
        case exp.Column():
            try:
                return names(node).type
            except NeedsSpark:
                return None
        case _:
            pass
    if isinstance(node, _BOOLEAN_NODES):
        return BOOLEAN
    return STRING if isinstance(node, _TEXT_NODES) else None

"""The identity of an expression: the text that names stores, indexes, lanes and columns on disk.

The text resembles the Spark SQL of `to_sql`, but is independent of it: the SQL may change from one release to the
next, whereas identities are stored on disk and must never change. `tests/golden/test_ids.py` checks this.
"""

from __future__ import annotations

from datetime import date, datetime
from typing import assert_never

from weft.plan.expression import Call, Column, Expression, Literal, Opaque
from weft.plan.types import Kind

_INFIX = {
    "eq": "=", "ne": "<>", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq_null_safe": "<=>",
    "add": "+", "sub": "-", "mul": "*", "div": "/", "int_div": "div", "mod": "%",
    "and": "AND", "or": "OR",
}  # fmt: skip


def identity(expression: Expression) -> str:
    """Return the identity of an expression: equal expressions have equal texts, in every release."""
    match expression:
        case Column(name=name):
            return "`" + name.replace("`", "``") + "`"
        case Literal():
            return _literal(expression)
        case Opaque(sql=sql):
            return f"({sql})"
        case Call(name=name, args=args):
            return _call(expression, name, [identity(arg) for arg in args])
        case _:
            assert_never(expression)


def _call(call: Call, name: str, args: list[str]) -> str:
    if name in _INFIX:
        return "(" + f" {_INFIX[name]} ".join(args) + ")"
    if name == "cast":
        return f"CAST({args[0]} AS {call.type.ddl()})"
    return f"{name}({', '.join(args)})"


def _literal(literal: Literal) -> str:
    value, kind = literal.value, literal.type.kind
    if value is None:
        return f"CAST(NULL AS {literal.type.ddl()})"
    match kind:
        case Kind.BOOLEAN:
            return "TRUE" if value else "FALSE"
        case Kind.STRING:
            return _quoted(str(value))
        case Kind.DATE:
            assert isinstance(value, date)
            return f"DATE'{value.isoformat()}'"
        case Kind.TIMESTAMP | Kind.TIMESTAMP_NTZ:
            assert isinstance(value, datetime)
            clock = value.replace(tzinfo=None).isoformat(sep=" ", timespec="microseconds")
            return f"{kind.value.upper()}'{clock}'"
        case Kind.BINARY:
            assert isinstance(value, bytes)
            return f"X'{value.hex()}'"
        case _:
            return f"CAST({_quoted(str(value))} AS {literal.type.ddl()})"


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"

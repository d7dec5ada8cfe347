"""The predicate `value IN (…)`."""

from __future__ import annotations

from decimal import Decimal
from functools import reduce

from weft.errors import TypeMismatch
from weft.plan.expression import Call, Expression, Literal
from weft.plan.types import BOOLEAN, INTEGERS, DataType, Kind
from weft.sql.syntax.literal import NeedsSpark, cast_literal, fits_type, from_units, units
from weft.sql.types.coercion import bind_comparison, coerce, common_type, known_type

_EXACT = (*INTEGERS, Kind.DECIMAL)


def membership(value: Expression, items: list[Expression]) -> Expression:
    """Return `value IN (items)` in one type: over a list of distinct literals, or as an OR of comparisons."""
    if isinstance(value, Literal) or not items:
        raise NeedsSpark
    if not all(isinstance(item, Literal) for item in items):
        return _spelled_out(value, items)
    literals = [item for item in items if isinstance(item, Literal)]
    kinds = {item.type.kind for item in literals} - {Kind.NULL}
    # Spark converts text beside other types by rules that depend on the whole list.
    if Kind.STRING in kinds and len(kinds) > 1:
        raise NeedsSpark
    if known_type(value).kind in _EXACT and kinds <= {*_EXACT, Kind.STRING}:
        return _exact(value, literals)
    target = reduce(_common, (item.type for item in literals), known_type(value))
    if target.kind is Kind.OTHER:
        raise NeedsSpark
    members = [cast_literal(item, target) for item in literals]
    return Call("in", (coerce(value, target), *dict.fromkeys(members)), BOOLEAN)


def _spelled_out(value: Expression, items: list[Expression]) -> Expression:
    if any(known_type(item) != known_type(value) for item in items):
        raise NeedsSpark
    comparisons = tuple(bind_comparison("eq", value, item) for item in items)
    return comparisons[0] if len(comparisons) == 1 else Call("or", comparisons, BOOLEAN)


def _exact(value: Expression, literals: list[Literal]) -> Expression:
    """Return IN with members in the value's type; members that the type cannot hold match nothing and are dropped."""
    type_ = known_type(value)
    members: dict[Literal, None] = {}
    for item in literals:
        is_text = item.type.kind is Kind.STRING
        match (cast_literal(item, _common(type_, item.type)) if is_text else item).value:
            case None:
                members[Literal(None, type_)] = None
            case int() | Decimal() as member:
                if fits_type(member, type_):
                    members[Literal(from_units(units(member, type_), type_), type_)] = None
            case _:
                raise NeedsSpark
    if not members:
        return Call("ne", (value, value), BOOLEAN)
    return Call("in", (value, *members), BOOLEAN)


def _common(first: DataType, second: DataType) -> DataType:
    common = common_type(first, second)
    if common is None:
        raise TypeMismatch(f"IN compares types {first.ddl()} and {second.ddl()}")
    return common

"""Two multisets of rows side by side: exact values exactly, sums of doubles within rounding, sketches within bounds."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from datetime import date, datetime
from decimal import Decimal

from tests.support.harness_api import Row
from tests.support.spec import Call, OutputColumn, QuerySpec
from weft.plan.types import Kind

_SHOWN = 5
_CLASSES: dict[Kind, type] = {
    Kind.BIGINT: int,
    Kind.INT: int,
    Kind.STRING: str,
    Kind.DECIMAL: Decimal,
    Kind.DATE: date,
    Kind.TIMESTAMP: datetime,
    Kind.BOOLEAN: bool,
    Kind.DOUBLE: float,
}
_NUMBERS = int | float | Decimal

Near = Callable[[object, object], bool]


def compare_rows(query: QuerySpec, *, got: Sequence[Row], want: Sequence[Row]) -> str:
    """What differs between two multisets of rows, also in the values' classes; empty if nothing."""
    classes = [_CLASSES[query.type_of_output(output).kind] for output in query.outputs]
    if wrong := next((problem for row in got if (problem := _wrong_class(row, classes))), ""):
        return wrong
    has_doubles = float in classes
    left, right = (list(map(_canonical, rows)) if has_doubles else rows for rows in (got, want))
    near = {index: test for index, output in enumerate(query.outputs) if (test := _nearness(output)) is not None}
    missing, extra = _unmatched(left, right, near) if near else (Counter(map(tuple, right)), Counter(map(tuple, left)))
    missing, extra = missing - extra, extra - missing
    if not missing and not extra:
        return ""
    return (
        f"{len(got)} rows, must be {len(want)}: {missing.total()} missing, {extra.total()} too many"
        + _sample("missing", missing)
        + _sample("too many", extra)
    )


def _wrong_class(row: Row, classes: Sequence[type]) -> str:
    if len(row) != len(classes):
        return f"a row has {len(row)} values, must have {len(classes)}: {row}"
    for value, class_ in zip(row, classes, strict=True):
        if value is not None and type(value) is not class_:
            return f"a value that must be a {class_.__name__} is a {type(value).__name__}: {value!r} in {row}"
        if isinstance(value, datetime) and value.tzinfo is None:
            return f"a timestamp has no time zone: {value!r} in {row}"
    return ""


def _canonical(row: Row) -> Row:
    """NaN is not equal to itself in Python, but is in a multiset of rows."""
    return tuple("NaN" if isinstance(value, float) and math.isnan(value) else value for value in row)


def _nearness(output: OutputColumn) -> Near | None:
    """When two values of a column are the same although they differ; None if only when they are equal."""
    if not isinstance(output, Call):
        return None
    match output.function:
        case "approx_distinct":
            return _near_count
        case "avg" if output.type.kind is Kind.DECIMAL:
            return _near_decimal
        case "avg" | "stddev":
            return _near_double
        case "sum" if output.type.kind is Kind.DOUBLE:
            return _near_double
        case _:
            return None


def _near_double(got: object, want: object) -> bool:
    return _close(got, want, absolute=1e-9)


def _near_decimal(got: object, want: object) -> bool:
    """Six digits are kept."""
    return _close(got, want, absolute=1e-6)


def _close(got: object, want: object, *, absolute: float) -> bool:
    if not isinstance(got, _NUMBERS) or not isinstance(want, _NUMBERS):
        return got == want
    return math.isclose(float(got), float(want), rel_tol=1e-9, abs_tol=absolute)


def _near_count(got: object, want: object) -> bool:
    assert isinstance(got, int)
    assert isinstance(want, int)
    return abs(got - want) <= max(2, 0.1 * want)


def _unmatched(got: Sequence[Row], want: Sequence[Row], near: dict[int, Near]) -> tuple[Counter[Row], Counter[Row]]:
    """The rows wanted and the rows got that have no partner, among those whose exact values are equal."""
    offered: dict[Row, list[Row]] = defaultdict(list)
    for row in sorted(got, key=repr):
        offered[_exact(row, near)].append(row)
    missing: Counter[Row] = Counter()
    for row in sorted(want, key=repr):
        candidates = offered[_exact(row, near)]
        found = next((at for at, other in enumerate(candidates) if _all_near(other, row, near)), None)
        if found is None:
            missing[row] += 1
        else:
            del candidates[found]
    return missing, Counter(row for rows in offered.values() for row in rows)


def _exact(row: Row, near: dict[int, Near]) -> Row:
    return tuple(value for index, value in enumerate(row) if index not in near)


def _all_near(got: Row, want: Row, near: dict[int, Near]) -> bool:
    return all(test(got[index], want[index]) for index, test in near.items())


def _sample(title: str, rows: Counter[Row]) -> str:
    lines = [f"\n  {title}: {count} × {_row_text(row)}" for row, count in list(rows.items())[:_SHOWN]]
    return "".join(lines) + (f"\n  {title}: … {len(rows) - _SHOWN} more" if len(rows) > _SHOWN else "")


def _row_text(row: Row) -> str:
    return "(" + ", ".join(str(value) if isinstance(value, datetime) else repr(value) for value in row) + ")"

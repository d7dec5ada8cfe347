"""Aggregation over a join without the join: per key, what both sides summed up is multiplied.

COUNT(*) of a key is n_left · n_right; SUM(l.x) is sum_left(x) · n_right; SUM(l.x · r.y) is the product of both sums;
MIN and MAX are those of the side; deviations, distinct values and histograms carry the other side's count as weight.
So the cost follows the groups of the sides, not the rows of the join.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from weft.kernels import large_text as wide
from weft.kernels.aggregate.cells import (
    DETAILED,
    LANES,
    LAST,
    ROWS,
    Array,
    Cells,
    Detail,
    concat,
    group_rows,
    lane_of,
    number_keys,
    number_slices,
    reduce_lanes,
)
from weft.kernels.aggregate.exact_sum import sum_of, times, to_limbs
from weft.kernels.aggregate.sort_codes import Longs
from weft.plan.aggregation import Call, Function
from weft.plan.identity import identity

_Sides = tuple[tuple[Cells, Longs], tuple[Cells, Longs]]
"""Of each side the cells, and which of them the pairs consist of."""

_PAIRS_AT_ONCE = 1 << 20
_WITH_WORDS = (Function.MIN, Function.MAX, Function.COUNT_DISTINCT, Function.QUANTILE)


@dataclass(frozen=True, slots=True)
class PairPlan:
    """How results of one query are made: `keys` are (side, column of its groups) in the order of GROUP BY."""

    keys: tuple[tuple[int, int], ...]
    calls: tuple[Call, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """Cells of one side, each with the number of what it is joined by: a key, or a session of a key."""

    cells: Cells
    link: Longs


@dataclass(frozen=True, slots=True, eq=False)
class Windows:
    """The window that belongs to each link: its start and, for sessions, its last time."""

    starts: Longs
    lasts: Longs | None = None


def pair_cells(left: Side, right: Side, plan: PairPlan, windows: Windows) -> Cells | None:
    """Cells over the joined rows of one query, whose slices are the starts of windows. None if nothing joins."""
    groups, numbers = zip(*(_own_groups(side.cells, n, plan) for n, side in enumerate((left, right))), strict=True)
    made = []
    for at_left, at_right in equal_pairs(left.link, right.link):
        group = numbers[0][left.cells.group[at_left]] * len(groups[1]) + numbers[1][right.cells.group[at_right]]
        combined = _combine(((left.cells, at_left), (right.cells, at_right)), plan)
        link = left.link[at_left]
        if windows.lasts is not None:
            combined = replace(combined, lanes={**combined.lanes, LAST: windows.lasts[link]})
        made.append(_merge([replace(combined, slices=windows.starts[link], group=group)]))
    if not made:
        return None
    # Groups are numbered by pairs of the sides' groups: the same in all parts, so parts are just put together.
    together = _merge([_with_groups(part, (left.cells, right.cells), groups, plan) for part in made])
    return replace(together, sets=left.cells.sets[:1])


def _own_groups(cells: Cells, side: int, plan: PairPlan) -> tuple[Longs, Longs]:
    """A row of each distinct combination of this side's GROUP BY values, and which of them each group has."""
    columns = [cells.groups[column] for at, column in plan.keys if at == side]
    numbers, firsts = group_rows(columns, cells.group_count)
    return firsts, numbers


def equal_pairs(left: Longs, right: Longs) -> Iterator[tuple[Longs, Longs]]:
    """All pairs of cells with equal links, some at a time."""
    order = np.argsort(right, kind="stable")
    begins = np.searchsorted(right[order], left, side="left")
    counts = np.searchsorted(right[order], left, side="right") - begins
    start = 0
    totals = np.cumsum(counts)
    while start < len(left):
        done = int(totals[start - 1]) if start else 0
        end = max(start + 1, int(np.searchsorted(totals, done + _PAIRS_AT_ONCE, side="right")))
        some = counts[start:end]
        if some.any():
            steps = np.arange(int(some.sum())) - np.repeat(np.cumsum(some) - some, some)
            yield np.repeat(np.arange(start, end), some), order[np.repeat(begins[start:end], some) + steps]
        start = end


def _combine(sides: _Sides, plan: PairPlan) -> Cells:
    """One cell per pair; what it belongs to is for the caller to say."""
    left, right = sides
    lanes: dict[str, Array] = {ROWS: _lane(left, ROWS) * _lane(right, ROWS)}
    details: dict[str, Detail] = {}
    dictionaries: dict[str, pa.Array] = {}
    for call in plan.calls:
        if call.function is Function.ROWS:
            continue
        if call.function in DETAILED:
            _add_detail(call, sides, details, dictionaries)
        else:
            lanes |= _call_lanes(call, sides)
            _add_dictionary(call, sides, dictionaries)
    nowhere = np.zeros(len(lanes[ROWS]), np.int64)
    return Cells((), 0, left[0].sets[:1], nowhere, nowhere, nowhere, lanes, details, dictionaries)


def _lane(side: tuple[Cells, Longs], name: str) -> Array:
    cells, rows = side
    values: Array = lane_of(cells, name)[rows]
    return values


def _texts(call: Call) -> tuple[str | None, ...]:
    return tuple(None if argument is None else identity(argument) for argument in call.arguments)


def _counted(sides: _Sides, texts: Sequence[str | None]) -> Array:
    """How many joined rows of a pair have all arguments."""
    left, right = (_lane(s, ROWS if t is None else f"count:{t}") for s, t in zip(sides, texts, strict=True))
    both: Array = left * right
    return both


def _call_lanes(call: Call, sides: _Sides) -> dict[str, Array]:
    texts, name = _texts(call), call.argument
    count = {f"count:{name}": _counted(sides, texts)}
    if call.function is Function.COUNT:
        return count
    if call.function is Function.SUM:
        return count | _sum_lanes(name, sides, texts)
    at = _side_of(call)
    side, other = sides[at], sides[1 - at]
    if call.function is Function.SPREAD:
        squares = _lane(side, f"squares:{texts[at]}") * _lane(other, ROWS)
        return count | {f"mean:{name}": _lane(side, f"mean:{texts[at]}"), f"squares:{name}": squares}
    kind = call.function.value
    return count | {f"{kind}:{name}": _lane(side, f"{kind}:{texts[at]}")}


def _sum_lanes(name: str, sides: _Sides, texts: Sequence[str | None]) -> dict[str, Array]:
    factors = [_factor(side, text) for side, text in zip(sides, texts, strict=True)]
    if any(factor.dtype == np.float64 for factor in factors):
        left, right = (factor.astype(np.float64) for factor in factors)
        with np.errstate(invalid="ignore", over="ignore"):
            # Infinity on one side and only NULLs on the other make no row: not NaN, which would spoil its whole group.
            return {f"double:{name}": np.where(_counted(sides, texts) > 0, left * right, 0.0)}
    return to_limbs(times(factors[0], factors[1]), name)


def _factor(side: tuple[Cells, Longs], text: str | None) -> Array:
    if text is None:
        return _lane(side, ROWS)
    if f"double:{text}" in side[0].lanes:
        return _lane(side, f"double:{text}")
    found = sum_of({key: side[0].lanes[key][side[1]] for key in side[0].lanes if key.endswith(f":{text}")}, text)
    assert found is not None
    return found


def _side_of(call: Call) -> int:
    return 0 if call.arguments[0] is not None else 1


def _add_dictionary(call: Call, sides: _Sides, dictionaries: dict[str, pa.Array]) -> None:
    texts, at = _texts(call), _side_of(call)
    known = sides[at][0].dictionaries
    if call.function in _WITH_WORDS and texts[at] in known:
        dictionaries[call.argument] = known[texts[at] or ""]


def _add_detail(call: Call, sides: _Sides, details: dict[str, Detail], dictionaries: dict[str, pa.Array]) -> None:
    texts, at = _texts(call), _side_of(call)
    (cells, rows), other = sides[at], sides[1 - at]
    sources = {kind: f"{kind}:{texts[at]}" for kind in LANES[call.function]}
    wanted = {source: cells.details[source] for source in sources.values() if source in cells.details}
    _, found = reduce_lanes(replace(cells, lanes={}, details=wanted), rows, np.arange(len(rows)), len(rows))
    for kind, source in sources.items():
        if source not in found:
            continue
        entries = found[source]
        if kind == "histogram":
            entries = replace(entries, weights=entries.weights * _lane(other, ROWS)[entries.cells])
        details[f"{kind}:{call.argument}"] = entries
    _add_dictionary(call, sides, dictionaries)


def _merge(parts: Sequence[Cells]) -> Cells:
    """Cells of one window and group as one."""
    cells = concat(parts) if len(parts) > 1 else parts[0]
    numbers, edges = number_slices(cells)
    groups = int(cells.group.max()) + 1
    target, keys = number_keys(numbers * groups + cells.group, len(edges) * groups)
    lanes, details = reduce_lanes(cells, np.arange(len(cells)), target, len(keys))
    return replace(
        cells,
        slices=edges[keys // groups],
        classes=np.zeros(len(keys), np.int64),
        group=keys % groups,
        lanes=lanes,
        details=details,
    )


def _with_groups(cells: Cells, sides: tuple[Cells, Cells], groups: tuple[Longs, Longs], plan: PairPlan) -> Cells:
    """The cells with the values of their groups, which only now are worth taking. A value is taken once for each group
    of the other side, so that short columns may become long ones."""
    used, numbers = np.unique(cells.group, return_inverse=True)
    rows = (groups[0][used // len(groups[1])], groups[1][used % len(groups[1])])
    columns = tuple(wide.take(sides[side].groups[column], rows[side]) for side, column in plan.keys)
    return replace(cells, groups=columns, group_count=len(used), group=numbers.astype(np.int64))


def link_groups(left: Cells, right: Cells, keys: int) -> tuple[Longs, Longs, int]:
    """Numbers of the join keys (the first `keys` columns of the groups) of both sides' groups, and how many."""
    columns = [wide.concat([left.groups[k], right.groups[k]]) for k in range(keys)]
    numbers, firsts = group_rows(columns, left.group_count + right.group_count)
    return numbers[: left.group_count], numbers[left.group_count :], len(firsts)

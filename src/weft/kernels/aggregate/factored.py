"""Aggregation over a join without the join: multiply the partial aggregates of both sides, key by key.

COUNT(*) of a key is n_left · n_right; SUM(l.x) is sum_left(x) · n_right; SUM(l.x · r.y) is the product of both sums;
MIN, MAX and distinct values are those of their side; deviations and histograms have the other side's count as weight.
The cost depends on the number of groups of the sides, not on the number of joined rows.
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
    concat_cells,
    group_rows,
    lane_of,
    number_keys,
    number_slices,
    reduce_lanes,
)
from weft.kernels.aggregate.exact_sum import sum_of, times, to_limbs
from weft.kernels.aggregate.sort_codes import Longs
from weft.plan.aggregation import AggregateCall, Function
from weft.plan.identity import identity

_Sides = tuple[tuple[Cells, Longs], tuple[Cells, Longs]]
"""For each side, its cells and the cell of each pair."""

_PAIRS_AT_ONCE = 1 << 20
_WITH_WORDS = (Function.MIN, Function.MAX, Function.COUNT_DISTINCT, Function.QUANTILE)


@dataclass(frozen=True, slots=True)
class PairPlan:
    """The calls of one query, and its GROUP BY keys in order, as (side, column of the side's groups)."""

    keys: tuple[tuple[int, int], ...]
    calls: tuple[AggregateCall, ...]


@dataclass(frozen=True, slots=True, eq=False)
class FactorSide:
    """Cells of one side, and for each cell the number that it is joined by: of a key, or of a session of a key."""

    cells: Cells
    link: Longs


@dataclass(frozen=True, slots=True, eq=False)
class Windows:
    """The window of each link: its start and, for sessions, its last time."""

    starts: Longs
    lasts: Longs | None = None


def pair_cells(left: FactorSide, right: FactorSide, plan: PairPlan, windows: Windows) -> Cells | None:
    """Return the cells of one query's joined rows, with window starts as slices, or None if no rows join."""
    groups, numbers = zip(*(_own_groups(side.cells, n, plan) for n, side in enumerate((left, right))), strict=True)
    parts = []
    for at_left, at_right in equal_pairs(left.link, right.link):
        group = numbers[0][left.cells.group[at_left]] * len(groups[1]) + numbers[1][right.cells.group[at_right]]
        combined = _combine(((left.cells, at_left), (right.cells, at_right)), plan)
        link = left.link[at_left]
        if windows.lasts is not None:
            combined = replace(combined, lanes={**combined.lanes, LAST: windows.lasts[link]})
        parts.append(_merge([replace(combined, slices=windows.starts[link], group=group)]))
    if not parts:
        return None
    # Up to here a group is a pair of the sides' groups; `_with_groups` adds the values by which parts are merged.
    merged = _merge([_with_groups(part, (left.cells, right.cells), groups, plan) for part in parts])
    return replace(merged, sets=left.cells.sets[:1])


def _own_groups(cells: Cells, side: int, plan: PairPlan) -> tuple[Longs, Longs]:
    """Number the distinct GROUP BY values of a side; return one group of each number and the number of each group."""
    columns = [cells.groups[column] for key_side, column in plan.keys if key_side == side]
    numbers, firsts = group_rows(columns, cells.group_count)
    return firsts, numbers


def equal_pairs(left: Longs, right: Longs) -> Iterator[tuple[Longs, Longs]]:
    """Yield all pairs of cells with equal links, a block at a time."""
    order = np.argsort(right, kind="stable")
    begins = np.searchsorted(right[order], left, side="left")
    counts = np.searchsorted(right[order], left, side="right") - begins
    start = 0
    totals = np.cumsum(counts)
    while start < len(left):
        done = int(totals[start - 1]) if start else 0
        end = max(start + 1, int(np.searchsorted(totals, done + _PAIRS_AT_ONCE, side="right")))
        repeats = counts[start:end]
        if repeats.any():
            steps = np.arange(int(repeats.sum())) - np.repeat(np.cumsum(repeats) - repeats, repeats)
            yield np.repeat(np.arange(start, end), repeats), order[np.repeat(begins[start:end], repeats) + steps]
        start = end


def _combine(sides: _Sides, plan: PairPlan) -> Cells:
    """Return one cell per pair; the caller sets slices and groups."""
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
    unset = np.zeros(len(lanes[ROWS]), np.int64)
    return Cells((), 0, left[0].sets[:1], unset, unset, unset, lanes, details, dictionaries)


def _lane(side: tuple[Cells, Longs], name: str) -> Array:
    cells, rows = side
    values: Array = lane_of(cells, name)[rows]
    return values


def _texts(call: AggregateCall) -> tuple[str | None, ...]:
    return tuple(None if argument is None else identity(argument) for argument in call.arguments)


def _counted(sides: _Sides, texts: Sequence[str | None]) -> Array:
    """Return how many joined rows of each pair have no NULL argument."""
    left, right = (_lane(s, ROWS if t is None else f"count:{t}") for s, t in zip(sides, texts, strict=True))
    both: Array = left * right
    return both


def _call_lanes(call: AggregateCall, sides: _Sides) -> dict[str, Array]:
    texts, name = _texts(call), call.argument
    count = {f"count:{name}": _counted(sides, texts)}
    if call.function is Function.COUNT:
        return count
    if call.function is Function.SUM:
        return count | _sum_lanes(name, sides, texts)
    number = _side_of(call)
    side, other = sides[number], sides[1 - number]
    if call.function is Function.SPREAD:
        squares = _lane(side, f"squares:{texts[number]}") * _lane(other, ROWS)
        return count | {f"mean:{name}": _lane(side, f"mean:{texts[number]}"), f"squares:{name}": squares}
    kind = call.function.value
    return count | {f"{kind}:{name}": _lane(side, f"{kind}:{texts[number]}")}


def _sum_lanes(name: str, sides: _Sides, texts: Sequence[str | None]) -> dict[str, Array]:
    factors = [_factor(side, text) for side, text in zip(sides, texts, strict=True)]
    if any(factor.dtype == np.float64 for factor in factors):
        left, right = (factor.astype(np.float64) for factor in factors)
        with np.errstate(invalid="ignore", over="ignore"):
            # Infinity times the zero of a side with only NULLs is NaN, but the pair has no rows and must add nothing.
            return {f"double:{name}": np.where(_counted(sides, texts) > 0, left * right, 0.0)}
    return to_limbs(times(factors[0], factors[1]), name)


def _factor(side: tuple[Cells, Longs], text: str | None) -> Array:
    if text is None:
        return _lane(side, ROWS)
    if f"double:{text}" in side[0].lanes:
        return _lane(side, f"double:{text}")
    total = sum_of({key: side[0].lanes[key][side[1]] for key in side[0].lanes if key.endswith(f":{text}")}, text)
    assert total is not None
    return total


def _side_of(call: AggregateCall) -> int:
    return 0 if call.arguments[0] is not None else 1


def _add_dictionary(call: AggregateCall, sides: _Sides, dictionaries: dict[str, pa.Array]) -> None:
    texts, number = _texts(call), _side_of(call)
    known = sides[number][0].dictionaries
    if call.function in _WITH_WORDS and texts[number] in known:
        dictionaries[call.argument] = known[texts[number] or ""]


def _add_detail(
    call: AggregateCall, sides: _Sides, details: dict[str, Detail], dictionaries: dict[str, pa.Array]
) -> None:
    texts, number = _texts(call), _side_of(call)
    (cells, rows), other = sides[number], sides[1 - number]
    sources = {kind: f"{kind}:{texts[number]}" for kind in LANES[call.function]}
    wanted = {source: cells.details[source] for source in sources.values() if source in cells.details}
    _, reduced = reduce_lanes(replace(cells, lanes={}, details=wanted), rows, np.arange(len(rows)), len(rows))
    for kind, source in sources.items():
        if source not in reduced:
            continue
        entries = reduced[source]
        if kind == "histogram":
            entries = replace(entries, weights=entries.weights * _lane(other, ROWS)[entries.cells])
        details[f"{kind}:{call.argument}"] = entries
    _add_dictionary(call, sides, dictionaries)


def _merge(parts: Sequence[Cells]) -> Cells:
    """Merge cells of one window and group."""
    cells = concat_cells(parts) if len(parts) > 1 else parts[0]
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
    """Return the cells with the values of their groups, taken last because only few groups remain.

    A value repeats for each group of the other side, so text columns may outgrow 32-bit offsets (`large_text.take`).
    """
    used, numbers = np.unique(cells.group, return_inverse=True)
    rows = (groups[0][used // len(groups[1])], groups[1][used % len(groups[1])])
    columns = tuple(wide.take(sides[side].groups[column], rows[side]) for side, column in plan.keys)
    return replace(cells, groups=columns, group_count=len(used), group=numbers.astype(np.int64))


def link_groups(left: Cells, right: Cells, keys: int) -> tuple[Longs, Longs, int]:
    """Number the join keys (the first `keys` columns) of both sides' groups; return both numberings and the count."""
    columns = [wide.concat_columns([left.groups[k], right.groups[k]]) for k in range(keys)]
    numbers, firsts = group_rows(columns, left.group_count + right.group_count)
    return numbers[: left.group_count], numbers[left.group_count :], len(firsts)

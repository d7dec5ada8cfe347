"""Aggregate the rows of a batch into cells by slice, query-set class and group, once for all queries of a store.

A family consists of queries whose predicates read the same columns. Within a family rows have few distinct query-sets
(for example one per interval between cut points of a column), so each row is added once per family, not once per query.
If a family has too many distinct query-sets, each of its queries becomes a class.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from weft.kernels.aggregate.cells import (
    GREATEST,
    LANES,
    LAST,
    LEAST,
    ROWS,
    Array,
    Cells,
    Detail,
    compact,
    concat_cells,
    group_rows,
    number_keys,
    plain_key,
    reduce_lanes,
)
from weft.kernels.aggregate.loops import cell_keys, expand_sets, number_sets
from weft.kernels.aggregate.sketch import histogram_codes, hll_codes
from weft.kernels.aggregate.sort_codes import Longs, decimal_limbs, distinct, plain_numbers, to_codes, to_doubles
from weft.kernels.bitset import WORD_BITS, Words, set_to_words
from weft.kernels.key_hash import hash_keys
from weft.plan.aggregation import Function
from weft.plan.slots import slot_numbers
from weft.plan.time import TIME_MIN

_LIMB = np.int64(0xFFFFFFFF)
_MOST_EDGES = 1 << 21
_EXPANDED_AT_ONCE = 1 << 21
_FEWEST_CLASSES = 64


@dataclass(frozen=True, slots=True)
class Accumulator:
    """A function and the text of the argument that it accumulates."""

    function: Function
    argument: str


@dataclass(frozen=True, slots=True)
class Family:
    """The slots of the queries that share classes.

    `windows` are their (size, slide), or `gap` is the least gap of their sessions, which are cut at multiples of
    `cuts`. `accumulators` are those that the queries need; None means all of the store.
    """

    slots: int
    windows: tuple[tuple[int, int], ...]
    gap: int | None
    accumulators: tuple[Accumulator, ...] | None = None
    cuts: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class RowBatch:
    """Rows that at least one query of a store wants."""

    sets: Words
    times: Longs
    groups: tuple[pa.Array, ...]
    arguments: Mapping[str, pa.Array]


def rows_to_cells(rows: RowBatch, families: Sequence[Family], accumulators: Iterable[Accumulator]) -> Cells | None:
    """Return the cells of a batch, or None if no query wants a row."""
    columns = [plain_key(column) for column in rows.groups]
    group, firsts = group_rows(columns, len(rows.times))
    lanes, details, dictionaries = _row_lanes(rows, tuple(accumulators))
    row_cells = Cells(
        groups=tuple(column.take(pa.array(firsts)) for column in columns),
        group_count=len(firsts),
        sets=rows.sets,
        slices=rows.times,
        classes=np.arange(len(group)),
        group=group,
        lanes=lanes,
        details=details,
        dictionaries=dictionaries,
    )
    parts = [part for family in families for part in _collect_family(row_cells, family)]
    return _together(parts) if parts else None


def _collect_family(rows: Cells, family: Family) -> Iterator[Cells]:
    if family.accumulators is not None:
        rows = _only_needed(rows, family.accumulators)
    words = rows.sets.shape[1]
    mask = set_to_words(family.slots, words)
    slots = list(slot_numbers(family.slots))
    limit = max(_FEWEST_CLASSES, 4 * len(slots))
    classes, firsts = number_sets(rows.sets, np.flatnonzero(mask), mask, limit)
    if len(firsts) <= limit:
        if len(firsts):
            yield _gather(rows, family, np.arange(len(rows)), classes, rows.sets[firsts] & mask)
        return
    singles = np.stack([set_to_words(1 << slot, words) for slot in slots])
    slot_words = np.array([slot // WORD_BITS for slot in slots])
    slot_bits = np.array([slot % WORD_BITS for slot in slots])
    step = max(1, _EXPANDED_AT_ONCE // len(slots))
    for start in range(0, len(rows), step):
        chosen, queries = expand_sets(rows.sets, slot_words, slot_bits, start, min(start + step, len(rows)))
        if len(chosen):
            yield _gather(rows, family, chosen, queries, singles)


def _only_needed(rows: Cells, accumulators: Iterable[Accumulator]) -> Cells:
    """Return the rows with only the lanes and details that these accumulators need."""
    kept = {ROWS}
    for accumulator in accumulators:
        kept.update(f"{kind}:{accumulator.argument}" for kind in ("count", *LANES[accumulator.function]))
    return replace(
        rows,
        lanes={name: values for name, values in rows.lanes.items() if name in kept},
        details={name: detail for name, detail in rows.details.items() if name in kept},
    )


def _gather(rows: Cells, family: Family, chosen: Longs, classes: Longs, sets: Words) -> Cells:
    """Aggregate the chosen rows, each in one class, into cells. Rows of class -1 are left out."""
    if family.gap is not None:
        kept = np.flatnonzero(classes >= 0)
        return _gather_runs(rows, family, chosen[kept], classes[kept], sets)
    edges = _edges(rows.slices, family.windows)
    per_slice = len(sets) * rows.group_count
    keys = cell_keys((rows.slices, rows.group), chosen, classes, edges, (len(sets), rows.group_count))
    target, used_keys = number_keys(keys, len(edges) * per_slice)
    lanes, details = reduce_lanes(rows, chosen, target, len(used_keys))
    return Cells(
        groups=rows.groups,
        group_count=rows.group_count,
        sets=sets,
        slices=edges[used_keys // per_slice],
        classes=used_keys // rows.group_count % len(sets),
        group=used_keys % rows.group_count,
        lanes=lanes,
        details=details,
        dictionaries=rows.dictionaries,
    )


def _edges(times: Longs, windows: Sequence[tuple[int, int]]) -> Longs:
    """Return where slices begin: the edges of all windows, from the slice that holds the first time on."""
    first, last = int(times.min()), int(times.max())
    offsets = sorted({(slide, offset % slide) for size, slide in windows for offset in (0, size)})
    if sum((last - first) // slide + 2 for slide, _ in offsets) <= _MOST_EDGES:
        edges = distinct(np.concatenate([_grid(first, last, slide, offset) for slide, offset in offsets]))
        return edges[max(0, int(np.searchsorted(edges, first, side="right")) - 1) :]
    begins = np.full(len(times), GREATEST, np.int64)
    for slide, offset in offsets:
        since = (times % slide - offset) % slide
        np.maximum(begins, np.where(times < TIME_MIN + since, TIME_MIN, times - since), out=begins)
    return distinct(begins)


def _grid(first: int, last: int, slide: int, offset: int) -> Longs:
    """Return the edges offset + k · slide from the last one at or before `first` (at least TIME_MIN) up to `last`."""
    begin = first - (first - offset) % slide
    clamped = [TIME_MIN] if begin < TIME_MIN else []
    begin += slide if clamped else 0
    steps = np.arange(max(0, (last - begin) // slide + 1))
    return np.concatenate([np.array(clamped, np.int64), steps * slide + (begin if len(steps) else 0)])


def _gather_runs(rows: Cells, family: Family, chosen: Longs, classes: Longs, sets: Words) -> Cells:
    """Merge rows closer than the least gap into cells: such rows are in one session of every query of their class."""
    times, group = rows.slices[chosen], rows.group[chosen]
    order = np.lexsort((times, group, classes))
    chosen, times, group, classes = chosen[order], times[order], group[order], classes[order]
    begins = np.ones(len(chosen), np.bool_)
    same = (classes[1:] == classes[:-1]) & (group[1:] == group[:-1])
    # The difference of sorted 64-bit times always fits into an unsigned 64-bit integer.
    distances = times[1:].view(np.uint64) - times[:-1].view(np.uint64)
    begins[1:] = ~same | (distances >= np.uint64(family.gap or 0))
    for cut in family.cuts:
        begins[1:] |= times[1:] // cut != times[:-1] // cut
    target = np.cumsum(begins) - 1
    starts = np.flatnonzero(begins)
    lanes, details = reduce_lanes(rows, chosen, target, len(starts))
    ends = np.append(starts[1:], len(times)) - 1
    return Cells(
        groups=rows.groups,
        group_count=rows.group_count,
        sets=sets,
        slices=times[starts],
        classes=classes[starts],
        group=group[starts],
        lanes={**lanes, LAST: times[ends]},
        details=details,
        dictionaries=rows.dictionaries,
    )


def _together(parts: Sequence[Cells]) -> Cells:
    """Concatenate the cells of all families."""
    cells = concat_cells(parts)
    # A family that was expanded in several steps has the same classes in each step.
    repeated = len(cells.sets) < sum(len(part.sets) for part in parts)
    return compact(cells) if repeated and LAST not in cells.lanes else cells


# ---- lanes and details of single rows


def _row_lanes(
    rows: RowBatch, accumulators: tuple[Accumulator, ...]
) -> tuple[dict[str, Array], dict[str, Detail], dict[str, pa.Array]]:
    lanes: dict[str, Array] = {ROWS: np.ones(len(rows.times), np.int8)}
    details: dict[str, Detail] = {}
    dictionaries: dict[str, pa.Array] = {}
    for accumulator in accumulators:
        if accumulator.function is Function.ROWS:
            continue
        name, column = accumulator.argument, rows.arguments[accumulator.argument]
        valid = None if column.null_count == 0 else np.asarray(column.is_valid())
        match accumulator.function:
            case Function.SUM:
                lanes |= {f"{kind}:{name}": values for kind, values in _sum_lanes(column, valid).items()}
            case Function.MIN | Function.MAX:
                kind = accumulator.function.value
                lanes[f"{kind}:{name}"] = _extreme(column, valid, kind, (dictionaries, name))
            case Function.SPREAD:
                lanes |= _spread_lanes(column, name)
            case Function.COUNT_DISTINCT | Function.APPROX_DISTINCT | Function.QUANTILE:
                present = np.arange(len(column)) if valid is None else np.flatnonzero(valid)
                for kind, codes, weights in _details(column, accumulator.function, (dictionaries, name)):
                    details[f"{kind}:{name}"] = Detail(present, codes[present], weights[present])
                continue
            case _:
                pass
        if valid is not None:
            lanes.setdefault(f"count:{name}", valid.astype(np.int64))
        elif accumulator.function is Function.SPREAD:
            lanes.setdefault(f"count:{name}", np.ones(len(column), np.int64))
    return lanes, details, dictionaries


def _sum_lanes(column: pa.Array, valid: Array | None) -> dict[str, Array]:
    """Return the lanes of a sum: a double, or 32-bit limbs of an exact sum, which 2^31 rows cannot overflow."""
    type_ = column.type
    if pt.is_floating(type_):
        return {"double": to_doubles(column)}
    if pt.is_integer(type_) and type_.bit_width <= 32:
        return {"sum0": plain_numbers(column).astype(np.int32, copy=False)}
    if pt.is_integer(type_):
        values = plain_numbers(column).astype(np.int64)
        return {"sum0": values & _LIMB, "sum1": values >> np.int64(32)}
    limbs = decimal_limbs(column)
    if valid is not None:
        limbs = np.where(valid[:, None], limbs, 0)
    low, high = limbs[:, 0], limbs[:, 1]
    if type_.precision <= 18:
        return {"sum0": low & _LIMB, "sum1": low >> np.int64(32)}
    return {
        "sum0": low & _LIMB,
        "sum1": (low >> np.int64(32)) & _LIMB,
        "sum2": high & _LIMB,
        "sum3": high >> np.int64(32),
    }


def _spread_lanes(column: pa.Array, name: str) -> dict[str, Array]:
    """Return the lanes of single rows: `squares` is zero, but NaN for infinity and NaN, as in Spark."""
    values = to_doubles(column)
    with np.errstate(invalid="ignore"):
        return {f"mean:{name}": values, f"squares:{name}": values - values}


def _extreme(column: pa.Array, valid: Array | None, kind: str, output: tuple[dict[str, pa.Array], str]) -> Array:
    if valid is None and pt.is_integer(column.type) and column.type.bit_width <= 32:
        return plain_numbers(column).astype(np.int32, copy=False)  # half the memory traffic
    codes = to_codes(column)
    if codes.dictionary is not None:
        output[0][output[1]] = codes.dictionary
    return codes.words if valid is None else np.where(valid, codes.words, LEAST if kind == "min" else GREATEST)


def _details(
    column: pa.Array, function: Function, output: tuple[dict[str, pa.Array], str]
) -> Iterator[tuple[str, Longs, Longs]]:
    """Yield the details of a function: the kind, and a code and its weight for each row."""
    if function is Function.APPROX_DISTINCT:
        yield "registers", *hll_codes(hash_keys([column]).h)
        return
    column_codes, ones = to_codes(column), np.ones(len(column), np.int64)
    if column_codes.dictionary is not None:
        output[0][output[1]] = column_codes.dictionary
    if function is Function.COUNT_DISTINCT:
        yield "distinct", column_codes.words, ones
        return
    codes = histogram_codes(to_doubles(column))
    yield "histogram", codes, ones
    yield "sample", codes, column_codes.words

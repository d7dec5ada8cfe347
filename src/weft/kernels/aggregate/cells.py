"""Cells, the partial aggregates per slice, query-set class and group, and the functions that merge them.

A cell has one value in each *lane*. The name of a lane says what the lane holds and how two values merge: `n` counts
rows; `count:x` counts rows where x is not NULL (without this lane x has no NULLs, and `n` is used); `sum0:x` … `sum3:x`
(32-bit limbs of an exact sum) and `double:x` add up; `min:x`, `max:x` and `last` keep the least or greatest word
(`kernels/aggregate/sort_codes.py`); `mean:x` and `squares:x` merge together with `count:x`. *Details* are lists per
cell: distinct words, registers of a sketch, buckets of a histogram, and the greatest word of each bucket (`sample:x`).

A batch of rows is treated as cells, one per row. Slicing rows, merging files and closing windows are therefore one
operation, `reduce_lanes`, with different targets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from weft.kernels import large_text as wide
from weft.kernels.aggregate.loops import (
    add_spread,
    add_values,
    keep_greatest,
    keep_least,
    number_large,
    number_small,
    repeat_details,
)
from weft.kernels.aggregate.sort_codes import Longs, distinct, unify_codes
from weft.kernels.bitset import Words
from weft.plan.aggregation import Function

Array = npt.NDArray[Any]
Lanes = Mapping[str, Array]

_LARGEST_SPACE = 1 << 62

ROWS, LAST = "n", "last"
SPREAD = ("count", "mean", "squares")
"""Lanes of one argument that merge together, with one formula."""
_IN_CACHE = 1 << 15
_ADDERS = {"min": keep_least, "max": keep_greatest, "last": keep_greatest}
LANES = {
    Function.ROWS: (),
    Function.COUNT: (),
    Function.SUM: ("double", "sum0", "sum1", "sum2", "sum3"),
    Function.MIN: ("min",),
    Function.MAX: ("max",),
    Function.SPREAD: ("mean", "squares"),
    Function.COUNT_DISTINCT: ("distinct",),
    Function.APPROX_DISTINCT: ("registers",),
    Function.QUANTILE: ("histogram", "sample"),
}
"""Kinds of lanes or details that each function needs besides the count of its argument."""
DETAILED = (Function.COUNT_DISTINCT, Function.APPROX_DISTINCT, Function.QUANTILE)
LEAST, GREATEST = np.iinfo(np.int64).max, np.iinfo(np.int64).min
"""Initial values of `min` and `max` lanes."""


@dataclass(frozen=True, slots=True, eq=False)
class Detail:
    """Entries (cell, code, weight), ordered by cell. The weight of a distinct word is one."""

    cells: Longs
    codes: Longs
    weights: Longs


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """Partial aggregates. Arrays have an entry per cell, except `groups` (one per group) and `sets` (one per class)."""

    groups: tuple[pa.Array, ...]
    group_count: int
    sets: Words
    slices: Longs
    classes: Longs
    group: Longs
    lanes: Lanes
    details: Mapping[str, Detail] = field(default_factory=dict)
    dictionaries: Mapping[str, pa.Array] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.slices)

    def take(self, rows: Longs) -> Cells:
        """Return the cells of these rows, with all groups and classes."""
        places = np.arange(len(rows) if self.details else 0)
        return replace(
            self,
            slices=self.slices[rows],
            classes=self.classes[rows],
            group=self.group[rows],
            lanes={name: values[rows] for name, values in self.lanes.items()},
            details={name: _reduce_detail(name, detail, rows, places) for name, detail in self.details.items()},
        )


def lane_kind(name: str) -> str:
    """Return the part of a lane's name that says how its values merge."""
    return name.partition(":")[0]


def lane_argument(name: str) -> str:
    """Return the part of a lane's name that identifies its argument."""
    return name.partition(":")[2]


def empty_lane(name: str, count: int) -> Array:
    """Return a lane of `count` initial values."""
    match lane_kind(name):
        case "min":
            return np.full(count, LEAST, np.int64)
        case "max" | "last":
            return np.full(count, GREATEST, np.int64)
        case "double" | "mean" | "squares":
            return np.zeros(count, np.float64)
        case _:
            return np.zeros(count, np.int64)


def number_keys(keys: Longs, space: int) -> tuple[Longs, Longs]:
    """Return dense numbers for keys in 0 … space − 1, and the key of each number; -1 stays -1."""
    return number_small(keys, space) if space <= 4 * len(keys) + 4096 else number_large(keys)


def reduce_lanes(cells: Cells, source: Longs, target: Longs, count: int) -> tuple[Lanes, dict[str, Detail]]:
    """Merge cell source[i] into target[i] (-1 for none) for all i; return the lanes and details of `count` targets."""
    out: dict[str, Array] = {}
    add_lanes(cells.lanes, source, target, out=out, count=count)
    details = {name: _reduce_detail(name, detail, source, target) for name, detail in cells.details.items()}
    return out, details


def add_lanes(lanes: Lanes, source: Longs, target: Longs, *, out: dict[str, Array], count: int) -> None:
    """Merge lanes into those of `out`, to which missing lanes are added first."""
    for name in lanes:
        if name not in out:
            out[name] = empty_lane(name, count)
    spreads = [lane_argument(name) for name in lanes if lane_kind(name) == "mean"]
    spread_lanes = {f"{kind}:{argument}" for argument in spreads for kind in SPREAD}
    other_lanes = [name for name in lanes if name not in spread_lanes]
    for start in range(0, len(target), _IN_CACHE):
        # Merge all lanes of a block of cells before the next block, so that `source` and `target` stay in the cache.
        block = slice(start, start + _IN_CACHE)
        for argument in spreads:
            names = [f"{kind}:{argument}" for kind in SPREAD]
            add_spread(source[block], target[block], _triple(lanes, names), _triple(out, names))
        for name in other_lanes:
            _ADDERS.get(lane_kind(name), add_values)(source[block], target[block], lanes[name], out[name])


def _triple(lanes: Lanes, names: Sequence[str]) -> tuple[Array, Array, Array]:
    count, mean, squares = (lanes[name] for name in names)
    return count, mean, squares


def _reduce_detail(name: str, detail: Detail, source: Longs, target: Longs) -> Detail:
    rows, owners = repeat_details(detail.cells, source, target)
    return merge_details(name, Detail(owners, detail.codes[rows], detail.weights[rows]))


def _places(detail: Detail) -> tuple[int, int, Longs] | None:
    """Return the least code, the code span, and (cell, code) as one number, which sorts faster; None on overflow."""
    least, span = int(detail.codes.min()), int(detail.codes.max()) - int(detail.codes.min()) + 1
    if int(detail.cells.min()) < 0 or (int(detail.cells.max()) + 1) * span > _LARGEST_SPACE:
        return None
    return least, span, detail.cells * span + (detail.codes - least)


def merge_details(name: str, detail: Detail) -> Detail:
    """Merge entries of one cell and code, sorted by both: weights of histograms add up, others keep the greatest."""
    if len(detail.cells) == 0:
        return detail
    numbered = _places(detail)
    if numbered is not None:
        least, span, entry_keys = numbered
        if np.all(entry_keys[1:] > entry_keys[:-1]):
            return detail
        if lane_kind(name) == "distinct":  # all weights are one
            entry_keys = distinct(entry_keys)
            return Detail(entry_keys // span, entry_keys % span + least, np.ones(len(entry_keys), np.int64))
    order = np.lexsort((detail.codes, detail.cells)) if numbered is None else np.argsort(numbered[2])
    cells, codes, weights = detail.cells[order], detail.codes[order], detail.weights[order]
    first = np.ones(len(cells), np.bool_)
    first[1:] = (cells[1:] != cells[:-1]) | (codes[1:] != codes[:-1])
    starts = np.flatnonzero(first)
    match lane_kind(name):
        case "histogram":
            weights = np.add.reduceat(weights, starts)
        case _:
            weights = np.maximum.reduceat(weights, starts)
    return Detail(cells[starts], codes[starts], weights)


def group_rows(columns: Sequence[pa.Array], count: int) -> tuple[Longs, Longs]:
    """Return the number of each row's group and the first row of each group. NULLs are equal, and so are NaNs."""
    if not columns:
        return np.zeros(count, np.int64), np.zeros(min(count, 1), np.int64)
    codes: Longs | None = None
    space = 1
    for column in columns:
        column_codes, column_space = _codes(column)
        if codes is not None and space * column_space > _LARGEST_SPACE:
            codes, used_codes = number_keys(codes, space)
            space = len(used_codes)
        codes = column_codes if codes is None else codes * column_space + column_codes
        space = space * max(column_space, 1)
    assert codes is not None
    numbers, _ = number_keys(codes, space)
    firsts = np.zeros(int(numbers.max()) + 1 if count else 0, np.int64)
    firsts[numbers[::-1]] = np.arange(count - 1, -1, -1)
    return numbers, firsts


def plain_key(column: pa.Array) -> pa.Array:
    """Return the column with a single zero and a single NaN, so that equal keys have the same bits."""
    if not pa.types.is_floating(column.type):
        return column
    values = column.to_numpy(zero_copy_only=False) + column.type.to_pandas_dtype()(0)  # -0.0 becomes 0.0
    values[np.isnan(values)] = np.nan
    return pa.array(values, column.type, mask=np.asarray(column.is_null()) if column.null_count else None)


def _codes(column: pa.Array) -> tuple[Longs, int]:
    encoded = plain_key(column).dictionary_encode(null_encoding="encode")
    return encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64), len(encoded.dictionary)


def align(parts: Sequence[Cells]) -> list[Cells]:
    """Number groups, classes and dictionary words in common: every returned part has those of all parts."""
    if len(parts) == 1:
        return list(parts)
    groups, group_count, group_maps = _concat_groups(parts)
    sets, class_maps = _concat_sets(parts)
    dictionaries, word_maps = _concat_dictionaries(parts)
    return [
        replace(
            _with_words(part, words),
            groups=groups,
            group_count=group_count,
            sets=sets,
            classes=class_map[part.classes],
            group=group_map[part.group],
            dictionaries=dictionaries,
        )
        for part, words, class_map, group_map in zip(parts, word_maps, class_maps, group_maps, strict=True)
    ]


def concat_cells(parts: Sequence[Cells]) -> Cells:
    """Return the cells of all parts under common numbers, without merging any."""
    if len(parts) == 1:
        return parts[0]
    parts = align(parts)
    names = dict.fromkeys(name for part in parts for name in part.lanes)
    starts = np.cumsum([0, *(len(part) for part in parts)])
    return replace(
        parts[0],
        slices=np.concatenate([part.slices for part in parts]),
        classes=np.concatenate([part.classes for part in parts]),
        group=np.concatenate([part.group for part in parts]),
        lanes={name: np.concatenate([lane_of(part, name) for part in parts]) for name in names},
        details=_concat_details(parts, starts),
    )


def lane_of(part: Cells, name: str) -> Array:
    """Return a lane of the cells. A missing count lane means no NULLs; other missing lanes have initial values."""
    if name in part.lanes:
        return part.lanes[name]
    return part.lanes[ROWS] if lane_kind(name) == "count" else empty_lane(name, len(part))


def _concat_groups(parts: Sequence[Cells]) -> tuple[tuple[pa.Array, ...], int, list[Longs]]:
    if all(part.groups is parts[0].groups for part in parts):
        return parts[0].groups, parts[0].group_count, [np.arange(parts[0].group_count)] * len(parts)
    columns = [wide.concat_columns([part.groups[k] for part in parts]) for k in range(len(parts[0].groups))]
    counts = [part.group_count for part in parts]
    numbers, firsts = group_rows(columns, sum(counts))
    cuts = np.cumsum([0, *counts])
    rows = pa.array(firsts)
    maps = [numbers[a:b] for a, b in pairwise(cuts)]
    return tuple(wide.narrow(column.take(rows)) for column in columns), len(firsts), maps


def _concat_sets(parts: Sequence[Cells]) -> tuple[Words, list[Longs]]:
    """Return the distinct query-sets of all parts, and the new class numbers of each part."""
    stacked = np.ascontiguousarray(np.concatenate([part.sets for part in parts]))
    sets, numbers = np.unique(stacked, axis=0, return_inverse=True)
    cuts = np.cumsum([0, *(len(part.sets) for part in parts)])
    new_numbers = numbers.reshape(-1).astype(np.int64)
    return sets, [new_numbers[a:b] for a, b in pairwise(cuts)]


def _concat_dictionaries(parts: Sequence[Cells]) -> tuple[dict[str, pa.Array], list[dict[str, Longs]]]:
    merged: dict[str, pa.Array] = {}
    maps: list[dict[str, Longs]] = [{} for _ in parts]
    if all(part.dictionaries is parts[0].dictionaries for part in parts):
        return dict(parts[0].dictionaries), maps
    for name in dict.fromkeys(name for part in parts for name in part.dictionaries):
        holders = [number for number, part in enumerate(parts) if name in part.dictionaries]
        merged[name], mappings = unify_codes([parts[number].dictionaries[name] for number in holders])
        for number, mapping in zip(holders, mappings, strict=True):
            maps[number][name] = mapping
    return merged, maps


def _with_words(part: Cells, maps: Mapping[str, Longs]) -> Cells:
    """Return the part with its dictionary numbers replaced."""
    if not maps:
        return part
    lanes = dict(part.lanes)
    for name, values in part.lanes.items():
        mapping = maps.get(lane_argument(name)) if lane_kind(name) in ("min", "max") else None
        if mapping is not None and len(mapping):
            initial = values == (LEAST if lane_kind(name) == "min" else GREATEST)
            lanes[name] = np.where(initial, values, mapping[np.where(initial, 0, values)])
    details = dict(part.details)
    for name, detail in part.details.items():
        mapping = maps.get(lane_argument(name)) if lane_kind(name) in ("distinct", "sample") else None
        if mapping is not None and len(detail.codes):
            field_name = "codes" if lane_kind(name) == "distinct" else "weights"
            details[name] = replace(detail, **{field_name: mapping[getattr(detail, field_name)]})
    return replace(part, lanes=lanes, details=details)


def _concat_details(parts: Sequence[Cells], starts: Longs) -> dict[str, Detail]:
    merged: dict[str, Detail] = {}
    for name in dict.fromkeys(name for part in parts for name in part.details):
        holders = [
            (part.details[name], start) for part, start in zip(parts, starts, strict=False) if name in part.details
        ]
        merged[name] = concat_entries([replace(detail, cells=detail.cells + start) for detail, start in holders])
    return merged


def concat_entries(parts: Sequence[Detail]) -> Detail:
    """Concatenate entries without merging any."""
    return Detail(
        np.concatenate([part.cells for part in parts]),
        np.concatenate([part.codes for part in parts]),
        np.concatenate([part.weights for part in parts]),
    )


def compact(cells: Cells) -> Cells:
    """Merge cells of one slice (or session), class and group into one. Unused groups stay."""
    slice_numbers, edges = number_slices(cells)
    classes, groups = max(len(cells.sets), 1), max(cells.group_count, 1)
    space = max(len(edges), 1) * classes * groups
    target, keys = number_keys((slice_numbers * classes + cells.classes) * groups + cells.group, space)
    lanes, details = reduce_lanes(cells, np.arange(len(cells)), target, len(keys))
    return replace(
        cells,
        slices=edges[keys // (classes * groups)],
        classes=keys // groups % classes,
        group=keys % groups,
        lanes=lanes,
        details=details,
    )


def number_slices(cells: Cells) -> tuple[Longs, Longs]:
    """Return dense numbers of the cells' slices and where each begins. Sessions also differ by their last time."""
    edges, numbers = np.unique(cells.slices, return_inverse=True)
    if LAST in cells.lanes:
        ends, last_numbers = np.unique(cells.lanes[LAST], return_inverse=True)  # one number sorts much faster than two
        used, pair_numbers = np.unique(numbers * max(len(ends), 1) + last_numbers, return_inverse=True)
        return pair_numbers.astype(np.int64), edges[used // max(len(ends), 1)]
    return numbers.astype(np.int64), edges


def only_groups(cells: Cells, groups: Longs | None = None) -> Cells:
    """Drop all groups except `groups`, which must hold all cells; by default, keep the groups that have cells."""
    if groups is None:
        used = np.zeros(cells.group_count, np.bool_)
        used[cells.group] = True
        groups = np.flatnonzero(used)
    numbers = np.full(cells.group_count, -1, np.int64)
    numbers[groups] = np.arange(len(groups))
    rows = pa.array(groups)
    columns = tuple(column.take(rows) for column in cells.groups)
    return replace(cells, groups=columns, group_count=len(groups), group=numbers[cells.group])


def split_groups(cells: Cells, owner: Longs, parts: int) -> list[Cells]:
    """Split cells into `parts` by the owner of their group. Each part has only its own groups, but all classes."""
    if parts == 1:
        return [cells]
    owners = owner[cells.group]
    return [
        only_groups(cells.take(np.flatnonzero(owners == part)), np.flatnonzero(owner == part)) for part in range(parts)
    ]

"""The compiled loops of shared aggregation: numbering cells, and merging the lanes of cells."""

from __future__ import annotations

import numba as nb
import numpy as np
import numpy.typing as npt

from weft.kernels.bitset import Words

Longs = npt.NDArray[np.int64]
Ints = npt.NDArray[np.int32]
Doubles = npt.NDArray[np.float64]

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


@nb.njit(cache=True, nogil=True)
def number_small(keys: Longs, space: int) -> tuple[Longs, Longs]:
    """Return dense numbers for keys in 0 … space − 1, in key order, and the key of each number; -1 stays -1."""
    table = np.full(space, -1, np.int64)
    for i in range(len(keys)):
        if keys[i] >= 0:
            table[keys[i]] = 0
    distinct = np.empty(min(space, len(keys)), np.int64)
    count = 0
    for key in range(space):
        if table[key] == 0:
            table[key] = count
            distinct[count] = key
            count += 1
    numbers = np.empty(len(keys), np.int64)
    for i in range(len(keys)):
        numbers[i] = table[keys[i]] if keys[i] >= 0 else -1
    return numbers, distinct[:count].copy()


@nb.njit(cache=True, nogil=True)
def number_large(keys: Longs) -> tuple[Longs, Longs]:
    """Return dense numbers for keys of any size, in order of first appearance, and the key of each; -1 stays -1."""
    size = 64
    while size < 2 * len(keys):
        size *= 2
    mask = np.uint64(size - 1)
    table = np.full(size, -1, np.int64)
    numbers = np.empty(len(keys), np.int64)
    distinct = np.empty(len(keys), np.int64)
    count = 0
    for i in range(len(keys)):
        key = keys[i]
        if key < 0:
            numbers[i] = -1
            continue
        word = np.uint64(key) * _MULTIPLIER
        entry = (word ^ (word >> np.uint64(32))) & mask
        while table[entry] >= 0 and distinct[table[entry]] != key:
            entry = (entry + np.uint64(1)) & mask
        if table[entry] < 0:
            table[entry] = count
            distinct[count] = key
            count += 1
        numbers[i] = table[entry]
    return numbers, distinct[:count].copy()


@nb.njit(cache=True, nogil=True)
def number_sets(sets: Words, columns: Longs, mask: Words, limit: int) -> tuple[Longs, Longs]:
    """Number the distinct query-sets; return the number of each row's set and one row of each number.

    Only the words `columns` are compared, ANDed with `mask`. The empty set has number -1. With more than `limit`
    distinct sets, the second array has length `limit + 1` and the numbers are incomplete.
    """
    size = 64
    while size < 4 * (limit + 1):
        size *= 2
    table_mask = np.uint64(size - 1)
    table = np.full(size, -1, np.int64)
    rows = np.empty(limit + 1, np.int64)
    numbers = np.empty(len(sets), np.int64)
    count = 0
    for i in range(len(sets)):
        word = np.uint64(0)
        union = np.uint64(0)
        for c in range(len(columns)):
            bits = sets[i, columns[c]] & mask[columns[c]]
            union |= bits
            word = (word ^ bits) * _MULTIPLIER
            word ^= word >> np.uint64(29)
        if union == 0:
            numbers[i] = -1
            continue
        entry = word & table_mask
        while table[entry] >= 0:
            other = rows[table[entry]]
            same = True
            for c in range(len(columns)):
                if (sets[i, columns[c]] ^ sets[other, columns[c]]) & mask[columns[c]]:
                    same = False
                    break
            if same:
                break
            entry = (entry + np.uint64(1)) & table_mask
        if table[entry] < 0:
            table[entry] = count
            rows[count] = i
            count += 1
            if count > limit:
                return numbers, rows
        numbers[i] = table[entry]
    return numbers, rows[:count].copy()


@nb.njit(cache=True, nogil=True)
def cell_keys(rows: tuple[Longs, Longs], chosen: Longs, classes: Longs, edges: Longs, counts: tuple[int, int]) -> Longs:
    """Return (slice, class, group) of each chosen row's cell as one number, -1 for rows of class -1.

    `rows` holds the times and groups of all rows, `counts` the number of classes and groups. Slices begin at `edges`.
    """
    times, groups = rows
    class_count, group_count = counts
    keys = np.empty(len(chosen), np.int64)
    slice_number = 0
    for i in range(len(chosen)):
        if classes[i] < 0:
            keys[i] = -1
            continue
        time = times[chosen[i]]
        # Times are nearly sorted: try the previous row's slice and the one after it before searching.
        if time < edges[slice_number] or (slice_number + 1 < len(edges) and time >= edges[slice_number + 1]):
            if slice_number + 2 < len(edges) and edges[slice_number + 1] <= time < edges[slice_number + 2]:
                slice_number += 1
            else:
                slice_number = np.searchsorted(edges, time, side="right") - 1
        keys[i] = (slice_number * class_count + classes[i]) * group_count + groups[chosen[i]]
    return keys


@nb.njit(cache=True, nogil=True)
def expand_sets(sets: Words, words: Longs, bits: Longs, start: int, end: int) -> tuple[Longs, Longs]:
    """Return (row, query) for every query of rows start … end − 1; query q is bit bits[q] of word words[q]."""
    count = 0
    for i in range(start, end):
        for q in range(len(words)):
            count += int((sets[i, words[q]] >> np.uint64(bits[q])) & np.uint64(1))
    rows, queries = np.empty(count, np.int64), np.empty(count, np.int64)
    position = 0
    for i in range(start, end):
        for q in range(len(words)):
            if (sets[i, words[q]] >> np.uint64(bits[q])) & np.uint64(1):
                rows[position] = i
                queries[position] = q
                position += 1
    return rows, queries


@nb.njit(cache=True, nogil=True)
def fan_out(classes: Longs, offsets: Longs, members: Longs, start: int, most: int) -> tuple[Longs, Longs, int]:
    """Return (cell, member) for every member of a cell's class, about `most` from `start` on, and the next start."""
    count, end = 0, start
    while end < len(classes) and (count == 0 or count < most):
        count += offsets[classes[end] + 1] - offsets[classes[end]]
        end += 1
    cells, chosen = np.empty(count, np.int64), np.empty(count, np.int64)
    position = 0
    for i in range(start, end):
        for m in range(offsets[classes[i]], offsets[classes[i] + 1]):
            cells[position] = i
            chosen[position] = members[m]
            position += 1
    return cells, chosen, end


@nb.njit(cache=True, nogil=True)
def add_values(source, target, values, out):  # type: ignore[no-untyped-def]
    """Add values[source[i]] to out[target[i]], integers or doubles; negative targets are skipped."""
    for i in range(len(target)):
        if target[i] >= 0:
            out[target[i]] += values[source[i]]


@nb.njit(cache=True, nogil=True)
def keep_least(source: Longs, target: Longs, values: Longs, out: Longs) -> None:
    """Keep the least of out[target[i]] and values[source[i]]; negative targets are skipped."""
    for i in range(len(target)):
        if target[i] >= 0:
            out[target[i]] = min(out[target[i]], values[source[i]])  # compiles without a branch


@nb.njit(cache=True, nogil=True)
def keep_greatest(source: Longs, target: Longs, values: Longs, out: Longs) -> None:
    """Keep the greatest of out[target[i]] and values[source[i]]; negative targets are skipped."""
    for i in range(len(target)):
        if target[i] >= 0:
            out[target[i]] = max(out[target[i]], values[source[i]])


@nb.njit(cache=True, nogil=True)
def add_spread(
    source: Longs,
    target: Longs,
    lanes: tuple[Longs, Doubles, Doubles],
    out: tuple[Longs, Doubles, Doubles],
) -> None:
    """Merge counts, means and sums of squared distances of the sources into `out` (Chan's formula)."""
    count, mean, squares = lanes
    out_count, out_mean, out_squares = out
    for i in range(len(target)):
        t, s = target[i], source[i]
        if t < 0 or count[s] == 0:
            continue
        old, added = out_count[t], count[s]
        if old == 0:  # the formula gives NaN if the square of a mean overflows
            out_count[t], out_mean[t], out_squares[t] = added, mean[s], squares[s]
            continue
        total = old + added
        delta = mean[s] - out_mean[t]
        out_squares[t] += squares[s] + delta * delta * (old * (added / total))
        out_mean[t] += delta * (added / total)
        out_count[t] = total


@nb.njit(cache=True, nogil=True)
def repeat_details(cells: Longs, source: Longs, target: Longs) -> tuple[Longs, Longs]:
    """Return (entry, target) for each target of each entry's cell; `cells` are the entries' cells, sorted."""
    last = -1
    for i in range(len(source)):
        last = max(last, source[i])
    if len(cells):
        last = max(last, cells[-1])
    starts = np.zeros(last + 2, np.int64)
    for i in range(len(cells)):
        starts[cells[i] + 1] += 1
    for i in range(last + 1):
        starts[i + 1] += starts[i]
    count = 0
    for i in range(len(source)):
        if target[i] >= 0:
            count += starts[source[i] + 1] - starts[source[i]]
    entries, owners = np.empty(count, np.int64), np.empty(count, np.int64)
    position = 0
    for i in range(len(source)):
        if target[i] >= 0:
            for k in range(starts[source[i]], starts[source[i] + 1]):
                entries[position] = k
                owners[position] = target[i]
                position += 1
    return entries, owners


ADD, KEEP_LEAST, KEEP_GREATEST = 0, 1, 2


@nb.njit(cache=True, nogil=True)
def table_places(classes: Longs, groups: Longs, first: int, last: int) -> Ints:
    """Return each cell's place in a table of classes by groups first … last − 1, or -1 if the table lacks the group."""
    places = np.empty(len(classes), np.int32)
    for i in range(len(classes)):
        inside = first <= groups[i] and groups[i] < last
        places[i] = classes[i] * (last - first) + groups[i] - first if inside else -1
    return places


@nb.njit(cache=True, nogil=True)
def merge_runs_into(places, runs, operation, values, out):  # type: ignore[no-untyped-def]
    """Merge the values of the runs (starts, ends) of cells into their places in `out`; -1 is no place."""
    starts, ends = runs
    for run in range(len(starts)):
        start, end = starts[run], ends[run]
        if operation == ADD:
            for i in range(start, end):
                if places[i] >= 0:
                    out[places[i]] += values[i]
        elif operation == KEEP_LEAST:
            for i in range(start, end):
                if places[i] >= 0:
                    out[places[i]] = min(out[places[i]], values[i])
        else:
            for i in range(start, end):
                if places[i] >= 0:
                    out[places[i]] = max(out[places[i]], values[i])


@nb.njit(cache=True, nogil=True)
def merge_classes_into(offsets, members, width, operation, values, out):  # type: ignore[no-untyped-def]
    """Merge rows of classes into rows of queries: query q consists of classes members[offsets[q]:offsets[q + 1]]."""
    for q in range(len(offsets) - 1):
        to = q * width
        for m in range(offsets[q], offsets[q + 1]):
            start = members[m] * width
            if operation == ADD:
                for g in range(width):
                    out[to + g] += values[start + g]
            elif operation == KEEP_LEAST:
                for g in range(width):
                    out[to + g] = min(out[to + g], values[start + g])
            else:
                for g in range(width):
                    out[to + g] = max(out[to + g], values[start + g])

"""The loops of shared aggregation: numbering cells, and adding lanes of some cells to those of others."""

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
    """Dense numbers for keys in 0 … space − 1, in the order of the keys, and the key of each number; -1 stays -1."""
    table = np.full(space, -1, np.int64)
    for i in range(len(keys)):
        if keys[i] >= 0:
            table[keys[i]] = 0
    found = np.empty(min(space, len(keys)), np.int64)
    count = 0
    for key in range(space):
        if table[key] == 0:
            table[key] = count
            found[count] = key
            count += 1
    numbers = np.empty(len(keys), np.int64)
    for i in range(len(keys)):
        numbers[i] = table[keys[i]] if keys[i] >= 0 else -1
    return numbers, found[:count].copy()


@nb.njit(cache=True, nogil=True)
def number_large(keys: Longs) -> tuple[Longs, Longs]:
    """The same for keys of any size, by hashing; numbers come in the order in which keys first appear."""
    size = 64
    while size < 2 * len(keys):
        size *= 2
    mask = np.uint64(size - 1)
    slots = np.full(size, -1, np.int64)
    numbers = np.empty(len(keys), np.int64)
    found = np.empty(len(keys), np.int64)
    count = 0
    for i in range(len(keys)):
        key = keys[i]
        if key < 0:
            numbers[i] = -1
            continue
        word = np.uint64(key) * _MULTIPLIER
        at = (word ^ (word >> np.uint64(32))) & mask
        while slots[at] >= 0 and found[slots[at]] != key:
            at = (at + np.uint64(1)) & mask
        if slots[at] < 0:
            slots[at] = count
            found[count] = key
            count += 1
        numbers[i] = slots[at]
    return numbers, found[:count].copy()


@nb.njit(cache=True, nogil=True)
def number_sets(sets: Words, columns: Longs, mask: Words, limit: int) -> tuple[Longs, Longs]:
    """Number of each row's query-set (only `columns` of words, ANDed with `mask`), and a row of each number.

    -1 is the empty set. With more than `limit` distinct sets the second array has length `limit + 1` and the numbers
    are of no use.
    """
    size = 64
    while size < 4 * (limit + 1):
        size *= 2
    cut = np.uint64(size - 1)
    slots = np.full(size, -1, np.int64)
    rows = np.empty(limit + 1, np.int64)
    numbers = np.empty(len(sets), np.int64)
    count = 0
    for i in range(len(sets)):
        word = np.uint64(0)
        some = np.uint64(0)
        for c in range(len(columns)):
            bits = sets[i, columns[c]] & mask[columns[c]]
            some |= bits
            word = (word ^ bits) * _MULTIPLIER
            word ^= word >> np.uint64(29)
        if some == 0:
            numbers[i] = -1
            continue
        at = word & cut
        while slots[at] >= 0:
            other = rows[slots[at]]
            same = True
            for c in range(len(columns)):
                if (sets[i, columns[c]] ^ sets[other, columns[c]]) & mask[columns[c]]:
                    same = False
                    break
            if same:
                break
            at = (at + np.uint64(1)) & cut
        if slots[at] < 0:
            slots[at] = count
            rows[count] = i
            count += 1
            if count > limit:
                return numbers, rows
        numbers[i] = slots[at]
    return numbers, rows[:count].copy()


@nb.njit(cache=True, nogil=True)
def cell_keys(rows: tuple[Longs, Longs], chosen: Longs, classes: Longs, edges: Longs, counts: tuple[int, int]) -> Longs:
    """The number of each chosen row's cell, by slice, class and group: rows are (times, groups), `counts` how many
    classes and groups there are. Slices begin at `edges`; a row of class -1 has none."""
    times, groups = rows
    class_count, group_count = counts
    keys = np.empty(len(chosen), np.int64)
    at = 0
    for i in range(len(chosen)):
        if classes[i] < 0:
            keys[i] = -1
            continue
        time = times[chosen[i]]
        # Times are nearly in order: mostly the slice is the one before, or the next.
        if time < edges[at] or (at + 1 < len(edges) and time >= edges[at + 1]):
            if at + 2 < len(edges) and edges[at + 1] <= time < edges[at + 2]:
                at += 1
            else:
                at = np.searchsorted(edges, time, side="right") - 1
        keys[i] = (at * class_count + classes[i]) * group_count + groups[chosen[i]]
    return keys


@nb.njit(cache=True, nogil=True)
def expand_sets(sets: Words, words: Longs, bits: Longs, start: int, end: int) -> tuple[Longs, Longs]:
    """Rows start … end − 1 once for every query they belong to: row and number of the query (word, bit)."""
    count = 0
    for i in range(start, end):
        for q in range(len(words)):
            count += int((sets[i, words[q]] >> np.uint64(bits[q])) & np.uint64(1))
    rows, queries = np.empty(count, np.int64), np.empty(count, np.int64)
    at = 0
    for i in range(start, end):
        for q in range(len(words)):
            if (sets[i, words[q]] >> np.uint64(bits[q])) & np.uint64(1):
                rows[at] = i
                queries[at] = q
                at += 1
    return rows, queries


@nb.njit(cache=True, nogil=True)
def fan_out(classes: Longs, offsets: Longs, members: Longs, start: int, most: int) -> tuple[Longs, Longs, int]:
    """Cells from `start` on once for each member of their class: cell, member; about `most` of them, and the end."""
    count, end = 0, start
    while end < len(classes) and (count == 0 or count < most):
        count += offsets[classes[end] + 1] - offsets[classes[end]]
        end += 1
    cells, chosen = np.empty(count, np.int64), np.empty(count, np.int64)
    at = 0
    for i in range(start, end):
        for m in range(offsets[classes[i]], offsets[classes[i] + 1]):
            cells[at] = i
            chosen[at] = members[m]
            at += 1
    return cells, chosen, end


@nb.njit(cache=True, nogil=True)
def add_values(source, target, values, out):  # type: ignore[no-untyped-def]
    """Sum of the sources' values, integers or doubles."""
    for i in range(len(target)):
        if target[i] >= 0:
            out[target[i]] += values[source[i]]


@nb.njit(cache=True, nogil=True)
def keep_least(source: Longs, target: Longs, values: Longs, out: Longs) -> None:
    """The least of the sources' values."""
    for i in range(len(target)):
        if target[i] >= 0:
            out[target[i]] = min(out[target[i]], values[source[i]])  # without a branch that nobody can predict


@nb.njit(cache=True, nogil=True)
def keep_greatest(source: Longs, target: Longs, values: Longs, out: Longs) -> None:
    """The greatest of the sources' values."""
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
    """Counts, means and sums of squared distances of the sources, merged without loss (Chan's formula)."""
    count, mean, squares = lanes
    out_count, out_mean, out_squares = out
    for i in range(len(target)):
        t, s = target[i], source[i]
        if t < 0 or count[s] == 0:
            continue
        before, more = out_count[t], count[s]
        if before == 0:  # the formula would give NaN where the square of a mean is beyond the largest double
            out_count[t], out_mean[t], out_squares[t] = more, mean[s], squares[s]
            continue
        together = before + more
        apart = mean[s] - out_mean[t]
        out_squares[t] += squares[s] + apart * apart * (before * (more / together))
        out_mean[t] += apart * (more / together)
        out_count[t] = together


@nb.njit(cache=True, nogil=True)
def repeat_details(cells: Longs, source: Longs, target: Longs) -> tuple[Longs, Longs]:
    """Entries of details (sorted by cell) once for each target of their cell: entry and target."""
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
    at = 0
    for i in range(len(source)):
        if target[i] >= 0:
            for k in range(starts[source[i]], starts[source[i] + 1]):
                entries[at] = k
                owners[at] = target[i]
                at += 1
    return entries, owners


ADD, KEEP_LEAST, KEEP_GREATEST = 0, 1, 2


@nb.njit(cache=True, nogil=True)
def table_places(classes: Longs, groups: Longs, first: int, last: int) -> Ints:
    """Where each cell is in a table with a row per class and a column per group from `first` on; -1: not in it."""
    places = np.empty(len(classes), np.int32)
    for i in range(len(classes)):
        inside = first <= groups[i] and groups[i] < last
        places[i] = classes[i] * (last - first) + groups[i] - first if inside else -1
    return places


@nb.njit(cache=True, nogil=True)
def merge_runs_into(places, runs, operation, values, out):  # type: ignore[no-untyped-def]
    """Merge runs (starts, ends) of cells into their places in `out`."""
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
    """Merge rows of classes into rows of queries: query q has the classes members[offsets[q]:offsets[q + 1]]."""
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

"""The compiled loops of shared selection: rank keys among cut points, and intersect bitsets by rank."""

# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False, no-check-untyped-defs

from __future__ import annotations

import numba as nb
import numpy as np


@nb.njit(cache=True, nogil=True)
def rank_keys(keys, valid, cuts, starts, shift, ranks):
    """Set ranks[i] to the number of cuts <= keys[i], len(cuts) + 1 for NULL; return the smallest and largest rank.

    `valid` is empty without NULLs. `starts[b]` is the rank of the first key of bucket b. Buckets are 2**shift keys wide
    and begin at the first cut; with shift 0 the start of the bucket is the rank.
    """
    count = len(cuts)
    smallest, largest = count + 1, 0
    checked = len(valid) > 0
    first, last = cuts[0], cuts[count - 1]
    width = np.uint64(shift)
    for i in range(len(keys)):
        key = keys[i]
        if checked and not valid[i]:
            rank = count + 1
        elif key < first:
            rank = 0
        elif key >= last:
            rank = count
        else:
            bucket = np.int64((np.uint64(key) - np.uint64(first)) >> width)
            rank = np.int64(starts[bucket])
            if shift > 0:
                high = np.int64(starts[bucket + 1])
                while rank < high:
                    middle = (rank + high) >> 1
                    if cuts[middle] <= key:
                        rank = middle + 1
                    else:
                        high = middle
        ranks[i] = rank
        smallest = min(smallest, rank)
        largest = max(largest, rank)
    return smallest, largest


@nb.njit(cache=True, nogil=True)
def rank_bytes(offsets, data, cut_offsets, cut_data, ranks):
    """Set ranks[i] to the number of cuts <= text i, compared byte by byte."""
    count = len(cut_offsets) - 1
    for i in range(len(ranks)):
        begin, size = offsets[i], offsets[i + 1] - offsets[i]
        low, high = 0, count
        while low < high:
            middle = (low + high) >> 1
            cut_begin, cut_size = cut_offsets[middle], cut_offsets[middle + 1] - cut_offsets[middle]
            common = min(size, cut_size)
            k = 0
            while k < common and data[begin + k] == cut_data[cut_begin + k]:
                k += 1
            above = data[begin + k] < cut_data[cut_begin + k] if k < common else size < cut_size
            if above:
                high = middle
            else:
                low = middle + 1
        ranks[i] = low


@nb.njit(cache=True, nogil=True)
def take_ranks(codes, valid, ranks_of_codes, null_rank, ranks):
    """Set ranks[i] to the rank of the dictionary value codes[i]; return the smallest and largest rank."""
    smallest, largest = null_rank, 0
    checked = len(valid) > 0
    for i in range(len(codes)):
        rank = null_rank if checked and not valid[i] else np.int64(ranks_of_codes[codes[i]])
        ranks[i] = rank
        smallest = min(smallest, rank)
        largest = max(largest, rank)
    return smallest, largest


@nb.njit(cache=True, nogil=True)
def float_keys(values, keys):
    """Set keys[i] to the key of the double with the bits values[i], in Spark's order (see `ranges.float_key`)."""
    infinity, nan = np.int64(0x7FF0000000000000), np.int64(0x7FF8000000000000)
    signless = np.int64(0x7FFFFFFFFFFFFFFF)
    for i in range(len(values)):
        bits = values[i]
        magnitude = bits & signless
        if magnitude > infinity:
            keys[i] = nan
        elif magnitude == 0:
            keys[i] = 0
        else:
            keys[i] = bits ^ signless if bits < 0 else bits


@nb.njit(cache=True, nogil=True)
def fill_rows(base, table, rows, offsets, sets):
    """Set sets[i] to base AND table[offsets[a] + rows[a, i]] over all attributes a."""
    attributes, count = rows.shape
    words = len(base)
    for i in range(count):
        for w in range(words):
            sets[i, w] = base[w]
        for a in range(attributes):
            row = offsets[a] + rows[a, i]
            for w in range(words):
                sets[i, w] &= table[row, w]


@nb.njit(cache=True, nogil=True)
def intersect_rows(base, table, rows, offsets, sets):
    """Intersect sets[i] with base and table[offsets[a] + rows[a, i]] over all attributes a."""
    attributes, count = rows.shape
    words = len(base)
    for i in range(count):
        for w in range(words):
            sets[i, w] &= base[w]
        for a in range(attributes):
            row = offsets[a] + rows[a, i]
            for w in range(words):
                sets[i, w] &= table[row, w]


@nb.njit(cache=True, nogil=True)
def intersect_words(places, table, rows, sets):
    """Intersect sets[i, places[k]] with table[rows[i], k], for an attribute that concerns few words."""
    for i in range(len(rows)):
        row = rows[i]
        for k in range(len(places)):
            sets[i, places[k]] &= table[row, k]


@nb.njit(cache=True, nogil=True)
def rank_bits(ranks, begins, widths, literals, bits):
    """Set bit i of bits[literals[k]] if begins[k] <= ranks[i] < begins[k] + widths[k]; other bits stay."""
    full_groups = len(ranks) >> 6
    for k in range(len(begins)):
        begin, width, literal = begins[k], widths[k], literals[k]
        for group in range(full_groups):
            word = np.uint64(0)
            for j in range(64):
                inside = np.uint32(ranks[(group << 6) + j] - begin) < width
                word |= np.uint64(inside) << np.uint64(j)
            bits[literal, group] |= word
        for i in range(full_groups << 6, len(ranks)):
            inside = np.uint32(ranks[i] - begin) < width
            bits[literal, full_groups] |= np.uint64(inside) << np.uint64(i & 63)


@nb.njit(cache=True, nogil=True)
def intersect_bits(columns, word, sets):
    """Clear bit s of sets[i, word] unless bit i of columns[s] is set, transposing blocks of 64 rows by 64 slots."""
    block = np.empty(64, np.uint64)
    for group in range(columns.shape[1]):
        for k in range(64):
            block[k] = columns[k, group]
        width, mask = 32, np.uint64(0x00000000FFFFFFFF)
        while width:
            k = 0
            while k < 64:
                swapped = ((block[k] >> np.uint64(width)) ^ block[k + width]) & mask
                block[k + width] ^= swapped
                block[k] ^= swapped << np.uint64(width)
                k = (k + width + 1) & ~width
            width >>= 1
            mask ^= mask << np.uint64(width)
        begin = group << 6
        for k in range(min(64, len(sets) - begin)):
            sets[begin + k, word] &= block[k]

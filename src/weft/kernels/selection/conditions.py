"""Conditions as packed bits, one per row: for conjuncts that are not ranges of an attribute shared by many queries.

Every distinct comparison (a *literal*) costs one pass over the ranks of its attribute. AND and OR work on 64 rows at
once. Finally, blocks of 64 slots by 64 rows are transposed into words of query-sets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pt

from weft.kernels.bitset import WORD_BITS, Words
from weft.kernels.expression.values import to_bools, true_rows
from weft.kernels.selection.attribute import AttributeIndex, Longs, build_attribute
from weft.kernels.selection.formula import Formula, Leaf
from weft.kernels.selection.loops import intersect_bits, rank_bits
from weft.kernels.selection.ranges import Ranges
from weft.plan.expression import Expression
from weft.plan.slots import slot_numbers

Condition: TypeAlias = "int | tuple[bool, tuple[Condition, ...]]"
"""The number of a literal, or (both, conditions): AND of the conditions if `both`, else OR."""

_MOST_BITS = 1 << 29
_MOST_ROWS, _FEWEST_ROWS = 1 << 16, 1 << 12


@dataclass(frozen=True)
class Literals:
    """Comparisons of one attribute, numbered from `first` on, and the slots of the queries that contain them.

    Slot n of `attribute` stands for literal first + n.
    """

    attribute: AttributeIndex
    first: int
    count: int
    slots: int

    def __getstate__(self) -> dict[str, Any]:
        return {name: self.__dict__[name] for name in self.__dataclass_fields__}

    @cached_property
    def intervals(self) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint32], npt.NDArray[np.int32]]:
        """The begin, width and literal of every interval of ranks in which a literal holds."""
        attribute = self.attribute
        order = np.lexsort((attribute.flip_at, attribute.flip_slot))
        flips: dict[int, list[int]] = {}
        for slot, cut in zip(attribute.flip_slot[order].tolist(), attribute.flip_at[order].tolist(), strict=True):
            flips.setdefault(slot, []).append(cut + 1)
        last = len(attribute.cuts) + 1
        intervals = []
        for literal in range(self.count):
            edges = ([0] if attribute.low >> literal & 1 else []) + flips.get(literal, [])
            runs = list(zip(edges[::2], [*edges[1::2], last][: len(edges[::2])], strict=True))
            runs += [(last, last + 1)] if attribute.null >> literal & 1 else []
            intervals += [(begin, end - begin, literal) for begin, end in runs]
        begins, widths, literals = zip(*intervals, strict=True) if intervals else ((), (), ())
        return np.array(begins, np.int32), np.array(widths, np.uint32), np.array(literals, np.int32)

    @cached_property
    def truths(self) -> list[tuple[bool, bool, bool]]:
        """Whether each literal of a boolean attribute holds for FALSE, TRUE and NULL."""
        table = self.attribute.table(-(-self.count // WORD_BITS))
        ranks = np.zeros(2, np.int32)
        self.attribute.rank(np.array([0, 1], np.int64), ranks)
        rows = [int(ranks[0]), int(ranks[1]), len(table) - 1]
        return [
            tuple(bool(int(table[row, literal // WORD_BITS]) >> (literal % WORD_BITS) & 1) for row in rows)  # type: ignore[misc]
            for literal in range(self.count)
        ]

    def bits(self, values: pa.Array | Longs, rows: int) -> Words:
        """Return, for each literal, packed bits of the rows in which the literal holds."""
        result = np.zeros((self.count, -(-rows // WORD_BITS)), np.uint64)
        if isinstance(values, pa.Array) and pt.is_boolean(values.type):
            true, null = true_rows(values, rows), to_bools(values.is_null())
            packed = [_packed(~(true | null)), _packed(true), _packed(null)]
            for literal, holds in enumerate(self.truths):
                for bits in (bits for applies, bits in zip(holds, packed, strict=True) if applies):
                    result[literal] |= bits
            return result
        ranks = np.empty(rows, np.int32)
        self.attribute.rank(values, ranks)
        rank_bits(ranks, *self.intervals, result)
        return result


@dataclass(frozen=True)
class BitConditions:
    """Literals, and the conditions over them, each with the slots that require it."""

    literals: tuple[Literals, ...]
    conditions: tuple[tuple[Condition, int], ...]

    @property
    def rows_at_once(self) -> int:
        """The number of rows to process at a time: fewer with many literals, whose bits are in memory together."""
        count = sum(literals.count for literals in self.literals)
        return max(_FEWEST_ROWS, min(_MOST_ROWS, _MOST_BITS // max(1, count))) // WORD_BITS * WORD_BITS

    def intersect(self, known: Sequence[Words | None], sets: Words) -> None:
        """Remove from the sets the slots whose condition does not hold; `known` are the bits of all literals.

        A literal that raised has None; conditions that contain it are skipped.
        """
        columns: dict[int, list[tuple[int, Words]]] = {}
        for condition, slots in self.conditions:
            if (bits := _bits_of(condition, known)) is not None:
                for slot in slot_numbers(slots):
                    columns.setdefault(slot // WORD_BITS, []).append((slot % WORD_BITS, bits))
        for word, slot_bits in columns.items():
            matrix = np.full((WORD_BITS, -(-len(sets) // WORD_BITS)), ~np.uint64(0))
            for bit, bits in slot_bits:
                matrix[bit] = bits
            intersect_bits(matrix, word, sets)


def build_conditions(formulas: Mapping[int, Formula]) -> BitConditions:
    """Build the conditions of these slots. Equal literals and equal conditions are computed once."""
    members: dict[tuple[Expression | None, tuple[Expression, ...]], dict[Ranges, int]] = {}
    slots: dict[tuple[Expression | None, tuple[Expression, ...]], int] = {}
    for slot, formula in formulas.items():
        for leaf in _leaves(formula):
            place = (leaf.attribute, leaf.guards)
            ranges = members.setdefault(place, {})
            ranges.setdefault(leaf.ranges, len(ranges))
            slots[place] = slots.get(place, 0) | 1 << slot
    literals, first = [], 0
    numbers: dict[tuple[Expression | None, tuple[Expression, ...], Ranges], int] = {}
    for place, ranges in members.items():
        attribute = build_attribute(*place, members={n: r for r, n in ranges.items()}, everyone=(1 << len(ranges)) - 1)
        literals.append(Literals(attribute, first, len(ranges), slots[place]))
        numbers |= {(*place, r): first + n for r, n in ranges.items()}
        first += len(ranges)
    conditions: dict[Condition, int] = {}
    for slot, formula in formulas.items():
        condition = _numbered(formula, numbers)
        conditions[condition] = conditions.get(condition, 0) | 1 << slot
    return BitConditions(tuple(literals), tuple(conditions.items()))


def _leaves(formula: Formula) -> Iterable[Leaf]:
    if isinstance(formula, Leaf):
        yield formula
    else:
        for part in formula.parts:
            yield from _leaves(part)


def _numbered(
    formula: Formula, numbers: Mapping[tuple[Expression | None, tuple[Expression, ...], Ranges], int]
) -> Condition:
    if isinstance(formula, Leaf):
        return numbers[formula.attribute, formula.guards, formula.ranges]
    return formula.both, tuple(_numbered(part, numbers) for part in formula.parts)


def _bits_of(condition: Condition, known: Sequence[Words | None]) -> Words | None:
    if isinstance(condition, int):
        return known[condition]
    both, parts = condition
    result: Words | None = None
    for part in parts:
        bits = _bits_of(part, known)
        if bits is None:
            return None
        result = bits if result is None else result & bits if both else result | bits
    return result


def _packed(flags: npt.NDArray[np.bool_]) -> Words:
    packed = np.packbits(flags, bitorder="little")
    words = np.zeros(-(-len(flags) // WORD_BITS) * 8, np.uint8)
    words[: len(packed)] = packed
    return words.view("<u8").astype(np.uint64, copy=False)

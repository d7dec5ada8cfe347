"""Which rows lie in which key groups together, counted: from a sample, from coefficients, or for pairs only."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from weft.planner.partitioning.workload import Input, Place, SharedRows

SampledRow: TypeAlias = Mapping[str, int]
"""A row of a stream: the key group of each of its attributes."""


@dataclass(frozen=True, slots=True)
class PairShare:
    """Of the rows in a key group of one attribute, the fraction that is in a key group of another."""

    source: Input
    source_group: int
    target: Input
    target_group: int
    share: float
    at: float = 0.0
    """When this was counted, on any scale: shares change over time."""


def count_shared_rows(stream: str, rows: Iterable[SampledRow], *, scale: float = 1.0) -> tuple[SharedRows, ...]:
    """Exact counts of a sample, times `scale`; takes one step per row, however many queries there are."""
    counts = Counter(tuple(sorted(row.items())) for row in rows)
    return tuple(
        SharedRows(stream, tuple(Place(attribute, group, count * scale) for attribute, group in places))
        for places, count in sorted(counts.items())
    )


def count_loads(stream: str, rows: Iterable[SampledRow], key_groups: int) -> dict[Input, tuple[float, ...]]:
    """Rows per attribute and key group of a sample."""
    loads: defaultdict[str, list[float]] = defaultdict(lambda: [0.0] * key_groups)
    for row in rows:
        for attribute, group in row.items():
            loads[attribute][group] += 1
    return {Input(stream, attribute): tuple(each) for attribute, each in sorted(loads.items())}


def from_coefficients(
    stream: str, rows: Mapping[str, Sequence[float]], shared_with: Mapping[str, Sequence[float]]
) -> tuple[SharedRows, ...]:
    """Eq. 4 to the letter: key groups of the same number share Card · SharedWith of their rows."""
    groups = max(map(len, rows.values()), default=0)
    return tuple(
        SharedRows(
            stream,
            tuple(
                Place(attribute, group, each[group] * shared_with[attribute][group])
                for attribute, each in sorted(rows.items())
                if group < len(each)
            ),
        )
        for group in range(groups)
    )


def count_pairs(
    stream: str,
    rows: Sequence[SampledRow],
    *,
    key_groups: int,
    pairs: Iterable[tuple[str, int, str]],
    at: float = 0.0,
) -> list[PairShare]:
    """For each asked (source attribute, key group, target attribute), its shares with all target key groups."""
    asked: defaultdict[tuple[str, int], list[str]] = defaultdict(list)
    for source, group, target in pairs:
        asked[source, group].append(target)
    seen: Counter[tuple[str, int, str, int]] = Counter()
    totals: Counter[tuple[str, int, str]] = Counter()
    for row in rows:
        for place in row.items():
            for target in asked.get(place, ()):
                if target in row:
                    seen[(*place, target, row[target])] += 1
                    totals[(*place, target)] += 1
    return [
        PairShare(
            Input(stream, source),
            group,
            Input(stream, target),
            other,
            seen[source, group, target, other] / max(1, totals[source, group, target]),
            at,
        )
        for (source, group), targets in asked.items()
        for target in targets
        for other in range(key_groups)
    ]

"""Counts of the rows that several key groups share: from a sample, from coefficients, or for pairs only."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from weft.planner.partitioning.workload import PartitionedInput, Place, SharedRows

SampledRow: TypeAlias = Mapping[str, int]
"""A row of a stream, as the key group of each of its attributes."""


@dataclass(frozen=True, slots=True)
class PairShare:
    """The fraction of the rows in a key group of one attribute that are in a key group of another attribute."""

    source: PartitionedInput
    source_group: int
    target: PartitionedInput
    target_group: int
    share: float
    at: float = 0.0
    """The time of the count, on any scale: shares change over time."""


def count_shared_rows(stream: str, rows: Iterable[SampledRow], *, scale: float = 1.0) -> tuple[SharedRows, ...]:
    """Return exact counts of a sample, times `scale`. The time does not depend on the number of queries."""
    counts = Counter(tuple(sorted(row.items())) for row in rows)
    return tuple(
        SharedRows(stream, tuple(Place(attribute, group, count * scale) for attribute, group in places))
        for places, count in sorted(counts.items())
    )


def count_loads(stream: str, rows: Iterable[SampledRow], key_groups: int) -> dict[PartitionedInput, tuple[float, ...]]:
    """Return the rows of a sample per attribute and key group."""
    loads: defaultdict[str, list[float]] = defaultdict(lambda: [0.0] * key_groups)
    for row in rows:
        for attribute, group in row.items():
            loads[attribute][group] += 1
    return {PartitionedInput(stream, attribute): tuple(counts) for attribute, counts in sorted(loads.items())}


def from_coefficients(
    stream: str, rows: Mapping[str, Sequence[float]], shared_with: Mapping[str, Sequence[float]]
) -> tuple[SharedRows, ...]:
    """Return the shared rows of eq. 4 as written: key groups with the same number share Card · SharedWith rows."""
    groups = max(map(len, rows.values()), default=0)
    return tuple(
        SharedRows(
            stream,
            tuple(
                Place(attribute, group, group_rows[group] * shared_with[attribute][group])
                for attribute, group_rows in sorted(rows.items())
                if group < len(group_rows)
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
    """Return the shares with all target key groups for each (source attribute, key group, target attribute)."""
    targets_of: defaultdict[tuple[str, int], list[str]] = defaultdict(list)
    for source, group, target in pairs:
        targets_of[source, group].append(target)
    counts: Counter[tuple[str, int, str, int]] = Counter()
    totals: Counter[tuple[str, int, str]] = Counter()
    for row in rows:
        for place in row.items():
            for target in targets_of.get(place, ()):
                if target in row:
                    counts[(*place, target, row[target])] += 1
                    totals[(*place, target)] += 1
    return [
        PairShare(
            PartitionedInput(stream, source),
            group,
            PartitionedInput(stream, target),
            other,
            counts[source, group, target, other] / max(1, totals[source, group, target]),
            at,
        )
        for (source, group), targets in targets_of.items()
        for target in targets
        for other in range(key_groups)
    ]

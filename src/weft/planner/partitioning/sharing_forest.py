"""Sharing statistics that a random forest learns from some key groups, instead of counts of all (SASPAR IV, ML).

As in the paper, the features are source, source key group, target, target key group and time; the forest predicts the
share. Only pairs along a tree of attributes are predicted, and joint counts are computed from them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from weft.extras import extra
from weft.planner.partitioning.sharing_counts import PairShare
from weft.planner.partitioning.workload import PartitionedInput, Place, SharedRows

_LEAST_SHARE = 0.01
"""Smaller predicted shares are treated as noise."""
_MOST_CELLS = 4096

_Shares: TypeAlias = dict[int, list[tuple[int, float]]]
"""Source key group → (target key group, share)."""


_Cell: TypeAlias = tuple[tuple[Place, ...], float]


class _Numbers(Protocol):
    """The array that the library returns."""

    def tolist(self) -> list[float]: ...


class _Regressor(Protocol):
    """The used part of scikit-learn's regressor, which has no types."""

    def fit(self, rows: Sequence[Sequence[float]], answers: Sequence[float], /) -> object: ...

    def predict(self, rows: Sequence[Sequence[float]], /) -> _Numbers: ...


@dataclass(frozen=True, slots=True)
class SharingForest:
    """A trained forest, and the numbers that stand for inputs in its features."""

    forest: _Regressor
    numbers: Mapping[PartitionedInput, int]

    def shares(
        self, source: PartitionedInput, target: PartitionedInput, *, key_groups: int, at: float = 0.0
    ) -> _Shares:
        """Return predicted shares of every source key group with every target key group; none for unknown inputs.

        The shares of one source key group add up to at most 1.
        """
        if source not in self.numbers or target not in self.numbers:
            return {}
        first, second = self.numbers[source], self.numbers[target]
        features = [(first, group, second, other, at) for group in range(key_groups) for other in range(key_groups)]
        predicted = self.forest.predict(features).tolist()
        by_group: _Shares = {}
        for group in range(key_groups):
            row = predicted[group * key_groups : (group + 1) * key_groups]
            kept = [(other, share) for other, share in enumerate(row) if share >= _LEAST_SHARE]
            total = max(1.0, sum(share for _, share in kept))
            by_group[group] = [(other, share / total) for other, share in kept]
        return by_group


def train_forest(samples: Sequence[PairShare], *, seed: int = 0, trees: int = 32) -> SharingForest:
    """Train a forest on samples. The same samples and seed give the same forest."""
    # scikit-learn is optional, and importing it takes longer than most choices.
    with extra("learned"):
        from sklearn.ensemble import RandomForestRegressor

    inputs = sorted({input_ for sample in samples for input_ in (sample.source, sample.target)})
    numbers = {input_: number for number, input_ in enumerate(inputs)}
    forest: _Regressor = RandomForestRegressor(n_estimators=trees, random_state=seed, n_jobs=1)
    rows = [_features(sample, numbers) for sample in samples]
    if rows:
        forest.fit(rows, [sample.share for sample in samples])
    return SharingForest(forest, numbers)


def mean_error(forest: SharingForest, samples: Sequence[PairShare]) -> float:
    """Return the mean absolute error of predicted shares on samples of known inputs."""
    known = [sample for sample in samples if {sample.source, sample.target} <= forest.numbers.keys()]
    if not known:
        return 0.0
    predicted = forest.forest.predict([_features(sample, forest.numbers) for sample in known]).tolist()
    return sum(abs(share - sample.share) for share, sample in zip(predicted, known, strict=True)) / len(known)


def predict_shared_rows(
    forest: SharingForest, loads: Mapping[PartitionedInput, Sequence[float]], *, at: float = 0.0
) -> tuple[SharedRows, ...]:
    """Return the predicted shared rows of every stream with more than one attribute.

    Shares are predicted from the heaviest attribute of a stream. Given its key group, the other attributes are assumed
    to be independent of each other.
    """
    by_stream: defaultdict[str, list[PartitionedInput]] = defaultdict(list)
    for input_ in sorted(loads):
        by_stream[input_.stream].append(input_)
    shared_rows: list[SharedRows] = []
    for stream, inputs in by_stream.items():
        root = max(inputs, key=lambda input_: sum(loads[input_]))
        cells: list[_Cell] = [
            ((Place(root.attribute, group, rows),), rows) for group, rows in enumerate(loads[root]) if rows > 0
        ]
        for target in inputs:
            if target != root:
                shares = forest.shares(root, target, key_groups=len(loads[root]), at=at)
                cells = _split(cells, target.attribute, shares)
        shared_rows.extend(
            SharedRows(stream, tuple(Place(place.attribute, place.key_group, rows) for place in places))
            for places, rows in cells
            if len(places) > 1
        )
    return tuple(shared_rows)


def _split(cells: Sequence[_Cell], attribute: str, shares: _Shares) -> list[_Cell]:
    """Divide cells by the key groups of one more attribute, the heaviest first, up to the largest number of cells."""
    divided: list[_Cell] = []
    room = _MOST_CELLS - len(cells)
    for places, rows in sorted(cells, key=lambda cell: -cell[1]):
        parts = shares.get(places[0].key_group, [])
        if len(parts) > room:
            divided.append((places, rows))
            continue
        room -= len(parts)
        divided.extend(((*places, Place(attribute, group, 0.0)), rows * share) for group, share in parts)
        remaining = 1.0 - sum(share for _, share in parts)
        if remaining > _LEAST_SHARE:
            divided.append((places, rows * remaining))
    return divided


def _features(sample: PairShare, numbers: Mapping[PartitionedInput, int]) -> tuple[int, int, int, int, float]:
    return (
        numbers[sample.source],
        sample.source_group,
        numbers[sample.target],
        sample.target_group,
        sample.at,
    )

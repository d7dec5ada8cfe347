"""Sharing statistics learned from some key groups instead of counted for all (SASPAR IV, ML): a random forest.

Its features are the paper's: source and its key group, target and its key group, time; it predicts the share. Only
pairs along a tree of attributes are asked for, and joint counts are put together from them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from weft.extras import extra
from weft.planner.partitioning.sharing_counts import PairShare
from weft.planner.partitioning.workload import Input, Place, SharedRows

_LEAST_SHARE = 0.01
"""A smaller predicted share is noise."""
_MOST_CELLS = 4096

_Shares: TypeAlias = dict[int, list[tuple[int, float]]]
"""Source key group → (target key group, share)."""


_Cell: TypeAlias = tuple[tuple[Place, ...], float]


class _Numbers(Protocol):
    """What the library answers with: an array."""

    def tolist(self) -> list[float]: ...


class _Regressor(Protocol):
    """The part of the library's regressor that is used; it is not typed."""

    def fit(self, rows: Sequence[Sequence[float]], answers: Sequence[float], /) -> object: ...

    def predict(self, rows: Sequence[Sequence[float]], /) -> _Numbers: ...


@dataclass(frozen=True, slots=True)
class SharingForest:
    """A trained forest and the numbers by which it knows the inputs."""

    forest: _Regressor
    numbers: Mapping[Input, int]

    def shares(self, source: Input, target: Input, *, key_groups: int, at: float = 0.0) -> _Shares:
        """Predicted shares of every source key group with every target key group, none if an input is unknown.

        Shares of one source add up to at most 1.
        """
        if source not in self.numbers or target not in self.numbers:
            return {}
        first, second = self.numbers[source], self.numbers[target]
        asked = [(first, group, second, other, at) for group in range(key_groups) for other in range(key_groups)]
        predicted = self.forest.predict(asked).tolist()
        found: _Shares = {}
        for group in range(key_groups):
            row = predicted[group * key_groups : (group + 1) * key_groups]
            kept = [(other, share) for other, share in enumerate(row) if share >= _LEAST_SHARE]
            total = max(1.0, sum(share for _, share in kept))
            found[group] = [(other, share / total) for other, share in kept]
        return found


def train_forest(samples: Sequence[PairShare], *, seed: int = 0, trees: int = 32) -> SharingForest:
    """A forest that has seen the samples; the same samples and seed give the same forest."""
    # scikit-learn takes longer to import than most choices take, and it is optional.
    with extra("learned"):
        from sklearn.ensemble import RandomForestRegressor

    inputs = sorted({each for sample in samples for each in (sample.source, sample.target)})
    numbers = {each: number for number, each in enumerate(inputs)}
    forest: _Regressor = RandomForestRegressor(n_estimators=trees, random_state=seed, n_jobs=1)
    rows = [_features(sample, numbers) for sample in samples]
    if rows:
        forest.fit(rows, [sample.share for sample in samples])
    return SharingForest(forest, numbers)


def mean_error(forest: SharingForest, samples: Sequence[PairShare]) -> float:
    """The mean absolute error of predicted shares on samples of known inputs."""
    known = [sample for sample in samples if {sample.source, sample.target} <= forest.numbers.keys()]
    if not known:
        return 0.0
    predicted = forest.forest.predict([_features(sample, forest.numbers) for sample in known]).tolist()
    return sum(abs(share - sample.share) for share, sample in zip(predicted, known, strict=True)) / len(known)


def predict_shared_rows(
    forest: SharingForest, loads: Mapping[Input, Sequence[float]], *, at: float = 0.0
) -> tuple[SharedRows, ...]:
    """Shared rows of every stream with more than one attribute, as the forest expects them.

    Attributes hang on the heaviest of their stream; beyond that they are taken to be independent.
    """
    by_stream: defaultdict[str, list[Input]] = defaultdict(list)
    for each in sorted(loads):
        by_stream[each.stream].append(each)
    found: list[SharedRows] = []
    for stream, inputs in by_stream.items():
        root = max(inputs, key=lambda each: sum(loads[each]))
        cells: list[_Cell] = [
            ((Place(root.attribute, group, rows),), rows) for group, rows in enumerate(loads[root]) if rows > 0
        ]
        for target in inputs:
            if target != root:
                shares = forest.shares(root, target, key_groups=len(loads[root]), at=at)
                cells = _split(cells, target.attribute, shares)
        found.extend(
            SharedRows(stream, tuple(Place(place.attribute, place.key_group, rows) for place in places))
            for places, rows in cells
            if len(places) > 1
        )
    return tuple(found)


def _split(cells: Sequence[_Cell], attribute: str, shares: _Shares) -> list[_Cell]:
    """Each cell divided by where its rows are for one more attribute, the heaviest first while there is room."""
    divided: list[_Cell] = []
    room = _MOST_CELLS - len(cells)
    for places, rows in sorted(cells, key=lambda cell: -cell[1]):
        parts = shares.get(places[0].key_group, [])
        if len(parts) > room:
            divided.append((places, rows))
            continue
        room -= len(parts)
        divided.extend(((*places, Place(attribute, group, 0.0)), rows * share) for group, share in parts)
        rest = 1.0 - sum(share for _, share in parts)
        if rest > _LEAST_SHARE:
            divided.append((places, rows * rest))
    return divided


def _features(sample: PairShare, numbers: Mapping[Input, int]) -> tuple[int, int, int, int, float]:
    return (
        numbers[sample.source],
        sample.source_group,
        numbers[sample.target],
        sample.target_group,
        sample.at,
    )

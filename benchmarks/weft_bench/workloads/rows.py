"""Rows of the generated streams: a key by some distribution, and attributes that are equally distributed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import assert_never

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from weft_bench.data import ATTRIBUTES, DOMAIN

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Uniform:
    """All keys alike, at random."""

    keys: int


@dataclass(frozen=True, slots=True)
class InTurn:
    """All keys one after the other, as AStream's generator has them."""

    keys: int


@dataclass(frozen=True, slots=True)
class Zipf:
    """The n-th key comes with a probability proportional to n to the power of −exponent."""

    keys: int
    exponent: float


@dataclass(frozen=True, slots=True)
class OneHot:
    """Key 0 has this share of the rows, the others have the rest, all alike; a share of 1 is a single key."""

    keys: int
    share: float


Keys = Uniform | InTurn | Zipf | OneHot


def keys_of(skew: str, keys: int) -> Keys:
    """The distribution that a text says: uniform, turn, zipf:<exponent> or one:<share>; raises ValueError otherwise."""
    kind, _, figure = skew.partition(":")
    match kind:
        case "uniform":
            return Uniform(keys)
        case "turn":
            return InTurn(keys)
        case "zipf":
            return Zipf(keys, float(figure or 1))
        case "one":
            return OneHot(keys, float(figure or 1))
        case _:
            raise ValueError(f'no keys are distributed as "{skew}"; there are uniform, turn, zipf:0.8 and one:0.01')


def draw_keys(keys: Keys, rng: np.random.Generator, numbers: Numbers) -> Numbers:
    """A key for each row."""
    match keys:
        case Uniform():
            return rng.integers(0, keys.keys, len(numbers))
        case InTurn():
            return numbers % keys.keys
        case Zipf():
            return np.searchsorted(_steps(keys), rng.random(len(numbers)), side="right").astype(np.int64)
        case OneHot():
            others = rng.integers(0, keys.keys, len(numbers))
            return np.where(rng.random(len(numbers)) < keys.share, 0, others)
        case _:
            assert_never(keys)


@cache
def _steps(keys: Zipf) -> npt.NDArray[np.float64]:
    """Where in 0 … 1 each key but the last one ends."""
    weights = np.arange(1, keys.keys + 1, dtype=np.float64) ** -keys.exponent
    return np.cumsum(weights / weights.sum())[:-1]


def twins(keys: Keys) -> float:
    """The probability that two rows have the same key."""
    match keys:
        case Uniform() | InTurn():
            return 1 / keys.keys
        case Zipf():
            edges = np.concatenate(([0.0], _steps(keys), [1.0]))
            return float(np.sum(np.diff(edges) ** 2))
        case OneHot():
            rest = (1 - keys.share) / keys.keys
            return (keys.share + rest) ** 2 + (keys.keys - 1) * rest**2
        case _:
            assert_never(keys)


@dataclass(frozen=True, slots=True)
class KeyedRows:
    """Makes columns k, if there are keys, and f0 … of one stream; streams differ by `salt`, with any randomness."""

    keys: Keys | None
    salt: int = 0
    attributes: int = ATTRIBUTES
    domain: int = DOMAIN

    def __call__(self, rng: np.random.Generator, numbers: Numbers) -> Mapping[str, pa.Array]:
        """All columns but the event time."""
        own = np.random.default_rng((self.salt, int(rng.integers(1 << 62))))
        columns = {} if self.keys is None else {"k": pa.array(draw_keys(self.keys, own, numbers))}
        for number in range(self.attributes):
            columns[f"f{number}"] = pa.array(own.integers(0, self.domain, len(numbers), dtype=np.int32))
        return columns


def keyed_columns(attributes: int = ATTRIBUTES) -> dict[str, str]:
    """The columns of a stream with keyed rows, with their types."""
    return {"ts": "timestamp", "k": "bigint"} | {f"f{number}": "int" for number in range(attributes)}

"""The thesis' game (3.5): purchases of gem packs, and ads for them shown to users."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from weft_bench.workloads.model import StreamSpec, Workload
from weft_bench.workloads.predicates import LEAST, MOST
from weft_bench.workloads.rows import Keys, Numbers, Uniform, draw_keys, keys_of, twins
from weft_bench.workloads.say import QueryList
from weft_bench.workloads.shapes import Aggregate, Function, Grouped, Output, Relation, Sliding, WindowJoin

DEAREST = 100
"""Prices are 1 … DEAREST."""
USERS = 100_000
MATCHES = 0.08
"""Ads that a purchase meets in a window, on average."""
_PURCHASES = {"ts": "timestamp", "user_id": "bigint", "gem_pack": "int", "price": "int"}
_ADS = {"ts": "timestamp", "user_id": "bigint", "gem_pack": "int"}


@dataclass(frozen=True, slots=True)
class GameRows:
    """Makes the columns of purchases, or of ads, which have no price.

    The gem pack that comes most often has the highest number, so that it passes every query's selection.
    """

    users: Keys
    packs: Keys
    priced: bool

    def __call__(self, rng: np.random.Generator, numbers: Numbers) -> Mapping[str, pa.Array]:
        """All columns but the event time."""
        own = np.random.default_rng((int(self.priced), int(rng.integers(1 << 62))))
        columns = {
            "user_id": pa.array(draw_keys(self.users, own, numbers)),
            "gem_pack": pa.array((self.packs.keys - 1 - draw_keys(self.packs, own, numbers)).astype(np.int32)),
        }
        if self.priced:
            columns["price"] = pa.array(own.integers(1, DEAREST + 1, len(numbers), dtype=np.int32))
        return columns


def _above(rng: np.random.Generator, packs: int, *, observed: bool) -> int:
    """PARAM_VAL of figure 3.21: gem packs above it pass; those of an observed query are some and not all."""
    low, high = (round(packs * (1 - MOST)), round(packs * (1 - LEAST))) if observed else (0, packs - 1)
    return int(rng.integers(low, max(high, low + 1)))


@dataclass(frozen=True, slots=True)
class PurchaseJoins:
    """By its number, purchases with the ads for the same pack that the user has seen in the same window."""

    seed: int
    packs: int
    window: Sliding
    observed: int

    def __call__(self, number: int) -> WindowJoin:
        """The query with this number."""
        rng = np.random.default_rng((self.seed, number))
        bought, shown = (_above(rng, self.packs, observed=number < self.observed) for _ in range(2))
        return WindowJoin(
            relations=(Relation("purchases", "p"), Relation("ads", "a")),
            conditions=(
                "p.user_id = a.user_id",
                "p.gem_pack = a.gem_pack",
                f"p.gem_pack > {bought}",
                f"a.gem_pack > {shown}",
            ),
            outputs=(Output("p.user_id", "user_id"), Output("p.gem_pack", "gem_pack"), Output("p.price", "price")),
            window=self.window,
        )


@dataclass(frozen=True, slots=True)
class PurchaseSums:
    """By its number, the revenue of each gem pack above some."""

    seed: int
    packs: int
    window: Sliding
    observed: int

    def __call__(self, number: int) -> Grouped:
        """The query with this number."""
        rng = np.random.default_rng((self.seed, number))
        observed = number < self.observed
        return Grouped(
            relations=(Relation("purchases", "p"),),
            conditions=(f"p.gem_pack > {_above(rng, self.packs, observed=observed)}",),
            keys=(Output("p.gem_pack", "gem_pack"),),
            aggregates=(Aggregate(Function.SUM, "p.price", "revenue"),),
            window=self.window,
            observed=observed,
        )


def purchases(
    *,
    seed: int = 7,
    users: int = USERS,
    packs: int = 100,
    seconds: int = 8,
    slide: int = 4,
    rate: int | None = None,
    skew: str = "uniform",
    observed: int = 1,
) -> Workload:
    """Purchases ⋈ ads; `skew` is of users.

    Unless `rate` (rows per event-second and stream) is given, it is such that a purchase meets MATCHES ads in a
    window before selection: the thesis keeps the join's selectivity low so that results are no bottleneck.
    """
    buyers, offers = keys_of(skew, users), Uniform(packs)
    if rate is None:
        rate = max(1, round(MATCHES / (seconds * twins(buyers) * twins(offers))))
    return Workload(
        name="purchases",
        title=f"purchases ⋈ ads, windows of {seconds} s every {slide} s, {skew} users (thesis 3.5)",
        streams=(
            StreamSpec("purchases", _PURCHASES, GameRows(buyers, offers, priced=True), 0.5),
            StreamSpec("ads", _ADS, GameRows(buyers, offers, priced=False), 0.5),
        ),
        queries=QueryList(PurchaseJoins(seed, packs, Sliding(seconds, slide), observed)),
        rows_per_second=2 * rate,
    )


def purchases_aggregation(
    *,
    seed: int = 7,
    packs: int = 1_000,
    seconds: int = 8,
    slide: int = 4,
    rate: int = 400_000,
    skew: str = "uniform",
    observed: int = 1,
) -> Workload:
    """The revenue of each gem pack; `skew` is of gem packs, "one" is the single key of 3.6.2.5."""
    offers = keys_of(skew, packs)
    return Workload(
        name="purchases-aggregation",
        title=f"sum of prices by gem pack, windows of {seconds} s every {slide} s, {skew} gem packs (thesis 3.5)",
        streams=(StreamSpec("purchases", _PURCHASES, GameRows(Uniform(USERS), offers, priced=True)),),
        queries=QueryList(PurchaseSums(seed, packs, Sliding(seconds, slide), observed)),
        rows_per_second=rate,
    )

"""Nexmark's streams: persons, auctions and bids in 1 : 3 : 46, with ids that grow and a few hot ones.

Written after the description and defaults of Nexmark's generator; names and texts are shorter. A row's number says how
many rows of the other streams come before it, hence which ids there are: rows have to be made by their true numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import numpy as np
import pyarrow as pa

from weft_bench.workloads.model import StreamSpec
from weft_bench.workloads.rows import Numbers

PERSONS, AUCTIONS, BIDS = 1, 3, 46
"""Rows of each stream in every fifty: first the person, then the auctions, then the bids."""
EVERY = PERSONS + AUCTIONS + BIDS
FIRST_ID = 1_000
FIRST_CATEGORY, CATEGORIES = 10, 5
ACTIVE_PERSONS, IN_FLIGHT = 1_000, 100
"""How many of the newest persons and auctions are still to be met."""
PERSON_LEAD, AUCTION_LEAD = 10, 10
"""Ids that are named before they exist."""
HOT_SELLERS, HOT_BIDDERS, HOT_AUCTIONS, HOT_CHANNELS = 4, 4, 2, 2
"""All but one in so many name a hot one."""
HOT_STEP = 100
"""One id in so many is hot, for a while."""
STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
CITIES = (
    "Phoenix",
    "Los Angeles",
    "San Francisco",
    "Boise",
    "Portland",
    "Bend",
    "Redmond",
    "Seattle",
    "Kent",
    "Cheyenne",
)
POPULAR = ("Google", "Facebook", "Baidu", "Apple")
CHANNELS = 1_000
_TEXTS = 256


def _next_ids(rng: np.random.Generator, newest: Numbers, *, among: int, lead: int) -> Numbers:
    """Ids of one of the newest `among`, or of the next `lead` ones, which are still to come."""
    first = np.maximum(newest - among + 1, 0)
    return first + (rng.random(len(newest)) * (newest - first + 1 + lead)).astype(np.int64)


def _mixed(rng: np.random.Generator, ratio: int, hot: Numbers, cold: Numbers) -> Numbers:
    return np.where(rng.random(len(hot)) * ratio >= 1, hot, cold)


def _prices(rng: np.random.Generator, count: int) -> Numbers:
    """Cents, equally distributed by their logarithm: from one dollar to a million."""
    return np.round(np.power(10.0, rng.random(count) * 6) * 100).astype(np.int64)


@cache
def _pool(salt: int, length: int) -> pa.Array:
    rng = np.random.default_rng(salt)
    letters = rng.integers(ord("a"), ord("z") + 1, (_TEXTS, length), dtype=np.uint8)
    return pa.array([bytes(each).decode() for each in letters], pa.string())


def _texts(rng: np.random.Generator, count: int, *, salt: int, length: int) -> pa.Array:
    return _pool(salt, length).take(pa.array(rng.integers(0, _TEXTS, count, dtype=np.int16)))


def _chosen(rng: np.random.Generator, count: int, values: tuple[str, ...]) -> pa.Array:
    return pa.array(values, pa.string()).take(pa.array(rng.integers(0, len(values), count, dtype=np.int16)))


@cache
def _channels() -> tuple[pa.Array, pa.Array]:
    """Names of channels, the popular ones first, and their addresses."""
    others = range(CHANNELS)
    folders = _pool(4, 5).to_pylist()
    names = [*POPULAR, *(f"channel-{number}" for number in others)]
    urls = [
        f"https://www.nexmark.com/{folders[at % _TEXTS]}/{folders[at * 7 % _TEXTS]}/item" for at in range(len(names))
    ]
    marked = [url if at < len(POPULAR) else f"{url}?channel_id={at}" for at, url in enumerate(urls)]
    return pa.array(names, pa.string()), pa.array(marked, pa.string())


@dataclass(frozen=True, slots=True)
class PersonRows:
    """Makes persons."""

    live: ClassVar[bool] = True

    def __call__(self, rng: np.random.Generator, numbers: Numbers) -> Mapping[str, pa.Array]:
        """All columns but the event time."""
        count = len(numbers)
        return {
            "id": pa.array(FIRST_ID + numbers),
            "name": _texts(rng, count, salt=1, length=10),
            "email": _texts(rng, count, salt=2, length=14),
            "city": _chosen(rng, count, CITIES),
            "state": _chosen(rng, count, STATES),
        }


@dataclass(frozen=True, slots=True)
class AuctionRows:
    """Makes auctions: three out of four are sold by a hot seller."""

    live: ClassVar[bool] = True

    def __call__(self, rng: np.random.Generator, numbers: Numbers) -> Mapping[str, pa.Array]:
        """All columns but the event time."""
        count, persons = len(numbers), numbers // AUCTIONS
        hot = persons // HOT_STEP * HOT_STEP
        cold = _next_ids(rng, persons, among=ACTIVE_PERSONS, lead=PERSON_LEAD)
        first = _prices(rng, count)
        return {
            "id": pa.array(FIRST_ID + numbers),
            "item": _texts(rng, count, salt=3, length=12),
            "initial_bid": pa.array(first),
            "reserve": pa.array(first + _prices(rng, count)),
            "seller": pa.array(FIRST_ID + _mixed(rng, HOT_SELLERS, hot, cold)),
            "category": pa.array(rng.integers(FIRST_CATEGORY, FIRST_CATEGORY + CATEGORIES, count)),
        }


@dataclass(frozen=True, slots=True)
class BidRows:
    """Makes bids: half of them on a hot auction, three out of four by a hot bidder, half through a popular channel."""

    live: ClassVar[bool] = True

    def __call__(self, rng: np.random.Generator, numbers: Numbers) -> Mapping[str, pa.Array]:
        """All columns but the event time."""
        count, rounds = len(numbers), numbers // BIDS
        auctions = rounds * AUCTIONS + AUCTIONS - 1
        cold_auctions = _next_ids(rng, auctions, among=IN_FLIGHT, lead=AUCTION_LEAD)
        cold_bidders = _next_ids(rng, rounds, among=ACTIVE_PERSONS, lead=PERSON_LEAD)
        hot_auctions = auctions // HOT_STEP * HOT_STEP
        hot_bidders = rounds // HOT_STEP * HOT_STEP + 1
        popular = rng.integers(0, len(POPULAR), count)
        others = rng.integers(len(POPULAR), len(POPULAR) + CHANNELS, count)
        channel = pa.array(_mixed(rng, HOT_CHANNELS, popular, others))
        names, urls = _channels()
        return {
            "auction": pa.array(FIRST_ID + _mixed(rng, HOT_AUCTIONS, hot_auctions, cold_auctions)),
            "bidder": pa.array(FIRST_ID + _mixed(rng, HOT_BIDDERS, hot_bidders, cold_bidders)),
            "price": pa.array(_prices(rng, count)),
            "channel": names.take(channel),
            "url": urls.take(channel),
        }


def streams() -> tuple[StreamSpec, ...]:
    """The three streams."""
    person = {"ts": "timestamp", "id": "bigint", "name": "string", "email": "string", "city": "string"}
    auction = {"ts": "timestamp", "id": "bigint", "item": "string", "initial_bid": "bigint", "reserve": "bigint"}
    bid = {"ts": "timestamp", "auction": "bigint", "bidder": "bigint", "price": "bigint", "channel": "string"}
    return (
        StreamSpec("person", person | {"state": "string"}, PersonRows(), PERSONS / EVERY),
        StreamSpec("auction", auction | {"seller": "bigint", "category": "bigint"}, AuctionRows(), AUCTIONS / EVERY),
        StreamSpec("bid", bid | {"url": "string"}, BidRows(), BIDS / EVERY),
    )

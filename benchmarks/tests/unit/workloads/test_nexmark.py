from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow.compute as pc
import pytest

from weft_bench.workloads.model import Dialect
from weft_bench.workloads.nexmark import nexmark
from weft_bench.workloads.nexmark_queries import DIFFERENT, MISSING, TEMPLATES
from weft_bench.workloads.nexmark_rows import ACTIVE_PERSONS, FIRST_ID, HOT_STEP, IN_FLIGHT, POPULAR, streams

PERSON, AUCTION, BID = streams()
ROUND = 20_000
"""How many times fifty rows have come before those that are looked at."""


def test_streams_come_in_one_to_three_to_forty_six() -> None:
    assert [round(each.share * 50) for each in streams()] == [1, 3, 46]


def test_rows_want_to_be_made_by_their_true_numbers() -> None:
    assert all(getattr(each.make, "live", False) for each in streams())


def test_ids_grow() -> None:
    for stream in (PERSON, AUCTION):
        made = stream.make(np.random.default_rng(1), np.arange(70, 80))
        assert made["id"].to_pylist() == list(range(FIRST_ID + 70, FIRST_ID + 80))


def test_auctions_are_sold_by_persons_who_have_just_come() -> None:
    made = AUCTION.make(np.random.default_rng(1), np.arange(3 * ROUND, 3 * ROUND + 3000))
    sellers = made["seller"].to_numpy() - FIRST_ID
    assert sellers.min() >= ROUND - ACTIVE_PERSONS - HOT_STEP
    assert sellers.max() < ROUND + 1000 + 20
    assert np.mean(sellers % HOT_STEP == 0) == pytest.approx(0.75, abs=0.05)
    assert set(made["category"].to_pylist()) == {10, 11, 12, 13, 14}
    assert pc.all(pc.greater(made["reserve"], made["initial_bid"])).as_py()


def test_bids_are_on_auctions_in_flight_half_of_them_on_a_hot_one() -> None:
    made = BID.make(np.random.default_rng(1), np.arange(46 * ROUND, 46 * ROUND + 4600))
    auctions = made["auction"].to_numpy() - FIRST_ID
    assert auctions.min() >= 3 * ROUND - IN_FLIGHT - HOT_STEP
    assert auctions.max() < 3 * (ROUND + 100) + 20
    assert np.mean(auctions % HOT_STEP == 0) == pytest.approx(0.5, abs=0.05)
    bidders = made["bidder"].to_numpy() - FIRST_ID
    assert np.mean(bidders % HOT_STEP == 1) == pytest.approx(0.75, abs=0.05)
    channels = Counter(made["channel"].to_pylist())
    assert sum(channels[name] for name in POPULAR) / 4600 == pytest.approx(0.5, abs=0.05)
    assert made["price"].to_numpy().min() >= 100
    assert made["price"].to_numpy().max() <= 100_000_000


def test_the_first_rows_name_nobody_before_the_first() -> None:
    for stream, column in ((AUCTION, "seller"), (BID, "auction"), (BID, "bidder")):
        made = stream.make(np.random.default_rng(1), np.arange(200))
        assert made[column].to_numpy().min() >= FIRST_ID


def test_a_bid_finds_its_auction_within_the_window() -> None:
    """Otherwise the joins would be empty."""
    queries = nexmark(templates="q20").queries(1)
    assert "[RANGE 10 SECONDS]" in queries[0].texts[Dialect.WEFT]
    made = BID.make(np.random.default_rng(1), np.arange(46 * ROUND, 46 * ROUND + 460))
    away = np.abs(made["auction"].to_numpy() - FIRST_ID - 3 * ROUND)
    assert away.max() / (nexmark().rows_per_second * AUCTION.share) < 1


def test_every_query_of_nexmark_is_accounted_for() -> None:
    assert set(TEMPLATES) | set(MISSING) == {f"q{number}" for number in range(23)}
    assert not set(TEMPLATES) & set(MISSING)
    assert set(DIFFERENT) <= set(TEMPLATES)


def test_own_parameters_come_first_then_random_ones() -> None:
    queries = nexmark(templates="q2,q3").queries(6)
    assert [each.name for each in queries] == ["q2_0", "q3_0", "q2_1", "q3_1", "q2_2", "q3_2"]
    assert "MOD(b.auction, 123) = 0" in queries[0].texts[Dialect.WEFT]
    assert "p.state IN ('OR', 'ID', 'CA')" in queries[1].texts[Dialect.WEFT]
    assert len({each.texts[Dialect.WEFT] for each in queries}) == 6


def test_a_thousand_queries_differ() -> None:
    texts = {each.texts[Dialect.WEFT] for each in nexmark().queries(1000)}
    assert len(texts) > 800


def test_templates_can_be_chosen_and_named_wrongly() -> None:
    assert {each.name[:2] for each in nexmark(templates=("q7",)).queries(3)} == {"q7"}
    with pytest.raises(ValueError, match="no template is named q4; there are q3"):
        nexmark(templates="q3,q4")

"""Nexmark's queries as shapes: what weft can express of each, and why not the rest.

A template gives the query with Nexmark's own parameters first, then with random ones. Queries that have none, or that
pass every bid, are of a random part of the auctions from then on: nobody runs a hundred copies of a stream.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from weft_bench.workloads.nexmark_rows import CATEGORIES, FIRST_CATEGORY, POPULAR, STATES
from weft_bench.workloads.shapes import (
    Aggregate,
    Function,
    Grouped,
    NearJoin,
    Output,
    Relation,
    Selection,
    Session,
    Shape,
    Sliding,
)

LONGEST = 10
"""Seconds of Nexmark's windows."""
CHEAP, DEAR = 10_000, 1_000_000
"""Prices, in cents, between the ranks of queries 15 to 17."""
_PERSON, _AUCTION, _BID = Relation("person", "p"), Relation("auction", "a"), Relation("bid", "b")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Draw:
    """Parameters of one query: Nexmark's own, or random ones."""

    rng: np.random.Generator
    own: bool
    observed: bool

    def pick(self, own: T, others: Sequence[T]) -> T:
        """A parameter."""
        return own if self.own else others[int(self.rng.integers(len(others)))]

    def seconds(self, own: int = LONGEST) -> int:
        """A window's length."""
        return self.pick(own, range(1, LONGEST + 1))

    def tumbling(self) -> Sliding:
        """Windows one after the other."""
        seconds = self.seconds()
        return Sliding(seconds, seconds)

    def part(self) -> tuple[str, ...]:
        """A condition that a random part of the auctions meets; none with Nexmark's own parameters."""
        if self.own:
            return ()
        modulus = int(self.rng.integers(20, 500))
        return (f"MOD(b.auction, {modulus}) = {self.rng.integers(modulus)}",)


def _outputs(alias: str, *names: str) -> tuple[Output, ...]:
    return tuple(Output(f"{alias}.{name}", name) for name in names)


def _q0(draw: Draw) -> Shape:
    return Selection(_BID, draw.part(), _outputs("b", "auction", "bidder", "price"))


def _q1(draw: Draw) -> Shape:
    rate = draw.pick("0.908", [f"0.{digits}" for digits in range(700, 1000)])
    price = Output(f"b.price * {rate}E0", "price")
    return Selection(_BID, draw.part(), (*_outputs("b", "auction", "bidder"), price))


def _q2(draw: Draw) -> Shape:
    modulus = draw.pick(123, range(20, 500))
    return Selection(_BID, (f"MOD(b.auction, {modulus}) = 0",), _outputs("b", "auction", "price"))


def _q3(draw: Draw) -> Shape:
    states = draw.pick(("OR", "ID", "CA"), [tuple(np.roll(STATES, by)[:3]) for by in range(len(STATES))])
    named = ", ".join(f"'{state}'" for state in states)
    return NearJoin(
        relations=(_AUCTION, _PERSON),
        conditions=("a.seller = p.id", f"a.category = {_category(draw)}", f"p.state IN ({named})"),
        outputs=(*_outputs("p", "name", "city", "state"), Output("a.id", "id")),
        seconds=draw.seconds(),
    )


def _category(draw: Draw) -> int:
    return draw.pick(FIRST_CATEGORY, range(FIRST_CATEGORY, FIRST_CATEGORY + CATEGORIES))


def _q5(draw: Draw) -> Shape:
    return Grouped(
        relations=(_BID,),
        conditions=(),
        keys=_outputs("b", "auction"),
        aggregates=(Aggregate(Function.COUNT, "*", "num"),),
        window=draw.pick(
            Sliding(LONGEST, 2), [Sliding(s, d) for s in range(2, LONGEST + 1) for d in (1, 2) if s % d == 0]
        ),
        having=f"COUNT(*) >= {draw.pick(100, range(20, 200))}",
        observed=draw.observed,
    )


def _q7(draw: Draw) -> Shape:
    highest = Aggregate(Function.MAX, "b.price", "price")
    return Grouped((_BID,), draw.part(), (), (highest,), draw.tumbling(), observed=draw.observed)


def _q8(draw: Draw) -> Shape:
    return Grouped(
        relations=(_PERSON, _AUCTION),
        conditions=("p.id = a.seller", *((f"a.category = {_category(draw)}",) if not draw.own else ())),
        keys=_outputs("p", "id", "name"),
        aggregates=(Aggregate(Function.COUNT, "*", "auctions"),),
        window=draw.tumbling(),
        observed=draw.observed,
    )


def _q9(draw: Draw) -> Shape:
    return NearJoin(
        relations=(_AUCTION, _BID),
        conditions=("a.id = b.auction", "b.price >= a.reserve", *draw.part()),
        outputs=(*_outputs("a", "id", "item", "reserve", "seller"), *_outputs("b", "bidder", "price")),
        seconds=draw.seconds(),
        after=True,
    )


def _q11(draw: Draw) -> Shape:
    part = (f"MOD(b.auction, 10) = {draw.rng.integers(10)}",) if not draw.own else ()
    count = Aggregate(Function.COUNT, "*", "bids")
    return Grouped((_BID,), part, _outputs("b", "bidder"), (count,), Session(draw.seconds()), observed=draw.observed)


def _q14(draw: Draw) -> Shape:
    low = draw.pick(1_000_000, range(500_000, 20_000_000, 500_000))
    times = (
        "CASE WHEN HOUR(b.ts) >= 8 AND HOUR(b.ts) <= 18 THEN 'dayTime' "
        "WHEN HOUR(b.ts) <= 6 OR HOUR(b.ts) >= 20 THEN 'nightTime' ELSE 'otherTime' END"
    )
    return Selection(
        _BID,
        (f"b.price * 0.908E0 > {low}", "b.price * 0.908E0 < 50000000"),
        (*_outputs("b", "auction", "bidder"), Output("b.price * 0.908E0", "price"), Output(times, "bid_time_type")),
    )


def _ranks(function: Function, argument: str, name: str, draw: Draw) -> list[Aggregate]:
    cheap, dear = draw.pick((CHEAP, DEAR), [(5_000, 500_000), (20_000, 2_000_000), (1_000, 100_000)])
    conditions = (f"b.price < {cheap}", f"b.price >= {cheap} AND b.price < {dear}", f"b.price >= {dear}")
    ranked = [Aggregate(function, argument, f"rank{at}_{name}", each) for at, each in enumerate(conditions, start=1)]
    return [Aggregate(function, argument, f"total_{name}"), *ranked]


def _q15(draw: Draw) -> Shape:
    return _statistics(draw, ())


def _q16(draw: Draw) -> Shape:
    return _statistics(draw, _outputs("b", "channel"))


def _statistics(draw: Draw, keys: tuple[Output, ...]) -> Shape:
    aggregates = (
        *_ranks(Function.COUNT, "*", "bids", draw),
        *_ranks(Function.DISTINCT, "b.bidder", "bidders", draw),
        *_ranks(Function.DISTINCT, "b.auction", "auctions", draw),
    )
    return Grouped((_BID,), draw.part(), keys, aggregates, draw.tumbling(), observed=draw.observed)


def _q17(draw: Draw) -> Shape:
    prices = ((Function.MIN, "min"), (Function.MAX, "max"), (Function.AVG, "avg"), (Function.SUM, "sum"))
    return Grouped(
        relations=(_BID,),
        conditions=draw.part(),
        keys=_outputs("b", "auction"),
        aggregates=(
            *_ranks(Function.COUNT, "*", "bids", draw),
            *(Aggregate(function, "b.price", f"{name}_price") for function, name in prices),
        ),
        window=draw.tumbling(),
        observed=draw.observed,
    )


def _q20(draw: Draw) -> Shape:
    return NearJoin(
        relations=(_BID, _AUCTION),
        conditions=("b.auction = a.id", f"a.category = {_category(draw)}", *draw.part()),
        outputs=(*_outputs("b", "auction", "bidder", "price", "channel"), *_outputs("a", "item", "seller", "category")),
        seconds=draw.seconds(),
    )


def _q21(draw: Draw) -> Shape:
    numbers = {"Apple": 0, "Google": 1, "Facebook": 2, "Baidu": 3}
    cases = " ".join(f"WHEN b.channel = '{name}' THEN '{number}'" for name, number in numbers.items())
    named = ", ".join(f"'{name}'" for name in POPULAR)
    return Selection(
        _BID,
        (f"b.channel IN ({named})", *draw.part()),
        (*_outputs("b", "auction", "bidder", "price", "channel"), Output(f"CASE {cases} END", "channel_id")),
    )


def _q22(draw: Draw) -> Shape:
    folders = [Output(f"SPLIT_PART(b.url, '/', {at})", f"dir{at - 3}") for at in (4, 5, 6)]
    return Selection(_BID, draw.part(), (*_outputs("b", "auction", "bidder", "price", "channel"), *folders))


TEMPLATES: Mapping[str, Callable[[Draw], Shape]] = {
    "q3": _q3,
    "q20": _q20,
    "q5": _q5,
    "q8": _q8,
    "q2": _q2,
    "q17": _q17,
    "q11": _q11,
    "q9": _q9,
    "q7": _q7,
    "q14": _q14,
    "q15": _q15,
    "q16": _q16,
    "q21": _q21,
    "q22": _q22,
    "q1": _q1,
    "q0": _q0,
}
"""In the order in which they are taken: the first one is observed, so it is a join with few results."""

DIFFERENT: Mapping[str, str] = {
    "q3": "joined within a window instead of over all history",
    "q5": "the counts of hot auctions; those with the greatest count of their window would need a query over a query",
    "q7": "the highest price of a window; the bids that have it would need a join with a query",
    "q9": "bids that reach the reserve within a window after the auction began; the winner would need a rank",
    "q14": "without the user-defined function that counts letters",
    "q15": "of windows instead of days",
    "q16": "of windows instead of days; without the text of the last minute",
    "q17": "of windows instead of days",
    "q20": "joined within a window instead of over all history",
    "q21": "without channels whose number only a regular expression finds",
}
"""In what an expressed query is not Nexmark's."""

MISSING: Mapping[str, str] = {
    "q4": "an average of maxima is a query over a query",
    "q6": "an average of the last ten rows of a group is a window function over a query",
    "q10": "it is query 0 with a partitioned sink: a matter of sinks",
    "q12": "its windows are of processing time; weft's are of event time",
    "q13": "it joins with a table outside of the streams",
    "q18": "the last row of each group needs a rank",
    "q19": "the ten highest of each group need a rank",
}
"""Queries that weft cannot express, and why."""

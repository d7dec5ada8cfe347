"""What users of the demo ask: random joins and selections over purchases and ads, coming and going."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from random import Random

from weft.demo.generate import GEM_PACKS, LONGEST_AD_SECONDS
from weft.plan.window import Range, Sliding, window_text


@dataclass(frozen=True, slots=True)
class Relation:
    """A stream in FROM; conditions are on its own columns and mean the same to Spark and to DuckDB."""

    stream: str
    alias: str
    conditions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DemoQuery:
    """A query as weft and DuckDB are both told it: a selection, or a join on equal columns in a window."""

    name: str
    relations: tuple[Relation, ...]
    keys: tuple[str, ...]
    window: Range | Sliding | None
    outputs: tuple[str, ...]

    @property
    def sql(self) -> str:
        """As weft reads it."""
        window = f" {window_text(self.window)}" if self.window is not None else ""
        first, *others = [f"{each.stream}{window} {each.alias}" for each in self.relations]
        joins = "".join(f" JOIN {other} ON {self.join_condition()}" for other in others)
        return f"SELECT {', '.join(self.outputs)} FROM {first}{joins} WHERE {' AND '.join(self.conditions())}"

    @property
    def brief(self) -> str:
        """On one short line: relations, window, conditions."""
        conditions = " AND ".join(self.conditions())
        if self.window is None:
            return f"{self.relations[0].stream}: {conditions}"
        window = window_text(self.window).strip("[]").replace(" SECONDS", "s")
        return f"{'⋈'.join(relation.alias for relation in self.relations)} {window}: {conditions}"

    def join_condition(self) -> str:
        """Equality of the keys."""
        left, right = self.relations
        return " AND ".join(f"{left.alias}.{key} = {right.alias}.{key}" for key in self.keys)

    def conditions(self) -> tuple[str, ...]:
        """What each relation has to fulfil on its own."""
        return tuple(condition for relation in self.relations for condition in relation.conditions)


def _price(random: Random, alias: str) -> str:
    low = random.randint(5, 80)
    return random.choice(
        (
            f"{alias}.price > {low}",
            f"{alias}.price < {low / 4:.2f}",
            f"{alias}.price BETWEEN {low}.00 AND {low + random.randint(5, 15)}.99",
        )
    )


def _pack(random: Random, alias: str) -> str:
    low = random.randint(1, GEM_PACKS - 3)
    return random.choice(
        (
            f"{alias}.gemPack = {low}",
            f"{alias}.gemPack BETWEEN {low} AND {low + 3}",
            f"{alias}.gemPack IN ({', '.join(map(str, sorted(random.sample(range(1, GEM_PACKS + 1), 3))))})",
        )
    )


def _length(random: Random, alias: str) -> str:
    return f"{alias}.length >= {random.randint(LONGEST_AD_SECONDS // 3, LONGEST_AD_SECONDS - 5)}"


def _seconds(random: Random, low: int, high: int) -> timedelta:
    return timedelta(seconds=random.randint(low, high))


def _range_join(random: Random, name: str) -> DemoQuery:
    """Ads and purchases of the same user close to each other."""
    left = Relation("purchases", "p", (_price(random, "p"),))
    right = Relation("ads", "a", (_pack(random, "a"),))
    outputs = ("p.userID", "p.price", "a.gemPack", "a.ts AS shown")
    return DemoQuery(name, (left, right), ("userID",), Range(_seconds(random, 1, 5)), outputs)


def _tumbling_join(random: Random, name: str) -> DemoQuery:
    """Purchases of just what was advertised, by window."""
    left = Relation("purchases", "p", (_price(random, "p"),))
    right = Relation("ads", "a", (_length(random, "a"),))
    size = _seconds(random, 2, 6)
    outputs = ("p.userID", "p.gemPack", "p.price", "window_start")
    return DemoQuery(name, (left, right), ("userID", "gemPack"), Sliding(size, size), outputs)


def _sliding_join(random: Random, name: str) -> DemoQuery:
    """The same over overlapping windows, from the ads' side."""
    left = Relation("ads", "a", (_length(random, "a"), _pack(random, "a")))
    right = Relation("purchases", "p", (_price(random, "p"),))
    slide = _seconds(random, 1, 2)
    outputs = ("a.userID", "a.length", "p.gemPack", "window_end")
    return DemoQuery(name, (left, right), ("userID",), Sliding(slide * 2, slide), outputs)


def _self_join(random: Random, name: str) -> DemoQuery:
    """Users who buy something cheap and something dear."""
    left = Relation("purchases", "c", (f"c.price < {random.randint(2, 6)}",))
    right = Relation("purchases", "d", (f"d.price > {random.randint(60, 90)}",))
    outputs = ("c.userID", "c.price AS cheap", "d.price AS dear")
    return DemoQuery(name, (left, right), ("userID",), Range(_seconds(random, 1, 5)), outputs)


def _select_purchases(random: Random, name: str) -> DemoQuery:
    only = Relation("purchases", "p", (_price(random, "p"), _pack(random, "p")))
    return DemoQuery(name, (only,), (), None, ("p.ts", "p.userID", "p.price * 2 AS doubled"))


def _select_ads(random: Random, name: str) -> DemoQuery:
    only = Relation("ads", "a", (_length(random, "a"), _pack(random, "a")))
    return DemoQuery(name, (only,), (), None, ("a.userID", "a.gemPack", "a.length"))


_TEMPLATES: dict[str, tuple[int, Callable[[Random, str], DemoQuery]]] = {
    "near": (6, _range_join),
    "tumble": (4, _tumbling_join),
    "slide": (4, _sliding_join),
    "again": (2, _self_join),
    "buys": (2, _select_purchases),
    "ads": (2, _select_ads),
}
"""By the first part of a query's name: how often, and how it is made."""

FIRST = 6
"""Queries at the start."""

_MEAN_LIFE = timedelta(seconds=40)
_GROWTH_ENDS = 0.6


class Crowd:
    """Decides who comes and who goes; the same for the same seed and the same moments."""

    def __init__(self, seed: int, *, most: int, duration: timedelta) -> None:
        self._random = Random(seed)
        self._most = most
        self._duration = duration
        self._made = 0

    def arrivals(self, live: int, elapsed: timedelta) -> list[DemoQuery]:
        """New queries: as many as are missing from the number that should be there by now."""
        grown = min(1.0, elapsed / (self._duration * _GROWTH_ENDS))
        wanted = round(FIRST + (self._most - FIRST) * grown) if self._most > FIRST else self._most
        return [self._make() for _ in range(wanted - live)]

    def leavers(self, live: Sequence[str], since_last: timedelta) -> list[str]:
        """Names of those that leave: each as likely as any other, whatever its age."""
        likely = min(1.0, since_last / _MEAN_LIFE)
        return [name for name in live if self._random.random() < likely]

    def _make(self) -> DemoQuery:
        self._made += 1
        weights = [weight for weight, _ in _TEMPLATES.values()]
        kind = self._random.choices(list(_TEMPLATES), weights)[0]
        return _TEMPLATES[kind][1](self._random, f"{kind}-{self._made}")

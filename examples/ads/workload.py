"""Random queries of the demo: joins and selections over purchases and ads, which come and go."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from examples.ads.generate import GEM_PACKS, LONGEST_AD_SECONDS

FIRST = 6  # queries at the start
_MEAN_LIFE_SECONDS = 40.0
_GROWTH_ENDS = 0.6  # share of the run in which the number of live queries grows
_KINDS = {"near": 6, "tumble": 4, "slide": 4, "again": 2, "buys": 2, "ads": 2}  # how frequent each kind of query is
_BOTH = (("purchases", "p"), ("ads", "a"))


@dataclass(frozen=True, slots=True)
class DemoQuery:
    """A query for both weft and DuckDB: a selection, or a join on equal columns in a window.

    A window has `size` seconds and moves by `slide` seconds; without a slide it ends at the latest row.
    """

    name: str
    relations: tuple[tuple[str, str], ...]  # (stream, alias)
    keys: tuple[str, ...]
    size: int
    slide: int
    conditions: tuple[str, ...]  # on one relation each, with the same meaning in Spark and DuckDB
    outputs: str

    @property
    def sql(self) -> str:
        """The query as SQL for weft."""
        window = f"[RANGE {self.size} SECONDS" + (f" SLIDE {self.slide} SECONDS]" if self.slide else "]")
        if self.slide == self.size:
            window = f"[TUMBLE {self.size} SECONDS]" if self.size else ""
        first, *others = [" ".join(filter(None, (stream, window, alias))) for stream, alias in self.relations]
        joins = "".join(f" JOIN {other} ON {self.join_condition}" for other in others)
        return f"SELECT {self.outputs} FROM {first}{joins} WHERE {' AND '.join(self.conditions)}"

    @property
    def join_condition(self) -> str:
        """The equality of the keys, as SQL."""
        (_, left), (_, right) = self.relations
        return " AND ".join(f"{left}.{key} = {right}.{key}" for key in self.keys)

    @property
    def streams(self) -> set[str]:
        """The names of the streams that the query reads."""
        return {stream for stream, _ in self.relations}


class Crowd:
    """Random decisions about the queries that come and go; the same seed and the same calls give the same decisions."""

    def __init__(self, seed: int, *, most: int, seconds: float) -> None:
        self._random = Random(seed)
        self._most = most
        self._growth_seconds = seconds * _GROWTH_ENDS
        self.made = 0

    def arrivals(self, live: int, elapsed: float) -> list[DemoQuery]:
        """Return new queries to reach the number that should be live after `elapsed` seconds, when `live` are live."""
        grown = min(1.0, elapsed / self._growth_seconds)
        wanted = round(FIRST + (self._most - FIRST) * grown) if self._most > FIRST else self._most
        return [self._make() for _ in range(wanted - live)]

    def leaves(self, seconds: float) -> bool:
        """Return whether a query leaves within the next `seconds`; the probability does not depend on its age."""
        return self._random.random() < seconds / _MEAN_LIFE_SECONDS

    def _make(self) -> DemoQuery:
        self.made += 1
        kind = self._random.choices(list(_KINDS), list(_KINDS.values()))[0]
        return _random_query(self._random, kind, f"{kind}-{self.made}")


def _random_query(random: Random, kind: str, name: str) -> DemoQuery:
    low, first, size, slide = (random.randint(*span) for span in ((5, 80), (1, GEM_PACKS - 3), (1, 5), (1, 2)))
    packs = ", ".join(map(str, sorted(random.sample(range(1, GEM_PACKS + 1), 3))))
    price = random.choice((f"price > {low}", f"price < {low / 4:.2f}", f"price BETWEEN {low}.00 AND {low + 10}.99"))
    pack = random.choice((f"gemPack = {first}", f"gemPack BETWEEN {first} AND {first + 3}", f"gemPack IN ({packs})"))
    length = f"length >= {random.randint(LONGEST_AD_SECONDS // 3, LONGEST_AD_SECONDS - 5)}"
    match kind:
        case "near":  # finds ads and purchases of the same user that are close to each other
            outputs = "p.userID, p.price, a.gemPack, a.ts AS shown"
            return DemoQuery(name, _BOTH, ("userID",), size, 0, (f"p.{price}", f"a.{pack}"), outputs)
        case "tumble":  # finds purchases of just what was advertised in the same window
            keys, outputs = ("userID", "gemPack"), "p.userID, p.gemPack, p.price, window_start"
            return DemoQuery(name, _BOTH, keys, size + 1, size + 1, (f"p.{price}", f"a.{length}"), outputs)
        case "slide":  # joins over overlapping windows, beginning with the ads
            relations, outputs = _BOTH[::-1], "a.userID, a.length, p.gemPack, window_end"
            conditions = (f"a.{length}", f"a.{pack}", f"p.{price}")
            return DemoQuery(name, relations, ("userID",), slide * 2, slide, conditions, outputs)
        case "again":  # finds users who buy something cheap and something dear
            twice, outputs = (("purchases", "c"), ("purchases", "d")), "c.userID, c.price AS cheap, d.price AS dear"
            bounds = (f"c.price < {slide * 3}", f"d.price > {60 + low // 4}")
            return DemoQuery(name, twice, ("userID",), size, 0, bounds, outputs)
        case "buys":
            outputs = "p.ts, p.userID, p.price * 2 AS doubled"
            return DemoQuery(name, _BOTH[:1], (), 0, 0, (f"p.{price}", f"p.{pack}"), outputs)
        case _:
            return DemoQuery(name, _BOTH[1:], (), 0, 0, (f"a.{length}", f"a.{pack}"), "a.userID, a.gemPack, a.length")

"""AJoin's template (figure 14 there, 5.17 in the thesis) with query similarity (equation 3 there, 5.3 here).

A query joins as many streams as the pattern query does. ComS of its streams are the pattern's, the others are spare
ones; ComSJA of those ComS have the pattern's join attributes. Its similarity is ComS · ComSJA / AllS².
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from weft_bench.data import DOMAIN
from weft_bench.workloads.model import StreamSpec, Workload
from weft_bench.workloads.predicates import EVERY, Predicate, draw_predicate
from weft_bench.workloads.rows import KeyedRows
from weft_bench.workloads.say import QueryList
from weft_bench.workloads.shapes import NearJoin, Output, Relation

ATTRIBUTES = 6
LONGEST = 3


@dataclass(frozen=True, slots=True)
class Source:
    """A stream in a chain of joins: the attributes that join it to the one before and the one after, its selection."""

    stream: int
    before: int | None
    after: int | None
    selection: Predicate

    @property
    def name(self) -> str:
        """The stream's name, counted from one."""
        return f"S{self.stream + 1}"

    @property
    def attributes(self) -> tuple[int | None, int | None]:
        """What it is joined by."""
        return self.before, self.after


@dataclass(frozen=True, slots=True)
class Chain:
    """A query of the template."""

    sources: tuple[Source, ...]
    seconds: int

    def shape(self) -> NearJoin:
        """As it is asked."""
        names = [each.name.lower() for each in self.sources]
        pairs = zip(self.sources, self.sources[1:], names, names[1:], strict=False)
        joined = [f"{left}.f{one.after} = {right}.f{two.before}" for one, two, left, right in pairs]
        selections = [each.selection.sql(name) for each, name in zip(self.sources, names, strict=True)]
        fields = [Output(f"{name}.f{field}", f"{name}_f{field}") for name in names for field in range(ATTRIBUTES)]
        relations = tuple(Relation(each.name, name) for each, name in zip(self.sources, names, strict=True))
        return NearJoin(relations, (*joined, *selections), tuple(fields), self.seconds)


def similarity(query: Chain, pattern: Chain) -> float:
    """Equation 3: common sources, times those of them with common join attributes, by the square of all."""
    attributes = {each.stream: each.attributes for each in pattern.sources}
    common = [each for each in query.sources if each.stream in attributes]
    alike = sum(each.attributes == attributes[each.stream] for each in common)
    return len(common) * alike / len(pattern.sources) ** 2


def mean_similarity(queries: Iterable[Chain], pattern: Chain) -> float:
    """The similarity to a pattern that queries have on average; there has to be one at least."""
    return float(np.mean([similarity(each, pattern) for each in queries]))


@dataclass(frozen=True, slots=True)
class Chains:
    """By its number, a random query whose similarity to the pattern is on average the one asked for."""

    seed: int
    ways: int
    similarity: float
    overlap: float
    observed: int
    domain: int = DOMAIN

    def pattern(self) -> Chain:
        """The query that the others are more or less similar to."""
        return self._chain(np.random.default_rng((self.seed, self.ways)), range(self.ways), observed=True)

    def chain(self, number: int) -> Chain:
        """The query with this number."""
        rng = np.random.default_rng((self.seed, self.ways, number))
        pattern = self.pattern()
        common, alike = self._counts(rng)
        observed = number < self.observed
        chain = self._chain(rng, self._streams(rng, common), observed=observed)
        found = self._made_alike(rng, chain, pattern, alike)
        return self._possible(rng, found) if observed else found

    def __call__(self, number: int) -> NearJoin:
        """The query with this number."""
        return self.chain(number).shape()

    def spare(self) -> int:
        """How many streams that the pattern does not have a query may need."""
        below, above = self._products()
        return self.ways - min(common for product in (below, above) for common, _ in self._fitting(product))

    def _products(self) -> tuple[int, int]:
        """What ComS · ComSJA can be next to the wanted value: not above it, and not below it."""
        wanted = self.similarity * self.ways**2
        products = {common * alike for common in range(1, self.ways + 1) for alike in range(common + 1)}
        return max(each for each in products if each <= wanted), min(each for each in products if each >= wanted)

    def _fitting(self, product: int) -> list[tuple[int, int]]:
        pairs = [(common, alike) for common in range(1, self.ways + 1) for alike in range(common + 1)]
        return [pair for pair in pairs if pair[0] * pair[1] == product]

    def _counts(self, rng: np.random.Generator) -> tuple[int, int]:
        """ComS and ComSJA, such that the wanted similarity is met on average."""
        below, above = self._products()
        wanted = self.similarity * self.ways**2
        up = above > below and rng.random() < (wanted - below) / (above - below)
        fitting = self._fitting(above if up else below)
        return fitting[int(rng.integers(len(fitting)))]

    def _streams(self, rng: np.random.Generator, common: int) -> list[int]:
        """Neighbours of the pattern, at their places in the chain; spare streams elsewhere."""
        begin = int(rng.integers(self.ways - common + 1))
        spare = iter(rng.permutation(np.arange(self.ways, self.ways + self.spare())))
        return [at if begin <= at < begin + common else int(next(spare)) for at in range(self.ways)]

    def _chain(self, rng: np.random.Generator, streams: Iterable[int], *, observed: bool) -> Chain:
        sources = [
            Source(
                stream,
                int(rng.integers(ATTRIBUTES)) if at else None,
                int(rng.integers(ATTRIBUTES)) if at < self.ways - 1 else None,
                self._selection(rng, observed=observed),
            )
            for at, stream in enumerate(streams)
        ]
        return Chain(tuple(sources), int(rng.integers(1, LONGEST + 1)))

    def _made_alike(self, rng: np.random.Generator, chain: Chain, pattern: Chain, alike: int) -> Chain:
        """The chain with the pattern's join attributes at so many of the common sources, and at no others."""
        common = [at for at, each in enumerate(chain.sources) if each.stream < self.ways]
        chosen = {int(at) for at in rng.permutation(common)[:alike]}
        sources = []
        for at, each in enumerate(chain.sources):
            model = pattern.sources[at]
            before, after = model.attributes if at in chosen else each.attributes
            if at in common and at not in chosen and each.attributes == model.attributes:
                # By chance; any other attribute will do.
                before, after = _next(before), _next(after)
            selection = model.selection if rng.random() < self.overlap else each.selection
            sources.append(Source(each.stream, before, after, selection))
        seconds = pattern.seconds if rng.random() < self.overlap else chain.seconds
        return Chain(tuple(sources), seconds)

    def _possible(self, rng: np.random.Generator, chain: Chain) -> Chain:
        """The chain without selections on join attributes, which may contradict each other."""
        sources = []
        for each in chain.sources:
            selection = each.selection
            while selection.attribute in each.attributes:
                selection = self._selection(rng, observed=True)
            sources.append(replace(each, selection=selection))
        return replace(chain, sources=tuple(sources))

    def _selection(self, rng: np.random.Generator, *, observed: bool) -> Predicate:
        return draw_predicate(rng, EVERY, observed=observed, attributes=ATTRIBUTES, domain=self.domain)


def _next(attribute: int | None) -> int | None:
    return None if attribute is None else (attribute + 1) % ATTRIBUTES


def chains(
    *,
    ways: int = 2,
    similarity: float = 0.5,
    overlap: float = 0.0,
    seed: int = 7,
    observed: int = 1,
    domain: int = DOMAIN,
) -> Chains:
    """The queries of `ajoin` as values; raises ValueError for parameters that are none."""
    if ways < 2:
        raise ValueError(f"a join is of two streams or more, not of {ways}")
    for what, value in (("similarity", similarity), ("overlap", overlap)):
        if not 0 <= value <= 1:
            raise ValueError(f"{what} lies between 0 and 1, unlike {value}")
    return Chains(seed, ways, similarity, overlap, observed, domain)


def ajoin(
    *,
    ways: int = 2,
    similarity: float = 0.5,
    overlap: float = 0.0,
    seed: int = 7,
    rate: int = 1_000,
    domain: int = DOMAIN,
    observed: int = 1,
) -> Workload:
    """Random chains of joins of `ways` streams by any of six attributes, with a given similarity to a pattern query.

    `similarity` is of sources and join attributes, by equation 3; `overlap` is the probability that a selection, or the
    window, is the pattern's (in the paper both are drawn freely). `rate` is of each stream: with 500 values of a join
    attribute, results grow with the square of it.
    """
    queries = chains(ways=ways, similarity=similarity, overlap=overlap, seed=seed, observed=observed, domain=domain)
    count = ways + queries.spare()
    columns = {"ts": "timestamp"} | {f"f{number}": "int" for number in range(ATTRIBUTES)}
    return Workload(
        name="ajoin",
        title=f"AJoin's chains of {ways} streams, query similarity {similarity:.0%} (figure 14 and equation 3 there)",
        streams=tuple(
            StreamSpec(f"S{number + 1}", columns, KeyedRows(None, number, ATTRIBUTES, domain), 1 / count)
            for number in range(count)
        ),
        queries=QueryList(queries),
        rows_per_second=count * rate,
    )

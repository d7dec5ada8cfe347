"""Nexmark: an auction house's persons, auctions and bids, and all of its queries that weft can express at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weft_bench.workloads.model import QuerySpec, Workload
from weft_bench.workloads.nexmark_queries import TEMPLATES, Draw
from weft_bench.workloads.nexmark_rows import streams
from weft_bench.workloads.say import query_of
from weft_bench.workloads.shapes import Shape


@dataclass(frozen=True, slots=True)
class NexmarkQueries:
    """The templates in turn, each with Nexmark's own parameters first and with random ones from then on."""

    seed: int
    templates: tuple[str, ...]
    observed: int

    def shape(self, number: int) -> Shape:
        """The query with this number."""
        turn, at = divmod(number, len(self.templates))
        rng = np.random.default_rng((self.seed, number))
        return TEMPLATES[self.templates[at]](Draw(rng, own=turn == 0, observed=number < self.observed))

    def name(self, number: int) -> str:
        """The template's name and which of its queries it is."""
        turn, at = divmod(number, len(self.templates))
        return f"{self.templates[at]}_{turn}"

    def __call__(self, count: int) -> tuple[QuerySpec, ...]:
        """The first queries."""
        return tuple(query_of(self.name(number), self.shape(number)) for number in range(count))


def nexmark(
    *, seed: int = 7, templates: tuple[str, ...] | str = (), rate: int = 100_000, observed: int = 1
) -> Workload:
    """All expressible queries in turn, or those of some templates; `rate` is of all streams together."""
    asked = tuple(filter(None, templates.split(","))) if isinstance(templates, str) else tuple(templates)
    unknown = [name for name in asked if name not in TEMPLATES]
    if unknown:
        raise ValueError(f"no template is named {', '.join(unknown)}; there are {', '.join(TEMPLATES)}")
    chosen = asked or tuple(TEMPLATES)
    return Workload(
        name="nexmark",
        title=f"Nexmark: persons, auctions and bids in 1 : 3 : 46, queries {', '.join(chosen)} with random parameters",
        streams=streams(),
        queries=NexmarkQueries(seed, chosen, observed),
        rows_per_second=rate,
    )

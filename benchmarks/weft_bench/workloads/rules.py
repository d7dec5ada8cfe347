"""Many selection rules over one stream, as ShuffleBench has them: each takes a small part of the records.

Part of the rules hand their records on, part of them count them by key.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from weft_bench.workloads.model import StreamSpec, Workload
from weft_bench.workloads.rows import Keys, Numbers, draw_keys, keys_of
from weft_bench.workloads.say import QueryList
from weft_bench.workloads.shapes import Aggregate, Function, Grouped, Output, Relation, Selection, Shape, Sliding

ATTRIBUTES = 4
SPAN = 10_000
"""Attributes lie in 0 … SPAN − 1."""
KINDS = tuple(f"kind-{number}" for number in range(20))
_COLUMNS = {"ts": "timestamp", "k": "bigint"} | {f"v{number}": "int" for number in range(ATTRIBUTES)}
_ENTRY = Relation("records", "r")


@dataclass(frozen=True, slots=True)
class RecordRows:
    """Makes the columns of records."""

    keys: Keys

    def __call__(self, rng: np.random.Generator, numbers: Numbers) -> Mapping[str, pa.Array]:
        """All columns but the event time."""
        columns = {"k": pa.array(draw_keys(self.keys, rng, numbers))}
        for number in range(ATTRIBUTES):
            columns[f"v{number}"] = pa.array(rng.integers(0, SPAN, len(numbers), dtype=np.int32))
        kinds = rng.integers(0, len(KINDS), len(numbers), dtype=np.int8)
        columns["kind"] = pa.array(KINDS, pa.string()).take(pa.array(kinds))
        return columns


@dataclass(frozen=True, slots=True)
class Rules:
    """By its number, a rule: records of some kinds with an attribute in a range, as many as are asked for."""

    seed: int
    selectivity: float
    counted: float
    seconds: int
    observed: int

    def conditions(self, number: int) -> tuple[str, ...]:
        """What the rule wants of a record."""
        rng = np.random.default_rng((self.seed, number))
        least = max(1, int(np.ceil(self.selectivity * len(KINDS))))
        kinds = sorted(rng.permutation(len(KINDS))[: int(rng.integers(least, max(least + 1, 4)))].tolist())
        width = max(1, round(SPAN * min(1.0, self.selectivity * len(KINDS) / len(kinds))))
        attribute, low = int(rng.integers(ATTRIBUTES)), int(rng.integers(SPAN - width + 1))
        names = ", ".join(f"'{KINDS[each]}'" for each in kinds)
        return f"r.kind IN ({names})", f"r.v{attribute} >= {low}", f"r.v{attribute} < {low + width}"

    def __call__(self, number: int) -> Shape:
        """The query with this number."""
        conditions = self.conditions(number)
        # Spread over the list, so that every part of it has its share; the first rule is a selection.
        if int((number + 1) * self.counted) == int(number * self.counted):
            fields = ("k", *(f"v{each}" for each in range(ATTRIBUTES)), "kind")
            return Selection(_ENTRY, conditions, tuple(Output(f"r.{name}", name) for name in fields))
        return Grouped(
            relations=(_ENTRY,),
            conditions=conditions,
            keys=(Output("r.k", "k"),),
            aggregates=(Aggregate(Function.COUNT, "*", "n"),),
            window=Sliding(self.seconds, self.seconds),
            observed=number < self.observed,
        )


def rules(
    *,
    seed: int = 7,
    keys: int = 1_000,
    rate: int = 400_000,
    selectivity: float = 0.001,
    counted: float = 0.5,
    seconds: int = 3,
    skew: str = "uniform",
    observed: int = 1,
) -> Workload:
    """Selection rules that each pass a part `selectivity` of the records; a part `counted` of them counts by key."""
    for what, value in (("selectivity", selectivity), ("counted", counted)):
        if not 0 <= value <= 1:
            raise ValueError(f"{what} lies between 0 and 1, unlike {value}")
    return Workload(
        name="rules",
        title=f"selection rules that pass {selectivity:.2%} of the records each, {counted:.0%} of them counting by key "
        f"in {seconds} s (after ShuffleBench)",
        streams=(
            StreamSpec(
                "records",
                _COLUMNS | {"kind": "string"},
                RecordRows(keys_of(skew, keys)),
            ),
        ),
        queries=QueryList(Rules(seed, selectivity, counted, seconds, observed)),
        rows_per_second=rate,
    )

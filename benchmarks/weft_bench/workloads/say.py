"""A shape in the words of every system."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from weft_bench.workloads.duckdb_text import duckdb_text
from weft_bench.workloads.flink_text import flink_text
from weft_bench.workloads.model import Dialect, QuerySpec
from weft_bench.workloads.shapes import CannotSay, Shape, newest
from weft_bench.workloads.spark_text import spark_text
from weft_bench.workloads.weft_text import weft_text

_WORDS: Mapping[Dialect, Callable[[Shape], str]] = {
    Dialect.WEFT: weft_text,
    Dialect.SPARK: spark_text,
    Dialect.FLINK: flink_text,
    Dialect.DUCKDB: duckdb_text,
}


def query_of(name: str, shape: Shape) -> QuerySpec:
    """The query in all dialects that have words for it, and why the others have none."""
    texts: dict[Dialect, str] = {}
    why_not: dict[Dialect, str] = {}
    for dialect, words in _WORDS.items():
        try:
            texts[dialect] = words(shape)
        except CannotSay as reason:
            why_not[dialect] = str(reason)
    return QuerySpec(name, texts, newest(shape), why_not)


@dataclass(frozen=True, slots=True)
class QueryList:
    """Queries by their number, so that the first ones of a longer list are those of a shorter one."""

    shape: Callable[[int], Shape]

    def __call__(self, count: int) -> tuple[QuerySpec, ...]:
        """The first queries."""
        return tuple(query_of(f"q{number}", self.shape(number)) for number in range(count))

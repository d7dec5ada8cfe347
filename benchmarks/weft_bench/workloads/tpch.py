"""TPC-H's joins within windows, over its tables as streams without end.

A round of all tables takes as long as two windows, so that a row finds about one copy of each row it belongs to.
The joins are those of `weft_bench.tpch_queries` with the parameters of the specification, fixed at first, then random.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from weft_bench.workloads.model import QuerySpec, Workload
from weft_bench.workloads.say import query_of
from weft_bench.workloads.shapes import NearJoin, Output, Relation
from weft_bench.workloads.tpch_rows import rows_of_a_round, streams

T = TypeVar("T")
_RELATIONS = {
    "p": Relation("part", "p"),
    "ps": Relation("partsupp", "ps"),
    "s": Relation("supplier", "s"),
    "c": Relation("customer", "c"),
    "o": Relation("orders", "o"),
    "l": Relation("lineitem", "l"),
}
_KEYS = (
    ("c.c_custkey", "o.o_custkey"),
    ("o.o_orderkey", "l.l_orderkey"),
    ("s.s_suppkey", "l.l_suppkey"),
    ("p.p_partkey", "l.l_partkey"),
    ("ps.ps_partkey", "l.l_partkey"),
    ("ps.ps_suppkey", "l.l_suppkey"),
)
"""What refers to what; parts and suppliers meet directly only in `part ⋈ partsupp ⋈ supplier`."""
REGIONS = ("AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST")
NATIONS = ("FRANCE", "GERMANY", "BRAZIL", "CHINA", "EGYPT", "INDIA", "JAPAN", "KENYA", "PERU", "RUSSIA", "CANADA")
SEGMENTS = ("AUTOMOBILE", "BUILDING", "FURNITURE", "HOUSEHOLD", "MACHINERY")
METALS = ("BRASS", "COPPER", "NICKEL", "STEEL", "TIN")
TYPES = tuple(
    f"{size} {finish} {metal}"
    for size in ("ECONOMY", "LARGE", "MEDIUM", "PROMO", "SMALL", "STANDARD")
    for finish in ("ANODIZED", "BRUSHED", "BURNISHED", "PLATED", "POLISHED")
    for metal in METALS
)
COLOURS = ("green", "almond", "azure", "blush", "coral", "ivory", "khaki", "lemon", "navy", "plum", "rose", "tan")


@dataclass(frozen=True, slots=True)
class Draw:
    """Parameters of one query: those of the specification's validation, or random ones."""

    rng: np.random.Generator
    own: bool

    def pick(self, own: T, others: Sequence[T]) -> T:
        """A parameter."""
        return own if self.own else others[int(self.rng.integers(len(others)))]


@dataclass(frozen=True, slots=True)
class Join:
    """Which tables are joined by their keys, in which order, with which other conditions and outputs."""

    tables: str
    conditions: tuple[str, ...]
    columns: str
    keys: tuple[str, ...] = ()
    """Equalities instead of those by which the tables refer to each other."""

    def shape(self, seconds: int) -> NearJoin:
        """As it is asked."""
        names = self.tables.split()
        keys = self.keys or tuple(
            f"{left} = {right}"
            for left, right in _KEYS
            if {left.partition(".")[0], right.partition(".")[0]} <= set(names)
        )
        return NearJoin(
            relations=tuple(_RELATIONS[name] for name in names),
            conditions=(*keys, *self.conditions),
            outputs=tuple(Output(column, column.partition(".")[2]) for column in self.columns.split()),
            seconds=seconds,
        )


def _q2(draw: Draw) -> Join:
    size, metal = draw.pick(15, range(1, 51)), draw.pick("BRASS", METALS)
    return Join(
        "p ps s",
        (f"p.p_size = {size}", f"p.p_type LIKE '%{metal}'", f"s.s_region = '{draw.pick('EUROPE', REGIONS)}'"),
        "p.p_partkey s.s_suppkey ps.ps_supplycost s.s_acctbal s.s_name s.s_nation p.p_mfgr",
        keys=("p.p_partkey = ps.ps_partkey", "ps.ps_suppkey = s.s_suppkey"),
    )


def _q3(draw: Draw) -> Join:
    day = draw.pick(19950315, range(19950301, 19950332))
    return Join(
        "c o l",
        (f"c.c_mktsegment = '{draw.pick('BUILDING', SEGMENTS)}'", f"o.o_orderdate < {day}", f"l.l_shipdate > {day}"),
        "o.o_orderkey l.l_linenumber o.o_orderdate o.o_shippriority l.l_extendedprice l.l_discount",
    )


def _q5(draw: Draw) -> Join:
    year = draw.pick(1994, range(1993, 1998))
    return Join(
        "c o l s",
        (
            "c.c_nationkey = s.s_nationkey",
            f"s.s_region = '{draw.pick('ASIA', REGIONS)}'",
            f"o.o_orderdate >= {year}0101",
            f"o.o_orderdate < {year + 1}0101",
        ),
        "c.c_custkey o.o_orderkey l.l_linenumber s.s_suppkey s.s_nation l.l_extendedprice l.l_discount",
    )


def _q7(draw: Draw) -> Join:
    one, other = draw.pick(("FRANCE", "GERMANY"), [(a, b) for a in NATIONS for b in NATIONS if a < b])
    nations = f"s.s_nation = '{one}' AND c.c_nation = '{other}' OR s.s_nation = '{other}' AND c.c_nation = '{one}'"
    return Join(
        "s l o c",
        (nations, "l.l_shipdate >= 19950101", "l.l_shipdate <= 19961231"),
        "s.s_suppkey o.o_orderkey l.l_linenumber s.s_nation c.c_nation l.l_shipdate l.l_extendedprice l.l_discount",
    )


def _q8(draw: Draw) -> Join:
    return Join(
        "p l s o c",
        (
            f"c.c_region = '{draw.pick('AMERICA', REGIONS)}'",
            "o.o_orderdate >= 19950101",
            "o.o_orderdate <= 19961231",
            f"p.p_type = '{draw.pick('ECONOMY ANODIZED STEEL', TYPES)}'",
        ),
        "p.p_partkey o.o_orderkey l.l_linenumber o.o_orderdate l.l_extendedprice l.l_discount s.s_nation",
    )


def _q9(draw: Draw) -> Join:
    return Join(
        "p l ps s o",
        (f"p.p_name LIKE '%{draw.pick('green', COLOURS)}%'",),
        "p.p_partkey o.o_orderkey l.l_linenumber s.s_nation o.o_orderdate l.l_extendedprice ps.ps_supplycost "
        "l.l_quantity",
    )


def _q10(draw: Draw) -> Join:
    months = [(year, month) for year in (1993, 1994) for month in range(1, 13)][1:]
    year, month = draw.pick((1993, 10), months)
    after = year * 10_000 + (month + 3) * 100 if month <= 9 else (year + 1) * 10_000 + (month - 9) * 100
    return Join(
        "c o l",
        (f"o.o_orderdate >= {year}{month:02}01", f"o.o_orderdate < {after + 1}", "l.l_returnflag = 'R'"),
        "c.c_custkey o.o_orderkey l.l_linenumber c.c_name c.c_acctbal c.c_nation l.l_extendedprice l.l_discount",
    )


def _clash1(draw: Draw) -> Join:
    return Join("c o l", _random_part(draw), "c.c_custkey o.o_orderkey l.l_linenumber l.l_quantity")


def _clash2(draw: Draw) -> Join:
    return Join("o l s", _random_part(draw), "o.o_orderkey l.l_linenumber s.s_suppkey s.s_acctbal")


def _clash3(draw: Draw) -> Join:
    return Join(
        "l ps s",
        _random_part(draw),
        "l.l_orderkey l.l_linenumber ps.ps_partkey s.s_suppkey ps.ps_availqty",
        keys=("l.l_partkey = ps.ps_partkey", "l.l_suppkey = ps.ps_suppkey", "ps.ps_suppkey = s.s_suppkey"),
    )


def _random_part(draw: Draw) -> tuple[str, ...]:
    """CLASH's queries have no selections; their copies are of some quantities."""
    return () if draw.own else (f"l.l_quantity = {draw.rng.integers(1, 51)}",)


TEMPLATES: Mapping[str, Callable[[Draw], Join]] = {
    "q3": _q3,
    "q10": _q10,
    "q5": _q5,
    "q2": _q2,
    "q7": _q7,
    "q9": _q9,
    "q8": _q8,
    "clash1": _clash1,
    "clash2": _clash2,
    "clash3": _clash3,
}
DEFAULT = tuple(name for name in TEMPLATES if name.startswith("q"))


@dataclass(frozen=True, slots=True)
class TpchQueries:
    """The templates in turn, each with the specification's parameters first and with random ones from then on."""

    seed: int
    templates: tuple[str, ...]
    seconds: int

    def shape(self, number: int) -> NearJoin:
        """The query with this number."""
        turn, at = divmod(number, len(self.templates))
        rng = np.random.default_rng((self.seed, number))
        return TEMPLATES[self.templates[at]](Draw(rng, own=turn == 0)).shape(self.seconds)

    def __call__(self, count: int) -> tuple[QuerySpec, ...]:
        """The first queries."""
        names = [f"{self.templates[n % len(self.templates)]}_{n // len(self.templates)}" for n in range(count)]
        return tuple(query_of(name, self.shape(number)) for number, name in enumerate(names))


def tpch(*, scale: float = 0.1, seconds: int = 3, seed: int = 7, templates: tuple[str, ...] | str = ()) -> Workload:
    """Joins of three to five of TPC-H's streams within windows, over rows of a scale factor."""
    asked = tuple(filter(None, templates.split(","))) if isinstance(templates, str) else tuple(templates)
    unknown = [name for name in asked if name not in TEMPLATES]
    if unknown:
        raise ValueError(f"no template is named {', '.join(unknown)}; there are {', '.join(TEMPLATES)}")
    return Workload(
        name="tpch",
        title=f"joins of TPC-H within {seconds} s, scale factor {scale:g} again and again",
        streams=streams(scale),
        queries=TpchQueries(seed, asked or DEFAULT, seconds),
        rows_per_second=max(1, round(rows_of_a_round(scale) / (2 * seconds))),
    )

"""All workloads by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import signature

from weft_bench.workloads.aggregation import aggregation
from weft_bench.workloads.ajoin import ajoin
from weft_bench.workloads.astream import astream
from weft_bench.workloads.joins import sc1, skew, windows
from weft_bench.workloads.model import Workload
from weft_bench.workloads.nexmark import nexmark
from weft_bench.workloads.purchases import purchases, purchases_aggregation
from weft_bench.workloads.rules import rules
from weft_bench.workloads.tpch import tpch

WORKLOADS: Mapping[str, Callable[..., Workload]] = {
    "sc1": sc1,
    "aggregation": aggregation,
    "purchases": purchases,
    "purchases-aggregation": purchases_aggregation,
    "astream": astream,
    "ajoin": ajoin,
    "skew": skew,
    "windows": windows,
    "nexmark": nexmark,
    "tpch": tpch,
    "rules": rules,
}
"""From a name to a function with keyword parameters, all of which have defaults."""


def workload(name: str, **parameters: object) -> Workload:
    """The workload with this name; raises ValueError for a name or a parameter that there is not."""
    make = WORKLOADS.get(name)
    if make is None:
        raise ValueError(f'no workload is named "{name}"; there are {", ".join(WORKLOADS)}')
    known = signature(make).parameters
    unknown = [each for each in parameters if each not in known]
    if unknown:
        raise ValueError(f'workload "{name}" has no parameter {", ".join(unknown)}; it has {", ".join(known)}')
    return make(**parameters)

"""What `weft-bench run` knows: experiments, workloads with their parameters, systems. `weft-bench list`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from inspect import signature

from weft_bench.experiments import EXPERIMENTS, Experiment, Mode
from weft_bench.systems.registry import CONTENDERS, streams
from weft_bench.workloads.catalogue import WORKLOADS

_MODES: Mapping[Mode, str] = {
    Mode.GROW: "until all queries are live; saturate, search, 90 % load",
    Mode.CHURN: "queries come in waves and go, at a fixed rate",
    Mode.FLUCTUATE: "as the others, the rate going up and down",
}
SYSTEMS: Mapping[str, str] = {
    "weft": "all queries in one shared job",
    "weft-delivered": "the same, and the rows of all queries are built and read",
    "weft-other": "another checkout of weft, in the folder $WEFT_OTHER",
    "spark": "plain Structured Streaming, a streaming query for each",
    "spark-shared": "plain Structured Streaming, hand-written to read the input once for all",
    "flink": "Apache Flink, one statement set",
    "flink-jobs": "Apache Flink, one job for each query",
    "duckdb": "each query apart",
    "duckdb-shared": "one pass for all queries",
    "polars": "one pass for all queries",
}
"""What each system is, in a line."""


def lines() -> Iterator[str]:
    """All there is, a line each."""
    yield "experiments (weft-bench run EXPERIMENT):"
    yield from _aligned({name: _experiment(each) for name, each in EXPERIMENTS.items()})
    yield ""
    yield "workloads, with parameters (--parameter KEY=VALUE):"
    yield from _aligned({name: ", ".join(_parameters(name)) for name in WORKLOADS})
    yield ""
    yield "systems (--systems NAME,NAME):"
    yield from _aligned({name: _system(name) for name in CONTENDERS})


def _experiment(experiment: Experiment) -> str:
    return f"{experiment.title} (workload {experiment.workload}; {_MODES[experiment.mode]})"


def _parameters(workload: str) -> Iterator[str]:
    for name, parameter in signature(WORKLOADS[workload]).parameters.items():
        yield name if parameter.default is None else f"{name}={parameter.default}"


def _system(name: str) -> str:
    return SYSTEMS.get(name, name) if streams(name) else f"{SYSTEMS.get(name, name)}; a limit: one batch, no streaming"


def _aligned(values: Mapping[str, str]) -> Iterator[str]:
    width = max(map(len, values))
    return (f"  {name:{width}}  {text}" for name, text in values.items())


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what there is."""
    parser = argparse.ArgumentParser(prog="weft-bench list", description=__doc__)
    parser.parse_args(sys.argv[1:] if arguments is None else arguments)
    sys.stdout.writelines(f"{line}\n" for line in lines())
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The demo and the benchmarks: programs with options of their own, loaded only when asked for."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Mapping

import typer

from weft.cli.failures import reported

DEMO = "weft.demo"
BENCHMARKS: Mapping[str, tuple[str, str]] = {
    "run": ("weft.bench.run_command", "Systems side by side through an experiment, with a report."),
    "compare": ("weft.bench.compare", "Two records of runs against each other."),
    "list": ("weft.bench.list_command", "Experiments, workloads and systems."),
    "quick": ("weft.bench.quick", "weft against plain Structured Streaming."),
    "deployment": ("weft.bench.deployment", "Queries created while data flow: latency and throughput."),
    "join-aggregate": ("weft.bench.join_aggregate", "An aggregate over a join against the joined rows."),
    "churn": ("weft.bench.churn", "Complex queries that come and go."),
    "clash": ("weft.bench.clash", "Overlapping joins of many relations, planned together and alone."),
    "chain": ("weft.bench.chain", "A join of four relations against cascaded joins."),
    "optimizer": ("weft.bench.optimizer", "Probe orders and partitioning of many queries."),
    "partitioning": ("weft.bench.partitioning", "Shared partitioning alone."),
}
"""Name: the module that is run, and what it does."""

_UNTOUCHED = {
    "allow_extra_args": True,
    "ignore_unknown_options": True,
    "allow_interspersed_args": False,
    "help_option_names": [],
}
"""Whatever follows is the program's, even --help."""

benchmarks = typer.Typer(name="bench", help="Benchmarks; each has its own options.", no_args_is_help=True)


def run_program(module: str, arguments: list[str]) -> None:
    """Run a module as a program of its own."""
    sys.argv = [module, *arguments]
    with reported():
        runpy.run_module(module, run_name="__main__", alter_sys=True)


def add_programs(app: typer.Typer) -> None:
    """Put the demo and the benchmarks beside the other commands."""
    app.add_typer(benchmarks)
    _add(app, "demo", DEMO, "Generated streams, queries that come and go, a live view.")
    for name, (module, text) in BENCHMARKS.items():
        _add(benchmarks, name, module, text)


def _add(app: typer.Typer, name: str, module: str, text: str) -> None:
    @app.command(name, help=text, context_settings=dict(_UNTOUCHED), add_help_option=False)
    def run(context: typer.Context) -> None:
        run_program(module, context.args)

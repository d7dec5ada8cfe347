"""The command `weft-bench`: it runs one of the programs of the benchmark, each of which has options of its own."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module

from weft.errors import WeftError

FAILED = 1
INTERRUPTED = 130
PROGRAMS: Mapping[str, tuple[str, str]] = {
    "run": ("weft_bench.run_command", "run an experiment on several systems in turn, and write a report"),
    "compare": ("weft_bench.compare", "compare the records of two runs"),
    "list": ("weft_bench.list_command", "list experiments, workloads and systems"),
    "quick": ("weft_bench.quick", "compare weft with plain Structured Streaming"),
    "deployment": ("weft_bench.deployment", "create queries while data flow; measure latency and throughput"),
    "join-aggregate": ("weft_bench.join_aggregate", "compare an aggregate over a join with the joined rows"),
    "churn": ("weft_bench.churn", "run complex queries that come and go"),
    "clash": ("weft_bench.clash", "plan overlapping joins of many relations together, alone, and without sharing"),
    "chain": ("weft_bench.chain", "compare a join of four relations with cascaded joins of Structured Streaming"),
    "optimizer": ("weft_bench.optimizer", "measure probe orders and partitioning of many queries"),
    "partitioning": ("weft_bench.partitioning", "measure shared partitioning alone"),
}
"""By the name of the sub-command: the module whose `main` is called, and what it does."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program that the first argument names with all arguments after it. Returns its exit code."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    module, _ = PROGRAMS[_parser().parse_args(given[:1]).program]
    try:
        # Only the program that is asked for is imported, since some of them take seconds to import.
        code: int = import_module(module).main(given[1:])
    except WeftError as error:
        sys.stderr.write(f"weft-bench: {error}\n")
        return FAILED
    except KeyboardInterrupt:
        return INTERRUPTED
    return code


def _parser() -> argparse.ArgumentParser:
    """A parser of the first argument alone: the rest belongs to the program, including --help."""
    parser = argparse.ArgumentParser(
        prog="weft-bench",
        description="Benchmarks of weft. `weft-bench PROGRAM --help` shows the options of a program.",
    )
    programs = parser.add_subparsers(dest="program", required=True, metavar="PROGRAM", title="programs")
    for name, (_, text) in PROGRAMS.items():
        programs.add_parser(name, help=text, add_help=False)
    return parser


if __name__ == "__main__":
    sys.exit(main())

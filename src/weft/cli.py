"""`weft`: the demo and the benchmarks by name; each has its own options."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Sequence

PROGRAMS = {
    ("demo",): "weft.demo",
    ("bench", "run"): "weft.bench.run_command",
    ("bench", "compare"): "weft.bench.compare",
    ("bench", "list"): "weft.bench.list_command",
    ("bench", "quick"): "weft.bench.quick",
    ("bench", "deployment"): "weft.bench.deployment",
    ("bench", "join-aggregate"): "weft.bench.join_aggregate",
    ("bench", "churn"): "weft.bench.churn",
    ("bench", "clash"): "weft.bench.clash",
    ("bench", "chain"): "weft.bench.chain",
    ("bench", "optimizer"): "weft.bench.optimizer",
    ("bench", "partitioning"): "weft.bench.partitioning",
}
"""What can be run, by the words of the command; loaded only when asked for."""


def find_program(words: Sequence[str]) -> tuple[str, list[str]] | None:
    """The module a command means and the arguments left for it; None if it means none."""
    for length in (2, 1):
        module = PROGRAMS.get(tuple(words[:length]))
        if module is not None:
            return module, list(words[length:])
    return None


def main() -> int:
    """Run the program that the command line names."""
    found = find_program(sys.argv[1:])
    if found is None:
        commands = "\n".join(f"  weft {' '.join(words)}" for words in PROGRAMS)
        asked = " ".join(sys.argv[1:])
        sys.stderr.write(f'no such command: "{asked}"\n' if asked else "")
        sys.stderr.write(f"commands (add --help for the options of each):\n{commands}\n")
        return 2
    module, arguments = found
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
    return 0

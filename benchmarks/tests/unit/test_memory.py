from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from weft_bench.memory import MemoryWatch, end_tree, process_tree

HELD = 64 << 20
PROGRAM = f"""
import subprocess, sys
held = bytearray({HELD})
if sys.argv[1] == "parent":
    child = subprocess.Popen([sys.executable, __file__, "child"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    child.stdout.readline()
print("ready", flush=True)
sys.stdin.read()
"""


@contextmanager
def family(program: str) -> Iterator[subprocess.Popen[str]]:
    """A process and its child, each holding memory, until the end of the block."""
    command = [sys.executable, program, "parent"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        try:
            yield process
        finally:
            end_tree(process.pid)


def test_peak_is_that_of_the_whole_tree(tmp_path: os.PathLike[str]) -> None:
    program = os.path.join(tmp_path, "program.py")
    with open(program, "w", encoding="utf-8") as file:
        file.write(PROGRAM)
    with family(program) as process, MemoryWatch(process.pid) as memory:
        pass
    assert memory.rss >= 2 * HELD
    assert 2 * HELD <= memory.pss <= memory.rss
    assert max(size for _, size in memory.samples) == memory.pss
    assert all(abs(at - time.time()) < 60 for at, _ in memory.samples)


def test_a_tree_is_ended_as_a_whole(tmp_path: os.PathLike[str]) -> None:
    program = os.path.join(tmp_path, "program.py")
    with open(program, "w", encoding="utf-8") as file:
        file.write(PROGRAM)
    with family(program) as process:
        tree = process_tree(process.pid)
        assert len(tree) == 2
        end_tree(process.pid)
        assert not any(member.is_running() and member.status() != "zombie" for member in tree)
    end_tree(process.pid)


def test_a_process_that_is_gone_has_no_tree() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    assert process_tree(process.pid) == []
    with MemoryWatch(process.pid) as memory:
        pass
    assert (memory.rss, memory.pss) == (0, 0)

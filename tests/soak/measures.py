"""Figures of processes and folders as the operating system tells them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil

_HEAP = re.compile(r"\bused (\d+)K")
_PATIENCE = 30.0


def processes(pid: int) -> dict[str, float]:
    """Memory, threads and open files of a service: its own process, Java, and all Python workers together."""
    found: dict[str, float] = {}
    for kind, process in _tree(pid):
        try:
            with process.oneshot():
                memory = process.memory_info()
                figures = {
                    "rss": memory.rss,
                    "own": memory.rss - getattr(memory, "shared", 0),
                    "threads": process.num_threads(),
                    "fds": process.num_fds(),
                }
        except psutil.Error:
            continue
        for measure, value in figures.items():
            found[f"{kind}.{measure}"] = found.get(f"{kind}.{measure}", 0.0) + value
    return found


def _tree(pid: int) -> Iterator[tuple[str, psutil.Process]]:
    try:
        root = psutil.Process(pid)
        children = root.children(recursive=True)
    except psutil.NoSuchProcess:
        return
    yield "driver", root
    for child in children:
        try:
            name = child.name()
        except psutil.Error:
            continue
        if name.startswith("java"):
            yield "java", child
        elif "python" in name:
            yield "workers", child


def java_heap(pid: int) -> dict[str, float]:
    """What Java needs after a collection, which this causes; nothing where the JDK's jcmd is not there."""
    jcmd = _jcmd()
    java = next((process.pid for kind, process in _tree(pid) if kind == "java"), None)
    if jcmd is None or java is None:
        return {}
    try:
        for command in ("GC.run", "GC.heap_info"):
            done = subprocess.run(
                [jcmd, str(java), command], capture_output=True, text=True, timeout=_PATIENCE, check=True
            )
    except (OSError, subprocess.SubprocessError):
        return {}
    used = _HEAP.search(done.stdout)
    return {} if used is None else {"java.heap": float(used[1]) * 1024}


def _jcmd() -> str | None:
    home = os.environ.get("JAVA_HOME")
    return shutil.which("jcmd", path=os.path.join(home, "bin") if home else None)


def size_of(folder: Path) -> tuple[int, int]:
    """Files and bytes below a folder; what vanishes meanwhile does not count."""
    files = size = 0
    todo = [os.fspath(folder)]
    while todo:
        try:
            entries = list(os.scandir(todo.pop()))
        except OSError:
            continue
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                todo.append(entry.path)
                continue
            with suppress(OSError):
                size += entry.stat(follow_symlinks=False).st_size
                files += 1
    return files, size


def state_sizes(state: Path, *, apart: tuple[str, ...] = ("inputs",)) -> dict[str, tuple[int, int]]:
    """Files and bytes of a state directory, in total but for what is told `apart`, and of each folder in it."""
    try:
        folders = sorted(entry.name for entry in os.scandir(state) if entry.is_dir())
    except OSError:
        folders = []
    found = {f"state/{name}": size_of(state / name) for name in folders}
    whole = size_of(state)
    files, size = (sum(found.get(f"state/{name}", (0, 0))[which] for name in apart) for which in (0, 1))
    return {"state": (whole[0] - files, whole[1] - size), **found}

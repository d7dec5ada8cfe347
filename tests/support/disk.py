"""A disk that is small enough to be filled in a test."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def small_disk(path: Path, size: str) -> Iterator[None]:
    """A new directory with a file system of its own that has so much room, such as "4m"."""
    path.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"this test needs to mount a small disk: {done.stderr.strip()}"
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)


def fill(path: Path) -> None:
    """Take all the room there is."""
    with open(path, "wb", buffering=0) as file:
        for size in (4096, 1):
            try:
                while True:
                    file.write(b"0" * size)
            except OSError:
                continue

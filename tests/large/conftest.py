"""Tests with gigabytes of rows: what they need of the machine, or a failure that says so."""

from __future__ import annotations

import shutil
from pathlib import Path

import psutil
import pytest

_MEMORY, _DISK = 10 << 30, 16 << 30


@pytest.fixture(autouse=True)
def enough_room(tmp_path: Path) -> None:
    """Fail, and do not skip, where the machine is too small."""
    memory, disk = psutil.virtual_memory().available, shutil.disk_usage(tmp_path).free
    assert memory >= _MEMORY, f"{memory >> 30} GiB of memory are free, and these tests need {_MEMORY >> 30}"
    assert disk >= _DISK, f"{disk >> 30} GiB of disk are free, and these tests need {_DISK >> 30} (pytest --basetemp)"

"""A worker at work for weft, and how it is left behind. Limits are of a process, so each test has one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from weft.errors import InvalidSetting
from weft.spark import worker
from weft.spark.worker import Worker, _to_bytes, machine_memory

PRELUDE = """
import gc, resource
import numpy as np, pyarrow as pa
from weft.spark.worker import Worker, worker_limits
def limit(): return resource.getrlimit(resource.RLIMIT_DATA)
before, threads = limit(), pa.cpu_count()
"""


def in_process(code: str) -> str:
    run = subprocess.run([sys.executable, "-c", PRELUDE + code], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout.strip()


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not enforce this limit")
@pytest.mark.parametrize(
    "allocation", ["np.ones(1 << 29)", "pa.allocate_buffer(4 << 30)", "bytes(4 << 30)", "[0] * (1 << 29)"]
)
def test_too_much_memory_is_an_error_of_the_task(allocation: str) -> None:
    code = f"""
try:
    with worker_limits(Worker(memory=3 << 30)):
        {allocation}
    print("had it")
except MemoryError:
    print("MemoryError", limit() == before)
"""
    assert in_process(code) == "MemoryError True"


def test_ordinary_work_lives_with_the_least_limit() -> None:
    code = f"""
from weft.kernels.order import sort_order
with worker_limits(Worker(memory={worker._LEAST})):
    assert limit()[0] == {worker._LEAST}
    sort_order(np.arange(1 << 21, dtype=np.uint64)[::-1].copy(), np.arange(1 << 21))
    table = pa.table({{"x": np.arange(1 << 22)}})
    taken = table.take(pa.array(np.arange(1 << 22)[::-1].copy()))
print(taken.num_rows, limit() == before)
"""
    assert in_process(code) == f"{1 << 22} True"


def test_a_shared_worker_is_left_as_it_was() -> None:
    code = """
pa.set_cpu_count(3)
with worker_limits(Worker(memory=8 << 30, shared=True)):
    print(pa.cpu_count(), end=" ")
print(pa.cpu_count(), gc.get_freeze_count(), limit() == before)
"""
    assert in_process(code) == "1 3 0 True"


def test_a_worker_of_weft_alone_settles() -> None:
    code = """
with worker_limits(Worker(memory=8 << 30, shared=False)):
    pass
print(pa.cpu_count(), gc.get_freeze_count() > 0, limit() == before)
"""
    assert in_process(code) == "1 True True"


def test_a_lower_limit_of_the_system_stays() -> None:
    code = """
resource.setrlimit(resource.RLIMIT_DATA, (4 << 30, before[1]))
with worker_limits(Worker(memory=8 << 30)):
    print(limit()[0] >> 30)
"""
    assert in_process(code) == "4"


@pytest.mark.parametrize(
    ("text", "size"), [("4g", 4 << 30), ("800m", 800 << 20), ("800MB", 800 << 20), ("0", 0), (" 12 ", 12)]
)
def test_sizes(text: str, size: int) -> None:
    assert _to_bytes(text) == size


@pytest.mark.parametrize("text", ["", "much", "-1g", "1.5g", "4 gigs"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(InvalidSetting, match=r"spark\.weft\.worker\.memory"):
        _to_bytes(text)


def test_the_limit_is_a_share_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "machine_memory", lambda: 100 << 30)
    assert Worker(slots=10).limit() == 6 << 30
    assert Worker(slots=1000).limit() == worker._LEAST
    assert Worker(memory=5).limit() == 5
    assert Worker(memory=0).limit() == 0


def test_the_memory_of_a_container_counts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    whole = machine_memory()
    (tmp_path / "max").write_text("123456789\n")
    (tmp_path / "none").write_text("max\n")
    monkeypatch.setattr(worker, "_CGROUP_LIMITS", (str(tmp_path / "none"), str(tmp_path / "nowhere")))
    assert machine_memory() >= whole
    monkeypatch.setattr(worker, "_CGROUP_LIMITS", (str(tmp_path / "none"), str(tmp_path / "max")))
    assert machine_memory() == 123456789

"""What weft starts: an environment without secrets, no ports for others, a Spark that ends with its last engine."""

from __future__ import annotations

import ipaddress
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.meta.project import ROOT

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def child(*arguments: str) -> Any:
    command = [sys.executable, "-m", "tests.spark.session_child", *arguments]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout.splitlines()[-1])


def test_secrets_and_ports() -> None:
    found = child("started")
    assert len(found["here"]) == 4
    kept = ["CANARY_PASSED_KEY", "CANARY_PLAIN"]
    assert found["workers"] == [kept, kept]
    assert found["java"] == kept
    assert found["listening"], "Java has ports for this process"
    assert [each for each in found["listening"] if not _is_loopback(each)] == []
    assert (found["mode"], found["share"]) == ("FAIR", 1_000_000), "batches go before reads"
    assert found["again"], "a Spark that runs is used as it is"
    assert found["zone"] == "UTC"


def _is_loopback(address: str) -> bool:
    found = ipaddress.ip_address(address)
    inner = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return (inner or found).is_loopback


def test_a_spark_is_stopped_with_the_last_engine(tmp_path: Path) -> None:
    found = child("engines", str(tmp_path))
    assert found == {"same": True, "alive": True, "failed": "state_locked", "counted": True, "left": False}

"""The benchmark runs from end to end on tiny sizes, each case with a Spark of its own, and finds its results right."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.meta.project import ROOT
from weft_bench.paths import python_path

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def run_module(name: str, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", name, "--quick-check", *options],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": python_path()},
        capture_output=True,
        text=True,
        check=False,
    )


def test_quick_measures_both_systems_and_compares_with_duckdb(tmp_path: Path) -> None:
    done = run_module("weft_bench.quick", "--only", "joins", "--json", str(tmp_path / "quick.json"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "6 results compared, all equal to those of DuckDB alone" in done.stdout
    found = json.loads((tmp_path / "quick.json").read_text(encoding="utf-8"))
    assert [line["label"] for line in found["lines"]] == ["weft delivered", "spark checked", "weft row path 4 files"]
    assert all(line["rows_per_second"] > 0 and line["pss"] > 0 for line in found["lines"])
    assert found["lines"][2]["over_spark"] > 0
    assert found["wrong_results"] == []


def test_quick_measures_aggregates_and_compares_with_duckdb(tmp_path: Path) -> None:
    done = run_module("weft_bench.quick", "--only", "aggregates", "--json", str(tmp_path / "quick.json"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "6 results compared, all equal to those of DuckDB alone" in done.stdout
    found = json.loads((tmp_path / "quick.json").read_text(encoding="utf-8"))
    assert [line["label"] for line in found["lines"]] == ["weft", "spark checked 4 files"]
    assert all(line["rows_per_second"] > 0 and line["pss"] > 0 for line in found["lines"])
    assert found["wrong_results"] == []


def test_join_aggregate_gives_the_same_both_ways(tmp_path: Path) -> None:
    done = run_module("weft_bench.join_aggregate", "--json", str(tmp_path / "figures.json"))
    assert done.returncode in (0, 1), done.stdout + done.stderr  # so little input is no gain
    assert (tmp_path / "figures.json").exists(), done.stdout + done.stderr
    [found] = json.loads((tmp_path / "figures.json").read_text(encoding="utf-8"))
    assert found["equal"], done.stdout + done.stderr
    assert found["pairs_per_second"] >= 100_000
    assert found["ratio"] > 0
    for way in ("aggregated", "materialized"):
        assert 0 < found[way]["memory"]["start"] <= found[way]["memory"]["peak"]


def test_churn_follows_the_waves_and_draws_them(tmp_path: Path) -> None:
    done = run_module("weft_bench.churn", "--out", str(tmp_path))
    assert done.returncode in (0, 1), done.stdout + done.stderr  # on a busy machine latency is not bounded
    assert (tmp_path / "churn.json").exists(), done.stdout + done.stderr
    assert (tmp_path / "churn.png").read_bytes().startswith(b"\x89PNG")
    found = json.loads((tmp_path / "churn.json").read_text(encoding="utf-8"))
    assert found["created"] > found["dropped"] > 0
    assert found["bars"]["no query failed"]
    assert found["commits"]
    assert all(commit["at"] > commit["newest"] for commit in found["commits"])


def test_deployment_sees_every_query_come_to_life(tmp_path: Path) -> None:
    done = run_module("weft_bench.deployment", "--json", str(tmp_path / "deployment.json"))
    assert done.returncode in (0, 1), done.stdout + done.stderr  # on a busy machine the bars may be missed
    assert (tmp_path / "deployment.json").exists(), done.stdout + done.stderr
    found = json.loads((tmp_path / "deployment.json").read_text(encoding="utf-8"))
    assert found["created"] == 40
    assert 0 < found["to_live"]["p50"] <= found["to_live"]["p99"] <= found["to_live"]["largest"]
    assert found["before"]["rows_per_second"] > 0

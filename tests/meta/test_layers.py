"""The layers of docs/explanation/architecture.md hold, and the contracts that say so would notice if they did not."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.meta.project import BENCHMARKS, EXAMPLES, ROOT, SOURCE, python_files

OURS = ("weft", "weft_bench")
VIOLATIONS = [
    ("errors.py", "import weft.plan.types", "imports point down only"),
    ("plan/new.py", "from weft.storage import directory", "imports point down only"),
    ("helpers.py", "", "imports point down only"),
    ("plan/new.py", "from pyspark.sql import SparkSession", "only spark imports pyspark"),
    ("storage/new.py", "import pyspark", "only spark imports pyspark"),
    ("plan/new.py", "import sqlglot", "sqlglot stays inside sql"),
    ("execution/new.py", "from sqlglot import exp", "sqlglot stays inside sql"),
    ("plan/new.py", "import pyarrow as pa", "plan, sql and planner are pure"),
    ("plan/new.py", "from time import monotonic", "plan, sql and planner are pure"),
    ("kernels/new.py", "from pathlib import Path", "kernels are functions on arrays"),
]


def lint_imports(source: Path) -> subprocess.CompletedProcess[str]:
    """Check the contracts of pyproject.toml on the package under `source`."""
    check = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_logo=True, no_cache=True))"
    return subprocess.run(
        [sys.executable, "-c", check],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(source), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_contracts_hold() -> None:
    done = lint_imports(SOURCE.parent)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.thorough
@pytest.mark.parametrize(("name", "line", "contract"), VIOLATIONS)
def test_a_violation_is_noticed(tmp_path: Path, name: str, line: str, contract: str) -> None:
    package = tmp_path / "weft"
    shutil.copytree(SOURCE, package, ignore=shutil.ignore_patterns("__pycache__"))
    file = package / name
    before = file.read_text(encoding="utf-8") if file.exists() else ""
    file.write_text(f"{before}\n{line}\n", encoding="utf-8")
    done = lint_imports(tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    broken = [text for text in done.stdout.splitlines() if " BROKEN" in text]
    assert any(contract in text for text in broken), done.stdout


def test_no_import_of_ours_hides_in_a_function() -> None:
    """A function-local first-party import means a layer is wrong: fix the layer."""
    hidden = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in python_files(SOURCE, BENCHMARKS / "weft_bench")
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(function)
        if _imports_ours(node)
    ]
    assert hidden == []


def _imports_ours(node: ast.AST) -> bool:
    match node:
        case ast.Import(names=names):
            return any(name.name.split(".")[0] in OURS for name in names)
        case ast.ImportFrom(module=str(module)):
            return module.split(".")[0] in OURS
        case _:
            return False


def test_only_the_engine_reaches_its_core() -> None:
    """The service, the command line, examples and benchmarks see copies (`engine/snapshots.py`), and no lock."""
    folders = (SOURCE / "service", SOURCE / "cli", BENCHMARKS / "weft_bench", EXAMPLES)
    reaching = [
        f"{path.name}:{node.lineno}"
        for path in python_files(*folders)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and node.attr == "core" and _is_engine(node.value)
    ]
    assert reaching == []


def _is_engine(node: ast.expr) -> bool:
    name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    return name.strip("_") in ("engine", "catalog")

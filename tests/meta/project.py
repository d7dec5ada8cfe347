"""The project as the meta tests see it: its root, its files, its configuration."""

from __future__ import annotations

import subprocess
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "weft"
TESTS = ROOT / "tests"
BENCHMARKS = ROOT / "benchmarks"
EXAMPLES = ROOT / "examples"

_GENERATED = {".git", ".venv", "__pycache__", "build", "dist", "bench-out", ".bench", "demo-out", "soak-out"}


def pyproject() -> dict[str, Any]:
    """The parsed pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def python_files(*folders: Path) -> list[Path]:
    """Every Python file under `folders`, in a stable order."""
    return sorted(path for folder in folders for path in folder.rglob("*.py"))


def project_files() -> list[Path]:
    """Every file that is, or will be, part of the project: tracked, or new and not ignored."""
    if not (ROOT / ".git").exists():  # an unpacked archive
        found = [path for path in ROOT.rglob("*") if path.is_file() and not _GENERATED & set(path.parts)]
        return sorted(path for path in found if not any("cache" in part for part in path.relative_to(ROOT).parts))
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return sorted(path for name in listed.stdout.split("\0") if name and (path := ROOT / name).is_file())

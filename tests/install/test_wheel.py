"""A wheel that is installed into a clean environment outside of the checkout works, and says which extra is missing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WITHIN = 180.0
"""Seconds in which a service that works does anything."""
CONFIGURATION = """
[server]
port = 0
[engine]
path = "state"
trigger = "100 milliseconds"
[spark]
log = "spark.log"
[[streams]]
name = "clicks"
path = "in/clicks"
format = "json"
schema = "ts TIMESTAMP, user BIGINT"
time = "ts"
"""
ROWS = [{"ts": f"2026-01-01T00:00:0{second}Z", "user": second % 2} for second in range(6)]


def run(*command: str | Path, cwd: Path, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run a command in an environment without a trace of the checkout."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    done = subprocess.run([*map(str, command)], cwd=cwd, env=kept, capture_output=True, text=True, check=False)
    assert not check or done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a virtual environment that has weft's wheel and what the core needs."""
    folder = tmp_path_factory.mktemp("installed")
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check")
    run(*pip, "wheel", "--quiet", "--no-build-isolation", "--no-deps", "--wheel-dir", folder, ROOT, cwd=folder)
    run(sys.executable, "-m", "venv", folder / "venv", cwd=folder)
    install(folder, "")
    return folder


def install(folder: Path, extras: str) -> None:
    (wheel,) = folder.glob("weft_streams-*.whl")
    python, lock = folder / "venv" / "bin" / "python", ROOT / "requirements.lock"
    options = ("--quiet", "--disable-pip-version-check", "--constraint", lock)
    run(python, "-m", "pip", "install", *options, f"{wheel}{extras}", cwd=folder)


def test_the_core_needs_no_extra(place: Path) -> None:
    python = place / "venv" / "bin" / "python"
    code = (
        "import sys, weft; weft.Engine; print(weft.__file__); "
        "print(sorted({'fastapi', 'typer', 'sklearn'} & set(sys.modules)))"
    )
    where, loaded = run(python, "-c", code, cwd=place).stdout.splitlines()
    assert Path(where).is_relative_to(place)
    assert loaded == "[]"


def test_the_command_says_which_extra_is_missing(place: Path) -> None:
    done = run(place / "venv" / "bin" / "weft", "query", "list", cwd=place, check=False)
    assert done.returncode == 1
    assert "missing_extra" in done.stderr
    assert "weft-streams[cli]" in done.stderr
    assert "Traceback" not in done.stderr


def test_serving_says_which_extra_is_missing(place: Path) -> None:
    install(place, "[cli]")
    (place / "weft.toml").write_text(CONFIGURATION, encoding="utf-8")
    done = run(place / "venv" / "bin" / "weft", "serve", "--config", "weft.toml", cwd=place, check=False)
    assert done.returncode == 1
    assert "weft-streams[service]" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.fixture
def service(place: Path) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """A service from the installed wheel, and its address."""
    install(place, "[service]")
    (place / "weft.toml").write_text(CONFIGURATION, encoding="utf-8")
    (place / "in" / "clicks").mkdir(parents=True)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    command = [place / "venv" / "bin" / "weft", "serve", "--config", "weft.toml"]
    with (place / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=place, env=kept, stdout=log, stderr=log)
    try:
        yield process, address_of(place, process)
    finally:
        process.kill()
        process.wait()


def address_of(place: Path, process: subprocess.Popen[bytes]) -> str:
    deadline = time.monotonic() + WITHIN
    while time.monotonic() < deadline:
        assert process.poll() is None, (place / "log").read_text()
        note = place / "state" / "service.json"
        if note.exists():
            sealed = json.loads(note.read_text(encoding="utf-8"))
            address: str = sealed.get("value", sealed)["address"]
            if answers(f"{address}/ready"):
                return address
        time.sleep(0.2)
    raise AssertionError(f"the service is not ready: {(place / 'log').read_text()}")


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def test_an_installed_service_serves(place: Path, service: tuple[subprocess.Popen[bytes], str]) -> None:
    process, address = service
    weft = (place / "venv" / "bin" / "weft", "--server", address)
    run(*weft, "query", "create", "SELECT user FROM clicks WHERE user = 1", "--name", "ones", cwd=place)
    lines = "".join(json.dumps(row) + "\n" for row in ROWS)
    (place / "in" / ".clicks").write_text(lines, encoding="utf-8")
    (place / "in" / ".clicks").rename(place / "in" / "clicks" / "1.jsonl")
    deadline, rows = time.monotonic() + WITHIN, []
    while len(rows) < 3 and time.monotonic() < deadline:
        rows = json.loads(run(*weft, "--json", "query", "results", "ones", cwd=place).stdout)["rows"]
        time.sleep(0.2)
    assert rows == [[1], [1], [1]]
    assert answers(f"{address}/"), "the dashboard is part of the wheel"
    process.send_signal(signal.SIGTERM)
    assert process.wait(WITHIN) == 0

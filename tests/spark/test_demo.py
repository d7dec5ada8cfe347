"""The demo as its user runs it: a process of its own, on real Spark."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PATIENCE = 400
AGREE = "3 random queries agree row for row with DuckDB running each alone"

PROGRESS = re.compile(
    r"^ +\d+ s  batch \d+  [\d,]+ rows/s  \d+ live queries  batch latency \d+\.\d\d s\r?$", re.MULTILINE
)

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "examples.ads", "--rate", "2000", *arguments]


def environment(folder: Path, **more: str) -> dict[str, str]:
    """Its temporary files, and Spark's, in `folder`."""
    folder.mkdir()
    return {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT))), "TMPDIR": str(folder), **more}


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments),
        cwd=folder.parent,
        env=environment(folder),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def test_it_agrees_and_leaves_nothing(tmp_path: Path) -> None:
    done = run(tmp_path / "tmp", "--seconds", "8", "--queries", "12", "--seed", "5")
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    assert AGREE in done.stdout
    assert done.stdout.count("✓") == 3
    assert PROGRESS.search(done.stdout)
    assert re.search(r"^dashboard: http://127\.0\.0\.1:\d+ ", done.stdout, re.MULTILINE)
    assert "\x1b" not in done.stdout
    assert [path.name for path in (tmp_path / "tmp").iterdir() if path.name.startswith("weft-demo")] == []
    assert [path.name for path in tmp_path.iterdir()] == ["tmp"], "nothing in the working directory"


def test_ctrl_c_in_a_terminal_ends_with_the_summary(tmp_path: Path) -> None:
    """The whole foreground group gets the signal, as in a terminal; the running batch does not suffer from it."""
    kept = tmp_path / "kept"
    arguments = command("--forever", "--queries", "8", "--keep", str(kept))
    screen = Terminal(arguments, environment(tmp_path / "tmp", TERM="xterm-256color"))
    screen.wait_for("batch latency")
    time.sleep(2)
    screen.press_ctrl_c()
    assert screen.wait() == 0, screen.text[-5_000:]
    assert AGREE in screen.text
    assert PROGRESS.search(screen.text)
    assert "\x1b" not in screen.text, "lines, no full-screen view"
    assert "Traceback" not in screen.text
    assert "WARN" not in screen.text
    assert {path.name for path in kept.iterdir()} == {"in", "state", "spark.log", "weft.log"}
    assert list((kept / "in" / "ads").glob("*.parquet"))
    assert (kept / "weft.log").read_text() == ""


class Terminal:
    """A program in a terminal of its own, 80 × 24."""

    def __init__(self, arguments: Sequence[str], variables: dict[str, str]) -> None:
        self.text = ""
        self._process, self._master = pty.fork()
        if self._process == 0:
            os.execvpe(arguments[0], arguments, {**variables, "COLUMNS": "80", "LINES": "24"})
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self._master, 65536)
            except OSError:  # the terminal's other end was closed
                return
            self.text += data.decode(errors="replace")

    def wait_for(self, words: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while words not in self.text:
            if time.monotonic() > deadline or not self._reader.is_alive():
                os.kill(self._process, signal.SIGKILL)
                pytest.fail(f"{words!r} never came; the screen was:\n{self.text[-5_000:]}")
            time.sleep(0.1)

    def press_ctrl_c(self) -> None:
        os.write(self._master, b"\x03")

    def wait(self) -> int:
        self._reader.join(PATIENCE)
        _, status = os.waitpid(self._process, 0)
        os.close(self._master)
        return os.waitstatus_to_exitcode(status)

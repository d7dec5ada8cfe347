"""The guard of unit tests: no Spark, no sleep, no network. A test that tries one of them fails.

The conftest of a folder of unit tests imports `alone` and `pytest_collection_modifyitems` from here.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
_UNIT = (_ROOT / "tests" / "unit", _ROOT / "benchmarks" / "tests" / "unit")
_TIMEOUT_SECONDS = 120  # the first call of a numba kernel compiles it
_real_sleep = time.sleep


class _Guard:
    """Watches while a unit test runs. Its audit hook can never be taken out again, only be told to be quiet."""

    def __init__(self) -> None:
        self.test: str | None = None
        sys.addaudithook(self.watch)

    def watch(self, event: str, arguments: tuple[object, ...]) -> None:
        """Sees every connection and every process, however it was reached."""
        if self.test is None:
            return
        match event:
            case "socket.connect" | "socket.bind" | "socket.getaddrinfo":
                self.refuse("uses the network")
            case "subprocess.Popen" if "spark-submit" in str(arguments):
                self.refuse("starts Spark")

    def sleep(self, seconds: float) -> None:
        """In place of time.sleep; others may: subprocess waits for a short-lived child by sleeping."""
        if self.test is not None and _is_ours(Path(sys._getframe(1).f_code.co_filename)):
            self.refuse("sleeps")
        _real_sleep(seconds)

    def refuse(self, what: str) -> None:
        test, self.test = self.test, None  # once is enough: reporting the failure may do anything
        pytest.fail(f"unit test {test} {what}; such a test belongs in tests/spark or tests/property")


_guard = _Guard()


@pytest.fixture(autouse=True)
def alone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Guard every test of the folder whose conftest imports this."""
    monkeypatch.setattr(time, "sleep", _guard.sleep)
    _guard.test = request.node.nodeid
    yield
    _guard.test = None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Unit tests run first, while no Spark of another test can be alive in this process, and have less time."""
    for item in items:
        if _is_unit(item) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(_TIMEOUT_SECONDS))
    items.sort(key=lambda item: not _is_unit(item))


def _is_unit(item: pytest.Item) -> bool:
    return any(item.path.is_relative_to(folder) for folder in _UNIT)


def _is_ours(path: Path) -> bool:
    return path.is_relative_to(_ROOT) and not path.is_relative_to(_ROOT / ".venv")

"""What the tests of the command line share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.cli_fake import FakeBackend


@pytest.fixture(autouse=True)
def _nobodys_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WEFT_SERVER", "WEFT_PATH", "WEFT_TOKEN", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> Callable[..., FakeBackend]:
    """Lets commands work on a fake that gives these answers."""

    def make(**answers: Any) -> FakeBackend:
        fake = FakeBackend(**answers)
        monkeypatch.setattr("weft.cli.command.open_backend", fake.open)
        monkeypatch.setattr("weft.cli.queries.open_backend", fake.open)
        return fake

    return make

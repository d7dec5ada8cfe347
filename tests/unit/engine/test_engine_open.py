"""An engine that cannot be opened gives everything back: the directory can be opened as soon as it is repaired."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from weft.engine import engine as engine_module
from weft.engine.engine import Engine
from weft.engine.sinks.deliveries import Deliveries
from weft.errors import StateCorrupt
from weft.storage.directory import Directory


def test_a_sink_that_cannot_be_restored_does_not_keep_the_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    released: list[str] = []

    def stand_in(name: str) -> Any:
        def made(*_: object) -> SimpleNamespace:
            return SimpleNamespace(
                spark=None, release=lambda: released.append(name), close=lambda: released.append(name)
            )

        return made

    for name in ("SparkLease", "JavaLock", "BatchRunner"):
        monkeypatch.setattr(engine_module, name, stand_in(name))

    def fails(_: Deliveries) -> None:
        raise StateCorrupt('state file "sinks/q1.json" is missing')

    monkeypatch.setattr(Deliveries, "restore", fails)
    with pytest.raises(StateCorrupt, match=r"sinks/q1\.json"):
        Engine(tmp_path / "state")
    assert released == ["BatchRunner", "JavaLock", "SparkLease"]
    Directory.open(tmp_path / "state").close()

"""Freed memory goes back now and then, and not more often."""

from __future__ import annotations

import pytest

from weft.spark import freed_memory
from weft.spark.freed_memory import EVERY_SECONDS, give_memory_back


def test_it_is_given_back_once_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    now = [1000.0]
    monkeypatch.setattr(freed_memory, "_trim", lambda pad: calls.append(pad) or 1)
    monkeypatch.setattr(freed_memory, "_last", 0.0)
    assert give_memory_back(clock=lambda: now[0])
    assert not give_memory_back(clock=lambda: now[0])
    now[0] += EVERY_SECONDS
    assert give_memory_back(clock=lambda: now[0])
    assert calls == [0, 0]


def test_another_c_library_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(freed_memory, "_trim", None)
    monkeypatch.setattr(freed_memory, "_last", 0.0)
    assert not give_memory_back(clock=lambda: 1000.0)

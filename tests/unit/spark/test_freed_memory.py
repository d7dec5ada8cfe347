"""Freed memory goes back now and then, and not more often."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from weft.spark import freed_memory
from weft.spark.freed_memory import EVERY_SECONDS, limit_fragmentation, trim_memory


def test_it_is_given_back_once_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    now = [1000.0]
    monkeypatch.setattr(freed_memory, "_trim", lambda pad: calls.append(pad) or 1)
    monkeypatch.setattr(freed_memory, "_last", 0.0)
    assert trim_memory(clock=lambda: now[0])
    assert not trim_memory(clock=lambda: now[0])
    now[0] += EVERY_SECONDS
    assert trim_memory(clock=lambda: now[0])
    assert calls == [0, 0]


def test_another_c_library_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(freed_memory, "_trim", None)
    monkeypatch.setattr(freed_memory, "_last", 0.0)
    assert not trim_memory(clock=lambda: 1000.0)


def test_the_allocator_is_set_or_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []
    library = SimpleNamespace(mallopt=lambda *given: asked.append(given) or 1)
    monkeypatch.setattr(freed_memory.ctypes, "CDLL", lambda _: library)
    assert limit_fragmentation()
    assert asked == [(-8, 2), (-3, 128 << 10)]
    monkeypatch.setattr(freed_memory.ctypes, "CDLL", lambda _: SimpleNamespace())
    assert not limit_fragmentation()

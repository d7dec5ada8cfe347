"""What is done about a batch that failed: a fault of the disk is no query's, and may pass."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from weft.engine.batches import batches
from weft.engine.batches.batches import Batches
from weft.errors import StateUnavailable


def test_a_file_that_cannot_be_opened_now_is_tried_again_and_blamed_on_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(batches, "time", SimpleNamespace(sleep=pauses.append))
    monkeypatch.setattr(batches, "failing_sources", lambda *_, **__: pytest.fail("nobody is to be blamed"))
    mine = cast(Any, SimpleNamespace(failures=0, error=None, _core=SimpleNamespace(next_batch=3)))
    error, offer = StateUnavailable("not now"), cast(Any, object())
    for attempt in (1, 2):
        assert Batches._after_failure(mine, offer, error, attempt) is offer
    with pytest.raises(StateUnavailable):
        Batches._after_failure(mine, offer, error, 3)
    assert mine.failures == 3
    assert len(pauses) == 2

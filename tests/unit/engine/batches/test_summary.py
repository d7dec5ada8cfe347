"""What of a batch goes into the log."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.engine_sample import open_core, rows
from weft.engine.batches.summary import log_batch


def test_a_query_that_failed_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """As it was: the name was only in what handlers of the service add to a record."""
    harness = open_core(tmp_path / "state")
    harness.create("SELECT x FROM a", "mine")
    harness.batch({"a": [rows((1, 1, 1))]})
    [manifest] = harness.core.inventory.results
    log_batch(replace(manifest, failed=(("q1", "division by zero"),)), harness.core.roster)
    assert 'query "mine" failed: division by zero' in caplog.text

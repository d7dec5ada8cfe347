"""The unit tests of the benchmark are guarded as those of weft are; tests/unit/test_alone.py tests the guard."""

from __future__ import annotations

import subprocess
import time

import pytest
from _pytest.outcomes import Failed


def test_sleep_is_refused() -> None:
    with pytest.raises(Failed, match="sleeps"):
        time.sleep(0)


def test_starting_spark_is_refused() -> None:
    with pytest.raises(Failed, match="starts Spark"):
        subprocess.run(["spark-submit"], check=False)


def test_the_time_of_a_test_is_limited(request: pytest.FixtureRequest) -> None:
    assert request.node.get_closest_marker("timeout").args == (120,)

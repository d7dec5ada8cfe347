"""The guard of tests/support/alone.py: what it forbids, and what it leaves alone."""

from __future__ import annotations

import socket
import subprocess
import sys
import time

import pytest
from _pytest.outcomes import Failed
from pyspark import SparkContext


def test_sleep_is_refused() -> None:
    with pytest.raises(Failed, match="sleeps"):
        time.sleep(0)


def test_a_connection_is_refused() -> None:
    with socket.socket() as client, pytest.raises(Failed, match="uses the network"):
        client.connect(("127.0.0.1", 9))


def test_looking_up_a_host_is_refused() -> None:
    with pytest.raises(Failed, match="uses the network"):
        socket.getaddrinfo("localhost", 80)


def test_starting_spark_is_refused() -> None:
    with pytest.raises(Failed, match="starts Spark"):
        subprocess.run(["spark-submit"], check=False)


def test_spark_itself_is_refused() -> None:
    with pytest.raises(Failed, match="starts Spark"):
        SparkContext("local[1]", "refused")


def test_an_ordinary_process_is_fine() -> None:
    done = subprocess.run([sys.executable, "-c", "import time; time.sleep(0.05)"], check=True, timeout=30)
    assert done.returncode == 0

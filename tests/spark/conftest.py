"""One Spark for all tests of this directory."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.support import Place

CHECKPOINTS = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A local Spark as weft needs it: UTC, ANSI, no UI, workers on this interpreter."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # py4j leaves a socket to the garbage collector
        session = (
            SparkSession.builder.master("local[2]")
            .appName("weft-tests")
            .config("spark.ui.enabled", "false")
            .config("spark.sql.session.timeZone", "UTC")
            .config("spark.sql.ansi.enabled", "true")
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.python.unix.domain.socket.enabled", "true")
            .config("spark.sql.streaming.stopTimeout", "20s")
            .config("spark.hadoop.fs.file.impl", "org.apache.hadoop.fs.RawLocalFileSystem")
            .config("spark.sql.streaming.checkpointFileManagerClass", CHECKPOINTS)
            .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1")  # a short life: compile less
            .config("spark.ui.showConsoleProgress", "false")
            .getOrCreate()
        )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture
def place(spark: SparkSession, tmp_path: Path) -> Iterator[Place]:
    """A directory of its own for streams and an engine; whatever engine is open at the end is stopped."""
    place = Place(tmp_path, spark)
    yield place
    place.close()

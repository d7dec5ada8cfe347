"""Streams as one streaming DataFrame: a union of named sources, so that streams can be added on one checkpoint."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from weft.errors import DetachedStream, InvalidStream
from weft.plan.expression import quote
from weft.plan.stream import FileSource, FrameSource, Stream

STREAM, PATH = "weft#stream", "weft#path"
MOST_BYTES = 512 << 20
"""Of the files of a stream in a batch, but one file at least: a backlog is worked off in pieces that fit memory."""
_PATTERN = re.compile(r"[{}\[\]*?\\]")
_BINARY_FILE = "path string, modificationTime timestamp, length long, content binary"


def read_streams(spark: SparkSession, streams: Mapping[str, Stream], frames: Mapping[str, DataFrame]) -> DataFrame:
    """All streams in one DataFrame: file streams as paths, others as rows under names that no two streams share."""
    parts = [_part(spark, stream, frames) for _, stream in sorted(streams.items())]
    return reduce(lambda left, right: left.unionByName(right, allowMissingColumns=True), parts)


def _part(spark: SparkSession, stream: Stream, frames: Mapping[str, DataFrame]) -> DataFrame:
    match stream.source:
        case FileSource(path=path, max_files_per_batch=limit):
            reader = spark.readStream.name(_source_name(stream.name)).format("binaryFile").schema(_BINARY_FILE)
            limits = {"maxBytesPerTrigger": MOST_BYTES} if limit is None else {"maxFilesPerTrigger": limit}
            files = reader.options(**limits).load(_PATTERN.sub(r"\\\g<0>", path))
            return files.select(F.lit(stream.name).alias(STREAM), F.col("path").alias(PATH))
        case FrameSource():
            frame = frames.get(stream.name)
            if frame is None:
                raise DetachedStream(
                    f'stream "{stream.name}" reads a DataFrame that is not attached',
                    hint=f'Call engine.stream("{stream.name}", <the DataFrame>, time="{stream.time}") before start.',
                )
            frame = _with_named_sources(frame, stream.name)
            columns = [F.col(quote(name)).alias(_column_name(stream, name)) for name in stream.schema.names()]
            return frame.select(F.lit(stream.name).alias(STREAM), F.lit(None).cast("string").alias(PATH), *columns)


def open_frame(
    spark: SparkSession, stream: str, *, format: str, path: str | None, schema: str | None, options: Mapping[str, str]
) -> DataFrame:
    """What Spark reads by one of its formats, as a stream; raises InvalidStream with Spark's own words."""
    reader = spark.readStream.format(format).options(**options)
    try:
        reader = reader if schema is None else reader.schema(schema)
        return reader.load() if path is None else reader.load(path)
    except Exception as error:
        raise InvalidStream(
            f'stream "{stream}" cannot be read as {format!r}',
            detail=str(error).strip().splitlines()[0][:500],
            hint="Is the format known to Spark (its package on the classpath), and are its options right?",
        ) from error


def rows_of(frame: DataFrame, stream: Stream, columns: tuple[str, ...]) -> DataFrame:
    """The rows of one DataFrame stream in a batch, under their own column names."""
    picked = [F.col(quote(_column_name(stream, name))).alias(name) for name in columns]
    return frame.where(F.col(quote(STREAM)) == stream.name).select(*picked)


def files_of(frame: DataFrame, streams: list[str]) -> DataFrame:
    """Paths of the new files of some file streams in a batch."""
    return frame.where(F.col(quote(STREAM)).isin(streams)).select(quote(STREAM), quote(PATH))


def is_pattern(path: str) -> bool:
    """Whether Spark takes a path for a pattern: then it lists all files of the batch once more for it."""
    return _PATTERN.search(path) is not None


def _column_name(stream: Stream, column: str) -> str:
    return f"{stream.name}##{column}"


def _source_name(stream: str) -> str:
    """A name Spark allows for a source; different for different streams."""
    return "weft_" + "".join(c if c.isascii() and c.isalnum() else f"_{ord(c):x}_" for c in stream)


def _with_named_sources(frame: DataFrame, stream: str) -> DataFrame:
    """The same DataFrame with names for the sources below it where the user gave none.

    With source evolution Spark wants every source named, but a name can only be given to a reader, and the user has
    long made the DataFrame. The leaves of a copy of its plan can still be named: streams may share a source, and what
    it is called must not depend on what else the DataFrame was used for.
    """
    spark: Any = frame.sparkSession
    plan = frame._jdf.queryExecution().analyzed().clone()
    leaves = plan.collectLeaves()
    for number in range(leaves.length()):
        leaf = leaves.apply(number)
        for field in (f for f in leaf.getClass().getDeclaredFields() if f.getName() == "sourceIdentifyingName"):
            field.setAccessible(True)
            if "Unassigned" in field.get(leaf).getClass().getName():
                given = spark._jvm.org.apache.spark.sql.catalyst.streaming.UserProvided
                field.set(leaf, given(f"{_source_name(stream)}_{number}"))
    return DataFrame(spark._jvm.org.apache.spark.sql.classic.Dataset.ofRows(spark._jsparkSession, plan), spark)

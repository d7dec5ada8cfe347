"""Streams that Spark reads in one of its own formats."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession

from weft.errors import InvalidStream


def open_frame(
    spark: SparkSession, stream: str, *, format: str, path: str | None, schema: str | None, options: Mapping[str, str]
) -> DataFrame:
    """Return a streaming DataFrame that reads a Spark format. Raise InvalidStream with Spark's message on failure."""
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

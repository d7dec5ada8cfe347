"""A query's results through Spark: its SELECT list is evaluated by Spark itself, over rows read from the result log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

import pyarrow as pa
from pyspark.errors import (
    AnalysisException,
    ArithmeticException,
    ArrayIndexOutOfBoundsException,
    DateTimeException,
    NumberFormatException,
    ParseException,
    PythonException,
    SparkRuntimeException,
)
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_schema

from weft.errors import QueryFailed, TypeMismatch
from weft.plan.expression import quote
from weft.plan.query import Output
from weft.runtime.read import Chunk, Reading, read_chunk
from weft.runtime.session import streaming_settings

_EXPRESSION_FAILED = (
    ArithmeticException,
    ArrayIndexOutOfBoundsException,
    DateTimeException,
    NumberFormatException,
    SparkRuntimeException,
)
"""What Spark raises when an expression fails on a row."""


def results_frame(
    spark: SparkSession, reading: Reading, chunks: Sequence[Chunk], outputs: Sequence[Output]
) -> DataFrame:
    """The committed rows of a query in its own columns and types; read when an action asks for them."""
    with streaming_settings(spark):
        schema = from_arrow_schema(read_schema(reading))
        columns = [F.expr(output.sql).alias(output.name) for output in outputs]
        if not chunks:
            return _select(spark.createDataFrame([], schema), reading, columns)
        work = spark.sparkContext.parallelize(
            [(chunk.to_json(),) for chunk in chunks], min(len(chunks), spark.sparkContext.defaultParallelism)
        )
        rows = spark.createDataFrame(work, "chunk string").mapInArrow(partial(_read, reading), schema)
        return _select(rows, reading, columns)


def _select(rows: DataFrame, reading: Reading, columns: Sequence[Column]) -> DataFrame:
    return (rows if reading.having is None else rows.where(F.expr(reading.having))).select(*columns)


def read_schema(reading: Reading) -> pa.Schema:
    """What a chunk's table looks like; a SELECT list of constants still needs its rows counted."""
    return reading.schema if len(reading.schema) else pa.schema([("weft#rows", pa.bool_())])


def _read(reading: Reading, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for text in batch.column("chunk").to_pylist():
            yield from read_chunk(reading, Chunk.from_json(text)).to_batches(max_chunksize=100_000)


def project(
    spark: SparkSession, reading: Reading, chunks: Sequence[Chunk], outputs: Sequence[Output]
) -> Iterator[pa.Table]:
    """The same rows as Arrow tables in this process; Spark is asked only where an output is an expression."""
    if reading.having is None and all(output.source is not None for output in outputs):
        for chunk in chunks:
            table = read_chunk(reading, chunk)
            if table.num_rows:
                arrays = [table.column(output.source or "") for output in outputs]
                yield pa.Table.from_arrays(arrays, names=[output.name for output in outputs])
    elif chunks:
        table = _collected(results_frame(spark, reading, chunks, outputs))
        if table.num_rows:
            yield table


def _collected(frame: DataFrame) -> pa.Table:
    try:
        return frame.toArrow()
    except _EXPRESSION_FAILED as error:
        raise QueryFailed(
            "an expression of its SELECT list fails on a row",
            detail=str(error).splitlines()[0],
            hint="Guard it: NULLIF, CASE, TRY_CAST.",
        ) from error
    except PythonException as error:
        if QueryFailed.__name__ not in str(error):
            raise
        lines = [line.strip() for line in str(error).splitlines() if QueryFailed.__name__ in line]
        raise QueryFailed("its rows cannot be read", detail=lines[-1].partition(": ")[2]) from error


def to_rows(table: pa.Table) -> Iterator[Row]:
    """Rows of a table with their column names; timestamps are aware, in UTC."""
    make = Row(*table.column_names)
    for values in zip(*(column.to_pylist() for column in table.columns), strict=True):
        yield make(*values)


def expression_types(spark: SparkSession, fields: Sequence[tuple[str, str]], expressions: Sequence[str]) -> list[str]:
    """Types Spark gives to expressions over columns (name, type); raises TypeMismatch with Spark's own words."""
    ddl = ", ".join(f"{quote(name)} {type_}" for name, type_ in fields)
    with streaming_settings(spark):
        try:
            frame = spark.createDataFrame([], ddl).select(*(F.expr(text) for text in expressions))
        except (AnalysisException, ParseException) as error:
            raise TypeMismatch(
                "expression is not valid Spark SQL over its stream",
                detail=str(error.getMessage() or error).splitlines()[0][:500],
                hint="Check the types and the names of functions in it.",
            ) from error
    return [field.dataType.simpleString() for field in frame.schema.fields]

"""Evaluation of SELECT lists by Spark, over rows that are read from the result log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import pyarrow as pa
from pyspark.errors import AnalysisException, ParseException, PythonException
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StringType, StructField, StructType

from weft.errors import QueryFailed, ResultsGone, TypeMismatch
from weft.execution.results.read import Chunk, Reading, read_rows
from weft.kernels.python_values import python_values
from weft.plan.expression import quote
from weft.plan.query import Output
from weft.spark.conversions import check_conversions
from weft.spark.expression_errors import expression_error
from weft.spark.functions import register_functions
from weft.spark.job_pools import READ_LIMIT, run_read, turns_of
from weft.spark.worker import Worker, worker_limits, worker_of

_answers: WeakKeyDictionary[SparkSession, dict[object, list[str]]] = WeakKeyDictionary()
_MOST_KEPT, _LONGEST_KEPT = 256, 10_000


def results_frame(
    spark: SparkSession,
    reading: Reading,
    chunks: Sequence[Chunk],
    outputs: Sequence[Output],
    *,
    tasks: int | None = None,
) -> DataFrame:
    """Return the committed rows of a query as a DataFrame, which reads them when an action runs.

    It uses `tasks` tasks, by default one per chunk and at most one per core. Its session is `spark`, which must be
    weft's own, because the settings of the session determine the meaning of the expressions.
    """
    register_functions(spark)
    schema = from_arrow_schema(read_schema(reading))
    columns = [F.expr(output.sql).alias(output.name) for output in outputs]
    if not chunks:
        return _select(_empty_frame(spark, schema), reading, columns)
    tasks = min(len(chunks), spark.sparkContext.defaultParallelism) if tasks is None else tasks
    chunk_frame = _text_frame(spark, "chunk", [chunk.to_json() for chunk in chunks], tasks)
    return _select(chunk_frame.mapInArrow(partial(_read, worker_of(spark), reading), schema), reading, columns)


def _empty_frame(spark: SparkSession, schema: StructType) -> DataFrame:
    """Return a DataFrame without rows. PySpark's `createDataFrame` would make `spark` the user's active session."""
    jvm: Any = spark._jvm
    session: Any = spark._jsparkSession
    parsed = session.parseDataType(schema.json())
    return DataFrame(session.createDataFrame(jvm.java.util.ArrayList(), parsed), spark)


def _text_frame(spark: SparkSession, column: str, texts: Sequence[str], tasks: int) -> DataFrame:
    """Return a DataFrame of texts, spread over `tasks` tasks. It avoids `createDataFrame` like `_empty_frame`."""
    context = spark.sparkContext
    jvm: Any = spark._jvm
    session: Any = spark._jsparkSession
    rdd: Any = context.parallelize([(text,) for text in texts], tasks)
    rows = jvm.SerDeUtil.toJavaArray(rdd._to_java_object_rdd())
    schema = StructType([StructField(column, StringType())])
    return DataFrame(session.applySchemaToPythonRDD(rows.rdd(), schema.json()), spark)


def _select(rows: DataFrame, reading: Reading, columns: Sequence[Column]) -> DataFrame:
    return (rows if reading.having is None else rows.where(F.expr(reading.having))).select(*columns)


def read_schema(reading: Reading) -> pa.Schema:
    """Return the schema of the tables to read. A SELECT list of constants needs a column, so that rows are counted."""
    return reading.schema if len(reading.schema) else pa.schema([("weft#rows", pa.bool_())])


def _read(worker: Worker, reading: Reading, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    with worker_limits(worker):
        for batch in batches:
            for text in batch.column("chunk").to_pylist():
                for piece in read_rows(reading, Chunk.from_json(text)):
                    yield from piece.to_batches(max_chunksize=100_000)


def read_results(
    spark: SparkSession,
    reading: Reading,
    chunks: Sequence[Chunk],
    outputs: Sequence[Output],
    *,
    within: float = READ_LIMIT,
) -> Iterator[pa.Table]:
    """Yield the rows of `results_frame` as Arrow tables in this process, without Spark if no output is an expression.
    Raise ReadTimeout if Spark takes longer than `within` seconds."""
    if needs_no_spark(reading, outputs):
        for chunk in chunks:
            for table in read_rows(reading, chunk):
                yield select_columns(table, outputs)
    elif chunks:
        tasks = turns_of(spark.sparkContext).of_one(len(chunks))

        def read() -> pa.Table:  # includes planning, which occupies a core for seconds if expressions are long
            return _collected(results_frame(spark, reading, chunks, outputs, tasks=tasks))

        table = run_read(spark.sparkContext, read, tasks=tasks, within=within)
        if table.num_rows:
            yield table


def needs_no_spark(reading: Reading, outputs: Sequence[Output]) -> bool:
    """Return whether the rows read are the results, except for the names of the columns."""
    return reading.having is None and all(output.source is not None for output in outputs)


def select_columns(table: pa.Table, outputs: Sequence[Output]) -> pa.Table:
    """Return the columns of a SELECT list that has no expressions."""
    arrays = [table.column(output.source or "") for output in outputs]
    return pa.Table.from_arrays(arrays, names=[output.name for output in outputs])


def _collected(frame: DataFrame) -> pa.Table:
    try:
        return frame.toArrow()
    except PythonException as error:
        for kind in (ResultsGone, QueryFailed):
            lines = [line.strip() for line in str(error).splitlines() if kind.__name__ in line]
            if lines:
                raise kind("its rows cannot be read", detail=lines[-1].partition(": ")[2]) from error
        _raise_failed(error, "Write the pattern so that what it repeats ends where the match does.")
        raise
    except Exception as error:
        _raise_failed(error, "Guard it: NULLIF, CASE, TRY_CAST.")
        raise


def _raise_failed(error: Exception, hint: str) -> None:
    """Raise QueryFailed if an expression of the query caused the error."""
    failed = expression_error(error)
    if failed is not None:
        raise QueryFailed("an expression of its SELECT list fails on a row", detail=failed, hint=hint) from error


def to_rows(table: pa.Table) -> Iterator[Row]:
    """Yield the rows of a table as Spark `Row`s. Timestamps are timezone-aware, in UTC; those outside the range of
    Python's `datetime` are text."""
    row_type = Row(*table.column_names)
    for values in zip(*map(python_values, table.columns), strict=True):
        yield row_type(*values)


def expression_types(spark: SparkSession, fields: Sequence[tuple[str, str]], expressions: Sequence[str]) -> list[str]:
    """Return the types that Spark assigns to expressions over `fields`, given as (name, type).

    Raise TypeMismatch with Spark's message if an expression is invalid. Answers are cached, because queries that differ
    only in their conditions have the same expressions.
    """
    key = (tuple(fields), tuple(expressions))
    cache = _answers.setdefault(spark, {})
    if (types := cache.get(key)) is None:
        types = _asked_types(spark, fields, expressions)
        if sum(map(len, expressions)) <= _LONGEST_KEPT:
            while len(cache) >= _MOST_KEPT:
                cache.pop(next(iter(cache)), None)
            cache[key] = types
    return list(types)


def _asked_types(spark: SparkSession, fields: Sequence[tuple[str, str]], expressions: Sequence[str]) -> list[str]:
    register_functions(spark)
    columns = ", ".join(f"{quote(name)} {type_}" for name, type_ in fields)
    jvm: Any = spark._jvm
    session: Any = spark._jsparkSession
    # A user waits while a query is created: this takes few calls to Java, independently of the number of columns.
    struct_type = jvm.org.apache.spark.sql.types.StructType
    schema = struct_type.fromDDL(columns) if columns else struct_type()
    rows = DataFrame(session.createDataFrame(jvm.java.util.ArrayList(), schema), spark)
    try:
        frame = rows.selectExpr(*expressions)
    except (AnalysisException, ParseException) as error:
        raise TypeMismatch(
            "expression is not valid Spark SQL over its stream",
            detail=str(error.getMessage() or error).splitlines()[0][:500],
            hint="Check the types and the names of functions in it.",
        ) from error
    check_conversions(frame)
    return [field.dataType.simpleString() for field in frame.schema.fields]

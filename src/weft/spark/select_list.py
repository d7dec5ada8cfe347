"""A query's results through Spark: its SELECT list is evaluated by Spark itself, over rows read from the result log."""

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
from weft.execution.results.read import Chunk, Reading, read_pieces
from weft.kernels.python_values import python_values
from weft.plan.expression import quote
from weft.plan.query import Output
from weft.spark.conversions import check_conversions
from weft.spark.expression_errors import expression_error
from weft.spark.functions import register_functions
from weft.spark.job_pools import READ_LIMIT, run_read, turns_of
from weft.spark.worker import Worker, at_work, worker_of

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
    """The committed rows of a query in its own columns and types; read when an action asks for them, by so many tasks
    or by one for each core.

    The DataFrame lives in the session `spark`, whose settings say what its expressions mean: weft's own.
    """
    register_functions(spark)
    schema = from_arrow_schema(read_schema(reading))
    columns = [F.expr(output.sql).alias(output.name) for output in outputs]
    if not chunks:
        return _select(_empty_frame(spark, schema), reading, columns)
    tasks = min(len(chunks), spark.sparkContext.defaultParallelism) if tasks is None else tasks
    work = _text_frame(spark, "chunk", [chunk.to_json() for chunk in chunks], tasks)
    return _select(work.mapInArrow(partial(_read, worker_of(spark), reading), schema), reading, columns)


def _empty_frame(spark: SparkSession, schema: StructType) -> DataFrame:
    """No rows. Not by `createDataFrame`: that makes its session the active one of the process, for users as well."""
    jvm: Any = spark._jvm
    session: Any = spark._jsparkSession
    parsed = session.parseDataType(schema.json())
    return DataFrame(session.createDataFrame(jvm.java.util.ArrayList(), parsed), spark)


def _text_frame(spark: SparkSession, column: str, texts: Sequence[str], tasks: int) -> DataFrame:
    """Texts as rows, spread over so many tasks; not by `createDataFrame` either."""
    context = spark.sparkContext
    jvm: Any = spark._jvm
    session: Any = spark._jsparkSession
    work: Any = context.parallelize([(text,) for text in texts], tasks)
    rows = jvm.SerDeUtil.toJavaArray(work._to_java_object_rdd())
    schema = StructType([StructField(column, StringType())])
    return DataFrame(session.applySchemaToPythonRDD(rows.rdd(), schema.json()), spark)


def _select(rows: DataFrame, reading: Reading, columns: Sequence[Column]) -> DataFrame:
    return (rows if reading.having is None else rows.where(F.expr(reading.having))).select(*columns)


def read_schema(reading: Reading) -> pa.Schema:
    """What a chunk's table looks like; a SELECT list of constants still needs its rows counted."""
    return reading.schema if len(reading.schema) else pa.schema([("weft#rows", pa.bool_())])


def _read(worker: Worker, reading: Reading, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    with at_work(worker):
        for batch in batches:
            for text in batch.column("chunk").to_pylist():
                for piece in read_pieces(reading, Chunk.from_json(text)):
                    yield from piece.to_batches(max_chunksize=100_000)


def project(
    spark: SparkSession,
    reading: Reading,
    chunks: Sequence[Chunk],
    outputs: Sequence[Output],
    *,
    within: float = READ_LIMIT,
) -> Iterator[pa.Table]:
    """The same rows as Arrow tables in this process; Spark is asked only where an output is an expression. Raises
    ReadTimeout if it takes longer than `within` seconds."""
    if needs_no_spark(reading, outputs):
        for chunk in chunks:
            for table in read_pieces(reading, chunk):
                yield chosen(table, outputs)
    elif chunks:
        tasks = turns_of(spark.sparkContext).of_one(len(chunks))

        def read() -> pa.Table:  # planning is part of it: of long expressions it takes a core for seconds
            return _collected(results_frame(spark, reading, chunks, outputs, tasks=tasks))

        table = run_read(spark.sparkContext, read, tasks=tasks, within=within)
        if table.num_rows:
            yield table


def needs_no_spark(reading: Reading, outputs: Sequence[Output]) -> bool:
    """Whether the rows that are read are the results, but for the names of their columns."""
    return reading.having is None and all(output.source is not None for output in outputs)


def chosen(table: pa.Table, outputs: Sequence[Output]) -> pa.Table:
    """The columns of a SELECT list that has no expressions."""
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
    """Says that the query fails, if an expression of its own is why."""
    failed = expression_error(error)
    if failed is not None:
        raise QueryFailed("an expression of its SELECT list fails on a row", detail=failed, hint=hint) from error


def to_rows(table: pa.Table) -> Iterator[Row]:
    """Rows of a table with their column names; timestamps are aware, in UTC, and those that Python's `datetime` cannot
    hold are text."""
    make = Row(*table.column_names)
    for values in zip(*map(python_values, table.columns), strict=True):
        yield make(*values)


def expression_types(spark: SparkSession, fields: Sequence[tuple[str, str]], expressions: Sequence[str]) -> list[str]:
    """Types Spark gives to expressions over columns (name, type); raises TypeMismatch with Spark's own words.

    Queries that differ in conditions only ask the same again and again, so answers are kept.
    """
    asked = (tuple(fields), tuple(expressions))
    known = _answers.setdefault(spark, {})
    if (found := known.get(asked)) is None:
        found = _asked_types(spark, fields, expressions)
        if sum(map(len, expressions)) <= _LONGEST_KEPT:
            while len(known) >= _MOST_KEPT:
                known.pop(next(iter(known)), None)
            known[asked] = found
    return list(found)


def _asked_types(spark: SparkSession, fields: Sequence[tuple[str, str]], expressions: Sequence[str]) -> list[str]:
    register_functions(spark)
    columns = ", ".join(f"{quote(name)} {type_}" for name, type_ in fields)
    jvm: Any = spark._jvm
    session: Any = spark._jsparkSession
    # A query is created while somebody waits: this is few calls of Java, however many columns there are.
    types = jvm.org.apache.spark.sql.types.StructType
    schema = types.fromDDL(columns) if columns else types()
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

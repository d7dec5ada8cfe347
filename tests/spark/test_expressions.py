"""`evaluate` against Spark itself: the same arrays, and failure where Spark fails."""

from __future__ import annotations

import math
import struct
import warnings
from collections.abc import Iterator, Sequence
from datetime import timedelta

import numpy as np
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tests.spark import expression_corpus as corpus
from weft.kernels.bitset import rows_with_slot
from weft.kernels.expression.evaluate import EvaluationError, evaluate
from weft.kernels.selection.index import Want, build_index, opaque_predicates
from weft.plan.expression import Call, Expression, to_sql
from weft.plan.stream import FrameSource, Stream
from weft.sql.bind import bind

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("_apart")]
_CHUNK = 60


@pytest.fixture
def _apart(spark: SparkSession) -> Iterator[None]:
    """Many expressions in one job, but each by itself: Spark would compute what two share before any guard."""
    spark.conf.set("spark.sql.subexpressionElimination.enabled", "false")
    yield
    spark.conf.unset("spark.sql.subexpressionElimination.enabled")


def test_the_corpus_is_large() -> None:
    assert len({to_sql(expression) for expression in corpus.corpus()}) >= 150


def test_same_results_as_spark(spark: SparkSession) -> None:
    """Whatever weft can compute for all rows, or else for the ordinary ones, Spark computes too, and the same."""
    expressions = corpus.corpus()
    ordinary = corpus.table(nasty=False)
    failing = _compare(spark, pa.concat_tables([ordinary, corpus.table(nasty=True)]), expressions)
    hopeless = _compare(spark, ordinary, failing)
    assert len(hopeless) < len(failing) // 4  # zero divisors, bad patterns; the next tests are about failures


def _compare(spark: SparkSession, table: pa.Table, expressions: list[Expression]) -> list[Expression]:
    """Fail on any difference; returns the expressions that weft cannot compute for these rows."""
    frame = _frame(spark, table)
    batch = _with_opaque(frame, table, expressions)
    ours = {expression: _evaluated(expression, batch) for expression in expressions}
    values = {to_sql(expression): result for expression, result in ours.items() if isinstance(result, pa.Array)}
    problems = [
        f"{sql}\n  weft  {_cells(values[sql])}\n  spark {outcome if isinstance(outcome, str) else _cells(outcome)}"
        for sql, outcome in _spark_values(frame, list(values)).items()
        if isinstance(outcome, str) or outcome.type != values[sql].type or _cells(outcome) != _cells(values[sql])
    ]
    assert not problems, f"{len(problems)} differences\n" + "\n".join(problems)
    return [expression for expression in expressions if isinstance(ours[expression], str)]


def test_the_same_rows_fail(spark: SparkSession) -> None:
    """Arithmetic and casts row by row: Spark's `try_` functions are NULL exactly where weft fails."""
    table = corpus.table(nasty=True)
    frame = _frame(spark, table)
    batch = _with_opaque(frame, table, corpus.corpus())
    tried = {expression: sql for expression in corpus.corpus() if (sql := _try_sql(expression)) is not None}
    theirs = _spark_values(frame, list(tried.values()))
    problems = []
    for expression, sql in tried.items():
        results = [_evaluated(expression, batch.slice(row, 1)) for row in range(batch.num_rows)]
        ours = [None if isinstance(result, str) else _cells(result)[0] for result in results]
        outcome = theirs[sql]
        spark_cells = outcome if isinstance(outcome, str) else _cells(outcome)
        if ours != spark_cells:
            problems.append(f"{sql}\n  weft  {ours}\n  spark {spark_cells}")
    assert not problems, f"{len(problems)} differences\n" + "\n".join(problems)


def test_spark_fails_where_weft_does(spark: SparkSession) -> None:
    """Failures inside logic, patterns and comparisons."""
    table = corpus.table(nasty=True)
    frame = _frame(spark, table)
    batch = _with_opaque(frame, table, corpus.corpus())
    failing = [
        to_sql(expression)
        for expression in corpus.corpus()
        if _try_sql(expression) is None and isinstance(_evaluated(expression, batch), str)
    ]
    assert len(failing) > 5
    assert [sql for sql in failing if _spark_failure(frame, sql) is None] == []


def test_casts_of_strings(spark: SparkSession) -> None:
    """String by string: which ones Spark takes, and what it makes of them."""
    problems = []
    table = pa.table({"text": corpus.STRINGS})
    frame = _frame(spark, table)
    for expression in corpus.string_casts():
        tried = f"try_cast(`text` AS {expression.type.ddl()})"
        theirs = _arrow(frame.selectExpr(f"{tried} AS c"))["c"].combine_chunks()
        for text, expected in zip(corpus.STRINGS, _cells(theirs), strict=True):
            result = _evaluated(expression, pa.table({"text": [text]}))
            got = "fails" if isinstance(result, str) else _cells(result)[0]
            wanted = "fails" if expected is None else expected
            if got != wanted:
                problems.append(f"CAST({text!r} AS {expression.type.ddl()}): weft {got!r}, spark {wanted!r}")
    assert not problems, "\n".join(problems)


def test_clauses_through_binder_and_index(spark: SparkSession) -> None:
    """Text to bound predicate to shared selection: the rows Spark's WHERE keeps, for all clauses at once."""
    time = "moment"
    stream = Stream("s", corpus.SCHEMA, time, timedelta(0), None, FrameSource())
    wants = [
        Want(slot, bind(f"SELECT number FROM s WHERE {clause}", {"s": stream}).relations[0].predicate, None)
        for slot, clause in enumerate(corpus.CLAUSES)
    ]
    for nasty in (False, True):
        table = corpus.table(nasty=nasty)
        frame = _frame(spark, table)
        batch = _with_opaque(frame, table, [want.predicate for want in wants if want.predicate is not None])
        times = np.zeros(batch.num_rows, np.int64)
        tagged = build_index(wants, 1).tag(batch, times)
        kept = [want for want in wants if want.slot not in tagged.failures]
        conditions = [f"(({corpus.CLAUSES[want.slot]}) <=> TRUE)" for want in kept]
        theirs = _spark_values(frame, conditions)
        for want, condition in zip(kept, conditions, strict=True):
            outcome = theirs[condition]
            assert not isinstance(outcome, str), f"{condition}: {outcome}"
            assert rows_with_slot(tagged.sets, want.slot).tolist() == outcome.to_pylist(), corpus.CLAUSES[want.slot]
        for slot in tagged.failures:
            assert _spark_failure(frame, f"({corpus.CLAUSES[slot]})") is not None, tagged.failures[slot]
        assert nasty or not tagged.failures


_TRIED = {"add": "try_add", "sub": "try_subtract", "mul": "try_multiply", "div": "try_divide", "mod": "try_mod"}


def _try_sql(expression: Expression) -> str | None:
    """The expression in a form that gives NULL instead of failing; None if there is none."""
    if not isinstance(expression, Call) or any(isinstance(arg, Call) for arg in expression.args):
        return None
    args = ", ".join(to_sql(arg) for arg in expression.args)
    if expression.name == "cast":
        return f"try_cast({args} AS {expression.type.ddl()})"
    return f"{_TRIED[expression.name]}({args})" if expression.name in _TRIED else None


def _frame(spark: SparkSession, table: pa.Table) -> DataFrame:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PySpark's own remarks on conversions
        return spark.createDataFrame(table).coalesce(1).cache()  # cached: Spark computes with generated code


def _arrow(frame: DataFrame) -> pa.Table:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return frame.toArrow()


def _with_opaque(frame: DataFrame, table: pa.Table, expressions: Sequence[Expression]) -> pa.Table:
    """The table with what Spark computes upstream."""
    for part in opaque_predicates([Want(0, expression, None) for expression in expressions]):
        computed = _arrow(frame.selectExpr(f"({part.sql}) AS value"))["value"]
        table = table.append_column(part.sql, computed)
    return table


def _evaluated(expression: Expression, batch: pa.Table) -> pa.Array | str:
    try:
        return evaluate(expression, batch)
    except EvaluationError as error:
        assert to_sql(expression)  # whatever fails can be named
        return str(error)


def _spark_values(frame: DataFrame, sqls: list[str]) -> dict[str, pa.Array | str]:
    """Each expression's array, or the failure; many in one job, and one by one only if that job fails."""
    found: dict[str, pa.Array | str] = {}
    for chunk in _chunks(sqls, _CHUNK):
        try:
            result = _arrow(frame.selectExpr(*(f"{sql} AS c{at}" for at, sql in enumerate(chunk))))
        except PySparkException:
            found.update((sql, _spark_failure(frame, sql) or _spark_array(frame, sql)) for sql in chunk)
        else:
            found.update((sql, result.column(at).combine_chunks()) for at, sql in enumerate(chunk))
    return found


def _spark_array(frame: DataFrame, sql: str) -> pa.Array:
    return _arrow(frame.selectExpr(f"{sql} AS c")).column(0).combine_chunks()


def _spark_failure(frame: DataFrame, sql: str) -> str | None:
    try:
        _spark_array(frame, sql)
    except PySparkException as error:
        return f"fails: {str(error).splitlines()[0]}"
    return None


def _chunks(items: list[str], size: int) -> Iterator[list[str]]:
    return (items[at : at + size] for at in range(0, len(items), size))


def _cells(array: pa.Array) -> list[object]:
    if pa.types.is_temporal(array.type):  # Python's dates end with the year 9999
        array = array.view(pa.int32() if pa.types.is_date32(array.type) else pa.int64())
    return [_cell(value) for value in array.to_pylist()]


def _cell(value: object) -> object:
    """Comparable, and to the bit: -0.0 is not 0.0 here, but any NaN is NaN."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else (value, struct.pack("<d", value))
    return value

"""Whether a Spark job failed because an expression cannot be computed on a row, or because of anything else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from py4j.java_gateway import is_instance_of
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkContext
from pyspark.errors import AnalysisException, PythonException
from pyspark.errors.exceptions.captured import CapturedException

from weft.kernels.expression.values import RowError

_LONGEST = 500
_STATES = ("21", "22", "23", "54", "P0")
"""Classes of SQLSTATE that are about values: cardinality, data, constraints, limits of a value's size, raise_error."""
_OTHER_CAUSES = (
    "org.apache.spark.api.python.PythonException",
    "java.io.UncheckedIOException",
    "java.util.concurrent.CancellationException",
    "org.apache.spark.TaskKilledException",
    "org.apache.spark.memory.SparkOutOfMemoryError",
)
_DEEPEST = 20
_ROW_ERROR = re.compile(rf"^{re.escape(RowError.__module__)}\.RowError: (.*)$", re.MULTILINE)
"""The last line of what Python says of a value that a function of weft's own does not take."""


def expression_error(error: BaseException) -> str | None:
    """What an expression failed with, in one line, if that is why Spark failed; None if the cause is another one: a
    Python worker, a file, the network, memory, a job that was cancelled.

    A source that computes something fails in the same ways. Whose expression it was is for the caller to find out.
    """
    if isinstance(error, PythonException):
        found = _ROW_ERROR.search(str(error))  # of a function of weft's own (`spark/functions.py`)
        return None if found is None else found[1][:_LONGEST]
    if isinstance(error, AnalysisException):
        return None
    if isinstance(error, CapturedException):
        return _of_chain(error._origin) if error._origin is not None else None
    if isinstance(error, Py4JJavaError):
        return _of_chain(error.java_exception)
    return None


def _of_chain(thrown: Any) -> str | None:
    """The first error in the chain of causes that is about a value, unless some other cause is in it as well."""
    found: str | None = None
    try:
        for each in _causes(thrown):
            if (raised := _ROW_ERROR.search(str(each.getMessage() or ""))) is not None:
                return raised[1][:_LONGEST]
            if any(_is(each, name) for name in _OTHER_CAUSES):
                return None
            if found is None and _is_about_values(each):
                found = str(each.getMessage() or each.getClass().getName())
    except Py4JError:  # Java is gone, or so it seems: certainly not an expression's fault
        return None
    return None if found is None else next(iter(found.strip().splitlines()), "")[:_LONGEST]


def _causes(thrown: Any) -> Iterator[Any]:
    for _ in range(_DEEPEST):
        if thrown is None:
            return
        yield thrown
        thrown = thrown.getCause()


def _is_about_values(thrown: Any) -> bool:
    if _is(thrown, "org.apache.spark.SparkThrowable"):
        jvm: Any = SparkContext._jvm
        state = jvm.PythonErrorUtils.getSqlState(thrown)
        if state:
            return str(state).startswith(_STATES)
    # Some functions let Java's own errors through: a pattern with a syntax error, an overflow in `repeat`.
    return _is(thrown, "java.lang.RuntimeException")


def _is(thrown: Any, name: str) -> bool:
    return bool(is_instance_of(SparkContext._gateway, thrown, name))

"""Recognition of Spark failures that are caused by an expression which cannot be computed on a row."""

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
"""SQLSTATE classes about values: cardinality, data, constraints, limits on the size of a value, raise_error."""
_OTHER_CAUSES = (
    "org.apache.spark.api.python.PythonException",
    "java.io.UncheckedIOException",
    "java.util.concurrent.CancellationException",
    "org.apache.spark.TaskKilledException",
    "org.apache.spark.memory.SparkOutOfMemoryError",
)
_DEEPEST = 20
_ROW_ERROR = re.compile(rf"^{re.escape(RowError.__module__)}\.RowError: (.*)$", re.MULTILINE)
"""The last line of the Python traceback when one of weft's own functions rejects a value."""


def expression_error(error: BaseException) -> str | None:
    """Return the error of the expression that made Spark fail, in one line; None if Spark failed for another reason.

    Other reasons are failures of a Python worker, a file, the network or memory, and cancelled jobs. An expression in a
    source fails in the same way as one in a query, so the caller has to find out which expression failed.
    """
    if isinstance(error, PythonException):
        match = _ROW_ERROR.search(str(error))  # raised by one of weft's own functions (`spark/functions.py`)
        return None if match is None else match[1][:_LONGEST]
    if isinstance(error, AnalysisException):
        return None
    if isinstance(error, CapturedException):
        return _of_chain(error._origin) if error._origin is not None else None
    if isinstance(error, Py4JJavaError):
        return _of_chain(error.java_exception)
    return None


def _of_chain(thrown: Any) -> str | None:
    """Return the first error about a value in the chain of causes; None if the chain contains another cause as well."""
    message: str | None = None
    try:
        for cause in _causes(thrown):
            if (row_error := _ROW_ERROR.search(str(cause.getMessage() or ""))) is not None:
                return row_error[1][:_LONGEST]
            if any(_is(cause, name) for name in _OTHER_CAUSES):
                return None
            if message is None and _is_about_values(cause):
                message = str(cause.getMessage() or cause.getClass().getName())
    except Py4JError:  # the Java process seems to be gone, which no expression causes
        return None
    return None if message is None else next(iter(message.strip().splitlines()), "")[:_LONGEST]


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
    # Some functions do not wrap Java exceptions, for example for an invalid pattern or an overflow in `repeat`.
    return _is(thrown, "java.lang.RuntimeException")


def _is(thrown: Any, name: str) -> bool:
    return bool(is_instance_of(SparkContext._gateway, thrown, name))

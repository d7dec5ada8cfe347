"""User-defined functions for Spark expressions: pattern matching in linear time (`kernels/`).

The binder puts them into the SQL of expressions (`plan.expression.OWN_FUNCTIONS`); queries cannot call them by name.
Spark passes constants as columns, so constant arguments such as patterns are read from the first row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakSet

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.pandas.functions import arrow_udf

from weft.kernels.expression import pattern as patterns
from weft.kernels.expression.text import like
from weft.plan.expression import OWN_FUNCTIONS

_registered: WeakSet[SparkSession] = WeakSet()


def register_functions(spark: SparkSession) -> None:
    """Register weft's functions in a session, once. Sessions created from it later have them, too."""
    if spark in _registered:
        return
    for name, (function, type_) in _FUNCTIONS.items():
        spark.udf.register(OWN_FUNCTIONS[name], arrow_udf(function, type_))  # type: ignore[call-overload]
    _registered.add(spark)


def _like(values: pa.Array, pattern: pa.Array, escape: pa.Array) -> pa.Array:
    return _of(pa.bool_(), like, values, pattern, escape)


def _rlike(values: pa.Array, pattern: pa.Array) -> pa.Array:
    return _of(pa.bool_(), patterns.matches, values, pattern)


def _regexp_extract(values: pa.Array, pattern: pa.Array, group: pa.Array) -> pa.Array:
    return _of(pa.string(), patterns.extract, values, pattern, group)


def _regexp_substr(values: pa.Array, pattern: pa.Array) -> pa.Array:
    return _of(pa.string(), patterns.first_match, values, pattern)


def _regexp_instr(values: pa.Array, pattern: pa.Array) -> pa.Array:
    return _of(pa.int32(), patterns.position, values, pattern)


def _regexp_replace(values: pa.Array, pattern: pa.Array, by: pa.Array) -> pa.Array:
    return _of(pa.string(), patterns.replace, values, pattern, by)


def _regexp_count(values: pa.Array, pattern: pa.Array) -> pa.Array:
    return _of(pa.int32(), patterns.count, values, pattern)


def _split(values: pa.Array, pattern: pa.Array, limit: pa.Array) -> pa.Array:
    return _of(pa.list_(pa.string()), patterns.split, values, pattern, limit)


def _of(type_: pa.DataType, function: Callable[..., Any], values: pa.Array, *constants: pa.Array) -> pa.Array:
    if len(values) == 0:
        return pa.array([], type_)
    return function(values, *(constant[0].as_py() for constant in constants)).cast(type_)


_FUNCTIONS: dict[str, tuple[Callable[..., Any], str]] = {
    "like": (_like, "boolean"),
    "rlike": (_rlike, "boolean"),
    "regexp_extract": (_regexp_extract, "string"),
    "regexp_substr": (_regexp_substr, "string"),
    "regexp_instr": (_regexp_instr, "int"),
    "regexp_replace": (_regexp_replace, "string"),
    "regexp_count": (_regexp_count, "int"),
    "split": (_split, "array<string>"),
}

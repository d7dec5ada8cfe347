"""Conversions that Spark adds to an expression unasked, and types that cannot leave Spark: refused before a query runs.

Spark turns text into a time wherever one is needed. It completes a time of day by the date of today, and takes some
words ('now', 'today') for the clock. It reads decimals from text of any length, in quadratic time. What the binder
sees, it checks itself; what Spark adds, or what only Spark knows to be text, is seen only here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from pyspark.errors import PySparkTypeError
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_type

from weft.errors import TypeMismatch, UnsupportedQuery
from weft.plan.expression import Literal
from weft.plan.types import DATE, STRING, TIMESTAMP, DataType, Kind
from weft.sql.syntax.literal import NeedsSpark, cast_literal

_EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions."
_TIMES = {"timestamp": TIMESTAMP, "date": DATE, "timestamp_ntz": DataType(Kind.TIMESTAMP_NTZ)}
_HINT = "Convert it yourself: CAST(CAST(x AS STRING) AS TIMESTAMP), or to_timestamp(x, 'yyyy-MM-dd HH:mm:ss')."


@dataclass(slots=True)
class _Node:
    """A node of an analysed expression, and the way to it from the root."""

    described: dict[str, Any]
    path: tuple[int, ...]
    children: list[_Node] = field(default_factory=list)

    @property
    def kind(self) -> str:
        return str(self.described["class"]).removeprefix(_EXPRESSIONS)

    def walk(self) -> Iterator[_Node]:
        yield self
        for child in self.children:
            yield from child.walk()


def check_conversions(frame: DataFrame) -> None:
    """Refuse a selection that converts text to times by the clock, or gives values that Arrow cannot carry."""
    for column in frame.schema.fields:
        try:
            to_arrow_type(column.dataType, timezone="UTC")
        except PySparkTypeError as error:
            raise UnsupportedQuery(
                f"a result of type {column.dataType.simpleString()} is not supported",
                hint="Cast it: CAST(… AS STRING).",
            ) from error
    plan = frame._jdf.queryExecution().analyzed()
    for number, listed in enumerate(json.loads(plan.toJSON())[0]["projectList"]):
        root = _tree(iter(listed), ())
        for node in root.walk():
            if node.kind == "Cast":
                _check_cast(node, plan.expressions().apply(number))


def _tree(listed: Iterator[dict[str, Any]], path: tuple[int, ...]) -> _Node:
    """Spark lists the nodes of a tree in the order of their text, each with the number of its children."""
    node = _Node(next(listed), path)
    node.children = [_tree(listed, (*path, at)) for at in range(node.described["num-children"])]
    return node


def _check_cast(node: _Node, root: Any) -> None:
    target = node.described["dataType"]
    nested = not isinstance(target, str)
    if nested and "timestamp" not in json.dumps(target):
        return
    number = not nested and target.startswith("decimal")
    if not nested and not number and target not in _TIMES:
        return
    child = node.children[0]
    source = child.described.get("dataType")
    if not isinstance(source, str):
        source = _type_at(child, root)
    if nested:
        if "string" in source:
            raise _refused(f"text inside {source} to times")
    elif source == "string" and number:
        if child.kind not in ("Literal", "RegExpReplace"):
            raise UnsupportedQuery(
                "an expression converts text to a decimal, which is not supported unless you say that it is text",
                detail="Only text of bounded length is read as a number.",
                hint="Write CAST(CAST(x AS STRING) AS DECIMAL(10,2)).",
            )
    elif source == "string":
        _check_text(child, target)


def _check_text(child: _Node, target: str) -> None:
    if child.kind == "Literal":
        try:
            cast_literal(Literal(child.described["value"], STRING), _TIMES[target])
        except TypeMismatch as error:
            raise _refused(f"the text '{str(child.described['value'])[:60]}' to {target}") from error
        except NeedsSpark:
            pass
        return
    constant = not any(part.kind in ("AttributeReference", "NamedLambdaVariable") for part in child.walk())
    # Of text that is not a constant only timestamps are completed; the binder's own conversions see to that.
    if constant or (target == "timestamp" and child.kind != "RegExpReplace"):
        raise _refused(f"text to {target}")


def _type_at(node: _Node, root: Any) -> str:
    found = root
    for at in node.path:
        found = found.children().apply(at)
    return str(found.dataType().simpleString())


def _refused(what: str) -> UnsupportedQuery:
    return UnsupportedQuery(
        f"an expression converts {what}, which is not supported unless you ask for it",
        detail="Spark would complete a time without a date by the clock, so results could not be repeated.",
        hint=_HINT,
    )

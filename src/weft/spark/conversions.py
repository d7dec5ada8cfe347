"""Rejection of implicit conversions that Spark adds to expressions, and of types that cannot leave Spark.

Spark converts text to a time wherever a time is needed. It completes a time of day with today's date, and replaces
words such as 'now' and 'today' by the current time. It parses decimals from text of any length, in quadratic time. The
binder cannot check conversions that Spark adds, or whose operand only Spark knows to be text; this module does.
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
    """A node of an analysed expression, and its path from the root as child numbers."""

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
    """Raise UnsupportedQuery if Spark adds a conversion of text, or if Arrow does not support a result type."""
    for column in frame.schema.fields:
        try:
            to_arrow_type(column.dataType, timezone="UTC")
        except PySparkTypeError as error:
            raise UnsupportedQuery(
                f"a result of type {column.dataType.simpleString()} is not supported",
                hint="Cast it: CAST(… AS STRING).",
            ) from error
    plan = frame._jdf.queryExecution().analyzed()
    for number, nodes in enumerate(json.loads(plan.toJSON())[0]["projectList"]):
        root = _tree(iter(nodes), ())
        for node in root.walk():
            if node.kind == "Cast":
                _check_cast(node, plan.expressions().apply(number))


def _tree(nodes: Iterator[dict[str, Any]], path: tuple[int, ...]) -> _Node:
    """Build a tree from Spark's list of its nodes, which is in pre-order with the number of children of each node."""
    node = _Node(next(nodes), path)
    node.children = [_tree(nodes, (*path, at)) for at in range(node.described["num-children"])]
    return node


def _check_cast(node: _Node, root: Any) -> None:
    target = node.described["dataType"]
    nested = not isinstance(target, str)
    if nested and "timestamp" not in json.dumps(target):
        return
    to_decimal = not nested and target.startswith("decimal")
    if not nested and not to_decimal and target not in _TIMES:
        return
    child = node.children[0]
    source = child.described.get("dataType")
    if not isinstance(source, str):
        source = _type_at(child, root)
    if nested:
        if "string" in source:
            raise _refused(f"text inside {source} to times")
    elif source == "string" and to_decimal:
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
    is_constant = not any(node.kind in ("AttributeReference", "NamedLambdaVariable") for node in child.walk())
    # In text that is not constant, Spark completes only timestamps; the binder's own conversions prevent that.
    if is_constant or (target == "timestamp" and child.kind != "RegExpReplace"):
        raise _refused(f"text to {target}")


def _type_at(node: _Node, root: Any) -> str:
    expression = root
    for at in node.path:
        expression = expression.children().apply(at)
    return str(expression.dataType().simpleString())


def _refused(what: str) -> UnsupportedQuery:
    return UnsupportedQuery(
        f"an expression converts {what}, which is not supported unless you ask for it",
        detail="Spark would complete a time without a date by the clock, so results could not be repeated.",
        hint=_HINT,
    )

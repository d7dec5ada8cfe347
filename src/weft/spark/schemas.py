"""Schemas of sources: that of a DataFrame, or one inferred from a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

from weft.errors import BadFile, InvalidStream, SourceUnavailable
from weft.execution.input.conform import holds_times
from weft.execution.input.decode import sample_file
from weft.kernels.arrow_types import from_arrow
from weft.plan.expression import quote
from weft.plan.stream import FileSource
from weft.plan.types import TIMESTAMP, Field, Schema
from weft.sql import parse_schema


def frame_schema(frame: DataFrame) -> Schema:
    """Return the schema of a streaming DataFrame."""
    fields: list[Any] = frame.schema.fields
    return parse_schema(", ".join(f"{quote(field.name)} {field.dataType.simpleString()}" for field in fields))


def infer_schema(stream: str, source: FileSource, time: str) -> Schema:
    """Return the schema of the first readable file of a directory, inferred from its first rows. A text column `time`
    with times becomes TIMESTAMP. Raise InvalidStream if no file is readable."""
    paths = sorted(path for path in Path(source.path).glob("*") if path.is_file() and path.name[0] not in "._")
    for path in paths:
        try:
            table = sample_file(source, str(path), stream=stream)
        except (BadFile, SourceUnavailable):
            continue
        if table.num_columns == 0:  # an empty file has no schema
            continue
        types = {name: from_arrow(column.type) for name, column in zip(table.column_names, table.columns, strict=True)}
        types |= {name: TIMESTAMP for name in types if name.lower() == time.lower() and holds_times(table.column(name))}
        return Schema(tuple(Field(name, type_) for name, type_ in types.items()))
    raise InvalidStream(
        f'schema of stream "{stream}" cannot be inferred: there is no readable file in "{source.path}"',
        hint='Give it: weft.files(..., schema="ts timestamp, ...").',
    )

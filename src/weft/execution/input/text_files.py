"""Readers of JSON lines and CSV files, block by block; rows that do not fit are set aside.

A block is decoded as a whole. Only if that fails, its rows are split and the bad ones found by bisection with the same
decoder. Whether a row is read therefore does not depend on its neighbours.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Protocol

import pyarrow as pa
import pyarrow.csv
import pyarrow.json

from weft.execution.input.conform import NOT_THE_FILES, BadRow, Misfit, WantedColumns, bisect, cast_type, conform
from weft.execution.input.text_blocks import Block, Lines, Span, blocks, line_spans, open_quote, record_spans

LONGEST_TEXT = 4000
_PARSED_AT_ONCE = 1 << 20


class _Decoder(Protocol):
    """A decoder for the rows of one file."""

    def decode(self, block: Block) -> pa.Table:
        """Return the rows of a block in the declared types; raise if one of them cannot be read."""

    def spans(self, block: Block) -> Iterator[Span]:
        """Return an iterator over the spans of a block's rows in its data."""


def json_tables(path: str, wanted: WantedColumns, bad: Callable[[BadRow], None]) -> Iterator[pa.Table]:
    """Yield the rows of a JSON lines file in the declared types; fields that are not declared are ignored."""
    decoder: _Json | None = None
    lines = Lines(path)
    for block in blocks(path):
        decoder = decoder or _Json(wanted, _json_names(block))
        yield from _tables(block, decoder, lines, bad)


def csv_tables(
    path: str, wanted: WantedColumns, options: Mapping[str, str], bad: Callable[[BadRow], None]
) -> Iterator[pa.Table]:
    """Yield the rows of a CSV file in the declared types; its first row contains the column names."""
    decoder: _Csv | None = None
    lines = Lines(path)
    for block in blocks(path, separator=options.get("sep", ",")):
        body = block
        if decoder is None:
            decoder, body = _csv_header(block, wanted, options)
        if not body.is_blank:
            yield from _tables(body, decoder, lines, bad)


def sample_json(path: str) -> pa.Table:
    """Return the rows of a file's first block in inferred types; a table without columns if there are no rows."""
    block = next(blocks(path), None)
    return pa.table({}) if block is None else _parse_json(block, pa.json.ParseOptions())


def sample_csv(path: str, options: Mapping[str, str]) -> pa.Table:
    """Return the rows of a file's first block in inferred types, as `sample_json` does."""
    block = next(blocks(path, separator=options.get("sep", ",")), None)
    return pa.table({}) if block is None else _parse_csv(block, options, None, pa.csv.ConvertOptions())


def _tables(block: Block, decoder: _Decoder, lines: Lines, bad: Callable[[BadRow], None]) -> Iterator[pa.Table]:
    try:
        table = decoder.decode(block)
    except NOT_THE_FILES:
        raise
    except (pa.ArrowException, UnicodeDecodeError):
        yield from _fitting(block, decoder, lines, bad)
    else:
        yield table


def _fitting(block: Block, decoder: _Decoder, lines: Lines, bad: Callable[[BadRow], None]) -> Iterator[pa.Table]:
    """Yield the rows of a block that can be decoded; pass the others to `bad`."""
    spans = list(decoder.spans(block))

    def decode(first: int, end: int) -> pa.Table:
        return decoder.decode(replace(block, begin=spans[first][0], end=spans[end - 1][1], whole=False))

    def set_aside(row: int, reason: str) -> None:
        start, end = spans[row]
        text = bytes(block.text((start, min(end, start + LONGEST_TEXT)))).decode(errors="replace").rstrip("\r\n")
        bad(BadRow(f"line {lines.number(block, start)}", reason, text))

    yield from bisect(len(spans), decode, set_aside)


def _as_text(wanted: WantedColumns, names: Mapping[str, str]) -> pa.Schema:
    """Return the declared types under the file's column names.

    Dates and times are read as text, because Arrow's readers do not accept all of ISO 8601.
    """
    typed = [(names.get(field.name, field.name), cast_type(field)) for field in wanted.fields]
    return pa.schema([(name, pa.string() if pa.types.is_temporal(kind) else kind) for name, kind in typed if kind])


class _Json:
    def __init__(self, wanted: WantedColumns, present: list[str]) -> None:
        exact = {field.name for field in wanted.fields} & set(present)
        by_lower_name = {name.lower(): name for name in present}
        spellings = {f.name: by_lower_name[f.name.lower()] for f in wanted.fields if f.name.lower() in by_lower_name}
        self._wanted = wanted
        self._schema = _as_text(wanted, spellings | {name: name for name in exact})
        self._options = pa.json.ParseOptions(explicit_schema=self._schema, unexpected_field_behavior="ignore")

    def decode(self, block: Block) -> pa.Table:
        table = _parse_json(block, self._options)
        for field in self._schema:
            if field.name not in table.column_names:
                table = table.append_column(field, pa.nulls(table.num_rows, field.type))
        return conform(table, self._wanted)

    def spans(self, block: Block) -> Iterator[Span]:
        return line_spans(block)


def _parse_json(block: Block, options: pa.json.ParseOptions) -> pa.Table:
    size = block.end - block.begin + 1
    try:
        table = _read_json(block, options, min(_PARSED_AT_ONCE, size))
    except pa.ArrowInvalid as error:
        if "block" not in str(error):
            raise
        table = _read_json(block, options, size)  # a row is longer than `_PARSED_AT_ONCE`
    table.validate(full=True)
    return table


def _read_json(block: Block, options: pa.json.ParseOptions, size: int) -> pa.Table:
    read_options = pa.json.ReadOptions(use_threads=False, block_size=size)
    return pa.json.read_json(pa.BufferReader(block.text()), read_options=read_options, parse_options=options)


def _json_names(block: Block) -> list[str]:
    """Return the names in the first record; none if it cannot be parsed, since decoding reports the error."""
    try:
        record = json.loads(bytes(block.text(next(line_spans(block)))))
    except (ValueError, RecursionError):
        return []
    return list(record) if isinstance(record, dict) else []


def _csv_header(block: Block, wanted: WantedColumns, options: Mapping[str, str]) -> tuple[_Csv, Block]:
    """Return the decoder of a CSV file, made from its first row, and the rest of the first block."""
    separator = options.get("sep", ",")
    span = next(record_spans(block, separator))
    text = io.StringIO(bytes(block.text(span)).decode(errors="replace"), newline="")
    names = next(csv.reader(text, delimiter=separator), [])
    return _Csv(wanted, options, names), block.after(span[1])


class _Csv:
    def __init__(self, wanted: WantedColumns, options: Mapping[str, str], names: list[str]) -> None:
        spellings = wanted.names_in(names)
        for field in wanted.fields:
            if field.name not in spellings:
                raise Misfit(f'column "{field.name}" is missing')
        self._wanted, self._options, self._names = wanted, options, names
        self._separator = options.get("sep", ",")
        self._convert = pa.csv.ConvertOptions(
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            null_values=[options.get("nullValue", "")],
            column_types=_as_text(wanted, spellings),
            include_columns=list(spellings.values()),
        )

    def decode(self, block: Block) -> pa.Table:
        # Arrow lets a value with an unclosed quote run to the end of the block and swallows the rows between.
        if not block.whole and open_quote(block, self._separator) is not None:
            raise pa.ArrowInvalid("a quote is not closed")
        return conform(_parse_csv(block, self._options, self._names, self._convert), self._wanted)

    def spans(self, block: Block) -> Iterator[Span]:
        return record_spans(block, self._separator)


def _parse_csv(
    block: Block, options: Mapping[str, str], names: list[str] | None, convert: pa.csv.ConvertOptions
) -> pa.Table:
    size = block.end - block.begin + 1
    return pa.csv.read_csv(
        pa.BufferReader(block.text()),
        read_options=pa.csv.ReadOptions(use_threads=False, column_names=names, block_size=size),
        parse_options=pa.csv.ParseOptions(delimiter=options.get("sep", ",")),
        convert_options=convert,
    )

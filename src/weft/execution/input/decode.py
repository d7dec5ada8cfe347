"""Decoding of source files into pieces of Arrow rows in the declared schema, without Spark's row readers."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from weft.errors import BadFile
from weft.execution.input.columnar_files import arrow_tables, binary_tables, parquet_tables
from weft.execution.input.conform import NOT_THE_FILES, BadRow, Misfit, WantedColumns, first_line
from weft.execution.input.pieces import BYTES_AT_ONCE, ROWS_AT_ONCE, Piece, cut_pieces
from weft.execution.input.quarantine import ROWS_KEPT, Quarantine, unavailable
from weft.execution.input.text_files import csv_tables, json_tables, sample_csv, sample_json
from weft.plan.stream import FileSource, Format, Stream

MOST_BAD_ROWS = 10_000
"""A file with more bad rows is set aside as a whole."""


def path_from_spark(url: str) -> str:
    """Return the local path behind a path as Spark reports it (`file:/a b`, not percent-encoded)."""
    return "/" + url.removeprefix("file:").lstrip("/") if url.startswith("file:") else url


def decode_files(
    stream: Stream,
    urls: Iterable[str],
    *,
    columns: Sequence[str],
    quarantine: str,
    rows: int = ROWS_AT_ONCE,
    checked: bool = False,
) -> Iterator[Piece]:
    """Yield the rows of some files of a stream in pieces of at most `rows` rows.

    The last piece may be empty; it carries what was set aside. A row that cannot be read as declared is set aside, and
    so is a file that is corrupt or has no readable row; with `on_bad_file="fail"` either fails the batch instead. A
    file that cannot be opened or read fails the batch (SourceUnavailable): it may be readable later. With `checked` no
    piece is ever void: a file larger than a piece is first read once to check it.
    """
    names = frozenset(columns)
    wanted = WantedColumns(tuple(field for field in stream.schema if field.name in names), stream.time)
    aside, held = _Aside(stream, quarantine), _Held(rows)
    for url in urls:
        file, large = _File(stream, path_from_spark(url), wanted), False
        try:
            for table, more in file.pieces(rows, checked=checked):
                large |= more
                if large:
                    yield Piece(stream.name, table, more=more)
                else:
                    held.add(table)
        except BadFile as error:
            aside.put_file(file.path, error)
            if large:
                yield Piece(stream.name, wanted.empty(), void=True)
        else:
            aside.put_rows(file)
        yield from (Piece(stream.name, table) for table in held.full())
    aside.finish()
    *tables, last = held.rest() or [wanted.empty()]
    yield from (Piece(stream.name, table) for table in tables)
    yield Piece(stream.name, last, tuple(aside.files), aside.rows)


def sample_file(source: FileSource, path: str, *, stream: str = "") -> pa.Table:
    """Return some rows from the beginning of a file, with all columns in inferred types."""
    return next(_guarded(source, path, stream, _sample(source, path)))


def _sample(source: FileSource, path: str) -> Iterator[pa.Table]:
    match source.format:
        case Format.PARQUET:
            yield next(parquet_tables(path, None))
        case Format.ARROW:
            empty, *batches = (table for table, _ in zip(arrow_tables(path, None), range(2), strict=False))
            yield batches[0] if batches else empty
        case Format.JSON:
            yield sample_json(path)
        case Format.CSV:
            yield sample_csv(path, dict(source.options))


class _File:
    """A file that is being read, and its bad rows."""

    def __init__(self, stream: Stream, path: str, wanted: WantedColumns) -> None:
        assert isinstance(stream.source, FileSource)
        self._source, self._stream, self._wanted = stream.source, stream.name, wanted
        self.path = path
        self.bad: list[BadRow] = []
        """The first `ROWS_KEPT` bad rows."""
        self.bad_count = 0

    def pieces(self, rows: int, *, checked: bool) -> Iterator[tuple[pa.Table, bool]]:
        """Yield the pieces of the file, each with whether more follow.

        The last piece is yielded after the whole file was read; with `checked`, the first one is, too.
        """
        pieces = cut_pieces(self._tables(), rows)
        piece, following = next(pieces, None), next(pieces, None)
        if checked and following is not None:
            for _ in pieces:
                pass
            pieces = cut_pieces(self._tables(), rows)
            piece, following = next(pieces, None), next(pieces, None)
        while following is not None:
            yield piece, True
            piece, following = following, next(pieces, None)
        if piece is not None:
            yield piece, False

    def _tables(self) -> Iterator[pa.Table]:
        self.bad, self.bad_count, good = [], 0, 0
        for table in _guarded(self._source, self.path, self._stream, self._decoded()):
            good += table.num_rows
            yield table
        if self.bad_count and not good:
            raise _bad_file(self._source, self.path, f"{self.bad[0].place}: {self.bad[0].reason}")

    def _decoded(self) -> Iterator[pa.Table]:
        match self._source.format:
            case Format.PARQUET:
                return binary_tables(parquet_tables(self.path, self._wanted), self._wanted, self._set_aside)
            case Format.ARROW:
                return binary_tables(arrow_tables(self.path, self._wanted), self._wanted, self._set_aside)
            case Format.JSON:
                return json_tables(self.path, self._wanted, self._set_aside)
            case Format.CSV:
                return csv_tables(self.path, self._wanted, dict(self._source.options), self._set_aside)

    def _set_aside(self, row: BadRow) -> None:
        self.bad_count += 1
        if len(self.bad) < ROWS_KEPT:
            self.bad.append(row)
        first = self.bad[0]
        if self._source.on_bad_file == "fail":
            raise _bad_file(self._source, self.path, f"{first.place}: {first.reason}")
        if self.bad_count > MOST_BAD_ROWS:
            detail = f"More than {MOST_BAD_ROWS} rows cannot be read; {first.place}: {first.reason}"
            raise _bad_file(self._source, self.path, detail)


def _guarded(source: FileSource, path: str, stream: str, tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Yield the same tables. An error is a BadFile only if the file could be read, else a SourceUnavailable."""
    try:
        if source.format in (Format.PARQUET, Format.ARROW) and os.stat(path).st_size == 0:
            raise Misfit("the file is empty")
        yield from tables
    except NOT_THE_FILES as error:
        raise unavailable(path, stream, error) from error
    except OSError as error:
        if error.errno is not None:  # Arrow's decoders raise OSError for corrupt data, but without an errno
            raise unavailable(path, stream, error) from error
        raise _bad_file(source, path, first_line(error)) from error
    except (Misfit, pa.ArrowException, UnicodeDecodeError, csv.Error) as error:
        raise _bad_file(source, path, first_line(error)) from error


def _bad_file(source: FileSource, path: str, detail: str) -> BadFile:
    return BadFile(
        f'file "{path}" cannot be read as {source.format.value}',
        detail=detail,
        hint="Repair it and add it again under another name; a copy is in the quarantine folder.",
    )


class _Held:
    """Rows of files that were read completely, held until they fill a piece."""

    def __init__(self, rows: int) -> None:
        self._most = rows
        self._tables: list[pa.Table] = []
        self._rows = self._bytes = 0

    def add(self, table: pa.Table) -> None:
        self._tables.append(table)
        self._rows += table.num_rows
        self._bytes += table.nbytes

    def full(self) -> list[pa.Table]:
        """Return the full pieces; rows that do not fill a piece stay."""
        if self._rows < self._most and self._bytes < BYTES_AT_ONCE:
            return []
        *full, last = self.rest()
        self.add(last)
        return full

    def rest(self) -> list[pa.Table]:
        """Return all pieces; the last one may be small."""
        tables = list(cut_pieces(self._tables, self._most))
        self._tables, self._rows, self._bytes = [], 0, 0
        return tables


class _Aside:
    """The files and rows of a stream that were set aside."""

    def __init__(self, stream: Stream, quarantine: str) -> None:
        assert isinstance(stream.source, FileSource)
        self._fails = stream.source.on_bad_file == "fail"
        self._quarantine = Quarantine(quarantine, stream.name)
        self.files: list[str] = []
        self.rows = 0

    def put_file(self, path: str, error: BadFile) -> None:
        """Set a bad file aside, or raise its error if the stream fails on bad files."""
        if self._fails:
            raise error
        self._quarantine.put_file(path, error)
        self.files.append(f"{path}: {error.detail}")

    def put_rows(self, file: _File) -> None:
        """Set the bad rows of a file aside."""
        if file.bad_count:
            self._quarantine.put_rows(file.path, file.bad, file.bad_count)
            self.rows += file.bad_count

    def finish(self) -> None:
        """Trim the quarantine if something was set aside."""
        if self.files or self.rows:
            self._quarantine.trim()

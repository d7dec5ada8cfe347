"""Source files → pieces of Arrow rows of the declared schema, decoded by Arrow instead of Spark's row readers."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from weft.errors import BadFile
from weft.execution.input.columnar_files import arrow_tables, binary_tables, parquet_tables
from weft.execution.input.conform import NOT_THE_FILES, BadRow, Misfit, Wanted, first_line
from weft.execution.input.pieces import BYTES_AT_ONCE, ROWS_AT_ONCE, Piece, cut_pieces
from weft.execution.input.quarantine import ROWS_KEPT, Quarantine, unavailable
from weft.execution.input.text_files import csv_tables, json_tables, sample_csv, sample_json
from weft.plan.stream import FileSource, Format, Stream

MOST_BAD_ROWS = 10_000
"""Of a file: with more of them it is set aside as a whole."""


def local_path(url: str) -> str:
    """The local file behind a path as Spark reports it: `file:/a b`, nothing in it is encoded."""
    return "/" + url.removeprefix("file:").lstrip("/") if url.startswith("file:") else url


def read_pieces(
    stream: Stream,
    urls: Iterable[str],
    *,
    columns: Sequence[str],
    quarantine: str,
    rows: int = ROWS_AT_ONCE,
    checked: bool = False,
) -> Iterator[Piece]:
    """The rows of some files of a stream, in pieces of at most so many rows; the last piece may be empty, and says what
    was set aside.

    A row that cannot be read as declared is set aside, and so is a file none of whose rows can be, or that is corrupt
    itself; if the stream says so (`on_bad_file`), either fails the batch instead. A file that cannot be opened or read
    fails the batch (SourceUnavailable): it may be there again later. With `checked` no piece is ever void: a file that
    is larger than a piece is read once more before.
    """
    names = frozenset(columns)
    wanted = Wanted(tuple(field for field in stream.schema if field.name in names), stream.time)
    aside, held = _Aside(stream, quarantine), _Held(rows)
    for url in urls:
        file, large = _File(stream, local_path(url), wanted), False
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
    """Some rows from the beginning of a file, all columns in the types they are found with."""
    return next(_guarded(source, path, stream, _sample(source, path)))


def _sample(source: FileSource, path: str) -> Iterator[pa.Table]:
    match source.format:
        case Format.PARQUET:
            yield next(parquet_tables(path, None))
        case Format.ARROW:
            empty, *some = (table for table, _ in zip(arrow_tables(path, None), range(2), strict=False))
            yield some[0] if some else empty
        case Format.JSON:
            yield sample_json(path)
        case Format.CSV:
            yield sample_csv(path, dict(source.options))


class _File:
    """One file while it is read, and what cannot be read of it."""

    def __init__(self, stream: Stream, path: str, wanted: Wanted) -> None:
        assert isinstance(stream.source, FileSource)
        self._source, self._stream, self._wanted = stream.source, stream.name, wanted
        self.path = path
        self.bad: list[BadRow] = []
        """The first of the bad rows."""
        self.bad_count = 0

    def pieces(self, rows: int, *, checked: bool) -> Iterator[tuple[pa.Table, bool]]:
        """The file in pieces, each with whether more follow; the last one comes when the whole file was read.

        If it is `checked`, the first one does, too.
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
    """The same tables; an error is the file's own fault (BadFile) only if the file could be read."""
    try:
        if source.format in (Format.PARQUET, Format.ARROW) and os.stat(path).st_size == 0:
            raise Misfit("the file is empty")
        yield from tables
    except NOT_THE_FILES as error:
        raise unavailable(path, stream, error) from error
    except OSError as error:
        if error.errno is not None:  # Arrow's decoders raise OSError for corrupt data, but without a number
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
    """Rows of files that were read wholly, until they are enough for a piece."""

    def __init__(self, rows: int) -> None:
        self._most = rows
        self._tables: list[pa.Table] = []
        self._rows = self._bytes = 0

    def add(self, table: pa.Table) -> None:
        self._tables.append(table)
        self._rows += table.num_rows
        self._bytes += table.nbytes

    def full(self) -> list[pa.Table]:
        """Whole pieces; what is too little for one stays."""
        if self._rows < self._most and self._bytes < BYTES_AT_ONCE:
            return []
        *full, last = self.rest()
        self.add(last)
        return full

    def rest(self) -> list[pa.Table]:
        """All pieces; the last one may be small."""
        tables = list(cut_pieces(self._tables, self._most))
        self._tables, self._rows, self._bytes = [], 0, 0
        return tables


class _Aside:
    """What is set aside of a stream."""

    def __init__(self, stream: Stream, quarantine: str) -> None:
        assert isinstance(stream.source, FileSource)
        self._fails = stream.source.on_bad_file == "fail"
        self._quarantine = Quarantine(quarantine, stream.name)
        self.files: list[str] = []
        self.rows = 0

    def put_file(self, path: str, error: BadFile) -> None:
        """Set a file aside, unless that has to fail the batch."""
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
        """Keep the quarantine within its bounds."""
        if self.files or self.rows:
            self._quarantine.trim()

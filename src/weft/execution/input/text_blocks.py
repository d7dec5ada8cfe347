"""Text files in blocks of whole rows, and where the lines and records in them are."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from weft.execution.input.conform import Misfit

BLOCK = 4 << 20
LONGEST_ROW = 512 << 20
LONGEST_QUOTE = 128 << 20
_MARK = b"\xef\xbb\xbf"
_SOMETHING = re.compile(rb"\S")
_LINE = re.compile(rb"[^\n]+\n?")
Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Block:
    """Whole rows of a text file: a part of what was read of it, from `begin` to `end`, which is not copied.

    `offset` is where in the file the data are from. It is `whole` if the last row is known to be complete.
    """

    data: bytes
    begin: int
    end: int
    offset: int
    whole: bool = False

    @property
    def is_blank(self) -> bool:
        """Whether there is nothing but white space."""
        return _SOMETHING.search(self.data, self.begin, self.end) is None

    def text(self, span: Span | None = None) -> memoryview:
        """All of it, or a part."""
        begin, end = (self.begin, self.end) if span is None else span
        return memoryview(self.data)[begin:end]

    def after(self, begin: int) -> Block:
        """What follows a place."""
        return replace(self, begin=begin)


def blocks(path: str, *, separator: str = "") -> Iterator[Block]:
    """A file in blocks of whole lines, without those that are blank; with a `separator`, of whole records of CSV.

    A block grows until it holds the longest row, but not beyond `LONGEST_ROW`.
    """
    with open(path, "rb", buffering=0) as file:
        number = file.fileno()
        offset = len(_MARK) if os.pread(number, len(_MARK), 0) == _MARK else 0
        size = BLOCK
        while data := os.pread(number, size, offset):
            block = _whole_rows(Block(data, 0, len(data), offset), separator)
            if block.end == 0 and len(data) == size:
                if size > LONGEST_ROW:
                    raise Misfit(f"a row is longer than {LONGEST_ROW >> 20} MiB")
                size *= 2
                continue
            if block.end == 0:  # the last line has no end
                block = replace(block, end=len(data), whole=False)
            if not block.is_blank:
                yield block
            offset, size = offset + block.end, BLOCK


def _whole_rows(block: Block, separator: str) -> Block:
    """The rows that are complete, or taken to be; nothing if there are none."""
    end = block.data.rfind(b"\n") + 1
    found = replace(block, end=end, whole=True)
    start = open_quote(found, separator) if separator else None
    if start is None:
        return found
    if len(block.data) - start > LONGEST_QUOTE:
        return replace(found, whole=False)  # more likely a quote that has no partner
    return replace(found, end=start)


class Lines:
    """Counts the lines of a file up to places that are asked for in ascending order."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._at = 0
        self._lines = 0

    def number(self, block: Block, place: int) -> int:
        """The number, from 1 on, of the line at a place in the data of a block."""
        if self._at < block.offset:
            self._skip_to(block.offset)
        self._lines += block.data.count(b"\n", self._at - block.offset, place)
        self._at = block.offset + place
        return self._lines + 1

    def _skip_to(self, offset: int) -> None:
        with open(self._path, "rb", buffering=0) as file:
            file.seek(self._at)
            while self._at < offset and (data := file.read(min(BLOCK, offset - self._at))):
                self._lines += data.count(b"\n")
                self._at += len(data)


def line_spans(block: Block) -> Iterator[Span]:
    """Where in its data each line of a block that is not blank begins and ends."""
    lines = _LINE.finditer(block.data, block.begin, block.end)
    return (line.span() for line in lines if line.group().strip())


def record_spans(block: Block, separator: str) -> Iterator[Span]:
    """As `line_spans`, for records of CSV: a quoted value may hold line ends; a quote without a partner ends with its
    line."""
    records = _records(separator).finditer(block.data, block.begin, block.end)
    return (record.span() for record in records if record.group().strip(b"\r\n"))


def open_quote(block: Block, separator: str) -> int | None:
    """Where the first record begins that has a quote without a partner; None if all quotes are closed.

    Most often the last quote alone tells that without reading the records: in the middle of a value it can only close
    one. At the beginning of a value or as the second of two it may be anything. How many quotes there are does not tell
    either, since those in the middle of a value without quotes are a part of it.
    """
    begin, end = block.begin, block.end
    last = block.data.rfind(b'"', begin, end)
    if last < 0:
        return None
    before = b"\n" if last == begin else block.data[last - 1 : last]
    if before not in (b'"', b"\n", b"\r", separator.encode()):
        return None
    records = _records(separator).finditer(block.data, begin, end)
    return next((record.start() for record in records if record.lastgroup == "open"), None)


@lru_cache(maxsize=8)
def _records(separator: str) -> re.Pattern[bytes]:
    """As Arrow reads CSV: quotes count at the beginning of a value only."""
    sep = re.escape(separator.encode())
    rest = rb"(?:(?!%s)[^\r\n])*+" % sep
    value = rb'(?:"[^"]*+(?:""[^"]*+)*+"%s|(?!"|%s)[^\r\n]%s|)' % (rest, sep, rest)
    whole = rb"(?P<whole>%s(?:%s%s)*+(?:\r?\n|\r|\Z))" % (value, sep, value)
    return re.compile(whole + rb"|(?P<open>[^\r\n]++(?:\r?\n|\r|\Z))")

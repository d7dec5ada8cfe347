"""Text files in blocks of complete rows, and the positions of lines and CSV records in them."""

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
    """Complete rows of a text file: the range from `begin` to `end` of the data that was read, without copying it.

    `offset` is the position of the data in the file. `whole` says that the last row is known to be complete.
    """

    data: bytes
    begin: int
    end: int
    offset: int
    whole: bool = False

    @property
    def is_blank(self) -> bool:
        """Whether the block contains only white space."""
        return _SOMETHING.search(self.data, self.begin, self.end) is None

    def text(self, span: Span | None = None) -> memoryview:
        """Return the bytes of the block, or of one span of its data, without copying them."""
        begin, end = (self.begin, self.end) if span is None else span
        return memoryview(self.data)[begin:end]

    def after(self, begin: int) -> Block:
        """Return the part of the block that begins at a position."""
        return replace(self, begin=begin)


def blocks(path: str, *, separator: str = "") -> Iterator[Block]:
    """Yield the non-blank blocks of a file: complete lines or, with a `separator`, complete CSV records.

    A block grows until it holds the longest row, but not beyond `LONGEST_ROW`.
    """
    with open(path, "rb", buffering=0) as file:
        descriptor = file.fileno()
        offset = len(_MARK) if os.pread(descriptor, len(_MARK), 0) == _MARK else 0
        size = BLOCK
        while data := os.pread(descriptor, size, offset):
            block = _whole_rows(Block(data, 0, len(data), offset), separator)
            if block.end == 0 and len(data) == size:
                if size > LONGEST_ROW:
                    raise Misfit(f"a row is longer than {LONGEST_ROW >> 20} MiB")
                size *= 2
                continue
            if block.end == 0:  # the last line does not end with a line break
                block = replace(block, end=len(data), whole=False)
            if not block.is_blank:
                yield block
            offset, size = offset + block.end, BLOCK


def _whole_rows(block: Block, separator: str) -> Block:
    """Cut a block after its last row that is complete, or taken to be; the result is empty if no row is complete."""
    end = block.data.rfind(b"\n") + 1
    lines = replace(block, end=end, whole=True)
    start = open_quote(lines, separator) if separator else None
    if start is None:
        return lines
    if len(block.data) - start > LONGEST_QUOTE:
        return replace(lines, whole=False)  # more likely an unmatched quote than a value of this length
    return replace(lines, end=start)


class Lines:
    """A counter of the lines of a file up to positions, which must be asked for in ascending order."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._at = 0
        self._lines = 0

    def number(self, block: Block, place: int) -> int:
        """Return the line number, from 1, of a position in the data of a block."""
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
    """Return an iterator over the spans of the non-blank lines in a block."""
    lines = _LINE.finditer(block.data, block.begin, block.end)
    return (line.span() for line in lines if line.group().strip())


def record_spans(block: Block, separator: str) -> Iterator[Span]:
    """Return an iterator over the spans of the non-blank CSV records in a block.

    A quoted value may contain line breaks; a record with an unmatched quote ends with its line.
    """
    records = _records(separator).finditer(block.data, block.begin, block.end)
    return (record.span() for record in records if record.group().strip(b"\r\n"))


def open_quote(block: Block, separator: str) -> int | None:
    """Return where the first record with an unmatched quote begins, or None if all quotes are closed.

    Usually the last quote decides without parsing the records: in the middle of a value it can only close one. At the
    beginning of a value, or after another quote, it may mean anything. The number of quotes does not decide either,
    because quotes in the middle of an unquoted value belong to the value.
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
    """Return the pattern of a CSV record as Arrow reads it: a quote counts only at the beginning of a value."""
    sep = re.escape(separator.encode())
    tail = rb"(?:(?!%s)[^\r\n])*+" % sep
    value = rb'(?:"[^"]*+(?:""[^"]*+)*+"%s|(?!"|%s)[^\r\n]%s|)' % (tail, sep, tail)
    complete = rb"(?P<whole>%s(?:%s%s)*+(?:\r?\n|\r|\Z))" % (value, sep, value)
    return re.compile(complete + rb"|(?P<open>[^\r\n]++(?:\r?\n|\r|\Z))")

"""The scope of a query: resolves identifiers to relations and columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from weft.errors import AmbiguousColumn, DuplicateAlias, UnknownColumn, UnknownStream
from weft.plan.stream import Stream
from weft.plan.types import TIMESTAMP, Field
from weft.plan.window import Session, Sliding, Window
from weft.sql.syntax.parse import RelationText, UsingText, meta_position

WINDOW_COLUMNS = ("window_start", "window_end")
_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Source:
    """A relation of the query and its stream."""

    index: int
    alias: str
    stream: Stream
    window: Window | None
    fields: Mapping[str, Field] = field(repr=False)

    def find(self, name: str) -> Field | None:
        """Return the column with this name, ignoring case; None if no column has it."""
        return self.fields.get(name.lower())


@dataclass(frozen=True, slots=True)
class Resolved:
    """A column of relation `relation` (None for a column of the window), and the struct fields taken from it."""

    relation: int | None
    field: Field
    path: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Merge:
    """Two columns that USING merges: `name` (in lower case) without a qualifier means the column of relation `left`.

    `first` is the first relation of the chain of JOINs that contains `left` and `right`.
    """

    name: str
    left: int
    right: int
    first: int


@dataclass(frozen=True, slots=True)
class Scope:
    """The relations that a query can name, and the columns that USING merges.

    `visible` restricts the relations that can be named: in ON, to the relations joined so far.
    """

    sources: tuple[Source, ...]
    merges: tuple[Merge, ...] = ()
    visible: range | None = None

    def within(self, relations: range) -> Scope:
        """Return the scope restricted to the given relations."""
        return self if len(relations) == len(self.sources) else replace(self, visible=relations)

    def hides(self, relation: int, name: str) -> bool:
        """Return whether USING merges the relation's column into another one, so that `name` alone does not mean it."""
        lowered = name.lower()
        return any(merge.right == relation and merge.name == lowered for merge in self.merges)

    def resolve(self, column: exp.Column) -> Resolved:
        """Return the column that a reference means; raise an error if it means none or several."""
        parts = [part.name for part in column.parts]
        source = self.source(parts[0]) if len(parts) > 1 else None
        if source is not None and not self._sees(source):
            source = None
        if source is not None:
            match = source.find(parts[1])
            if match is not None:
                return Resolved(source.index, match, tuple(parts[2:]))
        return self._resolve_unqualified(column, parts, source)

    def source(self, alias: str) -> Source | None:
        """Return the relation with this alias, ignoring case; None if no relation has it."""
        lowered = alias.lower()
        return next((source for source in self.sources if source.alias.lower() == lowered), None)

    def _sees(self, source: Source) -> bool:
        return self.visible is None or source.index in self.visible

    def _resolve_unqualified(self, column: exp.Column, parts: Sequence[str], qualifier: Source | None) -> Resolved:
        name = parts[0]
        matches = [
            (source, match)
            for source in self.sources
            if (match := source.find(name)) is not None and self._sees(source) and not self.hides(source.index, name)
        ]
        if len(matches) > 1:
            raise AmbiguousColumn(
                f'column "{name}" is ambiguous',
                detail=f"{_located(column)}It exists in {' and '.join(source.alias for source, _ in matches)}.",
                hint=f"Write {matches[0][0].alias}.{name} or {matches[1][0].alias}.{name}.",
            )
        if matches:
            return Resolved(matches[0][0].index, matches[0][1], tuple(parts[1:]))
        if len(parts) == 1 and name.lower() in WINDOW_COLUMNS:
            return self._window_column(name.lower())
        if len(parts) > 1 and qualifier is None:
            if self.source(name) is not None:
                raise UnknownColumn(
                    f'relation "{name}" of "{".".join(parts)}" cannot be named in this ON',
                    detail=f"{_located(column)}ON sees the relations that JOIN has joined so far.",
                    hint="Move the condition to WHERE, or to the ON of a later JOIN.",
                )
            raise UnknownColumn(
                f'"{name}" in "{".".join(parts)}" is neither a relation nor a column',
                detail=_located(column).strip(),
                hint=f"Relations are: {', '.join(source.alias for source in self.sources)}.",
            )
        raise self._unknown(column, parts[-1] if qualifier is None else parts[1], qualifier)

    def _window_column(self, name: str) -> Resolved:
        if not isinstance(self.sources[0].window, Sliding | Session):
            raise UnknownColumn(
                f'column "{name}" does not exist',
                hint="It exists when the windows are given as [RANGE … SLIDE …], [TUMBLE …] or [SESSION …].",
            )
        return Resolved(None, Field(name, TIMESTAMP))

    def _unknown(self, column: exp.Column, name: str, qualifier: Source | None) -> UnknownColumn:
        sources = [source for source in self.sources if self._sees(source)] if qualifier is None else [qualifier]
        streams = " or ".join(dict.fromkeys(f'stream "{source.stream.name}"' for source in sources))
        hints = (f"{source.alias} has {_listed(source.stream.schema.names())}." for source in sources)
        return UnknownColumn(
            f'column "{name}" does not exist in {streams}', detail=_located(column).strip(), hint=" ".join(hints)
        )


def _located(column: exp.Column) -> str:
    return f"At {meta_position(column.this)}. " if "line" in column.this.meta else ""


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")


def open_scope(relations: Sequence[RelationText], streams: Mapping[str, Stream], using: Sequence[UsingText]) -> Scope:
    """Return the scope of a query; raise an error for an undeclared stream or a duplicate alias."""
    sources: list[Source] = []
    for index, relation in enumerate(relations):
        stream = _find_stream(relation.name, streams)
        if any(source.alias.lower() == relation.alias.lower() for source in sources):
            raise DuplicateAlias(
                f'two relations are named "{relation.alias}"', hint=f"Give them aliases: {relation.name} AS a."
            )
        fields = {field.name.lower(): field for field in stream.schema}
        sources.append(Source(index, relation.alias, stream, relation.window, fields))
    scope = Scope(tuple(sources))
    for column in using:
        scope = replace(scope, merges=(*scope.merges, _merge(column, scope)))
    return scope


def _merge(using: UsingText, scope: Scope) -> Merge:
    """Return the columns that a name of USING merges; like Spark, take the first relation on the left that has it."""
    right = scope.sources[using.right]
    left = [scope.sources[index] for index in using.left]
    owner = next((source for source in left if source.find(using.name) is not None), None)
    lacking = left if owner is None else [] if right.find(using.name) is not None else [right]
    if owner is None or lacking:
        names = " or ".join(dict.fromkeys(f'stream "{source.stream.name}"' for source in lacking))
        columns = dict.fromkeys(name for source in lacking for name in source.stream.schema.names())
        raise UnknownColumn(
            f'column "{using.name}" of USING does not exist in {names}', hint=f"Columns are: {_listed([*columns])}."
        )
    return Merge(using.name.lower(), owner.index, right.index, using.left.start)


def _find_stream(name: str, streams: Mapping[str, Stream]) -> Stream:
    stream = streams.get(name)
    if stream is None:
        lowered = name.lower()
        stream = next((stream for key, stream in streams.items() if key.lower() == lowered), None)
    if stream is None:
        known = _listed(sorted(streams))
        raise UnknownStream(
            f'stream "{name[:120]}" does not exist',
            hint=f"Streams are: {known}." if known else "Declare it first.",
        )
    return stream

"""Names: which relation and column an identifier means."""

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
    """One relation of the query and the stream behind it."""

    index: int
    alias: str
    stream: Stream
    window: Window | None
    fields: Mapping[str, Field] = field(repr=False)

    def find(self, name: str) -> Field | None:
        """The column of this name, without regard to case."""
        return self.fields.get(name.lower())


@dataclass(frozen=True, slots=True)
class Resolved:
    """A column of relation `relation` (None: of the window), and the struct fields taken from it."""

    relation: int | None
    field: Field
    path: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Merge:
    """A column that USING made one: `name` (in lower case) alone means that of relation `left`, not of `right`.

    `first` is the first relation of the chain of JOINs that both are in.
    """

    name: str
    left: int
    right: int
    first: int


@dataclass(frozen=True, slots=True)
class Scope:
    """The relations a query can name, and the columns that USING made one.

    `visible` are the relations that can be named at one place: in ON, only those joined so far.
    """

    sources: tuple[Source, ...]
    merges: tuple[Merge, ...] = ()
    visible: range | None = None

    def within(self, relations: range) -> Scope:
        """The same scope at a place where only some relations can be named."""
        return self if len(relations) == len(self.sources) else replace(self, visible=relations)

    def hides(self, relation: int, name: str) -> bool:
        """Whether `name` alone does not mean this relation's column, because USING made it one with another's."""
        lowered = name.lower()
        return any(merge.right == relation and merge.name == lowered for merge in self.merges)

    def resolve(self, column: exp.Column) -> Resolved:
        """What a column reference means; raises the error that says why it means nothing."""
        parts = [part.name for part in column.parts]
        source = self.source(parts[0]) if len(parts) > 1 else None
        if source is not None and not self._sees(source):
            source = None
        if source is not None:
            found = source.find(parts[1])
            if found is not None:
                return Resolved(source.index, found, tuple(parts[2:]))
        return self._resolve_unqualified(column, parts, source)

    def source(self, alias: str) -> Source | None:
        """The relation of this name."""
        lowered = alias.lower()
        return next((source for source in self.sources if source.alias.lower() == lowered), None)

    def _sees(self, source: Source) -> bool:
        return self.visible is None or source.index in self.visible

    def _resolve_unqualified(self, column: exp.Column, parts: Sequence[str], qualifier: Source | None) -> Resolved:
        name = parts[0]
        found = [
            (source, hit)
            for source in self.sources
            if (hit := source.find(name)) is not None and self._sees(source) and not self.hides(source.index, name)
        ]
        if len(found) > 1:
            raise AmbiguousColumn(
                f'column "{name}" is ambiguous',
                detail=f"{_located(column)}It exists in {' and '.join(source.alias for source, _ in found)}.",
                hint=f"Write {found[0][0].alias}.{name} or {found[1][0].alias}.{name}.",
            )
        if found:
            return Resolved(found[0][0].index, found[0][1], tuple(parts[1:]))
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
        sources = [each for each in self.sources if self._sees(each)] if qualifier is None else [qualifier]
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
    """The scope of a query: every relation is a declared stream, no two have one name."""
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
    for each in using:
        scope = replace(scope, merges=(*scope.merges, _merge(each, scope)))
    return scope


def _merge(using: UsingText, scope: Scope) -> Merge:
    """The two columns that one name of USING means; like Spark, of several on the left it takes the first."""
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
    found = streams.get(name)
    if found is None:
        lowered = name.lower()
        found = next((stream for key, stream in streams.items() if key.lower() == lowered), None)
    if found is None:
        known = _listed(sorted(streams))
        raise UnknownStream(
            f'stream "{name[:120]}" does not exist',
            hint=f"Streams are: {known}." if known else "Declare it first.",
        )
    return found

"""GROUP BY: the keys and the window of the groups."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta

from sqlglot import exp

from weft.errors import (
    AmbiguousColumn,
    InvalidWindow,
    MissingWindow,
    TypeMismatch,
    UnknownColumn,
    UnsupportedQuery,
)
from weft.plan.aggregation import GroupKey
from weft.plan.expression import Opaque, quote
from weft.plan.types import Kind
from weft.plan.window import Session, Sliding, Unbounded, window_text
from weft.sql.functions.allowlist import COMPUTED, WINDOWS
from weft.sql.groups.calls import Value
from weft.sql.names.scope import WINDOW_COLUMNS, Scope, Source
from weft.sql.syntax.interval import interval_micros
from weft.sql.syntax.parse import Parsed, called, calls_in, strip
from weft.sql.syntax.spark_text import short_text
from weft.sql.syntax.window_clause import checked_size, read_size, sliding
from weft.sql.types.decimal_type import bind_typed

_HINT = "Write {name} [TUMBLE 5 SECONDS], [RANGE 8 SECONDS SLIDE 4 SECONDS] or [SESSION 5 SECONDS]"


@dataclass(frozen=True, slots=True)
class Grouping:
    """The groups of a query; `scope` has the window of each relation, whether FROM or GROUP BY declares it.

    `columns` maps the grouped expressions, in canonical form, to their columns.
    """

    scope: Scope
    window: Sliding | Session
    keys: tuple[GroupKey, ...]
    columns: dict[exp.Expr, Value] = field(repr=False)
    notices: tuple[str, ...]

    def find(self, node: exp.Expr) -> Value | None:
        """Return the column of the group expression that a node repeats; None for other nodes."""
        kind = exp.Identifier if isinstance(node, exp.Column) else type(node)
        chained = isinstance(node, exp.And | exp.Or) and type(node.parent) is kind
        if chained or not any(type(column) is kind for column in self.columns):
            return None
        try:
            return self.columns.get(canonical(node, self.scope))
        except (UnknownColumn, AmbiguousColumn):
            return None


def is_aggregation(parsed: Parsed) -> bool:
    """Return whether a query is an aggregation; if it is not, refuse clauses that only aggregations have."""
    if parsed.group is not None:
        return True
    having = () if parsed.having is None else (parsed.having,)
    if any(True for root in (*parsed.projections, *having) for _ in calls_in(root, COMPUTED)):
        return True
    if parsed.having is not None:
        raise UnsupportedQuery(
            "HAVING without GROUP BY or an aggregate function is not supported", hint="Filter rows with WHERE."
        )
    for call in (call for root in parsed.projections for call in calls_in(root, WINDOWS)):
        raise UnsupportedQuery(
            f'"{short_text(call)}" outside of an aggregation is not supported',
            hint="Use it in GROUP BY, or give the relation a window, [TUMBLE 5 SECONDS], and select window_start.",
        )
    return False


def group_by(parsed: Parsed, scope: Scope) -> Grouping:
    """Return the groups of a query; refuse groups without a window that closes."""
    _check_stars(parsed)
    nodes = list(_written(parsed, scope))
    calls = [node for node in nodes if called(node, WINDOWS)]
    scope = _with_window(scope, calls)
    window = _window(scope)
    keys: list[GroupKey] = []
    columns: dict[exp.Expr, Value] = {}
    notices: list[str] = []
    for node in nodes:
        if called(node, WINDOWS) or is_window_reference(node, scope):
            continue
        shape = canonical(node, scope)
        relations = {scope.resolve(column).relation for column in node.find_all(exp.Column)}
        # An expression over the window alone has the same value in all rows of a group.
        if relations == {None} or shape in columns:
            continue
        key = _key(node, relations, scope)
        if isinstance(key.expression, Opaque):
            stream = scope.sources[key.relation].stream.name
            text = key.expression.sql
            notices.append(f'group key "{text}" is evaluated by Spark: stream "{stream}" takes the row path')
        name = f"g{len(keys)}"
        columns[shape] = Value(quote(name), key.type, name)
        keys.append(key)
    return Grouping(scope, window, tuple(keys), columns, tuple(notices))


def _check_stars(parsed: Parsed) -> None:
    for node in parsed.projections:
        if isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star)):
            raise UnsupportedQuery("* in an aggregation is not supported", hint="Name the columns of GROUP BY.")


def _written(parsed: Parsed, scope: Scope) -> Iterator[exp.Expr]:
    """Yield the expressions of GROUP BY, with positions and aliases replaced by the selected expressions."""
    if parsed.group is None:
        return
    if parsed.group.all:
        for node in parsed.projections:
            selected = _unaliased(node)
            if next(calls_in(selected, COMPUTED), None) is None and not isinstance(selected, exp.Literal):
                yield selected
        return
    for node in parsed.group.expressions:
        expression = _meant(node, parsed, scope)
        if next(calls_in(expression, COMPUTED), None) is not None:
            raise UnsupportedQuery(
                f'GROUP BY "{short_text(node)}" stands for "{short_text(expression)}", which is an aggregate',
                hint="Group by columns and expressions of them.",
            )
        yield expression


def _meant(node: exp.Expr, parsed: Parsed, scope: Scope) -> exp.Expr:
    if isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit():
        place = int(node.name)
        if not 1 <= place <= len(parsed.projections):
            raise UnsupportedQuery(
                f"GROUP BY position {node.name[:20]} is not in the SELECT list",
                hint=f"The list has {len(parsed.projections)} expressions, counted from 1.",
            )
        return _unaliased(parsed.projections[place - 1])
    if isinstance(node, exp.Column) and len(node.parts) == 1:
        try:
            scope.resolve(node)
        except UnknownColumn:
            aliased = find_alias(node.name, parsed)
            if aliased is not None:
                return aliased
            if node.name.lower() not in (*WINDOWS, *WINDOW_COLUMNS):
                raise
    return node


def find_alias(name: str, parsed: Parsed) -> exp.Expr | None:
    """Return the selected expression with this alias; None if no expression has it."""
    lowered = name.lower()
    return next((_unaliased(node) for node in parsed.projections if node.alias.lower() == lowered), None)


def _unaliased(node: exp.Expr) -> exp.Expr:
    return strip(node.this if isinstance(node, exp.Alias) else node)


def canonical(node: exp.Expr, scope: Scope) -> exp.Expr:
    """Return the node with resolved columns and without parentheses, so that equal expressions compare equal."""
    holder = exp.Paren(this=strip(node).copy())
    for column in list(holder.find_all(exp.Column)):
        resolved = scope.resolve(column)
        name = "\x1f".join((str(resolved.relation), resolved.field.name, *(part.lower() for part in resolved.path)))
        column.replace(exp.to_identifier(name, quoted=True))
    for paren in list(holder.this.find_all(exp.Paren)):
        paren.replace(strip(paren))
    result = holder.this
    assert isinstance(result, exp.Expr)
    return result


def is_window_reference(node: exp.Expr, scope: Scope) -> bool:
    """Return whether a node is `window` or `session_window` (or a field of it) and the query has such a window."""
    if not isinstance(node, exp.Column):
        return False
    parts = [part.name.lower() for part in node.parts]
    window_type = {"window": Sliding, "session_window": Session}.get(parts[0])
    if window_type is None or not isinstance(scope.sources[0].window, window_type):
        return False
    if any(source.find(parts[0]) is not None for source in scope.sources):
        return False
    return len(parts) == 1 or (len(parts) == 2 and parts[1] in ("start", "end"))


def _key(node: exp.Expr, relations: set[int | None], scope: Scope) -> GroupKey:
    if len(relations) > 1:
        raise UnsupportedQuery(
            f'the group expression "{short_text(node)}" mixes relations',
            hint="Group by one expression of each relation instead.",
        )
    relation = min((relation for relation in relations if relation is not None), default=0)
    expression = bind_typed(node, relation, scope)
    if expression.type is None:
        raise UnsupportedQuery(
            f'the type of the group expression "{short_text(node)}" is not known',
            hint="Say what it is: CAST(… AS type).",
        )
    if expression.type.kind in (Kind.OTHER, Kind.NULL):
        raise TypeMismatch(
            f'cannot group by "{short_text(node)}" of type {expression.type.ddl()}',
            hint="Group by a value in it: tags[0], addr.city.",
        )
    return GroupKey(expression, relation, expression.type)


def _with_window(scope: Scope, calls: list[exp.Expr]) -> Scope:
    """Return the scope with the window that GROUP BY gives its relation."""
    if not calls:
        return scope
    source = scope.sources[0]
    text = short_text(calls[0])
    if len(scope.sources) > 1:
        raise UnsupportedQuery(
            f'"{text}" over a join is not supported',
            hint=f"Write the window on {'both' if len(scope.sources) == 2 else 'all'} relations: " + " JOIN ".join(
                f"{relation.stream.name} [TUMBLE 5 SECONDS] AS {relation.alias}" for relation in scope.sources
            ) + ".",
        )  # fmt: skip
    if source.window is not None:
        raise InvalidWindow(
            f'relation "{source.alias}" has {window_text(source.window)} and is grouped by "{text}"',
            hint="Write one of the two.",
        )
    windows = [read_window_call(call, scope) for call in calls]
    if any(window != windows[0] for window in windows):
        raise InvalidWindow(f'two windows in GROUP BY: "{text}" and "{short_text(calls[1])}"', hint="Write one.")
    return replace(scope, sources=(replace(source, window=windows[0]),))


def _window(scope: Scope) -> Sliding | Session:
    for source in scope.sources:
        window = source.window
        hint = _HINT.format(name=source.stream.name)
        if window is None:
            call = f", or GROUP BY window({source.stream.time}, '5 seconds')" if len(scope.sources) == 1 else ""
            raise MissingWindow(
                f'relation "{source.alias}" of an aggregation has no window',
                detail="Without one, its groups would never be complete.",
                hint=f"{hint}{call}.",
            )
        if not isinstance(window, Sliding | Session):
            why = "never ends" if isinstance(window, Unbounded) else "is another one for every row"
            raise InvalidWindow(
                f'relation "{source.alias}" of an aggregation has {window_text(window)}',
                detail=f"This window {why}, so there is no group to report.",
                hint=f"{hint}.",
            )
    first = scope.sources[0].window
    assert isinstance(first, Sliding | Session)
    return first


def read_window_call(call: exp.Expr, scope: Scope) -> Sliding | Session:
    """Return the window of a call: `window(ts, '8 seconds'[, '4 seconds'])` or `session_window(ts, '5 seconds')`."""
    name, source = called(call, WINDOWS), scope.sources[0]
    most_arguments = 3 if name == "window" else 2
    if not 2 <= len(call.expressions) <= most_arguments:
        raise UnsupportedQuery(
            f'"{short_text(call)}" is not supported',
            hint="Write window(ts, '8 seconds', '4 seconds') or session_window(ts, '5 seconds'); there is no offset.",
        )
    _check_time(call, scope)
    sizes = [_duration(node, call, source) for node in call.expressions[1:]]
    if name == "session_window":
        return Session(sizes[0])
    return sliding(sizes[0], sizes[-1], relation=source.alias)


def _check_time(call: exp.Expr, scope: Scope) -> None:
    node = strip(call.expressions[0])
    if isinstance(node, exp.Column):
        resolved = scope.resolve(node)
        if resolved.relation is not None and not resolved.path:
            stream = scope.sources[resolved.relation].stream
            if resolved.field.name.lower() == stream.time.lower():
                return
    raise InvalidWindow(
        f'"{short_text(call)}" is not over the event time',
        hint=f"The first argument must be the event-time column {scope.sources[0].stream.time}.",
    )


def _duration(node: exp.Expr, call: exp.Expr, source: Source) -> timedelta:
    node = strip(node)
    where = f'"{short_text(call)}"'
    if isinstance(node, exp.Literal) and node.is_string:
        return read_size(node.name, relation=source.alias, position=where)
    if isinstance(node, exp.Interval):
        micros = interval_micros(node)
        return checked_size(micros, short_text(node), relation=source.alias, position=where)
    raise UnsupportedQuery(
        f'the duration "{short_text(node)}" in {where} is not supported', hint="Write a constant, like '5 seconds'."
    )

"""The SELECT list and HAVING of an aggregation, as Spark SQL over the columns of a group."""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlglot import exp

from weft.errors import InvalidWindow, QueryTooLarge, TypeMismatch, UnknownColumn, UnsupportedQuery
from weft.plan.expression import Column
from weft.plan.query import Output
from weft.plan.types import BOOLEAN, TIMESTAMP, DataType, Kind
from weft.sql.functions.allowlist import COMPUTED, WINDOWS
from weft.sql.functions.growth import growth
from weft.sql.functions.harden import harden, needs_spark
from weft.sql.groups.calls import Calls, Value, lower_call
from weft.sql.groups.grouping import Grouping, find_alias, is_window_reference, read_window_call
from weft.sql.names.output import MOST_OUTPUTS
from weft.sql.syntax.literal import NeedsSpark
from weft.sql.syntax.parse import Parsed, called, strip
from weft.sql.syntax.spark_text import default_name, short_text, spark_text
from weft.sql.types.coercion import as_condition
from weft.sql.types.result_type import opaque_type, type_of
from weft.sql.types.translate import translate

_START = Value("`window_start`", TIMESTAMP, "window_start")
_END = Value("`window_end`", TIMESTAMP, "window_end")
_BOTH = Value(
    "named_struct('start', `window_start`, 'end', `window_end`)",
    DataType(Kind.OTHER, text="struct<start:timestamp,end:timestamp>"),
)
_WINDOW_VALUES = {"start": _START, "end": _END}


@dataclass(slots=True)
class GroupColumns:
    """A translator of expressions over groups; collects the aggregate calls that they need."""

    parsed: Parsed
    grouping: Grouping
    calls: Calls
    values: list[tuple[Value, str]] = field(default_factory=list)

    def outputs(self) -> tuple[Output, ...]:
        """Return the outputs of the SELECT list."""
        if len(self.parsed.projections) > MOST_OUTPUTS:
            raise QueryTooLarge(f"the query selects more than {MOST_OUTPUTS} columns")
        return tuple(self._output(node) for node in self.parsed.projections)

    def having(self) -> str | None:
        """Return HAVING as Spark SQL, or None; it may refer to aliases of the SELECT list."""
        if self.parsed.having is None:
            return None
        node = self._rewrite(self.parsed.having, aliases=True)
        try:
            as_condition(translate(node, self._name), "HAVING")
        except NeedsSpark:
            if opaque_type(node, self._name) not in (None, BOOLEAN):
                raise TypeMismatch(f'HAVING must be boolean: "{short_text(self.parsed.having)}"') from None
        return self._text(node)

    def _output(self, node: exp.Expr) -> Output:
        alias = node.alias if isinstance(node, exp.Alias) else ""
        inner = strip(node.this if isinstance(node, exp.Alias) else node)
        name = alias or _name_of(inner)
        rewritten = strip(self._rewrite(inner, aliases=False))
        if isinstance(rewritten, exp.Column):
            value = self._value(rewritten)
            return Output(name, value.sql, value.type, value.source)
        size = growth(inner)  # not `rewritten`, which has a name for each occurrence of a column
        return Output(
            name,
            self._text(rewritten),
            type_of(rewritten, self._name),
            doubtful=needs_spark(rewritten, self._name),
            copies=size.copies,
            added=size.added,
        )

    def _rewrite(self, node: exp.Expr, *, aliases: bool) -> exp.Expr:
        """Return the tree with every value that a group holds replaced by a numbered column."""

        def replaced(part: exp.Expr) -> exp.Expr:
            value = self._found(part)
            if value is not None:
                self.values.append((value, short_text(part)))
                return exp.Column(this=exp.to_identifier(str(len(self.values) - 1), quoted=True))
            if isinstance(part, exp.Column):
                aliased = self._aliased(part) if aliases else None
                if aliased is not None:
                    return aliased if isinstance(aliased, exp.Column) else exp.Paren(this=aliased)
                raise self._not_grouped(part)
            return part

        return node.transform(replaced)

    def _found(self, node: exp.Expr) -> Value | None:
        """Return the value of a node that a group holds as a whole; None for other nodes."""
        value = self.grouping.find(node)
        if value is not None:
            return value
        if isinstance(node, exp.Filter) or called(node, COMPUTED):
            return lower_call(node, self.calls)
        if isinstance(node, exp.Dot) and called(strip(node.this), WINDOWS):
            self._check_window(strip(node.this))
            return _WINDOW_VALUES.get(node.expression.name.lower())
        if called(node, WINDOWS):
            self._check_window(node)
            return _BOTH
        return self._window_column(node) if isinstance(node, exp.Column) else None

    def _window_column(self, node: exp.Column) -> Value | None:
        try:
            resolved = self.grouping.scope.resolve(node)
        except UnknownColumn:
            if is_window_reference(node, self.grouping.scope):
                return _WINDOW_VALUES[node.name.lower()] if len(node.parts) == 2 else _BOTH
            return None
        if resolved.relation is not None:
            return None
        return _START if resolved.field.name == "window_start" else _END

    def _aliased(self, node: exp.Column) -> exp.Expr | None:
        """Return the expression of an alias of the SELECT list; `start` or `end` may follow the alias of a window."""
        first, *path = (part.name for part in node.parts)
        selected = find_alias(first, self.parsed)
        if selected is None or len(path) > 1:
            return None
        if path:
            return self._rewrite(exp.Dot(this=selected.copy(), expression=exp.to_identifier(path[0])), aliases=False)
        return self._rewrite(selected, aliases=False)

    def _not_grouped(self, node: exp.Column) -> Exception:
        resolved = self.grouping.scope.resolve(node)
        text = short_text(node)
        return UnsupportedQuery(
            f'column "{resolved.field.name}" is neither in GROUP BY nor inside an aggregate function',
            hint=f"Add {text} to GROUP BY, or select one value of it, like MAX({text}).",
        )

    def _check_window(self, call: exp.Expr) -> None:
        if read_window_call(call, self.grouping.scope) != self.grouping.window:
            raise InvalidWindow(
                f'"{short_text(call)}" is not the window of the query', hint="Repeat the one of GROUP BY exactly."
            )

    def _value(self, column: exp.Column) -> Value:
        return self.values[int(column.name)][0]

    def _name(self, column: exp.Column) -> Column:
        value = self._value(column)
        if value.type is None:
            raise NeedsSpark
        # Errors about types show the column's name, so it is the text that the user wrote.
        return Column(self.values[int(column.name)][1], value.type)

    def _text(self, node: exp.Expr) -> str:
        holder = exp.Paren(this=harden(node, self._name))
        for column in list(holder.find_all(exp.Column)):
            value = self._value(column)
            # The generator writes a Var unchanged, so only text generated by weft may go into one.
            column.replace(exp.Var(this=value.sql if value.source else f"({value.sql})"))
        return spark_text(holder.this, lambda column: (column.name,))


def _name_of(node: exp.Expr) -> str:
    if called(node, WINDOWS):
        return called(node, WINDOWS)
    if isinstance(node, exp.Dot) and called(strip(node.this), WINDOWS):
        return str(node.expression.name)
    return node.name if isinstance(node, exp.Column) else default_name(node)

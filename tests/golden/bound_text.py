"""The text of a bound query, for golden files."""

from __future__ import annotations

from collections.abc import Iterator

from weft.plan.aggregation import AggregateCall, Aggregation, Function
from weft.plan.expression import Expression, Opaque, conjuncts, to_sql
from weft.plan.query import BoundQuery, KeyPair, Output, Relation
from weft.plan.window import TimeBounds, window_text


def bound_text(query: BoundQuery) -> str:
    """Return the text of a bound query, one line per part and in the order of evaluation; empty parts are left out."""
    return "\n".join(_lines(query))


def _lines(query: BoundQuery) -> Iterator[str]:
    aliases = [relation.alias for relation in query.relations]
    for relation in query.relations:
        yield from _relation_lines(relation)
    yield from (f"join key: {_key_text(key, aliases)}" for key in query.keys)
    for condition in query.conditions:
        names = ", ".join(aliases[relation] for relation in condition.relations)
        yield f"condition on {names}: {_marked(condition.expression)}"
    for first, second, bounds in query.limits():
        if text := _bounds_text(bounds):
            yield f"event times: {aliases[first]} - {aliases[second]} is {text}"
    if query.sliding is not None:
        yield f"results per window: {window_text(query.sliding)}"
    if query.session is not None:
        yield f"results per session: {window_text(query.session)}"
    if query.aggregation is not None:
        yield from _aggregation_lines(query.aggregation, aliases)
    yield from (_output_text(output) for output in query.outputs)
    yield from (f"notice: {notice}" for notice in query.notices)


def _relation_lines(relation: Relation) -> Iterator[str]:
    """Yield a relation's stream, role and window, then each conjunct of its predicate, then the columns that it gives.

    The parts of a conjunction are separate lines, because Spark may evaluate some of them and weft the others.
    """
    window = "" if relation.window is None else f", window {window_text(relation.window)}"
    yield f"relation {relation.alias}: stream {relation.stream}, role {relation.role}{window}"
    yield from (f"  predicate: {_marked(part)}" for part in conjuncts(relation.predicate))
    if relation.columns:
        yield f"  columns: {', '.join(relation.columns)}"


def _marked(expression: Expression) -> str:
    """Return the SQL of an expression, with a mark before it if Spark has to evaluate the expression."""
    return ("by Spark " if isinstance(expression, Opaque) else "") + to_sql(expression)


def _key_text(key: KeyPair, aliases: list[str]) -> str:
    left = f"{_marked(key.left)} of {aliases[key.left_relation]}"
    right = f"{_marked(key.right)} of {aliases[key.right_relation]}"
    return f"{left} = {right}, as {key.type.ddl()}"


def _bounds_text(bounds: TimeBounds) -> str:
    """Return the range of a distance in words; an empty text if the distance is not limited."""
    low, high = bounds.low, bounds.high
    if low is not None and high is not None:
        return f"from {_seconds(low)} to {_seconds(high)}"
    if low is not None:
        return f"at least {_seconds(low)}"
    return "" if high is None else f"at most {_seconds(high)}"


def _seconds(micros: int) -> str:
    whole, fraction = divmod(abs(micros), 1_000_000)
    digits = f".{fraction:06}".rstrip("0").rstrip(".")
    return f"{'-' if micros < 0 else ''}{whole}{digits} s"


def _aggregation_lines(aggregation: Aggregation, aliases: list[str]) -> Iterator[str]:
    for number, key in enumerate(aggregation.keys):
        yield f"group key g{number}: {_marked(key.expression)} of {aliases[key.relation]}, as {key.type.ddl()}"
    for number, call in enumerate(aggregation.calls):
        yield f"aggregate a{number}: {_call_text(call, aliases)}, as {call.result.ddl()}"
    if aggregation.having is not None:
        yield f"having: {aggregation.having}"


def _call_text(call: AggregateCall, aliases: list[str]) -> str:
    """Return function and arguments of a call; SUM over two relations sums the product of its arguments."""
    arguments = [
        f"{_marked(argument)} of {alias}"
        for argument, alias in zip(call.arguments, aliases, strict=True)
        if argument is not None
    ]
    separator = " * " if call.function is Function.SUM else ", "
    parameter = "" if call.parameter is None else f", fraction {call.parameter}"
    return f"{call.function}({separator.join(arguments)}{parameter})"


def _output_text(output: Output) -> str:
    """Return name, SQL and type of an output; Spark computes every output that is not a plain column."""
    type_ = "unknown type" if output.type is None else output.type.ddl()
    text = f"output {output.name}: {output.sql}, {type_}"
    if output.source is not None:
        return text
    return f"{text}, computed {'and checked ' if output.doubtful else ''}by Spark"

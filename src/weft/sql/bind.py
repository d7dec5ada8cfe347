"""Text to bound query: parse, resolve, type, check windows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from weft.errors import CrossProduct, InvalidWindow, MissingWindow, QueryTooLarge
from weft.plan.query import BoundQuery, Relation
from weft.plan.stream import Stream
from weft.plan.window import Sliding, TimeBounds, Unbounded, pair_bounds, window_text
from weft.sql.condition import Conditions, sort_conditions
from weft.sql.output import columns_read, select_outputs
from weft.sql.parse import parse
from weft.sql.scan import DEEPEST
from weft.sql.scope import Source, open_scope


def bind(text: str, streams: Mapping[str, Stream]) -> BoundQuery:
    """The query that `text` says over `streams`; raises a `QueryError` and changes nothing if it says none.

    Safe to call from many threads: there is no shared state.
    """
    try:
        return _bind(text, streams)
    except RecursionError as error:
        raise QueryTooLarge(f"the query is nested too deeply (the limit is about {DEEPEST} levels)") from error


def _bind(text: str, streams: Mapping[str, Stream]) -> BoundQuery:
    parsed = parse(text)
    scope = open_scope(parsed.relations, streams, parsed.using)
    outputs = select_outputs(parsed.projections, scope)
    found = sort_conditions(parsed.conditions, parsed.using, scope)
    bounds = _check_join(scope.sources, found) if len(scope.sources) == 2 else found.bounds
    roles: Counter[str] = Counter()
    relations = []
    for source in scope.sources:
        role = roles[source.stream.name]
        roles[source.stream.name] += 1
        columns = columns_read(parsed.projections, scope, source.index)
        predicate = found.predicate(source.index)
        relations.append(Relation(source.stream.name, source.alias, role, source.window, predicate, columns))
    window = scope.sources[0].window
    return BoundQuery(
        sql=text,
        relations=tuple(relations),
        keys=found.sorted_keys(),
        outputs=outputs,
        bounds=bounds,
        sliding=window if isinstance(window, Sliding) else None,
        notices=tuple(dict.fromkeys((*found.notices, *_notices(bounds)))),
    )


def _check_join(sources: tuple[Source, ...], found: Conditions) -> TimeBounds:
    """The distances a join admits; every relation must be limited in time, and some equality must join the two."""
    first, second = sources
    windows = [source.window if source.window is not None else Unbounded() for source in sources]
    bounds = pair_bounds(windows[0], windows[1]).intersect(found.bounds)
    for source, end, other in ((first, bounds.low, second), (second, bounds.high, first)):
        if source.window is None and end is None:
            raise MissingWindow(
                f'relation "{source.alias}" has no window',
                detail="Without one, its rows would have to be kept for ever.",
                hint=f"Write {source.stream.name} [RANGE 10 SECONDS] AS {source.alias}, or limit its age: "
                f"{other.alias}.{other.stream.time} <= {source.alias}.{source.stream.time} + INTERVAL 10 SECONDS.",
            )
    _check_sliding(first, second)
    if not found.keys:
        raise CrossProduct(
            f'no equality joins "{first.alias}" and "{second.alias}"',
            hint=f"Add one: ON {first.alias}.key = {second.alias}.key.",
        )
    return bounds


def _check_sliding(first: Source, second: Source) -> None:
    if first.window == second.window or not (isinstance(first.window, Sliding) or isinstance(second.window, Sliding)):
        return
    texts = [window_text(source.window) if source.window is not None else "no window" for source in (first, second)]
    raise InvalidWindow(
        f'relations "{first.alias}" and "{second.alias}" have windows that do not fit together',
        detail=f'"{first.alias}" has {texts[0]}, "{second.alias}" has {texts[1]}.',
        hint="A sliding or tumbling window must be the same on both relations.",
    )


def _notices(bounds: TimeBounds) -> tuple[str, ...]:
    if bounds.low is not None and bounds.high is not None and bounds.low > bounds.high:
        return ("the time conditions contradict each other: the query will never give a row",)
    return ()

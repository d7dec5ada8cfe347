"""Queries that join many relations, or by other conditions than equalities, in a common form.

Conditions between two relations are what combinations are joined by, and equal ones of different queries are one. What
a query asks of three relations or more is its own matter: a filter on its whole combinations.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from weft.plan.changelog import LiveQuery
from weft.plan.expression import TRUE, Call, Expression, columns_of, rename_columns
from weft.plan.identity import identity
from weft.plan.key import Index, is_exact, key_text
from weft.plan.probe_tree import Comparison, Equality, Filter, Input, JoinCondition, Span, combination_id, inputs_of
from weft.plan.query import BoundQuery, Condition, KeyPair
from weft.plan.strategy import ProbeAggregate, ProbeJoin
from weft.plan.types import BOOLEAN
from weft.planner.joins.graph import EQUAL, Attribute, JoinInput, JoinQuery, Predicate, compare

_FLIPPED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "ne": "ne"}


@dataclass(frozen=True, slots=True)
class ProbedQuery:
    """A query as optimizers and probe trees see it: conditions by the text of the predicate that stands for each."""

    live: LiveQuery
    join: JoinQuery
    conditions: dict[str, JoinCondition]
    filter: Filter | None
    spans: tuple[Span, ...]


def normal_forms(queries: Iterable[LiveQuery]) -> tuple[ProbedQuery, ...]:
    """The common forms of all queries that probe trees serve."""
    return tuple(to_probed(live) for live in queries if isinstance(live.strategy, ProbeJoin | ProbeAggregate))


def to_probed(live: LiveQuery) -> ProbedQuery:
    """The common form of a live query."""
    query = live.query
    inputs = inputs_of(query)
    conditions = {_predicate(each).text: each for each in conditions_of(query)}
    wide = [over_inputs(each, inputs) for each in query.conditions if len(each.relations) > 2]
    asked = wide[0] if len(wide) == 1 else Call("and", tuple(wide), BOOLEAN)
    return ProbedQuery(
        live,
        JoinQuery(
            live.record.id,
            tuple(sorted((join_input(each) for each in inputs), key=lambda each: each.text)),
            tuple(_predicate(each) for _, each in sorted(conditions.items())),
        ),
        conditions,
        Filter(live.slot, asked) if wide else None,
        tuple(Span(live.slot, inputs[first], inputs[second], bounds) for first, second, bounds in query.limits()),
    )


def source_of(query: BoundQuery) -> str:
    """Names the query's combinations in the result log."""
    return combination_id(inputs_of(query), tuple(each.text for each in conditions_of(query)))


def conditions_of(query: BoundQuery) -> tuple[JoinCondition, ...]:
    """All conditions between two relations; what only wider conditions connect is connected by TRUE."""
    inputs = inputs_of(query)
    pairs: dict[tuple[int, int], list[KeyPair]] = {}
    for pair in query.keys:
        pairs.setdefault((pair.left_relation, pair.right_relation), []).append(pair)
    found: list[JoinCondition] = [_equality(inputs, at, keys) for at, keys in pairs.items()]
    found += [_comparison(each, inputs) for each in query.conditions if len(each.relations) == 2]
    found += _links(query, inputs, found)
    return tuple({each.text: each for each in found}.values())


def indexes_of(query: BoundQuery, relation: int) -> dict[str, Index]:
    """Every key by which a relation may be probed, by its text: all of them are kept, whatever the plan of today."""
    mine = inputs_of(query)[relation]
    found = {}
    for each in conditions_of(query):
        if isinstance(each, Equality):
            for side, index in ((each.left, each.left_index), (each.right, each.right_index)):
                if side == mine:
                    found[key_text(index.key)] = index
    return found


def condition_columns(query: BoundQuery, relation: int) -> frozenset[str]:
    """Columns of a relation that conditions read, keys apart."""
    names = frozenset[str]().union(*(columns_of(each.expression) for each in query.conditions))
    return frozenset(name.partition(".")[2] for name in names if name.partition(".")[0] == str(relation))


def join_input(each: Input) -> JoinInput:
    """As optimizers name it; windows are not part of it, since window tables tell queries apart."""
    return JoinInput(each.stream, each.role)


def _equality(inputs: Sequence[Input], at: tuple[int, int], keys: Sequence[KeyPair]) -> Equality:
    """All equalities between two relations as one key, in a fixed order of sides and parts."""
    sides = [(tuple(key.left for key in keys), at[0]), (tuple(key.right for key in keys), at[1])]
    sides.sort(key=lambda side: inputs[side[1]])
    order = sorted(range(len(keys)), key=lambda n: (identity(sides[0][0][n]), identity(sides[1][0][n])))
    exact = is_exact(tuple(key.type for key in keys))
    (first, first_at), (second, second_at) = sides
    return Equality(
        inputs[first_at], Index(tuple(first[n] for n in order), exact),
        inputs[second_at], Index(tuple(second[n] for n in order), exact),
    )  # fmt: skip


def over_inputs(condition: Condition, inputs: Sequence[Input]) -> Expression:
    """A condition with columns named by input, not by their relation in the query."""

    def name(column: str) -> str:
        relation, _, rest = column.partition(".")
        return inputs[int(relation)].column(rest)

    return rename_columns(condition.expression, name)


def _comparison(condition: Condition, inputs: Sequence[Input]) -> Comparison:
    """With its inputs in their fixed order, so that a < b and b > a are one."""
    first, second = (inputs[at] for at in condition.relations)
    expression = over_inputs(condition, inputs)
    if second < first:
        first, second = second, first
        if isinstance(expression, Call) and expression.name in _FLIPPED:
            flipped = Call(_FLIPPED[expression.name], tuple(reversed(expression.args)), expression.type)
            if Comparison((first, second), flipped).sides() is not None:
                expression = flipped
    return Comparison((first, second), expression)


def _links(query: BoundQuery, inputs: Sequence[Input], found: Sequence[JoinCondition]) -> list[JoinCondition]:
    parent = list(range(len(inputs)))

    def find(at: int) -> int:
        while parent[at] != at:
            at = parent[at]
        return at

    number = {each: at for at, each in enumerate(inputs)}
    for each in found:
        first, second = _ends(each)
        parent[find(number[first])] = find(number[second])
    links: list[JoinCondition] = []
    for condition in query.conditions:
        for one, other in zip(condition.relations, condition.relations[1:], strict=False):
            if find(one) != find(other):
                parent[find(one)] = find(other)
                links.append(Comparison(tuple(sorted((inputs[one], inputs[other]))), TRUE))
    return links


def _ends(condition: JoinCondition) -> tuple[Input, Input]:
    if isinstance(condition, Equality):
        return condition.left, condition.right
    return condition.inputs[0], condition.inputs[1]


def _predicate(condition: JoinCondition) -> Predicate:
    """What stands for a condition in a join graph; its text tells conditions apart."""
    first, second = (join_input(each) for each in _ends(condition))
    if isinstance(condition, Equality):
        left, right = key_text(condition.left_index.key), key_text(condition.right_index.key)
        return compare(Attribute(first, left), Attribute(second, right), EQUAL)
    return compare(Attribute(first, condition.text), Attribute(second, condition.text), comparison_of(condition))


def comparison_of(condition: Comparison) -> str:
    """Its operator if it compares a value of its first input with one of its second, else `<>`: rules out little."""
    sides = condition.sides()
    return "<>" if sides is None else sides[0]

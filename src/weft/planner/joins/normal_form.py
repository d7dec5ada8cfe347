"""The common form of queries that join many relations, or join by conditions other than equalities.

Combinations are joined by conditions between two relations, and queries share equal conditions. A condition over three
or more relations is not shared: it is a filter on the complete combinations of its query.
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
from weft.planner.disjoint_sets import disjoint_sets
from weft.planner.joins.graph import EQUAL, Attribute, JoinInput, JoinQuery, Predicate, predicate_of

_FLIPPED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "ne": "ne"}


@dataclass(frozen=True, slots=True)
class ProbedQuery:
    """A query as optimizers and probe trees see it. `conditions` are keyed by the text of their graph predicates."""

    live: LiveQuery
    join: JoinQuery
    conditions: dict[str, JoinCondition]
    filter: Filter | None
    spans: tuple[Span, ...]


def normal_forms(queries: Iterable[LiveQuery]) -> tuple[ProbedQuery, ...]:
    """Return the common forms of all queries that probe trees serve."""
    return tuple(to_probed(live) for live in queries if isinstance(live.strategy, ProbeJoin | ProbeAggregate))


def to_probed(live: LiveQuery) -> ProbedQuery:
    """Return the common form of a live query."""
    query = live.query
    inputs = inputs_of(query)
    conditions = {_predicate(condition).text: condition for condition in conditions_of(query)}
    wide = [over_inputs(condition, inputs) for condition in query.conditions if len(condition.relations) > 2]
    expression = wide[0] if len(wide) == 1 else Call("and", tuple(wide), BOOLEAN)
    return ProbedQuery(
        live,
        JoinQuery(
            live.record.id,
            tuple(sorted((join_input(input_) for input_ in inputs), key=lambda relation: relation.text)),
            tuple(_predicate(condition) for _, condition in sorted(conditions.items())),
        ),
        conditions,
        Filter(live.slot, expression) if wide else None,
        tuple(Span(live.slot, inputs[first], inputs[second], bounds) for first, second, bounds in query.limits()),
    )


def source_of(query: BoundQuery) -> str:
    """Return the id of the query's combinations in the result log."""
    return combination_id(inputs_of(query), tuple(condition.text for condition in conditions_of(query)))


def conditions_of(query: BoundQuery) -> tuple[JoinCondition, ...]:
    """Return all conditions between two relations; TRUE connects relations that only wider conditions connect."""
    inputs = inputs_of(query)
    pairs: dict[tuple[int, int], list[KeyPair]] = {}
    for pair in query.keys:
        pairs.setdefault((pair.left_relation, pair.right_relation), []).append(pair)
    conditions: list[JoinCondition] = [_equality(inputs, relations, keys) for relations, keys in pairs.items()]
    conditions += [_comparison(condition, inputs) for condition in query.conditions if len(condition.relations) == 2]
    conditions += _links(query, inputs, conditions)
    return tuple({condition.text: condition for condition in conditions}.values())


def indexes_of(query: BoundQuery, relation: int) -> dict[str, Index]:
    """Return every index by which a relation may be probed, by key text; stores keep all of them under any plan."""
    own_input = inputs_of(query)[relation]
    indexes = {}
    for condition in conditions_of(query):
        if isinstance(condition, Equality):
            for side, index in ((condition.left, condition.left_index), (condition.right, condition.right_index)):
                if side == own_input:
                    indexes[key_text(index.key)] = index
    return indexes


def condition_columns(query: BoundQuery, relation: int) -> frozenset[str]:
    """Return the columns of a relation that the query's conditions read, not counting its keys."""
    names = frozenset[str]().union(*(columns_of(condition.expression) for condition in query.conditions))
    return frozenset(name.partition(".")[2] for name in names if name.partition(".")[0] == str(relation))


def join_input(each: Input) -> JoinInput:
    """Return the optimizers' form of an input, without a window because window tables tell queries apart."""
    return JoinInput(each.stream, each.role)


def _equality(inputs: Sequence[Input], relations: tuple[int, int], keys: Sequence[KeyPair]) -> Equality:
    """Merge all equalities between two relations into one, with sides and key parts in a fixed order."""
    sides = [(tuple(key.left for key in keys), relations[0]), (tuple(key.right for key in keys), relations[1])]
    sides.sort(key=lambda side: inputs[side[1]])
    order = sorted(range(len(keys)), key=lambda n: (identity(sides[0][0][n]), identity(sides[1][0][n])))
    exact = is_exact(tuple(key.type for key in keys))
    (first, first_relation), (second, second_relation) = sides
    return Equality(
        inputs[first_relation], Index(tuple(first[n] for n in order), exact),
        inputs[second_relation], Index(tuple(second[n] for n in order), exact),
    )  # fmt: skip


def over_inputs(condition: Condition, inputs: Sequence[Input]) -> Expression:
    """Return the condition's expression with columns named by input, not by the relation's number in the query."""

    def name(column: str) -> str:
        relation, _, column_name = column.partition(".")
        return inputs[int(relation)].column(column_name)

    return rename_columns(condition.expression, name)


def _comparison(condition: Condition, inputs: Sequence[Input]) -> Comparison:
    """Return the comparison with its inputs in their fixed order, so that a < b and b > a are equal."""
    first, second = (inputs[relation] for relation in condition.relations)
    expression = over_inputs(condition, inputs)
    if second < first:
        first, second = second, first
        if isinstance(expression, Call) and expression.name in _FLIPPED:
            flipped = Call(_FLIPPED[expression.name], tuple(reversed(expression.args)), expression.type)
            if Comparison((first, second), flipped).sides() is not None:
                expression = flipped
    return Comparison((first, second), expression)


def _links(query: BoundQuery, inputs: Sequence[Input], conditions: Sequence[JoinCondition]) -> list[JoinCondition]:
    """Return TRUE comparisons between relations that wider conditions connect and `conditions` do not."""
    find, join = disjoint_sets(len(inputs))
    number = {input_: relation for relation, input_ in enumerate(inputs)}
    for connecting in conditions:
        first, second = _ends(connecting)
        join(number[first], number[second])
    links: list[JoinCondition] = []
    for condition in query.conditions:
        for earlier, later in zip(condition.relations, condition.relations[1:], strict=False):
            if find(earlier) != find(later):
                join(earlier, later)
                links.append(Comparison(tuple(sorted((inputs[earlier], inputs[later]))), TRUE))
    return links


def _ends(condition: JoinCondition) -> tuple[Input, Input]:
    if isinstance(condition, Equality):
        return condition.left, condition.right
    return condition.inputs[0], condition.inputs[1]


def _predicate(condition: JoinCondition) -> Predicate:
    """Return the predicate that represents a condition in a join graph; different conditions have different texts."""
    first, second = (join_input(end) for end in _ends(condition))
    if isinstance(condition, Equality):
        left, right = key_text(condition.left_index.key), key_text(condition.right_index.key)
        return predicate_of(Attribute(first, left), Attribute(second, right), EQUAL)
    return predicate_of(Attribute(first, condition.text), Attribute(second, condition.text), comparison_of(condition))


def comparison_of(condition: Comparison) -> str:
    """Return the operator if the condition compares its first input with its second, else `<>`, the least selective."""
    sides = condition.sides()
    return "<>" if sides is None else sides[0]

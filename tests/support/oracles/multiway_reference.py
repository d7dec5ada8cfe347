"""The contract for joins of several relations read a second time: nested loops, condition by condition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache

from tests.support.generators.columns import relations_in, with_columns
from tests.support.oracles.evaluate import Tuple, holds
from tests.support.oracles.matches import Arrived, Match
from tests.support.oracles.reference import Reference, Running
from tests.support.spec import Predicate, QuerySpec, Range

Combination = tuple[Arrived, ...]
Chosen = Mapping[int, Arrived]


class MultiwayReference(Reference):
    """The reference, also for queries that have conditions over several relations."""

    def _boundary(self) -> None:
        """A new query has kept nothing for any of its relations."""
        created = list(self._created)
        super()._boundary()
        for running in (self._newest[name] for name in created):
            running.kept = tuple([] for _ in range(max(2, len(running.query.relations))))

    def _arrive(self, running: Running, new: Arrived) -> None:
        """Combine a tuple with all before it, in each role it can play and in several at once."""
        query = running.query
        if not query.conditions:
            super()._arrive(running, new)
            return
        roles = [side for side in range(len(query.relations)) if self._wants(running, side, new)]
        for side in roles:
            running.kept[side].append(new)
        if query.session is not None:
            return
        for side in self._first_roles(query, roles):
            pools = _pools(running, side, new)
            for chosen in self._combinations(query, pools, {}, order=_order(query, side)):
                self._emit(running, tuple(chosen[relation] for relation in range(len(pools))))

    def _session_matches(self, running: Running, gap: int) -> list[Match]:
        """All that is in one session, if the conditions hold."""
        found = super()._session_matches(running, gap)
        return [match for match in found if self._all_hold(running.query, dict(enumerate(match.tuples)))]

    def _all_hold(self, query: QuerySpec, chosen: Chosen) -> bool:
        return all(self._holds(condition, chosen) for condition in query.conditions)

    def _first_roles(self, query: QuerySpec, roles: Sequence[int]) -> Sequence[int]:
        """The relations that look for the rest of a combination when a tuple of theirs arrives: all."""
        del query
        return roles

    def _combinations(
        self, query: QuerySpec, pools: Sequence[Sequence[Arrived]], chosen: Chosen, *, order: Sequence[int]
    ) -> Iterator[Chosen]:
        """One tuple of each pool, relation by relation in this order, such that the conditions hold."""
        if len(chosen) == len(order):
            yield chosen
            return
        relation = order[len(chosen)]
        for arrived in pools[relation]:
            longer = {**chosen, relation: arrived}
            conditions = self._completed(query, frozenset(longer), relation)
            if all(self._holds(condition, longer) for condition in conditions):
                yield from self._combinations(query, pools, longer, order=order)

    def _completed(self, query: QuerySpec, chosen: frozenset[int], newest: int) -> Sequence[Predicate]:
        return completed(query, chosen, newest)

    def _holds(self, condition: Predicate, chosen: Chosen) -> bool:
        return holds(over_combinations(condition), combined_row(chosen)) is True

    def _emit(self, running: Running, pair: Combination) -> None:
        """As the base does, which looks at times only if there are two."""
        if len(pair) <= 2 or self._close(running.query, pair):
            super()._emit(running, pair)

    def _close(self, query: QuerySpec, pair: Combination) -> bool:
        if not query.conditions:
            return super()._close(query, pair)
        latest = max(arrived.time for arrived in pair)
        return all(
            not isinstance(relation.window, Range) or arrived.time > latest - relation.window.size
            for arrived, relation in zip(pair, query.relations, strict=True)
        )


def _pools(running: Running, side: int, new: Arrived) -> list[Sequence[Arrived]]:
    """Candidates for each relation if `side` is the first that takes the new tuple."""
    pools: list[Sequence[Arrived]] = []
    for relation, kept in enumerate(running.kept):
        if relation < side:
            pools.append([arrived for arrived in kept if arrived is not new])
        else:
            pools.append(kept if relation > side else [new])
    return pools


@cache
def _order(query: QuerySpec, side: int) -> tuple[int, ...]:
    """All relations from `side` on, each time one that completes most conditions: else loops would be too long."""
    order = [side]
    while rest := [relation for relation in range(len(query.relations)) if relation not in order]:
        order.append(max(rest, key=lambda new: len(completed(query, frozenset((*order, new)), new))))
    return tuple(order)


@cache
def completed(query: QuerySpec, chosen: frozenset[int], newest: int) -> tuple[Predicate, ...]:
    """The conditions that can be judged only since the newest relation was chosen."""
    return tuple(each for each in query.conditions if newest in relations_in(each) and relations_in(each) <= chosen)


def combined_row(chosen: Chosen) -> Tuple:
    """All values of a combination, named `<relation>.<column>`."""
    return {f"{side}.{name}": value for side, arrived in chosen.items() for name, value in arrived.values.items()}


@cache
def over_combinations(condition: Predicate) -> Predicate:
    """The condition over one wide row."""
    return with_columns(condition, lambda column: replace(column, relation=0, name=f"{column.relation}.{column.name}"))

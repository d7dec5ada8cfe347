"""Who is live: names, ids, slots, and requests that are taken up whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from tests.support.engine_sample import JOIN, STREAMS, new_roster
from weft.engine.queries.requests import Request
from weft.engine.queries.roster import Roster
from weft.errors import DuplicateQuery, UnknownQuery
from weft.plan.changelog import Change, Failure, QueryId
from weft.plan.query import BoundQuery
from weft.sql import bind

SELECTION = bind("SELECT x FROM a", STREAMS)
BOUND_JOIN = bind(JOIN, STREAMS)


def new(*names: str | None) -> list[tuple[str | None, BoundQuery]]:
    return [(name, SELECTION) for name in names]


def apply(roster: Roster, batch: int = 0) -> Change:
    change = roster.change(batch, {})
    roster.fold(change)
    roster.acknowledge(roster.ready())
    return change


def create(roster: Roster, *names: str | None) -> list[QueryId]:
    request = roster.request(new(*names), [])
    apply(roster)
    return [query for query, _, _ in request.created]


def state(roster: Roster) -> tuple[object, ...]:
    return dict(roster.records), set(roster.live), dict(roster.names), len(roster.pending)


# ---- names and ids


def test_a_query_without_a_name_is_called_by_its_id() -> None:
    roster = new_roster()
    assert create(roster, None, "mine", None) == ["q1", "q2", "q3"]
    assert roster.names == {"q1": "q1", "mine": "q2", "q3": "q3"}


@pytest.mark.parametrize("names", [(None, "q1"), ("q1", None), ("q2", None, None), (None, "q2", "q1")])
def test_generated_names_keep_out_of_the_way_of_given_ones(names: Sequence[str | None]) -> None:
    roster = new_roster()
    created = create(roster, *names)
    assert len(roster.names) == len(roster.live) == len(names)
    assert [roster.name_of(query) for query, name in zip(created, names, strict=True) if name] == [
        n for n in names if n
    ]


def test_generated_ids_keep_out_of_the_way_of_names_in_use() -> None:
    roster = new_roster()
    create(roster, "q2", "q3")
    assert create(roster, None)[0] not in ("q2", "q3")
    assert len(roster.names) == 3


@pytest.mark.parametrize("names", [("a", "a"), ("taken", "b"), ("waiting",), ("b", "waiting")])
def test_a_name_in_use_is_refused_and_nothing_of_the_request_happens(names: Sequence[str]) -> None:
    roster = new_roster()
    create(roster, "taken")
    roster.request(new("waiting"), [])
    before = state(roster)
    with pytest.raises(DuplicateQuery, match="exists already"):
        roster.request(new(*names), [])
    assert state(roster) == before


def test_a_name_can_be_given_again_in_the_request_that_drops_it() -> None:
    roster = new_roster()
    (old,) = create(roster, "name")
    request = roster.request(new("name"), [old])
    assert roster.names["name"] == request.created[0][0] != old
    apply(roster, 1)
    assert roster.find("name") == request.created[0][0]
    assert roster.records[old].ended == 1


def test_find_gives_the_live_one_else_the_latest() -> None:
    roster = new_roster()
    (first,) = create(roster, "n")
    roster.request([], [first])
    apply(roster)
    (second,) = create(roster, "n")
    roster.request([], [second])
    apply(roster)
    assert roster.find("n") == second
    (third,) = create(roster, "n")
    assert roster.find("n") == third
    assert roster.find("other") is None


def test_a_query_whose_drop_waits_for_the_boundary_is_found_by_its_name() -> None:
    """The crash test with seed 32035: `engine.query(name)` said that a live query did not exist."""
    roster = new_roster()
    (query,) = create(roster, "n")
    roster.request([], [query])
    assert roster.find("n") == query
    (waiting,) = (created for created, _, _ in roster.request(new("n"), []).created)
    assert roster.find("n") == waiting


# ---- drops


def test_what_is_not_live_cannot_be_dropped_and_nothing_happens() -> None:
    roster = new_roster()
    (query,) = create(roster, "n")
    before = state(roster)
    with pytest.raises(UnknownQuery, match='"q99" is not live'):
        roster.request(new("m"), [query, QueryId("q99")])
    assert state(roster) == before
    roster.request([], [query])
    apply(roster)
    with pytest.raises(UnknownQuery):
        roster.request([], [query])


def test_a_drop_may_be_asked_for_again_while_it_waits() -> None:
    roster = new_roster()
    (query,) = create(roster, "n")
    first = roster.request([], [query, query])
    roster.request(new("n"), [])
    second = roster.request([], [query])
    change = apply(roster, 1)
    assert change.dropped == (query,)
    assert first.done.is_set()
    assert second.done.is_set()
    assert roster.find("n") in roster.live


def test_a_pending_query_that_is_dropped_never_comes_to_life() -> None:
    roster = new_roster()
    request = roster.request(new("n"), [])
    query = request.created[0][0]
    assert roster.is_pending(query)
    roster.request([], [query])
    assert not roster.is_pending(query)
    assert create(roster, "n") != [query]
    assert query not in roster.records
    assert request.done.is_set()


def test_a_request_can_be_cancelled_as_if_it_had_not_been() -> None:
    roster = new_roster()
    (query,) = create(roster, "n")
    before = state(roster)
    roster.cancel(roster.request(new("m", "n", None), [query]))
    assert state(roster) == before
    create(roster, "m")


# ---- slots


def test_slots_of_dropped_queries_are_reused_at_once_the_lowest_first() -> None:
    roster = new_roster()
    queries = create(roster, *"abcde")
    roster.request(new("f", "g", "h"), [queries[3], queries[1]])
    change = apply(roster, 1)
    assert [record.slot for record in change.created] == [1, 3, 5]


def test_a_fold_says_which_slots_changed_their_meaning() -> None:
    roster = new_roster()
    queries = create(roster, *"abc")
    roster.request(new("d"), [queries[1], queries[2]])
    assert roster.fold(roster.change(1, {})) == 0b110
    assert roster.end(queries[1], 2, "again") == 0
    assert roster.end(queries[0], 2, "boom") == 0b001
    assert (roster.records[queries[0]].error, roster.records[queries[0]].ended) == ("boom", 2)
    assert "a" not in roster.names


def test_routes_follow_the_queries_that_stay() -> None:
    roster = new_roster()
    both = bind(JOIN + " AND p.j = q.j", STREAMS)
    (single,) = (query for query, _, _ in roster.request([("single", BOUND_JOIN)], []).created)
    roster.request([("first", both)], [])
    assert [len(record.route) for record in apply(roster).created] == [1, 1]
    roster.request([("second", both)], [single, roster.names["first"]])
    assert [len(record.route) for record in apply(roster, 1).created] == [2]


def test_a_query_starts_after_what_its_streams_have_seen() -> None:
    roster = new_roster()
    roster.request(new("n"), [])
    assert roster.change(7, {"a": 41, "b": 99}).created[0].start == 42
    assert roster.change(7, {"b": 99}).created[0].start is None


def test_a_query_that_failed_when_it_was_read_ends_before_that_batch() -> None:
    roster = new_roster()
    first, second = create(roster, "n", "m")
    assert roster.request_end(Failure(first, 3, "by zero")) is not None
    assert roster.request_end(Failure(first, 4, "again")) is None, "it is about to end"
    change = apply(roster, 5)
    assert (roster.records[first].ended, roster.records[first].error) == (3, "by zero")
    assert change.failed == (Failure(first, 3, "by zero"),)
    assert set(roster.live) == {second}
    roster.request([], [second])
    assert roster.request_end(Failure(second, 6, "too late")) is None, "it was dropped before"


def test_latency_runs_from_the_request_to_its_effect() -> None:
    roster = new_roster()
    ((first, _, _),) = roster.request(new("n"), []).created
    assert first not in roster.latencies
    apply(roster)
    ((second, _, _),) = roster.request(new("m"), []).created
    apply(roster)
    assert set(roster.latencies) == {first, second}
    assert min(roster.latencies.values()) >= 0
    assert roster.pending == []


class Requests(RuleBasedStateMachine):
    """Any sequence of requests and boundaries, against a few sets."""

    queries = Bundle("queries")

    def __init__(self) -> None:
        super().__init__()
        self.roster = new_roster()
        self.batch = 0
        self.wanted: dict[str, QueryId] = {}
        self.waiting: list[Request] = []

    @rule(target=queries, name=st.sampled_from(["a", "b", "q1", "q3", None]))
    def ask(self, name: str | None) -> QueryId | None:
        try:
            request = self.roster.request(new(name), [])
        except DuplicateQuery:
            assert name in self.wanted
            return None
        query, given, _ = request.created[0]
        assert given not in self.wanted
        self.wanted[given] = query
        self.waiting.append(request)
        return query

    @rule(query=consumes(queries))
    def drop(self, query: QueryId | None) -> None:
        if query is None:
            return
        self.waiting.append(self.roster.request([], [query]))
        self.wanted = {name: each for name, each in self.wanted.items() if each != query}

    @rule()
    def boundary(self) -> None:
        apply(self.roster, self.batch)
        self.batch += 1
        assert set(self.roster.live) == set(self.wanted.values())
        assert all(request.done.is_set() for request in self.waiting)
        self.waiting = []

    @rule()
    def restart(self) -> None:
        self.boundary()
        again = Roster(STREAMS, self.roster.ended)
        again.load(json.loads(json.dumps(self.roster.to_json())))
        assert (again.records, again.names) == (self.roster.records, self.roster.names)
        assert again.live == self.roster.live
        self.roster = again

    @invariant()
    def names_are_those_wanted_and_slots_are_one_each(self) -> None:
        assert self.roster.names == self.wanted
        slots = [each.slot for each in self.roster.live.values()]
        assert len(set(slots)) == len(slots)
        assert not any(request.done.is_set() for request in self.waiting)


TestRequests = Requests.TestCase
TestRequests.settings = settings(max_examples=30, stateful_step_count=25, deadline=None)

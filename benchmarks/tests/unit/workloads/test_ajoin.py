from __future__ import annotations

from dataclasses import replace

import pytest

from weft_bench.workloads.ajoin import ATTRIBUTES, Chain, Source, ajoin, chains, mean_similarity, similarity
from weft_bench.workloads.predicates import Comparison, Predicate

ANY = Predicate(0, Comparison.ABOVE, 1)


def chain(*sources: tuple[int, int | None, int | None]) -> Chain:
    return Chain(tuple(Source(*each, ANY) for each in sources), 1)


PATTERN = chain((0, None, 0), (1, 1, None))


def test_the_example_of_the_paper() -> None:
    query = chain((0, None, 0), (1, 0, None))
    assert similarity(query, PATTERN) == 2 * 1 / 2**2


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (PATTERN, 1.0),
        (chain((0, None, 3), (1, 4, None)), 0.0),
        (chain((0, None, 0), (2, 1, None)), 0.25),
        (chain((2, None, 0), (3, 1, None)), 0.0),
    ],
)
def test_similarity(query: Chain, expected: float) -> None:
    assert similarity(query, PATTERN) == expected


@pytest.mark.parametrize("ways", [2, 3, 5])
@pytest.mark.parametrize("wanted", [0.0, 0.1, 0.25, 0.5, 0.75, 1.0])
def test_queries_are_as_similar_as_asked(ways: int, wanted: float) -> None:
    found = chains(ways=ways, similarity=wanted)
    queries = [found.chain(number) for number in range(400)]
    assert mean_similarity(queries, found.pattern()) == pytest.approx(wanted, abs=0.05)
    assert all(len({each.stream for each in query.sources}) == ways for query in queries)
    assert max(each.stream for query in queries for each in query.sources) < ways + found.spare()


def test_selections_and_windows_are_free_unless_they_overlap() -> None:
    free, tied = chains(overlap=0.0), chains(overlap=1.0)
    assert len({free.chain(number).seconds for number in range(40)}) == 3
    assert {tied.chain(number).seconds for number in range(40)} == {tied.pattern().seconds}
    selections = {each.selection for number in range(1, 40) for each in tied.chain(number).sources}
    assert selections == {each.selection for each in tied.pattern().sources}


def test_an_observed_query_contradicts_itself_nowhere() -> None:
    for seed in range(30):
        first = chains(ways=3, seed=seed).chain(0)
        assert all(each.selection.attribute not in each.attributes for each in first.sources)
        assert all(0.2 <= each.selection.selectivity() <= 0.8 for each in first.sources)


def test_join_attributes_are_any() -> None:
    found = chains(ways=3, similarity=0.0)
    used = {each.after for number in range(60) for each in found.chain(number).sources}
    assert used == {None, *range(ATTRIBUTES)}


def test_streams_that_no_query_needs_are_left_out() -> None:
    assert len(ajoin(similarity=1.0).streams) == 2
    assert len(ajoin(similarity=0.25).streams) == 3


def test_a_chain_as_it_is_asked() -> None:
    query = replace(chain((0, None, 2), (1, 3, 4), (2, 5, None)), seconds=3)
    shape = query.shape()
    assert shape.conditions[:2] == ("s1.f2 = s2.f3", "s2.f4 = s3.f5")
    assert shape.seconds == 3


@pytest.mark.parametrize(
    ("parameters", "message"),
    [({"similarity": 1.2}, "similarity lies"), ({"overlap": -1}, "overlap lies"), ({"ways": 1}, "two streams")],
)
def test_parameters_that_are_none_are_refused(parameters: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ajoin(**parameters)  # type: ignore[arg-type]

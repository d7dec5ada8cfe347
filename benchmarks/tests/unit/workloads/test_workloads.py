from __future__ import annotations

import numpy as np
import pytest

from benchmarks.tests.unit.workloads.small import in_duckdb, rows_of
from weft_bench.workloads.aggregation import WindowAggregates, aggregation, draw_slide
from weft_bench.workloads.astream import STREAMS, astream
from weft_bench.workloads.joins import KEYS, RATE, WindowJoins, sc1, skew, windows
from weft_bench.workloads.model import Dialect
from weft_bench.workloads.predicates import EVERY, Comparison, Predicate, draw_predicate
from weft_bench.workloads.purchases import purchases, purchases_aggregation
from weft_bench.workloads.rules import SPAN, rules
from weft_bench.workloads.shapes import Sliding
from weft_bench.workloads.tpch import DEFAULT, TEMPLATES, tpch
from weft_bench.workloads.tpch_rows import COLUMNS, tables

SCALE = 0.001


@pytest.mark.parametrize(
    ("comparison", "value", "part"),
    [
        (Comparison.EQUAL, 3, 0.1),
        (Comparison.ABOVE, 3, 0.6),
        (Comparison.FROM, 3, 0.7),
        (Comparison.BELOW, 3, 0.3),
        (Comparison.UP_TO, 3, 0.4),
    ],
)
def test_selectivity(comparison: Comparison, value: int, part: float) -> None:
    assert Predicate(1, comparison, value).selectivity(10) == part
    assert Predicate(1, comparison, value).sql("a") == f"a.f1 {comparison} {value}"


def test_observed_predicates_pass_some_rows_and_not_all() -> None:
    rng = np.random.default_rng(5)
    drawn = [draw_predicate(rng, EVERY, observed=True) for _ in range(200)]
    assert all(0.2 <= each.selectivity() <= 0.8 for each in drawn)
    free = [draw_predicate(rng, EVERY) for _ in range(200)]
    assert {each.comparison for each in free} == set(Comparison)


def test_sc1_is_drawn_as_before() -> None:
    found = sc1()
    assert (found.rows_per_second, [each.name for each in found.streams]) == (2 * RATE, ["A", "B"])
    draw = WindowJoins(seed=7, shortest=1, longest=3, observed=1)
    shapes = [draw(number) for number in range(300)]
    assert {each.seconds for each in shapes} == {1, 2, 3}
    assert {each.conditions[0] for each in shapes} == {"a.k = b.k"}
    assert {each.conditions[1][2:4] for each in shapes} == {f"f{number}" for number in range(5)}


def test_large_windows_leave_a_row_as_many_partners() -> None:
    found = windows(seconds=60)
    made = found.streams[0].make(np.random.default_rng(1), np.arange(1000))
    assert made["k"].to_numpy().max() > 10 * KEYS
    assert all("[RANGE 60 SECONDS]" in each.texts[Dialect.WEFT] for each in found.queries(5))


@pytest.mark.parametrize("text", ["zipf:0.8", "one:0.01", "uniform"])
def test_skewed_rows_meet_as_many_partners_on_average(text: str) -> None:
    found = skew(skew=text, keys=1000)
    density = found.rows_per_second / 2
    keys = [each.make(np.random.default_rng(1), np.arange(50_000))["k"].to_numpy() for each in found.streams]
    left, right = (np.bincount(each, minlength=1000) / len(each) for each in keys)
    assert density * float(np.sum(left * right)) == pytest.approx(RATE / KEYS, rel=0.1)


def test_aggregates_slide_within_their_windows() -> None:
    draw = WindowAggregates(seed=7, shortest=1, longest=10, even=False, observed=1)
    shapes = [draw(number) for number in range(300)]
    assert {each.window.seconds for each in shapes if isinstance(each.window, Sliding)} == set(range(1, 11))
    assert [each.observed for each in shapes[:3]] == [True, False, False]
    assert {len(each.aggregates) for each in shapes} == {2, 3}


def test_even_slides_go_into_the_window() -> None:
    rng = np.random.default_rng(5)
    assert {draw_slide(rng, 6, even=True) for _ in range(100)} == {1, 2, 3, 6}
    assert {draw_slide(rng, 6, even=False) for _ in range(100)} == {1, 2, 3, 4, 5, 6}
    assert not any("HOP_START" in each.texts[Dialect.FLINK] for each in aggregation(even=True).queries(50))


def test_only_observed_aggregates_show_how_new_they_are() -> None:
    queries = aggregation(observed=2).queries(4)
    assert [each.newest for each in queries] == [("newest",), ("newest",), (), ()]
    assert ["newest" in each.texts[Dialect.SPARK] for each in queries] == [True, True, False, False]


def test_purchases_meet_few_ads() -> None:
    found = purchases(users=50, packs=20)
    assert found.rows_per_second == 2 * round(0.08 * 50 * 20 / 8)
    many = purchases(users=50, packs=20, skew="one:0.5")
    assert many.rows_per_second < found.rows_per_second


def test_a_single_gem_pack_passes_every_query() -> None:
    found = purchases_aggregation(packs=20, rate=50, skew="one", seconds=4, slide=2)
    results = in_duckdb(found.queries(6), rows_of(found, 12))
    assert all(len(rows) == 5 for rows in results.values())


def test_large_windows_of_purchases() -> None:
    assert "[TUMBLE 60 SECONDS]" in purchases(seconds=60, slide=60).queries(1)[0].texts[Dialect.WEFT]


@pytest.mark.parametrize(("kind", "count"), [("join", 2), ("aggregation", 1), ("complex", 4), ("mixed", 4)])
def test_astream_has_the_streams_its_template_needs(kind: str, count: int) -> None:
    found = astream(kind=kind, ways=4)
    assert [each.name for each in found.streams] == list(STREAMS[:count])
    everything = " ".join(each.texts[Dialect.WEFT] for each in found.queries(30))
    assert all(f"FROM {name} [" in everything or f"JOIN {name} [" in everything for name in STREAMS[:count])


def test_astream_draws_all_comparisons_and_keys_in_turn() -> None:
    found = astream()
    everything = " ".join(each.texts[Dialect.WEFT] for each in found.queries(60))
    assert all(f" {comparison} " in everything for comparison in Comparison)
    made = found.streams[0].make(np.random.default_rng(1), np.arange(998, 1003))
    assert made["k"].to_pylist() == [998, 999, 0, 1, 2]


def test_astream_refuses_what_it_has_no_streams_for() -> None:
    with pytest.raises(ValueError, match="joins 2 to 6 streams, not 7"):
        astream(kind="complex", ways=7)
    with pytest.raises(ValueError, match="nothing"):
        astream(kind="nothing")


@pytest.mark.parametrize("selectivity", [0.001, 0.01, 0.3])
def test_rules_pass_as_much_as_asked(selectivity: float) -> None:
    found = rules(selectivity=selectivity, rate=8_000, counted=0.0)
    table = rows_of(found, 1)
    passed = [rows.total() / 8_000 for rows in in_duckdb(found.queries(20), table).values()]
    assert np.mean(passed) == pytest.approx(selectivity, rel=0.2, abs=1 / SPAN)
    assert min(passed) > 0


@pytest.mark.parametrize("counted", [0.0, 0.25, 0.5, 1.0])
def test_part_of_the_rules_count(counted: float) -> None:
    draw = rules(counted=counted).queries(40)
    assert sum("GROUP BY" in each.texts[Dialect.WEFT] for each in draw) == 40 * counted


def test_rules_refuse_parts_that_are_none() -> None:
    with pytest.raises(ValueError, match="selectivity lies between 0 and 1, unlike 3"):
        rules(selectivity=3)


def test_tpch_rows_come_again() -> None:
    found = tpch(scale=SCALE)
    assert [each.name for each in found.streams] == list(COLUMNS)
    supplier = found.streams[0]
    rows = tables(SCALE)["supplier"].num_rows
    once, again = (supplier.make(np.random.default_rng(1), np.arange(5) + at) for at in (0, rows))
    assert once["s_suppkey"].equals(again["s_suppkey"])
    assert supplier.share * sum(each.num_rows for each in tables(SCALE).values()) == pytest.approx(rows)


def test_tpch_columns_are_of_the_model() -> None:
    dates = tables(SCALE)["orders"]["o_orderdate"].to_pylist()
    assert 19920101 <= min(dates) <= max(dates) <= 19981231
    nations = dict(
        zip(*(tables(SCALE)["supplier"][name].to_pylist() for name in ("s_nationkey", "s_nation")), strict=True)
    )
    assert all(nations[key] == name for key, name in {6: "FRANCE", 7: "GERMANY"}.items() if key in nations)


def test_tpch_templates() -> None:
    assert DEFAULT == ("q3", "q10", "q5", "q2", "q7", "q9", "q8")
    assert [each.name for each in tpch(scale=SCALE, templates="clash1").queries(2)] == ["clash1_0", "clash1_1"]
    assert len({each.texts[Dialect.WEFT] for each in tpch(scale=SCALE).queries(200)}) > 100
    with pytest.raises(ValueError, match="no template is named q1; there are"):
        tpch(scale=SCALE, templates="q1")
    assert set(DEFAULT) < set(TEMPLATES)


def test_a_quarter_that_ends_in_the_next_year() -> None:
    text = tpch(scale=SCALE, templates="q10").queries(1)[0].texts[Dialect.DUCKDB]
    assert "o.o_orderdate >= 19931001 AND o.o_orderdate < 19940101" in text


def test_complex_queries_aggregate_over_joins() -> None:
    draw = astream(kind="complex", ways=3).queries(20)
    assert all(set(Dialect) == set(each.texts) for each in draw)
    assert draw[0].newest[:2] == ("a_newest", "b_newest")

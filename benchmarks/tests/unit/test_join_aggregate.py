from __future__ import annotations

import json
from io import StringIO
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from weft_bench.case import Kind, Outcome, Variant
from weft_bench.data import Load, second_table
from weft_bench.join_aggregate import (
    KEYS,
    LONGER,
    WANTED_PAIRS,
    Course,
    Report,
    Way,
    course,
    pairs_per_second,
    parse,
    rate_for,
    summarize,
    to_json,
    to_table,
)


def way(rate: float, growth: float = 1.0) -> Way:
    return Way(0.5, rate, 8, Course(1 << 30, 2 << 30, growth), "")


def report(*, fast: float = 4000.0, growth: float = 1.0, equal: bool = True) -> Report:
    return Report(7_072, 1, pairs_per_second(7_072), way(fast, growth), way(200.0), equal)


def test_pairs_of_a_second() -> None:
    assert pairs_per_second(50_000) == 5_000_000
    assert rate_for(WANTED_PAIRS) == 7_072


@given(st.integers(1, 10**9), st.integers(1, 10**4))
def test_the_rate_is_the_lowest_that_has_so_many_pairs(pairs: int, keys: int) -> None:
    rate = rate_for(pairs, keys)
    assert pairs_per_second(rate, keys) >= pairs * (1 - 1e-12)
    assert pairs_per_second(rate - 1, keys) < pairs


def test_generated_streams_have_about_so_many_pairs() -> None:
    load = Load(rate_for(WANTED_PAIRS), KEYS)
    sides = [second_table(load, stream, 0)["k"].value_counts() for stream in range(2)]
    counts = [{entry["values"].as_py(): entry["counts"].as_py() for entry in side} for side in sides]
    pairs = sum(count * counts[1].get(key, 0) for key, count in counts[0].items())
    assert pairs == pytest.approx(WANTED_PAIRS, rel=0.02)


def test_memory_of_the_measured_time() -> None:
    samples = [(0.0, 900), *((1.0 + at, 100 + 10 * at) for at in range(9)), (20.0, 999)]
    outcome = Outcome(1.0, span=(1.0, 10.0)).with_memory(rss=0, pss=999, samples=samples)
    assert course(outcome) == Course(100, 180, 170 / 110)


def test_memory_of_a_short_time_is_that_of_all_of_it() -> None:
    outcome = Outcome(1.0, span=(1.0, 1.1)).with_memory(rss=0, pss=7, samples=[(0.0, 5), (2.0, 7)])
    assert course(outcome) == Course(5, 7, 7 / 5)
    assert course(Outcome()) == Course(0, 0, 1.0)


def test_rounds_are_medians_and_the_worst_growth() -> None:
    outcomes = [
        Outcome(rate, 1.0 / rate, 5, note="slow" if rate < 2 else "").with_memory(rss=0, pss=0, samples=samples)
        for rate, samples in ((1.0, [(0.0, 5), (1.0, 5)]), (4.0, [(0.0, 5), (1.0, 6)]), (2.0, []))
    ]
    assert summarize(outcomes) == Way(0.5, 2.0, 15, Course(5, 6, 1.2), "slow")


@pytest.mark.parametrize(
    ("found", "met"),
    [
        (report(), [True, True, True, True]),
        (report(fast=3999.0), [True, True, False, True]),
        (report(growth=1.3), [True, True, True, False]),
        (report(equal=False), [False, True, True, True]),
    ],
)
def test_bars(found: Report, met: list[bool]) -> None:
    assert list(found.bars.values()) == met
    value = json.loads(json.dumps(to_json(found)))
    assert list(value["bars"].values()) == met
    assert value["ratio"] == found.ratio


def test_nothing_materialized_gives_no_ratio() -> None:
    assert Report(1, 1, 1.0, way(5.0), way(0.0), equal=False).ratio == 0.0


def test_the_table_names_the_fan_out() -> None:
    console = Console(width=160, record=True, file=StringIO())
    console.print(to_table(report()))
    text = console.export_text()
    assert "100,026 pairs per second of input" in text
    assert "1,024" in text


def test_both_ways_have_the_same_load_and_the_faster_one_more_of_it() -> None:
    settings = parse(["--rates", "1000", "2000", "--seconds", "9", "--files", "4", "--json", "x.json"])
    assert settings.rates == (1000, 2000)
    fast, slow = (settings.case(variant, 1000) for variant in (Variant.PLAIN, Variant.MATERIALIZED))
    for case in (fast, slow):
        assert (case.load, case.files, case.kind) == (Load(1000, 500), 4, Kind.FAN_OUT)
    assert (fast.seconds, slow.seconds) == (8 * LONGER, 8)
    assert settings.json == Path("x.json")


def test_every_rate_has_enough_pairs() -> None:
    for settings in (parse([]), parse(["--quick-check"])):
        assert all(pairs_per_second(rate) >= WANTED_PAIRS for rate in settings.rates)
        assert list(settings.rates) == sorted(settings.rates)

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from weft_bench.workloads.rows import InTurn, KeyedRows, OneHot, Uniform, Zipf, draw_keys, keys_of, twins

NUMBERS = np.arange(20_000)


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("uniform", Uniform(9)),
        ("turn", InTurn(9)),
        ("zipf:0.8", Zipf(9, 0.8)),
        ("zipf", Zipf(9, 1)),
        ("one:0.25", OneHot(9, 0.25)),
        ("one", OneHot(9, 1)),
    ],
)
def test_a_distribution_by_its_text(text: str, keys: object) -> None:
    assert keys_of(text, 9) == keys


def test_another_text_is_refused() -> None:
    with pytest.raises(ValueError, match='distributed as "normal"; there are uniform'):
        keys_of("normal", 9)


@pytest.mark.parametrize(
    "keys", [Uniform(50), InTurn(50), Zipf(50, 1.0), Zipf(50, 0.5), OneHot(50, 0.3), OneHot(50, 1)]
)
def test_keys_are_drawn_as_often_as_said(keys: Uniform | InTurn | Zipf | OneHot) -> None:
    drawn = draw_keys(keys, np.random.default_rng(5), NUMBERS)
    assert drawn.dtype == np.int64
    assert 0 <= drawn.min() <= drawn.max() < 50
    shares = np.bincount(drawn, minlength=50) / len(drawn)
    assert float(np.sum(shares**2)) == pytest.approx(twins(keys), rel=0.05)


def test_zipf_follows_its_law() -> None:
    counts = Counter(draw_keys(Zipf(1000, 1.0), np.random.default_rng(5), np.arange(200_000)).tolist())
    assert counts[0] / counts[9] == pytest.approx(10, rel=0.15)


def test_one_key_alone() -> None:
    assert set(draw_keys(OneHot(50, 1), np.random.default_rng(5), NUMBERS)) == {0}


def test_keys_in_turn_follow_the_rows_numbers() -> None:
    assert draw_keys(InTurn(3), np.random.default_rng(5), np.arange(4, 9)).tolist() == [1, 2, 0, 1, 2]


def test_attributes_fill_their_domain() -> None:
    columns = KeyedRows(None, attributes=2, domain=7)(np.random.default_rng(5), NUMBERS)
    assert set(columns) == {"f0", "f1"}
    assert set(columns["f0"].to_pylist()) == set(range(7))
    assert not columns["f0"].equals(columns["f1"])

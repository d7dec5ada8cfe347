from __future__ import annotations

import json

from weft_bench.case import Case, Digest, Kind, Outcome, System, Variant
from weft_bench.data import Load


def test_labels_tell_the_ways_to_run_apart() -> None:
    assert Case(System.WEFT, 1, 5).label == "weft"
    assert Case(System.WEFT, 1, 5, variant=Variant.ROWS).label == "weft row path"
    assert Case(System.SPARK, 1, 5, files=4).label == "spark 4 files"


def test_a_batch_has_the_rows_of_both_streams() -> None:
    assert Case(System.WEFT, 1, 8, files=4, load=Load(rate=10)).batch_rows == 80


def test_aggregates_read_one_stream() -> None:
    case = Case(System.WEFT, 1, 8, files=4, load=Load(rate=10), kind=Kind.AGGREGATES)
    assert (case.kind.streams, case.batch_rows) == (("A",), 40)


def test_a_case_survives_its_way_to_the_child() -> None:
    case = Case(System.SPARK, 20, 5, files=4, variant=Variant.CHECKED, load=Load(10, 3), kind=Kind.FAN_OUT)
    assert Case.from_json(json.loads(json.dumps(case.to_json()))) == case


def test_an_outcome_survives_its_way_back() -> None:
    outcome = Outcome(1.5, 0.2, 3, 1.4, None, {2: Digest(1, 2, 3, -4)}, "a note", span=(1.5, 2.5))
    outcome = outcome.with_memory(rss=7, pss=6, samples=[(1.0, 5), (2.0, 6)])
    assert Outcome.from_json(json.loads(json.dumps(outcome.to_json()))) == outcome


def test_digests_add_up() -> None:
    assert Digest(1, 2, 3, -4).plus(Digest(10, 20, 30, 40)) == Digest(11, 22, 33, 36)

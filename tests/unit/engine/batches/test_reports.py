"""From the tasks' reports to the manifest of a batch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.support.engine_sample import JOIN, STREAMS, live
from weft.engine.batches.reports import gather
from weft.execution.compile import compile_program
from weft.execution.items import BatchReport, ExpressionFailures, ProbeReport, TagReport
from weft.execution.program import Program
from weft.plan.changelog import LiveQuery
from weft.plan.key import StoreId
from weft.plan.probe_tree import NO_PROBES
from weft.plan.slots import Slots
from weft.planner.plan import assemble
from weft.storage.bucket import Bucket, Part
from weft.storage.journal import StreamTotals
from weft.storage.result_files import PartRef, Segment, SegmentPiece

QUERIES = [live(JOIN, 0), live("SELECT x FROM a", 1)]
JOINED, SELECTED = (each.strategy.stores[0] for each in QUERIES)


def program(*queries: LiveQuery) -> Program:
    return compile_program(assemble(queries, STREAMS, NO_PROBES), STREAMS)


def bucket(path: str, store: StoreId) -> Bucket:
    return Bucket(path, store, "a", 3, (Part(0, 9, 1, 5, 5, Slots(1)),), 7)


def tag(stream: str, *buckets: Bucket, **counts: Any) -> TagReport:
    return TagReport(stream, buckets=list(buckets), **counts)


def test_counts_are_summed_up_per_stream() -> None:
    reports: list[BatchReport] = [
        tag("b", rows=1, max_time=-5),
        tag("a", rows=2, late=1, max_time=None, bad_files=("x: torn",)),
        tag("a", rows=3, timeless=2, max_time=7, bad_files=("y: torn",)),
        tag("a", rows=4, max_time=3),
        ProbeReport(pairs=5),
        ProbeReport(pairs=6),
    ]
    manifest = gather(9, reports, program(*QUERIES), QUERIES)
    assert manifest.streams == (
        ("a", StreamTotals(9, 1, 2, 7, ("x: torn", "y: torn"))),
        ("b", StreamTotals(1, 0, 0, -5)),
    )
    assert (manifest.batch, manifest.pairs) == (9, 11)


def test_rows_of_joins_are_state_and_rows_of_selections_are_results() -> None:
    reports = [tag("a", bucket("3/j", JOINED), bucket("3/s", SELECTED)), tag("a", bucket("3/k", JOINED))]
    manifest = gather(3, reports, program(*QUERIES), QUERIES)
    assert [each.path for each in manifest.buckets] == ["3/j", "3/k"]
    assert [each.path for each in manifest.selected] == ["3/s"]


def test_a_bucket_that_came_twice_counts_once() -> None:
    reports = [tag("a", bucket("3/j", JOINED)), tag("a", bucket("3/j", JOINED))]
    assert len(gather(3, reports, program(*QUERIES), QUERIES).buckets) == 1


def test_merges_segments_and_copies_are_gathered() -> None:
    segment = Segment("3/p.pairs.arrow", (SegmentPiece("j", PartRef("3/j", 0), PartRef("2/k", 1), 4),), 8)
    reports = [
        ProbeReport(segment=segment, copied=["3/c1"], merged=[bucket("3/m0", JOINED)]),
        ProbeReport(merged=[bucket("3/m1", JOINED)], merged_away=["1/y", "1/x"], copied=["3/c2"]),
    ]
    manifest = gather(3, reports, program(*QUERIES), QUERIES)
    assert manifest.segments == (segment,)
    assert [each.path for each in manifest.buckets] == ["3/m0", "3/m1"]
    assert (manifest.merged_away, manifest.copied) == (("1/x", "1/y"), ("3/c1", "3/c2"))
    assert manifest.result_files() == {"3/p.pairs.arrow", "3/j", "2/k", "3/c1", "3/c2"}


def test_a_batch_without_work_is_an_empty_manifest() -> None:
    manifest = gather(0, [], program(), [])
    assert (manifest.streams, manifest.buckets, manifest.segments, manifest.failed) == ((), (), (), ())


def test_failures_find_their_queries_by_slot() -> None:
    reports = [tag("a", failures={1: "division by zero"}), tag("b", failures={64: "nobody's"})]
    assert gather(0, reports, program(*QUERIES), QUERIES).failed == (("q1", "division by zero"),)


@pytest.mark.parametrize("failing", [0, 1])
def test_failures_of_spark_find_their_queries_by_text(failing: int) -> None:
    texts = ["upper(s) = 'A'", "lower(s) = 'a'"]
    queries = [live(f"SELECT x FROM a WHERE {text}", slot) for slot, text in enumerate(texts)]
    tagged = program(*queries).streams["a"]
    reports = [ExpressionFailures({("a", tagged.opaque[failing].sql): "spark says no"})]
    assert gather(0, reports, program(*queries), queries).failed == ((f"q{failing}", "spark says no"),)


def test_a_failure_of_an_expression_that_two_share_is_both_theirs() -> None:
    first = live("SELECT x FROM a WHERE upper(s) = 'A'", 0)
    second = replace(first, record=replace(first.record, id="q5", slot=5))
    reports = [ExpressionFailures({("a", program(first).streams["a"].opaque[0].sql): "no"})]
    assert gather(0, reports, program(first, second), [first, second]).failed == (("q0", "no"), ("q5", "no"))


def test_a_failure_on_one_stream_is_no_failure_of_the_same_text_on_another() -> None:
    first = live("SELECT x FROM a WHERE upper(s) = 'A'", 0)
    second = live("SELECT x FROM b WHERE upper(s) = 'A'", 1)
    (text,) = {part.sql for name in "ab" for part in program(first, second).streams[name].opaque}
    reports = [ExpressionFailures({("a", text): "no"})]
    assert gather(0, reports, program(first, second), [first, second]).failed == (("q0", "no"),)

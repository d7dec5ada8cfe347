"""What is on disk: files live as long as a query or a result can reach them, and not longer."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from tests.support.engine_sample import JOIN, STREAMS, data_files, live, open_core, rows, stream
from weft.engine.results.inventory import Inventory
from weft.plan.key import StoreId
from weft.plan.slots import Slots
from weft.storage.bucket import Bucket, Part
from weft.storage.directory import Directory
from weft.storage.journal import Journal, Manifest
from weft.storage.result_files import PartRef, Segment, SegmentPiece

SECOND = 1_000_000
QUERY = live(JOIN)
LIVE = {QUERY.record.id: QUERY}
LEFT = QUERY.strategy.stores[0]


@pytest.fixture
def inventory(tmp_path: Path) -> Inventory:
    return opened(tmp_path)


def opened(path: Path) -> Inventory:
    directory = Directory.open(path)
    return Inventory(directory, Journal(directory))


def bucket(path: str, second: int, *, epoch: int = 0, store: StoreId = LEFT, slots: int = 1) -> Bucket:
    part = Part(0, 9, 1, second * SECOND, second * SECOND, Slots(slots))
    return Bucket(path, store, "a", epoch, (part,), 1)


def manifest(batch: int, *buckets: Bucket, needs: tuple[str, ...] = (), merged_away: tuple[str, ...] = ()) -> Manifest:
    """A batch that made buckets, and results that refer to the files `needs`."""
    pieces = tuple(SegmentPiece("j", PartRef(path, 0), PartRef(path, 0), 1) for path in needs)
    segments = (Segment(path(batch, "p.pairs.arrow"), pieces, 1),) if needs else ()
    return Manifest(batch, 0.0, (), buckets, merged_away, segments, (), (), (), 0)


def put(inventory: Inventory, *manifests: Manifest) -> None:
    """Commit manifests, take them in, and make the files they name."""
    for batch in manifests:
        each = replace(batch, freed=inventory.freed)
        inventory._journal.write_manifest(each)
        for path in {*each.result_files(), *(b.path for b in each.buckets)}:
            file = inventory._journal._directory.path("data", *path.split("/"))
            file.parent.mkdir(exist_ok=True)
            file.touch()
        inventory.folder.remove(inventory.fold(each, Slots(1)))


def there(inventory: Inventory) -> set[str]:
    folder = inventory._journal._directory.path("data")
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def collect(inventory: Inventory, second: int) -> None:
    inventory.collect(LIVE, STREAMS, {"a": second * SECOND, "b": second * SECOND})


def path(batch: int, name: str) -> str:
    return f"{batch:012d}/{name}"


def after_next(inventory: Inventory) -> set[str]:
    """The files there are after one more batch: it says durably what is out of reach, and then that goes."""
    put(inventory, manifest(inventory._log.following))
    return there(inventory)


def test_a_bucket_goes_when_nobody_can_reach_it(inventory: Inventory) -> None:
    put(inventory, manifest(0, bucket(path(0, "x"), 0)), manifest(1, bucket(path(1, "y"), 8, epoch=1)))
    collect(inventory, 9)
    assert set(inventory.buckets) == there(inventory) == {path(0, "x"), path(1, "y")}
    collect(inventory, 10)
    assert set(inventory.buckets) == {path(1, "y")}
    assert set(inventory.masks) == {1}
    assert there(inventory) == {path(0, "x"), path(1, "y")}, "after a crash now it may be found in reach again"
    assert inventory.freed == (path(0, "x"),)
    assert after_next(inventory) == {path(1, "y")}
    assert not inventory._journal._directory.path("data", "0" * 12).exists(), "its folder is empty"
    inventory.collect({}, STREAMS, {})
    assert after_next(inventory) == set()
    assert inventory.freed == ()


def test_results_keep_files_that_the_state_no_longer_needs(inventory: Inventory) -> None:
    x, first, second = path(0, "x"), path(1, "p.pairs.arrow"), path(2, "p.pairs.arrow")
    put(inventory, manifest(0, bucket(x, 0)), manifest(1, needs=(x,)), manifest(2, needs=(x,)))
    collect(inventory, 100)
    assert inventory.buckets == {}
    assert after_next(inventory) == {x, first, second}
    inventory.trim(2)
    assert there(inventory) == {x, second}
    assert [each.batch for each in inventory.results] == [2, 3]
    assert inventory.first_result == 2
    inventory.trim(2)
    assert there(inventory) == {x, second}
    inventory.trim(3)
    assert there(inventory) == {x}, "it is until the batch that said that it is out of reach"
    inventory.trim(4)
    assert there(inventory) == set()
    assert inventory.first_result is None


def test_what_left_the_state_before_its_results_were_given_up_goes_with_them(inventory: Inventory) -> None:
    x = path(0, "x")
    put(inventory, manifest(0, bucket(x, 0)), manifest(1, needs=(x,)), manifest(2))
    inventory.trim(2)
    assert there(inventory) == {x}
    collect(inventory, 100)
    assert after_next(inventory) == set()


def test_files_that_intermediate_results_refer_to_are_kept_with_them(inventory: Inventory) -> None:
    rows, lists = path(0, "x"), path(1, "y")
    made = replace(bucket(lists, 50, epoch=1), refs=(rows,))
    put(inventory, manifest(0, bucket(rows, 0)), manifest(1, made))
    collect(inventory, 30)
    assert set(inventory.buckets) == {lists}
    assert inventory.freed == ()
    assert after_next(inventory) == {rows, lists}
    collect(inventory, 100)
    assert sorted(inventory.freed) == [rows, lists]
    again = Inventory(inventory._journal._directory, inventory._journal)
    again.load(json.loads(json.dumps(inventory.to_json())))
    assert again.freed == inventory.freed
    assert after_next(inventory) == set()


def test_trimming_leaves_what_the_state_still_needs(inventory: Inventory) -> None:
    put(inventory, manifest(0, bucket(path(0, "x"), 0)), manifest(1, needs=(path(0, "x"),)))
    inventory.trim(5)
    assert there(inventory) == {path(0, "x")}


def test_the_log_is_read_from_anywhere(inventory: Inventory) -> None:
    put(inventory, *(manifest(batch) for batch in range(6)))
    inventory.trim(2)
    for first, last, expected in ((0, None, [2, 3, 4, 5]), (3, 5, [3, 4]), (4, 4, []), (6, None, []), (0, 2, [])):
        assert [each.batch for each in inventory.results_of(first, last)] == expected


def test_merged_buckets_go_unless_results_need_them(inventory: Inventory) -> None:
    put(inventory, manifest(0, bucket(path(0, "x"), 0), bucket(path(0, "y"), 1)), manifest(1, needs=(path(0, "y"),)))
    put(inventory, manifest(2, bucket(path(2, "m"), 1, epoch=2), merged_away=(path(0, "x"), path(0, "y"))))
    collect(inventory, 2)
    assert set(inventory.buckets) == {path(2, "m")}
    assert there(inventory) == {path(0, "y"), path(1, "p.pairs.arrow"), path(2, "m")}


def test_a_retain_period_keeps_buckets_without_queries(tmp_path: Path) -> None:
    inventory = opened(tmp_path)
    streams = {"a": stream("a", retain=timedelta(seconds=20))}
    put(inventory, manifest(0, bucket(path(0, "x"), 0)))
    inventory.collect({}, streams, {"a": 20 * SECOND})
    assert there(inventory) == {path(0, "x")}
    inventory.collect({}, streams, {"a": 20 * SECOND + 1})
    assert after_next(inventory) == set()


def test_changed_slots_lose_their_meaning_in_every_epoch(inventory: Inventory) -> None:
    inventory.masks = {0: Slots(0b111), 3: Slots(0b110)}
    inventory.forget_meaning(Slots(0b010))
    assert inventory.masks == {0: 0b101, 3: 0b100}


def test_rubbish_goes_and_nothing_else(inventory: Inventory) -> None:
    put(inventory, manifest(0, bucket(path(0, "x"), 0)), manifest(1, bucket(path(1, "y"), 0), needs=(path(0, "x"),)))
    put(inventory, manifest(2))
    named = there(inventory)
    rubbish = [path(0, "torn"), path(1, "other.arrow"), path(2, "z"), path(3, "never"), path(17, "never.rows.arrow")]
    for name in rubbish:
        file = inventory._journal._directory.path("data", *name.split("/"))
        file.parent.mkdir(exist_ok=True)
        file.touch()
    for each in inventory.results:
        inventory.folder.remove_unnamed(each)
    assert there(inventory) == {*named, *rubbish[3:]}
    inventory.folder.remove_uncommitted(3)
    assert there(inventory) == named
    assert sorted(int(folder.name) for folder in inventory._journal._directory.path("data").iterdir()) == [0, 1]


def test_an_inventory_comes_back_through_json(inventory: Inventory, tmp_path: Path) -> None:
    put(inventory, manifest(0, bucket(path(0, "x"), 0)), manifest(1, bucket(path(1, "y"), 8, epoch=1, slots=1 << 200)))
    inventory.masks[1] = Slots(1 << 200)
    again = Inventory(inventory._journal._directory, inventory._journal)
    again.load(json.loads(json.dumps(inventory.to_json())))
    assert (again.buckets, again.masks) == (inventory.buckets, inventory.masks)


def test_merges_are_asked_for_within_the_reach_of_the_windows(inventory: Inventory) -> None:
    buckets = [bucket(f"0/{n}", 0) for n in range(20)]
    put(inventory, manifest(0, *buckets))
    assert [len(group) for group in inventory.merges(LIVE, STREAMS)] == [20]
    assert inventory.merges({}, STREAMS) == ()
    unbounded = live(JOIN.replace("[RANGE 10 SECONDS]", "[UNBOUNDED]"))
    inventory.buckets = {f"{n}": bucket(f"{n}", n) for n in range(20)}
    assert inventory.merges(LIVE, STREAMS) == ()
    assert [len(group) for group in inventory.merges({unbounded.record.id: unbounded}, STREAMS)] == [20]


# ---- windows


def test_open_sessions_keep_files_that_nothing_else_reaches(inventory: Inventory) -> None:
    session = live("SELECT k, COUNT(*) FROM a [SESSION 1 SECOND] GROUP BY k")
    (store,) = session.strategy.stores
    x, y = path(0, "x"), path(0, "y")
    put(inventory, replace(manifest(0, bucket(x, 0, store=store), bucket(y, 0, store=store)), open=(x,)))
    everything = ({session.record.id: session}, STREAMS, {"a": 99 * SECOND})
    inventory.collect(*everything)
    assert set(inventory.buckets) == {x}
    put(inventory, replace(manifest(1), open=()))
    assert there(inventory) == {x}
    inventory.collect(*everything)
    assert after_next(inventory) == set()


def test_slices_go_when_their_windows_have_ended_not_when_rows_are_late(inventory: Inventory) -> None:
    tumble = live("SELECT COUNT(*) FROM a [TUMBLE 10 SECONDS]")
    (store,) = tumble.strategy.stores
    put(inventory, manifest(0, bucket(path(0, "x"), 0, store=store), bucket(path(0, "y"), 15, store=store)))
    everything = ({tumble.record.id: tumble}, STREAMS, {"a": 99 * SECOND})
    inventory.collect(*everything)
    assert there(inventory) == {path(0, "x"), path(0, "y")}, "nobody said that a window ended"
    put(inventory, replace(manifest(1), closed=((("a",), 20 * SECOND),)))
    inventory.collect(*everything)
    assert after_next(inventory) == {path(0, "y")}


def test_how_far_windows_are_ended_is_kept_by_streams(inventory: Inventory) -> None:
    both = ("a", "b")
    put(inventory, replace(manifest(0), closed=((("a",), 5), (both, 3)), open=(path(0, "x"),)))
    put(inventory, replace(manifest(1), closed=((("a",), 7),), open=(path(1, "y"),)))
    assert inventory.closed == {("a",): 7}, "nobody reads both any more"
    put(inventory, replace(manifest(2), closed=((("a",), 7), (both, 3)), open=(path(1, "y"),)))
    assert inventory.closed == {("a",): 7, both: 3}
    assert inventory.open == {path(1, "y")}
    again = Inventory(inventory._journal._directory, inventory._journal)
    again.load(json.loads(json.dumps(inventory.to_json())))
    assert (again.closed, again.open) == (inventory.closed, inventory.open)


# ---- in a real engine


def test_everything_is_freed_when_the_last_query_goes(tmp_path: Path) -> None:
    harness = open_core(tmp_path / "state")
    harness.create(JOIN, "q")
    for n in range(4):
        harness.batch({"a": [rows((n, 1, n))], "b": [rows((n, 2, n))]})
    assert len(data_files(harness)) == 8
    harness.drop("q")
    for n in (9, 10):
        harness.batch({"a": [rows((n, 1, 9))]})
    assert data_files(harness) == set()


def test_state_stays_within_the_window(tmp_path: Path) -> None:
    harness = open_core(tmp_path / "state", partitions=1)
    harness.create(JOIN, "q")
    for n in range(0, 60, 3):
        harness.batch({"a": [rows((n, 1, n))], "b": [rows((n, 2, n))]})
    oldest = min(each.min_time for each in harness.core.inventory.buckets.values())
    assert oldest > (57 - 10 - 3) * SECOND
    assert data_files(harness) == {*harness.core.inventory.buckets, *harness.core.inventory.freed}


def test_few_matches_do_not_keep_a_large_bucket(tmp_path: Path) -> None:
    harness = open_core(tmp_path / "state", partitions=1)
    harness.create(JOIN, "q")
    harness.batch({"a": [rows(*((0, k, k) for k in range(200)))], "b": [rows((0, 7, 1), (0, 8, 2), (0, 999, 3))]})
    for n in (100, 101):
        harness.batch({"a": [rows((n, 1, 1))], "b": [rows((n, 2, 2))]})
    copied = harness.core.inventory.results[0].copied
    assert len(copied) == 1
    assert sum(path.startswith("000000000000/") for path in data_files(harness)) == 3
    assert sorted(harness.results("q")) == [(7, 1), (8, 2)]

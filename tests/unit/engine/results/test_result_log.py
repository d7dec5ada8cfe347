"""Reading results while they are removed: whoever reads gets its rows, or is told that they are gone."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.support.engine_alone import Opened
from tests.support.engine_sample import JOIN
from weft.engine.query import Query
from weft.engine.results import leases, result_log
from weft.engine.results.retention import Keep
from weft.errors import QueryFailed, ResultsGone, StateCorrupt


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    found = Opened(tmp_path, Keep(None, None, None, None))
    yield found
    found.engine.stop()


@pytest.fixture
def query(opened: Opened) -> Query:
    """Its rows are 0, 1, … in batches 0, 1, …"""
    made = opened.engine.create_one("SELECT x FROM a", name="q")
    for number in range(6):
        opened.batch(number, number)
    return made


def values(tables: Iterator[Any]) -> list[int]:
    return [value for table in tables for value in table["x"].to_pylist()]


def files(opened: Opened) -> int:
    return sum(path.is_file() for path in opened.engine.core.directory.path("data").rglob("*"))


def test_who_has_begun_reads_to_the_end(opened: Opened, query: Query) -> None:
    """Before, this was a FileNotFoundError, of which a benchmark died."""
    core = opened.engine.core
    tables = query.tables(0, 6)
    found = values(iter([next(tables)]))
    core.trim_results(5)
    assert found + values(tables) == [0, 1, 2, 3, 4, 5]
    before = files(opened)
    core.trim_results(5)
    assert files(opened) < before, "they go when nobody reads them any more"


def test_who_begins_later_is_told(opened: Opened, query: Query) -> None:
    """Before, rows were left out without a word."""
    reading = query.tables(0, 6)
    next(reading)
    opened.engine.core.trim_results(3)
    for ask in (lambda: next(query.tables(2, 6)), lambda: next(query.tail()), query.results):
        with pytest.raises(ResultsGone, match='rows of query "q" before batch 3 are not kept any more'):
            ask()
    assert query.results_from == 3
    assert values(query.tables(3, 6)) == [3, 4, 5]
    assert [row.x for row in query.tail(from_batch=query.results_from)] == [3, 4, 5]
    reading.close()


def test_part_of_the_results_has_to_be_asked_for(opened: Opened, query: Query, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(result_log, "results_frame", lambda _spark, _reading, chunks, _outputs: len(chunks))
    monkeypatch.setattr(opened.engine, "_spark", lambda: None)
    every = query.results()
    opened.engine.core.trim_results(4)
    assert query.results(partial=True) == every - 4


def test_a_query_that_began_later_misses_nothing(opened: Opened, query: Query) -> None:
    late = opened.engine.create_one("SELECT x FROM a")
    opened.batch(6, 6)
    opened.engine.core.trim_results(5)
    assert [row.x for row in late.tail()] == [6]
    late.drop()
    opened.engine.core.trim_results(7)
    with pytest.raises(ResultsGone):
        list(late.tail())


def test_readers_one_after_the_other_cannot_keep_old_results(opened: Opened, query: Query) -> None:
    first = query.tables(0, 6)
    next(first)
    opened.engine.core.trim_results(4)
    second = query.tables(4, 6)
    next(second)
    first.close()
    opened.engine.core.trim_results(5)
    assert opened.engine.core.inventory.first_result == 4
    second.close()
    opened.engine.core.trim_results(5)
    assert opened.engine.core.inventory.first_result == 5


def test_who_takes_too_long_is_told(opened: Opened, query: Query, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = query.tables(0, 6)
    next(tables)
    now = leases.time.monotonic()
    monkeypatch.setattr(leases.time, "monotonic", lambda: now + leases.LONGEST + 1)
    opened.engine.core.trim_results(6)
    assert files(opened) <= 1
    with pytest.raises(ResultsGone, match="are not kept any more"):
        list(tables)


def test_a_file_that_somebody_took_away_is_no_matter_of_keeping(opened: Opened, query: Query) -> None:
    for path in opened.engine.core.directory.path("data").rglob("*.arrow"):
        path.unlink()
    with pytest.raises(StateCorrupt, match="a file of the results of batch 0 is missing") as missing:
        list(query.tables(0, 6))
    assert re.fullmatch(r"File [^ ]+\.arrow of the result log is gone\.", missing.value.detail)


def test_readers_meet_no_missing_file_while_results_are_trimmed(opened: Opened) -> None:
    """Eight readers, and after each batch everything but the last two is removed."""
    core = opened.engine.core
    query = opened.engine.create_one(JOIN)
    done, failures = threading.Event(), list[BaseException]()

    def read() -> None:
        while not done.is_set():
            try:
                for table in query.tables(query.results_from, core.next_batch):
                    assert table.num_rows
            except ResultsGone:
                continue
            except BaseException as error:
                failures.append(error)
                return

    readers = [threading.Thread(target=read) for _ in range(8)]
    for each in readers:
        each.start()
    for number in range(40):
        opened.batch(number, 1, 2, stream="ab"[number % 2])
        core.trim_results(core.next_batch - 2)
    done.set()
    for each in readers:
        each.join()
    assert failures == []


# ---- a SELECT list that fails


def failing_at(monkeypatch: pytest.MonkeyPatch, value: int) -> None:
    """As if an expression failed on this value."""
    read = result_log.result_tables

    def fails(*arguments: Any, **options: Any) -> Iterator[pa.Table]:
        for table in read(*arguments, **options):
            if value in table["x"].to_pylist():
                raise QueryFailed("an expression of its SELECT list fails on a row", detail="by zero")
            yield table

    monkeypatch.setattr(result_log, "result_tables", fails)


@pytest.mark.parametrize("ended", [False, True])
def test_a_select_list_that_fails_ends_the_query_before_that_batch(
    opened: Opened, query: Query, monkeypatch: pytest.MonkeyPatch, ended: bool
) -> None:
    if ended:
        query.drop()
    failing_at(monkeypatch, 3)
    tables = query.tables(0, 6)
    found = values(islice(tables, 3))
    with pytest.raises(QueryFailed, match='query "q" failed') as failure:
        next(tables)
    assert found == [0, 1, 2], "what came before it stays readable"
    assert failure.value.detail == "by zero"
    assert (query.state, query.error) == ("failed", "by zero")
    assert values(query.tables(0, 6)) == [0, 1, 2]
    with pytest.raises(QueryFailed, match='query "q" failed'):
        list(query.tail())
    opened.restart()
    again = opened.engine.query_by_id(query.id)
    assert (again.state, again.error, values(again.tables(0, 6))) == ("failed", "by zero", [0, 1, 2])

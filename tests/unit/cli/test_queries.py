"""`weft query`: what is asked, what is said, how it ends."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli_fake import COLUMNS, FakeBackend, query, run
from weft.errors import DuplicateQuery, QueryFailed, UnknownQuery
from weft.service.client import Event

Backend = Callable[..., FakeBackend]


def rows(*values: list[Any], cursor: str = "3") -> Event:
    return Event("rows", {"batch": 2, "rows": list(values)}, cursor)


def page(*values: list[Any], cursor: str = "5", more: bool = False) -> dict[str, Any]:
    return {"columns": COLUMNS, "rows": list(values), "cursor": cursor, "more": more, "state": "live", "error": ""}


HEAD = Event("columns", COLUMNS)
DROPPED = Event("end", {"state": "dropped", "error": ""})


# ---- create


def test_a_query_is_created_and_named(backend: Backend) -> None:
    fake = backend(create=query(notices=["read once more"], complete_from="2026-01-01T00:00:00Z"))
    done = run("query", "create", "SELECT 1;", "--name", "big")
    assert (done.exit_code, fake.asked) == (0, [("create", "SELECT 1", "big", False)])
    assert done.stdout == "big live, complete from 2026-01-01T00:00:00Z\n  notice: read once more\n"
    assert fake.closed


def test_what_was_created_is_told_as_the_service_does(backend: Backend) -> None:
    backend(create=query())
    assert json.loads(run("query", "create", "SELECT 1", "--json").stdout) == query()


def test_rows_can_be_delivered_too(backend: Backend) -> None:
    fake = backend(create=query())
    assert run("query", "create", "SELECT 1", "--deliver").exit_code == 0
    assert fake.asked == [("create", "SELECT 1", None, True)]


def test_several_queries_are_created_together(backend: Backend) -> None:
    fake = backend(create_many=[query("a"), query("b")])
    done = run("query", "create", "SELECT 1", "SELECT 2; ", "--name", "a", "--name", "b", "--json")
    assert fake.asked == [("create_many", [{"sql": "SELECT 1", "name": "a"}, {"sql": "SELECT 2", "name": "b"}])]
    assert json.loads(done.stdout) == {"queries": [query("a"), query("b")]}


def test_sql_comes_from_a_file_or_from_stdin(backend: Backend, tmp_path: Path) -> None:
    (tmp_path / "all.sql").write_text("SELECT 1; -- one\nSELECT ';';\n")
    fake = backend(create_many=[query("a")])
    assert run("query", "create", f"@{tmp_path / 'all.sql'}", "-", stdin="SELECT 3").exit_code == 0
    assert [each["sql"] for each in fake.asked[0][1]] == ["SELECT 1", "-- one\nSELECT ';'", "SELECT 3"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("SELECT 1; SELECT 2", "--name", "one"),
        ("SELECT 1", "SELECT 2", "--deliver"),
        (" ; -- nothing",),
        ("@/no/such/file",),
        (),
        ("SELECT 1", "--token", "x"),
    ],
)
def test_what_cannot_be_meant_is_a_mistake_of_usage(backend: Backend, arguments: tuple[str, ...]) -> None:
    fake = backend()
    assert run("query", "create", *arguments).exit_code == 2
    assert fake.asked == []


def test_a_name_that_is_taken_ends_with_its_own_code(backend: Backend) -> None:
    backend(create=DuplicateQuery('query "big" exists already', hint="Drop it first."))
    done = run("query", "create", "SELECT 1", "--name", "big")
    assert (done.exit_code, done.stdout) == (5, "")
    assert done.stderr == 'error: query "big" exists already [duplicate_query]\n  hint: Drop it first.\n'


# ---- list, show, explain, drop


def test_live_queries_are_listed_one_in_a_line(backend: Backend) -> None:
    fake = backend(queries=[query(), query("broken", state="failed", error="division by zero")])
    header, first, second = run("query", "list").stdout.splitlines()
    assert fake.asked == [("queries", "live")]
    assert header.split() == ["query", "state", "rows", "rows/s", "latency", "asks", "for"]
    assert first.split("  ")[0] == "big"
    assert first.rstrip().endswith("1,234      57   0.32 s  SELECT * FROM purchases")
    assert second.rstrip().endswith("division by zero")


def test_ended_queries_are_listed_if_asked_for(backend: Backend) -> None:
    fake = backend(queries=[])
    assert run("query", "list", "--all").stdout == "no queries\n"
    assert fake.asked == [("queries", "all")]


def test_the_list_as_json(backend: Backend) -> None:
    backend(queries=[query()])
    assert json.loads(run("query", "list", "--json").stdout) == {"queries": [query()]}
    assert json.loads(run("--json", "query", "list").stdout) == {"queries": [query()]}


def test_a_query_is_shown_with_all_that_is_known(backend: Backend) -> None:
    backend(query=query(tenant="ads", sink_error="disk full"))
    said = run("query", "show", "big").stdout
    for part in ("big", "SELECT *", "user bigint, note string", "the beginning", "12 ms", "1,234", "ads", "disk full"):
        assert part in said


def test_a_query_that_is_not_there(backend: Backend) -> None:
    backend()
    done = run("query", "show", "nobody", "--json")
    assert (done.exit_code, done.stdout) == (4, "")
    assert json.loads(done.stderr) == {
        "ok": False,
        "code": "unknown_query",
        "message": 'query "nobody" does not exist',
        "detail": "",
        "hint": "Look for it.",
    }


def test_a_query_is_explained(backend: Backend) -> None:
    explained = {"text": "query big\n  [store] x", "operators": []}
    backend(explain=explained)
    assert run("query", "explain", "big").stdout == "query big\n  [store] x\n"
    assert json.loads(run("query", "explain", "big", "--json").stdout) == explained


def test_a_query_that_is_not_there_yet_is_explained_by_its_sql(backend: Backend) -> None:
    fake = backend(what_if={"text": "reads a", "operators": [], "notices": ["slow"], "columns": []})
    assert run("query", "explain", "--sql", "SELECT 1;").stdout == "reads a\n  notice: slow\n"
    assert fake.asked == [("what_if", "SELECT 1")]


@pytest.mark.parametrize("arguments", [(), ("big", "--sql", "SELECT 1"), ("--sql", "SELECT 1; SELECT 2")])
def test_explain_takes_one_query(backend: Backend, arguments: tuple[str, ...]) -> None:
    backend()
    assert run("query", "explain", *arguments).exit_code == 2


def test_a_sink_is_resumed(backend: Backend) -> None:
    fake = backend(resume_sink=query("a", sink_gaps=[{"from": 3, "until": 7, "reason": "too slow"}]))
    assert "batches 3 to 6" in run("query", "resume-sink", "a").stdout
    assert fake.asked == [("resume_sink", "a")]


def test_queries_are_dropped(backend: Backend) -> None:
    fake = backend(drop=[query("a", state="dropped"), query("b", state="dropped")])
    assert run("query", "drop", "a", "b").stdout == "a dropped\nb dropped\n"
    assert fake.asked == [("drop", "a"), ("drop", "b")]


def test_what_was_dropped_before_an_error_is_told(backend: Backend) -> None:
    backend(drop=[query("a"), UnknownQuery("query b does not exist"), query("c")])
    done = run("query", "drop", "a", "b", "c", "--json")
    assert (done.exit_code, json.loads(done.stdout)) == (4, {"queries": [query("a")]})


# ---- results


def test_results_are_a_table(backend: Backend) -> None:
    fake = backend(results=[page([7, "x"], [123456, None], more=True)])
    done = run("query", "results", "big", "--limit", "2")
    assert fake.asked == [("results", "big", "", 2)]
    assert done.stdout.splitlines() == [
        "  user  note",
        "     7  x",
        "123456  NULL",
        "there are more: --after 5",
    ]


def test_pages_are_put_together_up_to_the_limit(backend: Backend) -> None:
    fake = backend(results=[page([1, "a"], cursor="1", more=True), page([2, "b"], cursor="2")])
    found = json.loads(run("query", "results", "big", "--json", "--after", "0").stdout)
    assert fake.asked == [("results", "big", "0", 100), ("results", "big", "1", 99)]
    assert found == page([1, "a"], [2, "b"], cursor="2")


# ---- tail


def test_rows_come_line_by_line(backend: Backend) -> None:
    fake = backend(follow=[HEAD, rows([1, "a"]), rows([22222, "bc"]), DROPPED])
    done = run("query", "tail", "big")
    assert fake.asked == [("follow", "big", "now")]
    assert done.stdout.splitlines() == ["user  note", "   1  a", "22222  bc"]
    assert (done.exit_code, done.stderr) == (0, 'query "big": dropped\n')


@pytest.mark.parametrize(("given", "after"), [("now", "now"), ("start", ""), ("4.7", "4.7")])
def test_where_to_begin(backend: Backend, given: str, after: str) -> None:
    fake = backend(follow=[HEAD, DROPPED])
    run("query", "tail", "big", "--from", given)
    assert fake.asked == [("follow", "big", after)]


def test_rows_as_json_are_objects(backend: Backend) -> None:
    backend(follow=[Event("columns", [*COLUMNS, COLUMNS[0]]), rows([1, "a", 2]), DROPPED])
    assert run("query", "tail", "big", "--json").stdout == '{"user": 1, "note": "a", "user_2": 2}\n'


def test_so_many_rows_are_enough(backend: Backend) -> None:
    backend(follow=[HEAD, rows([1, "a"]), rows([2, "b"], [3, "c"]), KeyError("was not asked for")])
    done = run("query", "tail", "big", "--rows", "2")
    assert (done.exit_code, len(done.stdout.splitlines())) == (0, 3)


def test_ctrl_c_ends_without_a_traceback_and_says_how_to_go_on(backend: Backend) -> None:
    backend(follow=[HEAD, rows([1, "a"], cursor="9"), KeyboardInterrupt()])
    done = run("query", "tail", "big")
    assert (done.exit_code, done.stderr) == (130, "go on with: --from 9\n")


def test_a_query_that_fails_says_why(backend: Backend) -> None:
    backend(follow=[HEAD, Event("end", {"state": "failed", "error": "division by zero"})])
    done = run("query", "tail", "big")
    assert done.exit_code == 3
    assert QueryFailed.code in done.stderr
    assert "division by zero" in done.stderr


@pytest.mark.parametrize("kind", ["gap", "throttled"])
def test_what_is_worth_knowing_does_not_mix_with_rows(backend: Backend, kind: str) -> None:
    backend(follow=[HEAD, Event(kind, {"message": "some rows are gone"}), DROPPED])
    done = run("query", "tail", "big")
    assert "some rows are gone" in done.stderr
    assert done.stdout == ""

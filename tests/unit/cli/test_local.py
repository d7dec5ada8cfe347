"""A state directory without an engine: read and changed without Spark, and the engine finds it so."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli_fake import run
from tests.support.engine_sample import JOIN, STREAMS, open_core, rows, stream
from tests.support.harness import CoreHarness
from weft.cli.local import Local
from weft.engine.core import Core
from weft.engine.sinks.sinks import claim
from weft.errors import (
    DuplicateQuery,
    DuplicateStream,
    EngineStopped,
    InvalidName,
    InvalidSetting,
    InvalidStream,
    ResultsGone,
    UnknownQuery,
    UnknownStream,
)
from weft.storage.directory import Directory
from weft.storage.sealed_json import seal

SELECTION = "SELECT k, s FROM a WHERE x > 1"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A state directory with three batches of stream a."""
    harness = open_core(tmp_path / "state", streams=[stream("a", lateness=1), *(STREAMS[name] for name in "bc")])
    harness.create(SELECTION, "big")
    harness.create(JOIN, "joined")
    for second in range(3):
        harness.batch({"a": [rows((second, 1, 1), (second, second, 5, 0, f"s{second}"), (second, 9, 7))]})
    harness.core.directory.close()
    return tmp_path / "state"


@pytest.fixture
def local(path: Path) -> Iterator[Local]:
    opened = Local(path)
    yield opened
    opened.close()


def reopened(local: Local, path: Path) -> CoreHarness:
    """What an engine would find."""
    local.close()
    return open_core(path, streams=())


# ---- queries


def test_queries_are_listed_as_a_service_would(local: Local) -> None:
    big, joined = local.queries()
    assert (big["name"], big["state"], big["sql"], big["rows"]) == ("big", "live", SELECTION, None)
    assert big["columns"] == [{"name": "k", "type": "bigint"}, {"name": "s", "type": "string"}]
    assert joined["streams"] == ["a", "b"]
    assert local.query("big") == big


def test_a_sink_that_a_crash_left_behind_is_not_the_new_query_s(path: Path, tmp_path: Path) -> None:
    """An engine was killed between the note of a sink and the changelog's entry of its query, the third one."""
    claim(tmp_path / "out", f"{path.resolve()}:q3")
    (path / "sinks").mkdir(exist_ok=True)
    saved, _ = seal("sinks/q3.json", {"delivered": 0, "parquet": str(tmp_path / "out")})
    (path / "sinks" / "q3.json").write_bytes(saved)
    local = Local(path)
    local.create("SELECT x FROM a", name="new")
    assert reopened(local, path).core.roster.find("new") == "q3"
    assert not (path / "sinks" / "q3.json").exists()
    claim(tmp_path / "out", "anybody")


def test_a_query_created_here_is_there_for_the_next_engine(local: Local, path: Path) -> None:
    created = local.create("SELECT x FROM a", name="new")
    assert (created["state"], created["complete_from"]) == ("live", "1970-01-01T00:00:02.000001Z")
    harness = reopened(local, path)
    harness.batch({"a": [rows((5, 1, 42))]})
    assert harness.results("new") == [(42,)]


def test_several_are_created_together_or_not_at_all(local: Local) -> None:
    created = local.create_many([{"sql": SELECTION, "name": "one"}, {"sql": JOIN}])
    assert [each["name"] for each in created] == ["one", "q1"]
    before = local.queries("all")
    with pytest.raises(UnknownStream):
        local.create_many([{"sql": SELECTION, "name": "two"}, {"sql": "SELECT x FROM nowhere"}])
    assert local.queries("all") == before


def test_what_cannot_be_created_is_refused_as_by_an_engine(local: Local) -> None:
    with pytest.raises(DuplicateQuery):
        local.create(SELECTION, name="big")
    with pytest.raises(InvalidName):
        local.create(SELECTION, name="no name")
    with pytest.raises(InvalidSetting, match="deliver"):
        local.create(SELECTION, deliver=True)


def test_what_only_spark_can_check_is_not_created(local: Local) -> None:
    with pytest.raises(EngineStopped, match="only Spark computes"):
        local.create("SELECT k, COUNT(*) AS n FROM a [TUMBLE 10 SECONDS] GROUP BY k HAVING COUNT(*) > 1")
    assert len(local.queries()) == 2


def test_a_query_dropped_here_stays_dropped(local: Local, path: Path) -> None:
    assert local.drop("big")["state"] == "dropped"
    assert local.drop("big")["state"] == "dropped"
    assert [each["name"] for each in local.queries()] == ["joined"]
    assert [each["name"] for each in local.queries("ended")] == ["big"]
    assert "big" not in reopened(local, path).core.roster.names


@pytest.mark.parametrize("method", ["query", "drop", "explain", "results"])
def test_a_query_that_is_not_there(local: Local, method: str) -> None:
    with pytest.raises(UnknownQuery, match="nobody"):
        getattr(local, method)("nobody")


# ---- the plan


def test_a_query_is_explained(local: Local) -> None:
    explained = local.explain("joined")
    assert "query joined" in explained["text"]
    assert {"stream", "store", "join"} <= {each["kind"] for each in explained["operators"]}


def test_what_a_query_would_add_is_told_and_nothing_is_created(local: Local) -> None:
    found = local.what_if("SELECT x FROM c")
    assert [each["kind"] for each in found["operators"] if each["new"]]
    assert not any(each["new"] for each in local.what_if(SELECTION)["operators"])
    assert len(local.queries("all")) == 2


def test_the_plan_is_a_graph_and_text(local: Local) -> None:
    plan = local.plan()
    ids = {node["id"] for node in plan["nodes"]}
    assert {"query:big", "query:joined", "stream:a"} <= ids
    assert {end for edge in plan["edges"] for end in edge} <= ids
    assert plan["text"].startswith("shared plan: 2 queries")


# ---- rows


def test_committed_rows_are_read_without_spark(local: Local) -> None:
    page = local.results("big")
    assert page["rows"] == [[0, "s0"], [9, None], [1, "s1"], [9, None], [2, "s2"], [9, None]]
    assert (page["more"], page["cursor"], page["state"]) == (False, "3", "live")


def test_pages_follow_each_other(local: Local) -> None:
    everything, cursor, pages = local.results("big")["rows"], "", []
    while True:
        page = local.results("big", after=cursor, limit=4)
        pages += page["rows"]
        cursor = page["cursor"]
        if not page["more"]:
            break
    assert pages == everything


def test_following_gives_what_is_committed_and_ends(local: Local) -> None:
    events = list(local.follow("big", after="1"))
    assert [event.kind for event in events] == ["columns", "rows", "rows", "end"]
    assert [event.cursor for event in events[1:3]] == ["2", "3"]
    assert events[-1].data == {"state": "live", "error": "no engine is running, nothing more will come"}


def test_new_rows_cannot_be_waited_for(local: Local) -> None:
    with pytest.raises(EngineStopped, match="no new rows"):
        list(local.follow("big", after="now"))


def test_rows_that_are_not_kept_any_more(path: Path) -> None:
    core = Core(Directory.open(path))
    core.trim_results(before=1)
    core.directory.close()
    local = Local(path)
    assert local.results("big")["rows"][0] == [1, "s1"]
    with pytest.raises(ResultsGone):
        local.results("big", after="0")
    local.close()


def test_rows_that_need_spark_say_so(path: Path) -> None:
    harness = open_core(path, streams=())
    harness.create("SELECT soundex(s) AS sound FROM a", "sound")
    harness.batch({"a": [rows((9, 1, 1, 0, "weft"))]})
    harness.core.directory.close()
    local = Local(path)
    with pytest.raises(EngineStopped, match="only Spark computes"):
        local.results("sound")
    local.close()


# ---- streams


def test_streams_have_the_figures_that_are_kept(local: Local) -> None:
    first = local.streams()[0]
    assert (first["name"], first["format"], first["rows"], first["late_rows"]) == ("a", "spark", 9, 0)
    assert first["watermark"] == "1970-01-01T00:00:01Z"


def test_a_watermark_is_set_back_for_the_next_engine(local: Local, path: Path) -> None:
    assert local.set_watermark("a", "1970-01-01")["watermark"] == "1970-01-01T00:00:00Z"
    assert reopened(local, path).core.watermarks()["a"] == 0


def test_a_stream_of_files_is_declared_for_the_next_engine(local: Local, path: Path, tmp_path: Path) -> None:
    declared = {"name": "new", "format": "csv", "time": "ts", "path": str(tmp_path), "schema": "ts timestamp, v int"}
    found = local.add_stream(declared | {"lateness": "2 seconds"})  # type: ignore[arg-type]
    assert (found["name"], found["lateness_seconds"], found["format"]) == ("new", 2.0, "csv")
    local.create("SELECT v FROM new", name="of_new")
    with pytest.raises(DuplicateStream):
        local.add_stream(declared)  # type: ignore[arg-type]
    assert reopened(local, path).core.streams["new"].time == "ts"


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"format": "kafka"}, InvalidSetting),
        ({"time": "at"}, InvalidStream),
        ({"schema": "ts nonsense"}, InvalidStream),
        ({"lateness": "soon"}, InvalidSetting),
        ({"path": "file:/in"}, InvalidSetting),
    ],
)
def test_a_wrong_stream_makes_no_state_directory(tmp_path: Path, wrong: dict[str, str], error: type[Exception]) -> None:
    declared: Any = {"name": "s", "format": "csv", "time": "ts", "path": "in", "schema": "ts timestamp"}
    with pytest.raises(error):
        Local(tmp_path / "state").add_stream(declared | wrong)
    assert not (tmp_path / "state").exists()


# ---- the directory


def test_looking_at_a_path_makes_nothing(tmp_path: Path) -> None:
    with pytest.raises(InvalidSetting, match="there is no state directory"):
        Local(tmp_path / "typo").queries()
    assert not (tmp_path / "typo").exists()


@pytest.mark.parametrize("command", [("query", "list"), ("stream", "add", "s", "--time", "ts", "--path", "in")])
def test_an_address_is_no_path(command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it was: a local directory was made of it, and then there was a traceback."""
    monkeypatch.chdir(tmp_path)
    for run_it in (lambda: run("--path", "s3a://bucket/state", *command), lambda: run(*command)):
        done = run_it()
        assert done.exit_code == 3
        assert 'state directory "s3a:/bucket/state" is not a local path' in done.stderr
        monkeypatch.setenv("WEFT_PATH", "s3a://bucket/state")
    assert not list(tmp_path.iterdir())


def test_without_an_engine_nothing_ticks(local: Local) -> None:
    with pytest.raises(EngineStopped, match="no engine is working"):
        local.ticks()


def test_the_path_is_given_up_after_every_command(path: Path) -> None:
    assert json.loads(run("--path", str(path), "query", "list", "--json").stdout)["queries"][0]["name"] == "big"
    done = run("query", "create", "SELECT x FROM a", "--name", "more", "--path", str(path))
    assert done.stdout == "more live, complete from 1970-01-01T00:00:02.000001Z\n"
    assert run("query", "tail", "big", "--from", "start", "--rows", "1", "--path", str(path)).stdout == "k  s\n0  s0\n"
    assert run("query", "tail", "big", "--path", str(path)).exit_code == 8
    assert run("top", "--path", str(path)).exit_code == 8


def test_a_new_path_begins_with_a_stream(tmp_path: Path) -> None:
    state = str(tmp_path / "state")
    declared = ["--format", "json", "--path", str(tmp_path), "--schema", "ts timestamp", "--time", "ts"]
    assert run("--path", state, "stream", "add", "s", *declared).exit_code == 0
    assert run("--path", state, "query", "create", "SELECT ts FROM s").stdout == "q1 live\n"
    assert run("--path", state, "plan").stdout.startswith("shared plan: 1 queries")

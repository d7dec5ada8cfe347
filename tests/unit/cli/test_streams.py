"""`weft stream`: what is asked and what is said."""

from __future__ import annotations

import json
import os
from collections.abc import Callable

import pytest

from tests.support.cli_fake import FakeBackend, run, stream
from weft.errors import Forbidden

Backend = Callable[..., FakeBackend]


def test_streams_are_listed_one_in_a_line(backend: Backend) -> None:
    backend(streams=[stream()])
    header, line = run("stream", "list").stdout.splitlines()
    figures = ["rows", "rows/s", "late", "ahead", "missed", "bad", "files", "bad", "rows"]
    assert header.split() == ["stream", "format", "time", *figures, "columns"]
    figures = ["99", "3.2", "1", "4", "3", "2", "3"]
    assert line.split() == ["purchases", "parquet", "ts", *figures, "user", "bigint,", "note", "string"]


def test_streams_as_json(backend: Backend) -> None:
    backend(streams=[stream()])
    assert json.loads(run("stream", "list", "--json").stdout) == {"streams": [stream()]}


def test_no_streams(backend: Backend) -> None:
    backend(streams=[])
    assert run("stream", "list").stdout == "no streams\n"


def test_a_stream_is_declared_as_in_the_configuration(backend: Backend) -> None:
    fake = backend(add_stream=stream())
    given = ["--format", "csv", "--path", "in", "--schema", "ts timestamp", "--time", "ts", "--lateness", "2 s"]
    done = run("stream", "add", "purchases", *given, "--option", "sep=;", "--option", "a==b", "--json")
    assert json.loads(done.stdout) == stream()
    wanted = {"name": "purchases", "format": "csv", "time": "ts", "lateness": "2 s", "schema": "ts timestamp"}
    wanted |= {"path": os.path.abspath("in"), "options": {"sep": ";", "a": "=b"}}
    assert fake.asked == [("add_stream", wanted)]


def test_a_stream_is_dropped(backend: Backend) -> None:
    fake = backend(drop_stream=stream())
    assert json.loads(run("stream", "drop", "purchases", "--json").stdout) == stream()
    run("stream", "drop", "purchases", "--cascade")
    assert fake.asked == [("drop_stream", "purchases", False), ("drop_stream", "purchases", True)]


def test_the_path_of_files_is_not_the_path_of_the_state(backend: Backend) -> None:
    fake = backend(add_stream=stream())
    run("--path", "state", "stream", "add", "s", "--time", "ts", "--path", "in")
    assert fake.options is not None
    assert str(fake.options.path) == "state"
    assert fake.asked[0][1]["path"] == os.path.abspath("in")


@pytest.mark.parametrize(("path", "here"), [("in", False), ("s3a://bucket/in", True), ("file:/in", True)])
def test_a_path_that_is_not_of_this_machine_stays_as_it_is(backend: Backend, path: str, here: bool) -> None:
    fake = backend(add_stream=stream())
    fake.is_here = here
    run("stream", "add", "s", "--time", "ts", "--path", path)
    assert fake.asked[0][1]["path"] == path


@pytest.mark.parametrize("arguments", [("--path", "in"), ("--time", "ts", "--option", "sep"), ("--time",)])
def test_what_is_missing_is_a_mistake_of_usage(backend: Backend, arguments: tuple[str, ...]) -> None:
    backend(add_stream=stream())
    assert run("stream", "add", "s", *arguments).exit_code == 2


def test_who_may_not_is_told(backend: Backend) -> None:
    backend(add_stream=Forbidden("only administrators may add streams"))
    assert run("stream", "add", "s", "--time", "ts").exit_code == 6


def test_a_watermark_is_set_back(backend: Backend) -> None:
    fake = backend(set_watermark=stream())
    assert json.loads(run("stream", "set-watermark", "purchases", "2026-01-31", "--json").stdout) == stream()
    assert fake.asked == [("set_watermark", "purchases", "2026-01-31")]


def test_what_to_know_about_a_stream_is_said_when_it_is_declared(backend: Backend) -> None:
    backend(add_stream=stream() | {"notices": ["it has lateness 0"]})
    assert "notice: it has lateness 0" in run("stream", "add", "purchases", "--time", "ts").stdout

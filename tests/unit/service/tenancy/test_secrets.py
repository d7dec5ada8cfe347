"""Secrets of streams are references, and what may be asked for over HTTP is what the configuration allows."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from weft import errors
from weft.engine import Engine
from weft.errors import Forbidden, InvalidSetting, InvalidStream, SourceUnavailable
from weft.service import streams as module
from weft.service.added_streams import check_added, read_added, write_added
from weft.service.config import ServerSection, StreamSpec
from weft.service.http.logs import JsonLines
from weft.service.streams import check_requested, declare
from weft.service.tenancy.secrets import Secrets, is_reference, looks_secret
from weft.spark.errors import cause_of
from weft.storage.directory import Directory


@pytest.fixture(autouse=True)
def forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is a secret here is none in other tests."""
    monkeypatch.setattr(errors, "_secrets", set())


@pytest.mark.parametrize(
    ("value", "is_one"),
    [
        ("env:NAME", True),
        ("file:/run/secret", True),
        ("env:", False),
        ("env:A B", False),
        ("file:relative", False),
        ("file://host/x", False),
        ("plain", False),
    ],
)
def test_references(value: str, is_one: bool) -> None:
    assert is_reference(value) is is_one


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("kafka.ssl.key.password", "x"),
        ("fs.s3a.secret.key", "x"),
        ("kafka.sasl.jaas.config", "x"),
        ("url", "jdbc:x://user:word@host/db"),
        ("config", 'a b password="x"'),
    ],
)
def test_secrets_are_recognised(key: str, value: str) -> None:
    assert looks_secret(key, value)
    assert not looks_secret(key, "env:NAME")


@pytest.mark.parametrize("key", ["subscribe", "kafka.sasl.mechanism", "rowsPerSecond", "kafka.security.protocol"])
def test_other_options_are_not_secret(key: str) -> None:
    assert not looks_secret(key, "value")


def test_variables_are_taken_out_of_the_environment() -> None:
    environment = {"WORD": "hidden-word", "HOME": "here"}
    secrets = Secrets.take(["env:WORD", "env:NONE", "file:/x"], environment)
    assert environment == {"HOME": "here"}
    assert secrets.resolved("s", {"a": "env:WORD", "b": "plain"}) == {"a": "hidden-word", "b": "plain"}
    assert secrets.hide("it says hidden-word") == "it says ***"


def test_a_file_is_read_when_it_is_needed(tmp_path: Path) -> None:
    path = tmp_path / "word"
    path.write_text("first\n", encoding="utf-8")
    secrets = Secrets()
    assert secrets.resolved("s", {"a": f"file:{path}"}) == {"a": "first"}
    path.write_text("second\n", encoding="utf-8")
    assert secrets.resolved("s", {"a": f"file:{path}"}) == {"a": "second"}


@pytest.mark.parametrize("value", ["env:NOT_THERE_AT_ALL", "file:/not/there"])
def test_what_is_not_there_is_said_without_its_value(value: str) -> None:
    with pytest.raises(InvalidStream, match="option a refers to"):
        Secrets().resolved("s", {"a": value})


def test_the_value_goes_to_spark_and_not_into_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}

    def fails(*_: Any, options: dict[str, str], **__: Any) -> Any:
        given.update(options)
        raise InvalidStream("no", detail=f"bad option {options['kafka.x.password']}")

    monkeypatch.setattr(module, "open_frame", fails)
    spec = StreamSpec(name="s", format="kafka", time="timestamp", options={"kafka.x.password": "env:WORD"})
    with pytest.raises(InvalidStream) as error:
        declare(cast(Engine, SimpleNamespace(spark=None, stream=None)), spec, Secrets({"WORD": "hidden-word"}))
    assert given == {"kafka.x.password": "hidden-word"}
    assert "hidden-word" not in str(error.value)
    assert spec.options == {"kafka.x.password": "env:WORD"}


JAAS = 'org.apache.kafka.X required username="u" password="in-the-jaas";\nsecond-line-of-it'


def test_what_a_source_says_later_does_not_tell_the_value() -> None:
    """Before, the value was hidden where a source was opened, not where it was tried or failed after that."""

    def fails(*_: Any, **__: Any) -> Any:
        raise InvalidStream("the source cannot be read", detail="config hidden-word is wrong")

    Secrets({"WORD": "hidden-word", "J": JAAS}).resolved("s", {"a": "env:WORD", "b": "env:J"})
    engine = SimpleNamespace(spark=None, stream=fails)
    plain = StreamSpec(name="s", format="parquet", path="/tmp", time="timestamp")
    with pytest.raises(InvalidStream) as error:
        declare(cast(Engine, engine), plain, Secrets())
    assert error.value.detail == "config *** is wrong"
    assert "hidden" not in str(SourceUnavailable("failed", detail=f"at {JAAS} with hidden-word"))
    assert SourceUnavailable("failed", detail="cut off in hidden-wo").detail == "cut off in ***"
    for said in (JAAS, json.dumps(JAAS), "x in-the-jaas y", "second-line-of-it"):
        text = cause_of(RuntimeError(f"cannot use {said}"))
        assert "in-the-jaas" not in text
        assert "second-line" not in text


def test_the_log_does_not_tell_it() -> None:
    Secrets({"J": JAAS}).resolved("s", {"b": "env:J"})
    try:
        raise RuntimeError(f"Spark says {JAAS}")
    except RuntimeError:
        trace = sys.exc_info()
    record = logging.LogRecord("weft", logging.ERROR, "", 0, f"failed: {JAAS}", None, trace)
    record.reason = JAAS
    record.causes = [ValueError("in-the-jaas")]
    text = JsonLines().format(record)
    assert "***" in text
    assert "in-the-jaas" not in text
    assert "second-line" not in text


def test_what_is_kept_is_the_reference(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    directory = Directory.open(tmp_path / "state")
    spec = StreamSpec(name="s", format="kafka", time="timestamp", options={"kafka.x.password": "env:WORD"})
    write_added(directory, [spec])
    assert read_added(directory) == [spec]
    check_added(directory)
    assert not caplog.records
    write_added(directory, [spec.model_copy(update={"options": {"kafka.x.password": "hidden-word"}})])
    check_added(directory)
    assert "clear text" in caplog.text
    assert "hidden-word" not in caplog.text
    directory.close()


# ---- over HTTP


def spec(**values: Any) -> StreamSpec:
    return StreamSpec(**{"name": "s", "time": "ts", **values})


@pytest.mark.parametrize("restricted", [True, False])
def test_a_secret_as_it_is_is_refused(restricted: bool) -> None:
    asked = spec(format="kafka", options={"kafka.sasl.jaas.config": "hidden-word"})
    with pytest.raises(InvalidStream, match="holds a secret") as error:
        check_requested(asked, ServerSection(), restricted=restricted)
    assert "env:NAME" in error.value.hint
    assert "hidden-word" not in str(error.value)


def test_options_of_files_are_stored_so_they_are_no_references() -> None:
    with pytest.raises(InvalidStream, match="cannot be references"):
        check_requested(spec(format="csv", path="/x", options={"sep": "env:X"}), ServerSection(), restricted=False)


def test_paths_are_below_the_inputs(tmp_path: Path) -> None:
    server = ServerSection(inputs=(tmp_path / "in",))
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "link").symlink_to("/etc")
    check_requested(spec(path=str(tmp_path / "in" / "a")), server, restricted=True)
    for path in ("/etc", str(tmp_path / "in" / ".." / "x"), str(tmp_path / "in" / "link"), str(tmp_path / "inside")):
        with pytest.raises(Forbidden, match="may not read this path"):
            check_requested(spec(path=path), server, restricted=True)
        check_requested(spec(path=path), server, restricted=False)
    with pytest.raises(Forbidden):
        check_requested(spec(path=str(tmp_path / "in" / "a")), ServerSection(), restricted=True)


@pytest.mark.parametrize(
    "values",
    [
        {"format": "text", "path": "/etc"},
        {"format": "socket", "options": {"host": "10.0.0.1", "port": "80"}},
        {"format": "rate", "path": "/etc"},
        {"format": "rate", "options": {"path": "/etc"}},
        {"format": "kafka", "options": {"kafka.bootstrap.servers": "evil:9092"}},
        {"format": "kafka", "options": {"kafka.bootstrap.servers": "broker:9092, evil:9092"}},
        {"format": "kafka", "options": {"kafka.ssl.truststore.location": "/etc/x"}},
        {"format": "kafka", "options": {"kafka.sasl.jaas.config": "env:HOME"}},
        {"format": "kafka", "options": {"kafka.sasl.jaas.config": "file:/etc/passwd"}},
    ],
)
def test_formats_of_spark_reach_only_what_is_allowed(values: dict[str, Any]) -> None:
    server = ServerSection(addresses=("broker:9092",), secrets=("env:JAAS",))
    with pytest.raises(Forbidden):
        check_requested(spec(**values), server, restricted=True)
    check_requested(spec(**values), server, restricted=False)


def test_what_is_allowed_is_allowed() -> None:
    server = ServerSection(addresses=("broker:9092", "other:9092"), secrets=("env:JAAS",))
    options = {
        "kafka.bootstrap.servers": "broker:9092,other:9092",
        "subscribe": "topic",
        "kafka.sasl.jaas.config": "env:JAAS",
    }
    check_requested(spec(format="kafka", options=options), server, restricted=True)
    check_requested(spec(format="rate", options={"rowsPerSecond": "5"}), server, restricted=True)


def test_an_address_is_no_path_of_files() -> None:
    with pytest.raises(InvalidSetting, match="not a local path"):
        declare(
            cast(Engine, SimpleNamespace(stream=None)), spec(path="s3a://bucket/x", schema="ts timestamp"), Secrets()
        )

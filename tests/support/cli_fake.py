"""A backend that remembers what it was asked and answers what it was given."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from typer.testing import CliRunner, Result

from weft.cli.app import app
from weft.cli.backend import Options
from weft.errors import UnknownQuery, WeftError
from weft.service.client import Event

COLUMNS = [{"name": "user", "type": "bigint"}, {"name": "note", "type": "string"}]


def query(name: str = "big", **values: Any) -> dict[str, Any]:
    """A query as a service tells it."""
    return {
        "name": name,
        "tenant": "",
        "sql": "SELECT *\n  FROM purchases",
        "state": "live",
        "error": "",
        "notices": [],
        "columns": COLUMNS,
        "streams": ["purchases"],
        "complete_from": None,
        "deployment_ms": 12.4,
        "rows": 1234,
        "rows_per_second": 56.7,
        "latency_seconds": 0.321,
        "sink_state": "",
        "sink_error": "",
        "sink_gaps": [],
        "history": [{"at": 0.0, "rows_per_second": 1.0, "latency_seconds": 0.1}],
    } | values


def stream(name: str = "purchases") -> dict[str, Any]:
    """A stream as a service tells it."""
    return {
        "name": name,
        "columns": COLUMNS,
        "time": "ts",
        "lateness_seconds": 2.0,
        "format": "parquet",
        "rows": 99,
        "rows_per_second": 3.25,
        "late_rows": 1,
        "ahead_rows": 4,
        "missed_rows": 3,
        "bad_files": 2,
        "bad_rows": 3,
        "watermark": None,
        "error": "",
        "notices": [],
    }


def tick(batch: int = 7, **queries: dict[str, Any]) -> dict[str, Any]:
    """A tick of a service."""
    status = {"state": "running", "error": "", "batch": batch, "live": len(queries), "pending": 0, "failed": 0}
    figures = {"state": "live", "rows": 10, "rows_per_second": 1.0, "latency_seconds": 0.5, "error": ""}
    return {
        "status": status | {"rows_per_second": 4200.0, "latency_seconds": 0.25},
        "batch": None,
        "queries": {name: figures | values for name, values in queries.items()},
        "operators": {},
        "streams": {"purchases": {"rows": 5000, "rows_per_second": 4200.0}},
    }


class FakeBackend:
    """Stands for a service or a state directory."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.asked: list[tuple[Any, ...]] = []
        self.options: Options | None = None
        self.closed = False
        self.is_here = True

    def open(self, options: Options) -> FakeBackend:
        self.options = options
        return self

    def close(self) -> None:
        self.closed = True

    def _answer(self, method: str, *arguments: Any) -> Any:
        self.asked.append((method, *arguments))
        answer = self.answers[method]
        if isinstance(answer, list) and method in ("results", "drop"):
            answer = answer.pop(0)
        if isinstance(answer, WeftError):
            raise answer
        return answer

    def queries(self, state: str = "live") -> Any:
        return self._answer("queries", state)

    def query(self, name: str) -> Any:
        if name == "nobody":
            raise UnknownQuery('query "nobody" does not exist', hint="Look for it.")
        return self._answer("query", name)

    def create(self, sql: str, *, name: str | None = None, deliver: bool = False) -> Any:
        return self._answer("create", sql, name, deliver)

    def create_many(self, queries: Any) -> Any:
        return self._answer("create_many", queries)

    def drop(self, name: str) -> Any:
        return self._answer("drop", name)

    def resume_sink(self, name: str) -> Any:
        return self._answer("resume_sink", name)

    def explain(self, name: str) -> Any:
        return self._answer("explain", name)

    def what_if(self, sql: str) -> Any:
        return self._answer("what_if", sql)

    def results(self, name: str, *, after: str = "", limit: int | None = None) -> Any:
        return self._answer("results", name, after, limit)

    def follow(self, name: str, *, after: str = "") -> Iterator[Event]:
        for event in self._answer("follow", name, after):
            if isinstance(event, BaseException):
                raise event
            yield event

    def streams(self) -> Any:
        return self._answer("streams")

    def add_stream(self, wanted: Any) -> Any:
        return self._answer("add_stream", wanted)

    def drop_stream(self, name: str, *, cascade: bool = False) -> Any:
        return self._answer("drop_stream", name, cascade)

    def set_watermark(self, name: str, time: str) -> Any:
        return self._answer("set_watermark", name, time)

    def plan(self) -> Any:
        return self._answer("plan")

    def ticks(self) -> Iterator[Any]:
        return iter(self._answer("ticks"))


def run(*arguments: str, stdin: str | None = None, **environment: str) -> Result:
    """What a command line does."""
    return CliRunner().invoke(app, list(arguments), input=stdin, env=environment, prog_name="weft")

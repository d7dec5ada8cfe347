"""Every error a user can see: one tree, a stable code each, PostgreSQL style.

`message` is a lowercase fragment that names the object; `detail` and `hint` are sentences.
"""

from __future__ import annotations

import json
import re

_SHORTEST_SECRET = 6
"""A shorter value is a word that may be anywhere in a text by chance."""
_HIDDEN = "***"
_INNER = re.compile(r"(?:password|secret|token)\s*=\s*[\"']?([^\"'\s;]+)", re.IGNORECASE)
_secrets: set[str] = set()


def keep_secret(value: str) -> None:
    """Let no error of weft tell this value, nor a line of it, nor a password in it.

    Somebody else's error, such as Spark's, becomes text in many places, and any of them may quote an option's value.
    """
    parts = [value, json.dumps(value)[1:-1], *value.splitlines(), *_INNER.findall(value)]
    _secrets.update(part for part in map(str.strip, parts) if len(part) >= _SHORTEST_SECRET)


def hide(text: str) -> str:
    """A text without the values that are kept secret, also where it was cut off in the middle of one."""
    for value in sorted(_secrets, key=len, reverse=True):
        text = text.replace(value, _HIDDEN)
        for size in range(min(len(value) - 1, len(text)), _SHORTEST_SECRET - 1, -1):
            if text.endswith(value[:size]):
                text = text[:-size] + _HIDDEN
                break
    return text


class WeftError(Exception):
    """Base of all errors weft raises; `code` is stable across releases."""

    code = "weft_error"

    def __init__(self, message: str, *, detail: str = "", hint: str = "") -> None:
        self.message = hide(message)
        self.detail = hide(detail)
        self.hint = hide(hint)
        super().__init__(self.message)

    def __str__(self) -> str:
        text = f"{self.message} [{self.code}]"
        if self.detail:
            text += f"\n  detail: {self.detail}"
        if self.hint:
            text += f"\n  hint: {self.hint}"
        return text

    def in_a_line(self) -> str:
        """What happened and why, for the log; what to do about it is for whoever asked."""
        text = f"{self.message} [{self.code}]" + (f": {self.detail}" if self.detail else "")
        return " ".join(text.split())

    def to_dict(self) -> dict[str, object]:
        """The one JSON shape of an error, for the REST service and `--json`."""
        return {
            "ok": False,
            "code": self.code,
            "message": self.message,
            "detail": self.detail,
            "hint": self.hint,
        }


class InternalError(WeftError):
    """A bug in weft, never a user's mistake."""

    code = "internal_error"


class QueryError(WeftError):
    """A query that cannot be accepted; the running plan was not touched."""

    code = "query_error"


class QuerySyntaxError(QueryError):
    """The text is not a query; the message carries line and column."""

    code = "syntax_error"


class UnknownStream(QueryError):
    """A relation names a stream that was not declared."""

    code = "unknown_stream"


class UnknownColumn(QueryError):
    """A column exists in none of the query's relations."""

    code = "unknown_column"


class AmbiguousColumn(QueryError):
    """An unqualified column exists in more than one relation."""

    code = "ambiguous_column"


class DuplicateAlias(QueryError):
    """Two relations of one query have the same name."""

    code = "duplicate_alias"


class TypeMismatch(QueryError):
    """An operator or function does not take the types it was given."""

    code = "type_mismatch"


class MissingWindow(QueryError):
    """A relation of a join has neither a window nor a time condition that bounds it."""

    code = "missing_window"


class InvalidWindow(QueryError):
    """A window that cannot be: size zero, kinds that do not fit together."""

    code = "invalid_window"


class CrossProduct(QueryError):
    """Relations of one query are not connected by any condition."""

    code = "cross_product"


class UnsupportedQuery(QueryError):
    """Valid SQL that weft does not execute."""

    code = "unsupported_query"


class QueryTooLarge(QueryError):
    """The text or its nesting is beyond the limits."""

    code = "query_too_large"


class InvalidName(WeftError):
    """A name of a query or stream that is not allowed."""

    code = "invalid_name"


class DuplicateQuery(WeftError):
    """A live query has this name already."""

    code = "duplicate_query"


class UnknownQuery(WeftError):
    """No query has this name."""

    code = "unknown_query"


class QueryFailed(WeftError):
    """A query was set aside because its own expression failed on a row."""

    code = "query_failed"


class DuplicateStream(WeftError):
    """A stream of this name exists with another definition."""

    code = "duplicate_stream"


class InvalidStream(WeftError):
    """A stream's declaration is wrong: schema, time column, lateness or source."""

    code = "invalid_stream"


class StreamInUse(WeftError):
    """A stream cannot be dropped, because queries read it or a batch is running."""

    code = "stream_in_use"


class DetachedStream(WeftError):
    """A stream whose source lives in the user's program was not attached again after a restart."""

    code = "detached_stream"


class BadFile(WeftError):
    """A source file cannot be read as its stream's schema; it was set aside."""

    code = "bad_file"


class InvalidSetting(WeftError):
    """An argument or setting is out of range."""

    code = "invalid_setting"


class StateLocked(WeftError):
    """Another engine is working on this path."""

    code = "state_locked"


class StateVersion(WeftError):
    """The state directory was written by another format version."""

    code = "state_version"


class StateCorrupt(WeftError):
    """Files of the state directory are missing or unreadable."""

    code = "state_corrupt"


class StateUnavailable(WeftError):
    """A file of the state directory cannot be opened or written now; nothing says that it is damaged."""

    code = "state_unavailable"


class DiskFull(WeftError):
    """There was no room to write; nothing of the batch was committed."""

    code = "disk_full"


class JavaMissing(WeftError):
    """No Java runtime, or one too old for Spark."""

    code = "java_missing"


class EngineStopped(WeftError):
    """The engine was stopped, or cannot do this in its present state."""

    code = "engine_stopped"


class BatchFailed(WeftError):
    """A micro-batch failed; unless its hint says otherwise nothing of it was committed, and it will be run again."""

    code = "batch_failed"


class BatchInterrupted(WeftError):
    """A micro-batch was given up before its end: it took too long, or a query of it was dropped meanwhile."""

    code = "batch_interrupted"


class SourceUnavailable(WeftError):
    """A stream's source cannot be read now; only the queries over that stream wait for it."""

    code = "source_unavailable"


class OutOfMemory(BatchFailed):
    """A task of a micro-batch needed more memory than it may have."""

    code = "out_of_memory"


class WorkerLost(BatchFailed):
    """A Python worker of a micro-batch ended in the middle of a task, perhaps because memory ran out."""

    code = "worker_lost"


class BatchCancelled(BatchFailed):
    """A micro-batch was broken off while it ran."""

    code = "batch_cancelled"


class SparkLost(BatchFailed):
    """Spark's Java process does not answer any more."""

    code = "spark_lost"


class Unauthorized(WeftError):
    """A request to the service without a token, or with one that nobody has."""

    code = "unauthorized"


class Forbidden(WeftError):
    """A request to the service that this tenant may not make."""

    code = "forbidden"


class QuotaExceeded(WeftError):
    """A tenant has as much as it may have; `retry_after` seconds from now there may be room."""

    code = "quota_exceeded"

    def __init__(self, message: str, *, detail: str = "", hint: str = "", retry_after: float = 1.0) -> None:
        super().__init__(message, detail=detail, hint=hint)
        self.retry_after = retry_after


class ResultsGone(WeftError):
    """Rows that were asked for are not kept any more."""

    code = "results_gone"


class ReadTimeout(WeftError):
    """Spark took too long to compute rows that somebody wanted to read; the query goes on, its rows are kept."""

    code = "read_timeout"


class InvalidRequest(WeftError):
    """A request to the service that is malformed."""

    code = "invalid_request"


class ServiceUnreachable(WeftError):
    """No service answers at an address, or not as a service of weft would."""

    code = "service_unreachable"


class MissingExtra(WeftError):
    """A part of weft was used whose Python packages are not installed."""

    code = "missing_extra"

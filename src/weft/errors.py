"""All errors that users see: one class hierarchy, and a stable code for each class.

As in PostgreSQL, `message` is a lowercase fragment that names the object; `detail` and `hint` are sentences.
"""

from __future__ import annotations

import json
import re

_SHORTEST_SECRET = 6
"""Shorter values are not hidden: they may occur in a text by chance."""
_HIDDEN = "***"
_INNER = re.compile(r"(?:password|secret|token)\s*=\s*[\"']?([^\"'\s;]+)", re.IGNORECASE)
_secrets: set[str] = set()


def keep_secret(value: str) -> None:
    """Hide this value, each of its lines and every password in it from the text of all errors.

    Many error texts quote errors of other libraries, such as Spark, and those may quote the value of an option.
    """
    parts = [value, json.dumps(value)[1:-1], *value.splitlines(), *_INNER.findall(value)]
    _secrets.update(part for part in map(str.strip, parts) if len(part) >= _SHORTEST_SECRET)


def hide(text: str) -> str:
    """Return the text with secret values replaced, even if the text ends in the middle of one."""
    for value in sorted(_secrets, key=len, reverse=True):
        text = text.replace(value, _HIDDEN)
        for size in range(min(len(value) - 1, len(text)), _SHORTEST_SECRET - 1, -1):
            if text.endswith(value[:size]):
                text = text[:-size] + _HIDDEN
                break
    return text


class WeftError(Exception):
    """The base class of all errors of weft; `code` is stable across releases."""

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

    def one_line(self) -> str:
        """Return message, code and detail in one line, for the log. The hint is meant for the caller only."""
        text = f"{self.message} [{self.code}]" + (f": {self.detail}" if self.detail else "")
        return " ".join(text.split())

    def to_dict(self) -> dict[str, object]:
        """Return the JSON form of the error, for the REST service and `--json`."""
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
    """A query cannot be accepted; the running plan was not changed."""

    code = "query_error"


class QuerySyntaxError(QueryError):
    """The text is not a query; the message names line and column."""

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
    """A window is not possible: its size is zero, or the kinds of window of the relations do not fit together."""

    code = "invalid_window"


class CrossProduct(QueryError):
    """Relations of one query are not connected by any condition."""

    code = "cross_product"


class UnsupportedQuery(QueryError):
    """The text is valid SQL that weft does not execute."""

    code = "unsupported_query"


class QueryTooLarge(QueryError):
    """The text or its nesting is beyond the limits."""

    code = "query_too_large"


class InvalidName(WeftError):
    """A name of a query or stream is not allowed."""

    code = "invalid_name"


class DuplicateQuery(WeftError):
    """A live query already has this name."""

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
    """The declaration of a stream is wrong: schema, time column, lateness or source."""

    code = "invalid_stream"


class StreamInUse(WeftError):
    """A stream cannot be dropped, because queries read the stream or a batch is running."""

    code = "stream_in_use"


class DetachedStream(WeftError):
    """A stream whose source is a DataFrame of the user's program was not declared again after a restart."""

    code = "detached_stream"


class BadFile(WeftError):
    """A source file cannot be read with the schema of its stream; the file was set aside."""

    code = "bad_file"


class InvalidSetting(WeftError):
    """An argument or setting is out of range."""

    code = "invalid_setting"


class StateLocked(WeftError):
    """Another engine is working on this state directory."""

    code = "state_locked"


class StateVersion(WeftError):
    """Another format version wrote the state directory."""

    code = "state_version"


class StateCorrupt(WeftError):
    """Files of the state directory are missing or unreadable."""

    code = "state_corrupt"


class StateUnavailable(WeftError):
    """A file of the state directory cannot be opened or written now; nothing shows that the file is damaged."""

    code = "state_unavailable"


class DiskFull(WeftError):
    """There was no space left to write; nothing of the batch was committed."""

    code = "disk_full"


class JavaMissing(WeftError):
    """There is no Java runtime, or the Java runtime is too old for Spark."""

    code = "java_missing"


class EngineStopped(WeftError):
    """The engine was stopped, or cannot do this in its present state."""

    code = "engine_stopped"


class BatchFailed(WeftError):
    """A batch failed. Unless the hint says otherwise, nothing was committed, and the batch will be run again."""

    code = "batch_failed"


class BatchInterrupted(WeftError):
    """A batch was stopped before its end, because it took too long or one of its queries was dropped."""

    code = "batch_interrupted"


class SourceUnavailable(WeftError):
    """The source of a stream cannot be read now; only queries over that stream wait."""

    code = "source_unavailable"


class OutOfMemory(BatchFailed):
    """A task of a batch needed more memory than allowed."""

    code = "out_of_memory"


class WorkerLost(BatchFailed):
    """A Python worker ended in the middle of a task of a batch, perhaps because memory ran out."""

    code = "worker_lost"


class BatchCancelled(BatchFailed):
    """A running batch was cancelled."""

    code = "batch_cancelled"


class SparkLost(BatchFailed):
    """Spark's Java process no longer answers."""

    code = "spark_lost"


class Unauthorized(WeftError):
    """A request to the service has no token, or a token that belongs to no tenant."""

    code = "unauthorized"


class Forbidden(WeftError):
    """The tenant may not make this request to the service."""

    code = "forbidden"


class QuotaExceeded(WeftError):
    """A tenant reached one of its limits; a retry after `retry_after` seconds may succeed."""

    code = "quota_exceeded"

    def __init__(self, message: str, *, detail: str = "", hint: str = "", retry_after: float = 1.0) -> None:
        super().__init__(message, detail=detail, hint=hint)
        self.retry_after = retry_after


class ResultsGone(WeftError):
    """The requested rows are no longer kept."""

    code = "results_gone"


class ReadTimeout(WeftError):
    """Spark took too long to compute the rows of a read; the query continues and its rows are kept."""

    code = "read_timeout"


class InvalidRequest(WeftError):
    """A request to the service is malformed."""

    code = "invalid_request"


class ServiceUnreachable(WeftError):
    """No service of weft answers at this address."""

    code = "service_unreachable"


class MissingExtra(WeftError):
    """An optional part of weft was used whose Python packages are not installed."""

    code = "missing_extra"

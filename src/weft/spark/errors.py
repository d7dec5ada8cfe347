"""Translation of failed Spark jobs into weft's errors."""

from __future__ import annotations

import os
import re

from py4j.protocol import Py4JNetworkError

from weft.errors import (
    BadFile,
    BatchFailed,
    DiskFull,
    OutOfMemory,
    SourceUnavailable,
    SparkLost,
    StateCorrupt,
    StateUnavailable,
    WeftError,
    WorkerLost,
)
from weft.spark.environment import redacted
from weft.spark.worker import MEMORY_SETTING

_LONGEST = 500
_NO_SPACE = re.compile(r"Errno 28|No space left on device|\[disk_full\]|Disk quota exceeded")
_BAD_FILE = re.compile(r"BadFile: (file \".*?\" [^\[\n]*)\[bad_file\](?:\n\s*detail: ([^\n]*))?")
_DAMAGED = re.compile(r"(?:StateCorrupt|FileMissing): ([^\n]*?) \[state_corrupt\](?:\n\s*detail: ([^\n]*))?")
_NOT_NOW = re.compile(r"StateUnavailable: ([^\n]*?) \[state_unavailable\]\n\s*detail: ([^\n]*)\n\s*hint: ([^\n]*)")
_TRACEBACK = "Traceback (most recent call last):"
_MISSING_MODULE = re.compile(r"ModuleNotFoundError: No module named '(?P<name>weft|numba|numpy|pandas|pyarrow)\b")
_NO_MEMORY = re.compile(
    r"(^|[.\s])(Arrow)?_?(Array)?MemoryError\b|std::bad_alloc|java\.lang\.OutOfMemoryError|SparkOutOfMemoryError"
)
_CRASHED = re.compile(
    r"Python worker exited unexpectedly|Python worker failed to|ExecutorLostFailure"
    # EOF while Spark starts or reads from a Python worker: only java.* frames lie between the exception and Spark's.
    r"|java\.io\.EOFException\s(?:\s*at (?:java\.base/)?java\.[^\n]*\n){0,12}"
    r"\s*at org\.apache\.spark\.(?:sql\.execution|api)\.python\."
)
_STOPPED = re.compile(r"stopped SparkContext|SparkContext (was|has been) shut ?down|SparkContext is shutting down")
_CALLING = re.compile(r"An error occurred while calling \S+\.?$")
_WRAPPED = re.compile(r"^(Caused by: |: )?((org\.apache\.spark|java)[\w.$]*(Exception|Error): )?")
_LOST_TASK = re.compile(r".*most recent failure: Lost task [^:]*?\(TID \d+\) \([^)]*\): ")

_UNAVAILABLE = re.compile(
    r"SourceUnavailable: (file \".*?\" [^\[\n]*)\[source_unavailable\]\n\s*detail: (.*)\n\s*hint: (.*)"
)


def to_user_error(error: BaseException, batch: int, *, committed: bool = False) -> WeftError:
    """Return the error to show to the user for a failed batch. A WeftError is returned unchanged.

    `committed` says that the manifest of the batch was written before the failure.
    """
    if isinstance(error, WeftError):
        return error
    text = str(error)
    outcome = _outcome(committed)
    if _NO_SPACE.search(text):
        return DiskFull(
            f"no space left while running batch {batch}",
            detail=f"{outcome} What was committed before is intact.",
            hint="Free some space and start the engine again: it continues where it was.",
        )
    if match := _UNAVAILABLE.search(text):
        return SourceUnavailable(match.group(1).strip(), detail=match.group(2).strip(), hint=match.group(3).strip())
    if match := _BAD_FILE.search(text):
        declared = "The stream is declared with on_bad_file='fail', so the batch was not run."
        return BadFile(
            match.group(1).strip(),
            detail=_sentence(match.group(2)) + declared,
            hint="Repair or remove the file and start the engine again, or declare on_bad_file='quarantine'.",
        )
    if match := _NOT_NOW.search(text):
        return StateUnavailable(match[1], detail=match[2].strip(), hint=match[3].strip())
    if match := _DAMAGED.search(text):
        return StateCorrupt(match[1], detail=match[2] or "", hint="Restore the state directory from a copy.")
    return _batch_failed(error, batch, cause=cause_of(error), outcome=outcome)


def _sentence(reason: str | None) -> str:
    """Return a worker's reason, redacted, as a sentence with a trailing space; empty without a reason."""
    text = redacted(reason or "", os.environ).strip()[:_LONGEST]
    return "" if not text else f"{text.removesuffix('.')}. "


def _outcome(committed: bool) -> str:
    if committed:
        return "The batch itself is committed; what failed is the tidying up after it."
    return "Nothing of this batch was committed; it is run again at the next start."


def is_stopped_error(error: BaseException) -> bool:
    """Return whether the cause is a stopped Spark context. No Spark job can run in this process after that."""
    return _STOPPED.search(str(error)) is not None


def _batch_failed(error: BaseException, batch: int, *, cause: str, outcome: str) -> BatchFailed:
    text = f"{cause}\n{error}"
    if is_stopped_error(error):
        return SparkLost(
            f"batch {batch} failed: Spark was stopped, and its Java process lives on without it",
            detail=cause,
            hint=f"{outcome} Start the program again; the engine continues where it was.",
        )
    if isinstance(error, (Py4JNetworkError, ConnectionError)):
        return SparkLost(
            f"batch {batch} failed: Spark's Java process does not answer",
            detail=cause,
            hint=f"{outcome} Start the program again; the engine continues where it was.",
        )
    if match := _MISSING_MODULE.search(text):
        return BatchFailed(
            f"batch {batch} failed: Spark's executors have no {match['name']}",
            detail=cause,
            hint=f"{outcome} Install the same version of weft, with what it depends on, for the Python of every "
            "executor (PYSPARK_PYTHON says which that is), or ship an environment with spark.archives.",
        )
    if _NO_MEMORY.search(cause) or (_NO_MEMORY.search(text) and _TRACEBACK not in text):
        return OutOfMemory(
            f"batch {batch} failed: a task needed more memory than it may have",
            detail=cause,
            hint=f"{outcome} Drop the query that needs so much, let streams give smaller batches, or raise "
            f"{MEMORY_SETTING} or spark.driver.memory.",
        )
    if _CRASHED.search(text):
        return WorkerLost(
            f"batch {batch} failed: a Python worker ended in the middle of a task",
            detail=cause,
            hint=f"{outcome} If the system has killed it for its memory, Spark's log and the system's say so.",
        )
    return BatchFailed(f"batch {batch} failed", detail=cause, hint=outcome)


def cause_of(error: BaseException) -> str:
    """Return the line that says why a job failed, redacted and of bounded length: the last line of a Python worker's
    traceback, else Java's innermost error, else the first line."""
    return redacted(_cause_in(str(error)) or type(error).__name__, os.environ)[:_LONGEST]


def _cause_in(text: str) -> str:
    if _TRACEBACK in text:
        for line in text.rpartition(_TRACEBACK)[2].splitlines():
            if line.strip() and not line[0].isspace():
                return line.strip()
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    lines = [line for line in lines if not _CALLING.search(line) and not line.startswith("at ")]
    inner = [line for line in lines if line.startswith("Caused by: ")]
    chosen = inner[-1] if inner else next(iter(lines), "")
    return _WRAPPED.sub("", _LOST_TASK.sub("", _WRAPPED.sub("", chosen))) or chosen

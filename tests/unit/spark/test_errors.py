"""What went wrong in a Spark job, in the user's terms."""

from __future__ import annotations

from pathlib import Path

import pytest
from py4j.protocol import Py4JNetworkError

from weft.errors import (
    BadFile,
    BatchFailed,
    DiskFull,
    OutOfMemory,
    QueryFailed,
    SparkLost,
    StateCorrupt,
    StateUnavailable,
    WeftError,
    WorkerLost,
)
from weft.spark.errors import to_user_error
from weft.storage.data_file import FileMissing

BAD_FILE = BadFile('file "/in/a b.json" cannot be read as json', detail="Invalid value.", hint="Repair it.")


@pytest.mark.parametrize(
    "text",
    [
        "OSError: [Errno 28] No space left on device: '/state/x'",
        "java.io.IOException: No space left on device",
        f"org.apache.spark.SparkException: ...\nweft.errors.DiskFull: {DiskFull('no space left while writing x')}",
        "Disk quota exceeded",
    ],
)
def test_a_full_disk(text: str) -> None:
    found = to_user_error(RuntimeError(text), 7)
    assert isinstance(found, DiskFull)
    assert "batch 7" in found.message


def test_a_bad_file_is_named() -> None:
    found = to_user_error(RuntimeError(f"Job aborted.\n  weft.errors.BadFile: {BAD_FILE}\n  at org.apache"), 7)
    assert isinstance(found, BadFile)
    assert found.message == 'file "/in/a b.json" cannot be read as json'
    assert "on_bad_file" in found.detail


def test_why_a_file_is_bad_is_told() -> None:
    """As it was: only that the stream is declared so, which its owner knows."""
    bad = BadFile('file "/in/a.csv" cannot be read as csv', detail="Row 3 has 2 columns, not 3.", hint="Repair it.")
    found = to_user_error(RuntimeError(f"Job aborted.\n  weft.errors.BadFile: {bad}\n  at org.apache"), 7)
    assert found.message == 'file "/in/a.csv" cannot be read as csv'
    assert found.detail.startswith("Row 3 has 2 columns, not 3. The stream is declared with on_bad_file='fail'")


@pytest.mark.parametrize(
    "damage",
    [
        StateCorrupt('state file "data/7/x.arrow" is damaged', detail="Bytes 1 to 2 are others.", hint="Restore it."),
        FileMissing(Path("/state/data/7/x.arrow")),
    ],
)
def test_a_damaged_file_of_the_state_is_named(damage: StateCorrupt) -> None:
    text = f"Job aborted.\n  {type(damage).__module__}.{type(damage).__name__}: {damage}\n  at org.apache"
    found = to_user_error(RuntimeError(text), 7)
    assert type(found) is StateCorrupt
    assert (found.message, found.detail) == (damage.message, damage.detail)


@pytest.mark.parametrize("error", [QueryFailed("mine"), BAD_FILE])
def test_errors_of_weft_pass(error: WeftError) -> None:
    assert to_user_error(error, 7) is error


@pytest.mark.parametrize(
    ("error", "detail"),
    [
        (RuntimeError("\n\n  first line \nsecond"), "first line"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (ValueError("x" * 2000), "x" * 500),
    ],
)
def test_anything_else_is_a_failed_batch(error: BaseException, detail: str) -> None:
    found = to_user_error(error, 7)
    assert isinstance(found, BatchFailed)
    assert (found.message, found.detail) == ("batch 7 failed", detail)


JOB = """An error occurred while calling o100.collectToPython.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 1 in stage 2.0 failed 4 times, most recent \
failure: Lost task 1.3 in stage 2.0 (TID 9) (10.0.0.3 executor 0): {}
\tat org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:2935)
Caused by: {}
\tat org.apache.spark.api.python.BasePythonRunner.compute(PythonRunner.scala:9)
\t... 1 more"""
WORKER = """org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/usr/lib/worker.py", line 1, in main
    raise X
KeyError: 'first'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/usr/lib/worker.py", line 2, in main
    import that
{}
"""
CRASHED = "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)"


def failed(cause: str) -> WeftError:
    return to_user_error(RuntimeError(JOB.format(cause, cause)), 7)


def test_the_last_line_of_a_worker_s_error_is_told() -> None:
    """The first line only says that there was an error in a worker."""
    captured = "An exception was thrown from the Python worker:\n" + WORKER.format("OSError: unmistakable cause")
    for error in (failed(WORKER.format("OSError: unmistakable cause")), to_user_error(RuntimeError(captured), 7)):
        assert type(error) is BatchFailed
        assert error.detail == "OSError: unmistakable cause"


def test_executors_without_weft() -> None:
    error = failed(WORKER.format("ModuleNotFoundError: No module named 'weft'"))
    assert type(error) is BatchFailed
    assert "executors have no weft" in error.message
    assert "Install" in error.hint


@pytest.mark.parametrize(
    "line",
    [
        "MemoryError",
        "numpy._core._exceptions._ArrayMemoryError: Unable to allocate 7.45 GiB for an array",
        "numpy._core._exceptions.MemoryError: Unable to allocate 7.45 GiB for an array",
        "pyarrow.lib.ArrowMemoryError: malloc of size 4294967296 failed",
    ],
)
def test_too_little_memory_in_a_worker(line: str) -> None:
    error = failed(WORKER.format(line))
    assert isinstance(error, OutOfMemory)
    assert error.detail == line


def test_too_little_memory_in_java() -> None:
    error = failed("java.lang.OutOfMemoryError: Java heap space")
    assert isinstance(error, OutOfMemory)
    assert "Java heap space" in error.detail


def test_an_error_that_only_speaks_of_memory() -> None:
    assert type(failed(WORKER.format("ValueError: no MemoryErrors here"))) is BatchFailed


def test_a_worker_that_crashed() -> None:
    error = failed(CRASHED)
    assert isinstance(error, WorkerLost)
    assert error.detail.startswith("Python worker exited unexpectedly")


def test_a_worker_that_is_gone_before_it_answers() -> None:
    """Spark says no more than that the stream has ended: which that was is in its own frames."""
    frames = (
        "\tat java.base/java.io.DataInputStream.readInt(DataInputStream.java:398)\n"
        "\tat org.apache.spark.api.python.PythonWorkerFactory.createWorker$1(PythonWorkerFactory.scala:157)\n"
    )
    assert isinstance(failed(f"java.io.EOFException\n{frames}"), WorkerLost)
    assert type(failed("java.io.EOFException\n\tat org.apache.hadoop.fs.Reader.read(Reader.java:1)\n")) is BatchFailed


def test_java_is_gone() -> None:
    assert isinstance(to_user_error(Py4JNetworkError("Answer from Java side is empty"), 7), SparkLost)
    stopped = "java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext."
    assert isinstance(to_user_error(RuntimeError(stopped), 7), SparkLost)
    cancelled = "Job 7 cancelled because SparkContext was shut down"
    assert isinstance(to_user_error(RuntimeError(cancelled), 7), SparkLost)
    assert isinstance(to_user_error(ConnectionRefusedError(111, "Connection refused"), 7), SparkLost)


def test_the_innermost_error_of_java_is_told() -> None:
    assert failed("java.io.FileNotFoundException: /in/x does not exist").detail == "/in/x does not exist"


def test_what_is_committed_is_said() -> None:
    for error in (RuntimeError("gone"), RuntimeError("No space left on device"), RuntimeError(CRASHED)):
        before, after = to_user_error(error, 7), to_user_error(error, 7, committed=True)
        assert "Nothing of this batch was committed" in str(before)
        assert "Nothing" not in str(after)
        assert "is committed" in str(after)


def test_no_secret_and_no_novel_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_ADS_TOKEN", "tok-12345678")
    text = "OSError: s3://me:hidden@bucket tok-12345678 password=hidden " + "x" * 5000
    error = failed(WORKER.format(text))
    assert "hidden" not in str(error)
    assert "tok-12345678" not in str(error)
    assert len(str(error)) < 1500


def test_a_state_file_that_cannot_be_opened_now() -> None:
    own = StateUnavailable(
        'state file "data/1/x.arrow" cannot be opened now', detail="Too many open files", hint="Wait."
    )
    error = failed(WORKER.format(f"weft.errors.StateUnavailable: {own}"))
    assert isinstance(error, StateUnavailable)
    assert (error.message, error.detail, error.hint) == (own.message, own.detail, own.hint)

"""What went wrong in a Spark job, in the user's terms."""

from __future__ import annotations

import pytest

from weft.errors import BadFile, BatchFailed, DiskFull, QueryFailed, WeftError
from weft.runtime.failures import to_user_error

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

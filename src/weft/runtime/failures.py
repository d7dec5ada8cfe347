"""What went wrong in a Spark job, in the user's terms."""

from __future__ import annotations

import re

from weft.errors import BadFile, BatchFailed, DiskFull, WeftError

_NO_SPACE = re.compile(r"Errno 28|No space left on device|\[disk_full\]|Disk quota exceeded")
_BAD_FILE = re.compile(r"BadFile: (file \".*?\" [^\[\n]*)\[bad_file\]")


def to_user_error(error: BaseException, batch: int) -> WeftError:
    """The error a user should see for a failed batch; ours pass unchanged."""
    if isinstance(error, WeftError):
        return error
    text = str(error)
    if _NO_SPACE.search(text):
        return DiskFull(
            f"no space left while running batch {batch}",
            detail="Nothing of this batch was committed; what was committed before is intact.",
            hint="Free some space and start the engine again: it continues where it was.",
        )
    if found := _BAD_FILE.search(text):
        return BadFile(
            found.group(1).strip(),
            detail="The stream is declared with on_bad_file='fail', so the batch was not run.",
            hint="Repair or remove the file and start the engine again, or declare on_bad_file='quarantine'.",
        )
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return BatchFailed(
        f"batch {batch} failed",
        detail=lines[0][:500] if lines else type(error).__name__,
        hint="Nothing of it was committed; it is run again at the next start.",
    )

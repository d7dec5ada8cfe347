"""Errors of files in the state directory: damaged, missing, or only not readable now."""

from __future__ import annotations

import errno
import os

from weft.errors import StateCorrupt, StateUnavailable

RESTORE = "Restore the state directory from a copy, or give a new path."
"""The hint for errors about a damaged state directory."""
_PASSING = frozenset({
    errno.EMFILE, errno.ENFILE, errno.EIO, errno.EACCES, errno.EPERM, errno.ENOMEM, errno.EAGAIN, errno.EINTR,
    errno.EBUSY, errno.ESTALE, errno.ETIMEDOUT, errno.ENODEV, errno.ENXIO, errno.ENOTCONN, errno.EHOSTDOWN,
    errno.EHOSTUNREACH, errno.ENETDOWN, errno.ENETUNREACH,
})  # fmt: skip
"""Error numbers of failures to open a file that may pass and do not mean that the file is damaged."""


def unreadable(name: str, error: Exception) -> StateCorrupt | StateUnavailable:
    """Return the error to raise for an unreadable file; `name` is its path in the state directory.

    The file counts as damaged unless it cannot even be opened. Too many open files, too little memory, permissions or
    an unresponsive disk may pass, and restoring a copy of the state directory would not help.
    """
    number = getattr(error, "errno", None)
    if number not in _PASSING:
        return StateCorrupt(f'state file "{name}" cannot be read', detail=f"{error}.", hint=RESTORE)
    return StateUnavailable(
        f'state file "{name}" cannot be opened now',
        detail=f"{os.strerror(number)} ({errno.errorcode[number]})",
        hint="Nothing says that it is damaged. See to open files, memory, permissions and the disk; it is tried again.",
    )


def missing(name: str) -> StateCorrupt:
    """Return the error to raise for a missing file; `name` is its path in the state directory."""
    return StateCorrupt(f'state file "{name}" is missing', hint=RESTORE)

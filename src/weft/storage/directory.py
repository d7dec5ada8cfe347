"""The state directory: one owner at a time, one format version, atomic writes, no path that leaves it."""

from __future__ import annotations

import errno
import fcntl
import json
import logging
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from weft.errors import DiskFull, InvalidSetting, StateCorrupt, StateLocked, StateUnavailable, StateVersion
from weft.plan.paths import local_path
from weft.storage.head import HEAD_FILE, create_head
from weft.storage.sealed_json import seal, unseal

_log = logging.getLogger("weft")
FORMAT = 3
_FORMAT_FILE = "format.json"
_LOCK_FILE = "lock"
_MODE = 0o700
"""Of the directory: rows of all tenants are below it."""
IDENTITY_FILE = "identity.json"
"""A random name, by which others know the directory wherever it is moved to; made with it, and never again."""
RESTORE = "Restore the state directory from a copy, or give a new path."
"""What to do about a damaged state directory."""
_FOLDERS = (
    "streams", "changelog", "commits", "checkpoints", "data", "packs", "quarantine", "sinks", "inputs", "ahead",
)  # fmt: skip


@contextmanager
def disk_errors(what: str) -> Iterator[None]:
    """Turn "no space left" into the user's error; other failures pass."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise DiskFull(
            f"no space left while writing {what}",
            detail="Nothing of this batch was committed; what was committed before is intact.",
            hint="Free some space and start the engine again: it continues where it was.",
        ) from error


_PASSING = frozenset({
    errno.EMFILE, errno.ENFILE, errno.EIO, errno.EACCES, errno.EPERM, errno.ENOMEM, errno.EAGAIN, errno.EINTR,
    errno.EBUSY, errno.ESTALE, errno.ETIMEDOUT, errno.ENODEV, errno.ENXIO, errno.ENOTCONN, errno.EHOSTDOWN,
    errno.EHOSTUNREACH, errno.ENETDOWN, errno.ENETUNREACH,
})  # fmt: skip
"""Reasons why a file cannot be opened that say nothing about what is in it."""


def state_path(path: str | os.PathLike[str]) -> Path:
    """The path of a state directory, which need not be there; an address is refused."""
    hint = "Give a directory that the driver and all executors reach under the same path."
    return Path(local_path(os.fspath(path), "state directory", hint=hint))


class Directory:
    """Paths below one root, locked for this process until `close`."""

    def __init__(self, root: Path, lock: int) -> None:
        self.root = root
        self._lock = lock

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Directory:
        """Open or create a state directory; a second owner and other versions are refused."""
        root = state_path(path).resolve()
        with disk_errors("the state directory"):
            try:
                root.mkdir(mode=_MODE, parents=True, exist_ok=True)
            except (FileExistsError, NotADirectoryError) as error:
                raise InvalidSetting(
                    f'state directory "{root}" is a file, or below one', hint="Give a directory, or a new path."
                ) from error
            lock = _take_lock(root)
            try:
                _check_version(root)
                for folder in _FOLDERS:
                    (root / folder).mkdir(exist_ok=True)
            except BaseException:
                os.close(lock)
                raise
        return cls(root, lock)

    def close(self) -> None:
        """Give the directory up; harmless when repeated."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def path(self, *parts: str) -> Path:
        """A path below the root; parts that would leave it are refused."""
        path = self.root.joinpath(*parts)
        if not path.is_relative_to(self.root) or ".." in path.parts:
            raise InvalidSetting(f'path "{"/".join(parts)}" leaves the state directory')
        return path

    def write_json(self, value: object, *parts: str) -> str:
        """Put a JSON file in place atomically: readers see the old one or the new one, also after a power failure.

        Which of the two it is then is certain only once its folder is flushed, too. Returns its digest.
        """
        path = self.path(*parts)
        data, digest = seal("/".join(parts), value)
        temporary = path.with_name(path.name + ".tmp")
        with disk_errors(path.name):
            try:
                _write_new(temporary, data)
                os.replace(temporary, path)
            except OSError:
                temporary.unlink(missing_ok=True)
                raise
        return digest

    def create_json(self, value: object, *parts: str) -> str:
        """Write a JSON file whose name is new, durably; one that was cut short by a crash is not as it was written.

        Returns its digest. It is one flush instead of two: of a new file that also makes the name durable.
        """
        path = self.path(*parts)
        data, digest = seal("/".join(parts), value)
        with disk_errors(path.name):
            try:
                _write_new(path, data)
            except BaseException:  # also if somebody interrupts it: whoever asked for it is told that it is not there
                path.unlink(missing_ok=True)
                raise
        return digest

    def read_json(self, *parts: str) -> Any:
        """A JSON file's value; None if there is no such file."""
        found = self.read_sealed(*parts)
        return None if found is None else found[0]

    def read_sealed(self, *parts: str) -> tuple[Any, str] | None:
        """A JSON file's value and its digest; None if there is no such file."""
        path = self.path(*parts)
        try:
            return unseal("/".join(parts), path.read_bytes())
        except FileNotFoundError:
            return None
        except (ValueError, OSError) as error:
            raise unreadable("/".join(parts), error) from error

    def append_json(self, value: object, *parts: str) -> str:
        """Add a line to a JSON-lines file; a line cut short by a crash or a full disk does not count. Returns its
        digest."""
        path = self.path(*parts)
        data, digest = seal("/".join(parts), value)
        line = data + b"\n"
        with disk_errors(path.name), open(path, "ab", buffering=0) as file:
            end = os.fstat(file.fileno()).st_size
            try:
                if file.write(line) != len(line):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                os.fsync(file.fileno())
            except BaseException:
                os.ftruncate(file.fileno(), end)
                raise
        return digest

    def read_lines(self, *parts: str) -> tuple[list[tuple[Any, str]], int]:
        """The whole lines of a JSON-lines file, each with its digest; and how many bytes they are: what is behind them
        is a line that was cut short."""
        path = self.path(*parts)
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return [], 0
        whole = data[: data.rfind(b"\n") + 1]
        try:
            return [unseal("/".join(parts), line) for line in whole.split(b"\n")[:-1]], len(whole)
        except ValueError as error:
            raise unreadable("/".join(parts), error) from error

    def numbered(self, folder: str) -> list[tuple[int, Path]]:
        """Entries of a folder that are named by a number, in order; leftovers of torn writes are ignored."""
        found = []
        for entry in os.scandir(self.path(folder)):
            stem = entry.name.split(".", 1)[0]
            if stem.isdigit() and not entry.name.endswith(".tmp"):
                found.append((int(stem), Path(entry.path)))
        return sorted(found)

    def remove_tree(self, *parts: str) -> None:
        """Remove a folder below the root, if it is there."""
        shutil.rmtree(self.path(*parts), ignore_errors=True)


def number_name(number: int, suffix: str = "") -> str:
    """File name of a batch number; sorts as the numbers do."""
    return f"{number:012d}{suffix}"


def _take_lock(root: Path) -> int:
    lock = os.open(root / _LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        holder = os.read(lock, 64).decode(errors="replace").strip()
        os.close(lock)
        raise StateLocked(
            f'state directory "{root}" is in use by another engine',
            detail=f"It is held by process {holder}." if holder else "",
            hint="Stop that engine first, or give this one another path.",
        ) from error
    os.ftruncate(lock, 0)
    os.pwrite(lock, str(os.getpid()).encode(), 0)
    return lock


def _close_to_others(root: Path) -> None:
    """Let only its owner in: the directory may have been there already, empty and open to everybody."""
    try:
        root.chmod(_MODE)
    except PermissionError:  # a mounted volume may be somebody else's, and is all there is
        _log.warning('state directory "%s" belongs to somebody else: who else may read it is up to its owner', root)


def _check_version(root: Path) -> None:
    path = root / _FORMAT_FILE
    try:
        found = json.loads(path.read_bytes())["format"]
    except FileNotFoundError:
        ours = (
            _LOCK_FILE,
            HEAD_FILE,
            IDENTITY_FILE,
            _FORMAT_FILE + ".tmp",
        )  # all that there is after a crash at the very beginning
        strangers = sorted(entry.name for entry in os.scandir(root) if entry.name not in ours)
        if HEAD_FILE in os.listdir(root) and set(strangers) & set(_FOLDERS):
            raise missing(_FORMAT_FILE) from None
        if strangers:
            raise StateVersion(
                f'directory "{root}" is not a weft state directory',
                detail=f"It holds other files, such as {strangers[0]!r}.",
                hint="Give an empty or new directory.",
            ) from None
        _close_to_others(root)
        create_head(root)
        _write_new(root / IDENTITY_FILE, seal(IDENTITY_FILE, {"id": uuid4().hex})[0])
        temporary = path.with_name(path.name + ".tmp")
        _write_new(temporary, json.dumps({"format": FORMAT}).encode())
        os.replace(temporary, path)
        flush_folder(root)
        return
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise unreadable(_FORMAT_FILE, error) from error
    if found != FORMAT:
        raise StateVersion(
            f'state directory "{root}" has format {found}, this weft reads format {FORMAT}',
            detail=f'The file "{_FORMAT_FILE}" in it says so.',
            hint="Use the weft release that wrote it, or give a new path.",
        )
    _check_identity(root)


def _check_identity(root: Path) -> None:
    """Another identity would be another directory to the sinks of its queries, which then refuse it."""
    try:
        unseal(IDENTITY_FILE, (root / IDENTITY_FILE).read_bytes())
    except FileNotFoundError:
        raise missing(IDENTITY_FILE) from None
    except (ValueError, OSError) as error:
        raise unreadable(IDENTITY_FILE, error) from error


def unreadable(name: str, error: Exception) -> StateCorrupt | StateUnavailable:
    """What to raise for a file of the state directory, by its path in it, that cannot be read.

    It is not as it was written, unless it cannot even be opened: too many open files, a lack of memory, permissions or
    a disk that does not answer may pass, and a copy of the state directory would not help.
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
    """A file of the state directory that is not there, by its path in it."""
    return StateCorrupt(f'state file "{name}" is missing', hint=RESTORE)


def flush_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _write_new(path: Path, data: bytes) -> None:
    with open(path, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())

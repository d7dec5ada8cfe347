"""The state directory: one owner at a time, one format version, atomic writes, and no path that leads out of it."""

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

from weft.errors import DiskFull, InvalidSetting, StateLocked, StateVersion
from weft.plan.paths import local_path
from weft.storage.head import HEAD_FILE, create_head
from weft.storage.sealed_json import seal, unseal
from weft.storage.state_errors import missing, unreadable

_log = logging.getLogger("weft")
FORMAT = 3
_FORMAT_FILE = "format.json"
_LOCK_FILE = "lock"
_MODE = 0o700
"""Permissions of the directory, which contains the rows of all tenants."""
IDENTITY_FILE = "identity.json"
"""File with a random id, created with the directory and never changed. Sinks recognise a moved directory by it."""
_FOLDERS = (
    "streams", "changelog", "commits", "checkpoints", "data", "packs", "quarantine", "sinks", "inputs", "ahead",
)  # fmt: skip


@contextmanager
def disk_errors(what: str) -> Iterator[None]:
    """Turn an OSError for a full disk or an exhausted quota into DiskFull. Other errors pass."""
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


def state_path(path: str | os.PathLike[str]) -> Path:
    """Return the path of a state directory, which need not exist. Raise InvalidSetting if `path` is a URL."""
    hint = "Give a directory that the driver and all executors reach under the same path."
    return Path(local_path(os.fspath(path), "state directory", hint=hint))


class Directory:
    """A state directory, locked for this process until `close`."""

    def __init__(self, root: Path, lock: int) -> None:
        self.root = root
        self._lock = lock

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Directory:
        """Open or create a state directory. Raise StateLocked if it is in use, StateVersion if its format differs."""
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
        """Release the lock. Idempotent."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def path(self, *parts: str) -> Path:
        """Return a path below the root. Raise InvalidSetting if the parts lead out of it."""
        path = self.root.joinpath(*parts)
        if not path.is_relative_to(self.root) or ".." in path.parts:
            raise InvalidSetting(f'path "{"/".join(parts)}" leaves the state directory')
        return path

    def write_json(self, value: object, *parts: str) -> str:
        """Replace a JSON file atomically and return its digest.

        Readers see the old or the new file, also after a power failure. The new file is certain to survive one only
        after the folder is flushed (`flush_folder`).
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
        """Write a JSON file with a new name durably and return its digest.

        The digest of a file that a crash cut short does not match. Flushing a new file also makes its name durable, so
        this takes one flush instead of two.
        """
        path = self.path(*parts)
        data, digest = seal("/".join(parts), value)
        with disk_errors(path.name):
            try:
                _write_new(path, data)
            except BaseException:  # also on interrupts: the caller is told that the file was not written
                path.unlink(missing_ok=True)
                raise
        return digest

    def read_json(self, *parts: str) -> Any:
        """Return the value of a JSON file; None if the file does not exist."""
        sealed = self.read_sealed(*parts)
        return None if sealed is None else sealed[0]

    def read_sealed(self, *parts: str) -> tuple[Any, str] | None:
        """Return the value and the digest of a JSON file; None if the file does not exist."""
        path = self.path(*parts)
        try:
            return unseal("/".join(parts), path.read_bytes())
        except FileNotFoundError:
            return None
        except (ValueError, OSError) as error:
            raise unreadable("/".join(parts), error) from error

    def append_json(self, value: object, *parts: str) -> str:
        """Append a line to a JSON-lines file durably and return its digest. Readers ignore a line that is cut short."""
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
        """Return the complete lines of a JSON-lines file with their digests, and the number of bytes they take. A line
        that was cut short may follow them."""
        path = self.path(*parts)
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return [], 0
        except OSError as error:
            raise unreadable("/".join(parts), error) from error
        complete = data[: data.rfind(b"\n") + 1]
        try:
            return [unseal("/".join(parts), line) for line in complete.split(b"\n")[:-1]], len(complete)
        except ValueError as error:
            raise unreadable("/".join(parts), error) from error

    def numbered(self, folder: str) -> list[tuple[int, Path]]:
        """Return the entries of a folder whose names are numbers, in order. Temporary files are ignored."""
        entries = []
        for entry in os.scandir(self.path(folder)):
            stem = entry.name.split(".", 1)[0]
            if stem.isdigit() and not entry.name.endswith(".tmp"):
                entries.append((int(stem), Path(entry.path)))
        return sorted(entries)

    def remove_tree(self, *parts: str) -> None:
        """Remove a folder below the root, if it exists."""
        shutil.rmtree(self.path(*parts), ignore_errors=True)


def number_name(number: int, suffix: str = "") -> str:
    """Return the file name of a batch number. Names sort in the order of their numbers."""
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
    """Restrict access to the owner. The directory may have existed before, empty and open to everybody."""
    try:
        root.chmod(_MODE)
    except PermissionError:  # a mounted volume may belong to another user, and must be usable nevertheless
        _log.warning('state directory "%s" belongs to somebody else: who else may read it is up to its owner', root)


def _check_version(root: Path) -> None:
    path = root / _FORMAT_FILE
    try:
        format_ = json.loads(path.read_bytes())["format"]
    except FileNotFoundError:
        # A crash while the directory is created leaves only these files.
        own = (_LOCK_FILE, HEAD_FILE, IDENTITY_FILE, _FORMAT_FILE + ".tmp")
        others = sorted(entry.name for entry in os.scandir(root) if entry.name not in own)
        if HEAD_FILE in os.listdir(root) and set(others) & set(_FOLDERS):
            raise missing(_FORMAT_FILE) from None
        if others:
            raise StateVersion(
                f'directory "{root}" is not a weft state directory',
                detail=f"It holds other files, such as {others[0]!r}.",
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
    if format_ != FORMAT:
        raise StateVersion(
            f'state directory "{root}" has format {format_}, this weft reads format {FORMAT}',
            detail=f'The file "{_FORMAT_FILE}" in it says so.',
            hint="Use the weft release that wrote it, or give a new path.",
        )
    _check_identity(root)


def _check_identity(root: Path) -> None:
    """Raise StateCorrupt if the identity is lost. Sinks would refuse a directory with a new one."""
    try:
        unseal(IDENTITY_FILE, (root / IDENTITY_FILE).read_bytes())
    except FileNotFoundError:
        raise missing(IDENTITY_FILE) from None
    except (ValueError, OSError) as error:
        raise unreadable(IDENTITY_FILE, error) from error


def flush_folder(folder: Path) -> None:
    """Make the names in a folder durable (fsync)."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_new(path: Path, data: bytes) -> None:
    with open(path, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())

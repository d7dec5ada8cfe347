"""The folder of data files: one folder in it for each batch that has files; what nobody needs is removed."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress

from weft.storage.directory import Directory, number_name
from weft.storage.journal import Manifest


class DataFolder:
    """Removes files from the data folder of a state directory, and folders of batches with their last file."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory

    def remove(self, names: Iterable[str]) -> None:
        """Remove files by their path in it, as far as they are there."""
        for name in names:
            path = self._directory.path("data", *name.split("/"))
            path.unlink(missing_ok=True)
            with suppress(OSError):
                path.parent.rmdir()

    def remove_attempt(self, batch: int, attempt: str) -> None:
        """Remove the files of an attempt at a batch that failed."""
        folder = self._directory.path("data", number_name(batch))
        for path in folder.glob(f"*-{attempt}-*"):
            path.unlink(missing_ok=True)
        with suppress(OSError):
            folder.rmdir()

    def remove_unnamed(self, manifest: Manifest) -> None:
        """Remove what is in the folder of a committed batch and not in its manifest: files of tasks that failed, that
        ran twice and came second, or that were only for the stages of the batch."""
        folder = self._directory.path("data", number_name(manifest.batch))
        named = manifest.named_files()
        with suppress(FileNotFoundError):
            for entry in list(os.scandir(folder)):
                if f"{folder.name}/{entry.name}" not in named:
                    os.unlink(entry.path)
            if not named:
                folder.rmdir()

    def remove_uncommitted(self, next_batch: int) -> None:
        """After a restart, when nothing of the journal is missing: remove the folders of batches that never were."""
        for batch, folder in self._directory.numbered("data"):
            if batch >= next_batch:
                self._directory.remove_tree("data", folder.name)

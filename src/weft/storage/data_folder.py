"""Removal of files from the data folder, which has one subfolder per batch that wrote files."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress

from weft.storage.directory import Directory, number_name
from weft.storage.journal import Manifest


class DataFolder:
    """The data folder of a state directory. The subfolder of a batch is removed together with its last file."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory

    def remove(self, names: Iterable[str]) -> None:
        """Remove files by their paths relative to the data folder. Missing files are ignored."""
        for name in names:
            path = self._directory.path("data", *name.split("/"))
            path.unlink(missing_ok=True)
            with suppress(OSError):
                path.parent.rmdir()

    def remove_attempt(self, batch: int, attempt: str) -> None:
        """Remove the files that a failed attempt at a batch wrote."""
        folder = self._directory.path("data", number_name(batch))
        for path in folder.glob(f"*-{attempt}-*"):
            path.unlink(missing_ok=True)
        with suppress(OSError):
            folder.rmdir()

    def remove_unnamed(self, manifest: Manifest) -> None:
        """Remove the files in the folder of a committed batch that its manifest does not name: those of failed tasks,
        of the slower of two duplicate tasks, and of exchanges between the stages of the batch."""
        folder = self._directory.path("data", number_name(manifest.batch))
        named = manifest.named_files()
        with suppress(FileNotFoundError):
            for entry in list(os.scandir(folder)):
                if f"{folder.name}/{entry.name}" not in named:
                    os.unlink(entry.path)
            if not named:
                folder.rmdir()

    def remove_uncommitted(self, next_batch: int) -> None:
        """Remove the folders of batches that were never committed. Call only after the whole journal was read."""
        for batch, folder in self._directory.numbered("data"):
            if batch >= next_batch:
                self._directory.remove_tree("data", folder.name)

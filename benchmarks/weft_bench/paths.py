"""Where child processes find weft and the benchmark."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path


def package_folders() -> list[str]:
    """The folders from which this process imports weft and weft_bench."""
    specs = [find_spec(name) for name in ("weft", "weft_bench")]
    folders = [str(Path(spec.origin).parents[1]) for spec in specs if spec is not None and spec.origin is not None]
    return list(dict.fromkeys(folders))


def python_path() -> str:
    """A value of PYTHONPATH with which a child imports the same weft and weft_bench as this process."""
    return os.pathsep.join([*package_folders(), *filter(None, [os.environ.get("PYTHONPATH")])])

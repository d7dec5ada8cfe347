"""Detection of the Java runtime that Spark will start, so that a missing or old one gives a clear error."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from weft.errors import JavaMissing

OLDEST = 17
HINT = (
    f"Spark needs a Java runtime, version {OLDEST} or newer. "
    "Debian, Ubuntu, Windows with WSL: sudo apt-get install openjdk-17-jre-headless. "
    "Fedora, RHEL: sudo dnf install java-21-openjdk-headless. "
    'macOS: brew install openjdk@17, then set JAVA_HOME to "$(brew --prefix openjdk@17)". '
    "If there is one already, set JAVA_HOME to its directory (the one that has bin/java)."
)

# Vendors word `java -version` differently, but all quote the version. Before Java 9 the major version came second.
_VERSION = re.compile(r'version "(?:1\.)?(?P<major>\d+)[^"]*"')
_ANSWER_WITHIN_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Java:
    """A working Java runtime."""

    executable: Path
    major: int


def parse_major(text: str) -> int | None:
    """Return the major version in the output of `java -version` (8 for "1.8.0_392", 25 for "25-ea") or None."""
    match = _VERSION.search(text)
    return int(match["major"]) if match else None


def require_java(environment: Mapping[str, str] = os.environ) -> Java:
    """Return the Java runtime that Spark uses with `environment`. Raise JavaMissing if it is missing or too old."""
    executable = _find(environment)
    text = _version_text(executable)
    major = parse_major(text)
    if major is None:
        raise JavaMissing(
            f'"{executable} -version" does not name a version, so it is no working Java',
            detail=f"It said: {text.strip() or 'nothing'}",
            hint=HINT,
        )
    if major < OLDEST:
        raise JavaMissing(f'"{executable}" is Java {major}, which is too old', hint=HINT)
    return Java(executable, major)


def _find(environment: Mapping[str, str]) -> Path:
    """Return the `java` executable by the rule of Spark's launcher: JAVA_HOME if it is set, otherwise the PATH."""
    if home := environment.get("JAVA_HOME"):
        executable = Path(home, "bin", "java")
        if not (executable.is_file() and os.access(executable, os.X_OK)):
            raise JavaMissing(f'JAVA_HOME is "{home}", but there is no bin/java in it', hint=HINT)
        return executable
    path = shutil.which("java", path=environment.get("PATH", ""))
    if path is None:
        raise JavaMissing("no Java found: JAVA_HOME is not set and no java is on the PATH", hint=HINT)
    return Path(path)


def _version_text(executable: Path) -> str:
    try:
        answer = subprocess.run(
            [executable, "-version"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,  # java prints the version to stderr
            text=True,
            errors="replace",
            timeout=_ANSWER_WITHIN_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise JavaMissing(f'"{executable}" cannot be run', detail=f"{error}.", hint=HINT) from error
    return answer.stdout

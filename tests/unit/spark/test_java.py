"""Finding Java: the version parser, and the search, in Python and in scripts/require-java alike."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from weft.errors import JavaMissing
from weft.spark.java import HINT, OLDEST, parse_major, require_java

SCRIPT = Path(__file__).parents[3] / "scripts" / "require-java"

VERSIONS = [
    ('java version "1.8.0_392"\nJava(TM) SE Runtime Environment (build 1.8.0_392-b08)', 8),
    ('openjdk version "1.7.0"', 7),
    ('openjdk version "9" 2017-09-21', 9),
    ('openjdk version "11.0.21" 2023-10-17 LTS\nOpenJDK Runtime Environment Corretto-11.0.21.9.1', 11),
    ('openjdk version "17.0.15" 2025-04-15', 17),
    ('java version "17.0.9" 2023-10-17 LTS', 17),
    ('openjdk version "21" 2023-09-19', 21),
    ('openjdk version "21.0.1+12-LTS"', 21),
    ('openjdk version "25-ea" 2025-09-16', 25),
    ('openjdk version "100.0.1" 2062-03-20', 100),
    ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "17.0.15" 2025-04-15', 17),
    ("The operation couldn’t be completed. Unable to locate a Java Runtime.", None),
    ('openjdk version "unknown"', None),
    ("", None),
]


def fake_java(directory: Path, text: str) -> Path:
    """A JAVA_HOME whose bin/java answers `text`, as java does: on stderr."""
    executable = directory / "bin" / "java"
    executable.parent.mkdir(parents=True)
    answer = directory / "answer"
    answer.write_text(text)
    executable.write_text(f'#!/bin/sh\nexec cat "{answer}" >&2\n')
    executable.chmod(0o755)
    return directory


def run_script(environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["/bin/sh", SCRIPT], env=environment, capture_output=True, text=True, check=False, timeout=60)


def without_java(directory: Path) -> str:
    """A PATH with the tools the script needs, and no java."""
    directory.mkdir()
    for tool in ("cat", "sed", "head"):
        found = next(Path(part, tool) for part in os.environ["PATH"].split(os.pathsep) if Path(part, tool).exists())
        (directory / tool).symlink_to(found)
    return str(directory)


@pytest.mark.parametrize(("text", "major"), VERSIONS)
def test_parse_major(text: str, major: int | None) -> None:
    assert parse_major(text) == major


@pytest.mark.parametrize(("text", "major"), VERSIONS)
def test_python_and_script_agree(tmp_path: Path, text: str, major: int | None) -> None:
    home = fake_java(tmp_path / "home", text)
    environment = {"JAVA_HOME": str(home), "PATH": os.environ["PATH"]}
    script = run_script(environment)
    if major is not None and major >= OLDEST:
        assert require_java(environment).major == major
        assert require_java(environment).executable == home / "bin" / "java"
        assert (script.returncode, script.stdout, script.stderr) == (0, "", "")
    else:
        with pytest.raises(JavaMissing, match="too old" if major else "does not name a version") as caught:
            require_java(environment)
        assert caught.value.hint == HINT
        assert script.returncode == 1
        assert ("too old" if major else "does not name a version") in script.stderr


def test_java_home_goes_before_the_path(tmp_path: Path) -> None:
    old = fake_java(tmp_path / "old", 'openjdk version "11.0.2"')
    new = fake_java(tmp_path / "new", 'openjdk version "21.0.2"')
    path = f"{old / 'bin'}{os.pathsep}{os.environ['PATH']}"
    both = {"JAVA_HOME": str(new), "PATH": path}
    assert require_java(both).major == 21
    assert run_script(both).returncode == 0
    only_path = {"PATH": path}
    with pytest.raises(JavaMissing, match="Java 11, which is too old"):
        require_java(only_path)
    assert "which is too old" in run_script(only_path).stderr


def test_an_empty_java_home_is_none(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "home", 'openjdk version "17.0.15"')
    environment = {"JAVA_HOME": "", "PATH": f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    assert require_java(environment).executable == home / "bin" / "java"
    assert run_script(environment).returncode == 0


def test_no_java_at_all(tmp_path: Path) -> None:
    environment = {"PATH": without_java(tmp_path / "bin")}
    with pytest.raises(JavaMissing, match="no Java found"):
        require_java(environment)
    script = run_script(environment)
    assert script.returncode == 1
    assert "no Java found" in script.stderr


def test_java_home_without_java(tmp_path: Path) -> None:
    environment = {"JAVA_HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    with pytest.raises(JavaMissing, match=re.escape(f'JAVA_HOME is "{tmp_path}"')):
        require_java(environment)
    assert f'JAVA_HOME is "{tmp_path}"' in run_script(environment).stderr


def test_a_java_that_cannot_run(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "home", "")
    (home / "bin" / "java").write_bytes(b"\x00not a program")
    environment = {"JAVA_HOME": str(home), "PATH": os.environ["PATH"]}
    with pytest.raises(JavaMissing, match="cannot be run"):
        require_java(environment)
    assert run_script(environment).returncode == 1


def test_both_say_how_to_install_one(tmp_path: Path) -> None:
    said = run_script({"PATH": without_java(tmp_path / "bin")}).stderr
    for command in ("sudo apt-get install openjdk-17-jre-headless", "brew install openjdk@17", "WSL", "JAVA_HOME"):
        assert command in said
        assert command in HINT


def test_this_machine_has_java() -> None:
    assert require_java().major >= OLDEST

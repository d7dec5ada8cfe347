"""Apache Flink, installed on demand into a virtual environment of its own; its program is `flink_program.py`."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError
from xml.etree import ElementTree

import weft_bench

Tell = Callable[[str], None]

FOLDER = Path(".bench/flink")
_REQUIREMENTS = Path(__file__).with_name("flink_requirements.txt")
_STAMP = "installed"
_PARTS = (
    "org.apache.flink:flink-sql-parquet:2.3.0",
    # The Parquet format reads through classes of Hadoop, which Flink leaves to the user.
    "org.apache.hadoop:hadoop-client-api:3.4.2",
    "org.apache.hadoop:hadoop-client-runtime:3.4.2",
)
_PLUGIN = "lib/python*/site-packages/pyflink/plugins/metrics-jmx/*.jar"
_TIMEOUT = 900.0


class FlinkNotInstalled(Exception):
    """Something that Flink needs could not be had; says what."""


@dataclass(frozen=True, slots=True)
class FlinkHome:
    """An installed Flink."""

    folder: Path

    @property
    def python(self) -> Path:
        """The interpreter of its virtual environment."""
        return self.folder / "venv" / "bin" / "python"

    def command(self) -> list[str]:
        """How its program is started."""
        return [str(self.python), "-P", "-m", "weft_bench.systems.flink_program"]

    def environment(self, given: Mapping[str, str]) -> dict[str, str]:
        """The environment of its program: the given one, with what Flink has to find."""
        jars = sorted(str(jar) for jar in (self.folder / "jars").glob("*.jar"))
        ours = {
            "PYTHONPATH": str(self.folder / "program"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "HADOOP_CLASSPATH": os.pathsep.join(jars),
        }
        # Those of another Flink would be taken for this one's.
        kept = {key: value for key, value in given.items() if not key.startswith("FLINK_")}
        return kept | ours


def prepare(folder: Path = FOLDER, tell: Tell = print) -> FlinkHome:
    """Install Flink into `folder` unless it is there; raises FlinkNotInstalled with what could not be had."""
    home = FlinkHome(folder.absolute())
    stamp, wanted = home.folder / _STAMP, _wanted()
    if not stamp.is_file() or stamp.read_text(encoding="utf-8") != wanted:
        stamp.unlink(missing_ok=True)
        for part in ("venv", "jars"):
            shutil.rmtree(home.folder / part, ignore_errors=True)
        home.folder.mkdir(parents=True, exist_ok=True)
        _install_packages(home, tell)
        _install_jars(home.folder / "jars", tell)
        stamp.write_text(wanted, encoding="utf-8")
    _show_program(home.folder / "program")
    return home


def _wanted() -> str:
    """What an installation is made of; another one is made when this changes."""
    said = [_REQUIREMENTS.read_text(encoding="utf-8"), *_PARTS, sys.version]
    return hashlib.sha256("\n".join(said).encode()).hexdigest()


def _install_packages(home: FlinkHome, tell: Tell) -> None:
    tell("installing Apache Flink: packages (once; about 300 MB)")
    venv = home.folder / "venv"
    _run([sys.executable, "-m", "venv", str(venv)], "a virtual environment")
    options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--requirement", str(_REQUIREMENTS)]
    _run([str(home.python), "-m", "pip", "install", *options], "the packages of flink_requirements.txt")


def _install_jars(folder: Path, tell: Tell) -> None:
    tell("installing Apache Flink: its Parquet format (once; about 60 MB)")
    folder.mkdir(parents=True)
    for part in _PARTS:
        if maven := shutil.which("mvn"):
            _run(maven_command(maven, part, folder), part)
        else:
            _download(part, folder, mirrors(Path.home() / ".m2" / "settings.xml"))
    plugins = list((folder.parent / "venv").glob(_PLUGIN))
    if not plugins:
        raise FlinkNotInstalled("Flink's reporter of metrics (metrics-jmx) is not in its package")
    for jar in plugins:
        shutil.copy(jar, folder)


def maven_command(maven: str, part: str, folder: Path) -> list[str]:
    """How Maven copies a part (group:name:version) from wherever it is set to look."""
    goal = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"
    return [maven, "--quiet", "--batch-mode", goal, f"-Dartifact={part}", f"-DoutputDirectory={folder}"]


def mirrors(settings: Path) -> list[str]:
    """The addresses of repositories that Maven's settings of this user name."""
    if not settings.is_file():
        return []
    try:
        root = ElementTree.parse(settings).getroot()
    except ElementTree.ParseError as error:
        raise FlinkNotInstalled(f"{settings} cannot be read: {error}") from error
    places = [each for each in root.iter() if each.tag.rpartition("}")[2] in ("mirror", "repository")]
    found = [child.text for place in places for child in place if child.tag.rpartition("}")[2] == "url"]
    return [url.strip().rstrip("/") for url in found if url]


def path_of(part: str) -> str:
    """Where a part (group:name:version) is in a Maven repository."""
    group, name, version = part.split(":")
    return f"{group.replace('.', '/')}/{name}/{version}/{name}-{version}.jar"


def _download(part: str, folder: Path, places: Sequence[str]) -> None:
    if not places:
        raise FlinkNotInstalled(f"{part} could not be had: there is neither mvn nor a mirror in its settings")
    failures = []
    for place in places:
        url = f"{place}/{path_of(part)}"
        try:
            with urllib.request.urlopen(url, timeout=_TIMEOUT) as answer:
                data = answer.read()
            with urllib.request.urlopen(f"{url}.sha1", timeout=_TIMEOUT) as answer:
                expected = answer.read().decode().split()[0]
        except (URLError, TimeoutError) as error:
            failures.append(f"{place}: {error}")
            continue
        if hashlib.sha1(data, usedforsecurity=False).hexdigest() == expected:
            (folder / Path(path_of(part)).name).write_bytes(data)
            return
        failures.append(f"{place}: its checksum is another")
    raise FlinkNotInstalled(f"{part} could not be had: {'; '.join(failures)}")


def _show_program(folder: Path) -> None:
    """Let Flink's interpreter see the package weft_bench, of which it runs one program, and nothing else beside it."""
    folder.mkdir(exist_ok=True)
    link, package = folder / "weft_bench", Path(weft_bench.__file__).parent
    if not (link.is_symlink() and link.readlink() == package):
        link.unlink(missing_ok=True)
        link.symlink_to(package)


def _run(command: Sequence[str], what: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise FlinkNotInstalled(f"{what} could not be had: {error}") from error
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()
        reason = next((line for line in said if "ERROR" in line), said[-1] if said else f"status {done.returncode}")
        raise FlinkNotInstalled(f"{what} could not be had: {reason.strip()}")

from __future__ import annotations

from pathlib import Path

import pytest

from weft_bench.systems import flink
from weft_bench.systems.flink import FlinkHome, FlinkNotInstalled, maven_command, mirrors, path_of, prepare

SETTINGS = """
<settings xmlns="http://settings.example/1.0.0">
  <mirrors><mirror><id>m</id><mirrorOf>*</mirrorOf><url> https://mirror.example/maven/ </url></mirror></mirrors>
  <profiles><profile><repositories><repository><url>https://other.example</url></repository></repositories></profile>
  </profiles>
</settings>
"""


def test_the_program_sees_the_benchmark_and_its_jars_and_no_other_flink(tmp_path: Path) -> None:
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "a.jar").touch()
    made = FlinkHome(tmp_path).environment({"PATH": "/bin", "FLINK_CONF_DIR": "/else", "PYTHONPATH": "/mine"})
    assert made["PATH"] == "/bin"
    assert made["PYTHONPATH"] == str(tmp_path / "program")
    assert made["HADOOP_CLASSPATH"] == str(tmp_path / "jars" / "a.jar")
    assert "FLINK_CONF_DIR" not in made


def test_mirrors_are_those_of_the_settings(tmp_path: Path) -> None:
    settings = tmp_path / "settings.xml"
    assert mirrors(settings) == []
    settings.write_text(SETTINGS, encoding="utf-8")
    assert mirrors(settings) == ["https://mirror.example/maven", "https://other.example"]
    settings.write_text("<settings>", encoding="utf-8")
    with pytest.raises(FlinkNotInstalled, match=r"settings\.xml cannot be read"):
        mirrors(settings)


def test_where_a_part_is() -> None:
    assert path_of("org.apache.flink:flink-x:2.3.0") == "org/apache/flink/flink-x/2.3.0/flink-x-2.3.0.jar"
    assert "-Dartifact=a:b:1" in maven_command("mvn", "a:b:1", Path("jars"))


def test_without_maven_and_mirror_it_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(FlinkNotInstalled, match="a:b:1 could not be had: there is neither mvn nor a mirror"):
        flink._download("a:b:1", tmp_path, [])


def test_a_mirror_on_disk_is_read_and_checked(tmp_path: Path) -> None:
    jar = tmp_path / "repository" / path_of("a:b:1")
    jar.parent.mkdir(parents=True)
    jar.write_bytes(b"jar")
    place = (tmp_path / "repository").as_uri()
    with pytest.raises(FlinkNotInstalled, match="a:b:1 could not be had"):
        flink._download("a:b:1", tmp_path, [place])
    Path(f"{jar}.sha1").write_text("0123", encoding="utf-8")
    with pytest.raises(FlinkNotInstalled, match="its checksum is another"):
        flink._download("a:b:1", tmp_path, [place])
    Path(f"{jar}.sha1").write_text("f92e777f4341930bad9b2422283c4680d00dbc06  b-1.jar", encoding="utf-8")
    flink._download("a:b:1", tmp_path, [place])
    assert (tmp_path / "b-1.jar").read_bytes() == b"jar"


def test_a_command_that_fails_is_said(tmp_path: Path) -> None:
    with pytest.raises(FlinkNotInstalled, match="a thing could not be had: ERROR it is not there"):
        flink._run(["sh", "-c", "echo one; echo 'ERROR it is not there' >&2; exit 3"], "a thing")
    with pytest.raises(FlinkNotInstalled, match="a thing could not be had"):
        flink._run([str(tmp_path / "no-such-program")], "a thing")


def test_an_installation_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = list[str]()
    monkeypatch.setattr(flink, "_install_packages", lambda home, tell: made.append("packages"))
    monkeypatch.setattr(flink, "_install_jars", lambda folder, tell: made.append("jars"))
    for _ in range(2):
        home = prepare(tmp_path / "flink", made.append)
    assert made == ["packages", "jars"]
    assert (home.folder / "program" / "weft_bench" / "systems" / "flink_program.py").is_file()
    (home.folder / "installed").write_text("another", encoding="utf-8")
    prepare(tmp_path / "flink", made.append)
    assert made == ["packages", "jars"] * 2


def test_an_installation_that_fails_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(home: FlinkHome, tell: flink.Tell) -> None:
        raise FlinkNotInstalled("no packages")

    monkeypatch.setattr(flink, "_install_packages", fail)
    for _ in range(2):
        with pytest.raises(FlinkNotInstalled, match="no packages"):
            prepare(tmp_path / "flink", print)


def test_the_parts_in_the_other_environment_import_no_more_of_weft() -> None:
    folder = Path(flink.__file__).parent
    lines = [
        line
        for name in ("flink_program", "flink_session", "flink_gate", "flink_texts")
        for line in (folder / f"{name}.py").read_text(encoding="utf-8").splitlines()
        if line.startswith(("from weft", "import weft"))
    ]
    assert lines
    assert all(line.startswith("from weft_bench.systems.flink_") for line in lines)

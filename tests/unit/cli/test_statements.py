"""SQL from a command line is divided where statements end, and nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer

from weft.cli.statements import read_statements, split


@pytest.mark.parametrize(
    ("text", "statements"),
    [
        ("SELECT 1", ["SELECT 1"]),
        ("SELECT 1;", ["SELECT 1"]),
        ("SELECT 1;\n\nSELECT 2\n", ["SELECT 1", "SELECT 2"]),
        ("SELECT ';' ; SELECT \";\"; SELECT `;`", ["SELECT ';'", 'SELECT ";"', "SELECT `;`"]),
        ("SELECT 'it''s; so'; SELECT 'a\\';'", ["SELECT 'it''s; so'", "SELECT 'a\\';'"]),
        ("SELECT 1 -- one; two\n; SELECT /* ; */ 2", ["SELECT 1 -- one; two", "SELECT /* ; */ 2"]),
        ("-- nothing;\n; /* ; */ ;", []),
        ("", []),
        ("SELECT 'open; SELECT 2", ["SELECT 'open", "SELECT 2"]),
    ],
)
def test_semicolons_divide_only_between_statements(text: str, statements: list[str]) -> None:
    assert split(text) == statements


def test_statements_come_in_the_order_they_were_given(tmp_path: Path) -> None:
    (tmp_path / "two.sql").write_text("b; c")
    assert read_statements(["a", f"@{tmp_path}/two.sql", "d"]) == ["a", "b", "c", "d"]


@pytest.mark.parametrize("content", [None, b"\xff\xfe\xfd"])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "all.sql"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(typer.BadParameter, match=r"all\.sql"):
        read_statements([f"@{file}"])

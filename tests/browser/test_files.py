"""The dashboard's files as they are: small, without anything from elsewhere, readable in both colour schemes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.browser.service import ROOT

STATIC = ROOT / "src" / "weft" / "service" / "static"
FILES = sorted(path for path in STATIC.rglob("*") if path.is_file())
MARKUP = re.compile(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function")
INLINE = re.compile(r"<script(?![^>]*\bsrc=)|\bstyle=|\bon[a-z]+=|javascript:", re.IGNORECASE)
NAMESPACE = "http://www.w3.org/2000/svg"


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def test_files_and_lines_are_short() -> None:
    assert {path.name: n for path in FILES if (n := len(_text(path).splitlines())) > 400} == {}
    assert [path.name for path in FILES if any(len(line) > 120 for line in _text(path).splitlines())] == []


def test_data_never_become_markup() -> None:
    assert [path.name for path in FILES if path.suffix == ".js" and MARKUP.search(_text(path))] == []


def test_nothing_is_inline() -> None:
    assert [path.name for path in FILES if path.suffix == ".html" and INLINE.search(_text(path))] == []


def test_nothing_comes_from_elsewhere() -> None:
    found = {
        path.name: re.findall(r"\bhttps?://[^\s\"'`]+|@import", _text(path).replace(NAMESPACE, "")) for path in FILES
    }
    assert {name: addresses for name, addresses in found.items() if addresses} == {}


def test_every_module_that_is_imported_is_there() -> None:
    missing = [
        (path.name, target)
        for path in FILES
        if path.suffix == ".js"
        for target in re.findall(r'from "([^"]+)"', _text(path))
        if not (path.parent / target).is_file()
    ]
    assert missing == []


def _schemes() -> list[dict[str, str]]:
    """The colours of the light scheme, and those of the dark one."""
    light, dark = re.findall(r":root \{(.*?)\}", _text(STATIC / "style.css"), re.DOTALL)
    return [dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", block)) for block in (light, dark)]


def _luminance(colour: str) -> float:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _contrast(one: str, other: str) -> float:
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", _schemes(), ids=["light", "dark"])
def test_text_can_be_told_from_what_it_is_on(scheme: dict[str, str]) -> None:
    grounds = ("page", "surface", "sunken")
    pairs = [(text, ground) for text in ("text", "muted", "accent", "good", "warn", "bad") for ground in grounds]
    pairs += [(name, f"{name}-soft") for name in ("accent", "good", "warn", "bad")]
    pairs += [("text", f"{name}-soft") for name in ("accent", "good", "warn", "bad")]
    pairs += [("accent-text", "accent")]
    poor = {pair: round(_contrast(*(scheme[name] for name in pair)), 2) for pair in pairs}
    assert {pair: value for pair, value in poor.items() if value < 4.5} == {}

"""Regular expressions: what is taken, what is refused and why, and that taken ones match as they should."""

from __future__ import annotations

import re
import time

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.kernels.expression import pattern as patterns
from weft.kernels.expression.values import RowError
from weft.sql.patterns.characters import PatternError
from weft.sql.patterns.pattern import read_pattern, replacement


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        (r"(a)\1", "back-reference"), (r"(?<n>a)\k<n>", "back-reference"), ("(?=a)", "look-ahead"),
        ("(?!a)", "look-ahead"), ("(?<=a)b", "look-behind"), ("(?<!a)b", "look-behind"), ("(?>a)", "atomic"),
        ("a*+", "possessive"), ("a++", "possessive"), ("a{2}+", "possessive"), (r"\bword\b", "word boundary"),
        ("[a&&[b]]", "intersection"), ("[a[b]]", "set inside a set"), ("(?x)a b", "flags"), ("(?m)^a", "flags"),
        ("(?u)a", "flags"), ("a(?i)b", "flags"), ("a$b", "not at its end"), ("(a$)+", "nothing"), (r"\Z", r"\\Z"),
        (r"\h", r"\\h"), (r"\R", r"\\R"), (r"\p{L}", "Unicode property"), (r"\P{Alpha}", "Unicode property"),
        ("(a*)*", "match nothing"), ("(a|)+", "match nothing"), ("a{3", "begins no"), ("{3}", "nothing before it"),
        ("*a", "nothing before it"), ("a**", "two quantifiers"), ("a)", "without"), ("(a", "without"),
        ("[a", "ends after"), ("a\\", "ends after"), ("[]a]", "not clear"), (r"[a-\d]", "ends with a set"),
        ("[z-a]", "backwards"), ("a{251}", "more than 250"), ("a{3,2}", "less than"),
        ("(?:a{200}){200}", "larger than"),
        ("x" * 1001, "longer than 1000"), ("(" * 60 + ")" * 60, "groups"), (r"\ud800", "names no character"),
    ],
)  # fmt: skip
def test_refused(pattern: str, why: str) -> None:
    with pytest.raises(PatternError, match=why):
        read_pattern(pattern)


@pytest.mark.parametrize(
    ("pattern", "groups", "empty", "ends", "plain"),
    [
        ("abc", 0, False, False, "abc"), (r"a\.b", 0, False, False, "a.b"), (r"\Qa.*b\E", 0, False, False, "a.*b"),
        ("", 0, True, False, ""), ("a|b", 0, False, False, None), ("a*", 0, True, False, None),
        ("(a)(?:b)(?<n>c)", 2, False, False, None), ("^a$", 0, False, True, None), ("(a$|b)", 1, False, True, None),
        ("(?i)abc", 0, False, False, None), (r"[^\d]+?", 0, False, False, None), ("a{2,3}", 0, False, False, None),
        (r"\x41\u00e9\x{1F600}\t\011", 0, False, False, "Aé😀\t\t"), (r"}\]", 0, False, False, "}]"),
    ],
)  # fmt: skip
def test_taken(pattern: str, groups: int, empty: bool, ends: bool, plain: str | None) -> None:
    found = read_pattern(pattern)
    assert (found.groups, found.empty, found.ends, found.plain) == (groups, empty, ends, plain)


def test_only_ascii_letters_have_two_cases() -> None:
    values = pa.array(["k", "K", "\u212a", "é", "É", "ſ", "s"])
    assert patterns.matches(values, "(?i)k").to_pylist() == [True, True, False, False, False, False, False]
    assert patterns.matches(values, "(?i)[^ks]").to_pylist() == [False, False, True, True, True, True, False]
    assert patterns.matches(values, "(?i)É").to_pylist() == [False, False, False, False, True, False, False]


def test_the_end_is_also_before_a_last_line_end() -> None:
    values = pa.array(["a", "a\n", "a\r\n", "a\r", "a\u2028", "a\n\n", "ab", "\r\n", None])
    assert patterns.matches(values, "a$").to_pylist() == [True] * 5 + [False] * 3 + [None]
    assert patterns.matches(values, r"a\z").to_pylist() == [True] + [False] * 7 + [None]
    assert patterns.matches(values, "^[^a]$").to_pylist() == [False] * 8 + [None]  # not between \r and \n


def test_a_dot_is_not_a_line_end() -> None:
    values = pa.array(["\n", "\r", "\x85", "\u2028", "\u2029", "\x0b", "😀"])
    assert patterns.matches(values, ".").to_pylist() == [False] * 5 + [True] * 2
    assert patterns.matches(values, "(?s).").to_pylist() == [True] * 7


def test_functions() -> None:
    values = pa.array(["xaab a1b22", "b", "", None, "é1"])
    assert patterns.extract(values, "a(b)?", 0).to_pylist() == ["a", "", "", None, ""]
    assert patterns.extract(values, "(a+)(b)", 1).to_pylist() == ["aa", "", "", None, ""]
    assert patterns.extract(values, "a(z)?", 1).to_pylist() == ["", "", "", None, ""]
    assert patterns.first_match(values, r"\d+").to_pylist() == ["1", None, None, None, "1"]
    assert patterns.position(values, r"\d").to_pylist() == [7, 0, 0, None, 2]
    assert patterns.replace(values, "(a)(b)?", r"<$1$2\$>").to_pylist() == [
        "x<a$><ab$> <a$>1b22", "b", "", None, "é1",
    ]  # fmt: skip
    assert patterns.count(values, "a|b").to_pylist() == [5, 1, 0, None, 0]
    assert patterns.split(values, "[ab]", -1).to_pylist() == [
        ["x", "", "", " ", "1", "22"], ["", ""], [""], None, ["é1"],
    ]  # fmt: skip
    assert patterns.split(values, "[ab]", 2).to_pylist() == [["x", "ab a1b22"], ["", ""], [""], None, ["é1"]]
    assert patterns.split(values, "[ab]", 1).to_pylist() == [["xaab a1b22"], ["b"], [""], None, ["é1"]]


def test_replacements() -> None:
    assert replacement(r"a$1\$\\$0", 1) == r"a\1$\\\0"
    for text in ("$2", "$", "\\", "${name}", "$x"):
        with pytest.raises(PatternError):
            replacement(text, 1)
    with pytest.raises(PatternError, match="more than one digit"):
        replacement("$12", 12)


_CHARACTERS = "ab1_ .\n-é"
_atoms = st.sampled_from([r"a", r"b", r"\d", r"\w", r"\s", r".", r"[ab]", r"[^a]", r"[a-b1]", r"é", r"\.", r"-"])
_quantified = st.tuples(_atoms, st.sampled_from(["", "*", "+", "?", "{2}", "{1,2}", "*?", "+?"])).map("".join)
_sequences = st.lists(_quantified, min_size=1, max_size=4).map("".join)
_groups = st.tuples(
    _sequences, _sequences, st.sampled_from(["({}|{})", "(?:{}){}", "{}({})", "^{}|{}", r"{}{}\z"])
).map(lambda each: each[2].format(*each[:2]))


@given(_sequences | _groups, st.lists(st.text(_CHARACTERS, max_size=12), min_size=1, max_size=5))
def test_like_python_where_both_mean_the_same(pattern: str, texts: list[str]) -> None:
    python = re.compile(pattern.replace(r"\z", r"\Z").replace(".", "[^\\n]") if "\\." not in pattern else
                        pattern.replace(r"\z", r"\Z"), re.ASCII)  # fmt: skip
    values = pa.array(texts)
    found = [python.search(text) for text in texts]
    assert patterns.matches(values, pattern).to_pylist() == [match is not None for match in found]
    wanted = ["" if match is None else match[0] for match in found]
    assert patterns.extract(values, pattern, 0).to_pylist() == wanted
    if read_pattern(pattern).groups:
        wanted = ["" if match is None else match[1] or "" for match in found]
        assert patterns.extract(values, pattern, 1).to_pylist() == wanted


def test_time_is_linear_in_the_text() -> None:
    """It would not end for a matcher that goes back."""
    text = pa.array(["a" * 1_000_000 + "!"])
    for pattern in ("(.*a){20}b", "(a+a+)+b", "(a|aa)+$", "([a-z]+)*x", "a?" * 60 + "a{60}b"):
        try:
            assert patterns.matches(text, pattern).to_pylist() == [False]
        except PatternError:
            assert pattern == "([a-z]+)*x"  # repeats what can match nothing


@pytest.mark.parametrize(
    ("pattern", "scans"),
    [
        ("x", False), ("[,;]+", False), ("x+", False), (r"\d+|\w+", False), ("<[^>]*>", False), ("a.*?b", False),
        (r"(\w+)=(\d+)", False), (r"//.*", False), (r"\s*,\s*", False), ("(?:ab+)+", False), ("a{2,9}b", False),
        ('"[^"]*"', False), ("(?s)/[*].*?[*]/", False), (r"\w+\s*=\s*\w+", False), ("a+b?", False),
        ("x.*y|x", True), ("(?s).+?q|.", True), ("a.*b", True), ("(?:a.*b)?c", True), ("(?:a+){2}", True),
        ("(?:abc;de|a)[^;]*;", True), ("<[^>]*>|<", True), ("a?.*?b", True), ("a.*?b.*c", True), ("(?:a+)+b", True),
    ],
)  # fmt: skip
def test_which_patterns_may_read_beyond_their_matches(pattern: str, scans: bool) -> None:
    assert read_pattern(pattern).scans is scans


SAFE = st.sampled_from(["x", "y", "[xy]", "[^x]", ".", "x+", "y*", "[^y]*", "x*?", ".+?", "(?:xy)+", "(?:x|yy)", "y?"])


@given(st.lists(SAFE, min_size=1, max_size=4), st.sampled_from("xyz"), st.sampled_from("xyz"))
@settings(max_examples=60, deadline=None)
def test_what_is_called_safe_is_fast(parts: list[str], one: str, other: str) -> None:
    """Matches of a safe pattern take about as long each in a long text as in a short one."""
    found = read_pattern("".join(parts))
    if found.empty or found.scans:
        return
    text = pa.array([(one * 3 + other) * 25_000])
    begin = time.perf_counter()
    patterns.count(text, "".join(parts))
    assert time.perf_counter() - begin < 1


@pytest.mark.parametrize("pattern", ["x.*y|x", r"(?s).+?\x01|."])
def test_finding_all_matches_takes_bounded_time(pattern: str) -> None:
    long, short = pa.array(["ok", None, "x" * 300_000]), pa.array(["x" * 5000, None])
    for find in (
        lambda value: patterns.count(value, pattern),
        lambda value: patterns.replace(value, pattern, ""),
        lambda value: patterns.split(value, pattern, -1),
    ):
        begin = time.perf_counter()
        with pytest.raises(RowError, match="more than 1000 matches in a text of 300000 bytes"):
            find(long)
        assert time.perf_counter() - begin < 10, "it was minutes"
        find(short)
    assert patterns.count(short, pattern).to_pylist() == [5000, None]
    assert patterns.count(pa.array(["x" * 300_000 + "y"]), "x.*y|x").to_pylist() == [1]
    assert len(patterns.split(long.slice(2), pattern, 5).to_pylist()[0]) == 5

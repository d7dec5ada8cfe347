"""Patterns that weft takes, against Java's own matcher: the same answers from the kernels and from Spark's calls."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from weft.kernels.expression import pattern as patterns
from weft.kernels.expression.text import like
from weft.plan.expression import OWN_FUNCTIONS, quote_string
from weft.spark.functions import register_functions
from weft.sql.patterns.pattern import read_pattern

pytestmark = pytest.mark.spark

PATTERNS = [
    "a", "abc", "^a", "a$", "^[ab]$", "a|b", "(a|ab)(c|bcd)?", "a+", "a*b", "(a+)(b+)?", "[^a]", "[^a-c\\s]", r"\d+",
    r"\D", r"\w+@\w+\.com", r"\W", r"\s", r"\S+", ".", ".+b", "(?s).+b", "(?i)AbC", "(?i)[x-z]+k", "(?i:é)k",
    r"a{2}", r"a{1,2}?b", "(?:ab)+", "(?<user>[a-z]+)@", r"\Qa.b\E", r"\.", r"[.\-\]]", "[a-c-]", "[-x]", r"\p{Alpha}+",
    r"[\p{Punct}]", r"\x41|\u00e9", r"\t|\n", "(a|b)*c", "x(y)?", "(x)(y)?z?", r"^\s*$", r"(\d{1,3})(?:,\d{3})*\z",
    "a||b", "^$", r"\A.b", "(a)(b)(c)", "[+*?()|{}]", "é+", "😀", "[😀-😂]", "k", "[^\\n]+", "$", "(a$|b)",
    r"\p{Space}+x",
]  # fmt: skip
TEXTS = [
    "", "a", "b", "ab", "abc", "aab", "aaab abb", "ABC", "abcd", "xyz", "xy", "xz", "a\n", "a\r\n", "a\r", "\n", "\r\n",
    "b\n\n", "a\nb", "\x85", "a\u2028", "x\u2029b", "joe@example.com", "1,234,567", "12 34", "a.b", "a-b]", "...",
    "ABCabc", "xK\u212ak", "éÉé k", "Ék", "😀", "😁b😂", "\t a", " \x0b\f x", "tab\there", "[+*?]{}", "yyy", "cab",
    "aaaaaaaaaaaa!",
    "línea\nàé", "_", "9", "٣", "a" * 50, None,
]  # fmt: skip
LIKES = ["%a%b%", "a%b%c", "%_a_%b", "%%a%%", "_%_%_", "%😀%b%", "%\\%%a%", "%a\n%b%", "%", "%a%a%a%a%"]
_CHUNK = 40


@pytest.fixture(scope="module")
def frame(spark: SparkSession) -> DataFrame:
    register_functions(spark)
    return spark.createDataFrame(pa.table({"n": range(len(TEXTS)), "t": TEXTS})).coalesce(1).cache()


def _spark(frame: DataFrame, expressions: list[str]) -> list[list[object]]:
    """Values of each expression in the order of the texts."""
    found: list[list[object]] = []
    for start in range(0, len(expressions), _CHUNK):
        some = expressions[start : start + _CHUNK]
        table = frame.selectExpr("n", *(f"{text} AS c{at}" for at, text in enumerate(some))).toArrow().sort_by("n")
        found += (table.column(at + 1).to_pylist() for at in range(len(some)))
    return found


def _expectations() -> dict[str, tuple[str, list[object]]]:
    """Spark's own expression, weft's call of the same, and what the kernels say."""
    values, found = pa.array(TEXTS), {}
    for pattern in PATTERNS:
        read, text = read_pattern(pattern), quote_string(pattern)
        found[f"t RLIKE {text}"] = (f"{OWN_FUNCTIONS['rlike']}(t, {text})", patterns.matches(values, pattern))
        if read.ends:
            continue
        for group in range(read.groups + 1):
            found[f"regexp_extract(t, {text}, {group})"] = (
                f"{OWN_FUNCTIONS['regexp_extract']}(t, {text}, {group})", patterns.extract(values, pattern, group),
            )  # fmt: skip
        found[f"regexp_substr(t, {text})"] = (
            f"{OWN_FUNCTIONS['regexp_substr']}(t, {text})", patterns.first_match(values, pattern),
        )  # fmt: skip
        found[f"regexp_instr(t, {text})"] = (
            f"{OWN_FUNCTIONS['regexp_instr']}(t, {text})", patterns.position(values, pattern),
        )  # fmt: skip
        if read.empty:
            continue
        by = "<$0$1\\$>" if read.groups else "<$0\\\\>"
        found[f"regexp_replace(t, {text}, {quote_string(by)})"] = (
            f"{OWN_FUNCTIONS['regexp_replace']}(t, {text}, {quote_string(by)})", patterns.replace(values, pattern, by),
        )  # fmt: skip
        if read.begins:
            continue
        found[f"regexp_count(t, {text})"] = (
            f"{OWN_FUNCTIONS['regexp_count']}(t, {text})", patterns.count(values, pattern),
        )  # fmt: skip
        for limit in (-1, 1, 2):
            found[f"split(t, {text}, {limit})"] = (
                f"{OWN_FUNCTIONS['split']}(t, {text}, {limit})", patterns.split(values, pattern, limit),
            )  # fmt: skip
    for pattern in LIKES:
        text = quote_string(pattern)
        found[f"t LIKE {text}"] = (f"{OWN_FUNCTIONS['like']}(t, {text}, '\\\\')", like(values, pattern, "\\"))
    return {native: (own, array.to_pylist()) for native, (own, array) in found.items()}


def test_same_as_java(frame: DataFrame) -> None:
    expected = _expectations()
    assert len(expected) > 300
    theirs = _spark(frame, list(expected))
    problems = [
        f"{native}\n  on   {text!r}\n  weft {ours!r}\n  java {java!r}"
        for (native, (_, values)), wanted in zip(expected.items(), theirs, strict=True)
        for text, ours, java in zip(TEXTS, values, wanted, strict=True)
        if ours != java
    ]
    assert not problems, f"{len(problems)} differences\n" + "\n".join(problems[:40])


def test_spark_calls_the_same_kernels(frame: DataFrame) -> None:
    expected = list(_expectations().values())[::3]
    for (own, values), found in zip(expected, _spark(frame, [own for own, _ in expected]), strict=True):
        assert found == values, own

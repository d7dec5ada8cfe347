"""Which functions a query may call, and with what; what becomes of patterns, times and strings on the way to Spark."""

from __future__ import annotations

import pytest

from tests.support.sql_streams import bound, predicate
from weft.errors import QueryError
from weft.plan.expression import Call, Literal
from weft.plan.types import STRING
from weft.sql.functions.allowlist import (
    AGGREGATES,
    ALLOWED,
    CHOICE_FUNCTIONS,
    COLLECTION_FUNCTIONS,
    GENERATORS,
    LAMBDAS,
    NUMBER_FUNCTIONS,
    RANKINGS,
    RESULT_TYPES,
    TEXT_FUNCTIONS,
    TIME_FUNCTIONS,
    UNSTABLE,
)
from weft.sql.functions.argument_rules import _RULES
from weft.sql.syntax.schema import InvalidStream, parse_schema


def output(text: str) -> str:
    return bound(f"SELECT {text} AS x FROM purchases").outputs[0].sql


def refused(text: str) -> QueryError:
    with pytest.raises(QueryError) as caught:
        output(text)
    assert caught.value.hint
    return caught.value


def test_the_lists_do_not_contradict_each_other() -> None:
    groups = (NUMBER_FUNCTIONS, TIME_FUNCTIONS, TEXT_FUNCTIONS, CHOICE_FUNCTIONS, COLLECTION_FUNCTIONS)
    assert sum(map(len, groups)) == len(ALLOWED)
    assert not ALLOWED & (AGGREGATES | GENERATORS | RANKINGS | UNSTABLE)
    assert set(RESULT_TYPES) | set(_RULES) | LAMBDAS <= ALLOWED


@pytest.mark.parametrize("name", ["xpath", "from_xml", "reflect", "aes_decrypt", "sequence", "a_new_function", "like"])
def test_what_is_not_listed_is_refused(name: str) -> None:
    with pytest.raises(QueryError):
        output(f"{name}(name, name)")


@pytest.mark.parametrize(
    ("text", "sql"),
    [
        ("left(name, 2)", "left(`0.name`, 2)"), ("replace(name, 'a', 'b')", "replace(`0.name`, 'a', 'b')"),
        ("char(65)", "char(65)"), ("isnull(name)", "isnull(`0.name`)"),
        ("exists(tags, t -> t = 'a')", "exists(`0.tags`, `t` -> `t` = 'a')"),
        ("filter(tags, t -> price > 1)", "filter(`0.tags`, `t` -> `0.price` > 1)"),
        ("round(ratio, 2)", "round(`0.ratio`, 2)"), ("round(ratio, -2)", "round(`0.ratio`, -2)"),
        ("from_json(name, 'time string')", "from_json(`0.name`, 'time string')"),
        ("from_json(name, 'array<int>')", "from_json(`0.name`, 'array<int>')"),
        ("format_string('%s: %05.2f%%', name, ratio)", "format_string('%s: %05.2f%%', `0.name`, `0.ratio`)"),
        ("levenshtein(name, 'abc', 3)", "levenshtein(`0.name`, 'abc', 3)"),
        ("arrays_overlap(tags, array('a'))", "arrays_overlap(`0.tags`, ARRAY('a'))"),
        ("repeat(name, 100)", "repeat(`0.name`, 100)"),
        ("concat_ws(', ', name, name)", "concat_ws(', ', `0.name`, `0.name`)"),
        ("position('a' IN name)", "LOCATE('a', `0.name`)"),
    ],
)  # fmt: skip
def test_allowed_calls(text: str, sql: str) -> None:
    assert output(text) == sql


@pytest.mark.parametrize(
    "text",
    [
        "round(ratio, price)", "round(ratio, 101)", "format_number(ratio, 1000)", "repeat(name, price)",
        "space(price)", "lpad(name, 5, name)", "replace(name, name, 'x')", "concat_ws(name, tags)",
        "array_join(tags, name)", "instr(name, name)", "to_char(price, name)", "date_format(ts, name)",
        "levenshtein(name, name)", "levenshtein(name, name, 1000)", "parse_url(name, 'QUERY', '.*')",
        "from_json(name, name)", "from_json(name, 'a timestamp')", "from_json(name, 'a struct<b:decimal(3,1)>')",
        "from_json(name, 'nonsense of <')", "to_json(addr, map('a', 'b'))", "decode(raw, name)",
        "format_string(name)", "format_string('%1000d', price)", "array_distinct(arrays_zip(tags, tags))",
        "array_sort(tags, (a, b) -> 1)", "transform(tags, (t, i) -> concat(t, name))", "split(name, name)",
        "transform(tags, t -> filter(tags, u -> u = t))", "CAST(name AS TIME)", "CAST(tags AS ARRAY<TIMESTAMP>)",
        "transform(tags, t -> t RLIKE 'a+')",
    ],
)  # fmt: skip
def test_calls_that_break_a_rule(text: str) -> None:
    assert refused(text).code in ("unsupported_query", "type_mismatch")


@pytest.mark.parametrize(
    "text",
    [
        "repeat(name, 101)", "repeat(repeat('x', 10000), 101)", "hex(hex(hex(hex(name))))",
        "concat(name, repeat(name, 100))",
        "replace(replace(replace(name, 'a', 'bbbbb'), 'b', 'aaaaa'), 'a', 'bbbbb')", "length(repeat(name, 1000)) > 1",
        "transform(tags, t -> repeat(t, 101))", "format_string('%1$s%1$s%1$s', repeat(name, 50))",
        "CASE WHEN ok THEN repeat(name, 100) || name END", "regexp_replace(name, 'a', '" + "x" * 100 + "')",
    ],
)  # fmt: skip
def test_values_much_larger_than_the_row(text: str) -> None:
    assert refused(text).code == "query_too_large"


@pytest.mark.parametrize(
    "text",
    [
        "size(transform(split(repeat(name, 100), ''), t -> space(10000))) > 5", "transform(tags, t -> space(101))",
        "exists(tags, t -> length(space(10000)) > 5)", "filter(tags, t -> lpad(t, 10000) = 'a')",
        "forall(tags, t -> length(repeat('x', 101)) > 5)", "transform(tags, (t, i) -> rpad(CAST(i AS STRING), 200))",
        "transform(tags, t -> concat(" + ", ".join(["CAST(price AS STRING)"] * 6) + "))",
        "transform(split(repeat(name, 50), ''), t -> concat(t, t, t))",
        "transform(split(repeat(name, 50), ''), t -> concat(t, 'xx'))",
        "transform(transform(tags, t -> repeat(t, 20)), u -> repeat(u, 20))",
        "transform(from_json(name, 'array<struct<a:string>>'), t -> repeat(t.a, 101))",
        "transform(tags, t -> to_json(struct(repeat(t, 20) AS a)))",
        "array_join(transform(array(" + ", ".join(["''"] * 20_000) + "), t -> space(100)), '')",
        "concat(repeat(name, 60), repeat(NAME, 60))",
    ],
)  # fmt: skip
def test_a_lambda_counts_for_every_element(text: str) -> None:
    assert refused(text).code == "query_too_large"


@pytest.mark.parametrize(
    "text",
    [
        "transform(tags, t -> concat('<', t, '>'))", "transform(tags, t -> CAST(t AS INT) + price)",
        "transform(transform(tags, t -> length(t)), n -> n + 1)", "exists(tags, t -> lower(t) = 'a')",
        "transform(sort_array(transform(tags, t -> length(t))), n -> n * 2)",
        "filter(transform(split(name, ','), t -> trim(t)), t -> length(t) > 3)",
        "transform(tags, t -> named_struct('low', lower(t), 'up', upper(t), 'n', length(t)))",
    ],
)  # fmt: skip
def test_a_lambda_may_do_little_with_every_element(text: str) -> None:
    assert output(text)


@pytest.mark.parametrize(
    ("select", "where"),
    [
        (", ".join(["repeat(space(10000), 99)"] * 3), "TRUE"), (", ".join(["space(10000)"] * 101), "TRUE"),
        (", ".join(["repeat(name, 100)"] * 11), "TRUE"), (", ".join(["name"] * 1001), "TRUE"),
        (" + ".join(["length(repeat(name, 100))"] * 11), "TRUE"),
        ("price", " AND ".join(f"length(repeat(name, 100)) > {n}" for n in range(11))),
        ("price", " OR ".join(f"repeat(space(10000), 50) = '{n}'" for n in range(3))),
        ("repeat(name, 60)", " AND ".join(f"length(repeat(name, 100)) > {n}" for n in range(10))),
    ],
)  # fmt: skip
def test_all_expressions_of_a_query_together_are_bounded(select: str, where: str) -> None:
    with pytest.raises(QueryError, match="together") as caught:
        bound(f"SELECT {select} FROM purchases WHERE {where}")
    assert caught.value.code == "query_too_large"
    assert caught.value.hint


def test_many_expressions_of_the_size_of_the_row_are_taken() -> None:
    many = ", ".join(f"get_json_object(name, '$.a{n}') AS a{n}, upper(name) AS b{n}" for n in range(400))
    tests = " OR ".join(f"lower(name) = 'text {n}' OR price > {n}" for n in range(1500))
    assert len(bound(f"SELECT {many} FROM purchases WHERE {tests}").outputs) == 800


def test_groups_are_bounded_as_a_whole() -> None:
    many = ", ".join(f"repeat(MAX(name), 100) AS m{n}" for n in range(11))
    with pytest.raises(QueryError, match="together"):
        bound(f"SELECT {many} FROM purchases [TUMBLE 5 SECONDS]")
    with pytest.raises(QueryError, match="much larger than the row"):
        bound("SELECT concat(repeat(name, 60), repeat(name, 60)) FROM purchases [TUMBLE 5 SECONDS] GROUP BY name")


def test_an_output_knows_how_large_it_can_get() -> None:
    (first, second) = bound("SELECT repeat(name, 7) || space(50) AS a, price FROM purchases").outputs
    assert first.copies == (("name", 7),)
    assert 50 <= first.added < 100
    assert (second.copies, second.added) == ((), 0)


def test_a_choice_is_no_larger_than_the_largest_of_its_values() -> None:
    branches = " ".join(f"WHEN price = {n} THEN upper(name)" for n in range(150))
    assert "CASE" in output(f"CASE {branches} END")
    columns = ", ".join(["name", "CAST(price AS STRING)", "CAST(day AS STRING)"] * 30)
    assert output(f"concat_ws(',', {columns})")


# ---- patterns


@pytest.mark.parametrize(
    ("text", "sql"),
    [
        ("upper(name) RLIKE 'a+'", "weft_rlike(upper(`0.name`), 'a+')"),
        ("upper(name) NOT RLIKE 'a+'", "NOT weft_rlike(upper(`0.name`), 'a+')"),
        ("upper(name) RLIKE 'abc'", "contains(upper(`0.name`), 'abc')"),
        ("regexp_like(upper(name), '^a')", "weft_rlike(upper(`0.name`), '^a')"),
        ("regexp_extract(name, '(a)(b)')", "weft_regexp_extract(`0.name`, '(a)(b)', 1)"),
        ("regexp_extract(name, '(a)(b)', 0)", "weft_regexp_extract(`0.name`, '(a)(b)', 0)"),
        ("regexp_replace(name, '[^A]', '')", "weft_regexp_replace(`0.name`, '[^A]', '')"),
        ("regexp_count(name, 'a|b')", "weft_regexp_count(`0.name`, 'a|b')"),
        ("regexp_substr(name, 'a|b')", "weft_regexp_substr(`0.name`, 'a|b')"),
        ("regexp_instr(name, 'a|b')", "weft_regexp_instr(`0.name`, 'a|b')"),
        ("split(name, '[,;]')", "weft_split(`0.name`, '[,;]', -1)"), ("split(name, ',')", "split(`0.name`, ',')"),
        ("split(name, '')", "split(`0.name`, '')"), ("upper(name) LIKE '%A%'", "upper(`0.name`) LIKE '%A%'"),
        ("upper(name) LIKE '%A%B'", "weft_like(upper(`0.name`), '%A%B', '\\\\')"),
        ("upper(name) NOT LIKE '%A%B'", "(NOT weft_like(upper(`0.name`), '%A%B', '\\\\'))"),
        ("upper(name) LIKE '%A!%%B' ESCAPE '!'", "weft_like(upper(`0.name`), '%A!%%B', '!')"),
        ("upper(name) LIKE 'A!_%' ESCAPE '!'", "upper(`0.name`) LIKE 'A!_%' ESCAPE '!'"),
        ("name ILIKE '%a%b'", "weft_like(lower(`0.name`), lower('%a%b'), '\\\\')"),
        ("name ILIKE 'a%'", "`0.name` ILIKE 'a%'"),
        ("upper(name) LIKE ANY ('A', '%B%C')",
         "((upper(`0.name`) LIKE 'A') OR (weft_like(upper(`0.name`), '%B%C', '\\\\')))"),
        ("upper(name) NOT LIKE ALL ('A', 'B')", "((upper(`0.name`) NOT LIKE 'A') AND (upper(`0.name`) NOT LIKE 'B'))"),
    ],
)  # fmt: skip
def test_patterns_in_spark(text: str, sql: str) -> None:
    assert output(text) == sql


def test_patterns_of_our_own() -> None:
    assert predicate("name RLIKE 'a+'") == "weft_rlike(`name`, 'a+')"
    assert predicate("name NOT RLIKE 'a+'") == "(NOT weft_rlike(`name`, 'a+'))"
    assert predicate("regexp(name, 'abc')") == "contains(`name`, 'abc')"
    assert predicate("name LIKE '%a%b%'") == "weft_like(`name`, '%a%b%', '\\\\')"
    assert predicate("name LIKE '%a%'") == "(`name` LIKE '%a%')"


@pytest.mark.parametrize(
    "text",
    [
        "name RLIKE '(a)\\\\1'", "name RLIKE name", "name LIKE name", "upper(name) RLIKE '(?=a)'",
        "name LIKE ANY (name)",
        "regexp_extract(name, 'a')", "regexp_extract(name, '(a)', 2)", "regexp_extract(name, '(a)', price)",
        "regexp_replace(name, 'a*', '')", "regexp_replace(name, 'a', name)", "regexp_replace(name, 'a', '$1')",
        "regexp_replace(name, 'a', '', 2)", "regexp_count(name, 'a?')", "regexp_count(name, '^a+')",
        "split(name, '^a|b')", "regexp_replace(name, '', 'x')", "split(name, ',*')",
        "split(name, 'a|b', price)",
        "regexp_substr(name, 'a$')", "tags[0] RLIKE 'a+'", "CAST(price / 0 AS STRING) RLIKE 'a+'",
        "coalesce(name, price) RLIKE 'a+'", "upper(name) LIKE '%a%b' || name",
    ],
)  # fmt: skip
def test_patterns_that_are_refused(text: str) -> None:
    assert refused(text).code == "unsupported_query"


# ---- times


def test_a_time_without_a_date_is_no_timestamp() -> None:
    for text in ("CAST(name AS TIMESTAMP)", "TRY_CAST(name AS TIMESTAMP)", "to_timestamp(name)", "name::timestamp"):
        assert "regexp_replace(`0.name`, '\\\\A" in output(text)
    for text in ("CAST(name AS DATE)", "to_timestamp(name, 'HH:mm')", "CAST(price AS TIMESTAMP)"):
        assert "regexp_replace" not in output(text)


def test_long_text_is_no_decimal() -> None:
    """Java would read it in quadratic time."""
    assert output("CAST(name AS DECIMAL(10, 2))") == (
        "CAST(regexp_replace(`0.name`, '(?s)\\\\A.{1000}.+', 'a text of more than 1000 characters') AS DECIMAL(10, 2))"
    )
    assert output("CAST(price AS DECIMAL(10, 2))") == "CAST(`0.price` AS DECIMAL(10, 2))"
    assert bound("SELECT CAST(addr.city AS DECIMAL(3, 1)) AS x FROM purchases").outputs[0].doubtful


@pytest.mark.parametrize(
    ("text", "doubtful"),
    [
        ("hour(name)", True), ("date_add('today', 1)", True), ("coalesce(ts, name)", True), ("hour(tags[0])", True),
        ("name + INTERVAL 1 DAY", True), ("ts > upper(name)", True), ("array(ts, name)", True), ("upper(name)", True),
        ("upper(name, name)", True), ("sha2(name)", True), ("ts + INTERVAL 'abc' DAY", True), ("price + 1", False),
        ("ts > '2020-01-01'", False), ("CASE WHEN ok THEN 'now' END", False), ("price", False),
    ],
)  # fmt: skip
def test_spark_is_asked_about_what_only_spark_computes(text: str, doubtful: bool) -> None:
    assert bound(f"SELECT {text} AS x FROM purchases").outputs[0].doubtful is doubtful


# ---- strings


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("'it''s'", "it's"), ('"a""b"', 'a"b'), ("''''", "'"), ("'a' 'b'", "ab"), ("'a''b' 'c'", "a'bc"),
        ("'a'\"b\"", "ab"), ("r'a\\d'", "a\\d"), ("r'a''b'", "ab"), ("'a'r'b'", "ab"), ("'\\''''", "''"), ("''", ""),
        ("'a' -- x\n 'b'", "ab"),
    ],
)  # fmt: skip
def test_string_literals(text: str, value: str) -> None:
    query = bound(f"SELECT 1 AS one FROM purchases WHERE name = {text}")
    assert query.relations[0].predicate == Call("eq", (query.relations[0].predicate.args[0], Literal(value, STRING)),
                                                query.relations[0].predicate.type)  # type: ignore[union-attr]  # fmt: skip


def test_doubled_quotes_in_patterns() -> None:
    assert predicate("name LIKE '%''%'") == "(`name` LIKE '%\\'%')"
    assert output("concat(name, 'it''s')") == "concat(`0.name`, 'it\\'s')"


def test_no_variable_gets_through() -> None:
    assert output("concat(name, '${env:HOME}')") == "concat(`0.name`, '\\u0024{env:HOME}')"
    assert predicate("name = '${env:HOME}'") == "(`name` = '\\u0024{env:HOME}')"
    assert bound("SELECT price AS `${env:HOME}` FROM purchases").outputs[0].name == "${env:HOME}"
    assert "${" in refused("struct(price AS `${a}`)").message
    with pytest.raises(InvalidStream, match="contains"):
        parse_schema("ts timestamp, `${env:HOME}` int")

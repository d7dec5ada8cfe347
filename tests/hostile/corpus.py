"""Queries of a tenant who means harm, over a stream `s`; each is refused with a code, or runs without doing any."""

from __future__ import annotations

from dataclasses import dataclass

DDL = (
    "ts timestamp, k bigint, v int, ratio double, name string, body string, tags array<string>, "
    "addr struct<city:string>"
)
CANARY = "WEFT_HOSTILE_CANARY"
"""The environment variable whose value must not appear anywhere."""
PORT = "{port}"
"""Stands for the port of a listener on this machine that must see no connection."""


@dataclass(frozen=True, slots=True)
class Hostile:
    """One text: what it tries, and the code of the error that it must get; none if it must run harmlessly."""

    name: str
    tries: str
    sql: str
    code: str | None
    by_spark: bool = False
    """Whether only Spark can tell that it must be refused."""


def _select(name: str, tries: str, expression: str, code: str | None, *, by_spark: bool = False) -> Hostile:
    return Hostile(name, tries, f"SELECT k, {expression} AS x FROM s", code, by_spark)


def _where(name: str, tries: str, condition: str, code: str | None, *, by_spark: bool = False) -> Hostile:
    return Hostile(name, tries, f"SELECT k FROM s WHERE {condition}", code, by_spark)


UNSUPPORTED, TYPE, LARGE, SYNTAX = "unsupported_query", "type_mismatch", "query_too_large", "syntax_error"
_DTD = f'<!DOCTYPE a SYSTEM "http://127.0.0.1:{PORT}/x.dtd"><a>1</a>'
_ENTITY = '<!DOCTYPE a [<!ENTITY e SYSTEM "file:///etc/passwd">]><a>&e;</a>'
_HTTP = f"http://127.0.0.1:{PORT}"

ENVIRONMENT = (
    _select("variable in a literal", "environment", f"concat(name, '|${{env:{CANARY}}}')", None),
    _select("variable alone", "environment", f"'${{env:{CANARY}}}'", None),
    _select("variable in double quotes", "environment", f'"${{env:{CANARY}}}"', None),
    _select("variable in a raw string", "environment", f"r'${{env:{CANARY}}}'", None),
    _select("variable in pieces", "environment", f"concat('$', '{{env:{CANARY}}}')", None),
    _select("variable from neighbouring strings", "environment", f"upper('$' '{{env:{CANARY}}}')", None),
    _select("variable by an escape", "environment", f"lower('\\u0024{{env:{CANARY}}}')", None),
    _select("system property", "environment", "concat(name, '${system:java.home}')", None),
    _select("setting of Spark", "environment", "concat(name, '${spark.app.name}')", None),
    _where("variable in a predicate", "environment", f"upper(name) <> '${{env:{CANARY}}}'", None),
    _where("variable in a pattern", "environment", f"upper(name) RLIKE '\\\\${{env:{CANARY}}}'", UNSUPPORTED),
    _where("variable in LIKE", "environment", f"name LIKE '%${{env:{CANARY}}}%x%y'", None),
    Hostile("variable in an alias", "environment", f"SELECT k AS `${{env:{CANARY}}}` FROM s", None),
    Hostile("variable in a default name", "environment", f"SELECT '${{env:{CANARY}}}' FROM s", None),
    _select("variable in a field name", "environment", f"struct(k AS `${{env:{CANARY}}}`)", UNSUPPORTED),
    _select("variable as a field", "environment", f"addr.`${{env:{CANARY}}}`", UNSUPPORTED),
    _select("variable in a lambda", "environment", f"transform(tags, `${{env:{CANARY}}}` -> 1)", UNSUPPORTED),
    _select("variable in an interval", "environment", f"ts + INTERVAL '${{env:{CANARY}}}' DAY", UNSUPPORTED),
    _select("variable in a key of JSON", "environment", f"get_json_object(body, '$.${{env:{CANARY}}}')", None),
    Hostile("session variable", "environment", "SELECT @@x FROM s", UNSUPPORTED),
    Hostile("parameter", "environment", "SELECT $$x$$ FROM s", SYNTAX),
    _select("reflection", "environment", f"reflect('java.lang.System', 'getenv', '{CANARY}')", UNSUPPORTED),
    _select("reflection by try", "environment", f"try_reflect('java.lang.System', 'getenv', '{CANARY}')", UNSUPPORTED),
    _select("Java method", "environment", f"java_method('java.lang.System', 'getenv', '{CANARY}')", UNSUPPORTED),
    _select("quoted function", "environment", f"`REFLECT`('java.lang.System', 'getenv', '{CANARY}')", UNSUPPORTED),
    _select("configuration of the session", "environment", "current_database()", UNSUPPORTED),
    _select("user of the service", "environment", "current_user", UNSUPPORTED),
    _select("version of Spark", "environment", "version()", UNSUPPORTED),
)

FILES = (
    _select("entity of XML", "files", f"xpath_string('{_ENTITY}', 'a')", UNSUPPORTED),
    _select("paths of XML", "files", f"xpath('{_ENTITY}', 'a/text()')", UNSUPPORTED),
    _select(
        "schema file of XML",
        "files",
        "from_xml(body, 'a int', map('rowValidationXSDPath', '/etc/passwd'))",
        UNSUPPORTED,
    ),
    _select("schema of XML", "files", "schema_of_xml('<a/>')", UNSUPPORTED),
    _select("descriptor file", "files", "from_protobuf(name, 'M', '/etc/passwd')", UNSUPPORTED),
    _select("Avro", "files", "from_avro(name, '{}')", UNSUPPORTED),
    _select("name of the input", "files", "input_file_name()", UNSUPPORTED),
    Hostile("files as a table", "files", "SELECT * FROM csv.`/etc/passwd`", "unknown_stream"),
    Hostile("file as a table", "files", "SELECT * FROM text.`file:///etc/passwd`", "unknown_stream"),
    Hostile("function of files", "files", "SELECT * FROM read_files('/etc')", UNSUPPORTED),
    Hostile("script", "files", "SELECT TRANSFORM(name) USING 'cat /etc/passwd' FROM s", SYNTAX),
    Hostile("archive", "files", "ADD JAR '/tmp/evil.jar'", UNSUPPORTED),
    Hostile("new function", "files", "CREATE FUNCTION f AS 'x.Y' USING JAR '/tmp/evil.jar'", UNSUPPORTED),
    Hostile("write", "files", "INSERT OVERWRITE DIRECTORY '/tmp/x' SELECT * FROM s", UNSUPPORTED),
    Hostile("second statement", "files", "SELECT k FROM s; CREATE TABLE x AS SELECT 1", UNSUPPORTED),
    _select("options of JSON", "files", "from_json(body, 'a int', map('mode', 'FAILFAST'))", UNSUPPORTED),
)

NETWORK = (
    _select("document type of XML", "network", f"xpath_string('{_DTD}', 'a')", UNSUPPORTED),
    _select("number of XML", "network", f"xpath_int('{_DTD}', 'a')", UNSUPPORTED),
    _select(
        "schema of XML by address",
        "network",
        f"from_xml(body, 'a int', map('rowValidationXSDPath', '{_HTTP}'))",
        UNSUPPORTED,
    ),
    _select("address as text", "network", f"parse_url('{_HTTP}/?a=b', 'HOST')", None),
    _select("address in a row", "network", "try_parse_url(body, 'QUERY', 'a')", None),
    _select(
        "socket by reflection", "network", "reflect('java.net.InetAddress', 'getByName', '127.0.0.1')", UNSUPPORTED
    ),
    Hostile("table by address", "network", f"SELECT * FROM json.`{_HTTP}/x`", "unknown_stream"),
    _select("artificial intelligence", "network", "ai_query('model', name)", UNSUPPORTED),
)

OTHERS = (
    Hostile("a table of Spark", "other tenants", "SELECT * FROM global_temp.x", "unknown_stream"),
    Hostile("the catalogue", "other tenants", "SELECT * FROM information_schema.tables", "unknown_stream"),
    Hostile("a subquery", "other tenants", "SELECT (SELECT max(x) FROM other) FROM s", UNSUPPORTED),
    Hostile("a union", "other tenants", "SELECT k FROM s UNION SELECT k FROM other", UNSUPPORTED),
    Hostile("settings", "other tenants", "SET spark.sql.ansi.enabled=false", UNSUPPORTED),
    Hostile("dropping", "other tenants", "DROP TABLE s", UNSUPPORTED),
    _select("a function of weft's", "other tenants", "weft_rlike(name, '(')", UNSUPPORTED),
    _select("a function with a schema", "other tenants", "default.f(name)", UNSUPPORTED),
    _select("a function of a catalogue", "other tenants", "system.builtin.current_user()", UNSUPPORTED),
    _select("failing on purpose", "other tenants", "raise_error('x')", UNSUPPORTED),
    _select("failing by an assertion", "other tenants", "assert_true(false)", UNSUPPORTED),
    _where("a quote that ends nothing", "other tenants", "name = 'it''s' OR upper(name) = '\\' OR 1=1 --'", None),
    _where("a name that ends nothing", "other tenants", "upper(name) = '` OR 1=1'", None),
)

CLOCK = (
    _select("now", "clock", "now()", UNSUPPORTED),
    _select("current date without parentheses", "clock", "current_date", UNSUPPORTED),
    _select("seconds of now", "clock", "unix_timestamp()", UNSUPPORTED),
    _select("a word as timestamp", "clock", "CAST('now' AS TIMESTAMP)", TYPE),
    _select("a word as timestamp by try", "clock", "TRY_CAST('now' AS TIMESTAMP)", TYPE),
    _select("a word behind a colon", "clock", "'today'::timestamp", TYPE),
    _select("a word as literal", "clock", "TIMESTAMP'now'", TYPE),
    _select("a word as date", "clock", "DATE'tomorrow'", TYPE),
    _select("a word as local time", "clock", "CAST(' Yesterday ' AS TIMESTAMP_NTZ)", TYPE),
    _select("a word by a function", "clock", "to_timestamp('now')", TYPE),
    _select("a word by a trying function", "clock", "try_to_timestamp('now')", TYPE),
    _select("a word by a function of dates", "clock", "to_date('today')", TYPE),
    _select("a word in pieces", "clock", "CAST(concat('no', 'w') AS TIMESTAMP)", UNSUPPORTED),
    _select("a word by an operator", "clock", "CAST('no' || 'w' AS DATE)", UNSUPPORTED),
    _select("a word of characters", "clock", "to_timestamp(chr(110) || 'ow')", UNSUPPORTED),
    _select("a word in a struct", "clock", "CAST(struct('now' AS a).a AS TIMESTAMP)", UNSUPPORTED),
    _select("a word in a choice", "clock", "CAST(coalesce(NULL, 'now') AS TIMESTAMP)", UNSUPPORTED),
    _select("a word in arithmetic", "clock", "date_add('today', 1)", UNSUPPORTED, by_spark=True),
    _select("a word made for arithmetic", "clock", "datediff(concat('to', 'day'), ts)", UNSUPPORTED, by_spark=True),
    _where("a word in a comparison", "clock", "lower(name) = 'x' OR ts > 'now'", TYPE),
    _where(
        "a word made for a comparison",
        "clock",
        "upper(name) = 'A' OR ts > concat('no', 'w')",
        UNSUPPORTED,
        by_spark=True,
    ),
    _where("a word in BETWEEN", "clock", "ts BETWEEN lower('TODAY') AND lower('TOMORROW')", UNSUPPORTED, by_spark=True),
    _select("a time of day as timestamp", "clock", "CAST('10:00' AS TIMESTAMP)", TYPE),
    _select("times of day in rows", "clock", "TRY_CAST(body AS TIMESTAMP)", None),
    _select("times of day by a function", "clock", "try_to_timestamp(body)", None),
    _select("times of day, unasked", "clock", "hour(body)", UNSUPPORTED, by_spark=True),
    _where("times of day in a comparison", "clock", "ts > body OR upper(name) = 'A'", UNSUPPORTED, by_spark=True),
    _select("times of day in a choice", "clock", "coalesce(ts, body)", UNSUPPORTED, by_spark=True),
    _select("times of day in an array", "clock", "array(ts, body)", UNSUPPORTED, by_spark=True),
    _select("times of day from JSON", "clock", "from_json(body, 'a timestamp')", UNSUPPORTED),
    _select("times of day from an array", "clock", "CAST(tags AS ARRAY<TIMESTAMP>)", UNSUPPORTED),
    _select(
        "times of day in a lambda", "clock", "transform(tags, t -> CAST(t AS TIMESTAMP))", UNSUPPORTED, by_spark=True
    ),
    _select("times", "clock", "CAST(TIME'10:00' AS TIMESTAMP)", UNSUPPORTED),
    _select("a time of a variant", "clock", "variant_get(parse_json(body), '$', 'timestamp')", UNSUPPORTED),
    _select("chance", "clock", "rand()", UNSUPPORTED),
    _select("an identity", "clock", "uuid()", UNSUPPORTED),
    _select("chance in encryption", "clock", "aes_encrypt(name, '0000111122223333')", UNSUPPORTED),
)

MACHINE = (
    _where("a pattern that goes back", "the machine", "body RLIKE '(.*a){20}b'", None),
    _where("a pattern that goes back in Spark", "the machine", "upper(body) RLIKE '(A+)+B'", None),
    _where("a pattern by a function", "the machine", "regexp_like(body, '([a-z]+.)+!$')", None),
    _select("groups that go back", "the machine", "regexp_extract(body, '(x+x+)+y', 1)", None),
    _select("replacing that goes back", "the machine", "regexp_replace(body, '(a|aa)+b', '')", None),
    _select("splitting that goes back", "the machine", "split(body, '(a|a)+!')", None),
    _where("a back-reference", "the machine", "body RLIKE '(a*)(b*)\\\\1\\\\2c'", UNSUPPORTED),
    _where("look-ahead", "the machine", "body RLIKE '(?=(a+))a*b\\\\1'", UNSUPPORTED),
    _where("a huge pattern", "the machine", "body RLIKE '((a{250}){250}){250}'", UNSUPPORTED),
    _where("a pattern in a row", "the machine", "name RLIKE body", UNSUPPORTED),
    _where("a LIKE pattern in a row", "the machine", "name LIKE body", UNSUPPORTED),
    _where("many wildcards", "the machine", "body LIKE '%a%a%a%a%a%a%a%a%a%b'", None),
    _where("many wildcards in Spark", "the machine", "upper(body) LIKE '%A%A%A%A%A%A%A%A%A%B'", None),
    _where("many wildcards of any case", "the machine", "body ILIKE '%a%a%a%a%a%a%a%a%a%b'", None),
    _where("wildcards without end", "the machine", f"body LIKE '{'%_' * 200}'", UNSUPPORTED),
    _select("a pattern as key", "the machine", "parse_url(body, 'QUERY', '(a+)+')", UNSUPPORTED),
    _select("a pattern as separator", "the machine", "str_to_map(body, '(a+)+b', ':')", UNSUPPORTED),
    _select("a long text", "the machine", "repeat('x', 2000000000)", LARGE),
    _select("a long text by a row", "the machine", "repeat(name, v)", UNSUPPORTED),
    _select("a long text in steps", "the machine", "repeat(repeat(repeat('x', 10000), 10000), 10000)", LARGE),
    _select("spaces", "the machine", "space(2000000000)", LARGE),
    _select("padding", "the machine", "lpad(name, 2000000000, 'x')", LARGE),
    _select("padding to the right", "the machine", "rpad('x', v * 1000000)", UNSUPPORTED),
    _select("a width", "the machine", "format_string('%2000000000d', v)", UNSUPPORTED),
    _select("a width of a row", "the machine", "printf(name, v)", UNSUPPORTED),
    _select("digits", "the machine", "format_number(ratio, 2000000000)", UNSUPPORTED),
    _select("rounding", "the machine", "round(ratio, 2000000000)", UNSUPPORTED),
    _select("rounding down", "the machine", "floor(ratio, -1000000000)", UNSUPPORTED),
    _select("small decimals from JSON", "the machine", "from_json(body, 'a decimal(10,2)')", UNSUPPORTED),
    _select("long numbers in rows", "the machine", "TRY_CAST(body AS DECIMAL(10, 2))", None),
    _select("long numbers in a field", "the machine", "CAST(addr.city AS DECIMAL(10, 2))", UNSUPPORTED, by_spark=True),
    _select("a long number", "the machine", f"TRY_CAST('{'9' * 90_000}' AS DECIMAL(10, 2))", UNSUPPORTED),
    _select("a long number made", "the machine", "TRY_CAST(repeat(repeat('9', 1000), 100) AS DECIMAL(10, 2))", None),
    _select("numbers", "the machine", "sequence(1, 2000000000)", UNSUPPORTED),
    _select("copies", "the machine", "array_repeat(name, 2000000000)", UNSUPPORTED),
    _select("a place far away", "the machine", "array_insert(tags, 2000000000, 'x')", UNSUPPORTED),
    _select("replacing by more", "the machine", "replace(" * 6 + "body" + ", 'a', 'aaaaaaaaaa')" * 6, LARGE),
    _select("doubling", "the machine", "hex(" * 12 + "name" + ")" * 12, LARGE),
    _select("many times one column", "the machine", "concat(" + ", ".join(["name"] * 5000) + ")", LARGE),
    _select("folding", "the machine", "aggregate(sequence(1, 60), name, (a, x) -> concat(a, a))", UNSUPPORTED),
    _select("a loop", "the machine", "reduce(sequence(1, 1000000), 0, (a, x) -> a + x)", UNSUPPORTED),
    _select("a loop in a loop", "the machine", "transform(tags, t -> exists(tags, u -> u = t))", UNSUPPORTED),
    _select("text in a loop", "the machine", "transform(tags, t -> concat(t, body))", UNSUPPORTED),
    _where(
        "long text in a loop",
        "the machine",
        "size(transform(split(repeat(body, 100), ''), t -> space(10000))) > 5",
        LARGE,
    ),
    _select("many long texts", "the machine", ", ".join(["repeat(space(10000), 99)"] * 3500), LARGE),
    _select("distances", "the machine", "levenshtein(body, body)", UNSUPPORTED),
    _select("similarities", "the machine", "jaro_winkler_similarity(body, body)", UNSUPPORTED),
    _select(
        "comparing all with all",
        "the machine",
        "array_distinct(arrays_zip(split(body, ''), split(body, '')))",
        UNSUPPORTED,
    ),
    _select("searching for long text", "the machine", f"instr(body, '{'a' * 5000}')", UNSUPPORTED),
    _select("rows of rows", "the machine", "explode(tags)", UNSUPPORTED),
    Hostile("deep nesting", "the machine", f"SELECT {'(' * 5000}k{')' * 5000} FROM s", LARGE),
    Hostile("long text", "the machine", f"SELECT '{'x' * 100_001}' FROM s", LARGE),
    Hostile("many columns", "the machine", f"SELECT {'*, ' * 20_000}* FROM s", LARGE),
    Hostile(
        "everything with everything",
        "the machine",
        "SELECT 1 FROM s [RANGE 1 HOUR] a, s [RANGE 1 HOUR] b",
        "cross_product",
    ),
)

CORPUS = (*ENVIRONMENT, *FILES, *NETWORK, *OTHERS, *CLOCK, *MACHINE)

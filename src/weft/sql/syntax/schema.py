"""Parse Spark's schema strings, such as `ts timestamp, price decimal(10,2), tags array<string>`."""

from __future__ import annotations

import re

from weft.errors import InvalidStream
from weft.plan.types import STRING, DataType, Field, Kind, Schema

_LONGEST_TEXT = 1_000_000
_DEEPEST = 50
_KINDS = {
    "boolean": Kind.BOOLEAN, "bool": Kind.BOOLEAN, "tinyint": Kind.TINYINT, "byte": Kind.TINYINT,
    "smallint": Kind.SMALLINT, "short": Kind.SMALLINT, "int": Kind.INT, "integer": Kind.INT, "bigint": Kind.BIGINT,
    "long": Kind.BIGINT, "float": Kind.FLOAT, "real": Kind.FLOAT, "double": Kind.DOUBLE, "string": Kind.STRING,
    "binary": Kind.BINARY, "date": Kind.DATE, "timestamp": Kind.TIMESTAMP, "timestamp_ltz": Kind.TIMESTAMP,
    "timestamp_ntz": Kind.TIMESTAMP_NTZ, "void": Kind.NULL,
}  # fmt: skip
_WORD = re.compile(r"[^\s,:<>()`'\"]+")
_NAME = re.compile(r"`((?:[^`]|``)+)`|([^\s,:<>()`'\"]+)")
_DECIMAL = re.compile(r"\(\s*([0-9]{1,4})\s*(?:,\s*([0-9]{1,4})\s*)?\)")
_LENGTH = re.compile(r"\(\s*[0-9]{1,9}\s*\)")
_SPACE = re.compile(r"\s*")
_TEXT = r"(?:'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")"
_SUFFIX = re.compile(rf"(?:\s+NOT\s+NULL\b|\s+NULL\b|\s+COMMENT\s+{_TEXT})+", re.IGNORECASE)
_REST = re.compile(r"interval(?:\s+(?:year|month|day|hour|minute|second)(?:\s+to\s+(?:month|hour|minute|second))?)?"
                   r"|variant|time(?:\([0-9]\))?", re.IGNORECASE)  # fmt: skip


def parse_schema(ddl: str) -> Schema:
    """Return the schema that a DDL string declares; raise `InvalidStream` with the position of an error."""
    if not str(ddl or "").strip():
        raise InvalidStream("the schema is empty", hint='Write it like "ts timestamp, userID bigint".')
    if len(ddl) > _LONGEST_TEXT:
        raise InvalidStream(f"the schema text is longer than {_LONGEST_TEXT} characters")
    if "${" in ddl:
        raise InvalidStream(
            'a name in the schema contains "${"',
            hint="Spark would take it for a variable: give the column another name.",
        )
    reader = _Reader(ddl)
    fields = reader.fields("")
    seen: dict[str, str] = {}
    for field in fields:
        key = field.name.lower()
        if key in seen:
            raise InvalidStream(
                f'column "{field.name}" is declared twice in the schema',
                detail=f'It clashes with "{seen[key]}": names are compared without regard to case.',
            )
        seen[key] = field.name
    return Schema(tuple(fields))


def parse_type(text: str) -> DataType:
    """Return the type that a text such as `decimal(10,2)` names; raise `InvalidStream` if it does not name one."""
    reader = _Reader(text)
    type_ = reader.type(0)
    reader.expect_end()
    return type_


class _Reader:
    """A cursor over the text of one schema."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def fields(self, closing: str, depth: int = 0) -> list[Field]:
        """Consume and return the fields up to `closing`, or up to the end of the text if `closing` is empty."""
        fields = []
        while True:
            name = self._name()
            self._take(":")
            fields.append(Field(name, self.type(depth, column=name)))
            self._match(_SUFFIX, skip=False)
            if self._take(","):
                continue
            if closing:
                self._require(closing)
            else:
                self.expect_end()
            return fields

    def type(self, depth: int, column: str = "") -> DataType:
        """Consume and return the type at the cursor."""
        if depth > _DEEPEST:
            raise InvalidStream(f"the schema is nested deeper than {_DEEPEST} levels")
        self._skip()
        special = _REST.match(self.text, self.at)
        word = self._match(_WORD)
        of = f' of column "{column}"' if column else ""
        if word is None:
            raise InvalidStream(f"the type{of} is missing {self._where()}")
        lowered = word[0].lower()
        if lowered in _KINDS:
            return DataType(_KINDS[lowered])
        match lowered:
            case "decimal" | "dec" | "numeric":
                return self._decimal(of)
            case "varchar" | "char" | "character":
                self._match(_LENGTH)
                return STRING
            case "array" | "map" | "struct":
                return DataType(Kind.OTHER, text=self._nested(lowered, depth))
            case _:
                pass
        if special is not None and special.end() >= word.end():
            self.at = special.end()
            return DataType(Kind.OTHER, text=" ".join(special[0].lower().split()))
        raise InvalidStream(
            f'unknown type "{word[0][:60]}"{of}',
            hint="Types are Spark's: boolean, int, bigint, double, decimal(p,s), string, date, timestamp, array<…>, …",
        )

    def _decimal(self, of: str) -> DataType:
        match = self._match(_DECIMAL)
        precision, scale = (int(match[1]), int(match[2] or 0)) if match else (10, 0)
        if not 1 <= precision <= 38 or scale > precision:
            raise InvalidStream(
                f"decimal({precision},{scale}){of} is out of range", hint="Precision is 1 to 38, scale at most that."
            )
        return DataType(Kind.DECIMAL, precision, scale)

    def _nested(self, kind: str, depth: int) -> str:
        self._require("<")
        if kind == "struct":
            if self._take(">"):
                return "struct<>"
            parts = [f"{_field_name(field.name)}:{field.type.ddl()}" for field in self.fields(">", depth + 1)]
            return f"struct<{','.join(parts)}>"
        parts = [self.type(depth + 1).ddl()]
        if kind == "map":
            self._require(",")
            parts.append(self.type(depth + 1).ddl())
        self._require(">")
        return f"{kind}<{','.join(parts)}>"

    def _name(self) -> str:
        match = self._match(_NAME)
        if match is None:
            raise InvalidStream(f"a column name is missing {self._where()}")
        return match[1].replace("``", "`") if match[1] is not None else str(match[2])

    def expect_end(self) -> None:
        """Raise `InvalidStream` unless only white space is left."""
        self._skip()
        if self.at < len(self.text):
            raise InvalidStream(
                f'unexpected "{self.text[self.at : self.at + 20]}" {self._where()}',
                hint='Separate columns with commas: "ts timestamp, userID bigint".',
            )

    def _match(self, pattern: re.Pattern[str], skip: bool = True) -> re.Match[str] | None:
        if skip:
            self._skip()
        match = pattern.match(self.text, self.at)
        if match is not None:
            self.at = match.end()
        return match

    def _take(self, char: str) -> bool:
        self._skip()
        if not self.text.startswith(char, self.at):
            return False
        self.at += len(char)
        return True

    def _require(self, char: str) -> None:
        if not self._take(char):
            raise InvalidStream(f'expected "{char}" {self._where()}')

    def _skip(self) -> None:
        match = _SPACE.match(self.text, self.at)
        assert match is not None
        self.at = match.end()

    def _where(self) -> str:
        return f"at position {self.at + 1} of the schema"


def _field_name(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) else "`" + name.replace("`", "``") + "`"

"""Scan a query into tokens for the parser: check limits, take out the windows, and mark functions by name.

The parser is recursive and accepts many dialects, so deep nesting, statements other than SELECT and long chains of
joins are refused here, before parsing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, auto

from sqlglot import Token, TokenType
from sqlglot.dialects import Spark
from sqlglot.errors import TokenError

from weft.errors import QuerySyntaxError, QueryTooLarge, UnsupportedQuery
from weft.plan.window import Window
from weft.sql.syntax.function_marks import mark_functions, place_in_text
from weft.sql.syntax.string_literal import join_strings
from weft.sql.syntax.window_clause import parse_window

LONGEST_TEXT = 100_000
DEEPEST = 200
MOST_RELATIONS = 8
_MOST_NESTED_TYPES = 20

_BAD_CHARACTER = re.compile("[\x00-\x08\x0b\x0e-\x1f\x7f\ud800-\udfff]")

_NAMES = (TokenType.VAR, TokenType.IDENTIFIER)
_OPEN = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE, TokenType.CASE}
_CLOSE = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE, TokenType.END}
_OPERANDS = {TokenType.VAR, TokenType.IDENTIFIER, TokenType.NUMBER, TokenType.STRING, TokenType.COMMA,
             TokenType.TRUE, TokenType.FALSE, TokenType.NULL, *_CLOSE}  # fmt: skip
_SETS = (TokenType.UNION, TokenType.EXCEPT, TokenType.INTERSECT)
_NESTED_TYPES = (TokenType.ARRAY, TokenType.MAP, TokenType.STRUCT)


class _Clause(Enum):
    """The clause at the cursor: in FROM and ON, a comma ends a relation; outside of FROM, a bracket is an index."""

    FROM = auto()
    ON = auto()
    OTHER = auto()


_CLAUSE_STARTS = {
    TokenType.ON: _Clause.ON,
    TokenType.USING: _Clause.ON,
    **dict.fromkeys(
        (
            TokenType.WHERE, TokenType.GROUP_BY, TokenType.HAVING, TokenType.ORDER_BY, TokenType.LIMIT,
            TokenType.LATERAL, TokenType.QUALIFY, TokenType.WINDOW,
        ),
        _Clause.OTHER,
    ),
}  # fmt: skip
_RELATION_FOLLOWS = (TokenType.FROM, TokenType.JOIN, TokenType.STRAIGHT_JOIN)
_STATEMENTS = frozenset(
    "add alter analyze begin cache call clear comment copy create declare delete desc describe drop execute explain "
    "export from grant import insert install kill list load lock merge msck optimize pragma refresh repair replace "
    "reset restore revoke set show table truncate uncache unlock unset update use vacuum values with".split()
)


@dataclass(frozen=True, slots=True)
class Scan:
    """Tokens without window clauses, and the windows by the text offset of the relation's name."""

    tokens: list[Token]
    windows: dict[int, Window]


def scan(text: str) -> Scan:
    """Return the tokens and windows of one SELECT statement; refuse other statements and text that is too large."""
    _check_text(text)
    tokens = _words(join_strings(_one_statement(_tokenize(text), text), text))
    _check_nesting(tokens)
    _check_keywords(tokens, text)
    _check_commas(tokens, text)
    windows: dict[int, Window] = {}
    kept = _take_windows(tokens, windows, text)
    return Scan(mark_functions(kept, text), windows)


def _check_text(text: str) -> None:
    if not isinstance(text, str):
        raise QuerySyntaxError(f"a query must be text, not {type(text).__name__}")
    if len(text) > LONGEST_TEXT:
        raise QueryTooLarge(
            f"the query is {len(text)} characters long", hint=f"The longest is {LONGEST_TEXT} characters."
        )
    match = _BAD_CHARACTER.search(text)
    if match is not None:
        where = place_in_text(text, match.start())
        raise QuerySyntaxError(f"character U+{ord(match[0]):04X} is not allowed in a query at {where}")


def _tokenize(text: str) -> list[Token]:
    try:
        tokens: list[Token] = Spark().tokenize(text)
    except TokenError as error:
        offset = _unterminated(text)
        raise QuerySyntaxError(
            f"a quoted text or comment is not closed at {place_in_text(text, offset)}",
            hint="Close it with the quote it began with; inside strings write \\' or '' for a quote.",
        ) from error
    return tokens


def _words(tokens: list[Token]) -> list[Token]:
    """Return the tokens with `w.end` and `window` as names, as in Spark; the tokenizer reads them as keywords."""
    words = []
    for index, token in enumerate(tokens):
        kind = token.token_type
        following = tokens[index + 1].token_type if index + 1 < len(tokens) else None
        is_field = kind in (TokenType.END, TokenType.CASE) and index and tokens[index - 1].token_type is TokenType.DOT
        if is_field or (kind is TokenType.WINDOW and following not in _NAMES):
            token = Token(TokenType.VAR, token.text, token.line, token.col, token.start, token.end)  # noqa: PLW2901
        words.append(token)
    return words


_PIECES = re.compile(
    r"--[^\n]*|/\*.*?\*/|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|`(?:[^`]|``)*`|[^'\"`/-]+|-(?!-)|/(?!\*)", re.DOTALL
)


def _unterminated(text: str) -> int:
    offset = 0
    while offset < len(text) and (match := _PIECES.match(text, offset)):
        offset = match.end()
    return min(offset, max(len(text) - 1, 0))


def _one_statement(tokens: list[Token], text: str) -> list[Token]:
    while tokens and tokens[-1].token_type is TokenType.SEMICOLON:
        tokens = tokens[:-1]
    if not tokens:
        raise QuerySyntaxError("the query is empty at line 1, column 1", hint="Write SELECT … FROM stream.")
    first = tokens[0]
    if first.token_type is TokenType.SELECT:
        for token in tokens:
            if token.token_type is TokenType.SEMICOLON:
                raise UnsupportedQuery(
                    "a query must be one statement",
                    detail=f"Another one begins after the semicolon at {place_in_text(text, token.start)}.",
                )
        return tokens
    word = first.text[:40]
    if first.token_type is TokenType.WITH:
        raise UnsupportedQuery("WITH (common table expressions) is not supported", hint="Write one plain SELECT.")
    if first.token_type is TokenType.L_PAREN:
        raise UnsupportedQuery("a query in parentheses is not supported", hint="Write one plain SELECT.")
    if word.lower().partition(" ")[0] in _STATEMENTS and first.token_type is not TokenType.IDENTIFIER:
        raise UnsupportedQuery(f"{word.upper()} is not supported", hint="Only SELECT queries can be created.")
    raise QuerySyntaxError(
        f'expected SELECT but found "{word}" at {place_in_text(text, first.start)}', hint="Write SELECT … FROM stream."
    )


def _check_nesting(tokens: list[Token]) -> None:
    depth = run = types = 0
    for index, token in enumerate(tokens):
        kind = token.token_type
        if kind in _OPEN:
            depth += 1
        elif kind in _CLOSE:
            depth -= 1
        # Prefix operators nest without brackets: NOT NOT NOT …, - - - …, INTERVAL INTERVAL …
        run = 0 if kind in _OPERANDS else run + 1
        if kind in _NESTED_TYPES and index + 1 < len(tokens) and tokens[index + 1].token_type is TokenType.LT:
            types += 1
        if depth > DEEPEST or run > DEEPEST:
            raise QueryTooLarge(f"the query is nested deeper than {DEEPEST} levels")
        if types > _MOST_NESTED_TYPES:
            raise QueryTooLarge(f"the query names more than {_MOST_NESTED_TYPES} nested types")


def _check_keywords(tokens: list[Token], text: str) -> None:
    joins = 0
    for index, token in enumerate(tokens):
        kind = token.token_type
        if kind is TokenType.SELECT and index:
            _refuse_second_select(tokens, index, text)
        elif kind is TokenType.JOIN or kind is TokenType.STRAIGHT_JOIN:
            joins += 1
            if tokens[index - 1].token_type is TokenType.CROSS:
                raise UnsupportedQuery(
                    f"CROSS JOIN at {place_in_text(text, tokens[index - 1].start)} is not supported",
                    hint="Join with an equality: JOIN … ON a.key = b.key.",
                )
        elif token.text == "|>" and kind is not TokenType.STRING:
            raise UnsupportedQuery(f"pipe syntax at {place_in_text(text, token.start)} is not supported")
    if joins >= MOST_RELATIONS:
        raise too_many_relations()


def too_many_relations() -> UnsupportedQuery:
    """Return the error for a join of too many relations."""
    return UnsupportedQuery(
        f"a join of more than {MOST_RELATIONS} relations is not supported",
        hint="Write the result of a query to a stream, and join that one.",
    )


def _refuse_second_select(tokens: list[Token], index: int, text: str) -> None:
    before = [token.token_type for token in tokens[max(index - 4, 0) : index]]
    where = place_in_text(text, tokens[index].start)
    if any(kind in _SETS for kind in before):
        raise UnsupportedQuery(
            f"UNION, INTERSECT and EXCEPT are not supported: second SELECT at {where}", hint="Create one query each."
        )
    if before[-1] is TokenType.L_PAREN:
        raise UnsupportedQuery(f"subquery at {where} is not supported", hint="Write one plain SELECT over streams.")
    raise QuerySyntaxError(f'unexpected "SELECT" at {where}')


def _check_commas(tokens: list[Token], text: str) -> None:
    """Refuse stray commas, which the parser accepts and Spark does not."""
    for before, token in zip(tokens, [*tokens[1:], None], strict=True):
        kind = token.token_type if token else None
        stray = before.token_type is TokenType.COMMA and kind in (
            None, TokenType.COMMA, TokenType.FROM, TokenType.R_PAREN, TokenType.WHERE,
        )  # fmt: skip
        stray |= kind is TokenType.COMMA and before.token_type in (TokenType.SELECT, TokenType.L_PAREN, TokenType.FROM)
        if stray:
            comma = before if before.token_type is TokenType.COMMA else token
            assert comma is not None
            raise QuerySyntaxError(f'unexpected "," at {place_in_text(text, comma.start)}')


def _take_windows(tokens: list[Token], windows: dict[int, Window], text: str) -> list[Token]:
    """Return the tokens without the windows in brackets after the names of relations; add these to `windows`."""
    kept: list[Token] = []
    depth, index, expecting, clause = 0, 0, False, _Clause.OTHER
    while index < len(tokens):
        token = tokens[index]
        kind = token.token_type
        depth += (kind in _OPEN) - (kind in _CLOSE)
        kept.append(token)
        index += 1
        if depth:
            _check_bracket(token, text, expecting=expecting, clause=clause)
        elif expecting:
            index = _take_relation(tokens, index, rest=kept, windows=windows, text=text)
            expecting, clause = False, _Clause.FROM
        else:
            distinct_from = kind is TokenType.FROM and tokens[index - 2].token_type is TokenType.DISTINCT
            after_comma = clause is not _Clause.OTHER and kind is TokenType.COMMA
            expecting = (kind in _RELATION_FOLLOWS or after_comma) and not distinct_from
            if kind in _CLAUSE_STARTS:
                clause = _CLAUSE_STARTS[kind]
    return kept


def _check_bracket(token: Token, text: str, *, expecting: bool, clause: _Clause) -> None:
    if expecting and token.token_type is TokenType.L_PAREN:
        raise UnsupportedQuery(
            f"a relation in parentheses at {place_in_text(text, token.start)} is not supported",
            hint="FROM takes streams: FROM purchases AS p JOIN ads AS a ON ….",
        )
    if clause is _Clause.FROM and token.token_type is TokenType.L_BRACKET:
        raise QuerySyntaxError(
            f'unexpected "[" at {place_in_text(text, token.start)}',
            hint="The window follows the stream's name: FROM purchases [RANGE 8 SECONDS] AS p.",
        )


def _take_relation(
    tokens: list[Token], index: int, *, rest: list[Token], windows: dict[int, Window], text: str
) -> int:  # fmt: skip
    """Read a dotted name, with its first part already in `rest`, and its window; return the next index."""
    while index + 1 < len(tokens) and tokens[index].token_type is TokenType.DOT:
        rest += tokens[index : index + 2]
        index += 2
    if index >= len(tokens) or tokens[index].token_type is not TokenType.L_BRACKET:
        return index
    name, opening = rest[-1], tokens[index]
    body: dict[int, str] = {}
    for end in range(index + 1, len(tokens)):
        token = tokens[end]
        if token.token_type is TokenType.R_BRACKET:
            where = place_in_text(text, opening.start)
            windows[name.start] = parse_window(" ".join(body.values()), relation=name.text, position=where)
            return end + 1
        # A suffixed number such as 8S is several tokens over the same characters.
        body[token.start] = text[token.start : token.end + 1]
    raise QuerySyntaxError(
        f'window of relation "{name.text}" at {place_in_text(text, opening.start)} is not closed',
        hint="Add the missing ].",
    )

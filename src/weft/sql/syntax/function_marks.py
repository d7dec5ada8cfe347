"""Function calls in the tokens of a query: mark the names of functions, and refuse unsupported functions by name."""

from __future__ import annotations

import re

from sqlglot import Token, TokenType

from weft.errors import UnsupportedQuery
from weft.sql.functions.allowlist import (
    AGGREGATES,
    COMPUTED,
    COMPUTED_TEXT,
    GENERATORS,
    RANKINGS,
    UNSTABLE,
    UNSTABLE_WORDS,
    WINDOWS,
)
from weft.sql.syntax.duration import UNITS

# sqlglot translates the functions that it knows into its own nodes and back, and not always to the same function. It
# does not know a marked name, so the call stays as written.
MARK = "weft$"
_WITH_GRAMMAR = frozenset("cast try_cast extract trim overlay position substring substr".split())
_WITH_UNIT = frozenset("timestampadd timestampdiff dateadd datediff date_add date_diff".split())
_FUNCTION_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

_NAMES = (TokenType.VAR, TokenType.IDENTIFIER)
# Keywords that are functions unless an operand precedes them (FILTER after a call belongs to the call).
_CALLED_KEYWORDS = (
    TokenType.LEFT, TokenType.RIGHT, TokenType.REPLACE, TokenType.CHAR, TokenType.EXISTS, TokenType.FILTER,
    TokenType.ISNULL, TokenType.RLIKE,
)  # fmt: skip
_QUANTIFIED = (TokenType.LIKE, TokenType.ILIKE, TokenType.RLIKE)

_REFUSED = (AGGREGATES | RANKINGS | GENERATORS | UNSTABLE) - COMPUTED - WINDOWS
_QUANTILES = frozenset("median percentile percentile_cont percentile_disc".split())
_OPERANDS = {
    TokenType.VAR, TokenType.IDENTIFIER, TokenType.NUMBER, TokenType.STRING, TokenType.TRUE, TokenType.FALSE,
    TokenType.NULL, TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE, TokenType.END,
}  # fmt: skip
_OPEN, _CLOSE = (TokenType.L_PAREN, TokenType.L_BRACKET), (TokenType.R_PAREN, TokenType.R_BRACKET)
# With a unit, these are synonyms of timestampdiff; the parser would convert their arguments to days.
_DIFFERENCES = dict.fromkeys(("datediff", "date_diff"), "timestampdiff")


def place_in_text(text: str, offset: int) -> str:
    """Return the line and column of an offset, counted from one, as text for an error message."""
    line = text.count("\n", 0, offset) + 1
    return f"line {line}, column {offset - text.rfind(chr(10), 0, offset)}"


def mark_functions(tokens: list[Token], text: str) -> list[Token]:
    """Return the tokens with `MARK` before the name of each function that has no grammar of its own."""
    marked = []
    for index, token in enumerate(tokens):
        following = tokens[index + 1].token_type if index + 1 < len(tokens) else None
        before = tokens[index - 1].token_type if index else None
        if following is TokenType.L_PAREN:
            _check_function(token, tokens[index + 2 : index + 3], before=before, text=text)
            is_function = token.token_type in _NAMES or _is_called(tokens, index)
            if is_function and not _keeps_grammar(tokens, index):
                marked.append(Token(TokenType.VAR, MARK + token.text, token.line, token.col, token.start, token.end))
                continue
            if is_function and token.text.lower() in _DIFFERENCES:
                name = _DIFFERENCES[token.text.lower()]
                token = Token(token.token_type, name, token.line, token.col, token.start, token.end)  # noqa: PLW2901
        elif (
            token.text.lower() in UNSTABLE_WORDS
            and token.token_type not in (TokenType.IDENTIFIER, TokenType.STRING)
            and TokenType.DOT not in (before, following)
            and before is not TokenType.ALIAS
        ):
            raise _unstable(token.text, place_in_text(text, token.start))
        marked.append(token)
    return marked


def _is_called(tokens: list[Token], index: int) -> bool:
    """Return whether the keyword at `index` is the name of a function."""
    if tokens[index].token_type not in _CALLED_KEYWORDS:
        return False
    before = index - 1
    if before > 0 and tokens[before].token_type is TokenType.NOT:
        before -= 1
    return tokens[before].token_type not in _OPERANDS


def _keeps_grammar(tokens: list[Token], index: int) -> bool:
    name = tokens[index].text.lower()
    return name in _WITH_GRAMMAR or (name in _WITH_UNIT and _has_unit(tokens, index + 2))


def _has_unit(tokens: list[Token], first: int) -> bool:
    """Return whether there are three arguments and the first is a unit: with two, `day` is a column."""
    if first >= len(tokens) or tokens[first].text.lower() not in UNITS | {"month", "quarter", "year"}:
        return False
    depth = commas = 0
    for token in tokens[first:]:
        depth += (token.token_type in _OPEN) - (token.token_type in _CLOSE)
        commas += token.token_type is TokenType.COMMA and depth == 0
        if depth < 0:
            break
    return commas == 2


def _check_function(token: Token, following: list[Token], *, before: TokenType | None, text: str) -> None:
    name = token.text.lower()
    if name in _REFUSED and before not in _QUANTIFIED:
        _refuse_function(name, place_in_text(text, token.start))
    no_argument = bool(following) and following[0].token_type is TokenType.R_PAREN
    if name in ("unix_timestamp", "to_unix_timestamp") and no_argument:
        raise _unstable(name, place_in_text(text, token.start))
    if token.token_type is TokenType.IDENTIFIER and not _FUNCTION_NAME.fullmatch(token.text):
        raise UnsupportedQuery(f'function "{token.text[:60]}" at {place_in_text(text, token.start)} does not exist')


def _refuse_function(name: str, where: str) -> None:
    if name in AGGREGATES:
        hint = f"Aggregate functions are {COMPUTED_TEXT}."
        if name in _QUANTILES:
            hint = "Use PERCENTILE_APPROX(x, 0.5), which needs no sorting of the rows."
        raise UnsupportedQuery(f"aggregate function {name}() at {where} is not supported", hint=hint)
    if name in RANKINGS:
        raise UnsupportedQuery(f"window function {name}() at {where} is not supported")
    if name in GENERATORS:
        raise UnsupportedQuery(f"function {name}() at {where} gives several rows per row and is not supported")
    raise _unstable(name, where)


def _unstable(name: str, where: str) -> UnsupportedQuery:
    return UnsupportedQuery(
        f"function {name.lower()} at {where} is not supported",
        detail="Its value depends on more than the row, so results could not be repeated.",
        hint="Put the value into the stream, or filter on the event-time column.",
    )

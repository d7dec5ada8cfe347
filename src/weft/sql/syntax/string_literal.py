"""String literals as in Spark: doubled quotes, raw strings, and concatenation of adjacent literals."""

from __future__ import annotations

from sqlglot import Token, TokenType

_STRINGS = (TokenType.STRING, TokenType.RAW_STRING)


def join_strings(tokens: list[Token], text: str) -> list[Token]:
    """Return the tokens with adjacent strings joined and all strings as plain string tokens."""
    joined: list[Token] = []
    last: Token | None = None
    for token in tokens:
        if token.token_type not in _STRINGS:
            joined.append(token)
            last = None
            continue
        if last is None:
            first, value = token, token.text
        else:
            first = joined.pop()
            value = first.text + _between(last, token, text) + token.text
        joined.append(Token(TokenType.STRING, value, first.line, first.col, first.start, token.end))
        last = token
    return joined


def _between(first: Token, second: Token, text: str) -> str:
    """Return a quote if two tokens are one literal that the tokenizer split at a doubled quote; else an empty text."""
    quote = text[first.end]
    are_plain = first.token_type is second.token_type is TokenType.STRING
    return quote if are_plain and first.end + 1 == second.start and text[second.start] == quote else ""

"""String literals as Spark reads them: doubled quotes, raw strings, and neighbours that are one text."""

from __future__ import annotations

from sqlglot import Token, TokenType

_STRINGS = (TokenType.STRING, TokenType.RAW_STRING)


def join_strings(tokens: list[Token], text: str) -> list[Token]:
    """Tokens in which neighbouring strings are one, and all strings are plain."""
    found: list[Token] = []
    last: Token | None = None
    for token in tokens:
        if token.token_type not in _STRINGS:
            found.append(token)
            last = None
            continue
        if last is None:
            first, value = token, token.text
        else:
            first = found.pop()
            value = first.text + _between(last, token, text) + token.text
        found.append(Token(TokenType.STRING, value, first.line, first.col, first.start, token.end))
        last = token
    return found


def _between(first: Token, second: Token, text: str) -> str:
    """A quote if two string tokens are one literal with a doubled quote: the tokenizer ends a string at the first."""
    quote = text[first.end]
    plain = first.token_type is second.token_type is TokenType.STRING
    return quote if plain and first.end + 1 == second.start and text[second.start] == quote else ""

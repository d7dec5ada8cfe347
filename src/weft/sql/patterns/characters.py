"""Characters and character sets of regular expressions, read in Java's syntax and written in RE2's."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

_LAST = 0x10FFFF
_IN_SET = frozenset("\\[]^-")
_NAME = re.compile(r"<([A-Za-z][A-Za-z0-9]*)>")
_POSIX = re.compile(r"\{([A-Za-z]+)\}")
_HEX2, _HEX4, _OCTAL = re.compile(r"[0-9a-fA-F]{2}"), re.compile(r"[0-9a-fA-F]{4}"), re.compile(r"[0-3]?[0-7]{1,2}")
_HEX = re.compile(r"\{([0-9a-fA-F]{1,6})\}")
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}


class PatternError(ValueError):
    """A pattern that cannot be matched in linear time with Java's result."""

    def __init__(self, reason: str, *, hint: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.hint = hint


@dataclass(frozen=True, slots=True)
class CharacterSet:
    """A set of code points, as sorted ranges that neither overlap nor adjoin."""

    ranges: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, characters: str) -> CharacterSet:
        """Return the set of the given characters."""
        return cls.union((ord(character), ord(character)) for character in characters)

    @classmethod
    def union(cls, ranges: Iterable[tuple[int, int]]) -> CharacterSet:
        """Return the set of all code points in the given ranges."""
        merged: list[tuple[int, int]] = []
        for low, high in sorted(ranges):
            if merged and low <= merged[-1][1] + 1:
                merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
            else:
                merged.append((low, high))
        return cls(tuple(merged))

    def inverse(self) -> CharacterSet:
        """Return the set of all other code points."""
        gaps, start = [], 0
        for low, high in self.ranges:
            if low > start:
                gaps.append((start, low - 1))
            start = high + 1
        if start <= _LAST:
            gaps.append((start, _LAST))
        return CharacterSet(tuple(gaps))

    def folded(self) -> CharacterSet:
        """Return the set with both cases of each ASCII letter: Java's (?i) ignores the case of no swapped letter."""
        swapped = []
        for low, high in self.ranges:
            for first, step in ((ord("A"), 32), (ord("a"), -32)):
                begin, end = max(low, first), min(high, first + 25)
                if begin <= end:
                    swapped.append((begin + step, end + step))
        return CharacterSet.union((*self.ranges, *swapped))

    def text(self) -> str:
        """Return the set in RE2's syntax; an empty set matches nothing."""
        if not self.ranges:
            return r"[^\x{0}-\x{10FFFF}]"
        return "[" + "".join(_range_text(low, high) for low, high in self.ranges) + "]"


def _range_text(low: int, high: int) -> str:
    return f"\\x{{{low:X}}}" if low == high else f"\\x{{{low:X}}}-\\x{{{high:X}}}"


def one_character(character: str, special: frozenset[str]) -> str:
    """Return a character outside of a set in RE2's syntax; `special` characters are escaped."""
    if character in special:
        return "\\" + character
    return character if character.isprintable() else f"\\x{{{ord(character):X}}}"


def _ascii(*ranges: tuple[str, str]) -> CharacterSet:
    return CharacterSet.union((ord(low), ord(high)) for low, high in ranges)


_DIGIT, _WORD = _ascii(("0", "9")), _ascii(("0", "9"), ("A", "Z"), ("a", "z"), ("_", "_"))
_SPACE = CharacterSet.of(" \t\n\x0b\f\r")
CLASSES = {
    "d": _DIGIT, "D": _DIGIT.inverse(), "w": _WORD, "W": _WORD.inverse(), "s": _SPACE, "S": _SPACE.inverse(),
}  # fmt: skip
_PUNCT = CharacterSet.of("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
POSIX = {
    "Lower": _ascii(("a", "z")), "Upper": _ascii(("A", "Z")), "ASCII": _ascii(("\0", "\x7f")),
    "Alpha": _ascii(("A", "Z"), ("a", "z")), "Digit": _DIGIT, "Alnum": _ascii(("0", "9"), ("A", "Z"), ("a", "z")),
    "Punct": _PUNCT, "Graph": _ascii(("!", "~")), "Print": _ascii((" ", "~")), "Blank": CharacterSet.of(" \t"),
    "Cntrl": _ascii(("\0", "\x1f"), ("\x7f", "\x7f")), "XDigit": _ascii(("0", "9"), ("A", "F"), ("a", "f")),
    "Space": _SPACE,
}  # fmt: skip


class PatternReader:
    """A cursor over the text of a pattern."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    @property
    def done(self) -> bool:
        """Whether the cursor is at the end of the text."""
        return self.at >= len(self.text)

    def peek(self) -> str:
        """Return the next character."""
        return self.text[self.at]

    def next(self, after: str = "") -> str:
        """Consume and return the next character; `after` goes into the error at the end of the text."""
        if self.done:
            raise PatternError(f'it ends after "{after}"')
        self.at += 1
        return self.text[self.at - 1]

    def take(self, character: str) -> bool:
        """Consume `character` if it is next; return whether it was."""
        is_next = self.text.startswith(character, self.at)
        self.at += len(character) if is_next else 0
        return is_next

    def while_in(self, characters: str) -> str:
        """Consume and return the longest run of the given characters."""
        start = self.at
        while not self.done and self.peek() in characters:
            self.at += 1
        return self.text[start : self.at]

    def digits(self) -> str:
        """Consume and return at most four digits."""
        start = self.at
        while not self.done and self.peek() in "0123456789" and self.at < start + 4:
            self.at += 1
        return self.text[start : self.at]

    def group_name(self) -> str:
        """Consume `<name>` if it is next; return the name, or an empty text."""
        return self._match(_NAME)

    def posix(self) -> str:
        """Consume a class name such as `{Alpha}` if it is next; return the name, or an empty text."""
        return self._match(_POSIX)

    def _match(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self.text, self.at)
        if match is None:
            return ""
        self.at = match.end()
        return match[match.re.groups]

    def escaped(self, character: str) -> str:
        """Return the character that a backslash and `character` stand for; consume its digits."""
        if character in _CONTROLS:
            return _CONTROLS[character]
        match character:
            case "0":
                digits, base = self._match(_OCTAL), 8
            case "x":
                digits, base = self._match(_HEX) or self._match(_HEX2), 16
            case "u":
                digits, base = self._match(_HEX4), 16
            case _ if not (character.isascii() and character.isalnum()):
                return character
            case _:
                raise PatternError(f'it has "\\{character}"', hint="Double a backslash to match one.")
        code = int(digits or "110000", base)
        if code > _LAST or 0xD800 <= code <= 0xDFFF:
            raise PatternError(f'"\\{character}{digits}" names no character')
        return chr(code)

    def character_set(self, *, any_case: bool) -> CharacterSet:
        """Consume a set after its "[" up to its "]" and return it; `any_case` adds the other case of ASCII letters."""
        inverse = self.take("^")
        ranges: list[tuple[int, int]] = []
        start = self.at
        while self.at == start or not self.take("]"):
            first = self._member(first=self.at == start, properties=not any_case)
            if isinstance(first, CharacterSet):
                ranges += first.ranges
                continue
            last = self._range_end()
            if last < first and last >= 0:
                raise PatternError(f'it has the range "{chr(first)}-{chr(last)}", which goes backwards')
            ranges.append((first, max(first, last)))
        result = CharacterSet.union(ranges)
        result = result.folded() if any_case else result
        return result.inverse() if inverse else result

    def _range_end(self) -> int:
        """Consume the "-" and the end of a range and return the end; -1 if no range follows (as in "a-]")."""
        if not self.text.startswith("-", self.at) or self.text.startswith("-]", self.at):
            return -1
        self.at += 1
        last = self._member(first=False, properties=False)
        if isinstance(last, CharacterSet):
            raise PatternError("it has a range that ends with a set of characters")
        return last

    def _member(self, *, first: bool, properties: bool) -> int | CharacterSet:
        character = self.next("[")
        if character == "[" or (character == "&" and self.text.startswith("&", self.at)):
            raise PatternError("it has a set inside a set, or an intersection (&&)", hint="Write \\\\[ for a [.")
        if character == "]" or (character == "-" and not first and not self.text.startswith("]", self.at)):
            raise PatternError(f'it has a "{character}" in a set where it is not clear', hint=f"Write \\\\{character}.")
        if character != "\\":
            return ord(character)
        escape = self.next("\\")
        if escape in CLASSES:
            return CLASSES[escape]
        if escape == "p" and properties and (name := self.posix()) in POSIX:
            return POSIX[name]
        if escape in "pPbBQE":
            raise PatternError(f'it has "\\{escape}" in a set')
        return ord(self.escaped(escape))

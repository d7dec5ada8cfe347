"""Translation of Java's regular expressions to RE2.

Spark's patterns are Java's, and Java's matcher backtracks: one pattern on one long text can take exponential time. weft
matches with RE2, in time linear in the text. Constructs that RE2 lacks (back-references, look-around, possessive
quantifiers), that mean something else in RE2, or that differ between releases of Java raise a `PatternError`. The rest
is translated so that both engines find the same match.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache

from weft.sql.patterns.characters import CLASSES, POSIX, CharacterSet, PatternError, PatternReader, one_character
from weft.sql.patterns.scan import RepeatedSet, stays_near

LONGEST_PATTERN = 1000
_LARGEST = 250
"""The largest size of a pattern: its characters and sets, with counted repetitions written out."""
_MOST_REPEATS = 250
_MOST_GROUPS = 50
_NO_LINE_END = r"[^\n\r\x{85}\x{2028}\x{2029}]"
_SPECIAL = frozenset("\\.+*?()|[]{}^$")
_REFUSED_ESCAPES = {
    **dict.fromkeys("123456789k", "a back-reference"),
    **dict.fromkeys("bB", "a word boundary, which means different things in different releases of Java"),
    **dict.fromkeys("pP", "a Unicode property"),
}


@dataclass(frozen=True, slots=True)
class Pattern:
    """A pattern translated to RE2, with its properties."""

    text: str
    """The pattern in RE2's syntax; its groups are named g1, g2 and so on."""
    groups: int
    empty: bool
    """Whether the pattern can match the empty string."""
    ends: bool
    """Whether the pattern has a `$`, which also matches before a final line end; `text` has only `\\z` in its place."""
    plain: str | None
    """The text that a pattern without operators stands for."""
    begins: bool = False
    """Whether the pattern has a `^` or `\\A`."""
    scans: bool = False
    """Whether finding all matches may read far beyond each of them (`sql/patterns/scan.py`)."""


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of a pattern: its translation, its size and its properties."""

    text: str
    size: int
    empty: bool
    ends: bool = False
    plain: str | None = None
    loops: bool = False
    """Whether the part has an unbounded repetition."""
    open: bool = False
    """Whether the part can read any number of characters without completing a match."""
    steps: tuple[RepeatedSet, ...] | None = None
    """The steps of a part that is a plain sequence of (repeated) characters and sets."""


_NOTHING = _Part("", 0, empty=True, plain="", steps=())
_DOT = CharacterSet.of("\n\r\x85\u2028\u2029").inverse()
_ANY = CharacterSet(()).inverse()


def _one(text: str, characters: CharacterSet, plain: str | None = None) -> _Part:
    return _Part(text, 1, empty=False, plain=plain, steps=(RepeatedSet(characters),))


@lru_cache(maxsize=1024)
def read_pattern(text: str) -> Pattern:
    """Return the translation of a pattern in Java's syntax; raise `PatternError` if it has none."""
    if len(text) > LONGEST_PATTERN:
        raise PatternError(f"it is longer than {LONGEST_PATTERN} characters")
    parser = _Reader(PatternReader(text))
    part = parser.whole()
    return Pattern(part.text, parser.groups, part.empty, part.ends, part.plain, parser.begins, _scans(part))


def _scans(part: _Part) -> bool:
    return part.open and not (part.steps is not None and stays_near(part.steps))


class _Reader:
    """A recursive-descent parser of one pattern; `_MOST_GROUPS` bounds the recursion."""

    def __init__(self, source: PatternReader) -> None:
        self.source = source
        self.groups = 0
        self.depth = 0
        self.any_case = False
        self.any_character = False
        self.begins = False

    def whole(self) -> _Part:
        """Return the whole pattern, with its leading flags applied."""
        self._leading_flags()
        part = self._alternatives()
        if not self.source.done:
            raise PatternError('it has a ")" without "("')
        return part

    def _leading_flags(self) -> None:
        text = self.source.text
        if not text.startswith("(?"):
            return
        flags, closed, _ = text[2:].partition(")")
        if closed and flags and set(flags) <= {"i", "s"}:
            self.any_case, self.any_character = "i" in flags, "s" in flags
            self.source.at = len(flags) + 3

    def _alternatives(self) -> _Part:
        parts = [self._sequence()]
        while self.source.take("|"):
            parts.append(self._sequence())
        if len(parts) == 1:
            return parts[0]
        return self._sized(
            _Part(
                "|".join(part.text for part in parts),
                sum(part.size for part in parts) + len(parts),
                empty=any(part.empty for part in parts),
                ends=any(part.ends for part in parts),
                loops=any(part.loops for part in parts),
                open=any(part.open for part in parts),
            )
        )

    def _sequence(self) -> _Part:
        sequence = _NOTHING
        while not self.source.done and self.source.peek() not in "|)":
            if sequence.ends:
                raise PatternError('it has a "$" that is not at its end', hint="Write \\\\$ for the character itself.")
            part = self._quantified(self._atom())
            sequence = self._sized(
                _Part(
                    sequence.text + part.text,
                    sequence.size + part.size,
                    empty=sequence.empty and part.empty,
                    ends=part.ends,
                    plain=None if sequence.plain is None or part.plain is None else sequence.plain + part.plain,
                    loops=sequence.loops or part.loops,
                    open=sequence.open or part.open or (sequence.loops and not part.empty),
                    steps=None if sequence.steps is None or part.steps is None else sequence.steps + part.steps,
                )
            )
        return sequence

    def _sized(self, part: _Part) -> _Part:
        if part.size > _LARGEST:
            raise PatternError(f"it is larger than {_LARGEST} characters with its repetitions written out")
        return part

    def _quantified(self, atom: _Part) -> _Part:
        counts = _counts(self.source)
        if counts is None:
            return atom
        low, high, text = counts
        if atom.empty or atom.ends:
            raise PatternError(f'it repeats with "{text}" what can match nothing')
        lazy = "?" if self.source.take("?") else ""
        if not lazy and self.source.take("+"):
            raise PatternError("it has a possessive quantifier", hint='Leave out the second "+".')
        if _counts(self.source) is not None:
            raise PatternError("it has two quantifiers in a row")
        size = atom.size * max(low, high if high is not None else 0, 1) + 1
        steps = None
        if atom.steps is not None and len(atom.steps) == 1 and not atom.steps[0].varies and atom.steps[0].low == 1:
            steps = (RepeatedSet(atom.steps[0].characters, low, high, bool(lazy)),)
        return self._sized(
            _Part(
                atom.text + text + lazy,
                size,
                empty=low == 0,
                loops=atom.loops or high is None,
                open=atom.open or (atom.loops and low > 1),
                steps=steps,
            )
        )

    def _atom(self) -> _Part:
        source = self.source
        character = source.next()
        match character:
            case "(":
                return self._group()
            case "[":
                characters = source.character_set(any_case=self.any_case)
                return _one(characters.text(), characters)
            case ".":
                return _one(r"(?s:.)", _ANY) if self.any_character else _one(_NO_LINE_END, _DOT)
            case "^":
                self.begins = True
                return self._anchor(_Part(r"\A", 1, empty=True))
            case "$":
                return self._anchor(_Part(r"\z", 1, empty=True, ends=True))
            case "\\":
                return self._escape()
            case "*" | "+" | "?" | "{":
                raise PatternError(f'it has a "{character}" with nothing before it to repeat')
            case _:
                return self._literal(character)

    def _anchor(self, part: _Part) -> _Part:
        if not self.source.done and self.source.peek() in "*+?{":
            raise PatternError("it repeats an anchor")
        return part

    def _literal(self, character: str) -> _Part:
        folded = CharacterSet.of(character).folded() if self.any_case else None
        if folded is not None and len(folded.ranges) > 1:
            return _one(folded.text(), folded)
        return _one(one_character(character, _SPECIAL), CharacterSet.of(character), character)

    def _escape(self) -> _Part:
        source = self.source
        character = source.next("\\")
        if character in CLASSES:
            return _one(CLASSES[character].text(), CLASSES[character])
        match character:
            case "A":
                self.begins = True
                return self._anchor(_Part(r"\A", 1, empty=True))
            case "z":
                return self._anchor(_Part(r"\z", 1, empty=True))
            case "Q":
                return self._quoted()
            case "p" if (name := source.posix()) in POSIX and not self.any_case:
                return _one(POSIX[name].text(), POSIX[name])
            case _:
                pass
        if character in _REFUSED_ESCAPES:
            raise PatternError(f"it has {_REFUSED_ESCAPES[character]}")
        return self._literal(source.escaped(character))

    def _quoted(self) -> _Part:
        """Read literal text up to \\E; refuse a quantifier after it, which would repeat only the last character."""
        source = self.source
        end = source.text.find("\\E", source.at)
        body = source.text[source.at : end if end >= 0 else len(source.text)]
        source.at = end + 2 if end >= 0 else len(source.text)
        quoted = _NOTHING
        for part in map(self._literal, body):
            plain = None if quoted.plain is None or part.plain is None else quoted.plain + part.plain
            quoted = _Part(quoted.text + part.text, quoted.size + 1, empty=False, plain=plain)
        return self._anchor(quoted)

    def _group(self) -> _Part:
        source = self.source
        self.depth += 1
        if self.depth > _MOST_GROUPS or self.groups >= _MOST_GROUPS:
            raise PatternError(f"it has more than {_MOST_GROUPS} groups")
        outer_flags = (self.any_case, self.any_character)
        opening = self._opening()
        body = self._alternatives()
        if not source.take(")"):
            raise PatternError('it has a "(" without ")"')
        self.any_case, self.any_character = outer_flags
        self.depth -= 1
        return replace(body, text=f"{opening}{body.text})", size=body.size + 1, plain=None)

    def _opening(self) -> str:
        """Return the opening of a group in RE2's syntax, and set the flags that hold up to its end."""
        source = self.source
        if not source.take("?"):
            self.groups += 1
            return f"(?P<g{self.groups}>"
        if source.take(":"):
            return "(?:"
        if source.group_name():
            self.groups += 1
            return f"(?P<g{self.groups}>"
        flags = source.while_in("is")
        if flags and source.take(":"):
            self.any_case, self.any_character = self.any_case or "i" in flags, self.any_character or "s" in flags
            return "(?:"
        construct = source.text[source.at : source.at + 2]
        refused: dict[str, str] = {"=": "look-ahead", "!": "look-ahead", "<": "look-behind", ">": "an atomic group"}
        raise PatternError(
            f"it has {refused.get(construct[:1], 'flags other than (?i) and (?s), or flags that are not at its start')}"
        )


def _counts(source: PatternReader) -> tuple[int, int | None, str] | None:
    """Consume a quantifier and return its least count, its greatest count (None if unbounded) and its text."""
    for sign, low, high in (("*", 0, None), ("+", 1, None), ("?", 0, 1)):
        if source.take(sign):
            return low, high, sign
    if not source.take("{"):
        return None
    low_text = source.digits()
    high_text: str | None = low_text
    if source.take(","):
        high_text = source.digits() or None
    if not low_text or not source.take("}"):
        raise PatternError('it has a "{" that begins no {n,m}', hint="Write \\\\{ for the character itself.")
    least, greatest = int(low_text), int(high_text) if high_text is not None else None
    if least > _MOST_REPEATS or (greatest is not None and not least <= greatest <= _MOST_REPEATS):
        raise PatternError(f"it repeats something more than {_MOST_REPEATS} times, or less than it says before")
    if greatest == 0:
        raise PatternError("it repeats something zero times")
    between = "" if high_text == low_text else f",{greatest if greatest is not None else ''}"
    return least, greatest, f"{{{least}{between}}}"


def replacement(text: str, groups: int) -> str:
    """Return Java's replacement text ($1, \\$) in RE2's syntax (\\1); raise `PatternError` if that is not possible."""
    rewritten: list[str] = []
    characters = iter(text)
    for character in characters:
        if character == "\\":
            following = next(characters, None)
            if following is None:
                raise PatternError("its replacement ends with a backslash")
            rewritten.append(_rewritten(following))
        elif character == "$":
            digit = next(characters, "")
            if not (digit.isascii() and digit.isdigit()) or int(digit) > groups:
                raise PatternError(
                    f"its replacement refers to a group that it does not have: ${digit}", hint="Write \\\\$ for a $."
                )
            rewritten.append(f"\\{digit}")
        else:
            rewritten.append(_rewritten(character))
    _check_digits(text, groups)
    return "".join(rewritten)


def _rewritten(character: str) -> str:
    return "\\\\" if character == "\\" else character


def _check_digits(text: str, groups: int) -> None:
    """Refuse references of two digits: Java reads $12 as group 12 if it exists, RE2 as group 1 and a 2."""
    for i, character in enumerate(text):
        if groups > 9 and character == "$" and re.match("[0-9]{2}", text[i + 1 : i + 3]):
            raise PatternError("its replacement refers to a group by more than one digit")

"""Regular expressions that a linear-time engine can match: read as Java's, written as RE2's.

Spark's patterns are Java's, whose matcher goes back and tries again: one pattern on one long text can take for ever.
weft matches with RE2, in time linear in the text. What RE2 lacks (back-references, look-around, possessive
quantifiers) is refused, and so is everything that means something else in Java or differs between releases of Java;
the rest is translated so that both find the same match. `PatternError` says what is in the way.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache

from weft.sql.patterns.characters import CLASSES, POSIX, CharacterSet, PatternError, PatternReader, one_character
from weft.sql.patterns.scan import Step, stays_near

LONGEST_PATTERN = 1000
_LARGEST = 250
"""Characters and sets of a pattern after its counted repetitions are written out."""
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
    """A pattern in RE2's language, with what a caller has to know of it."""

    text: str
    """In RE2's syntax; every group has a name, g1 and so on."""
    groups: int
    empty: bool
    """Whether it matches the empty text somewhere in every text."""
    ends: bool
    """Whether it has a `$`, which is written `\\z` here: it also matches before the line end that ends a text."""
    plain: str | None
    """The text it stands for if it has no operators at all."""
    begins: bool = False
    """Whether it has a `^`."""
    scans: bool = False
    """Whether finding all its matches may read far beyond each of them (`sql/patterns/scan.py`)."""


@dataclass(frozen=True, slots=True)
class _Part:
    """A piece of a pattern: its translation, how large it is, and what it can do."""

    text: str
    size: int
    empty: bool
    ends: bool = False
    plain: str | None = None
    loops: bool = False
    """Whether it repeats something without end."""
    open: bool = False
    """Whether it can read on without end and not be complete on the way."""
    steps: tuple[Step, ...] | None = None
    """Its characters one after the other, if it is no more than that."""


_NOTHING = _Part("", 0, empty=True, plain="", steps=())
_DOT = CharacterSet.of("\n\r\x85\u2028\u2029").inverse()
_ANY = CharacterSet(()).inverse()


def _one(text: str, characters: CharacterSet, plain: str | None = None) -> _Part:
    return _Part(text, 1, empty=False, plain=plain, steps=(Step(characters),))


@lru_cache(maxsize=1024)
def read_pattern(text: str) -> Pattern:
    """The pattern that a text means in Java; raises `PatternError`."""
    if len(text) > LONGEST_PATTERN:
        raise PatternError(f"it is longer than {LONGEST_PATTERN} characters")
    reader = _Reader(PatternReader(text))
    whole = reader.whole()
    return Pattern(whole.text, reader.groups, whole.empty, whole.ends, whole.plain, reader.begins, _scans(whole))


def _scans(whole: _Part) -> bool:
    return whole.open and not (whole.steps is not None and stays_near(whole.steps))


class _Reader:
    """Recursive descent over one pattern; nesting is bounded by `_MOST_GROUPS`."""

    def __init__(self, source: PatternReader) -> None:
        self.source = source
        self.groups = 0
        self.depth = 0
        self.any_case = False
        self.any_character = False
        self.begins = False

    def whole(self) -> _Part:
        """The whole pattern, flags first."""
        self._leading_flags()
        found = self._alternatives()
        if not self.source.done:
            raise PatternError('it has a ")" without "("')
        return found

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
        found = _NOTHING
        while not self.source.done and self.source.peek() not in "|)":
            if found.ends:
                raise PatternError('it has a "$" that is not at its end', hint="Write \\\\$ for the character itself.")
            part = self._quantified(self._atom())
            found = self._sized(
                _Part(
                    found.text + part.text,
                    found.size + part.size,
                    empty=found.empty and part.empty,
                    ends=part.ends,
                    plain=None if found.plain is None or part.plain is None else found.plain + part.plain,
                    loops=found.loops or part.loops,
                    open=found.open or part.open or (found.loops and not part.empty),
                    steps=None if found.steps is None or part.steps is None else found.steps + part.steps,
                )
            )
        return found

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
            steps = (Step(atom.steps[0].characters, low, high, bool(lazy)),)
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
                found = source.character_set(any_case=self.any_case)
                return _one(found.text(), found)
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
            case "p" if (found := source.posix()) in POSIX and not self.any_case:
                return _one(POSIX[found].text(), POSIX[found])
            case _:
                pass
        if character in _REFUSED_ESCAPES:
            raise PatternError(f"it has {_REFUSED_ESCAPES[character]}")
        return self._literal(source.escaped(character))

    def _quoted(self) -> _Part:
        """Everything up to \\E as it stands; a quantifier after it is for its last character, so there may be none."""
        source = self.source
        end = source.text.find("\\E", source.at)
        body = source.text[source.at : end if end >= 0 else len(source.text)]
        source.at = end + 2 if end >= 0 else len(source.text)
        found = _NOTHING
        for part in map(self._literal, body):
            plain = None if found.plain is None or part.plain is None else found.plain + part.plain
            found = _Part(found.text + part.text, found.size + 1, empty=False, plain=plain)
        return self._anchor(found)

    def _group(self) -> _Part:
        source = self.source
        self.depth += 1
        if self.depth > _MOST_GROUPS or self.groups >= _MOST_GROUPS:
            raise PatternError(f"it has more than {_MOST_GROUPS} groups")
        before = (self.any_case, self.any_character)
        opening = self._opening()
        body = self._alternatives()
        if not source.take(")"):
            raise PatternError('it has a "(" without ")"')
        self.any_case, self.any_character = before
        self.depth -= 1
        return replace(body, text=f"{opening}{body.text})", size=body.size + 1, plain=None)

    def _opening(self) -> str:
        """How a group begins; flags hold until its end."""
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
        rest = source.text[source.at : source.at + 2]
        what: dict[str, str] = {"=": "look-ahead", "!": "look-ahead", "<": "look-behind", ">": "an atomic group"}
        raise PatternError(
            f"it has {what.get(rest[:1], 'flags other than (?i) and (?s), or flags that are not at its start')}"
        )


def _counts(source: PatternReader) -> tuple[int, int | None, str] | None:
    """Least and greatest number of a quantifier, and its text."""
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
    """Java's replacement text ($1, \\$) in RE2's words (\\1); raises `PatternError`."""
    found: list[str] = []
    characters = iter(text)
    for character in characters:
        if character == "\\":
            following = next(characters, None)
            if following is None:
                raise PatternError("its replacement ends with a backslash")
            found.append(_rewritten(following))
        elif character == "$":
            digit = next(characters, "")
            if not (digit.isascii() and digit.isdigit()) or int(digit) > groups:
                raise PatternError(
                    f"its replacement refers to a group that it does not have: ${digit}", hint="Write \\\\$ for a $."
                )
            found.append(f"\\{digit}")
        else:
            found.append(_rewritten(character))
    _check_digits(text, groups)
    return "".join(found)


def _rewritten(character: str) -> str:
    return "\\\\" if character == "\\" else character


def _check_digits(text: str, groups: int) -> None:
    """Java reads $12 as group 12 if there is one, RE2 never does."""
    for at, character in enumerate(text):
        if groups > 9 and character == "$" and re.match("[0-9]{2}", text[at + 1 : at + 3]):
            raise PatternError("its replacement refers to a group by more than one digit")

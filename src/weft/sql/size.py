"""How large the values of an expression can get, compared with the row they are made of.

A short query can ask for a value of any size: repeat in repeat, hex of hex, replace of every letter by many. The bound
is worked out from the text: how often each column of the row can be in a value, and how much is added.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import ceil

from sqlglot import exp

from weft.errors import QueryTooLarge
from weft.sql.function import CHOICE_FUNCTIONS, NUMBER_FUNCTIONS, TIME_FUNCTIONS
from weft.sql.rules import arguments, function_name, number_of, text_of

MOST_COPIES = 100
"""How often a value may hold a column of the row."""
MOST_ADDED = 1_000_000
"""How many characters a value may have beside."""
_NUMBER = 40
_FACTORS = {
    "hex": 4, "base64": 2, "url_encode": 3, "to_json": 6, "quote": 2, "translate": 4, "encode": 4, "bin": 2,
}  # fmt: skip


@dataclass(slots=True)
class _Size:
    copies: Counter[str] = field(default_factory=Counter)
    added: float = 0

    def times(self, factor: float) -> _Size:
        return _Size(Counter({name: ceil(count * factor) for name, count in self.copies.items()}), self.added * factor)

    def plus(self, added: float) -> _Size:
        return _Size(self.copies, self.added + added)


def check_size(root: exp.Expr) -> None:
    """Refuses an expression that can give values far larger than its row, at any place inside it."""
    sizes: dict[int, _Size] = {}
    for node in reversed(list(root.walk())):  # parts before what they are parts of
        found = _size(node, [sizes[id(child)] for child in node.iter_expressions()], sizes)
        if max(found.copies.values(), default=0) > MOST_COPIES or found.added > MOST_ADDED:
            raise QueryTooLarge(
                "an expression can give values that are much larger than the row",
                detail=f"A value may hold a column {MOST_COPIES} times, and {MOST_ADDED} characters beside.",
                hint="Take what makes the text longer out of it: repeat, replace, lpad, concat of the same column.",
            )
        sizes[id(node)] = found


def _size(node: exp.Expr, parts: list[_Size], sizes: dict[int, _Size]) -> _Size:
    match node:
        case exp.Column():
            return _Size(Counter((node.sql(),)))
        case exp.Identifier() if not isinstance(node.parent, exp.Column | exp.PropertyEQ | exp.Dot):
            return _Size(Counter((node.name,)))  # the variable of a lambda, which is a part of a column
        case exp.Literal():
            return _Size(added=len(node.name))
        case exp.Case():
            return _most(sizes[id(value)] for value in _branches(node))
        case exp.Predicate() | exp.Connector() | exp.Not() | exp.Neg():
            return _Size(added=_NUMBER)
        case exp.Add() | exp.Sub() | exp.Mul() | exp.Div() | exp.IntDiv() | exp.Mod():
            return _Size(added=_NUMBER)
        case _:
            pass
    name = function_name(node)
    if name in NUMBER_FUNCTIONS or name in TIME_FUNCTIONS:
        return _Size(added=_NUMBER)
    if name in CHOICE_FUNCTIONS:
        return _most(parts)
    return _grown(name, node, _sum(parts)) if name else _sum(parts)


def _grown(name: str, node: exp.Expr, size: _Size) -> _Size:
    args = arguments(node)
    match name:
        case "repeat":
            return size.times(max(number_of(args[1]) or 0, 1) if len(args) > 1 else 1)
        case "space":
            return _Size(added=number_of(args[0]) or 0)
        case "lpad" | "rpad":
            return size.plus(number_of(args[1]) or 0 if len(args) > 1 else 0)
        case "replace":
            old, new = (len(text_of(each) or "") for each in (*args, None, None)[1:3])
            return size.times(max(1.0, new / max(old, 1)))
        case "regexp_replace":
            return size.times(1 + len(text_of(args[2]) or "") if len(args) > 2 else 1)
        case "concat_ws" | "array_join":
            between = args[:1] if name == "concat_ws" else args[1:]
            return size.times(1 + sum(len(text_of(each) or "") for each in between))
        case "format_string" | "printf":
            count = (text_of(args[0]) or "").count("%") if args else 0
            return size.times(max(1, count)).plus(count * 1000)
        case _:
            return size.times(_FACTORS.get(name, 1))


def _branches(node: exp.Case) -> list[exp.Expr]:
    default = node.args.get("default")
    return [*(branch.args["true"] for branch in node.args["ifs"]), *([default] if default is not None else ())]


def _sum(parts: Iterable[_Size]) -> _Size:
    found = _Size()
    for part in parts:
        found.copies.update(part.copies)
        found.added += part.added
    return found


def _most(parts: Iterable[_Size]) -> _Size:
    found = _Size()
    for part in parts:
        found.copies |= part.copies
        found.added = max(found.added, part.added)
    return found

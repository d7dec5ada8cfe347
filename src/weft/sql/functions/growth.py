"""Bounds on the size of an expression's values, relative to the row.

A short query can ask for values of any size: nested repeat, hex of hex, replace of a letter by a long text. The bounds
follow from the syntax: how often a value can contain each column of the row, and how many characters it adds. A lambda
counts once per element of an array, and all expressions of a query count together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from math import ceil

from sqlglot import exp

from weft.errors import QueryTooLarge
from weft.sql.functions.allowlist import CHOICE_FUNCTIONS, LAMBDAS, NUMBER_FUNCTIONS, TIME_FUNCTIONS
from weft.sql.functions.argument_rules import arguments, function_name, literal_number, text_of

MOST_COPIES = 100
"""How often a value may contain a column of the row."""
MOST_ADDED = 1_000_000
"""How many characters a value may add to its copies of columns."""
MOST_COPIES_OF_QUERY = 1000
"""How often all values of a query together may contain a column of the row."""
MOST_ADDED_IN_LAMBDA = 100
"""How many characters a lambda may add to an element."""
_NUMBER = 40
_SMALL_COLUMN = 20
"""The most characters in a column that a lambda may use: a number, a boolean or a time."""
_WORTH_COUNTING = (10, 1000)
"""Copies and added characters above which an intermediate value counts although it is only measured or compared."""
_FACTORS = {
    "hex": 4, "base64": 2, "url_encode": 3, "to_json": 6, "quote": 2, "translate": 4, "encode": 4, "bin": 2,
}  # fmt: skip
_NUMBERS = (
    exp.Predicate, exp.Connector, exp.Not, exp.Neg, exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod,
)  # fmt: skip
_KEEP_ELEMENTS = frozenset("array_compact array_distinct array_remove array_sort filter slice sort_array".split())
_HINT = "Take what makes the text longer out of it: repeat, replace, lpad, concat of the same column."


@dataclass(slots=True)
class _Size:
    copies: Counter[str] = field(default_factory=Counter)
    added: float = 0
    elements: Counter[str] | None = None
    """A bound on the elements of an array, as a count of characters of each column; None means the same as `copies`."""

    def times(self, factor: float) -> _Size:
        return _Size(_times(self.copies, factor), self.added * factor)

    def plus(self, added: float) -> _Size:
        return _Size(self.copies, self.added + added)

    def add(self, other: _Size) -> None:
        self.copies.update(other.copies)
        self.added += other.added

    @property
    def most(self) -> int:
        return max(self.copies.values(), default=0)


@dataclass(frozen=True, slots=True)
class Growth:
    """A bound on the size of an expression's value: how often it contains each column, and the characters it adds."""

    copies: tuple[tuple[str, int], ...]
    added: int


def check_size(root: exp.Expr) -> None:
    """Refuse an expression if a value of it or of a part of it can be far larger than the row."""
    _sizes(root)


def growth(root: exp.Expr) -> Growth:
    """Return a bound on the size of an expression's value."""
    size = _sizes(root)[id(root)]
    return Growth(tuple(size.copies.items()), ceil(size.added))


def check_query_size(selected: Iterable[exp.Expr], others: Iterable[exp.Expr]) -> None:
    """Refuse a query whose selected and intermediate values can together be far larger than the row.

    Each expression alone may be small enough, but a query can have thousands of them.
    """
    total = _Size()
    for root in selected:
        sizes = _sizes(root)
        total.add(sizes[id(root)])
        _add_spent(root, sizes, total)
    for root in others:
        _add_spent(root, _sizes(root), total)
    if total.most > MOST_COPIES_OF_QUERY or total.added > MOST_ADDED:
        raise QueryTooLarge(
            "the expressions of the query can together give values that are much larger than the row",
            detail=f"Together they may hold a column {MOST_COPIES_OF_QUERY} times, and {MOST_ADDED} characters beside.",
            hint="Make several queries of it, or take out what makes texts longer: repeat, space, lpad.",
        )


def _sizes(root: exp.Expr) -> dict[int, _Size]:
    """Return the sizes of all nodes by `id`; refuse a node that is too large."""
    sizes: dict[int, _Size] = {}
    for node in reversed(list(root.walk())):  # children before their parents
        size = _size(node, [sizes[id(child)] for child in node.iter_expressions()], sizes)
        if size.most > MOST_COPIES or size.added > MOST_ADDED:
            raise QueryTooLarge(
                "an expression can give values that are much larger than the row",
                detail=f"A value may hold a column {MOST_COPIES} times, and {MOST_ADDED} characters beside.",
                hint=_HINT,
            )
        sizes[id(node)] = size
    return sizes


def _add_spent(root: exp.Expr, sizes: dict[int, _Size], total: _Size) -> None:
    """Add large intermediate values that are not in the result, such as a text that is only measured."""
    copies, added = _WORTH_COUNTING
    for node in root.walk():
        if _gives_number(node):
            for child in node.iter_expressions():
                if (part := sizes[id(child)]).most > copies or part.added > added:
                    total.add(part)


def _gives_number(node: exp.Expr) -> bool:
    name = function_name(node)
    return isinstance(node, _NUMBERS) or name in NUMBER_FUNCTIONS or name in TIME_FUNCTIONS


def _size(node: exp.Expr, parts: list[_Size], sizes: dict[int, _Size]) -> _Size:
    match node:
        case exp.Column():
            # Names ignore case, and a reference with or without its relation means the same column.
            return _Size(Counter((node.name.lower(),)))
        case exp.Identifier() if _is_variable(node):
            return _Size(Counter((_variable(node),)))  # a lambda's variable is a part of a column
        case exp.Literal() | exp.Null() | exp.Boolean():
            return _Size(added=max(1, len(node.name)))
        case exp.Case():
            return _most(sizes[id(value)] for value in _branches(node))
        case exp.Lambda():
            return _checked_body(node, sizes)
        case _ if function_name(node) in LAMBDAS:
            return _of_elements(node, sizes)
        case _ if _gives_number(node):
            return _Size(added=_NUMBER)
        case _:
            pass
    name = function_name(node)
    if name in CHOICE_FUNCTIONS:
        return _most(parts)
    if name in _KEEP_ELEMENTS and parts:
        return replace(_sum(parts), elements=parts[0].elements)
    return _grown(name, node, _sum(parts)) if name else _sum(parts)


def _is_variable(node: exp.Identifier) -> bool:
    """Return whether an identifier is a lambda's variable, and not the name of a column or of a struct's field."""
    if isinstance(node.parent, exp.Dot):
        return node.arg_key == "this"
    if isinstance(node.parent, exp.PropertyEQ):
        return node.arg_key == "expression"
    return not isinstance(node.parent, exp.Column)


def _variable(node: exp.Expr) -> str:
    return f"-> {node.name}"


def _checked_body(node: exp.Lambda, sizes: dict[int, _Size]) -> _Size:
    """Return the size of a lambda's value for one element; refuse large values, also intermediate ones."""
    variables = {_variable(variable) for variable in node.expressions}
    for part in node.this.walk():
        if _per_element(sizes[id(part)], variables) > MOST_ADDED_IN_LAMBDA:
            raise QueryTooLarge(
                "a lambda can give values that are much larger than the elements of its array",
                detail=f"To each element it may add {MOST_ADDED_IN_LAMBDA} characters.",
                hint="Take what makes the text longer out of the lambda: space, repeat, lpad, long literals.",
            )
    body = sizes[id(node.this)]
    copies = Counter({"->": sum(count for name, count in body.copies.items() if name in variables)})
    return _Size(copies, _per_element(body, variables))


def _per_element(size: _Size, variables: set[str]) -> float:
    """Return the number of characters that do not come from the lambda's variable."""
    return size.added + sum(count * _SMALL_COLUMN for name, count in size.copies.items() if name not in variables)


def _of_elements(node: exp.Expr, sizes: dict[int, _Size]) -> _Size:
    """Return the size of the value of a function with a lambda, which counts once per element of the array."""
    args, name = arguments(node), function_name(node)
    array = sizes[id(args[0])] if args else _Size()
    if name == "filter":
        return array
    if name != "transform" or len(args) < 2:
        return _Size(added=_NUMBER)
    body = sizes[id(args[1])]
    elements = array.copies if array.elements is None else array.elements
    copies, element_copies = _times(elements, body.added), body.copies["->"]
    copies.update(_times(array.copies, element_copies))
    return _Size(copies, array.added * (element_copies + body.added), elements)


def _grown(name: str, node: exp.Expr, size: _Size) -> _Size:
    args = arguments(node)
    match name:
        case "repeat":
            return size.times(max(literal_number(args[1]) or 0, 1) if len(args) > 1 else 1)
        case "space":
            return _Size(added=literal_number(args[0]) or 0)
        case "lpad" | "rpad":
            return size.plus(literal_number(args[1]) or 0 if len(args) > 1 else 0)
        case "replace":
            old, new = (len(text_of(arg) or "") for arg in (*args, None, None)[1:3])
            return size.times(max(1.0, new / max(old, 1)))
        case "regexp_replace":
            return size.times(1 + len(text_of(args[2]) or "") if len(args) > 2 else 1)
        case "concat_ws" | "array_join":
            between = args[:1] if name == "concat_ws" else args[1:]
            return size.times(1 + sum(len(text_of(arg) or "") for arg in between))
        case "format_string" | "printf":
            count = (text_of(args[0]) or "").count("%") if args else 0
            return size.times(max(1, count)).plus(count * 1000)
        case _:
            return size.times(_FACTORS.get(name, 1))


def _branches(node: exp.Case) -> list[exp.Expr]:
    default = node.args.get("default")
    return [*(branch.args["true"] for branch in node.args["ifs"]), *([default] if default is not None else ())]


def _sum(parts: Iterable[_Size]) -> _Size:
    total = _Size()
    for part in parts:
        total.add(part)
    return total


def _most(parts: Iterable[_Size]) -> _Size:
    largest = _Size()
    for part in parts:
        largest.copies |= part.copies
        largest.added = max(largest.added, part.added)
    return largest


def _times(counts: Counter[str], factor: float) -> Counter[str]:
    return Counter({name: ceil(count * factor) for name, count in counts.items()})

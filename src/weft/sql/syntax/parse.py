"""Parse a query of the form that weft supports: SELECT … FROM relations [WHERE …] [GROUP BY …] [HAVING …]."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.dialects import Spark
from sqlglot.errors import ParseError

from weft.errors import QuerySyntaxError, QueryTooLarge, UnsupportedQuery
from weft.plan.window import Window
from weft.sql.functions.allowlist import ALLOWED, COMPUTED, LAMBDAS, WINDOWS
from weft.sql.syntax.function_marks import MARK
from weft.sql.syntax.scan import DEEPEST, MOST_RELATIONS, scan, too_many_relations

_CLAUSES = {
    "distinct": "DISTINCT", "order": "ORDER BY", "limit": "LIMIT",
    "offset": "OFFSET", "sort": "SORT BY", "cluster": "CLUSTER BY", "distribute": "DISTRIBUTE BY",
    "laterals": "LATERAL VIEW", "qualify": "QUALIFY", "windows": "WINDOW", "into": "INTO", "kind": "SELECT AS",
    "sample": "TABLESAMPLE", "pivots": "PIVOT", "match": "MATCH_RECOGNIZE", "connect": "CONNECT BY",
}  # fmt: skip
_TABLE_PARTS = ("this", "db", "catalog", "alias")
_TAKEN = ("expressions", "from_", "joins", "where", "group", "having", "hint")
_FORBIDDEN: dict[type[exp.Expr], str] = {
    exp.Window: "a window function (OVER)",
    exp.Query: "a subquery",
    exp.AggFunc: "an aggregate function",
    exp.Filter: "an aggregate function with FILTER",
    exp.WithinGroup: "an aggregate function with WITHIN GROUP",
    exp.UDTF: "a function that gives several rows per row",
    exp.Explode: "a function that gives several rows per row",
    exp.Placeholder: "a parameter marker",
    exp.Parameter: "a variable",
    exp.SessionParameter: "a variable",
    exp.QueryTransform: "TRANSFORM … USING",
    exp.Aliases: "an alias with several names",
    exp.Distinct: "DISTINCT",
    exp.Order: "ORDER BY",
    exp.JSONExtract: "the operator ->",
    exp.JSONExtractScalar: "the operator ->>",
    exp.Command: "a command",
}
# The nodes that an expression may consist of, including functions with a grammar of their own.
_NODES = frozenset(
    (
        exp.Add, exp.Alias, exp.All, exp.And, exp.Anonymous, exp.Any, exp.Array, exp.Between, exp.BitwiseAnd,
        exp.BitwiseLeftShift, exp.BitwiseNot, exp.BitwiseOr, exp.BitwiseRightShift, exp.BitwiseXor, exp.Boolean,
        exp.Bracket, exp.Case, exp.Cast, exp.Column, exp.ColumnDef, exp.DPipe, exp.DataType, exp.DataTypeParam,
        exp.DateDiff, exp.DateSub, exp.DateAdd, exp.Distinct, exp.Div, exp.Dot, exp.EQ, exp.Escape, exp.Extract,
        exp.Filter, exp.GT, exp.GTE, exp.HexString, exp.ILike, exp.Identifier, exp.If, exp.In, exp.IntDiv,
        exp.Interval, exp.IntervalSpan, exp.Is, exp.LT, exp.LTE, exp.Lambda, exp.Like, exp.Literal, exp.Mod, exp.Mul,
        exp.NEQ, exp.Neg, exp.Not, exp.Null, exp.NullSafeEQ, exp.NullSafeNEQ, exp.Or, exp.Overlay, exp.Paren,
        exp.PropertyEQ, exp.RegexpLike, exp.Star, exp.StrPosition, exp.Struct, exp.Sub, exp.Substring, exp.TimestampAdd,
        exp.TimestampDiff, exp.Trim, exp.TryCast, exp.TsOrDsAdd, exp.TsOrDsDiff, exp.Tuple, exp.Var, exp.VarMap,
        exp.Where,
    )
)  # fmt: skip
# Errors other than ParseError that sqlglot may raise on malformed text.
_PARSER_FAILURES = (AttributeError, IndexError, KeyError, TypeError, ValueError, AssertionError)
_SHAPE = "A query is SELECT … FROM … [JOIN … ON …] [WHERE …] [GROUP BY …] [HAVING …]."
_FUNCTIONS = (
    "docs/reference/functions.md lists the functions: those whose value follows from the row alone, in bounded time."
)
_WORD = re.compile(r"\w+(?: \w+)*")


@dataclass(frozen=True, slots=True)
class RelationText:
    """A relation as written: its possibly dotted `name`, the `alias` that the query uses for it, and its window."""

    name: str
    alias: str
    window: Window | None


@dataclass(frozen=True, slots=True)
class UsingText:
    """A column of USING, which relation `right` and one of the relations `left` have."""

    name: str
    left: range
    right: int


@dataclass(frozen=True, slots=True)
class ConditionText:
    """A condition of ON or WHERE, and the relations that it can name."""

    node: exp.Expr
    relations: range


@dataclass(frozen=True, slots=True)
class Parsed:
    """A query of a supported form, before name resolution."""

    projections: tuple[exp.Expr, ...]
    relations: tuple[RelationText, ...]
    using: tuple[UsingText, ...]
    conditions: tuple[ConditionText, ...]
    group: GroupText | None = None
    having: exp.Expr | None = None


@dataclass(frozen=True, slots=True)
class GroupText:
    """GROUP BY as written; `all` is set for GROUP BY ALL, which means all selected expressions without an aggregate."""

    expressions: tuple[exp.Expr, ...]
    all: bool = False


def parse(text: str) -> Parsed:
    """Return the clauses of a query; its conditions are the conjuncts of ON, then of WHERE."""
    scanned = scan(text)
    try:
        statements = Spark().parser().parse(scanned.tokens, text)
    except ParseError as error:
        raise _syntax_error(error) from error
    except _PARSER_FAILURES as error:
        raise QuerySyntaxError("the query cannot be read at line 1, column 1") from error
    select = statements[0] if len(statements) == 1 else None
    if not isinstance(select, exp.Select):
        raise UnsupportedQuery("a query must be one SELECT statement")
    _check_clauses(select)
    tables, joins = _tables(select)
    using, conditions = _joined(joins)
    where, having = select.args.get("where"), select.args.get("having")
    if where is not None:
        conditions.append(ConditionText(where.this, range(len(tables))))
    condition_nodes = [condition.node for condition in conditions]
    group = _group(select)
    group_nodes = group.expressions if group is not None else ()
    check_nodes([*select.expressions, *condition_nodes, *group_nodes, *([having.this] if having is not None else ())])
    _refuse_calls(condition_nodes, COMPUTED | WINDOWS, "WHERE or ON")
    _refuse_calls(group_nodes, COMPUTED, "GROUP BY")
    return Parsed(
        tuple(select.expressions),
        tuple(_relation(table, scanned.windows) for table in tables),
        tuple(using),
        tuple(
            ConditionText(conjunct, condition.relations)
            for condition in conditions
            for conjunct in flatten(condition.node, exp.And)
        ),
        group,
        having.this if having is not None else None,
    )


def _joined(joins: list[exp.Join]) -> tuple[list[UsingText], list[ConditionText]]:
    """Return the columns of USING and the conditions of ON; both see only the relations joined since the last comma."""
    using: list[UsingText] = []
    conditions: list[ConditionText] = []
    first = 0
    for relation, join in enumerate(joins, start=1):
        # The parser reads a comma as CROSS; `scan` has refused a written CROSS JOIN.
        on, names = join.args.get("on"), dict.fromkeys(_using_name(name) for name in join.args.get("using") or ())
        if join.args.get("kind") == "CROSS" and on is None and not names:
            first = relation
        using += (UsingText(name, range(first, relation), relation) for name in names)
        if on is not None:
            conditions.append(ConditionText(on, range(first, relation + 1)))
    return using, conditions


def called(node: exp.Expr, names: frozenset[str]) -> str:
    """Return the name, in lower case, of the function that a node calls; an empty text if it is not in `names`."""
    name = node.name.removeprefix(MARK).lower() if isinstance(node, exp.Anonymous) else ""
    return name if name in names else ""


def calls_in(node: exp.Expr, names: frozenset[str]) -> Iterator[exp.Expr]:
    """Return all calls of the functions `names` in a tree."""
    return (call for call in node.find_all(exp.Anonymous) if called(call, names))


def _refuse_calls(roots: Sequence[exp.Expr], names: frozenset[str], place: str) -> None:
    for call in (call for root in roots for call in calls_in(root, names)):
        name = called(call, names)
        kind = "function" if name in WINDOWS else "aggregate function"
        hint = "It belongs into GROUP BY." if name in WINDOWS else "To filter groups, use HAVING."
        raise UnsupportedQuery(f"{kind} {name}() in {place} is not supported{_at(call)}", hint=hint)


def _group(select: exp.Select) -> GroupText | None:
    group = select.args.get("group")
    if group is None:
        return None
    for key in ("grouping_sets", "rollup", "cube", "totals"):
        if group.args.get(key):
            raise _grouping_sets(key.replace("_", " ").upper())
    expressions: list[exp.Expr] = []
    for node in group.expressions:
        if isinstance(node, exp.GroupingSets | exp.Rollup | exp.Cube):
            raise _grouping_sets("GROUPING SETS" if isinstance(node, exp.GroupingSets) else node.key.upper())
        inner = strip(node)
        expressions += inner.expressions if isinstance(inner, exp.Tuple) else (inner,)
    all_ = group.args.get("all")
    if all_ is False or (all_ and expressions):
        raise UnsupportedQuery(f"GROUP BY {'ALL' if all_ else 'DISTINCT'} with expressions is not supported")
    return GroupText(tuple(expressions), bool(all_))


def _grouping_sets(what: str) -> UnsupportedQuery:
    return UnsupportedQuery(f"GROUP BY {what} is not supported", hint="Create one query for each grouping.")


def flatten(node: exp.Expr, kind: type[exp.Expr]) -> Iterator[exp.Expr]:
    """Yield the operands of nested `kind` nodes (AND or OR), left to right and without parentheses; not recursive."""
    stack = [node]
    while stack:
        part = strip(stack.pop())
        if isinstance(part, kind):
            stack += (part.expression, part.this)
        else:
            yield part


def strip(node: exp.Expr) -> exp.Expr:
    """Return the node inside any parentheses."""
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def check_nodes(roots: list[exp.Expr]) -> None:
    """Refuse nodes that an expression may not contain, and expressions that are nested too deeply."""
    stack: list[tuple[exp.Expr, int]] = [(root, 0) for root in roots]
    while stack:
        node, depth = stack.pop()
        if depth > DEEPEST:
            raise QueryTooLarge(f"the query is nested deeper than {DEEPEST} levels")
        if not _of_aggregate(node):
            _check_node(node, top=depth == 0)
        for child in node.iter_expressions():
            # A chain of ANDs or ORs counts as one level: programs generate long chains.
            chained = isinstance(node, exp.And | exp.Or) and type(child) is type(node)
            stack.append((child, depth + (0 if chained else 1)))


def _check_node(node: exp.Expr, *, top: bool) -> None:
    for kind, construct in _FORBIDDEN.items():
        if isinstance(node, kind):
            raise UnsupportedQuery(f"{construct} is not supported{_at(node)}")
    if type(node) not in _NODES:
        raise UnsupportedQuery(f"{node.key.upper()} is not supported{_at(node)}", hint=_FUNCTIONS)
    _check_star(node, top=top)
    if isinstance(node, exp.Var) and not _WORD.fullmatch(node.name):
        raise QuerySyntaxError(f'unexpected "{node.name[:40]}"{_at(node)}')
    if isinstance(node, exp.Anonymous) and not isinstance(node.this, str):
        raise UnsupportedQuery(f"a function named by an expression is not supported{_at(node)}")
    if isinstance(node, exp.Anonymous):
        _check_call(node)
    if isinstance(node, exp.Dot) and isinstance(node.expression, exp.Func):
        name = node.expression.name.removeprefix(MARK)
        raise UnsupportedQuery(f'function "{name}" with a schema name is not supported')


def _check_star(node: exp.Expr, *, top: bool) -> None:
    if isinstance(node, exp.Star):
        if any(node.args.values()):
            raise UnsupportedQuery("* EXCEPT is not supported", hint="Name the columns.")
        if not top and not isinstance(node.parent, exp.Column):
            raise UnsupportedQuery("* inside an expression is not supported", hint="Name the columns.")
    if isinstance(node, exp.Column) and isinstance(node.this, exp.Star) and not top:
        raise UnsupportedQuery("* inside an expression is not supported", hint="Name the columns.")


def _check_call(node: exp.Anonymous) -> None:
    name = node.name.removeprefix(MARK).lower()
    if name not in ALLOWED and name not in COMPUTED and name not in WINDOWS:
        raise UnsupportedQuery(
            f"function {name[:60]}() is not among those that a query may call{_at(node)}", hint=_FUNCTIONS
        )
    lambdas = sum(isinstance(argument, exp.Lambda) for argument in node.expressions)
    if lambdas and (name not in LAMBDAS or lambdas > 1 or len(node.expressions) != 2):
        raise UnsupportedQuery(
            f"function {name}() with this lambda is not supported{_at(node)}",
            hint="Lambdas are for exists, filter, forall and transform: filter(tags, t -> t <> '').",
        )


def _of_aggregate(node: exp.Expr) -> bool:
    """Return whether a node is the star, DISTINCT or FILTER of an aggregate call."""
    match node:
        case exp.Filter():
            return bool(called(node.this, COMPUTED))
        case exp.Distinct() | exp.Star() if node.parent is not None and not any(
            value for key, value in node.args.items() if key != "expressions"
        ):
            return bool(called(node.parent, COMPUTED))
        case _:
            return False


def _at(node: exp.Expr) -> str:
    located = next((part for part in node.walk() if "line" in part.meta), None)
    return f" at {meta_position(located)}" if located is not None else ""


def meta_position(node: exp.Expr) -> str:
    """Return the line and column of an identifier as text for an error message."""
    meta = node.meta
    return f"line {meta['line']}, column {meta['col'] - (meta['end'] - meta['start'])}"


def _check_clauses(select: exp.Select) -> None:
    for key, value in select.args.items():
        if not value or key in _TAKEN:
            continue
        name = _CLAUSES.get(key, key.strip("_").upper())
        raise UnsupportedQuery(f"{name} is not supported", hint=_SHAPE)
    if not select.expressions:
        raise QuerySyntaxError("the SELECT list is empty at line 1, column 7", hint="Name columns, or write SELECT *.")
    if select.args.get("from_") is None:
        raise QuerySyntaxError("the query has no FROM at line 1, column 1", hint="Write SELECT … FROM stream.")


def _tables(select: exp.Select) -> tuple[list[exp.Table], list[exp.Join]]:
    joins: list[exp.Join] = list(select.args.get("joins") or ())
    sources = [select.args["from_"].this, *(join.this for join in joins)]
    if len(sources) > MOST_RELATIONS:
        raise too_many_relations()
    for join in joins:
        _check_join(join)
    for source in sources:
        _check_table(source)
    return sources, joins


def _check_join(join: exp.Join) -> None:
    words = [str(join.args.get(key) or "").upper() for key in ("method", "side", "kind")]
    kind = " ".join(word for word in words if word)
    # CROSS stands for a comma, see `_joined`.
    if kind not in ("", "INNER", "CROSS"):
        raise UnsupportedQuery(f"{kind} JOIN is not supported", hint="weft joins with INNER JOIN … ON a.key = b.key.")
    if join.args.get("match_condition") or join.args.get("hint") or join.args.get("pivots"):
        raise UnsupportedQuery("this form of JOIN is not supported", hint="Write JOIN … ON a.key = b.key.")


def _check_table(source: exp.Expr) -> None:
    if not isinstance(source, exp.Table) or not isinstance(source.this, exp.Identifier):
        kind = "LATERAL" if isinstance(source, exp.Lateral) else "a relation that is no stream"
        raise UnsupportedQuery(f"{kind} in FROM is not supported", hint="FROM takes streams by name.")
    alias = source.args.get("alias")
    if alias is not None and alias.args.get("columns"):
        raise UnsupportedQuery(f'column names in the alias "{alias.name.removeprefix(MARK)}" are not supported')
    extra = next((key for key, value in source.args.items() if value and key not in _TABLE_PARTS), "")
    if extra == "joins":
        raise UnsupportedQuery(
            f'the join inside the join of relation "{source.alias_or_name}" is not supported',
            hint="Write each ON directly after its JOIN: a JOIN b ON … JOIN c ON ….",
        )
    if extra:
        raise UnsupportedQuery(f"{_CLAUSES.get(extra, extra.upper())} on a relation is not supported")


def _relation(table: exp.Table, windows: dict[int, Window]) -> RelationText:
    name = ".".join(part.name for part in table.parts)
    return RelationText(name, table.alias or table.name, windows.get(table.this.meta.get("start", -1)))


def _using_name(node: exp.Expr) -> str:
    node = strip(node)
    name = node.this if isinstance(node, exp.Column) else node
    if not isinstance(name, exp.Identifier):
        raise QuerySyntaxError("USING takes column names", hint="Write USING (userID).")
    return name.name


def _syntax_error(error: ParseError) -> QuerySyntaxError:
    details = error.errors[0] if error.errors else {}
    word = str(details.get("highlight") or "").removeprefix(MARK)
    description = str(details.get("description") or "the query cannot be read")
    line, column = int(details.get("line") or 1), int(details.get("col") or 1)
    column = max(column - len(word) + 1, 1)
    if description.startswith("Required keyword"):
        message = f'something is missing next to "{word[:40]}"'
    elif "Unexpected token" in description:
        message = f'unexpected "{word[:40]}"'
    elif description.startswith(("Expecting ", "Expected ")):
        message = f'expected "{description.split(" ", 1)[1][:40]}" but found "{word[:40]}"'
    else:
        message = description.partition("<")[0].strip().rstrip(".").lower()[:120].replace(MARK, "")
    return QuerySyntaxError(f"{message} at line {line}, column {column}")

"""Who refers to which public definition of `src/weft`, found by reading the source.

A definition is a function or a class at module level. A definition refers to another one by a name that its module
imports or defines, or by an attribute of a module that its module imports. Code at module level belongs to the module
itself and runs whenever something of the module is used.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from tests.meta.project import SOURCE

PACKAGE = "weft"
Name = tuple[str, str]
"""A module and the name of a definition in it; the name is empty for the code at module level."""


@dataclass(slots=True)
class Module:
    """A module with its definitions and the names that it imports."""

    name: str
    tree: ast.Module
    imports: dict[str, Name] = field(default_factory=dict)
    """Local names, and what they stand for; the second part is empty for a module."""
    definitions: dict[str, ast.stmt] = field(default_factory=dict)


def public(name: str) -> bool:
    """Return whether a name is meant for other modules."""
    return not name.startswith("_")


@cache
def modules() -> dict[str, Module]:
    """Return all modules of the package, by their full names."""
    return {module.name: module for module in map(_read, sorted(SOURCE.rglob("*.py")))}


def _read(path: Path) -> Module:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    module = Module(name, ast.parse(path.read_text(encoding="utf-8")))
    for statement in ast.walk(module.tree):
        match statement:
            case ast.ImportFrom(module=str() as source, names=names) if source.split(".")[0] == PACKAGE:
                for alias in names:
                    module.imports[alias.asname or alias.name] = (source, alias.name)
            case ast.Import(names=names):
                for alias in names:
                    if alias.name.split(".")[0] == PACKAGE:
                        module.imports[alias.asname or alias.name] = (alias.name, "")
    for statement in module.tree.body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            module.definitions[statement.name] = statement
    return module


def definitions() -> Iterator[Name]:
    """Return every public function and class at module level."""
    for module in modules().values():
        yield from ((module.name, name) for name in module.definitions if public(name))


def reached(roots: tuple[str, ...]) -> set[Name]:
    """Return what the modules below some packages use, directly and through other definitions."""
    waiting = [
        (module.name, name)
        for module in modules().values()
        if module.name.startswith(roots)
        for name in ("", *module.definitions)
    ]
    seen = set(waiting)
    while waiting:
        for target in references(waiting.pop()):
            if target not in seen:
                seen.add(target)
                waiting.append(target)
    return seen


def references(name: Name) -> set[Name]:
    """Return what a definition refers to, with the module-level code of its own module."""
    module = modules()[name[0]]
    found: set[Name] = {(module.name, "")}
    for node in _nodes(module, name[1]):
        if isinstance(node, ast.Name):
            found |= _resolve(module, node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            owner = module.imports.get(node.value.id)
            if owner is not None:
                source = ".".join(part for part in owner if part)
                found |= _existing(source, node.attr)
    return found


def _nodes(module: Module, name: str) -> Iterator[ast.AST]:
    if name:
        yield from ast.walk(module.definitions[name])
        return
    for statement in module.tree.body:
        if statement not in module.definitions.values():
            yield from ast.walk(statement)
        elif isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            for decorator in statement.decorator_list:
                yield from ast.walk(decorator)


def _resolve(module: Module, local: str) -> set[Name]:
    if local in module.definitions:
        return {(module.name, local)}
    if local in module.imports:
        return _existing(*module.imports[local])
    return set()


def _existing(source: str, name: str) -> set[Name]:
    """Return a definition by where it is imported from, which may be a package that only passes it on."""
    module = modules().get(source)
    if module is None:
        return set()
    if name in module.definitions:
        return {(source, name)}
    return {(source, ""), *(_existing(*module.imports[name]) if name in module.imports else ())}

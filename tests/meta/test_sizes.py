"""The size limits of the house style: files, functions, classes."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.meta.project import BENCHMARKS, EXAMPLES, ROOT, SOURCE, TESTS, python_files

FILE_LINES = 400
FUNCTION_LINES = 50
CLASS_LINES = 200

# A numba loop that reads better in one piece stays in one piece; its file may still not be long.
WHOLE_LOOPS = SOURCE / "kernels"


def test_files_are_short() -> None:
    long = {
        str(path.relative_to(ROOT)): lines
        for path in python_files(SOURCE, TESTS, BENCHMARKS, EXAMPLES)
        if (lines := len(path.read_text(encoding="utf-8").splitlines())) > FILE_LINES
    }
    assert long == {}, f"files of more than {FILE_LINES} lines"


def test_functions_are_short() -> None:
    long = {
        name: lines
        for path in python_files(SOURCE, BENCHMARKS / "weft_bench", EXAMPLES)
        if not path.is_relative_to(WHOLE_LOOPS)
        for name, lines in _lengths(path, ast.FunctionDef, ast.AsyncFunctionDef)
        if lines > FUNCTION_LINES
    }
    assert long == {}, f"functions of more than {FUNCTION_LINES} lines"


def test_classes_are_short() -> None:
    long = {
        name: lines
        for path in python_files(SOURCE, BENCHMARKS / "weft_bench", EXAMPLES)
        for name, lines in _lengths(path, ast.ClassDef)
        if lines > CLASS_LINES
    }
    assert long == {}, f"classes of more than {CLASS_LINES} lines"


def _lengths(path: Path, *kinds: type[ast.AST]) -> Iterator[tuple[str, int]]:
    """Each definition of `kinds` in a file, as place and number of lines from its `def` or `class`."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, kinds) and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            assert node.end_lineno is not None
            yield f"{path.relative_to(ROOT)}:{node.lineno} {node.name}", node.end_lineno - node.lineno + 1

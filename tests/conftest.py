"""Options of the whole test suite."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--update` rewrites golden files instead of comparing with them."""
    parser.addoption("--update", action="store_true", help="rewrite the expected part of golden files")

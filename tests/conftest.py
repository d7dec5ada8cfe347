"""Options of the whole test suite."""

from __future__ import annotations

import pytest
from hypothesis import settings

# How long an example takes says more about what else the machine is doing than about the code.
settings.register_profile("weft", deadline=None)
settings.load_profile("weft")


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--update` rewrites golden files instead of comparing with them."""
    parser.addoption("--update", action="store_true", help="rewrite the expected part of golden files")

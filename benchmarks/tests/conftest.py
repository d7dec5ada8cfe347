"""Settings of Hypothesis for all tests of the benchmark: those of weft's tests, which the import loads."""

from __future__ import annotations

import tests.conftest  # noqa: F401

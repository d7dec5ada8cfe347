"""Paths and addresses are told apart."""

from __future__ import annotations

import pytest

from weft.plan.paths import has_scheme


@pytest.mark.parametrize("path", ["s3a://bucket/x", "hdfs:///x", "file:/x", "abfss://c@a.dfs/x", "S3A://B"])
def test_addresses_have_a_scheme(path: str) -> None:
    assert has_scheme(path)


@pytest.mark.parametrize("path", ["x", "/x/y", "./s3a:x", "C:/x", "in/a:b", "~/x", "a:b"])
def test_paths_have_none(path: str) -> None:
    assert not has_scheme(path)

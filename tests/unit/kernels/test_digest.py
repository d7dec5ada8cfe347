"""The digest is XXH64: its known values, and every byte counts."""

from __future__ import annotations

import numpy as np
import pytest

from weft.kernels.digest import digest

KNOWN = {
    b"": 0xEF46DB3751D8E999,
    b"a": 0xD24EC4F1A98C6E5B,
    b"abc": 0x44BC2CF5AD770999,
    b"The quick brown fox jumps over the lazy dog": 0x0B242D361FDA71BC,
}


@pytest.mark.parametrize("data", KNOWN, ids=len)
def test_known_values(data: bytes) -> None:
    assert digest(data) == KNOWN[data]


@pytest.mark.parametrize("count", [1, 3, 4, 7, 8, 31, 32, 33, 44, 100])
def test_every_bit_counts(count: int) -> None:
    data = np.random.default_rng(count).integers(0, 256, count, np.uint8)
    whole = digest(data)
    for bit in range(8 * count):
        other = data.copy()
        other[bit // 8] ^= np.uint8(1 << bit % 8)
        assert digest(other) != whole
    assert digest(data[:-1]) != whole


def test_where_the_bytes_are_does_not_matter() -> None:
    data = np.arange(100, dtype=np.uint8)
    for start in range(9):
        shifted = np.concatenate([np.zeros(start, np.uint8), data])[start:]
        assert digest(shifted) == digest(data) == digest(bytes(data)) == digest(memoryview(data))

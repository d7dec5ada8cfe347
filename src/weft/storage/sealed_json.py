"""JSON files that detect damage: an object with a value and a digest of the value and the file's name."""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import Any

_BEGIN, _MIDDLE, _END = b'{"digest":"', b'","value":', b"}"
_DIGEST = 16


def digest_of(name: str, data: bytes) -> str:
    """Return a digest of a file's name and data, so that a file copied over another one is detected."""
    hasher = blake2b(name.encode(), digest_size=_DIGEST // 2)
    hasher.update(b"\0")
    hasher.update(data)
    return hasher.hexdigest()


def seal(name: str, value: object) -> tuple[bytes, str]:
    """Return the bytes to write for a value, and their digest. `name` is relative to the state directory."""
    data = json.dumps(value, separators=(",", ":")).encode()
    digest = digest_of(name, data)
    return _BEGIN + digest.encode() + _MIDDLE + data + _END, digest


def unseal(name: str, data: bytes) -> tuple[Any, str]:
    """Return the value in sealed bytes and its digest. Raise ValueError if the bytes were changed."""
    body = len(_BEGIN) + _DIGEST + len(_MIDDLE)
    digest = data[len(_BEGIN) : len(_BEGIN) + _DIGEST].decode("latin-1")
    frame = (data[: len(_BEGIN)], data[body - len(_MIDDLE) : body], data[-len(_END) :])
    if frame != (_BEGIN, _MIDDLE, _END) or digest_of(name, data[body : -len(_END)]) != digest:
        raise ValueError("its digest is not the one that it was written with")
    return json.loads(data[body : -len(_END)]), digest

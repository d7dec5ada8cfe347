"""JSON that notices damage: a value with a digest of it and of the name of its file, in one object."""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import Any

_BEGIN, _MIDDLE, _END = b'{"digest":"', b'","value":', b"}"
_DIGEST = 16


def digest_of(name: str, data: bytes) -> str:
    """Digest of some bytes in a file of this name: in another file the same bytes have another one."""
    found = blake2b(name.encode(), digest_size=_DIGEST // 2)
    found.update(b"\0")
    found.update(data)
    return found.hexdigest()


def seal(name: str, value: object) -> tuple[bytes, str]:
    """A value as it is written to the file of this name, relative to the state directory, and its digest."""
    data = json.dumps(value, separators=(",", ":")).encode()
    digest = digest_of(name, data)
    return _BEGIN + digest.encode() + _MIDDLE + data + _END, digest


def unseal(name: str, data: bytes) -> tuple[Any, str]:
    """The value that was written, and its digest; raises ValueError if it is not as it was written."""
    body = len(_BEGIN) + _DIGEST + len(_MIDDLE)
    digest = data[len(_BEGIN) : len(_BEGIN) + _DIGEST].decode("latin-1")
    frame = (data[: len(_BEGIN)], data[body - len(_MIDDLE) : body], data[-len(_END) :])
    if frame != (_BEGIN, _MIDDLE, _END) or digest_of(name, data[body : -len(_END)]) != digest:
        raise ValueError("its digest is not the one that it was written with")
    return json.loads(data[body : -len(_END)]), digest

"""Messages on a pipe: a length (4 bytes, big-endian) and MessagePack."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import msgspec

LENGTH = 4
MAX_MESSAGE = 128 << 20
"""Bytes: the longest trace plus the longest envelope, with room to spare."""


def packed(message: object) -> bytes:
    """A message as bytes for the pipe."""
    data = msgspec.msgpack.encode(message, enc_hook=_plain)
    return len(data).to_bytes(LENGTH, "big") + data


def _plain(value: object) -> dict[Any, Any]:
    if isinstance(value, Mapping):  # a read-only view of a dict
        return dict(value)
    raise NotImplementedError(f"a message cannot hold a {type(value).__name__}")


def read(source: int, kind: Any) -> Any:
    """The next message; None at the end of the input."""
    head = _exactly(source, LENGTH)
    if head is None:
        return None
    size = int.from_bytes(head, "big")
    if size > MAX_MESSAGE:
        raise EOFError(f"a message has {size >> 20} MiB; the limit is {MAX_MESSAGE >> 20} MiB")
    data = _exactly(source, size)
    return None if data is None else msgspec.msgpack.decode(data, type=kind)


def _exactly(source: int, size: int) -> bytes | None:
    parts: list[bytes] = []
    while size:
        part = os.read(source, min(size, 1 << 20))
        if not part:
            return None
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def write(target: int, data: bytes) -> None:
    """Write all of a packed message."""
    while data:
        data = data[os.write(target, data) :]

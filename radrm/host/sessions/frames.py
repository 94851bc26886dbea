"""What the terminal sends to the job: bytes that were typed, the terminal's size, interrupts.

A frame is its kind (one byte), the length of its content (two bytes, big-endian) and the content.
The other way there are no frames. With a terminal there are only the bytes that the command prints.
Without one the job answers each INPUT by a byte, and the next INPUT comes after that: so no input
waits in the connection, and an interrupt never waits behind it.
"""

from __future__ import annotations

import struct

INPUT, SIZE, INTERRUPT = 1, 2, 3
"""Kinds. The first frame of a session is a SIZE: rows and columns, two bytes each. An INPUT without
content is the end of the input."""
TAKEN, UNREAD = b"t", b"u"
"""Without a terminal: the command has got the input; nobody reads it any more."""
MOST = 16 * 1024
"""Bytes of one frame's content."""
_HEAD = struct.Struct("!BH")
_SIZE = struct.Struct("!HH")


def frame(kind: int, content: bytes = b"") -> bytes:
    return _HEAD.pack(kind, len(content)) + content


def size_frame(rows: int, columns: int) -> bytes:
    return frame(SIZE, _SIZE.pack(min(rows, 0xFFFF), min(columns, 0xFFFF)))


def size_of(content: bytes) -> tuple[int, int]:
    """Rows and columns. Raises ValueError for the content of no SIZE frame."""
    if len(content) != _SIZE.size:
        raise ValueError(f"a size of {len(content)} bytes")
    rows, columns = _SIZE.unpack(content)
    return rows, columns


class Frames:
    """Puts frames together from pieces of any length. It keeps less than one frame."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[tuple[int, bytes]]:
        """Return the frames that are complete now: kinds and contents. Raises ValueError for
        anything else."""
        found, at, self._rest = [], 0, self._rest + data
        while len(self._rest) - at >= _HEAD.size:
            kind, length = _HEAD.unpack_from(self._rest, at)
            if kind not in (INPUT, SIZE, INTERRUPT) or length > MOST:
                raise ValueError(f"a frame of kind {kind} with {length} bytes")
            end = at + _HEAD.size + length
            if end > len(self._rest):
                break
            found.append((kind, self._rest[at + _HEAD.size : end]))
            at = end
        self._rest = self._rest[at:]
        return found

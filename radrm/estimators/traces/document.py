"""A tracer's document, checked.

The document comes from a user's process, so nothing in it is trusted: every figure is
checked and limited here.
"""

from __future__ import annotations

from collections.abc import Mapping

from radrm.errors import BadFile, plain
from radrm.estimators.memory.workspaces import Convolution

VERSION = 1
MAX_EVENTS = 4_000_000
MAX_CALLS = 1_000_000
MAX_MARKS = 1000
MAX_BYTES = 1 << 50
MAX_COUNT = 1 << 40
MOST_GUESSES = 12
MAX_WORD = 60
MAX_GUESS = 200

Call = tuple[int, int, int]
"""A call of a library: the index of the next event, its kind, and its handle or convolution."""
CUBLAS, CUBLASLT = 0, 1
_LAST_KIND = 4
"""The kinds 2, 3 and 4 are the passes of a convolution."""


class Document:
    """A tracer's document. Each method returns one part of it, or raises `BadFile`."""

    def __init__(self, document: object) -> None:
        if not isinstance(document, Mapping):
            raise self.bad("it is not a JSON object")
        error = document.get("error")
        if error is not None:
            raise BadFile(f"The training step could not be traced: {plain(str(error)[:500])}")
        if document.get("version") != VERSION:
            raise self.bad("it has another version")
        self._document = document

    @staticmethod
    def bad(cause: str) -> BadFile:
        return BadFile(f"The trace cannot be used: {cause}. Trace again with this radrm.")

    def whole(self, name: str, most: int) -> int:
        value = self._document.get(name) or 0
        if not _is_whole(value, most):
            raise self.bad(f"its {name} is not a valid number")
        return int(value)

    def word(self, name: str, otherwise: str | None = None) -> str:
        value = self._document.get(name, otherwise)
        if not isinstance(value, str):
            raise self.bad(f"its {name} is not text")
        return plain(value[:MAX_WORD])

    def lines(self, name: str) -> tuple[str, ...]:
        """Return lines of text. A tracer of another version may write none."""
        value = self._document.get(name)
        found = value[:MOST_GUESSES] if isinstance(value, list) else []
        return tuple(plain(line[:MAX_GUESS]) for line in found if isinstance(line, str))

    def seconds(self) -> float:
        value = self._document.get("seconds")
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e9:
            raise self.bad("its seconds are not a valid number")
        return float(value)

    def events(self) -> list[int]:
        found = []
        for event in self._list("events", MAX_EVENTS):
            # `type` and not `isinstance`: True is not an event, and there are millions of events.
            if type(event) is not int or not 0 < abs(event) <= MAX_BYTES:
                raise self.bad("an event is not a valid number")
            found.append(event)
        return found

    def calls(self) -> list[Call]:
        found = []
        for call in self._list("calls", MAX_CALLS):
            if not isinstance(call, list) or len(call) != 3:
                raise self.bad("a call is not a list of three numbers")
            if not all(_is_whole(value, MAX_EVENTS) for value in call) or call[1] > _LAST_KIND:
                raise self.bad("a call has an invalid number")
            found.append((call[0], call[1], call[2]))
        return sorted(found, key=lambda call: call[0])

    def marks(self) -> list[tuple[int, str]]:
        found = []
        for mark in self._list("marks", MAX_MARKS):
            if not isinstance(mark, list) or len(mark) != 2:
                raise self.bad("a mark is not a pair")
            if not _is_whole(mark[0], MAX_EVENTS) or not isinstance(mark[1], str):
                raise self.bad("a mark is not a number and a text")
            found.append((mark[0], plain(mark[1][:MAX_WORD])))
        return sorted(found, key=lambda mark: mark[0])

    def convolutions(self) -> list[Convolution]:
        return [self._convolution(row) for row in self._list("convolutions", MAX_CALLS)]

    def _convolution(self, row: object) -> Convolution:
        if not isinstance(row, list) or len(row) != 10:
            raise self.bad("a convolution is not a list of ten")
        numbers = (row[0], row[1], row[2], row[7], row[8])
        sizes = row[3:7]
        if not all(_is_whole(value, MAX_COUNT) and value for value in numbers):
            raise self.bad("a convolution has an invalid number")
        for size in sizes:
            if not isinstance(size, list) or not 1 <= len(size) <= 3:
                raise self.bad("a convolution has an invalid size")
            if not all(_is_whole(value, MAX_COUNT) for value in size):
                raise self.bad("a convolution has an invalid size")
        layer = Convolution(
            batch=row[0],
            in_channels=row[1],
            out_channels=row[2],
            inputs=tuple(row[3]),
            outputs=tuple(row[4]),
            kernel=tuple(row[5]),
            stride=tuple(row[6]),
            groups=row[7],
            element_bytes=row[8],
            channels_last=bool(row[9]),
        )
        if max(layer.input_bytes, layer.output_bytes, layer.weight_bytes) > MAX_BYTES:
            raise self.bad("a convolution is too large")
        return layer

    def _list(self, name: str, most: int) -> list[object]:
        value = self._document.get(name)
        if not isinstance(value, list) or len(value) > most:
            raise self.bad(f"its {name} are not a list, or too many")
        return value


def _is_whole(value: object, most: int) -> bool:
    """Return whether a value is a whole number from 0 to `most`."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most

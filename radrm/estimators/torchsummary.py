"""The table that `torchsummary` prints of a PyTorch model, read for estimators.

        Layer (type)               Output Shape         Param #
    ================================================================
            Conv2d-1         [-1, 64, 112, 112]           9,408
              LSTM-2     [[-1, 5, 20], [-1, 20]]           3,360
    ================================================================
    Total params: 12,768
    Input size (MB): 0.57

The text comes from anybody: the work done grows with its length and no faster, and
what is not such a table, whole and sound, is no table. Reading one estimates nothing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

MAX_CHARS = 1 << 20
MAX_LINE = 2000
_MAX_DIGITS = 15
_MAX_DIMENSIONS = 12
_INNERMOST_LIST = re.compile(r"\[([^\[\]]*)\]")


@dataclass(frozen=True, slots=True)
class Layer:
    """One row: `elements` are those of all its outputs, for one sample of a batch."""

    kind: str
    shapes: tuple[tuple[int, ...], ...]
    """Output shapes, batch dimension (-1: any) first."""
    parameters: int

    @property
    def elements(self) -> int:
        return sum(math.prod(shape[1:]) for shape in self.shapes)


@dataclass(frozen=True, slots=True)
class Summary:
    """A whole table. Sizes are torchsummary's own figures in MiB, None where it gives none."""

    layers: tuple[Layer, ...]
    parameters: int
    input_mib: float | None = None
    forward_backward_mib: float | None = None
    parameters_mib: float | None = None

    @property
    def batch_size(self) -> int | None:
        """The batch size that the table was made for; None when it is for any."""
        sizes = {shape[0] for layer in self.layers for shape in layer.shapes}
        size = sizes.pop() if len(sizes) == 1 else -1
        return size if size > 0 else None


def read_table(text: str) -> Summary | None:
    """The first table in `text`; None when there is none that can be read to its end."""
    if len(text) > MAX_CHARS:
        return None
    lines = iter(text.splitlines())
    if not any("Layer (type)" in line and "Param #" in line for line in lines):
        return None
    if not _is_rule(next(lines, "")):
        return None
    layers = []
    for line in lines:
        if _is_rule(line):
            break
        layer = _layer(line)
        if layer is None:
            return None
        layers.append(layer)
    figures = _figures(lines)
    total = _number(figures.get("Total params", ""))
    if not layers or total is None:
        return None
    return Summary(
        layers=tuple(layers),
        parameters=total,
        input_mib=_size(figures.get("Input size (MB)")),
        forward_backward_mib=_size(figures.get("Forward/backward pass size (MB)")),
        parameters_mib=_size(figures.get("Params size (MB)")),
    )


def _is_rule(line: str) -> bool:
    return line.startswith("===") and not line.strip("= \r")


def _layer(line: str) -> Layer | None:
    """`Kind-NUMBER  [shape]  parameters`."""
    words = line.split(None, 1)
    if len(line) > MAX_LINE or len(words) < 2:
        return None
    kind, _, number = words[0].rpartition("-")
    shapes, bracket, parameters = words[1].rpartition("]")
    count = _number(parameters.strip())
    outputs = _shapes(shapes + bracket)
    if not kind or _number(number) is None or count is None or outputs is None:
        return None
    return Layer(kind=kind, shapes=outputs, parameters=count)


def _shapes(text: str) -> tuple[tuple[int, ...], ...] | None:
    """One shape, or several in lists of lists; None when anything else stands there."""
    if not text.startswith("[") or _INNERMOST_LIST.sub("", text).strip("[], "):
        return None
    found = [_shape(inner) for inner in _INNERMOST_LIST.findall(text) if inner.strip()]
    shapes = tuple(shape for shape in found if shape is not None)
    return shapes if len(shapes) == len(found) else None


def _shape(text: str) -> tuple[int, ...] | None:
    first, *rest = (word.strip() for word in text.split(","))
    batch = -1 if first == "-1" else _number(first)
    sizes = [_number(word) for word in rest]
    known = [size for size in sizes if size is not None]
    if batch is None or len(known) < len(sizes) or len(sizes) > _MAX_DIMENSIONS:
        return None
    return (batch, *known)


def _figures(lines: Iterator[str]) -> dict[str, str]:
    """The `name: figure` lines below a table, each name once."""
    found: dict[str, str] = {}
    for line in lines:
        name, colon, figure = line[:MAX_LINE].partition(":")
        if colon:
            found.setdefault(name.strip(), figure.strip())
    return found


def _number(text: str) -> int | None:
    """A whole number, perhaps with commas between its digits."""
    digits = text.replace(",", "")
    plain = digits.isascii() and digits.isdigit() and len(digits) <= _MAX_DIGITS
    return int(digits) if plain else None


def _size(text: str | None) -> float | None:
    whole, _, part = (text or "").partition(".")
    units, decimals = _number(whole), _number(part or "0")
    if units is None or decimals is None or "," in part:
        return None
    return float(f"{units}.{part or 0}")

"""The text of a summary as lines and words, for the readers of all forms.

Any user may have written the text. The work grows only linearly with its length, and a text
that is too long is refused before any of it is read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from msgspec import Struct, field

from radrm.errors import BadFile, plain
from radrm.estimators.summaries.layers import Form, Layer, ModelSummary, Shape
from radrm.structs import replace

MAX_CHARS = 4 << 20
MAX_LINE = 4000
MAX_LINES = 100_000
MAX_LAYERS = 20_000
MAX_PROBLEMS = 20
MAX_STRAY_ROWS = 20
"""A table counts as ended after this many unreadable rows in succession."""

_MAX_DIGITS = 15
_MAX_DIMENSIONS = 12
_COLOURS = re.compile(r"\x1b\[[0-9;:?]*[ -/]*[@-~]")
_INNERMOST_LIST = re.compile(r"\[([^\[\]]*)\]")
_INNERMOST_TUPLE = re.compile(r"\(([^()\[\]]*)\)")


class BadSummary(BadFile):
    """No summary can be read from the text. The message says where and why, in one line."""


class TooLong(BadSummary):
    """The text is longer than the summary of any model, so it is not read."""


class Reading(Struct, frozen=True):
    """A summary, and the number of lines up to its last one, included."""

    summary: ModelSummary
    end: int


T = TypeVar("T")


class Problems(Struct):
    """What could not be read: the first problems in full, the others as a number."""

    lines: list[str] = field(default_factory=list)
    more: int = 0
    rows: int = 0
    """The number of problems that are rows missing from the layers."""

    def add(self, line: int, what: str) -> None:
        if len(self.lines) < MAX_PROBLEMS:
            self.lines.append(f"line {line}: {what}")
        else:
            self.more += 1

    def add_row(self, line: int, text: str) -> None:
        self.rows += 1
        self.add(line, f"no layer can be read from {quoted(text)}")

    def all(self) -> tuple[str, ...]:
        return (*self.lines, *([f"and {self.more} more"] if self.more else []))


def rows_of(
    lines: Sequence[str],
    start: int,
    read: Callable[[str], T | None],
    is_header: Callable[[str], bool],
) -> tuple[list[T], Problems, int, bool]:
    """Return the rows of the table whose header is `lines[start]`, and what could not be read.

    Also the line behind it, and whether a rule closes it. Raises `TooLong`.
    """
    rows: list[T] = []
    problems = Problems()
    at, strays = start + 1, 0
    while at < len(lines) and is_rule(lines[at]):
        at += 1
    while at < len(lines) and strays < MAX_STRAY_ROWS and not is_header(lines[at]):
        line = lines[at]
        at += 1
        if is_rule(line):
            return rows, problems, at, True
        row = read(line)
        if row is not None:
            rows.append(row)
            strays = 0
        elif line.strip():
            problems.add_row(at, line)
            strays += 1
        if len(rows) > MAX_LAYERS:
            raise TooLong(f"line {at}: more than {MAX_LAYERS:,} layers: too many to be read")
    return rows, problems, at, False


def lines_of(text: str) -> list[str]:
    """Return the lines without colours and tabs, and only the beginning of long lines.

    Raises `BadSummary` for a text that is too long.
    """
    if len(text) > MAX_CHARS:
        raise TooLong(
            f"the model summary is too long: it has {len(text):,} characters, {MAX_CHARS:,} are"
            " allowed; save the summary alone, without the log around it"
        )
    if "\x1b" in text:
        text = _COLOURS.sub("", text)
    lines = text.splitlines()
    if len(lines) > MAX_LINES:
        raise TooLong(
            f"the model summary is too long: it has {len(lines):,} lines, {MAX_LINES:,} are"
            " allowed; save the summary alone, without the log around it"
        )
    return [line[: MAX_LINE + 1].replace("\t", "    ") for line in lines]


def quoted(text: str) -> str:
    """Return a piece of the user's text, shortened and without control characters."""
    text = text.strip()
    return f"'{plain(text[:60])}{'...' if len(text) > 60 else ''}'"


def is_rule(line: str) -> bool:
    """Return whether a line is drawn with `=`, `-` or `_`."""
    line = line.strip()
    return len(line) >= 3 and line[0] in "=-_" and not line.strip(line[0])


def number(text: str) -> int | None:
    """Return a whole number, which may have commas between its digits, or None."""
    digits = text.strip().replace(",", "")
    readable = digits.isascii() and digits.isdigit() and len(digits) <= _MAX_DIGITS
    return int(digits) if readable else None


def shapes_in_lists(text: str) -> tuple[Shape, ...] | None:
    """Return shapes: `[-1, 64, 8]`, or several in lists, with the batch dimension (-1: any) first.

    None: the text is something else.
    """
    if not text.startswith("[") or _INNERMOST_LIST.sub("", text).strip("[], "):
        return None
    return _shapes(inner for inner in _INNERMOST_LIST.findall(text) if inner.strip())


def shapes_in_tuples(text: str) -> tuple[Shape, ...] | None:
    """Return shapes: `(None, 26, 26, 32)`, or several in a list, batch dimension (-1: any) first.

    None: the text is something else.
    """
    if _INNERMOST_TUPLE.sub("", text).strip("[](){}, ") or "(" not in text:
        return None
    return _shapes(inner for inner in _INNERMOST_TUPLE.findall(text) if inner.strip())


def _shapes(inner: Iterable[str]) -> tuple[Shape, ...] | None:
    found = [_shape(each) for each in inner]
    shapes = tuple(shape for shape in found if shape is not None)
    return shapes if len(shapes) == len(found) else None


def _shape(text: str) -> Shape | None:
    sizes = []
    for word in text.rstrip(", ").split(","):
        size = -1 if word.strip() in ("-1", "None") else number(word)
        if size is None:
            return None
        sizes.append(size)
    return tuple(sizes) if len(sizes) <= _MAX_DIMENSIONS else None


def common_batch(shapes: Iterable[Shape]) -> int | None:
    """Return the batch size that all shapes share. None: they differ, or are for any batch."""
    sizes = {shape[0] for shape in shapes if shape}
    size = sizes.pop() if len(sizes) == 1 else -1
    return size if size > 0 else None


def per_sample(shape: Shape, batch: int | None) -> Shape | None:
    """Return the shape without its batch dimension. None: a later size is unknown.

    If the first size is a multiple of the batch (windows of an image, say), the multiple stays.
    If it is unrelated to the batch (a table of positions), the shape stays as it is.
    """
    if any(size < 0 for size in shape[1:]):
        return None
    first, rest = shape[0], shape[1:]
    if batch is None or first in (batch, -1):
        return rest
    return (first // batch, *rest) if first > 0 and first % batch == 0 else shape


def figures(lines: Sequence[str], start: int) -> tuple[dict[str, str], int]:
    """Return the `name: figure` lines below a table, by name in lower case, and their end.

    They end before two successive other lines; rules do not count.
    """
    found: dict[str, str] = {}
    at = end = start
    strays = 0
    while at < len(lines) and strays < 2:
        line = lines[at]
        name, colon, figure = line.partition(":")
        at += 1
        if colon and len(line) <= MAX_LINE and figure.strip():
            name = " ".join(name.casefold().split())
            if "total params" in found and name in ("total params", "layer (type"):
                break
            found.setdefault(name, figure.strip())
            strays, end = 0, at
        elif is_rule(line):
            end = at
        else:
            strays += 1
    return found, end


def whole_figure(text: str | None) -> int | None:
    """Return a whole figure: `34,826`, or `34,826 (136.04 KB)` as Keras prints it. None: none."""
    return number((text or "").split("(")[0])


def decimal(text: str | None) -> float | None:
    """Return a figure such as `18.38`. None: the text is something else."""
    whole, _, part = (text or "").partition(".")
    units, decimals = number(whole), number(part or "0")
    if units is None or decimals is None or "," in part:
        return None
    return float(f"{units}.{part.strip() or 0}")


def finished(
    form: Form,
    layers: Sequence[Layer],
    problems: Problems,
    totals: dict[str, str],
    *,
    start: int,
    closed: bool,
    batch_size: int | None = None,
    inputs: tuple[Shape, ...] = (),
    input_mib: float | None = None,
) -> ModelSummary:
    """Return the summary of the layers that were read, with the problems that its totals show."""
    if not layers:
        raise BadSummary(f"line {start + 1}: no layer can be read below this header; {AGAIN[form]}")
    parameters = sum(layer.parameters for layer in layers)
    total = whole_figure(totals.get("total params"))
    trainable = whole_figure(totals.get("trainable params"))
    optimizer = whole_figure(totals.get("optimizer params"))
    if not closed:
        problems.add(start + 1, "the summary that begins here is cut off before its end")
    elif total is None:
        problems.add(start + 1, "the summary that begins here has no total of its parameters")
    elif problems.rows:
        parameters = total
    elif total - (optimizer or 0) != parameters:
        trainable = None
        problems.add(
            start + 1,
            f"the layers have {parameters:,} parameters, the printed total is {total:,};"
            " radrm uses the layers",
        )
    return ModelSummary(
        form=form,
        layers=tuple(layers),
        parameters=parameters,
        trainable=trainable,
        batch_size=batch_size,
        inputs=inputs,
        input_mib=input_mib,
        complete=closed and not problems.rows,
        problems=problems.all(),
    )


AGAIN = {
    Form.TORCHSUMMARY: "print it again with torchsummary.summary(model, input_size)",
    Form.TORCHINFO: "print it again with torchinfo.summary(model, input_size, depth=9)",
    Form.KERAS: "print it again with model.summary()",
    Form.REPR: "print it again with print(model)",
}


def with_batch(summary: ModelSummary, batch_size: int | None) -> ModelSummary:
    return summary if batch_size is None else replace(summary, batch_size=batch_size)

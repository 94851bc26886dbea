"""Find the first complete summary of any form in a text."""

from __future__ import annotations

from collections.abc import Sequence

from radrm.estimators.summaries import keras, modules, torchinfo, torchsummary
from radrm.estimators.summaries.layers import ModelSummary
from radrm.estimators.summaries.text import (
    MAX_LINE,
    BadSummary,
    Reading,
    TooLong,
    is_rule,
    lines_of,
    with_batch,
)

_FIRST_ROWS = 6
"""The number of lines below a header that show which program printed it."""


def read_summary(text: str, batch_size: int | None = None) -> ModelSummary:
    """Return the first complete summary in `text`, else the first that can be read in part.

    `batch_size` is the job's own, which overrides the summary's. Raises `BadSummary`, which
    names the line and what is wrong there.
    """
    lines = lines_of(text)
    readable: ModelSummary | None = None
    cause: BadSummary | None = None
    at = 0
    while at < len(lines):
        if "(" not in lines[at]:
            at += 1
            continue
        try:
            reading = _read_at(lines, at)
        except TooLong:
            raise
        except BadSummary as error:
            cause = cause or error
            at += 1
            continue
        if reading is None:
            at += 1
            continue
        if reading.summary.complete:
            return with_batch(reading.summary, batch_size)
        readable = readable or reading.summary
        at = max(reading.end, at + 1)
    if readable is not None:
        return with_batch(readable, batch_size)
    raise cause or BadSummary(
        "there is no model summary in the text; save the output of torchsummary, torchinfo,"
        " Keras's model.summary() or print(model)"
    )


def _read_at(lines: Sequence[str], at: int) -> Reading | None:
    """Return the summary that begins at this line, if there is one."""
    line = lines[at]
    if modules.is_root(lines, at):
        return modules.read(lines, at)
    if torchinfo.is_header(line):
        return torchinfo.read(lines, at)
    if keras.is_drawn_header(line):
        return keras.read_drawn(lines, at)
    if not torchinfo.is_plain_header(line):
        return None
    rows = _rows_below(lines, at)
    if any(torchsummary.is_row(row) for row in rows):
        return torchsummary.read(lines, at)
    if any(torchinfo.is_row(row) for row in rows):
        return torchinfo.read(lines, at)
    if any(keras.is_row(row) for row in rows):
        return keras.read_plain(lines, at)
    return torchsummary.read(lines, at) if torchsummary.is_header(line) else None


def _rows_below(lines: Sequence[str], at: int) -> list[str]:
    """Return the first rows below a header, without drawn lines, before the next header."""
    found: list[str] = []
    for line in lines[at + 1 : at + 1 + _FIRST_ROWS]:
        if torchinfo.is_plain_header(line):
            break
        if not is_rule(line):
            found.append(line[:MAX_LINE])
    return found

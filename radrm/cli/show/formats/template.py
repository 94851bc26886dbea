"""Read a format as `%.10i %j {gpus}`, and lay out rows by it.

`%[[.]WIDTH]LETTER` is as for squeue: the value in as many columns as it needs, or in WIDTH
columns, cut there; the dot moves it to the right. `{FIELD}` and `{FIELD:[.]WIDTH}` are the same
for any field of `status --json`. `%%`, `{{` and `}}` are these characters.
"""

from __future__ import annotations

import json
import os
import re

import radrm
from radrm.cli.show.formats.letters import LETTERS
from radrm.errors import UsageError, plain
from radrm.jobfile.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from radrm.client.text import Document

_LONGEST = 1000
_WIDEST = 1000
_PART = re.compile(
    r"%(?P<dot>\.?)(?P<width>[0-9]{0,4})(?P<letter>[A-Za-z])"
    r"|\{(?P<field>[a-z_]+)(?::(?P<right>\.?)(?P<columns>[0-9]{1,4}))?\}"
    r"|(?P<same>%%|\{\{|\}\})"
    r"|(?P<text>[^%{}]+)"
    r"|(?P<wrong>.)",
    re.DOTALL,
)


class Part(Record):
    """A text, a letter or a field. `width` 0: as wide as its value."""

    text: str = ""
    letter: str = ""
    field: str = ""
    width: int = 0
    right: bool = False


def read_format(text: str) -> list[Part]:
    """The parts of a format. Raises `UsageError` for one that cannot be read, is too long, or names
    a field that no job has."""
    if len(text) > _LONGEST:
        raise UsageError(f"--format: {len(text)} characters are too many; at most {_LONGEST}")
    parts = [_part(found, text) for found in _PART.finditer(text)]
    named = [part.field for part in parts if part.field]
    known = _fields() if named else ()
    for field in named:
        if field not in known:
            raise UsageError(f"--format: there is no field {field}; {_nearest(field, known)}")
    return parts


def _fields() -> Collection[str]:
    """The fields of a job, as the JSON Schema lists them."""
    with open(os.path.join(os.path.dirname(radrm.__file__), "radrm.schema.json"), "rb") as file:
        fields: dict[str, object] = json.load(file)["$defs"]["job"]["properties"]
    return fields


def _nearest(field: str, known: Collection[str]) -> str:
    from difflib import get_close_matches  # only a mistake needs it

    near = get_close_matches(field, known, n=1)
    return f"did you mean {near[0]}?" if near else "radrm status --json shows them"


def _part(found: re.Match[str], text: str) -> Part:
    if found["wrong"]:
        here = plain(text[found.start() :][:12])
        raise UsageError(
            f"--format: {here!r} is neither %LETTER nor {{FIELD}}; write %% for a %, {{{{ for a {{"
        )
    if found["text"] or found["same"]:
        return Part(found["text"] or found["same"][0])
    width = int(found["width"] or found["columns"] or 0)
    if width > _WIDEST:
        raise UsageError(f"--format: {width} columns are too many; at most {_WIDEST}")
    if found["letter"] and found["letter"] not in LETTERS:
        raise UsageError(
            f"--format: there is no %{found['letter']}; the letters are {' '.join(LETTERS)}; "
            "every field of status --json is a {FIELD}, as {reserved_mib}"
        )
    right = bool(found["dot"] or found["right"])
    return Part("", found["letter"] or "", found["field"] or "", width, right)


def heading(parts: Sequence[Part]) -> str:
    """The line above the rows."""
    return _joined([LETTERS[p.letter][0] if p.letter else p.field.upper() for p in parts], parts)


def row(parts: Sequence[Part], job: Document, index: Mapping[str, int], now: float) -> str:
    """The line of one job. `index`: of GPUs by UUID. A field that it lacks is shown as `-`."""
    return _joined([_value(part, job, index, now) for part in parts], parts)


def _value(part: Part, job: Document, index: Mapping[str, int], now: float) -> str:
    if part.letter:
        found = LETTERS[part.letter][2](job, index, now)
    elif not part.field:
        return ""
    else:
        found = job.get(part.field)
    if found is None or found == "":
        return "-"
    return plain(found if isinstance(found, str) else json.dumps(found))


def _joined(values: Sequence[str], parts: Sequence[Part]) -> str:
    found = [
        part.text or (_fitted(value, part) if part.width else value)
        for value, part in zip(values, parts, strict=True)
    ]
    return "".join(found).rstrip(" ")


def _fitted(value: str, part: Part) -> str:
    cut = value[: part.width]
    return cut.rjust(part.width) if part.right else cut.ljust(part.width)

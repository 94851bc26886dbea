"""The files in `$RADRM_ELASTIC_DIR`, their limits, and their encoding.

    placement-G.json   the daemon's: the tasks of generation G, and what each one gets
    begun-G            of `radrun` when it stops the tasks before, or of the daemon when it
                       withdraws G: the first one decides
    resized-G.json     of `radrun`: G runs, or why it does not
    shares.json        the daemon's: the CPUs of each task, after they have changed
    tasks.json         of `radrun`: the process of each task, and how it has ended

Each file is JSON with a version. It is written under another name, synced and renamed, so a reader
sees all of it or nothing. The folder belongs to the job's user, who may put anything there: a
reader believes nothing that it has not checked. The runner imports this file.
"""

from __future__ import annotations

import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

VERSION = 1
FOLDER_VARIABLE = "RADRM_ELASTIC_DIR"
SHARES = "shares.json"
TASKS = "tasks.json"
MOST_BYTES = 256 << 10
"""Bytes of one file."""
MOST_TASKS = 256
"""Tasks that one file may name."""
LONGEST_ROLE = 64
RADRM = "radrm"


def placement(generation: int) -> str:
    """The name of the file that has the tasks of a generation."""
    return f"placement-{generation}.json"


def begun(generation: int) -> str:
    """The name of the file that decides whether a generation begins."""
    return f"begun-{generation}"


def resized(generation: int) -> str:
    """The name of the file that answers whether a generation runs."""
    return f"resized-{generation}.json"


def encode(fields: dict[str, Any]) -> str:
    """Return the text of a file."""
    return json.dumps({"version": VERSION, **fields})


def decode(text: str | bytes) -> dict[str, Any] | str:
    """Return the fields of a file; a text instead of them says why it is not usable."""
    if len(text) > MOST_BYTES:
        return f"it is longer than {MOST_BYTES >> 10} KiB"
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        return "it is not JSON"
    if not isinstance(fields, dict):
        return "it is not a JSON object"
    version = fields.get("version")
    if type(version) is not int or version != VERSION:
        return f"it has not version {VERSION}, which this radrm reads"
    return fields


def is_task(role: object, number: object) -> bool:
    """Return whether these two can name a task."""
    named = isinstance(role, str) and 0 < len(role) <= LONGEST_ROLE
    return named and type(number) is int and 0 <= number < MOST_TASKS

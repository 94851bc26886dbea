"""Plain text and JSON for people and programs, without rich."""

from __future__ import annotations

import json
import sys
from typing import Any

from radrm.errors import plain

Document = dict[str, Any]


def print_json(document: Any) -> None:
    print(json.dumps(document, indent=2))


def warn(text: str) -> None:
    """One line for people on standard error, beside a command's own output."""
    print(f"radrm: {plain(text)}", file=sys.stderr, flush=True)


def label(job: Document) -> str:
    """What people call a job: `12`, or `12_3` for an element of an array."""
    return str(job.get("label") or job["id"])

"""Text and JSON for people and programs, without rich. Light to import."""

from __future__ import annotations

import json
import sys

from radrm.errors import plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Document = dict[str, Any]
else:
    Document = dict  # without the import of `typing`


def print_json(document: Any) -> None:
    print(json.dumps(document, indent=2))


def warn(text: str) -> None:
    """Print one line for people on standard error."""
    print(f"radrm: {plain(text)}", file=sys.stderr, flush=True)


def label(job: Document) -> str:
    """The label of a job: `12`, or `12_3` for an element of an array."""
    return str(job.get("label") or job["id"])


def notice_lines(job: Document) -> list[str]:
    """The notices about a job that could not be sent: which, to whom, why."""
    lines = []
    for each in job.get("notices") or ():
        tries = each["tries"]
        how = "not sent" if each["given_up"] else "not sent yet"
        often = f" ({tries} {'try' if tries == 1 else 'tries'})" if tries else ""
        lines.append(plain(f"{each['event']} to {each['target']} {how}{often}: {each['error']}"))
    return lines

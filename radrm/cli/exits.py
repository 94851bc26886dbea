"""The exit code that stands for a job's end, in `submit --wait` and `wait`."""

from __future__ import annotations

import time
from typing import Any

from radrm.cli.client import Client
from radrm.errors import EXIT_NEVER_RAN, EXIT_TIME_LIMIT, Refused, Unreachable

FINAL = frozenset({"COMPLETED", "FAILED", "TIMEOUT", "CANCELLED"})
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 0.5


def exit_code(document: dict[str, Any]) -> int:
    """The job's own code; 124 for its time limit, 125 where it was lost or never started."""
    if document["state"] == "TIMEOUT":
        return EXIT_TIME_LIMIT
    if document["outcome"] == "lost" or document["started_at"] is None:
        return EXIT_NEVER_RAN
    code = document["exit_code"]
    if code is None:
        return EXIT_NEVER_RAN
    return int(code)


def wait_for(client: Client, references: list[str]) -> list[dict[str, Any]]:
    """Wait until all of these jobs have ended; their documents.

    A daemon that is being restarted is waited for, as long as it had answered once.
    """
    pause_s, answered = _FIRST_PAUSE_S, False
    while True:
        try:
            documents: list[dict[str, Any]] = client.ask("status", jobs=references)
            answered = True
            if all(d["state"] in FINAL for d in documents):
                return documents
        except Unreachable:
            if not answered:
                raise
        time.sleep(pause_s)
        pause_s = min(_LONGEST_PAUSE_S, pause_s * 1.5)


def highest(documents: list[dict[str, Any]]) -> int:
    if not documents:
        raise Refused("there is no job to wait for")
    return max(exit_code(d) for d in documents)

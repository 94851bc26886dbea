"""Wait for jobs, and convert their ends to exit codes. Light to import."""

from __future__ import annotations

import sys
import time

from radrm.client.connection import every_job
from radrm.client.states import FINAL
from radrm.errors import EXIT_NEVER_RAN, EXIT_TIME_LIMIT, Refused, Unreachable, plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from radrm.client.connection import Client

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 1.0
_BATCH = 1000
_WATCHED = 100
"""Unfinished jobs that are asked about at once: all must end, so a few are enough."""


def exit_code(document: dict[str, Any]) -> int:
    """The job's own code; 124 after its time limit, 125 if it was lost or never started, but 127
    or 126, as in a shell, if its program did not exist or could not be run.

    It is 1 for a job that exited with 0 and did not complete: it was cancelled, or the kernel
    killed some of its processes at its host memory limit.
    """
    if document["state"] == "TIMEOUT":
        return EXIT_TIME_LIMIT
    if document["outcome"] == "lost":
        return EXIT_NEVER_RAN
    code = document["exit_code"]
    if code is None:
        return EXIT_NEVER_RAN
    return int(code) or int(document["state"] != "COMPLETED")


def wait_for(
    client: Client, references: Sequence[str], pause: Callable[[float], object] = time.sleep
) -> list[dict[str, Any]]:
    """Wait until all of these jobs have ended. Returns their documents, each once.

    References are resolved once, at the beginning. After the first answer, the wait survives a
    restart of the daemon. `*` alone means the unfinished jobs: there may be none.
    """
    found: dict[int, dict[str, Any]] = {}
    for i in range(0, len(references), _BATCH):
        found |= _by_id(every_job(client.ask, jobs=references[i : i + _BATCH]))
    if list(references) == ["*"]:
        found = {number: d for number, d in found.items() if d["state"] not in FINAL}
    pause_s = _FIRST_PAUSE_S
    while unfinished := [d for d in found.values() if d["state"] not in FINAL]:
        pause(pause_s)
        pause_s = min(_LONGEST_PAUSE_S, pause_s * 1.5)
        watched = [str(d.get("label") or d["id"]) for d in unfinished[:_WATCHED]]
        try:
            now = _by_id(client.ask("status", jobs=watched))
        except Unreachable:
            continue
        found |= now
        if all(d["state"] in FINAL for d in now.values()):
            pause_s = _FIRST_PAUSE_S  # ask about the next jobs soon: they may have ended too
    return list(found.values())


def _by_id(documents: list[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    return {document["id"]: document for document in documents}


def highest(documents: list[dict[str, Any]]) -> int:
    """The highest exit code of these jobs. Raises `Refused` without a job."""
    if not documents:
        raise Refused("there is no job to wait for")
    return max(exit_code(d) for d in documents)


def tell_failures(documents: list[dict[str, Any]]) -> None:
    """Print a line on standard error for each job that did not complete."""
    for document in documents:
        if document["state"] != "COMPLETED":
            why = f": {document['reason']}" if document["reason"] else ""
            line = f"radrm: job {document['label']} ({document['name']}) {document['state']}{why}"
            print(plain(line), file=sys.stderr)

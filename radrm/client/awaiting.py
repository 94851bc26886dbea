"""Wait for what comes of a request: another size, saved work, another GPU. Light to import."""

from __future__ import annotations

import time

from radrm.client.connection import every_job
from radrm.client.follow import ASK_S, pause
from radrm.client.text import FINAL, WAITING, label, warn
from radrm.errors import EXIT_NEVER_RAN, EXIT_TIME_LIMIT, Refused, Unreachable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from radrm.client.connection import Ask, Client
    from radrm.client.text import Document

_FIRST_WAIT_S, _LONGEST_PAUSE_S = 0.05, 1.0
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
    pause_s = _FIRST_WAIT_S
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
            pause_s = _FIRST_WAIT_S  # ask about the next jobs soon: they may have ended too
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
            line = f"job {document['label']} ({document['name']}) {document['state']}{why}"
            warn(line)


_FIRST_PAUSE_S = 0.05
_PATIENCE_S = 5.0
"""How long a job that was stopped for its new size may wait: its GPUs must be read again."""


def wait_resized(
    ask: Ask,
    before: Document,
    gpus: int | None,
    roles: Mapping[str, int],
    pause: Callable[[float], object] = pause,
) -> Document:
    """Wait until a job has a size (`gpus`, or the tasks of `roles`), or will not get it.

    `before`: its document from before the request. Returns its present one, whose `error` says why
    it has another size.
    """
    pause_s, waited_s = _FIRST_PAUSE_S, 0.0
    while True:
        (job,) = ask("status", jobs=[str(label(before))])
        waits = job["state"] in WAITING and waited_s < _PATIENCE_S
        if not waits and not _is_resizing(job, before):
            return {**job, "error": _unresized(job, gpus, roles)}
        pause(pause_s)
        waited_s += pause_s if waits else 0.0
        pause_s = min(ASK_S, 2 * pause_s)


def _is_resizing(job: Document, before: Document) -> bool:
    """Return whether the answer to the request is still to come."""
    if job["state"] in FINAL:
        return False
    if job.get("resizing") is not None or job.get("checkpoint_pending"):
        return True
    # A job that is resized by a restart has saved and is stopped, or is started again.
    restarts = job["attempts"] > before["attempts"] and job["state"] == "LAUNCHING"
    return bool(restarts or job["state"] == "STOPPING")


def _unresized(job: Document, gpus: int | None, roles: Mapping[str, int]) -> str | None:
    named = f"job {label(job)}"
    if job["state"] in FINAL:
        return f"{named} did not get that size: it has ended ({job['state']})"
    counts = {each["name"]: each["count"] for each in job.get("roles", ())}
    reached = job["gpus"] == gpus if gpus is not None else roles.items() <= counts.items()
    if job["state"] == "RUNNING" and reached:
        return None
    why = job.get("resize_error") or job.get("checkpoint_error")
    if job["state"] == "RUNNING":
        return f"{named} keeps its size: {why or 'the request was withdrawn'}"
    return f"{named} was stopped and waits in its queue: {job['reason'] or job['state']}"


# ------------------------------------------------------------------ saved work


def wait_saved(
    ask: Ask, before: Document, moves: bool, pause: Callable[[float], object] = pause
) -> Document:
    """Wait until a job has saved its work, or has moved (`moves`), or will not.

    `before`: its document from before the request. Returns its present one, whose `error` says why
    it did not.
    """
    pause_s = _FIRST_PAUSE_S
    while True:
        (job,) = ask("status", jobs=[str(label(before))])
        if not _is_saving(job, before, moves):
            return {**job, "error": _unsaved(job, before, moves)}
        pause(pause_s)
        pause_s = min(ASK_S, 2 * pause_s)


def _is_saving(job: Document, before: Document, moves: bool) -> bool:
    """Return whether the answer to the request is still to come."""
    if job["state"] in FINAL:
        return False
    if job["attempts"] == before["attempts"]:
        # It is asked, or is stopped because it has saved.
        return bool(job.get("checkpoint_pending")) or (moves and job["state"] == "STOPPING")
    return bool(moves and job["state"] == "LAUNCHING")


def _unsaved(job: Document, before: Document, moves: bool) -> str | None:
    named = f"job {label(job)}"
    if moves and job.get("moves", 0) > before.get("moves", 0):
        return None
    if not moves and job.get("saved_at", 0.0) > before.get("saved_at", 0.0):
        return None
    did = "move" if moves else "save its work"
    if job["state"] in FINAL:
        return f"{named} did not {did}: it has ended ({job['state']})"
    if job.get("checkpoint_error"):
        return f"{named} did not {did}: {job['checkpoint_error']}"
    if job["state"] == "RUNNING":
        return f"{named} runs, but did not {did}"
    return f"{named} was stopped and waits in its queue: {job['reason'] or job['state']}"

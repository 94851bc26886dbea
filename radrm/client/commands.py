"""Commands about many jobs or devices (cancel, hold, drain...), sent to a daemon."""

from __future__ import annotations

from radrm.client.connection import Client
from radrm.client.follow import ASK_S, pause
from radrm.client.states import FINAL, WAITING
from radrm.client.text import label

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    from radrm.client.connection import Ask
    from radrm.client.text import Document
    from radrm.jobfile.options import RawOptions

_BATCH = 1000
"""References in one request, so that no request is longer than the daemon reads."""
_GLOBS = 100
"""Globs in one request; the daemon takes no more."""


def command_jobs(command: str, jobs: Sequence[str], **words: Any) -> list[Document]:
    """Give a command for each job, or without `jobs` for those that `words` select. Returns the
    results."""
    with Client() as client:
        return [
            result
            for batch in (batches(jobs) if jobs else ([],))
            for result in client.ask(command, jobs=batch, **words)
        ]


def warned(results: Sequence[Document], options: RawOptions) -> Sequence[Document]:
    """Return the results of `edit` with `folders`, with warnings of folders that are not there."""
    from radrm.host.mistakes import look_over_edit  # few edit, and many wait for this module
    from radrm.jobfile.parsing import typed

    asked = typed(options, "edited options")
    notes: dict[str, list[str]] = {}
    for result in results:
        folder = result.pop("folder", None)
        if folder is not None:
            if folder not in notes:
                notes[folder] = look_over_edit(asked, folder)
            words = [result.get("warning"), *notes[folder]]
            if any(words):
                result["warning"] = "; ".join(filter(None, words))
    return results


def command_devices(command: str, devices: Sequence[str], **words: Any) -> list[Document]:
    """Give a command for each device; no name means all. Returns the results."""
    with Client() as client:
        results: list[Document] = client.ask(command, devices=list(devices), **words)
    return results


def batches(jobs: Sequence[str]) -> Iterator[list[str]]:
    """Split references into requests of a size that the daemon takes."""
    batch: list[str] = []
    globs = 0
    for job in jobs:
        glob = any(character in job for character in "*?[")
        if len(batch) == _BATCH or (glob and globs == _GLOBS):
            yield batch
            batch, globs = [], 0
        batch.append(job)
        globs += glob
    if batch:
        yield batch


# ------------------------------------------------------------------
# Wait for what comes of a request for another size. Light to import.


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


# ------------------------------------------------------------------
# Wait for what comes of a request to save, or to move. Light to import.


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

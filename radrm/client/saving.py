"""Wait for what comes of a request to save, or to move. Light to import."""

from __future__ import annotations

from radrm.client.follow import ASK_S, pause
from radrm.client.states import FINAL
from radrm.client.text import label

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from radrm.client.connection import Ask
    from radrm.client.text import Document

_FIRST_PAUSE_S = 0.05


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
        if not _is_open(job, before, moves):
            return {**job, "error": _error(job, before, moves)}
        pause(pause_s)
        pause_s = min(ASK_S, 2 * pause_s)


def _is_open(job: Document, before: Document, moves: bool) -> bool:
    """Return whether the answer to the request is still to come."""
    if job["state"] in FINAL:
        return False
    if job["attempts"] == before["attempts"]:
        # It is asked, or is stopped because it has saved.
        return bool(job["checkpoint_pending"]) or (moves and job["state"] == "STOPPING")
    return bool(moves and job["state"] == "LAUNCHING")


def _error(job: Document, before: Document, moves: bool) -> str | None:
    named = f"job {label(job)}"
    if moves and job["moves"] > before["moves"]:
        return None
    if not moves and (job["saved_at"] or 0.0) > (before["saved_at"] or 0.0):
        return None
    did = "move" if moves else "save its work"
    if job["state"] in FINAL:
        return f"{named} did not {did}: it has ended ({job['state']})"
    if job["checkpoint_error"]:
        return f"{named} did not {did}: {job['checkpoint_error']}"
    if job["state"] == "RUNNING":
        return f"{named} runs, but did not {did}"
    return f"{named} was stopped and waits in its queue: {job['reason'] or job['state']}"

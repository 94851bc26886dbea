"""What `radrm top` asks of the daemon, and the commands that it gives.

Everything here may block; the application calls it in a thread.
"""

from __future__ import annotations

from threading import Lock
from typing import Any

from msgspec import Struct, field

from radrm.client.connection import Client, batches
from radrm.client.tail import last_lines, owner_of
from radrm.client.text import Document, label
from radrm.client.words.jobs import names_of
from radrm.errors import RadrmError, Unreachable, plain

WINDOW = 100
"""Jobs in one answer: enough to scroll until the next one comes."""
_LOG_LINES = 200
_STEP = 10
"""One change of the priority."""


class Question(Struct, frozen=True):
    """What the screen shows: a filter, the first row, and the job with its card or log.

    `words`: of the question `page`. `pane`: "", "card", "stdout", "stderr" or "processes".
    """

    words: Document = field(default_factory=dict)
    first: int = 0
    job: str = ""
    pane: str = ""


class Answer(Struct, frozen=True):
    """`trouble`: why there is no new answer, or why the filter selects nothing."""

    devices: list[Document] = field(default_factory=list)
    page: Document | None = None
    explained: Document | None = None
    log: list[str] = field(default_factory=list)
    trouble: str = ""


class Source:
    """Answers for the screen. Threads wait for one another."""

    def __init__(self, client: Client) -> None:
        self._client, self._lock = client, Lock()

    def ask(self, question: Question) -> Answer:
        """Return what the screen shows. The answer holds errors as text."""
        with self._lock:
            return self._ask(question)

    def _ask(self, question: Question) -> Answer:
        try:
            listed, user = question.pane == "processes", question.words.get("user")
            devices = self._client.ask("gpus", processes=listed, user=user)
        except RadrmError as error:
            return Answer(trouble=_trouble(error))
        try:
            page = self._client.ask("page", **question.words, offset=question.first, limit=WINDOW)
        except RadrmError as error:
            return Answer(devices, trouble=_trouble(error))
        try:
            explained, log = self._pane(question)
        except RadrmError as error:
            return Answer(devices, page, None, [plain(str(error))])
        return Answer(devices, page, explained, log)

    def _pane(self, question: Question) -> tuple[Document | None, list[str]]:
        if not question.job or question.pane in ("", "processes"):
            return None, []
        explained = self._client.ask("explain", jobs=[question.job])
        if question.pane == "card":
            return explained, []
        if not explained["job"]["attempts"]:
            return explained, ["The job has not started, so it has no log."]
        paths = self._client.ask("logs", jobs=[question.job])
        lines = last_lines(paths[question.pane], owner_of(paths), _LOG_LINES)
        return explained, lines or [f"Nothing in {plain(paths[question.pane])} so far."]

    def give(self, command: str, job: Document) -> str:
        """Give a command about a job. Return one line about what came of it."""
        words: dict[str, Any] = {}
        op = command
        if command in ("raise", "lower"):
            by = _STEP if command == "raise" else -_STEP
            op, words = "edit", {"options": {"priority": str((job.get("priority") or 0) + by)}}
        name = label(job)
        try:
            with self._lock:
                results = [
                    result
                    for batch in batches(names_of(job))
                    for result in self._client.ask(op, jobs=batch, **words)
                ]
        except RadrmError as error:
            return _trouble(error)
        wrong = next((result["error"] for result in results if result["error"]), None)
        if wrong is None and any(result.get("saves") for result in results):
            return f"Asked job {name} to save its work; when it has, it is requeued."
        return wrong or f"{_DONE[command]} job {name}."


_DONE = {
    "cancel": "Cancelled",
    "hold": "Held",
    "release": "Released",
    "requeue": "Requeued",
    "raise": f"Added {_STEP} to the priority of",
    "lower": f"Took {_STEP} from the priority of",
}


def _trouble(error: RadrmError) -> str:
    if isinstance(error, Unreachable):
        return "The daemon does not answer; trying again. Jobs run on."
    return str(error)

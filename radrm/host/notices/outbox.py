"""Sends the notices that wait in the store.

Theory of operation. The loop's thread calls `work` in each round. It starts a thread for each
notice to send, at most `AT_ONCE` and one of each user, so a target that hangs delays only its
user's notices. The thread starts a process (`start_notice.py`), waits for its end within limits,
and keeps the result for the next `work`, which writes it to the store. Nothing here is part of a
decision, so nothing here delays a job.

A notice that fails is tried again after each of `PAUSES_S`, then given up. The pauses are not
stored: the next daemon tries at once. What is on its way when the daemon ends is sent again.
"""

from __future__ import annotations

import json
import logging
import os
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from email.message import EmailMessage
from email.policy import SMTP
from typing import Any

from msgspec import Struct

from radrm.core.units import show_mib, show_seconds
from radrm.errors import StoreError, plain
from radrm.host.notices import start_notice
from radrm.host.notices.start_notice import LIMIT_S, Wanted
from radrm.host.processes.errand import GRACE_S as _GRACE_S
from radrm.host.processes.errand import Errand, remove_left_groups
from radrm.host.storage.notices import Notice, Notices

log = logging.getLogger("radrm")

AT_ONCE = 8
"""Notices that are sent at the same time."""
PAUSES_S = (10.0, 60.0, 300.0)
"""Real seconds before each further try."""
_AFTER_ERROR_S = 5.0
"""Real seconds after which a store that could not be written is tried again."""
_MOST_OUTPUT = 1 << 16
_GROUP = "radrm-notice-"
_PROXIES = ("http_proxy", "https_proxy", "no_proxy", "HTTPS_PROXY", "NO_PROXY")
_LONGEST_SUBJECT = 250
_LONGEST_TEXT = 8000
_LONGEST_CHAT = 1900
"""Discord refuses longer texts."""
_WARNED = {
    "oom": "hit GPU out-of-memory",
    "start": "has started",
    "idle": "leaves its GPUs idle",
    "silent": "is silent",
    "misplaced": "uses a GPU that it was not given",
    "held": "is held, because too many of its elements failed",
}


class Result(Struct, frozen=True):
    """What became of one try. `error` None: sent. `final`: another try would fail, too."""

    error: str | None = None
    final: bool = False


class Sender(Struct, frozen=True):
    """How this daemon sends. `extra`: variables for users' programs; `drop`: become the user."""

    notices: Notices
    """Has the settings of the site."""
    host: str
    drop: bool
    extra: Mapping[str, str]

    def __call__(self, notice: Notice) -> Result:
        """Send one notice, in a process. Takes at most `LIMIT_S` and a few seconds."""
        proxies = _PROXIES if notice.target.kind == "webhook" else ()
        try:
            errand = Errand(
                start_notice.__file__,
                self.wanted(notice).as_dict(),
                _GROUP,
                LIMIT_S,
                _MOST_OUTPUT,
                _GRACE_S,
                environment={name: os.environ[name] for name in proxies if name in os.environ},
            )
        except OSError as error:
            return Result(f"no process can be started: {error.strerror}")
        try:
            errand.wait()
        finally:
            late, output = errand.late, errand.output
            errand.end(thorough=True)
        return _checked(output) or Result(
            f"it took longer than {LIMIT_S} s" if late else "the process ended without an answer"
        )

    def wanted(self, notice: Notice) -> Wanted:
        """Return what the process is told."""
        facts, site, target = notice.facts, self.notices.site, notice.target
        message = message_of(facts, self.host)
        named = {f"JOB_{name.upper()}": facts.get(name) for name in ("name", "state")}
        named |= {"JOB_ID": facts.get("job"), "EVENT": notice.kind, "SUBJECT": message.subject}
        named |= {name.upper(): facts.get(name) for name in ("exit_code", "reason")}
        variables = {f"RADRM_{k}": plain(str(v)) for k, v in named.items() if v is not None}
        user = str(facts.get("user"))
        body, url, command = message.text, "", [target.address]
        if target.kind == "webhook":
            body, url, command = json.dumps(message.for_chat), target.address, []
        elif target.kind == "mail":
            to = target.address or "@".join(filter(None, (user, site.mail_domain)))
            # The parser lets no address begin with a hyphen.
            sender = ["-f", site.mail_from] if site.mail_from else []
            body, command = message.mail(to, site.mail_from), [site.sendmail, "-i", *sender, to]
        return Wanted(
            body,
            user,
            url,
            command,
            {**self.extra, **variables, "RADRM_NOTICE": json.dumps(message.document)},
            notice.uid if self.drop else None,
            notice.gid if self.drop else None,
        )


def _checked(output: bytes) -> Result | None:
    """Parse the output of the process that sends. None if it is no valid answer."""
    try:
        said = json.loads(output[:_MOST_OUTPUT])
        error, final = said["error"], said.get("final") is True
        if not isinstance(error, str | None):
            return None
        return Result(None if error is None else plain(error)[:300], final)
    except (ValueError, TypeError, LookupError, RecursionError):
        return None


class Outbox:
    """Used by the loop's thread. `wake` wakes that thread; `tick` is a monotonic clock, in real
    seconds."""

    def __init__(
        self,
        notices: Notices,
        send: Callable[[Notice], Result],
        wake: Callable[[], None],
        tick: Callable[[], float] = time.monotonic,
    ) -> None:
        self._notices = notices
        self._send = send
        self._wake = wake
        self._tick = tick
        self._results: deque[tuple[Notice, Result]] = deque()
        """Results that are not in the store yet. Each thread appends its own."""
        self._running: dict[int, int] = {}
        """The user of each notice that is on its way, or has a result."""
        self._paused: dict[int, float] = {}
        """When a notice that failed is tried again, by its id."""
        self._store_due_s = 0.0

    @property
    def due_in_s(self) -> float:
        """Real seconds until `work` has something to do; a result wakes the loop by itself."""
        due = [self._store_due_s] if self._results else list(self._paused.values())
        return max(0.0, min(due) - self._tick()) if due else float("inf")

    def begin(self) -> None:
        """Remove what a killed daemon has left."""
        remove_left_groups(_GROUP)

    def work(self) -> None:
        """Save what has been sent, and start what is due. Never waits, never raises."""
        now_s = self._tick()
        over = [notice_id for notice_id, due in self._paused.items() if due <= now_s]
        if not (self._results or over or self._notices.new) or now_s < self._store_due_s:
            return
        try:
            while self._results:
                self._save(*self._results[0])
                self._results.popleft()
            for notice_id in over:
                del self._paused[notice_id]
            self._notices.new = False
            self._start()
        except (StoreError, sqlite3.Error) as error:
            log.error("notices wait: %s", error)
            self._store_due_s = now_s + _AFTER_ERROR_S
            self._notices.new = True

    def _save(self, notice: Notice, result: Result) -> None:
        where = f"{notice.target.place} of job {notice.facts.get('job')} ({notice.kind})"
        tries = notice.tries + 1
        over = result.error is None or result.final or tries > len(PAUSES_S)
        self._notices.tried(notice, result.error, over)
        if result.error is None:
            log.info("notice to %s: sent", where)
        elif over:
            count = "1 try" if tries == 1 else f"{tries} tries"
            log.warning("notice to %s: given up after %s: %s", where, count, result.error)
        else:
            self._paused[notice.id] = self._tick() + PAUSES_S[tries - 1]
        self._running.pop(notice.id, None)

    def _start(self) -> None:
        busy = set(self._running.values())

        def skip(notice_id: int, uid: int) -> bool:
            return notice_id in self._paused or uid in busy

        for notice in self._notices.waiting(skip, AT_ONCE - len(busy)):
            self._running[notice.id] = notice.uid
            threading.Thread(target=self._deliver, args=(notice,), daemon=True).start()

    def _deliver(self, notice: Notice) -> None:
        """In a thread of its own."""
        try:
            result = self._send(notice)
        except Exception as error:  # a defect must not leave the notice on its way for ever
            log.exception("notice %d cannot be sent, by a defect of radrm", notice.id)
            result = Result(f"radrm failed: {type(error).__name__}", final=True)
        self._results.append((notice, result))
        self._wake()


# ------------------------------------------------------------------ the words of a notice


class Message(Struct, frozen=True):
    """A notice in words. `document` is for programs."""

    subject: str
    text: str
    document: Mapping[str, Any]

    @property
    def for_chat(self) -> dict[str, Any]:
        """The JSON for a webhook. Chat services read `text` (Slack, Mattermost) or `content`
        (Discord)."""
        words = f"{self.subject}\n{self.text}"[:_LONGEST_CHAT]
        return {**self.document, "subject": self.subject, "text": words, "content": words}

    def mail(self, to: str, sender: str) -> str:
        """The mail as `sendmail` reads it."""
        mail = EmailMessage(policy=SMTP.clone(linesep="\n"))
        mail["To"] = to
        if sender:
            mail["From"] = sender
        mail["Subject"] = self.subject
        mail["Auto-Submitted"] = "auto-generated"
        mail["X-Mailer"] = "radrm"
        mail.set_content(self.text)
        return mail.as_bytes().decode()


def message_of(facts: Mapping[str, Any], host: str) -> Message:
    """Return the message about these facts (`storage/notices.py`). Names and reasons are texts of
    users: each becomes one plain line first, so none can end a header or forge a line."""
    what = plain(_what(facts))
    known = [(name, plain(str(value))) for name, value in _lines(facts) if value not in (None, "")]
    warning = [plain(facts["text"])] if facts.get("text") else []
    table = [f"{name:<10} {value}" for name, value in known]
    lines = [what, *warning, "", *table, "", f"More: radrm status {plain(str(facts['job']))}"]
    hidden = ("gid", "once", "id", "text")
    document = {key: value for key, value in facts.items() if key not in hidden}
    return Message(
        f"radrm on {plain(host)}: {what}"[:_LONGEST_SUBJECT],
        "\n".join(lines)[:_LONGEST_TEXT] + "\n",
        {**document, "warning": facts.get("text"), "host": host},
    )


def _lines(facts: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return what the text says of a job, line by line; None or "": unknown."""
    states, params, peak = (facts.get(name) for name in ("states", "params", "peak_mib"))
    return [
        ("state", facts.get("state")),
        ("parameters", ", ".join(f"{k}={v}" for k, v in (params or {}).items())[:500]),
        ("reason", facts.get("reason")),
        ("elements", _counts(states or {})),
        *((name, _date(facts.get(f"{name}_at"))) for name in ("submitted", "started", "ended")),
        *((name, _span(facts.get(f"{name}_s"))) for name in ("waited", "ran")),
        ("memory", f"at most {show_mib(peak)} per GPU" if peak else None),
        ("attempts", facts.get("attempts")),
        ("comment", facts.get("comment")),
    ]


def _what(facts: Mapping[str, Any]) -> str:
    """What has happened, in a few words."""
    event, states = facts["event"], facts.get("states")
    job = f"{'array' if states or event == 'held' else 'job'} {facts['job']} ({facts['name']})"
    if event in _WARNED:
        return f"{job} {_WARNED[event]}"
    if states:
        return f"{job} has ended: {_counts(states)}"
    return f"{job} {facts['state']}{'; its array goes on' if event == 'fail' else ''}"


def _counts(states: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {state}" for state, count in states.items())


def _date(wall_s: float | None) -> str | None:
    if wall_s is None or not 0 <= wall_s < 2**37:
        return None
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(wall_s))


def _span(seconds: float | None) -> str | None:
    return None if seconds is None else show_seconds(seconds)

"""Sends the notices that wait in the store.

Theory of operation. The loop's thread calls `work` in each round. It starts a thread for each
notice to send, at most `AT_ONCE` and one of each user, so a target that hangs delays only its
user's notices. The thread starts a process (`start_notice.py`), waits for its end within
limits, and puts the result into a queue. The next `work` writes it to the store. Nothing here is
part of a decision, so nothing here delays a job.

A notice that fails is tried again after each of `PAUSES_S`, then given up. The pauses are not
stored: the next daemon tries at once. What was sent when the daemon is killed is sent again.
"""

from __future__ import annotations

import json
import logging
import os
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from radrm.errors import StoreError, plain
from radrm.host.notices import start_notice
from radrm.host.notices.message import message_of
from radrm.host.notices.start_notice import LIMIT_S, Wanted
from radrm.host.processes.errand import GRACE_S as _GRACE_S
from radrm.host.processes.errand import Errand, remove_left_groups
from radrm.host.storage.notices.book import Notice, Notices

log = logging.getLogger("radrm")

AT_ONCE = 8
"""Notices that are sent at the same time."""
PAUSES_S = (10.0, 60.0, 300.0)
"""Real seconds before each further try."""
_AFTER_ERROR_S = 5.0
"""Real seconds after which a store that could not be written is tried again."""
_LAST_WAIT_S = 2.0
"""Real seconds for which the daemon's end waits for notices on their way."""
_MOST_OUTPUT = 1 << 16
_GROUP = "radrm-notice-"
_PROXIES = ("http_proxy", "https_proxy", "no_proxy", "HTTPS_PROXY", "NO_PROXY")


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one try. `error` None: sent. `final`: another try would fail, too."""

    error: str | None = None
    final: bool = False


@dataclass(frozen=True, slots=True)
class Sender:
    """How this daemon sends. `extra`: variables for users' programs; `drop`: become the user."""

    notices: Notices
    """Has the settings of the site."""
    host: str
    drop: bool
    extra: Mapping[str, str]

    def __call__(self, notice: Notice) -> Result:
        """Send one notice, in a process. Takes at most `LIMIT_S` and a few seconds."""
        try:
            errand = Errand(
                start_notice.__file__,
                self.wanted(notice).as_dict(),
                _GROUP,
                LIMIT_S,
                _MOST_OUTPUT,
                _GRACE_S,
                environment=self._proxies(notice),
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
        message = message_of(notice.facts, self.host)
        facts, config = notice.facts, self.notices.site
        variables = {
            "RADRM_EVENT": notice.kind,
            "RADRM_SUBJECT": message.subject,
            "RADRM_JOB_ID": facts.get("job"),
            "RADRM_JOB_NAME": facts.get("name"),
            "RADRM_JOB_STATE": facts.get("state"),
            "RADRM_EXIT_CODE": facts.get("exit_code"),
            "RADRM_REASON": facts.get("reason"),
            "RADRM_NOTICE": json.dumps(message.document),
        }
        return Wanted(
            kind=notice.target.kind,
            address=notice.target.address,
            subject=message.subject,
            text=message.text,
            chat=message.for_chat,
            user=str(facts.get("user")),
            uid=notice.uid if self.drop else None,
            gid=notice.gid if self.drop else None,
            sendmail=config.sendmail,
            mail_from=config.mail_from,
            mail_domain=config.mail_domain,
            environment={
                **self.extra,
                **{
                    name: value if name == "RADRM_NOTICE" else plain(str(value))
                    for name, value in variables.items()
                    if value is not None
                },
            },
        )

    def _proxies(self, notice: Notice) -> dict[str, str]:
        """Return the daemon's proxies, for a request."""
        found = _PROXIES if notice.target.kind == "webhook" else ()
        return {name: os.environ[name] for name in found if name in os.environ}


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
        self._results: queue.SimpleQueue[tuple[Notice, Result]] = queue.SimpleQueue()
        self._running: dict[int, Notice] = {}
        self._unsaved: list[tuple[Notice, Result]] = []
        self._paused: dict[int, float] = {}
        """When a notice that failed is tried again, by its id."""
        self._store_due_s = 0.0

    @property
    def due_in_s(self) -> float:
        """Real seconds until `work` has something to do; a result wakes the loop by itself."""
        due = [self._store_due_s] if self._unsaved else list(self._paused.values())
        return max(0.0, min(due) - self._tick()) if due else float("inf")

    def begin(self) -> None:
        """Remove what a killed daemon has left."""
        remove_left_groups(_GROUP)

    def work(self) -> None:
        """Save what has been sent, and start what is due. Never waits, never raises."""
        while not self._results.empty():
            self._unsaved.append(self._results.get())
        now_s = self._tick()
        over = any(due <= now_s for due in self._paused.values())
        if not (self._unsaved or over or self._notices.new) or now_s < self._store_due_s:
            return
        try:
            freed = bool(self._unsaved)
            self._save()
            if freed or over or self._notices.new:
                self._notices.new = False
                self._start(now_s)
        except (StoreError, sqlite3.Error) as error:
            log.error("notices wait: %s", error)
            self._store_due_s = now_s + _AFTER_ERROR_S
            self._notices.new = True

    def _save(self) -> None:
        while self._unsaved:
            notice, result = self._unsaved[0]
            where = f"{notice.target.place} of job {notice.facts.get('job')} ({notice.kind})"
            if result.error is None:
                self._notices.sent(notice)
                log.info("notice to %s: sent", where)
            else:
                tries = notice.tries + 1
                given_up = result.final or tries > len(PAUSES_S)
                self._notices.failed(notice, result.error, given_up)
                if given_up:
                    count = "1 try" if tries == 1 else f"{tries} tries"
                    log.warning("notice to %s: given up after %s: %s", where, count, result.error)
                else:
                    self._paused[notice.id] = self._tick() + PAUSES_S[tries - 1]
            self._running.pop(notice.id, None)
            self._unsaved.pop(0)

    def _start(self, now_s: float) -> None:
        free = AT_ONCE - len(self._running)
        busy = {notice.uid for notice in self._running.values()}

        def skip(notice_id: int, uid: int) -> bool:
            paused = self._paused.get(notice_id, 0.0) > now_s
            return paused or uid in busy or notice_id in self._running

        for notice in self._notices.waiting(skip, free) if free > 0 else ():
            self._paused.pop(notice.id, None)
            self._running[notice.id] = notice
            threading.Thread(target=self._deliver, args=(notice,), daemon=True).start()
        for notice_id in [i for i, due in self._paused.items() if due <= now_s]:
            # It waits for its user's other notice, whose end starts it.
            del self._paused[notice_id]

    def _deliver(self, notice: Notice) -> None:
        """In a thread of its own."""
        try:
            result = self._send(notice)
        except Exception as error:  # a defect must not leave the notice on its way for ever
            log.exception("notice %d cannot be sent, by a defect of radrm", notice.id)
            result = Result(f"radrm failed: {type(error).__name__}", final=True)
        self._results.put((notice, result))
        self._wake()

    def close(self) -> None:
        """Wait a moment for notices on their way, and save what became of them."""
        until = self._tick() + _LAST_WAIT_S
        while len(self._unsaved) < len(self._running) and self._tick() < until:
            try:
                self._unsaved.append(self._results.get(timeout=max(0.01, until - self._tick())))
            except queue.Empty:
                break
        try:
            self._save()
        except (StoreError, sqlite3.Error) as error:
            log.error("notices may be sent again: %s", error)


def _checked(output: bytes) -> Result | None:
    """Return the answer in the output, in plain words; None if there is none."""
    try:
        said = json.loads(output[:_MOST_OUTPUT])
    except (ValueError, RecursionError):
        return None
    if not isinstance(said, dict):
        return None
    error = said.get("error")
    if error is not None and not isinstance(error, str):
        return None
    return Result(None if error is None else plain(error)[:300], said.get("final") is True)

"""The pilot: it claims jobs for its daemon, watches them, and gives back what has not started.

Theory of operation. Slurm ends the pilot at a known time. A daemon of its own, on the GPUs that
Slurm has given, starts only jobs whose time limit ends before (`gpus.until`); so at the end no job
runs, but those of a pilot that is cancelled. State and store lie on the node's disk, the shared
folder has the envelopes.

    each turn (1 s): ask the daemon for its jobs, and note them on the shared disk
        forget the envelopes of jobs that have ended
        take back jobs that can no more end in time: nothing can start them here
        claim others, as long as few wait here
    at the end, or after a TERM: the daemon starts again with `gpus.until` in the past, so that
        nothing more starts while it says what has; all else goes back

If the pilot is killed, with its node, the next one reads its last note and gives back what had not
started then. A job that started in the last second before may so run again, elsewhere.
"""

from __future__ import annotations

import contextlib
import copy
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

from radrm.client.submitting import needs_of
from radrm.client.text import FINAL, LIVE
from radrm.core.units import show_seconds
from radrm.errors import RadrmError, Refused, Unreachable, plain
from radrm.host.storage.spool import Envelope
from radrm.host.storage.submission import job_file_in
from radrm.host.wall import wall_s
from radrm.slurm.pilot.server import Server
from radrm.slurm.pilot.shared import (
    MOST_KEPT,
    Row,
    Shared,
    may_run_again,
    rest_of,
    take_over,
)

VERSION = 1
_TURN_S = 1.0
_TAKE_OVER_S = 60.0
_STARTS = 5
"""How often the daemon is started again."""
_WAITING_HERE = 8
"""So many jobs may wait here, and two for each GPU: others wait for any pilot."""
_LAST_S = 20.0
"""How long jobs have to end after a TERM; Slurm's KillWait is 30 s."""
_POLL_S = 0.1
_KEYS = ("id", "label", "name", "state", "attempts", "started_at", "ended_at", "exit_code")


def row_of(document: dict[str, Any]) -> Row:
    """Return what is noted of a job."""
    row = {key: document[key] for key in _KEYS}
    return {**row, "index": document.get("array_index"), "reason": document["reason"]}


class Pilot:
    """The pilot in Slurm job `job_id` on `node`, whose daemon is `server`.

    `until_s`: when it ends; None: only when it is idle, or told to. `idle_s`: how long it stays
    without a job; None: to its end. `others` returns the numbers of this user's Slurm jobs that
    have not ended; it raises `RadrmError` if Slurm does not answer.
    """

    def __init__(
        self,
        shared: Shared,
        job_id: str,
        node: str,
        server: Server,
        until_s: float | None,
        idle_s: float | None,
        others: Callable[[], set[str]],
    ) -> None:
        self._shared = shared
        self._id = job_id
        self._node = node
        self._server = server
        self._until_s = until_s
        self._idle_s = idle_s
        self._others = others
        self._told = threading.Event()
        self._gpus = 0
        self._rows: dict[str, list[Row]] = {}
        """What the daemon has last said of each ticket."""
        self._limits: dict[int, float | None] = {}
        self._handed: set[str] = set()
        """The tickets that the daemon has got."""
        self._taken_back: set[int] = set()
        """Jobs that were cancelled here because they go back."""
        self._left: dict[str, str] = {}
        """Why tickets are left to other pilots."""
        self._busy_s = time.monotonic()
        self._took_over_s = float("-inf")
        self._began = wall_s()
        self._written: dict[str, Any] = {}

    # ------------------------------------------------------------- its life

    def run(self) -> int:
        """Serve until the end. Returns the exit code. Raises `RadrmError` if it cannot begin."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self._told.set())
        self._shared.make_pilot(self._id)
        take_over(self._shared, [self._id], rest_of)  # of an older Slurm, with the same number
        try:
            self._server.start(self._until_s)
        except RadrmError:
            self._server.remove()
            raise
        try:
            self._gpus = len(self._server.ask("gpus"))
            say(f"serves {self._gpus} GPU(s) {self._how_long()}")
            why = self._serve()
            say(why)
        finally:
            self._finish()
        return 0

    def _how_long(self) -> str:
        if self._until_s is None:
            return "until it is cancelled"
        return f"for {show_seconds(max(0.0, self._until_s - wall_s()))}"

    def _serve(self) -> str:
        """Serve; return why it ends."""
        starts, self._busy_s = 0, time.monotonic()
        while not self._told.is_set():
            try:
                self.turn()
            except Unreachable:
                if not self._server.alive and not self._told.wait(_TURN_S):
                    starts += 1
                    if starts > _STARTS:
                        return f"its daemon has ended {starts} times"
                    say("its daemon has ended; it is started again")
                    self._server.start(self._until_s)
            except RadrmError as error:
                say(str(error))
            except OSError as error:
                say(f"the shared folder {self._shared.root}: {error.strerror}")
            if self._until_s is not None and wall_s() >= self._until_s and not self._live():
                return "its time is over"
            if self._idle_s is not None and self.is_idle:
                return f"it had no job for {show_seconds(self._idle_s)}"
            self._told.wait(_TURN_S)
        return "it was told to end"

    @property
    def is_idle(self) -> bool:
        """True once it has had no job for as long as it stays without one."""
        with contextlib.suppress(OSError):
            if self._shared.claimed(self._id):  # also in a turn that has taken long
                self._busy_s = time.monotonic()
                return False
        return self._idle_s is not None and time.monotonic() - self._busy_s >= self._idle_s

    def turn(self) -> None:
        """Do what is to be done once. Raises `RadrmError` and `OSError`."""
        self._look()
        self._cancel_asked()
        self._settle(wall_s())
        self._take_over()
        self._claim(wall_s())
        self._hand_over()
        self._note(None)

    # ------------------------------------------------------------- one turn

    def _look(self) -> None:
        """Ask the daemon for the jobs of all tickets that it has and that have not ended."""
        for ticket in self._shared.claimed(self._id):
            try:
                documents = self._server.jobs(ticket)
            except Refused:
                continue  # it has not taken it in yet
            self._rows[ticket] = [self._row(document) for document in documents]

    def _row(self, document: dict[str, Any]) -> Row:
        self._limits[document["id"]] = document.get("time_limit_s")
        row = row_of(document)
        if document["id"] in self._taken_back:
            row |= {"state": "PENDING", "attempts": 0}
        return row

    def _live(self) -> list[Row]:
        """The jobs that run now."""
        return [row for rows in self._rows.values() for row in rows if row["state"] in LIVE]

    def _cancel_asked(self) -> None:
        """Cancel what the user has asked for, on any machine."""
        claimed = self._shared.claimed(self._id)
        for ticket in self._shared.asked_cancels(self._id):
            rows = self._rows.get(ticket, [])
            if not rows and ticket in claimed:
                continue  # the daemon has not taken it in yet
            ids = [str(row["id"]) for row in rows if row["state"] not in FINAL]
            if ids and ticket in claimed:
                self._server.ask("cancel", jobs=ids)
                self._taken_back -= {row["id"] for row in rows}
            self._shared.cancelled(ticket, self._id)

    def _settle(self, now_s: float) -> None:
        """Forget what has ended, and give back what can no more end in time."""
        for ticket in self._shared.claimed(self._id):
            rows = self._rows.get(ticket)
            if not rows:
                continue
            late = [row for row in rows if self._is_late(row, now_s)]
            if late:
                self._server.ask("cancel", jobs=[str(row["id"]) for row in late])
                self._taken_back |= {row["id"] for row in late}
                for row in late:  # it may have run, but it does not run now
                    row |= {"state": "PENDING", "attempts": 0}
            waits = [row for row in rows if row["state"] not in FINAL]
            if not waits:
                self._shared.forget(ticket, self._id)
            elif all(row["id"] in self._taken_back for row in waits):
                self._give_back(ticket, rows)

    def _is_late(self, row: Row, now_s: float) -> bool:
        """Return whether a job waits here for nothing: it cannot end in time."""
        if self._until_s is None or row["id"] in self._taken_back:
            return False
        if row["state"] in FINAL or row["state"] in LIVE:
            return False
        limit_s = self._limits.get(row["id"])
        return limit_s is None or now_s + limit_s > self._until_s

    def _give_back(self, ticket: str, rows: list[Row]) -> None:
        envelope = self._shared.read(ticket, self._id)
        if envelope is None:
            return
        rest, _ = rest_of(envelope, rows)
        self._shared.give_back(ticket, self._id, rest)
        self._left[ticket] = "it could not end in the time of this pilot"
        del self._rows[ticket]
        say(f"{ticket} goes back: it could not end in time")

    def _claim(self, now_s: float) -> None:
        """Claim jobs, as long as few wait here."""
        claimed = self._shared.claimed(self._id)
        rows = (row for ticket in claimed for row in self._rows.get(ticket, [{"state": ""}]))
        waits = sum(row["state"] not in FINAL and row["state"] not in LIVE for row in rows)
        for ticket in self._shared.waiting():
            if waits >= _WAITING_HERE + 2 * self._gpus:
                break
            if ticket in self._left:
                continue
            envelope = self._shared.read(ticket)
            if envelope is None:
                continue
            why, elements = self._why_not(envelope, now_s)
            if why is not None:
                self._left[ticket] = why
            elif self._shared.claim(ticket, self._id):
                waits += elements
        for ticket in list(self._left)[:-MOST_KEPT]:
            if ticket not in self._handed:  # what the daemon knows never comes back here
                del self._left[ticket]

    def _why_not(self, envelope: Envelope, now_s: float) -> tuple[str | None, int]:
        """Return why a job is not for this pilot, None if it is, and its elements."""
        try:
            job_file = job_file_in(envelope)
            options = job_file.options
            if options.time_s is None:
                return "it has no time limit; cancel it, and submit it with --time", 0
            if self._until_s is not None and now_s + options.time_s > self._until_s:
                limit, left = options.time_s, max(0.0, self._until_s - now_s)
                has = show_seconds(left)
                return f"its time limit is {show_seconds(limit)}, and the pilot has {has} left", 0
            ((why, _),) = self._server.ask("check", needs=[needs_of(job_file)], environment=0)
        except Unreachable:
            raise
        except RadrmError as error:
            return str(error), 0
        return why, 1 if options.array is None else len(options.array.indices)

    def _hand_over(self) -> None:
        """Give the daemon what was claimed."""
        for ticket in self._shared.claimed(self._id):
            envelope = None if ticket in self._handed else self._shared.read(ticket, self._id)
            if envelope is not None:
                self._server.put(envelope)
                self._handed.add(ticket)

    def _take_over(self) -> None:
        """Give back what pilots that have ended still claim."""
        if time.monotonic() - self._took_over_s < _TAKE_OVER_S:
            return
        self._took_over_s = time.monotonic()
        others = [pilot for pilot in self._shared.pilots() if pilot != self._id]
        if not others:
            return
        try:
            living = self._others()
        except RadrmError as error:
            say(f"whether other pilots have ended is unknown: {error}")
            return
        gone = [pilot for pilot in others if pilot not in living]
        for ticket in take_over(self._shared, gone, rest_of):
            say(f"{ticket} was claimed by a pilot that has ended; it waits again")
        for pilot in gone:
            self._shared.tidy(pilot)

    def _note(self, ended: float | None) -> None:
        """Write what is known to the shared folder, if it has changed."""
        claimed = set(self._shared.claimed(self._id))
        for ticket in [t for t in self._rows if t not in claimed][:-MOST_KEPT]:
            del self._rows[ticket]
        state = {
            "version": VERSION,
            "node": self._node,
            "home": self._server.home,
            "gpus": self._gpus,
            "began": self._began,
            "until": self._until_s,
            "ended": ended,
            "jobs": self._rows,
            "left": dict(list(self._left.items())[-MOST_KEPT:]),
        }
        if state != self._written:
            self._shared.write_state(self._id, state)
            self._written = copy.deepcopy(state)

    # ------------------------------------------------------------- the end

    def _finish(self) -> None:
        """Learn what has started, give back all else, and end the daemon."""
        ran = {row["id"] for row in self._live()}
        self._server.stop()
        try:
            self._server.start(wall_s() - 1.0)  # so it starts nothing
            self._end_running(ran)
        except RadrmError as error:
            say(f"the last state of its jobs is unknown: {error}")
        self._server.stop()
        try:
            for ticket in take_over(self._shared, [self._id], self._rest):
                say(f"{ticket} waits for another pilot")
            self._note(wall_s())
        except OSError as error:
            say(f"the shared folder {self._shared.root}: {error.strerror}")
        self._server.remove()

    def _rest(self, envelope: Envelope, _: list[Row]) -> tuple[Envelope | None, bool]:
        return rest_of(envelope, self._rows.get(envelope.ticket, []))

    def _end_running(self, ran: set[int]) -> None:
        """Have the jobs that run end. Those that may run again count as waiting.

        `ran`: those that ran before; Slurm has ended them at the same time as it told the pilot.
        """
        self._look()
        live = self._live()
        if live:
            self._server.ask("cancel", jobs=[str(row["id"]) for row in live])
        last_s = time.monotonic() + _LAST_S
        while self._live() and time.monotonic() < last_s:
            time.sleep(_POLL_S)
            self._look()
        ran |= {row["id"] for row in live}
        for ticket in self._shared.claimed(self._id):
            envelope = self._shared.read(ticket, self._id)
            if envelope is not None and may_run_again(envelope):
                for row in self._rows.get(ticket, []):
                    if row["id"] in ran and row["state"] != "COMPLETED":
                        row["state"] = "PENDING"


def say(text: str) -> None:
    """Print a line to the pilot's log."""
    print(plain(f"radrm pilot: {text}"), flush=True)

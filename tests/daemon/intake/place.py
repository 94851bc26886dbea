"""A spool, a store and a scheduler, as the daemon's loop has them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from radrm.config import NO_LIMITS, UserLimits, spool_room
from radrm.core import events as ev
from radrm.core.decision import Decision
from radrm.core.records import Job
from radrm.daemon.intake.estimation import NOTHING_KNOWN, Knowledge
from radrm.daemon.intake.scan import Scan
from radrm.host.clock import Clock
from radrm.host.storage.arrivals import Arrivals
from radrm.host.storage.spool import Arrival, Envelope, Spool
from radrm.host.storage.store import Store
from radrm.host.storage.submitted import Submission
from radrm.host.storage.tickets import new_ticket
from radrm.jobfile.radfile import JobFile
from tests.host.storage.envelopes import envelope
from tests.world import World, gpus


class Nothing:
    """Estimators that know nothing, or cannot be asked."""

    error: Exception | None = None

    def __init__(self) -> None:
        self.asked: list[JobFile] = []
        """The job files that were asked about."""

    def known_at_once(self, job_file: JobFile, envelope: Envelope, uid: int) -> Knowledge:
        self.asked.append(job_file)
        if self.error is not None:
            raise self.error
        return NOTHING_KNOWN


class Place:
    """A spool, a store and a scheduler, as the loop has them. It is the `Taker`, too."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "spool").mkdir()
        self.spool = Spool(str(folder / "spool"))
        self.world = World(gpus(1))
        self.world.obey = False
        # The clock here is the server's and the readings' is not: by chance one would be recent.
        self.world.step(
            ev.DrainRequested(at=self.world.now, device="GPU-0", reason="no job starts here")
        )
        self.scheduler = self.world.scheduler
        self.store = Store(str(folder / "radrm.sqlite"))
        self.clock = Clock()
        self.broken = False
        self.saves = 0
        self.full = False
        self._unsaved: list[tuple[list[Decision], list[Submission]]] = []
        self.now_s = 0.0
        self.arrivals = Arrivals(self.spool.path, str(folder / "refused"))
        self.known = Nothing()
        self.scan = Scan(self, self.arrivals, self.known, tick=lambda: self.now_s)

    def limit(self, **limits: Any) -> None:
        """Begin anew with limits of every user."""
        users = UserLimits(replace(NO_LIMITS, **limits))
        refused = str(self.folder / "refused")
        self.arrivals = Arrivals(self.spool.path, refused, room=spool_room(users))
        self.scan = Scan(self, self.arrivals, self.known, lambda: self.now_s, users)

    @property
    def unsaved(self) -> bool:
        return bool(self._unsaved)

    def process(self, events: Iterable[ev.Event], submissions: Iterable[Submission] = ()) -> None:
        decisions = [self.scheduler.step(event) for event in events]
        self.saves += bool(decisions)
        if decisions:
            self._unsaved.append((decisions, list(submissions)))
        self.flush()

    def flush(self) -> None:
        while self._unsaved and not self.full:
            self.store.save(*self._unsaved.pop(0))

    def put(self, **changes: Any) -> Envelope:
        mine = envelope(**{"script": None, "command": ("true",), "options": {}, **changes})
        self.spool.put([mine])
        self.scan.notice([f"{mine.ticket}.job"])
        return mine

    def put_raw(self, document: object) -> str:
        ticket = new_ticket()
        if isinstance(document, dict):
            document = {**document, "ticket": ticket}
        path = self.folder / "spool" / f"{ticket}.job"
        path.write_text(json.dumps(document))
        path.chmod(0o600)
        self.scan.notice([path.name])
        return ticket

    def made(self, ticket: str) -> list[Job]:
        """The jobs that were made of a submission."""
        found = [self.store.job(job_id) for job_id in self.store.of_ticket(ticket)]
        return [job for job in found if job is not None]

    def owned_by(self, monkeypatch: pytest.MonkeyPatch, owners: dict[str, int]) -> None:
        """Have these tickets be other users' than the one who runs the test."""
        add, read = self.arrivals.turns.add, self.arrivals.read

        def of(name: str, uid: int) -> int:
            return owners.get(name.removesuffix(".job"), uid)

        def read_as(name: str) -> Arrival | None:
            found = read(name)
            if found is None:
                return None
            return Arrival(**{**found.as_dict(), "uid": of(name, found.uid)})

        monkeypatch.setattr(self.arrivals.turns, "add", lambda name, uid: add(name, of(name, uid)))
        monkeypatch.setattr(self.arrivals, "read", read_as)

    def state(self, ticket: str) -> str | None:
        jobs = self.made(ticket)
        return jobs[0].state.value if jobs else None

    def waiting(self) -> list[str]:
        return sorted(os.listdir(self.spool.path))

    def refused(self) -> int:
        folder = self.folder / "refused"
        return len(os.listdir(folder)) if folder.exists() else 0


def raising(error: Exception) -> Any:
    def failing(*_: object, **__: object) -> None:
        raise error

    return failing

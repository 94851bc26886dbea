"""Who runs the attempts of a job: this host's launcher, or a step inside another manager's job.

A job that was submitted from inside the job of another resource manager (its record has an `outer`
job) runs there, in a process that the daemon did not start: the daemon says what to run, and
watches that process. `OuterSteps` is all that the daemon asks of the wing that knows that manager;
its own answers stand where none is installed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from radrm import wings
from radrm.config import Config
from radrm.core import events as ev
from radrm.core.records import Instant, Job, OuterJob
from radrm.core.scheduler import Scheduler
from radrm.daemon.serving.server import Request
from radrm.errors import Refused
from radrm.host.attempts.launcher import Launcher
from radrm.host.clock import Clock
from radrm.host.storage.spool import Envelope
from radrm.host.storage.store import Store


class Serves(Protocol):
    """What such a step's requests need of the loop."""

    clock: Clock
    scheduler: Scheduler
    store: Store
    launcher: Launcher

    def scan(self, names: Iterable[str] = (), first: int | None = None) -> None: ...

    def process(self, events: Iterable[ev.Event]) -> None: ...


class OuterSteps:
    """Used by the loop's thread. This one knows no manager: no job comes from another."""

    def outer_of(self, envelope: Envelope, uid: int) -> OuterJob | None:
        """Return the outer job of an envelope of user `uid`; None: it has none.

        Raises `Refused`, and OSError while nobody has vouched for its step.
        """
        if envelope.outer is not None:
            raise _none()
        return None

    def is_repeated(self, outer: OuterJob, ticket: str) -> bool:
        """Return whether the outer job of a new envelope, which is believed, has a job already."""
        return False

    def note(self, job: Job) -> None:
        """Watch the step of an unfinished job, and wake that of one that has ended."""
        return

    def restore(self, jobs: Iterable[Job]) -> None:
        """Note the unfinished jobs of an earlier daemon."""
        for job in jobs:
            self.note(job)

    def fds(self) -> list[int]:
        """Return descriptors that can be read when a step ends."""
        return []

    def events(self, now: Instant) -> list[ev.Event]:
        """Return the ends of steps since the last call."""
        return []

    def answer(self, loop: Serves, request: Request) -> dict[str, Any]:
        """Return what a step that asks is to do. Raises `RadrmError`."""
        raise _none()


def _none() -> Refused:
    return Refused("this radrm has no part for Slurm, and takes no jobs from it; install all of it")


def make_steps(config: Config, store: Store) -> OuterSteps:
    """Return what follows the steps of Slurm jobs on this server."""
    made = wings.runner("slurm")
    return OuterSteps() if made is None else made(config.slurm, store)

"""Commands of users that come while jobs run and daemons are killed."""

from __future__ import annotations

import contextlib
import random
from typing import Any

from proofs.crash.jobs import Submitted
from proofs.crash.place import Place
from radrm.errors import RadrmError, Unreachable


class Requests:
    """Draws and sends commands; notes what was asked for, and what was acknowledged."""

    def __init__(self, place: Place, chance: random.Random) -> None:
        self._place = place
        self._chance = chance

    def send(self, jobs: list[Submitted]) -> None:
        """Send a command about one of these jobs, one that can mean something to it."""
        if not jobs:
            return
        job = self._chance.choice(jobs)
        with contextlib.suppress(Unreachable):
            self._command(job)

    def _command(self, job: Submitted) -> None:
        chance, name = self._chance, job.name
        if job.kind in ("saves", "restart", "elastic", "spoiled") and chance.random() < 0.9:
            if job.kind != "saves" and chance.random() < 0.7:
                self._ask("resize", name, gpus=chance.choice((1, 2, 3, 4)))
            else:
                self._ask(chance.choice(("checkpoint", "migrate")), name)
        elif job.kind == "held":
            self._ask("release", name)
        elif job.endless or chance.random() < 0.05:
            self.cancel(job)
        elif chance.random() < 0.05:
            job.again = True
            changed = {"options": {"priority": "4"}} if chance.random() < 0.5 else {}
            self._ask("requeue", name, **changed)
        elif chance.random() < 0.3:
            self._ask("edit", name, options={"priority": "5"})
        elif chance.random() < 0.5:
            self._ask("status", name)
        else:
            command = chance.choice(("drain", "resume", "resume"))
            self._sent(command, devices=["0"])

    def cancel(self, job: Submitted) -> None:
        """Cancel a job. Raises `Unreachable` where the daemon is killed before it can tell."""
        job.asked = True
        for result in self._ask("cancel", job.name) or ():
            if result["error"] is None:
                job.cancelled.add(result["id"])
                self._place.tell(f"cancel {job.ticket} {result['id']}")

    def _ask(self, op: str, name: str, **words: Any) -> Any:
        return self._sent(op, jobs=[name], **words)

    def _sent(self, op: str, **words: Any) -> Any:
        """The answer; None for a refusal: the job may have ended, or may not have been taken in."""
        try:
            return self._place.ask(op, **words)
        except Unreachable:
            raise
        except RadrmError:
            return None

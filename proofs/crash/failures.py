"""Power failures: what a new daemon makes of the home as it was at one moment.

Theory of operation. Jobs and commands come as in the matrix, and a shot does not kill: it copies
the home at its point, as `synced` says. Afterwards each copy is put where the home was, the boot
has another name, and a daemon starts from it. Every job that was acknowledged before the copy must
be there, and come to its one true end. Attempts that lived, or were about to begin, are lost.
"""

from __future__ import annotations

import copy
import os
import shutil

from proofs.crash import KILLED
from proofs.crash.account import Account, account_of
from proofs.crash.jobs import Submitted
from proofs.crash.matrix import Matrix, Tally
from proofs.crash.place import Failed, Place
from proofs.crash.synced import COPIES, TOLD
from proofs.crash.watcher import ERRORS, POWER, append
from proofs.server import stored
from tests.waiting import wait_until

MODELS = ("all", "synced")


class PowerFailures:
    """One home, copied at a number of moments; then what comes of each copy."""

    def __init__(
        self, seed: int, before: Tally, keep: bool = False, defect: str | None = None
    ) -> None:
        self.matrix = Matrix(seed, before, keep, True, defect)
        self.tally, self.place = self.matrix.tally, self.matrix.place

    def run(self, cuts: int) -> Account:
        """Cut the power so often, and account for each copy. Raises `Failed`."""
        matrix, place, account = self.matrix, self.matrix.place, Account()
        failed = True
        try:
            matrix.tour()
            while self.tally.cuts.total() < cuts:
                self._cut()
            place.reboot(keeps_run=False)
            jobs = matrix.jobs.all
            for number in sorted(os.listdir(f"{place.folder}/{COPIES}"), key=int):
                for model in MODELS:
                    account.add(self._replay(f"{place.folder}/{COPIES}/{number}", model, jobs))
            self.tally.wrong = account.wrong
            failed = bool(account.counts.total())
            return account
        finally:
            matrix.finish(failed)

    def _cut(self) -> None:
        """Have the home copied at a fault point."""
        matrix, place = self.matrix, self.matrix.place
        point = matrix.point()
        matrix.lead_to(point)
        place.aim(point, 1, [POWER])
        if place.pid == 0:
            place.start()
        matrix.busy_until_fired(point)
        if not place.withdraw():
            self.tally.cuts[point] += 1
            copies = f"{place.folder}/{COPIES}/{self.tally.cuts.total() - 1}"
            wait_until(lambda: os.path.exists(copies) or place.lines(ERRORS), "the copy")
            if place.lines(ERRORS):
                raise Failed(f"the home cannot be copied: {place.lines(ERRORS)}")
        else:
            self.tally.misses[point] += 1
        if point.startswith("daemon:") and matrix.chance.random() < 0.3:
            place.kill()  # so that adoptions are among the moments

    def _replay(self, source: str, model: str, jobs: list[Submitted]) -> Account:
        """Start a daemon from a copy, let its jobs end, and account for them."""
        matrix, place = self.matrix, self.matrix.place
        _put_back(place, source, model)
        told = _told(place)
        known = copy.deepcopy(jobs)
        for job in known:
            job.acknowledged = job.ticket in told
            job.cancelled = told.get(job.ticket, set())
        attempts = stored(place.paths.database).attempts.values()
        live = (each for made in attempts for each in made if each.get("ended") is None)
        for serial in {*os.listdir(place.paths.attempts), *(str(each["serial"]) for each in live)}:
            append(place.folder, KILLED, f"runners {serial}")
        place.start()
        matrix.jobs.all = known
        matrix.drain()
        account = account_of(place, known)
        for lines in account.wrong.values():
            lines[:] = [f"{source}/{model}: {line}" for line in lines]
        place.reboot(keeps_run=False)
        return account


def _put_back(place: Place, source: str, model: str) -> None:
    """Put a copy where the home was, with the notes of its jobs and clients."""
    home = place.paths.state
    os.chdir("/")
    shutil.rmtree(home)
    shutil.copytree(f"{source}/{model}", home, symlinks=True)
    shutil.rmtree(place.work)
    shutil.copytree(f"{source}/work", place.work, symlinks=True)
    os.chdir(place.work)
    for name in (KILLED, TOLD):
        path = f"{place.folder}/{name}"
        if os.path.exists(path):
            os.unlink(path)
        if os.path.exists(f"{source}/{name}"):
            shutil.copy(f"{source}/{name}", path)


def _told(place: Place) -> dict[str, set[int]]:
    """What clients were told: the ids that were cancelled, by the ticket of acknowledged jobs."""
    found: dict[str, set[int]] = {}
    for kind, ticket, *ids in map(str.split, place.lines(TOLD)):
        cancelled = found.setdefault(ticket, set())
        if kind == "cancel":
            cancelled.update(map(int, ids))
    return found

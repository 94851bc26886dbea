"""Kill at one fault point after the other, until a home has had enough; then account for it.

Theory of operation. A shot is aimed at the point that was killed at least often, at one of its
first crossings. Jobs and commands keep coming until it has fired. A point that is not crossed in
time is missed, and loses its turn; the daemon is then killed at any moment instead. So all of what
the source names gets its share, and so do the moments between.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from dataclasses import dataclass, field

from proofs.crash import leading
from proofs.crash.account import Account, account_of
from proofs.crash.jobs import KINDS, Jobs, Submitted
from proofs.crash.place import Failed, Place
from proofs.crash.requests import Requests
from proofs.crash.watcher import PAUSE, shoot_attempts
from radrm.errors import RadrmError, Unreachable

ANY_MOMENT = "daemon: any moment"
RUNNERS = "runner: any moment"
REBOOT = "reboot: all processes"
_PAUSES = 0.05
"""How often a process stands still for a moment at a point, instead of being killed."""
_REBOOTS = 0.03
"""How often the server goes down with the daemon."""
_COMMON = (
    "core.grace_s=20",
    "node.cpus=64",
    'node.memory="64G"',
    "progress.interval_s=5",
    "checkpoint.patience_s=100",
    "estimation.probe=false",
)
_VARIANTS = (
    (),
    ("planner=auto+elastic",),
    ("mps.enabled=true",),
    ("planner=auto+flowcon",),
    ("planner=andreas",),
    ("recovery=ladder", "planner=backfill"),
)
"""Settings of homes, in turn."""
_MOST_UNFINISHED = 10
_PAUSE_S = 0.02
"""Real seconds between two submissions."""
_TOUR_S = 10.0
_PATIENCE_S = 3.0
"""Real seconds for which a shot waits for its point."""
_ELASTIC = ("elastic", "spoiled")
_LOOK_S = 0.25
"""Real seconds between two looks at what has ended."""
_DRAIN_S = 120.0
"""Real seconds after the last kill in which all jobs must end."""
_VICTIMS = (
    ((), 12),
    (("runners",), 2),
    (("jobs",), 2),
    (("workers",), 2),
    (("runners", "jobs"), 1),
    (("forker",), 3),
)
"""Whom a shot kills beside the process that crosses the point, and how often."""


@dataclass(slots=True)
class Tally:
    """What one or more homes have been through."""

    kills: Counter[str] = field(default_factory=Counter)
    """How often a process was killed at each point."""
    misses: Counter[str] = field(default_factory=Counter)
    cuts: Counter[str] = field(default_factory=Counter)
    """How often the power failed at each point."""
    reached: set[str] = field(default_factory=set)
    jobs: int = 0
    starts: int = 0
    wrong: dict[str, list[str]] = field(default_factory=dict)

    def add(self, other: Tally) -> None:
        """Add the figures of another one."""
        self.kills += other.kills
        self.misses += other.misses
        self.cuts += other.cuts
        self.reached |= other.reached
        self.jobs += other.jobs
        self.starts += other.starts
        for kind, lines in other.wrong.items():
            self.wrong.setdefault(kind, []).extend(lines)


class Matrix:
    """One home from its first daemon to its account."""

    def __init__(
        self,
        seed: int,
        before: Tally,
        keep: bool = False,
        power: bool = False,
        defect: str | None = None,
    ) -> None:
        self.tally = Tally()
        self._before = before
        self.chance = random.Random(seed)
        self._settings = (*_COMMON, *_VARIANTS[seed % len(_VARIANTS)])
        self.place = Place(self._settings, keep, power, defect)
        os.chdir(self.place.work)
        self.jobs = Jobs(self.chance, self.place.job_environment())
        self._requests = Requests(self.place, self.chance)
        self._unfinished: set[str] = set()
        self._untold: set[str] = set()
        """Jobs that were submitted since the last look at what is unfinished."""
        self._look_at = self._submit_at = 0.0

    def run(self, kills: int) -> Account:
        """Kill so often, let all jobs end, and account for them. Raises `Failed`."""
        failed = True
        try:
            self.tour()
            while self.tally.kills.total() < kills:
                self._shoot()
            self.drain()
            account = account_of(self.place, self.jobs.all)
            self.tally.wrong = account.wrong
            failed = bool(account.counts.total())
            return account
        finally:
            self.finish(failed)

    def finish(self, failed: bool) -> None:
        """Close the home, and complete its figures."""
        self.tally.reached = self.place.reached()
        self.tally.jobs = sum(job.elements for job in self.jobs.all)
        self.tally.starts = self.place.starts
        os.chdir("/")
        self.place.close(failed)

    def tour(self) -> None:
        """Have one job of each kind, and commands about them: so most points become known."""
        self.place.start()
        until = time.monotonic() + _TOUR_S
        while time.monotonic() < until and not self._has_resized():
            self._keep_busy("resize")
        for kind in KINDS:
            self._submit(False, kind)
        until = time.monotonic() + _TOUR_S / 4
        while time.monotonic() < until:
            self._keep_busy("")

    def _has_resized(self) -> bool:
        return any("resize believed" in point for point in self.place.reached())

    # ------------------------------------------------------------- shots

    def _shoot(self) -> None:
        chance, point = self.chance, self.point()
        process = point.partition(":")[0]
        others, weights = zip(*_VICTIMS, strict=True)
        (victims,) = chance.choices(others, weights)
        if process == "runner" and chance.random() < 0.3:
            victims = (*victims, "daemon")
        if chance.random() < (0.7 if leading.races_a_runner(point) else _PAUSES):
            victims = (*victims, PAUSE)
        self.lead_to(point)
        if self._has_killed(point, victims):
            return
        self.tally.misses[point] += 1

    def _has_killed(self, point: str, victims: tuple[str, ...] = ()) -> bool:
        """Aim at a point, have work come, and return whether the shot has killed."""
        rare = leading.job_for(point) is not None or leading.is_at_a_start(point)
        nth = 1 if rare else self.chance.choice((1, 1, 1, 2, 3))
        self.place.aim(point, nth, victims)
        if self.place.pid == 0:
            self.place.start()
        self.busy_until_fired(point)
        if self.place.withdraw():
            return False
        self.tally.kills[point] += victims != (PAUSE,)
        if (point.startswith("daemon") and PAUSE not in victims) or "daemon" in victims:
            self.place.kill()  # it is dying; this reaps it
            self._while_down()
        return True

    def lead_to(self, point: str) -> None:
        """Do what must come before a point can be crossed."""
        if leading.races_a_runner(point):
            self._has_killed("runner: runner has its lock", (PAUSE, "daemon"))
        if leading.needs_cut_launch(point):
            self._has_killed("daemon: attempt prepared")
        if leading.needs_dead_runner(point) and self.place.pid:
            until = time.monotonic() + _PATIENCE_S
            while not shoot_attempts(self.place.folder, "runners") and time.monotonic() < until:
                self._keep_busy(None)
            self.tally.kills[RUNNERS] += 1
        if leading.is_at_a_start(point) and self.place.pid:
            self.place.kill()
            self.tally.kills[ANY_MOMENT] += 1

    def busy_until_fired(self, point: str) -> None:
        """Have jobs and commands come until the shot has fired, or it takes too long."""
        patience_s = _PATIENCE_S * (3 if leading.job_for(point) in _ELASTIC else 1)
        until = time.monotonic() + patience_s
        while not self.place.has_fired() and time.monotonic() < until:
            self._keep_busy(point)
            if self.place.is_down():
                break

    def point(self) -> str:
        """The point that was killed at least often, of those that were ever reached."""
        known = self._before.reached | self.place.reached()
        known = {point for point in known if leading.fits(point, self._settings)}
        if not known:
            return "daemon: records restored"

        def times(point: str) -> float:
            both = self.tally, self._before
            turns = sum(t.kills[point] + 2 * t.misses[point] + t.cuts[point] for t in both)
            return turns + self.chance.random() * 3

        return min(sorted(known), key=times)

    def _while_down(self) -> None:
        """What happens while no daemon runs."""
        if self.chance.random() < _REBOOTS:
            self.place.reboot(keeps_run=self.chance.random() < 0.5)
            self.tally.kills[REBOOT] += 1
        if self.chance.random() < 0.2:
            self._submit(watched=False)
        if self.chance.random() < 0.2:
            time.sleep(self.chance.random() * 0.3)  # some jobs end now

    # ------------------------------------------------------------- load

    def _keep_busy(self, point: str | None) -> None:
        """Submit a job or send a command, if it is time; those that lead to the point first."""
        self._look()
        kind = leading.job_for(point or "")
        wanted = [j for j in self.jobs.all if j.kind == kind and j.name in self._unfinished]
        now_s = time.monotonic()
        if kind is not None and not wanted:
            self._submit(False, kind)
        elif kind in _ELASTIC:
            pass  # other jobs on the GPUs would delay its resizes
        elif len(self._unfinished) < _MOST_UNFINISHED and now_s >= self._submit_at:
            self._submit(bool(point and point.startswith("client")) or self.chance.random() < 0.05)
            self._submit_at = now_s + _PAUSE_S
        if self.chance.random() < 0.15:
            now = [job for job in self.jobs.all if job.name in self._unfinished]
            self._requests.send(wanted or now or self.jobs.all[-3:])
        time.sleep(0.005)

    def _submit(self, watched: bool, kind: str | None = None) -> None:
        job, envelope = self.jobs.of_kind(kind) if kind else self.jobs.make(self._unfinished)
        job.acknowledged = self.place.put(envelope, watched)
        self._unfinished.add(job.name)
        self._untold.add(job.name)

    def _look(self) -> None:
        """Ask now and then which jobs have not ended."""
        if time.monotonic() < self._look_at:
            return
        self._look_at = time.monotonic() + _LOOK_S
        try:
            found = self._unended()
        except Unreachable:
            return
        self._unfinished = found | self._untold
        self._untold.clear()

    def _unended(self) -> set[str]:
        return {document["name"] for document in self.place.ask("status")}

    # ------------------------------------------------------------- the end

    def drain(self) -> None:
        """Let all jobs end, and end those that do not by themselves."""
        if self.place.is_down():
            self.place.start()
        self.place.wait_up()
        until, waiting = time.monotonic() + _DRAIN_S, set()
        self.place.ask("resume", devices=[])
        while True:
            self._nudge()
            waiting = self._unended()
            if not waiting and not any(name.endswith(".job") for name in self._spooled()):
                return
            if time.monotonic() > until:
                found = self.place.ask("status")
                raise Failed(f"{len(found)} jobs do not end: {found[:3]}; {self.place.said()}")
            time.sleep(0.05)

    def _spooled(self) -> list[str]:
        return os.listdir(self.place.paths.spool)

    def _nudge(self) -> None:
        """Release what is held, and cancel what is endless."""
        names = self._unended()
        for job in self.jobs.all:
            if job.name not in names:
                continue
            if job.endless and not job.cancelled:
                self._requests.cancel(job)
            elif job.kind == "held":
                self._try("release", job)

    def _try(self, op: str, job: Submitted) -> None:
        try:
            self.place.ask(op, jobs=[job.name])
        except RadrmError:
            pass

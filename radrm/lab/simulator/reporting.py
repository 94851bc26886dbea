"""radrm's own loop with jobs that report, share CPUs, save their state and go on from it.

Theory of operation
-------------------
Each attempt of a job with `report_s` reports when it begins to compute and every `report_s` seconds
after that: its progress, and the CPU time that it has used. Its loss is exp(-loss_k x work done).

A request to save lets the job stand still for `checkpoint_s`, by default that of the scenario; then
what it has done is saved. A later attempt goes on from there: it needs `restart_s` instead of a
start-up. What was not saved is lost.

Shares apply at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp

from msgspec import Struct, field

from radrm.core import actions as act
from radrm.core import events as ev
from radrm.core.records import LOCAL_NODE, Checkpoint, HostUse, Job, Node, Progress, Share
from radrm.core.words import CheckpointKind
from radrm.interference.model import water_level
from radrm.lab.simulator.courses import Course
from radrm.lab.simulator.loop import ChangingLoop
from radrm.lab.simulator.scenario import Life
from radrm.lab.simulator.scheduling import OwnLoop
from radrm.lab.simulator.traces.job import TraceJob
from radrm.lab.simulator.world import SimulatedAttempt, Stage, World, WorldEvent
from radrm.simulated.integral import Integral
from radrm.simulated.spec import SimulatedDevice
from radrm.structs import replace

# ------------------------------------------------------------------
# A server whose jobs share CPUs by weights and caps, as control groups do.
#
# Theory of operation. A job that can use `cpus` CPUs and runs at the speed that its devices allow
# wants that part of them. While all wishes together fit, each is met. Else CPU time is shared in
# proportion to the weights; no job gets more than it wants or than its cap, and what it leaves goes
# to the others. So no CPU idles while a job without a cap wants it. A job's speed is what it gets
# over what it could use.
#
# One pool serves the whole server, or each device has one (a device stands for a server then).
#
# While a job saves its state it stands still.
#
# Invariants: a job without `cpus` is never slowed here. Each change of a wish, a weight or a cap
# shares its pool anew, and only that.


SERVER = -1
"""The pool of the whole server, and of jobs without devices."""


class CpuUse(Struct):
    """One attempt's CPUs: those that it can use, its weight and cap, and what it has used."""

    wants: float | None
    pool: int
    weight: float = 1.0
    cap: float | None = None
    used: Integral = field(default_factory=Integral)
    """The CPU seconds."""
    allowed: float = 0.0
    """The speed that its devices allow."""
    stops: int = 0
    """The reasons why it stands still now."""

    def wish(self) -> float:
        """Return the CPUs that it would use now."""
        if self.stops or self.wants is None:
            return 0.0
        wish = self.wants * self.allowed
        return wish if self.cap is None else min(wish, self.cap)


class CpuWorld(World):
    """The server with `cpus` CPUs (None: as many as jobs want), or as many for each device."""

    def __init__(
        self,
        devices: Sequence[SimulatedDevice],
        settle_s: float | None,
        cpus: float | None,
        per_device: bool = False,
    ) -> None:
        super().__init__(devices, settle_s)
        self._cpus, self._per_device = cpus, per_device
        self._uses: dict[SimulatedAttempt, CpuUse] = {}
        self._pools: dict[int, dict[SimulatedAttempt, None]] = {}

    def begin(self, attempt: SimulatedAttempt, wants: float | None, begun_s: float) -> None:
        """Take an attempt that was launched now. It goes on after `begun_s` of work."""
        attempt.begun_s = attempt.work.value = begun_s
        pool = attempt.devices[0] if self._per_device and attempt.devices else SERVER
        self._uses[attempt] = CpuUse(wants, pool)
        self._pools.setdefault(pool, {})[attempt] = None

    def set_shares(
        self, attempt: SimulatedAttempt, weight: float | None, cap: float | None
    ) -> None:
        """Give an attempt this weight (None: 1) and this cap in CPUs (None: none)."""
        use = self._uses[attempt]
        use.weight, use.cap = 1.0 if weight is None else weight, cap
        if use.wants is not None:
            self._share(use.pool)

    def stand_still(self, attempt: SimulatedAttempt, still: bool) -> None:
        """Have an attempt stand still, or go on when nothing else holds it up."""
        use = self._uses[attempt]
        use.stops += 1 if still else -1
        if use.wants is None:
            self._go_at(attempt, 0.0 if use.stops else use.allowed)
        else:
            self._share(use.pool)

    def work_done(self, attempt: SimulatedAttempt) -> float:
        """Return the part of all its work (0..1) that an attempt has done by now."""
        return min(1.0, attempt.work.add_up(self.now_s) / attempt.course.work_s)

    def cpu_s(self, attempt: SimulatedAttempt) -> float | None:
        """Return the CPU seconds that an attempt has used by now; None if it counts none."""
        use = self._uses[attempt]
        return None if use.wants is None else use.used.add_up(self.now_s)

    # ------------------------------------------------------------- speeds

    def end(self, attempt: SimulatedAttempt) -> None:
        use = self._uses.pop(attempt)
        del self._pools[use.pool][attempt]
        super().end(attempt)
        if use.wants is not None:
            self._share(use.pool)

    def _set_speed(self, attempt: SimulatedAttempt, speed: float) -> None:
        """Let an attempt run at the speed that its devices allow, as far as it gets CPUs."""
        use = self._uses[attempt]
        use.allowed = speed
        if use.wants is not None:
            self._share(use.pool)
        elif not use.stops:
            self._go_at(attempt, speed)

    def _share(self, pool: int) -> None:
        """Share the CPUs of a pool anew."""
        here = [(a, self._uses[a]) for a in self._pools[pool]]
        wishing = [(a, u) for a, u in here if u.wish() > 0]
        wishes = [use.wish() for _, use in wishing]
        level = None
        if self._cpus is not None and sum(wishes) > self._cpus:
            level = water_level(self._cpus, wishes, [use.weight for _, use in wishing])
        gets = {
            attempt: wish if level is None else min(wish, level * use.weight)
            for (attempt, use), wish in zip(wishing, wishes, strict=True)
        }
        for attempt, use in here:
            if use.wants is not None and attempt.computing:
                self._go_at(attempt, gets.get(attempt, 0.0) / use.wants)

    def _go_at(self, attempt: SimulatedAttempt, speed: float) -> None:
        if speed == attempt.speed:
            return
        super()._go_at(attempt, speed)
        if (use := self._uses.get(attempt)) is not None:
            use.used.go_at((use.wants or 0.0) * speed, self.now_s)
        for at in attempt.devices:
            self._note_activity(at)


_STEPS = 1000.0
"""The steps that a job counts from its beginning to its end."""


class _Report(Struct, frozen=True):
    """An attempt reports now."""

    attempt: SimulatedAttempt


class ReportingLoop(OwnLoop, ChangingLoop[SimulatedAttempt]):
    """The servers of a scenario, with CPUs that jobs share."""

    @property
    def _life(self) -> Life:
        return self._scenario.life

    def _make_world(self, settle_s: float) -> World:
        found = self._scenario
        self._cpu_world = CpuWorld(found.devices, settle_s, found.cpus, found.cpus_per_device)
        return self._cpu_world

    def _begin(self) -> None:
        names = dict.fromkeys([LOCAL_NODE, *(device.node for device in self._devices)])
        cpus = None if self._scenario.cpus_per_device else self._scenario.cpus
        nodes = tuple(Node(name, cpus=cpus) for name in names)
        self._step(ev.NodesSeen(at=self._now, nodes=nodes))
        super()._begin()

    def _job(self, position: int) -> Job:
        job = super()._job(position)
        save_s = self._save_s(job.id)
        if save_s is None:
            return job
        saves = Checkpoint(CheckpointKind.SIGNAL, save_s)
        return replace(job, spec=replace(job.spec, checkpoint=saves))

    def _on(self, happened: object) -> None:
        if isinstance(happened, _Report):
            self._report(happened.attempt)
        else:
            super()._on(happened)

    def _on_world_event(self, happened: WorldEvent) -> None:
        super()._on_world_event(happened)
        if happened.stage is Stage.COMPUTES and not happened.ended:
            self._report(happened.attempt)

    # ------------------------------------------------------------- actions of the core

    def _save_s(self, job_id: int) -> float | None:
        job = self._traced(job_id)
        if not self._can_save(job):
            return None
        return self._life.checkpoint_s if job.checkpoint_s is None else job.checkpoint_s

    def _can_save(self, job: TraceJob) -> bool:
        return job.can_save

    def _stand_still(self, attempt: SimulatedAttempt, still: bool) -> None:
        self._cpu_world.stand_still(attempt, still)

    def _set_shares(self, attempt: SimulatedAttempt, shares: tuple[Share, ...]) -> None:
        share = shares[0]  # all shares of a task have the same, and a job has one task
        self._cpu_world.set_shares(attempt, share.cpu_weight, share.cpus)

    def _course(self, job_id: int) -> Course:
        course = super()._course(job_id)
        return course.continued(self._life.restart_s) if self._saved.get(job_id) else course

    def _launch(self, action: act.Launch) -> None:
        super()._launch(action)
        attempt, wants = self._live[action.job_id], self._wants(self._traced(action.job_id))
        self._cpu_world.begin(attempt, wants, self._saved.get(action.job_id, 0.0))
        self._set_shares(attempt, action.placement.shares)

    def _wants(self, job: TraceJob) -> float | None:
        """Return the CPUs that a job shares with others; None: none."""
        return job.cpus

    def _traced(self, job_id: int) -> TraceJob:
        return self._tasks[job_id - 1].job

    # ------------------------------------------------------------- events of jobs

    def _report(self, attempt: SimulatedAttempt) -> None:
        every_s = self._report_s(self._traced(attempt.job + 1))
        if not every_s:
            return
        uses = ((attempt.job + 1, attempt.serial, self._host_use(attempt)),)
        self._events.append(ev.HostUsed(at=self._now, uses=uses))
        self._tell(ev.ProgressReported, attempt, progress=self._progress(attempt))
        self._world.at(self._world.now_s + every_s, _Report(attempt), attempt)

    def _report_s(self, job: TraceJob) -> float | None:
        return job.report_s

    def _host_use(self, attempt: SimulatedAttempt) -> HostUse:
        return HostUse(at=self._now, cpu_s=self._cpu_world.cpu_s(attempt))

    def _progress(self, attempt: SimulatedAttempt) -> Progress:
        done, loss_k = self._cpu_world.work_done(attempt), self._traced(attempt.job + 1).loss_k
        loss = exp(-loss_k * done) if loss_k else None
        return Progress(self._now, step=done * _STEPS, total=_STEPS, loss=loss, work_done=done)

"""Servers with time slots, and a host whose jobs take some time to save and to stop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from radrm.core import actions as act
from radrm.core import events as ev
from radrm.core.decision import Decision
from radrm.core.records import Checkpoint, Device, Exit, Job, Progress
from radrm.core.settings import CoreSettings
from radrm.core.words import CheckpointKind
from radrm.planners.slots import Slots
from radrm.policies.exclusive import Exclusive
from tests.world import GIB, World, default_planner, gpus

LENGTH_S, WARN_S = 1000.0, 100.0
SLOTS = Slots(Exclusive(), LENGTH_S, WARN_S)
NONE, SIGNAL, EXIT = CheckpointKind.NONE, CheckpointKind.SIGNAL, CheckpointKind.EXIT
CORE = CoreSettings(smact_warm_s=0, smact_after_exit_s=0, checkpoint_limit_s=50.0)


class Server(World):
    """Its jobs save, and stop, only when a test says so, unless `prompt`."""

    def __init__(
        self,
        devices: Sequence[Device] = gpus(1),
        slots: Slots = SLOTS,
        prompt: bool = False,
        **changes: Any,
    ) -> None:
        self.prompt = prompt
        policy = changes.pop("policy", Exclusive())
        changes.setdefault("settings", replace(CORE, whole_devices=policy.whole_device))
        super().__init__(
            devices, planners=(default_planner(policy), replace(slots, policy=policy)), **changes
        )

    def step(self, event: ev.Event) -> Decision:
        decision = super().step(event)
        assert not self.scheduler.errors(self.now)
        return decision

    def _do(self, action: act.Action) -> None:
        if self.prompt or not isinstance(action, (act.TakeCheckpoint, act.Terminate)):
            super()._do(action)
            if not isinstance(action, act.TakeCheckpoint):
                return
            if self.jobs[action.job_id].spec.checkpoint.kind is EXIT:
                self.end(action.job_id)

    def come(self, kind: CheckpointKind = SIGNAL, mib: int = 4 * GIB, **spec: Any) -> Job:
        return self.submit(mib, smact=0.1, checkpoint=Checkpoint(kind), **spec)

    @property
    def asked(self) -> list[int]:
        """The jobs that are asked to save now, and then to give way."""
        found = []
        for job, attempt in self.scheduler.state.running():
            found += [job.id] * any(pending.stops for pending in attempt.pending)
        return found

    @property
    def running(self) -> list[int]:
        return sorted(self.scheduler.state.attempts)

    def save(self, job: int) -> None:
        live = self.live(job)
        assert live is not None
        progress = Progress(self.now, work_done=0.1)
        event = ev.CheckpointTaken(at=self.now, job_id=job, serial=live.serial, progress=progress)
        self.step(event)

    def give_way(self, job: int) -> None:
        """The job saves, stops, and the GPU is read again."""
        self.save(job)
        self.leave(job, Exit(signal=15))

    def leave(self, job: int, how: Exit) -> None:
        live = self.live(job)
        self.step(ev.AttemptEnded(at=self.now, job_id=job, serial=live.serial, exits=(how,)))
        self.read()

    def later(self, seconds: float) -> None:
        """Let time pass, with all that happens in it, until the server would do no more."""
        until_s = self.boot_s + seconds
        while (wake_s := self.decisions[-1].wake_at) is not None and wake_s < until_s:
            self.pass_time(max(0.1, wake_s - self.boot_s))
        self.pass_time(until_s - self.boot_s)

    def remarks(self, job: int) -> tuple[str, ...]:
        return self.scheduler.view.remarks(job)

    def says(self, job: int) -> list[str]:
        found = self.scheduler.why_waiting(job, self.now)
        return [each.message for each in found if each.rule == "slots"]

"""A server whose host may be mute, slow to answer, or answer twice; and what must hold there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from radrm.core import actions as act
from radrm.core import events as ev
from radrm.core.decision import Decision
from radrm.core.lifecycle.asking import limit_s
from radrm.core.planning.requests import Requested
from radrm.core.proposals import (
    Migrate,
    Preempt,
    Proposal,
    ResizeTo,
    SetShares,
    TakeCheckpointNow,
)
from radrm.core.records import (
    Checkpoint,
    Device,
    Exit,
    Job,
    Placement,
    Progress,
    Reservation,
    Role,
    Share,
)
from radrm.core.rules import Planner
from radrm.core.scheduler import Scheduler
from radrm.core.settings import CoreSettings
from radrm.core.words import (
    ActionKind,
    CheckpointKind,
    JobState,
    ReservationKind,
    Resizing,
    StopReason,
)
from radrm.structs import replace
from tests.world import GIB, World

CORE = CoreSettings(
    smact_warm_s=0,
    smact_after_exit_s=0,
    action_limit_s=60.0,
    resize_limit_s=90.0,
    checkpoint_limit_s=120.0,
    unkillable_s=90.0,
    estimate_limit_s=100.0,
)
ELASTIC = (Role(count_min=1, count_max=2),)
RANKING = list(StopReason)
T = TypeVar("T")


def pick(found: Sequence[T], number: int) -> T | None:
    return found[number % len(found)] if found else None


class Mute(World):
    """A host that obeys at once, or only takes readings. Then moves answer for it, or do not."""

    prompt = True

    def __init__(
        self, server: tuple[Device, ...], planners: Sequence[Planner] | None = None
    ) -> None:
        self.server = server
        self.processes: dict[int, int] = {}
        """The job of each attempt whose processes may run, by serial: the truth."""
        self.uses: dict[int, set[str]] = {}
        """The devices that the processes of each attempt may use, by serial: the truth."""
        self.resizes: dict[tuple[int, int], set[str] | None] = {}
        """What was used before each resize, by serial and generation; None: it is answered."""
        self.reports: list[ev.Event] = []
        """All that was ever said about attempts. It may be said again."""
        self.reasons: dict[int, StopReason] = {}
        self.saved: set[int] = set()
        """The jobs that have proven to have saved."""
        self.sent: set[int] = set()
        """The jobs that were to go behind all others."""
        super().__init__(server, settings=CORE, planners=planners)

    # ------------------------------------------------------------- the host

    def step(self, event: ev.Event) -> Decision:
        self._answered(event)
        if isinstance(event, ev.AttemptEvent):
            self.reports.append(event)
            if isinstance(event, (ev.AttemptEnded, ev.LaunchVoided)):
                self.processes.pop(event.serial, None)
        return super().step(event)

    def _answered(self, event: ev.Event) -> None:
        """Note what an attempt uses after the first answer to a resize of it."""
        action = event.action if isinstance(event, ev.ActionFailed) else event
        if not isinstance(action, (ev.Resized, act.Resize)):
            return
        key = action.serial, action.generation or 0
        before = self.resizes.get(key)
        if before is not None:
            self.resizes[key] = None
            done = isinstance(event, ev.Resized)
            self.uses[action.serial] = set(action.target.devices) if done else before

    def _do(self, action: act.Action) -> None:
        key = (action.serial, action.generation) if isinstance(action, act.Resize) else None
        if isinstance(action, act.Resize) and key is not None and key not in self.resizes:
            self.resizes[key] = self.uses[action.serial]
            self.uses[action.serial] = self.uses[action.serial] | set(action.target.devices)
        if isinstance(action, act.Launch):
            self.uses[action.serial] = set(action.placement.devices)
            twice = [serial for serial, job_id in self.processes.items() if job_id == action.job_id]
            assert not twice, f"job {action.job_id} runs twice"
            self.processes[action.serial] = action.job_id
        if isinstance(action, act.Kill) and self.prompt:
            self.die(action.job_id, action.serial, Exit(signal=9))
        elif isinstance(action, act.Terminate) and self.prompt:
            self.die(action.job_id, action.serial, Exit(signal=15))
        elif self.prompt or isinstance(action, act.TakeReadings):
            super()._do(action)

    def die(self, job_id: int, serial: int, end: Exit) -> None:
        """Report the end of an attempt, which the core may have given up."""
        if serial in self.processes:
            exits = (end,)
            self.step(ev.AttemptEnded(at=self.now, job_id=job_id, serial=serial, exits=exits))

    # ------------------------------------------------------------- moves of the host

    def be_mute(self, mute: bool) -> None:
        self.prompt = not mute

    def report(self, number: int, how: str) -> None:
        """Say what has become of an attempt."""
        serial = pick(list(self.processes), number)
        if serial is None:
            return
        job_id, now = self.processes[serial], self.now
        about = {"at": now, "job_id": job_id, "serial": serial}
        began = any(isinstance(e, ev.AttemptStarted) and e.serial == serial for e in self.reports)
        if how == "started":
            self.step(ev.AttemptStarted(**about))
        elif how == "void" and not began:
            self.step(ev.LaunchVoided(**about))
        elif how == "saved":
            done = Progress(now, work_done=min(1.0, 0.1 * (number + 1)))
            self.step(ev.CheckpointTaken(**about, progress=done))
        elif how == "left":
            saved = Progress(now, work_done=0.5)
            ended = ev.AttemptEnded(**about, exits=(Exit(0),), saved=saved)
            self.step(ended)
        elif how == "lost":
            self.step(ev.AttemptEnded(**about, lost="its runner was killed"))
        else:
            self.die(job_id, serial, Exit(int(how == "bad")))

    def report_again(self, number: int) -> None:
        """Repeat an old report, in a new step."""
        event = pick(self.reports, number)
        if event is not None:
            super().step(replace(event, at=self.now))

    def answer(self, number: int, well: bool) -> None:
        """Answer an action of any age, perhaps not for the first time."""
        asked = [a for a in self.actions if isinstance(a, (act.DueAction, act.EstimateJob))]
        action = pick(asked[::-1], number)
        if action is None:
            return
        if not well:
            self.step(ev.ActionFailed(at=self.now, action=action, reason="no"))
        elif isinstance(action, act.EstimateJob):
            self.step(ev.EstimateReady(at=self.now, job_id=action.job_id, estimates=()))
        else:
            World._do(self, action)

    # ------------------------------------------------------------- moves of people and planners

    def hand_in(
        self, saves: str, requeue: bool, limit: float | None, estimating: bool, how: Resizing
    ) -> None:
        self.submit(
            4 * GIB,
            smact=0.1,
            estimating=estimating,
            roles=ELASTIC,
            checkpoint=Checkpoint(CheckpointKind(saves), cost_s=5.0),
            requeue=requeue,
            time_limit_s=limit,
            resizing=how,
        )

    def command(self, number: int, what: str) -> None:
        job = pick([j for j in self.jobs.values() if not j.state.final], number)
        if job is None:
            return
        if what == "cancel":
            self.cancel(job)
        elif what == "requeue" and not job.state.waiting:
            self.requeue(job)
        elif what == "limit":
            self.edit(job, time_limit_s=1.0)

    def propose(self, number: int, what: type[Proposal], where: int) -> None:
        job = pick([j for j in self.jobs.values() if j.state.live], number)
        attempt = self.live(job) if job is not None else None
        if job is None or attempt is None:
            return
        now = attempt.placement
        device = self.server[where % len(self.server)].uuid
        mib = now.shares[0].reserved_mib
        if what is Migrate:
            there = Placement((Share(device, mib),), now.collocation)
            wanted: Proposal = Migrate(job_id=job.id, placement=there)
        elif what is ResizeTo:
            grown = Placement((now.shares[0], Share(device, mib, task=1)), now.collocation)
            less = Placement(now.shares[:1], now.collocation)
            wanted = ResizeTo(job_id=job.id, placement=grown if len(now.shares) == 1 else less)
        elif what is SetShares:
            caps = tuple(replace(s, sm_fraction=0.1 + 0.2 * (where % 3)) for s in now.shares)
            wanted = SetShares(job_id=job.id, shares=caps)
        elif what is Preempt:
            wanted = Preempt(job_id=job.id, behind=bool(where % 2))
        else:
            wanted = what(job_id=job.id)
        version = self.scheduler.state.version
        self.step(ev.PlanReady(at=self.now, planner="x", version=version, proposals=(wanted,)))

    def ask(self, number: int, where: int | None) -> None:
        """A user asks a job to save its work, to move, or (9) to have another size."""
        job = pick([j for j in self.jobs.values() if not j.state.final], number)
        if job is None:
            return
        about = {"at": self.now, "job_id": job.id, "by": "ada"}
        event: Requested
        event = ev.CheckpointRequested(**about)
        if where == 9:
            attempt = self.live(job)
            present = len(attempt.placement.shares) if attempt is not None else 1
            event = ev.ResizeRequested(**about, counts=(("main", 3 - present),))
        elif where is not None:
            device = self.server[where].uuid if where < len(self.server) else None
            event = ev.MigrateRequested(**about, device=device)
        refusal = self.scheduler.refuse_request(event)
        kinds = act.TakeCheckpoint, act.Resize
        asked = [a for a in self.step(event).actions if isinstance(a, kinds)]
        assert (refusal is None) is bool(asked), refusal

    def see(self, number: int, gone: bool) -> None:
        """A device vanishes, or all are there."""
        missing = self.server[number % len(self.server)] if gone else None
        self.devices = tuple(d for d in self.server if d is not missing)
        self.step(ev.DevicesSeen(at=self.now, devices=self.devices))
        self.read()

    # ------------------------------------------------------------- what always holds

    def check(self) -> None:
        self.every_reservation_has_a_living_reason()
        self.no_device_is_given_on_before_its_tasks_have_ended()
        self.every_action_has_an_end(self.scheduler, self.decisions[-1].wake_at)
        self.no_reason_of_a_stop_is_weaker_than_before()
        self.nothing_that_was_saved_is_forgotten()
        self.only_what_was_asked_for_goes_behind()
        self.a_restart_knows_the_same()

    def every_reservation_has_a_living_reason(self) -> None:
        state = self.scheduler.state
        for reservation in self.stored.values():
            assert reservation.device in self.reasons_of(reservation), reservation
        for uuid, ledger in state.ledgers.items():
            there = {r.key for r in self.stored.values() if r.device == uuid}
            assert set(ledger.reservations) == there
            live = {a.job_id for a in state.attempts.values() if uuid in a.devices}
            assert set(ledger.occupants) == live

    def no_device_is_given_on_before_its_tasks_have_ended(self) -> None:
        for serial, job_id in self.processes.items():
            attempt = self.live(job_id)
            if attempt is not None and attempt.serial == serial:
                kept = {r.device for r in self.stored.values() if r.job_id == job_id}
                assert self.uses[serial] <= kept, attempt

    def reasons_of(self, reservation: Reservation) -> Sequence[str]:
        job = self.jobs[reservation.job_id or 0]
        attempt = self.live(job)
        if reservation.kind is ReservationKind.RUNNING:
            return attempt.devices if attempt is not None else ()
        assert reservation.kind is ReservationKind.MIGRATION
        if attempt is None:
            assert job.pause is not None and job.state.waiting, job
        elif attempt.stop is not None and attempt.stop.reason is not StopReason.PREEMPTED:
            return ()
        return job.target.devices if job.target is not None else ()

    def every_action_has_an_end(self, scheduler: Scheduler, wake_at: float | None) -> None:
        now_s = self.boot_s
        for job, attempt in scheduler.state.running():
            kinds = [pending.kind for pending in attempt.pending]
            assert len(kinds) == len(set(kinds))
            resizes = attempt.target is not None and attempt.stop is None
            assert (ActionKind.RESIZE in kinds) >= resizes
            assert attempt.target is not None or ActionKind.RESIZE not in kinds
            if job.state is JobState.RUNNING and job.target is not None:
                assert ActionKind.CHECKPOINT in kinds
            if job.state is JobState.LAUNCHING:
                assert ActionKind.LAUNCH in kinds
            dues = [now_s + limit_s(CORE, job, kind) for kind in kinds]
            for pending, latest_s in zip(attempt.pending, dues, strict=True):
                assert now_s < pending.due_boot_s <= latest_s, pending
            ends = [pending.due_boot_s for pending in attempt.pending]
            if attempt.stop is not None:
                assert now_s < attempt.stop.kill_boot_s <= now_s + CORE.grace_s
                ends.append(attempt.stop.kill_boot_s)
            assert all(wake_at is not None and wake_at <= end_s for end_s in ends)
        for job in scheduler.state.jobs.values():
            if job.estimating:
                assert job.estimate_due_boot_s is not None and wake_at is not None
                assert wake_at <= job.estimate_due_boot_s <= now_s + CORE.estimate_limit_s

    def no_reason_of_a_stop_is_weaker_than_before(self) -> None:
        for attempt in self.scheduler.state.attempts.values():
            before = self.reasons.get(attempt.serial)
            if before is not None:
                assert attempt.stop is not None, "a stop is withdrawn"
                assert RANKING.index(attempt.stop.reason) <= RANKING.index(before)
            if attempt.stop is not None:
                self.reasons[attempt.serial] = attempt.stop.reason

    def only_what_was_asked_for_goes_behind(self) -> None:
        for job, attempt in self.scheduler.state.running():
            asked = attempt.asked(ActionKind.CHECKPOINT)
            if attempt.goes_behind and asked is not None:
                assert asked.stops and job.target is None, attempt
            if attempt.goes_behind and attempt.stop is None and asked is None:
                assert job.spec.checkpoint.kind is CheckpointKind.EXIT, attempt
        self.sent.update(a.job_id for a in self.attempts.values() if a.goes_behind)
        for job in self.jobs.values():
            assert job.requeued is None or job.id in self.sent, (
                "nobody asked for its way to the tail"
            )

    def nothing_that_was_saved_is_forgotten(self) -> None:
        for job in self.jobs.values():
            if job.saved is not None:
                self.saved.add(job.id)
            assert (job.saved is not None) is (job.id in self.saved), job
            if not job.state.live and job.state is not JobState.COMPLETED:
                assert job.progress == job.saved, job

    def a_restart_knows_the_same(self) -> None:
        other, now = Scheduler(replace(self.rules, planners=()), CORE), self.now
        other.step(ev.Restored(at=now, kept=self.kept()))
        other.step(ev.DevicesSeen(at=now, devices=self.devices))
        decision = other.step(ev.AttemptsAdopted(at=now))
        assert other.state.attempts == self.scheduler.state.attempts
        assert {i: _lasting(j) for i, j in other.state.jobs.items()} == {
            i: _lasting(j) for i, j in self.scheduler.state.jobs.items()
        }
        self.every_action_has_an_end(other, decision.wake_at)

    # ------------------------------------------------------------- the end

    def end_in_silence(self) -> None:
        """The host never answers again, and still every action and every stop ends."""
        self.prompt = False
        for job in list(self.jobs.values()):
            if not job.state.final:
                self.cancel(job)
        self.pass_time(CORE.grace_s)
        self.pass_time(CORE.unkillable_s)
        self.check()
        state = self.scheduler.state
        assert all(job.state.final for job in self.jobs.values())
        assert not self.stored and not state.attempts
        assert not any(led.occupants or led.reservations for led in state.ledgers.values())
        self.pass_time(1e6)
        assert len(state.timers) == 0


def _lasting(job: Job) -> Job:
    """A job without the deadline of the estimators, who are asked anew."""
    return replace(job, estimate_due_boot_s=None)


PROPOSALS: tuple[type[Proposal], ...] = (Migrate, ResizeTo, SetShares, TakeCheckpointNow, Preempt)

"""A tiny simulated world around `Scheduler`, for tests: it obeys actions at once.

Time moves only when a test says so. What was decided is kept for inspection, and
`saved` mirrors what a store would hold, so that a restart can be played.
"""

from __future__ import annotations

from collections.abc import Sequence

from radrm.core import actions as act
from radrm.core import events as ev
from radrm.core.decision import Decision
from radrm.core.planning.thinking import think_in_place
from radrm.core.records import (
    ArrayElement,
    Attempt,
    AttemptMemory,
    Dependency,
    Device,
    DeviceStatus,
    Estimate,
    Exit,
    Instant,
    Job,
    JobSpec,
    Kept,
    Needs,
    Node,
    OuterJob,
    OutOfMemory,
    Progress,
    Reading,
    Reservation,
    ReservationKey,
    Role,
    RuleState,
    UserReservation,
)
from radrm.core.rules import Order, Planner, Policy, Recovery, Rules, SlowPlanner
from radrm.core.scheduler import Scheduler
from radrm.core.settings import CoreSettings
from radrm.core.words import JobState, Quantity, Resizing
from radrm.interference.learning import LossLearner
from radrm.orders import Fair, Fifo, LatestStart, SmallestWork
from radrm.planners.order_policy import OrderPolicy
from radrm.policies.exclusive import Exclusive
from radrm.policies.sharing import Magm
from radrm.recovery import IdleDevice
from radrm.structs import replace

GIB = 1024
ORDERS: tuple[Order, ...] = (Fifo(), SmallestWork(max_wait_s=500.0), Fair(), LatestStart())
"""Orders for the lives of servers: times of a few minutes pass in them."""
EPOCH_S = 1_700_000_000.0


def gpus(count: int, total_mib: int = 40 * GIB, **changes: object) -> tuple[Device, ...]:
    return tuple(
        replace(
            Device(uuid=f"GPU-{i}", index=i, name="A100-40GB", total_mib=total_mib),
            **changes,
        )
        for i in range(count)
    )


def default_planner(policy: Policy | None = None) -> OrderPolicy:
    policy = policy or Magm()
    return OrderPolicy(
        policy=policy,
        recovery_policy=Exclusive(whole_device=policy.whole_device),
    )


class World:
    """Devices, a scheduler, and a host that does what it is told."""

    def __init__(
        self,
        devices: Sequence[Device] = gpus(2),
        *,
        planners: Sequence[Planner | SlowPlanner] | None = None,
        policy: Policy | None = None,
        order: Order | None = None,
        recovery: Recovery | None = None,
        fallback: Planner | None = None,
        settings: CoreSettings | None = None,
        warm: bool = True,
        node: Node | None = None,
    ) -> None:
        self.devices = tuple(devices)
        self.node = node
        self.boot_s = 1000.0
        self.ahead_s = 0.0
        """By how much the date was set forward, in seconds."""
        self.order = order or Fifo()
        self.rules = Rules(
            order=self.order,
            planners=planners or (default_planner(policy),),
            recovery=recovery or IdleDevice(),
            fallback=fallback,
            learner=LossLearner(),
        )
        self.settings = settings or CoreSettings(smact_warm_s=0, smact_after_exit_s=0)
        self.scheduler = Scheduler(self.rules, self.settings)
        self.used: dict[int, int] = {}
        """MiB per GPU that each job's processes hold."""
        self.unmanaged: dict[str, int] = {}
        self.smact: dict[str, float | None] = {}
        self.broken: dict[str, str] = {}
        self.decisions: list[Decision] = []
        self.actions: list[act.Action] = []
        self.jobs: dict[int, Job] = {}
        self.attempts: dict[tuple[int, int], Attempt] = {}
        self.stored: dict[ReservationKey, Reservation] = {}
        self.rule_states: dict[tuple[str, str], RuleState] = {}
        self.for_users: dict[int, UserReservation] = {}
        self.statuses: dict[str, DeviceStatus] = {}
        self.obey = True
        self.next_id = 1
        self.see_nodes()
        self.step(ev.DevicesSeen(at=self.now, devices=self.devices))
        if warm:
            self.read()

    @property
    def reservations(self) -> dict[tuple[str, str], Reservation]:
        """The reservations by owner and device, for owners with one on each device."""
        return {(r.owner, r.device): r for r in self.stored.values()}

    # ------------------------------------------------------------- time and steps

    @property
    def now(self) -> Instant:
        return Instant(self.boot_s, EPOCH_S + self.boot_s + self.ahead_s)

    def step(self, event: ev.Event) -> Decision:
        decision = self.decide(event)
        self.decisions.append(decision)
        self._save(decision)
        for action in decision.actions:
            self.actions.append(action)
            if self.obey:
                self._do(action)
        return decision

    def see_nodes(self, node: Node | None = None) -> None:
        self.node = node or self.node
        if self.node is not None:
            self.step(ev.NodesSeen(at=self.now, nodes=(self.node,)))

    def decide(self, event: ev.Event) -> Decision:
        return self.scheduler.step(event)

    def pass_time(self, seconds: float, *, read: bool = True) -> None:
        self.boot_s += seconds
        if read:
            self.read()
        self.step(ev.Tick(at=self.now))

    def _save(self, decision: Decision) -> None:
        for record in (*decision.changed, *decision.volatile):
            if isinstance(record, Job):
                self.jobs[record.id] = record
            elif isinstance(record, Attempt):
                self.attempts[record.job_id, record.number] = record
            elif isinstance(record, Reservation):
                self.stored[record.key] = record
            elif isinstance(record, RuleState):
                self.rule_states[record.kind, record.name] = record
            elif isinstance(record, UserReservation):
                self.for_users[record.id] = record
            else:
                self.statuses[record.uuid] = record
        for key in decision.dropped:
            self.stored.pop(key, None)

    def _do(self, action: act.Action) -> None:
        if isinstance(action, act.Launch):
            self.step(ev.AttemptStarted(at=self.now, job_id=action.job_id, serial=action.serial))
        elif isinstance(action, act.Think):
            snapshot = self.scheduler.snapshot
            self.step(think_in_place(self.rules.planners, action, snapshot, self.now))
        elif isinstance(action, act.TakeReadings):
            self.read(action.devices)
        elif isinstance(action, act.Terminate):
            self.end(action.job_id, signal=15)
        elif isinstance(action, act.TakeCheckpoint):
            saved, job_id = self.jobs[action.job_id].progress, action.job_id
            taken = ev.CheckpointTaken(
                at=self.now, job_id=job_id, serial=action.serial, progress=saved
            )
            self.step(taken)
        elif isinstance(action, act.Resize):
            done, about = action.target, {"job_id": action.job_id, "serial": action.serial}
            self.step(ev.Resized(at=self.now, **about, target=done, generation=action.generation))
        elif isinstance(action, act.ApplyShares):
            about = {"job_id": action.job_id, "serial": action.serial}
            self.step(ev.SharesApplied(at=self.now, **about, shares=action.shares))

    def restart(self, *found: ev.Event) -> None:
        """A new scheduler from what was saved, as after `kill -9`, with what its host has found
        of the attempts."""
        kept = self.kept()
        self.scheduler = Scheduler(self.rules, self.settings)
        self.step(ev.Restored(at=self.now, kept=kept))
        self.see_nodes()
        self.step(ev.DevicesSeen(at=self.now, devices=self.devices))
        for event in found:
            self.step(event)
        self.step(ev.AttemptsAdopted(at=self.now))
        self.read()

    def kept(self) -> Kept:
        """What a store would give to the next daemon."""
        return Kept(
            jobs=[j for _, j in sorted(self.jobs.items()) if not j.state.final],
            attempts=[a for a in self.attempts.values() if a.ended is None],
            reservations=list(self.stored.values()),
            devices=list(self.statuses.values()),
            rule_states=list(self.rule_states.values()),
            next_serial=max((a.serial for a in self.attempts.values()), default=0) + 1,
            user_reservations=[r for r in self.for_users.values() if r.ended_s is None],
            next_reservation=max(self.for_users, default=0) + 1,
        )

    # ------------------------------------------------------------- readings

    def read(self, uuids: Sequence[str] | None = None) -> Decision:
        wanted = uuids if uuids is not None else [d.uuid for d in self.devices]
        return self.step(
            ev.ReadingsTaken(at=self.now, readings=tuple(self._reading(u) for u in wanted))
        )

    def _reading(self, uuid: str) -> Reading:
        if uuid in self.broken:
            return Reading(device=uuid, at=self.now, error=self.broken[uuid])
        on_it = [
            AttemptMemory(a.job_id, a.serial, self.used.get(a.job_id, 0))
            for a in self.attempts.values()
            if a.ended is None and uuid in a.placement.devices
        ]
        return Reading(
            device=uuid,
            at=self.now,
            used_mib=sum(m.used_mib or 0 for m in on_it) + self.unmanaged.get(uuid, 0),
            attempts=tuple(on_it),
            smact=self.smact.get(uuid, 0.3 if on_it else 0.0),
            smact_source="test",
            power_w=100.0,
        )

    # ------------------------------------------------------------- jobs

    def submit(
        self,
        memory_mib: int | None = None,
        *,
        gpus: int = 1,
        smact: float | None = None,
        duration_s: float | None = None,
        estimating: bool = False,
        source: str = "test",
        after: Sequence[Dependency] = (),
        array: ArrayElement | None = None,
        cpus: float | None = None,
        host_mib: int | None = None,
        outer: OuterJob | None = None,
        **spec: object,
    ) -> Job:
        """A job; `memory_mib` is an estimate from `source` ('declared' declares it too)."""
        declared = memory_mib if source == "declared" else None
        needs = Needs(gpus, declared, smact, cpus=cpus, memory_mib=host_mib)
        fields = {"name": f"job{self.next_id}", "user": "ann", "uid": 1000, **spec}
        fields.setdefault("roles", (Role(needs=needs),))
        fields.setdefault("resizing", Resizing.LIVE)
        estimates = []
        if memory_mib is not None:
            estimates.append(Estimate(Quantity.MEMORY, memory_mib, memory_mib, source))
        if smact is not None:
            estimates.append(Estimate(Quantity.SMACT, smact, smact, source))
        if duration_s is not None:
            estimates.append(Estimate(Quantity.DURATION, duration_s, duration_s, source))
        job = Job(
            id=self.next_id,
            ticket=f"T{self.next_id}",
            spec=JobSpec(**fields),
            submitted=self.now,
            estimating=estimating,
            estimates=() if estimating else tuple(estimates),
            after=tuple(after),
            array=array,
            outer=outer,
        )
        self.next_id += 1
        self.step(ev.JobSubmitted(at=self.now, job=job))
        return self.jobs[job.id]

    def submit_array(
        self,
        count: int,
        memory_mib: int,
        at_once: int | None = None,
        max_fails: int | None = None,
        fails_within_s: float | None = None,
        **spec: object,
    ) -> list[Job]:
        """An array's elements 0..count-1, taken in one after another."""
        first = ArrayElement(self.next_id, 0, at_once, (), max_fails, fails_within_s)
        return [
            self.submit(memory_mib, array=replace(first, index=index), **spec)
            for index in range(count)
        ]

    def cancel(self, job: int | Job) -> Job:
        job_id = job if isinstance(job, int) else job.id
        self.step(ev.CancelRequested(at=self.now, job_id=job_id, by="ann"))
        return self.jobs[job_id]

    def hold(self, job: int | Job, held: bool = True) -> None:
        job_id = job if isinstance(job, int) else job.id
        self.step(ev.HoldRequested(at=self.now, job_id=job_id, held=held))

    def requeue(self, job: int | Job, from_start: bool = False) -> Job:
        job_id = job if isinstance(job, int) else job.id
        about = self.jobs[job_id]
        self.step(ev.RequeueRequested(at=self.now, job=about, by="ann", from_start=from_start))
        return self.jobs[job_id]

    def edit(
        self,
        job: int | Job,
        after: Sequence[Dependency] | None = None,
        estimates: tuple[Estimate, ...] | None = None,
        **spec: object,
    ) -> str | None:
        """What stands in the way of the edit; None when it was made."""
        before = self.jobs[job if isinstance(job, int) else job.id]
        event = ev.EditRequested(
            at=self.now,
            job_id=before.id,
            spec=replace(before.spec, **spec),
            estimates=before.estimates if estimates is None else estimates,
            after=before.after if after is None else tuple(after),
        )
        refusal = self.scheduler.refuse_edit(event)
        self.step(event)
        return refusal

    def end(
        self,
        job: int | Job,
        code: int | None = 0,
        *,
        signal: int | None = None,
        oom: OutOfMemory | None = None,
        lost: str | None = None,
    ) -> Job:
        job_id = job if isinstance(job, int) else job.id
        attempt = self.live(job_id)
        assert attempt is not None, f"job {job_id} has no live attempt"
        self.used.pop(job_id, None)
        ended = Exit(code=None if signal else code, signal=signal)
        self.step(
            ev.AttemptEnded(
                at=self.now,
                job_id=job_id,
                serial=attempt.serial,
                exits=() if lost else tuple(ended for _ in attempt.tasks),
                oom=oom,
                lost=lost,
            )
        )
        return self.jobs[job_id]

    def report(self, job: int | Job, **progress: float) -> None:
        job_id = job if isinstance(job, int) else job.id
        attempt = self.live(job_id)
        assert attempt is not None
        now, told = self.now, Progress(at=self.now, **progress)
        serial = attempt.serial
        self.step(ev.ProgressReported(at=now, job_id=job_id, serial=serial, progress=told))

    def live(self, job: int | Job) -> Attempt | None:
        job_id = job if isinstance(job, int) else job.id
        found = [a for a in self.attempts.values() if a.job_id == job_id and a.ended is None]
        assert len(found) <= 1, f"job {job_id} has two live attempts"
        return found[0] if found else None

    def where(self, job: int | Job) -> tuple[str, ...]:
        attempt = self.live(job)
        return attempt.placement.devices if attempt else ()

    def state(self, job: int | Job) -> JobState:
        return self.jobs[job if isinstance(job, int) else job.id].state

    def why(self, job: int | Job) -> list[str]:
        job_id = job if isinstance(job, int) else job.id
        return [r.rule for r in self.scheduler.why_waiting(job_id, self.now)]

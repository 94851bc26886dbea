"""No short job starves behind long ones that can save, whatever comes: random traces."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from radrm.core import actions as act
from radrm.core.decision import Decision
from radrm.core.records import Exit, Job
from radrm.core.rules import Policy
from radrm.core.words import CheckpointKind, JobState, Outcome
from radrm.planners.slots import Slots
from radrm.policies.exclusive import Exclusive
from radrm.policies.sharing import Lug, Magm
from tests.examples import lives
from tests.planners.slots.server import CORE, EXIT, NONE, SIGNAL, Server
from tests.world import GIB, gpus

POLICIES: tuple[Policy, ...] = (Exclusive(), Magm(), Magm(margin_mib=0, min_free_mib=0), Lug())
SAVE_S, STOP_S = CORE.checkpoint_limit_s, CORE.grace_s
READ_S = 1.0


class Trace(Server):
    """Jobs with an amount of work. They save and stop in their time, and end when it is done."""

    def __init__(self, devices: int, slots: Slots, policy: Policy = POLICIES[0]) -> None:
        self.due: list[tuple[float, int, str, int]] = []
        """What happens next: when, the attempt's serial, what, and its job."""
        self.left_s: dict[int, float] = {}
        self.saves_s: dict[int, float] = {}
        self.since: dict[int, float] = {}
        self.started: dict[int, float] = {}
        self.latest: dict[int, float] = {}
        """The boot-time second by which a job must have started."""
        super().__init__(gpus(devices), slots, policy=policy)

    def submit_work(
        self, work_s: float, save_part: float, kind: CheckpointKind, gpus: int, mib: int
    ) -> None:
        job_id = self.next_id
        self.left_s[job_id], self.saves_s[job_id] = work_s, save_part * (SAVE_S - READ_S)
        slots = self.rules.planners[1]
        assert isinstance(slots, Slots)
        place = len(self.scheduler.state.lines.gpu) + 1
        one_s = slots.length_s - slots.warn_s + SAVE_S + STOP_S + READ_S
        self.latest[job_id] = self.boot_s + place * one_s
        self.used[job_id] = mib
        self.come(kind, mib, gpus=gpus)

    def _do(self, action: act.Action) -> None:
        super()._do(action)
        if isinstance(action, act.Launch):
            job_id = action.job_id
            self.since[job_id] = self.boot_s
            self.started.setdefault(job_id, self.boot_s)
            self.plan(self.left_s[job_id], "done", job_id, action.serial)
        elif isinstance(action, act.TakeCheckpoint):
            self.plan(self.saves_s[action.job_id], "save", action.job_id, action.serial)
        elif isinstance(action, act.Terminate):
            self.plan(STOP_S - READ_S, "stop", action.job_id, action.serial)

    def plan(self, after_s: float, what: str, job_id: int, serial: int) -> None:
        heappush(self.due, (self.boot_s + after_s, serial, what, job_id))

    def happen(self, what: str, job_id: int, serial: int) -> None:
        live = self.live(job_id)
        if live is None or live.serial != serial:
            return
        if what == "done":
            self.report(job_id, work_done=1.0)
            self.leave(job_id, Exit(0))
            return
        if what == "save":
            self.left_s[job_id] -= self.boot_s - self.since[job_id]
            self.since[job_id] = self.boot_s
            self.save(job_id)
            if self.jobs[job_id].spec.checkpoint.kind is EXIT:
                self.leave(job_id, Exit(0))
        else:
            self.leave(job_id, Exit(signal=15))

    def run_until(self, until_s: float) -> None:
        for _ in range(20_000):
            wake_s = self.decisions[-1].wake_at
            next_s = min([until_s, *(d[0] for d in self.due[:1]), *([wake_s] if wake_s else [])])
            self.pass_time(max(0.0, next_s - self.boot_s))
            while self.due and self.due[0][0] <= self.boot_s:
                _, serial, what, job_id = heappop(self.due)
                self.happen(what, job_id, serial)
            if self.boot_s >= until_s:
                return
        raise AssertionError("the same moments again and again")


jobs = st.tuples(
    st.floats(0.0, 400.0),  # after the last one came
    st.sampled_from([5.0, 50.0, 300.0, 3000.0, 1e5]),
    st.floats(0.0, 1.0),
    st.sampled_from([SIGNAL, EXIT]),
    st.sampled_from([1, 1, 1, 2, 3]),
    st.sampled_from([4, 12, 20, 35]).map(lambda gib: gib * GIB),
)
slots = st.sampled_from([(200.0, 100.0), (200.0, 0.0), (1000.0, 60.0)]).map(
    lambda times: Slots(Exclusive(), *times)
)


@lives(40)
@given(
    devices=st.integers(1, 3),
    slots=slots,
    policy=st.sampled_from(POLICIES),
    trace=st.lists(jobs, min_size=2, max_size=12),
)
def test_each_job_starts_within_a_slot_of_each_job_before_it(
    devices: int, slots: Slots, policy: Policy, trace: list[Any]
) -> None:
    world = Trace(devices, slots, policy)
    for after_s, work_s, save_part, kind, count, mib in trace:
        world.run_until(world.boot_s + after_s)
        world.submit_work(work_s, save_part, kind, min(devices, count), mib)
    world.run_until(max(world.latest.values()) + 1.0)
    for job_id, latest_s in world.latest.items():
        assert world.started[job_id] <= latest_s, f"job {job_id}"


kinds = st.sampled_from([SIGNAL, EXIT, NONE])
any_jobs = st.tuples(jobs, kinds, st.sampled_from([0.0, 1.0, 3.0]), st.integers(0, 1))


@lives(40)
@given(devices=st.integers(1, 3), slots=slots, trace=st.lists(any_jobs, min_size=2, max_size=12))
def test_only_jobs_that_can_save_are_asked_and_only_for_others(
    devices: int, slots: Slots, trace: list[tuple[Any, CheckpointKind, float, int]]
) -> None:
    world = Watched(devices, slots)
    for (after_s, work_s, _, _, count, mib), kind, save_part, priority in trace:
        world.run_until(world.boot_s + after_s)
        world.priority = priority
        world.submit_work(work_s, save_part, kind, min(devices, count), mib)
    world.run_until(world.boot_s + 20 * slots.length_s)
    for attempt in world.attempts.values():
        if attempt.outcome is Outcome.PREEMPTED:
            assert world.jobs[attempt.job_id].spec.checkpoint.kind is not NONE


class Watched(Trace):
    """Checks each request: who waits for it, and that it is not too early. Some never save."""

    priority = 0

    def submit(self, *args: Any, **more: Any) -> Job:
        return super().submit(*args, **more, priority=self.priority)

    def _save(self, decision: Decision) -> None:
        super()._save(decision)
        slots = self.rules.planners[1]
        assert isinstance(slots, Slots)
        for action in decision.actions:
            if isinstance(action, act.TakeCheckpoint):
                job = self.jobs[action.job_id]
                ran_s = self.boot_s - self.live(job).started.boot_s
                used_s = job.used_s - (job.requeued.used_s if job.requeued is not None else 0.0)
                assert ran_s + used_s >= slots.length_s - slots.warn_s - 1e-6
                waits = [j for j in self.jobs.values() if j.state is JobState.PENDING]
                assert any(j.spec.priority >= job.spec.priority for j in waits)

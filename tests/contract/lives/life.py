"""One server's life: moves that anybody may make, a model of what must hold, and checks."""

from __future__ import annotations

from collections.abc import Callable

from radrm.core import events as ev
from radrm.core.records import (
    ArrayElement,
    Dependency,
    Device,
    EarlySignal,
    Estimate,
    Exit,
    Job,
    Needs,
    OutOfMemory,
    Role,
)
from radrm.core.rules import Order, Planner, Policy
from radrm.core.settings import CoreSettings
from radrm.core.words import Collocation, Condition, DeviceKind, JobState, Quantity
from radrm.structs import replace
from tests.contract.lives.awaited import all_that_waits_has_an_end
from tests.contract.lives.restarts import (
    a_restart_would_change_nothing,
    lost_figures_change_nothing_else,
)
from tests.contract.lives.slow_host import Host
from tests.world import GIB, default_planner

CORE = CoreSettings(smact_warm_s=0, smact_after_exit_s=0, gpuless_at_once=2)
A_LONG_TIME_S = 1e7
Wishes = list[tuple[int, Condition]]
"""Jobs to follow, by a number that picks each, and how they have to end."""

ENDS_THAT_DO = {
    Condition.OK: {JobState.COMPLETED},
    Condition.FAILED: {JobState.FAILED, JobState.TIMEOUT, JobState.CANCELLED},
    Condition.ANY: {state for state in JobState if state.final},
}


class Life:
    """One server's life: moves, each of which does nothing where it cannot be made."""

    def __init__(
        self, server: tuple[Device, ...], policy: Policy, order: Order, *others: Planner
    ) -> None:
        """`others` are planners beside the default one."""
        planners = (default_planner(policy), *others)
        self.world = Host(server, planners=planners, order=order, settings=CORE)
        self.server = server
        self.open: dict[int, dict[Dependency, set[int]]] = {}
        """What each job was to follow and, by what has ended since, still is; with the
        elements whose ends do not count, since it was requeued in spite of them."""

    # ------------------------------------------------------------- the model

    def elements(self, array_id: int) -> list[Job]:
        return [j for j in self.world.jobs.values() if j.array and j.array.array_id == array_id]

    def targets(self, dependency: Dependency) -> list[Job]:
        if dependency.array:
            return self.elements(dependency.job_id)
        return [self.world.jobs[dependency.job_id]]

    def dependencies(self, wanted: Wishes) -> tuple[Dependency, ...] | None:
        """As a host makes them, which knows what has ended; None where it refuses. An array's
        id means all its elements."""
        found: dict[Dependency, None] = {}
        ids = sorted(self.world.jobs)
        for pick, condition in wanted if ids else ():
            job_id = ids[pick % len(ids)]
            dependency = Dependency(job_id, condition, array=bool(self.elements(job_id)))
            targets = self.targets(dependency)
            ends = [job.state for job in targets if job.state.final]
            if not ENDS_THAT_DO[condition].issuperset(ends):
                return None
            if len(ends) < len(targets):
                found[dependency] = None
        return tuple(found)

    def settle_model(self) -> None:
        for job_id, wanted in self.open.items():
            for dependency, ignored in list(wanted.items()):
                ended = [job for job in self.targets(dependency) if job.state.final]
                ignored &= {job.id for job in ended}
                will_do = ENDS_THAT_DO[dependency.condition]
                if any(job.state not in will_do for job in ended if job.id not in ignored):
                    state = self.world.state(job_id)
                    assert state.final, f"job {job_id} waits for what can never be: {dependency}"
                if len(ended) == len(self.targets(dependency)):
                    del wanted[dependency]

    def pick(self, number: int, wanted: Callable[[Job], bool]) -> Job | None:
        found = [job for job in self.world.jobs.values() if wanted(job)]
        return found[number % len(found)] if found else None

    # ------------------------------------------------------------- people

    def submit(
        self,
        memory: int | None,
        count: int,
        wanted: Wishes,
        elements: int,
        at_once: int | None,
        retries: int,
        priority: int,
        limit: float | None,
        exclusive: bool,
    ) -> None:
        after = self.dependencies(wanted)
        if after is None:
            return
        array_id = self.world.next_id
        for index in range(elements or 1):
            made = self.world.submit(
                memory,
                gpus=count,
                smact=0.1,
                after=after,
                array=ArrayElement(array_id, index, at_once) if elements else None,
                retries=retries,
                requeue=bool(retries),
                priority=priority,
                time_limit_s=limit,
                signal=EarlySignal(10, 30.0) if limit else None,
                collocation=Collocation.EXCLUSIVE if exclusive else Collocation.AUTO,
            )
            self.world.used[made.id] = min(memory or GIB, 20 * GIB)
            self.open[made.id] = {d: set() for d in after}
            self.settle_model()

    def take_in_more_of_an_array(self, pick: int) -> None:
        """The next slice of a long one; nobody can follow it before it is all there."""
        job = self.pick(pick, lambda j: j.array is not None)
        if job is None or job.array is None:
            return
        followed = any(
            d.array and d.job_id == job.array.array_id for open in self.open.values() for d in open
        )
        if not followed and not self.open[job.id]:
            index = 1 + max(j.array.index for j in self.elements(job.array.array_id) if j.array)
            made = self.world.submit(GIB, smact=0.1, array=replace(job.array, index=index))
            self.open[made.id] = {}

    def cancel(self, pick: int) -> None:
        if job := self.pick(pick, lambda j: not j.state.final):
            self.world.cancel(job)

    def hold_or_release(self, pick: int, held: bool) -> None:
        if job := self.pick(pick, lambda j: j.state.waiting and j.held is not held):
            self.world.hold(job, held)

    def requeue(self, pick: int) -> None:
        if job := self.pick(
            pick, lambda j: not j.state.waiting and j.state is not JobState.STOPPING
        ):
            again = self.world.requeue(job)
            if job.state.final:
                self.open[job.id] = {
                    d: {j.id for j in self.targets(d) if j.state.final} for d in again.after
                }

    def edit_what_it_follows(self, pick: int, wanted: Wishes) -> None:
        job = self.pick(pick, lambda j: j.state.waiting)
        after = self.dependencies(wanted)
        if job is not None and after is not None and self.world.edit(job, after=after) is None:
            self.open[job.id] = {d: set() for d in after}

    def edit_the_rest(self, pick: int, priority: int, count: int, limit: float | None) -> None:
        job = self.pick(pick, lambda j: not j.state.final)
        if job is not None:
            roles = (Role(needs=Needs(gpus=count)),) if job.state.waiting else job.spec.roles
            self.world.edit(job, priority=priority, roles=roles, time_limit_s=limit)

    # ------------------------------------------------------------- jobs and the host

    def end(self, pick: int, how: str) -> None:
        job = self.pick(pick, lambda j: j.state.live)
        attempt = self.world.live(job) if job is not None else None
        if job is None or attempt is None:
            return
        if how in ("never", "void") and attempt.started is None:
            at, serial = self.world.now, attempt.serial
            self.world.used.pop(job.id, None)
            if how == "void":
                self.world.step(ev.LaunchVoided(at=at, job_id=job.id, serial=serial))
            else:
                self.world.step(
                    ev.AttemptEnded(
                        at=at, job_id=job.id, serial=serial, never_started="full", transient=True
                    )
                )
        elif how == "passes":
            self.world.used.pop(job.id, None)
            self.world.step(
                ev.AttemptEnded(
                    at=self.world.now,
                    job_id=job.id,
                    serial=attempt.serial,
                    exits=(Exit(1),) * len(attempt.tasks),
                    excuse="a fault",
                    fault=True,
                )
            )
        else:
            self.world.end(
                job,
                int(how in ("bad", "oom")),
                oom=OutOfMemory("test", 25 * GIB) if how == "oom" else None,
                lost="killed" if how == "lost" else None,
            )

    def predict_again(self, pick: int, seconds: float) -> None:
        """Runs of the same thing have ended."""
        found = Estimate(Quantity.DURATION, seconds, seconds, "history")
        if job := self.pick(pick, lambda j: not j.state.final):
            self.world.step(ev.PredictionsReady(at=self.world.now, estimates=((job.id, (found,)),)))

    def start_at_last(self, pick: int) -> None:
        if job := self.pick(pick, lambda j: j.state is JobState.LAUNCHING):
            serial = self.world.attempts[job.id, job.attempts].serial
            self.world.step(ev.AttemptStarted(at=self.world.now, job_id=job.id, serial=serial))

    def report(self, pick: int, step: float) -> None:
        if job := self.pick(pick, lambda j: j.state.live):
            self.world.report(job, step=step)

    def be_another_host(self, launches: str, patient: bool) -> None:
        self.world.launches, self.world.patient = launches, patient

    def pass_time(self, seconds: float) -> None:
        self.world.pass_time(seconds)

    def restart(self) -> None:
        self.world.restart()

    # ------------------------------------------------------------- devices

    def drain_or_resume(self, pick: int, drained: bool) -> None:
        uuid = self.server[pick % len(self.server)].uuid
        reason = "test" if drained else None
        self.world.step(ev.DrainRequested(at=self.world.now, device=uuid, reason=reason))

    def see(self, devices: tuple[Device, ...]) -> None:
        self.world.devices = devices
        self.world.step(ev.DevicesSeen(at=self.world.now, devices=devices))
        self.world.read()

    def a_device_vanishes(self, pick: int, restart: bool) -> None:
        """At times the daemon with it; one device stays."""
        gone = self.server[pick % len(self.server)]
        if len(self.server) > 1:
            self.see(tuple(d for d in self.server if d is not gone))
            if restart:
                self.world.restart()

    def it_returns(self) -> None:
        self.see(self.server)

    # ------------------------------------------------------------- what always holds

    def check(self) -> None:
        self.jobs_wait_for_what_they_follow_and_for_nothing_else()
        self.what_is_remembered_is_what_is_unfinished()
        self.the_line_holds_those_who_could_start()
        self.reservations_have_holders_and_fit()
        self.every_deadline_has_its_timer()
        a_restart_would_change_nothing(self.world)
        lost_figures_change_nothing_else(self.world)

    def jobs_wait_for_what_they_follow_and_for_nothing_else(self) -> None:
        self.settle_model()
        for job in self.world.jobs.values():
            if not job.state.final:
                assert set(job.after) == set(self.open[job.id]), f"job {job.id} follows {job.after}"
                assert not (job.after and job.state.live), f"job {job.id} runs before its time"

    def what_is_remembered_is_what_is_unfinished(self) -> None:
        state, world = self.world.scheduler.state, self.world
        unfinished = {i: j for i, j in world.jobs.items() if not j.state.final}
        assert state.jobs == unfinished
        assert state.attempts == {a.job_id: a for a in world.attempts.values() if a.ended is None}
        assert {i for i, j in unfinished.items() if j.state.live} == set(state.attempts)
        arrays: dict[int, set[int]] = {}
        for job in unfinished.values():
            if job.array is not None:
                arrays.setdefault(job.array.array_id, set()).add(job.id)
        assert {i: set(a.unfinished) for i, a in state.queue.arrays.items()} == arrays

    def the_line_holds_those_who_could_start(self) -> None:
        state = self.world.scheduler.state
        for job in state.jobs.values():
            aside = job.held or job.after or job.estimating or job.pause
            ready = job.state.waiting and not aside
            aside = job.array is not None and state.queue.arrays[job.array.array_id].stands_aside(
                job.id
            )
            aside |= state.lines.why_aside(job.id) is not None
            assert (job.id in state.lines) is (ready and not aside), f"job {job.id} {job.state}"
            assert (job.id in state.lines.gpuless) <= (job.spec.gpus == 0)
            assert ready or not aside, f"job {job.id} stands aside and could not start"
            assert self.world.why(job) or not job.state.waiting, "a waiting job cannot say why"
        for array in state.queue.arrays.values():
            inside = [
                i
                for i in array.unfinished
                if i in state.attempts or i in state.lines or i in state.lines.aside
            ]
            others = [i for i in array.unfinished if array.stands_aside(i)]
            if array.at_once is not None:
                assert len(inside) <= array.at_once, "more elements have a place than may"
                assert not others or len(inside) == array.at_once, "a place stays empty"

    def reservations_have_holders_and_fit(self) -> None:
        world, state = self.world, self.world.scheduler.state
        held = {k: r for k, r in world.stored.items() if not r.kind.planned}
        for (owner, _, uuid), reservation in held.items():
            attempt = state.attempts.get(reservation.job_id or 0)
            assert attempt is not None, f"{owner} has a reservation on {uuid} and does not run"
            assert uuid in attempt.placement.devices
        for device in world.devices:
            ledger = state.ledgers[device.uuid]
            saved = {k: r for k, r in world.stored.items() if r.device == device.uuid}
            assert ledger.reservations == saved
            here = [r for r in held.values() if r.device == device.uuid]
            reserved = (device.capacity_mib if r.mib is None else r.mib for r in here)
            assert sum(reserved) <= device.capacity_mib
            assert {f"job:{i}" for i in ledger.occupants} == {r.owner for r in here}
        for uuid in state.ledgers.keys() - {d.uuid for d in world.devices}:
            gone = state.ledgers[uuid]
            may_return = gone.device.kind is DeviceKind.GPU
            assert gone.vanished and (gone.occupants or may_return), "it is not forgotten"
        gpuless = [state.jobs[i] for i, a in state.attempts.items() if not a.placement.devices]
        users = {job.spec.uid for job in gpuless}  # each may run one beyond the limit
        assert len(gpuless) <= CORE.gpuless_at_once + max(0, len(users) - 1)

    def every_deadline_has_its_timer(self) -> None:
        state = self.world.scheduler.state
        wake_at = self.world.decisions[-1].wake_at
        for job in state.jobs.values():
            if job.pause is not None:
                assert job.state.waiting, "only what waits can stand aside"
                assert wake_at <= job.pause.until_boot_s
        for job, attempt in state.running():
            due = [] if attempt.stop is None else [self.world.now.boot_s + CORE.grace_s]
            if attempt.stop is None and attempt.started and job.spec.time_limit_s is not None:
                due.append(attempt.started.boot_s + job.spec.time_limit_s)
            assert all(wake_at is not None and wake_at <= moment for moment in due)
        assert state.launch_error is None or wake_at is not None
        all_that_waits_has_an_end(self.world)

    # ------------------------------------------------------------- the end

    def end_well(self) -> None:
        """Everything is mended and let go: then every job ends, and nothing is left of it."""
        world = self.world
        world.launches, world.patient = "work", False
        self.see(self.server)
        for device in self.server:
            world.step(ev.DrainRequested(at=world.now, device=device.uuid, reason=None))
        for job in list(world.jobs.values()):
            if job.state.waiting:
                world.hold(job, False)
        for _ in range(2 * len(world.jobs) + 2):
            world.pass_time(CORE.retry_most_s)
            for job in list(world.jobs.values()):
                if world.live(job):
                    world.end(job)
        assert [j.id for j in world.jobs.values() if not j.state.final] == []
        world.pass_time(A_LONG_TIME_S)
        state = world.scheduler.state
        assert not state.attempts and not len(state.lines) and not state.queue.arrays
        assert not world.reservations
        assert not any(le.occupants or le.reservations for le in state.ledgers.values())
        assert (len(state._followers), state._touched, len(state.timers)) == (0, {}, 0)

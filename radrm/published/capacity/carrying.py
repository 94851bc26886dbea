"""Carry out a plan: jobs save and stop, then others start on their GPUs.

A plan takes several calls, because a GPU is free only when its job has left and it has been read
again. Each call proposes what can be done now:

    Preempt   a job whose GPUs the plan gives away, or that is to run elsewhere, where the GPUs are
              not free yet
    Migrate   a job that is to run elsewhere, where the GPUs are free
    Start     a waiting job whose GPUs are free

A job is not stopped in its first seconds, since the core would pause it; the plan waits for it.

A job that has saved, failed to or left wakes the planner, so the wait for that is long. A GPU that
has been read again, a launch that is over, and a proposal that the core refused do not wake it; for
them it looks again soon. Each look plans in another process, from a copy of all jobs.

Nothing is asked for ever. A job that did not stop when asked twice is left alone for a while. One
that the core did not start, although its GPUs are free, is left out of the plans for a while; the
rule's `explain` says so. Both lead to a new plan.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from radrm.published.capacity.memory import Memory
from radrm.published.capacity.problem import (
    Allocation,
    Configuration,
    Problem,
    Room,
    Server,
    objective,
)
from radrm.published.capacity.situation import Situation
from radrm.rules import (
    LOCAL_NODE,
    ActionKind,
    Attempt,
    Collocation,
    Device,
    DeviceKind,
    DeviceSnapshot,
    Job,
    JobState,
    Migrate,
    Placement,
    Preempt,
    Proposal,
    Share,
    Start,
    View,
    sizes,
)

# ------------------------------------------------------------------
# Which server and which GPUs each job of a plan gets.
#
# In the published system a move is free. Here none is made that wins nothing: servers that are
# alike can be exchanged in a plan, so a job that keeps its configuration keeps its server, if the
# plan does not cost more by that.


_SAME = 1e-9


def settle(
    view: View, situation: Situation, plan: Allocation, code: bool = False, whole: bool = False
) -> dict[int, tuple[str, ...]]:
    """Return the devices of each job of a plan, by the job's id.

    `whole`: each job has its server alone.
    """
    stays = _staying(situation, plan)
    packed = _packed(situation.problem, plan, stays) if stays and not whole else None
    best = objective(situation.problem, plan, code)
    if packed is None or objective(situation.problem, packed, code) > best + _SAME * abs(best):
        packed = _exchanged(situation.problem, plan, stays)
    return _devices(view, situation, packed)


def _staying(situation: Situation, plan: Allocation) -> dict[int, int]:
    """Return the server of each job that can stay: it keeps its configuration."""
    place_of = {
        device.uuid: place for place, devices in enumerate(situation.devices) for device in devices
    }
    found = {}
    for number, (_, configuration) in plan.items():
        work = situation.problem.works[number]
        live = situation.live.get(work.job_id)
        if live is None or work.here != (configuration.kind, configuration.gpus):
            continue
        places = {place_of.get(uuid) for uuid in live.placement.devices}
        place = places.pop() if len(places) == 1 else None
        if place is not None:
            found[number] = place
    return found


def _packed(problem: Problem, plan: Allocation, stays: Mapping[int, int]) -> Allocation | None:
    """Return the plan with all that can stay at its server, the others as they fit best."""
    found: dict[int, tuple[int, Configuration]] = {}
    free = [server.gpus for server in problem.servers]
    for number, place in stays.items():
        found[number] = (place, plan[number][1])
        free[place] -= plan[number][1].gpus
    left = [
        Server(server.kind, gpus, server.used)
        for server, gpus in zip(problem.servers, free, strict=True)
    ]
    room = Room(left)
    others = [number for number in plan if number not in stays]
    for number in sorted(others, key=lambda each: -plan[each][1].gpus):
        configuration = plan[number][1]
        at = room.take(configuration.kind, configuration.gpus)
        if at is None:
            return None
        found[number] = (at, configuration)
    return found


def _exchanged(problem: Problem, plan: Allocation, stays: Mapping[int, int]) -> Allocation:
    """Return the plan with servers that are alike exchanged, so that more jobs stay."""
    won: dict[tuple[int, int], int] = {}
    for number, place in stays.items():
        if problem.servers[place] == problem.servers[plan[number][0]]:
            pair = (plan[number][0], place)
            won[pair] = won.get(pair, 0) + 1
    goes: dict[int, int] = {}
    for (old, new), _ in sorted(won.items(), key=lambda each: (-each[1], each[0])):
        if old not in goes and new not in goes.values():
            goes[old] = new
    free: dict[Server, list[int]] = {}
    for place in reversed(range(len(problem.servers))):
        if place not in goes.values():
            free.setdefault(problem.servers[place], []).append(place)
    for place, server in enumerate(problem.servers):
        if place not in goes:
            goes[place] = free[server].pop()
    return {number: (goes[place], each) for number, (place, each) in plan.items()}


def _devices(view: View, situation: Situation, plan: Allocation) -> dict[int, tuple[str, ...]]:
    """Return the GPUs of each job: those that it has, then those that are free now."""
    left = [{device.uuid: device for device in devices} for devices in situation.devices]
    found: dict[int, tuple[str, ...]] = {}
    works = situation.problem.works
    moving = []
    for number, (place, configuration) in plan.items():
        work = works[number]
        live = situation.live.get(work.job_id)
        uuids = live.placement.devices if live is not None else ()
        same = work.here == (configuration.kind, configuration.gpus)
        if same and left[place].keys() >= set(uuids):
            found[work.job_id] = uuids
            for uuid in uuids:
                del left[place][uuid]
        else:
            moving.append(number)
    for number in sorted(moving):
        place, configuration = plan[number]
        job = view.job(works[number].job_id)
        assert job is not None  # it has just been planned
        ranked = [
            (view.rank(job, device)[:2], uuid not in situation.ready, device.index, device)
            for uuid, device in left[place].items()
        ]
        chosen = [row[3] for row in sorted(ranked, key=lambda row: row[:3])[: configuration.gpus]]
        found[job.id] = tuple(device.uuid for device in sorted(chosen, key=lambda d: d.index))
        for device in chosen:
            del left[place][device.uuid]
    return found


SOON_S = 1.0
"""When to look again for what does not wake the planner."""
ANSWER_S = 30.0
"""When to look again at the latest, where an event is to come: a request to save may have ended at
its deadline, which is none."""
_TRIES = 2
_REJECTED = 20
"""So often the core may reject the request, before the job counts as one that does not stop."""
_KEPT_S = 3600.0
"""For so long at least a job that did not stop is left alone."""
_HOLD_S = 30.0
"""For so long a job may wait on free GPUs: the core refuses its start, or CPUs are missing."""


class Carrying(Struct):
    """One call's part of a plan. `patience_s`: how long to leave alone what did not work."""

    view: View
    situation: Situation
    memory: Memory
    patience_s: float
    again_s: float | None = None
    """Afterwards: in how many seconds to look again; None if nothing is left to be done."""

    def proposals(self) -> Iterator[Proposal]:
        """Yield what can be done now."""
        yield from self._stops()
        nodes = _Nodes(self.view)
        taken: set[str] = set()
        plan = self.memory.plan
        waiting = {job.id: job for job in self.view.waiting()}
        for job_id in self.memory.tried.keys() - waiting.keys():
            del self.memory.tried[job_id]
        for job_id, uuids in plan.items():
            job = waiting.get(job_id)
            if job is None:
                continue
            placement = placement_of(job, uuids, self.situation.seen)
            free = placement is not None and self.situation.ready.issuperset(uuids)
            if not free or placement is None or taken.intersection(uuids):
                self.memory.tried.pop(job_id, None)
                self._wait(ANSWER_S if self._held(uuids) else SOON_S)
                continue
            self._note_try(job_id)
            taken.update(uuids)
            if nodes.book(placement):
                yield Start(job_id=job_id, placement=placement)
        yield from self._gpuless(nodes)

    # ------------------------------------------------------------- jobs that run

    def _stops(self) -> Iterator[Proposal]:
        memory, situation = self.memory, self.situation
        wanted = {uuid for uuids in memory.plan.values() for uuid in uuids}
        if situation.leaving:
            self._wait(ANSWER_S)
        moved: set[str] = set()
        for job_id, live in situation.live.items():
            job = self.view.job(job_id)
            uuids = memory.plan.get(job_id)
            here = live.placement.devices
            keeps = uuids is not None and set(uuids) == set(here)
            if job is None or keeps or (uuids is None and not wanted.intersection(here)):
                memory.asked.pop(job_id, None)
                continue
            young_s = self._young_s(live)
            busy = live.asked(ActionKind.CHECKPOINT) is not None
            self._wait(ANSWER_S if busy else max(SOON_S, young_s))
            if young_s > 0 or busy or job.state is not JobState.RUNNING:
                continue
            if not self._may_ask(live):
                continue
            if uuids is not None and situation.ready.issuperset(uuids):
                placement = placement_of(job, uuids, self.situation.seen)
                if placement is not None and not moved.intersection(uuids):
                    moved.update(uuids)
                    yield Migrate(job_id=job_id, placement=placement)
                    continue
            yield Preempt(job_id=job_id)

    def _held(self, uuids: Sequence[str]) -> bool:
        """Return whether each of these GPUs is ready or has jobs, whose end is an event."""
        devices = [self.situation.seen.get(uuid) for uuid in uuids]
        ready = self.situation.ready
        return not ready.issuperset(uuids) and all(
            each is not None and (each.device.uuid in ready or each.occupants) for each in devices
        )

    def _wait(self, seconds: float = SOON_S) -> None:
        self.again_s = seconds if self.again_s is None else min(self.again_s, seconds)

    def _young_s(self, live: Attempt) -> float:
        """Return for how long an attempt is not to be stopped.

        One that is preempted earlier counts as a setback, and the core pauses its job.
        """
        now, least_s = self.view.now, self.view.settings.retry_s
        return max(0.0, least_s - (now.since(live.launched) or 0.0))

    def _may_ask(self, live: Attempt) -> bool:
        """Note that a job is asked to stop. False if it did not stop before: it is left alone."""
        memory, job_id = self.memory, live.job_id
        at = live.checkpoint_asked
        answer_s = -1.0 if at is None else at.boot_s
        before = memory.asked.get(job_id)
        if before is None or before[0] != live.serial:
            before = (live.serial, answer_s, 0, 0)
        failed = before[2] + (answer_s > before[1])
        if failed >= _TRIES or before[3] >= _REJECTED:
            until_s = self.view.now.boot_s + max(self.patience_s, _KEPT_S)
            memory.kept[job_id] = (live.serial, until_s)
            memory.asked.pop(job_id, None)
            return False
        memory.asked[job_id] = (live.serial, answer_s, failed, before[3] + 1)
        return True

    # ------------------------------------------------------------- jobs that wait

    def _note_try(self, job_id: int) -> None:
        """Note that a job's GPUs are free; after some time without a start it rests."""
        memory, now_s = self.memory, self.view.now.boot_s
        self._wait()
        if now_s - memory.tried.setdefault(job_id, now_s) >= _HOLD_S:
            memory.resting[job_id] = now_s + self.patience_s
            del memory.tried[job_id]

    def _gpuless(self, nodes: _Nodes) -> Iterator[Proposal]:
        """Start the jobs without GPUs in their order, as far as the server has room.

        A user who runs none may start one beyond the limit (`core/state/queue/queue.py`).
        """
        users = [job.spec.uid for job, _ in self.view.running() if not job.spec.gpus]
        most = self.view.settings.gpuless_at_once
        for job in self.view.waiting(gpuless=True):
            if len(users) >= most and (job.spec.uid in users or not most):
                continue
            users.append(job.spec.uid)
            placement = placement_of(job, (), {})
            if placement is None or not nodes.book(placement):
                return
            yield Start(job_id=job.id, placement=placement)


class _Nodes:
    """The CPUs and the host memory that are still free during a call."""

    def __init__(self, view: View) -> None:
        self._cpus = {each.node.name: each.cpus_free for each in view.nodes()}
        self._mib = {each.node.name: each.memory_free_mib for each in view.nodes()}
        self._full: set[str] = set()

    def book(self, placement: Placement) -> bool:
        """Book what a placement takes. False, and then also for later jobs, without room.

        Else small jobs could for ever take what a large one waits for.
        """
        tasks = {(s.role, s.task): s for s in placement.shares if s.cpus or s.memory_mib}
        cpus: dict[str, float] = {}
        mib: dict[str, int] = {}
        for share in tasks.values():
            cpus[share.node] = cpus.get(share.node, 0.0) + (share.cpus or 0.0)
            mib[share.node] = mib.get(share.node, 0) + (share.memory_mib or 0)
        for node in cpus:
            has, has_mib = self._cpus.get(node), self._mib.get(node)
            lacks = has is not None and cpus[node] > has + 1e-6
            if node in self._full or lacks or (has_mib is not None and mib[node] > has_mib):
                self._full.add(node)
                return False
        for node in cpus:
            has, has_mib = self._cpus.get(node), self._mib.get(node)
            self._cpus[node] = None if has is None else has - cpus[node]
            self._mib[node] = None if has_mib is None else has_mib - mib[node]
        return True


def placement_of(
    job: Job, uuids: Sequence[str], seen: Mapping[str, DeviceSnapshot]
) -> Placement | None:
    """Return a job's placement alone on these GPUs; None if their number or kind is wrong."""
    found = [seen.get(uuid) for uuid in uuids]
    devices = [each.device for each in found if each is not None]
    can = sizes(job) or {job.spec.gpus}
    if len(devices) != len(uuids) or len(uuids) not in can:
        return None
    modes = {each.kind is DeviceKind.MIG for each in devices}
    if len(modes) > 1:
        return None
    left, shares = list(devices), []
    for role in job.spec.roles:
        elastic = role.needs.gpus and sizes(job) is not None
        for task in range(len(uuids) if elastic else job.count(role)):
            given, left = left[: role.needs.gpus], left[role.needs.gpus :]
            of_task: list[Device | None] = [*given] or [None]
            for device in of_task:
                share = Share(
                    device=None if device is None else device.uuid,
                    reserved_mib=0 if device is None else device.capacity_mib,
                    node=LOCAL_NODE if device is None else device.node,
                    role=role.name,
                    task=task,
                    cpus=role.needs.cpus,
                    memory_mib=job.host_memory_mib(role, task),
                )
                shares.append(share)
    return Placement(tuple(shares), Collocation.MIG if True in modes else Collocation.EXCLUSIVE)

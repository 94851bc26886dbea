"""What no rule may break: capacity, cohorts, kinds, holds, a job's own limits.

Every proposal passes here, whoever made it. The same functions answer "why not
this device?" for a waiting job, so an explanation is never about another rule
than the one that decides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from radrm.core.proposals import (
    Hopeless,
    Migrate,
    Preempt,
    Proposal,
    ResizeTo,
    SetShares,
    Start,
    TakeCheckpointNow,
)
from radrm.core.records import Attempt, Device, Instant, Job, Needs, Placement, Refusal, Role
from radrm.core.state.ledger import DeviceLedger, Holding
from radrm.core.state.state import State, owner_of
from radrm.core.units import show_mib, show_seconds
from radrm.core.words import CheckpointKind, Collocation, DeviceKind, JobState

# ------------------------------------------------------------------ a job and a device


def effective_need_mib(state: State, job: Job, role: Role) -> int | None:
    """The job's need per GPU, an *estimate* beyond the devices clamped to what they have.

    What is declared or proven by a death is never clamped.
    """
    need = job.need_mib
    if need is None:
        return None
    largest = _largest_for_all(state, job)
    certain = max(role.needs.gpu_memory_mib or 0, job.memory_floor_mib or 0)
    return need if not largest else max(certain, min(need, largest))


def largest_mib(state: State, role: Role) -> int:
    """The most memory that as many devices have as the role wants; 0 where there are too few."""
    key = (role.count_min, role.needs.gpus, role.needs.mig_profile)
    found = state.largest_mib.get(key)
    if found is None:
        wanted = max(1, role.count_min * role.needs.gpus)
        found = state.largest_mib[key] = _largest_mib(state, [role.needs], wanted)
    return found


def _largest_for_all(state: State, job: Job) -> int:
    """`largest_mib` for all roles of a job together: an estimate is the whole job's."""
    roles = [role for role in job.spec.roles if role.count_min * role.needs.gpus]
    if len(roles) == 1:
        return largest_mib(state, roles[0])
    return _largest_mib(state, [role.needs for role in roles], job.spec.gpus)


def _largest_mib(state: State, needs: Sequence[Needs], wanted: int) -> int:
    capacities = sorted(
        (
            ledger.device.capacity_mib
            for ledger in state.ledgers.values()
            if all(kind_refusal(ledger.device, n, Collocation.AUTO) is None for n in needs)
        ),
        reverse=True,
    )
    return capacities[wanted - 1] if len(capacities) >= wanted else 0


def wants_whole_device(state: State, job: Job) -> bool:
    """True for exclusive jobs, for recovery, and for estimates beyond the devices."""
    if job.own_device or job.spec.collocation is Collocation.EXCLUSIVE:
        return True
    need, largest = job.need_mib, _largest_for_all(state, job)
    return need is not None and 0 < largest < need


def mode_on(state: State, job: Job, role: Role, ledger: DeviceLedger) -> Collocation:
    """How this job would share this device, were it placed there."""
    wish = job.spec.collocation
    if ledger.device.kind is DeviceKind.MIG:
        return Collocation.MIG
    if wants_whole_device(state, job):
        return Collocation.EXCLUSIVE
    if wish is Collocation.AUTO:
        wish = state.settings.collocation
    if wish in (Collocation.AUTO, Collocation.MPS):
        if not _served(ledger.device, role.needs):
            return Collocation.TIMESLICE
        insists = job.spec.collocation is Collocation.MPS
        if state.settings.mps_timeslice_others and not insists:
            barred = _other_users_client(job, ledger) is not None
            return Collocation.TIMESLICE if barred else Collocation.MPS
        return Collocation.MPS
    return wish


def can_be_time_sliced(job: Job, mode: Collocation) -> bool:
    """Whether a job on several devices can do without being an MPS client where it would be
    one: a placement has one way of sharing, and not all its devices may have MPS."""
    insists = job.spec.collocation is Collocation.MPS
    return mode is Collocation.MPS and job.spec.gpus > 1 and not insists


def _other_users_client(job: Job, ledger: DeviceLedger) -> Holding | None:
    """A client of another user on a server that has one user at a time."""
    if ledger.device.mps_multiuser:
        return None
    for holding in ledger.holdings.values():
        client = holding.collocation is Collocation.MPS and holding.job_id != job.id
        if client and holding.uid != job.spec.uid:
            return holding
    return None


def _served(device: Device, needs: Needs) -> bool:
    """Whether a task with these needs can be a client of the device's MPS server."""
    return device.mps and (needs.gpus == 1 or device.mps_spans)


def refuse_device(
    state: State, job: Job, role: Role, ledger: DeviceLedger, mode: Collocation | None = None
) -> Refusal | None:
    """The first core rule by which this job cannot join this device now; None when it can.

    `mode`: how it would share the device, where that is not as the device would have it.
    """
    itself = _refuse_itself(state, job, role, ledger)
    if itself is not None:
        return itself
    mode = mode_on(state, job, role, ledger) if mode is None else mode
    return _sharing_refusal(state, job, ledger, mode)


def _refuse_itself(
    state: State, job: Job, role: Role, ledger: DeviceLedger, reading: bool = True
) -> Refusal | None:
    """Why the device cannot take this job, whoever is on it. `reading`: it must be known now
    what goes on there."""
    uuid = ledger.device.uuid

    def no(rule: str, why: str, needed: float | None = None, there: float | None = None) -> Refusal:
        return Refusal(rule=rule, message=why, device=uuid, needed=needed, available=there)

    if ledger.vanished:
        return no("vanished", "the device is no longer there")
    if ledger.drained is not None:
        return no("drained", f"drained: {ledger.drained}")
    kind = kind_refusal(ledger.device, role.needs, job.spec.collocation)
    if kind is not None:
        return no("kind", kind)
    need, capacity = effective_need_mib(state, job, role), ledger.device.capacity_mib
    if need is not None and need > capacity:
        return no("capacity", "the need is larger than the device", need, capacity)
    unknown = ledger.unreadable(state.turn.now.boot_s) if reading else None
    if unknown is not None:
        return no("reading", unknown)
    yields = ledger.yields()
    if yields is not None:
        return no("unmanaged", yields, state.settings.idle_unmanaged_mib, ledger.unmanaged_mib)
    leaving = _availability_refusal(job, ledger, state.turn.now)
    return None if leaving is None else no("availability", leaving)


def kind_refusal(device: Device, needs: Needs, wish: Collocation) -> str | None:
    """Why a task with these needs can never run on a device of this kind; None when it can."""
    if device.kind is DeviceKind.MIG:
        if needs.gpus > 1:
            return "a job on several GPUs cannot span MIG instances"
        if needs.mig_profile not in (None, device.profile):
            return f"its profile is {device.profile}, the job wants {needs.mig_profile}"
        if wish in (Collocation.MPS, Collocation.TIMESLICE):
            return f"a MIG instance has one job at a time; the job wants {wish.value}"
        return None
    if wish is Collocation.MIG or needs.mig_profile is not None:
        return "not a MIG instance"
    if wish is Collocation.MPS and not device.mps:
        return "MPS is not enabled here"
    if wish is Collocation.MPS and not _served(device, needs):
        return "its MPS server serves this GPU alone; a job on several cannot use it"
    return None


def _availability_refusal(job: Job, ledger: DeviceLedger, now: Instant) -> str | None:
    until = ledger.device.available_until
    if until is None:
        return None
    if until <= now.wall_s:
        return "its time of availability is over"
    limit = job.spec.time_limit_s
    if limit is None or now.wall_s + limit > until:
        return f"available for {until - now.wall_s:.0f} s more, too short for the job's time limit"
    return None


def _sharing_refusal(
    state: State, job: Job, ledger: DeviceLedger, mode: Collocation
) -> Refusal | None:
    uuid, owner = ledger.device.uuid, owner_of(job.id)
    others = [h for h in ledger.holdings.values() if h.job_id != job.id]
    for holding in others:
        if holding.collocation.whole_device:
            return Refusal("taken", f"job {holding.job_id} has it to itself", uuid)
        if holding.recovering and not holding.settled:
            why = f"job {holding.job_id} recovers on it and its memory has not settled yet"
            return Refusal("recovering", why, uuid)
    if mode.whole_device and not ledger.idle_for(owner):
        whom = f"job {others[0].job_id} is on it" if others else "it is reserved or in use"
        return Refusal("not idle", f"the job wants a device to itself and {whom}", uuid)
    for holding in others:
        if not _mix(state, holding.collocation, mode):
            why = f"job {holding.job_id} shares it by {holding.collocation.value}, not {mode.value}"
            return Refusal("mode", why, uuid)
    if mode is not Collocation.MPS or ledger.device.mps_multiuser:
        return None
    other = _other_users_client(job, ledger)
    if other is not None:
        return Refusal("cohort", f"job {other.job_id} of another user is on its MPS server", uuid)
    return _refuse_for_turn(state, job, ledger)


def _mix(state: State, one: Collocation, other: Collocation) -> bool:
    """Whether jobs that share in these ways may be on one device together.

    To the GPU the MPS server is one process; it takes turns with any that is no client.
    """
    if one is other:
        return True
    both = {one, other} == {Collocation.MPS, Collocation.TIMESLICE}
    return both and state.settings.mps_timeslice_others


def _refuse_for_turn(state: State, job: Job, ledger: DeviceLedger) -> Refusal | None:
    """So that other users' turn on an MPS server comes."""
    if ledger.turn_over(state.turn.now.boot_s) is None:
        return None
    next_id = turns(state).get(ledger.device.uuid)
    if next_id is None or state.jobs[next_id].spec.uid == job.spec.uid:
        return None
    had, label = show_seconds(state.settings.mps_cohort_s), state.jobs[next_id].label
    why = f"one user has had its MPS server for {had}, the turn is job {label}'s of another user"
    return Refusal("turn", why, ledger.device.uuid)


def turns(state: State) -> dict[str, int]:
    """The job whose turn it is next on each MPS server whose user has had its turn.

    A server has one user at a time. Once one user's clients have been there for
    `core.mps_cohort_s`, the next is the user among those who wait whose last turn there is
    longest ago, and of several the first in line. A job is named only where it could start
    if the device were empty, and once: nobody is refused for one who is not served then.
    """
    now_s = state.turn.now.boot_s
    over = [le for le in state.ledgers.values() if le.turn_over(now_s) is not None]
    found: dict[str, int] = {}
    given: Counter[int] = Counter()
    for ledger in sorted(over, key=lambda le: (le.cohort_since_s, le.device.uuid)):
        had = ledger.turn_over(now_s)
        waiting = [
            (ledger.last_turn_s.get(uid, float("-inf")), line.at(given[uid]), uid)
            for uid, line in state.waiting.of_user.items()
            if uid != had and given[uid] < len(line)
        ]
        fitting = [
            (last_s, state.waiting.gpu.position(job_id), job_id, uid)
            for last_s, job_id, uid in waiting
            if _could_be_next(state, state.jobs[job_id], ledger)
        ]
        if fitting:
            *_, job_id, uid = min(fitting)
            found[ledger.device.uuid] = job_id
            given[uid] += 1
    return found


def _could_be_next(state: State, job: Job, ledger: DeviceLedger) -> bool:
    """Whether a waiting job would be this MPS server's client, were the device empty."""
    if job.spec.gpus != 1:
        return False
    role = next(role for role in job.spec.roles if role.count_min * role.needs.gpus)
    return (
        mode_on(state, job, role, ledger) is Collocation.MPS
        and _refuse_itself(state, job, role, ledger, reading=False) is None
        and ledger.unmanaged_mib is not None
        and ledger.unmanaged_mib <= state.settings.idle_unmanaged_mib
    )


# ------------------------------------------------------------------ a whole job


def refuse_gpuless(state: State) -> Refusal | None:
    """Why no further job without a GPU can start now; None when one can."""
    running, most = state.gpuless_running(), state.settings.gpuless_at_once
    if running < most:
        return None
    why = f"{running} jobs without a GPU run, as many as may at a time"
    return Refusal("gpuless", why, None, most, running)


def hopeless(state: State, job: Job, wish: Collocation | None = None) -> str | None:
    """Why this job can never run on these devices; None when it can, or when none are known.

    A GPU that has vanished may come back and counts. `wish`: how it would share, where that
    is not as it says.
    """
    devices = state.known_devices()
    if not devices or job.spec.gpus == 0:
        return None
    wish = job.spec.collocation if wish is None else wish
    wanted: list[tuple[int, Sequence[Device]]] = []
    for role in job.spec.roles:
        needs, count = role.needs, role.count_min * role.needs.gpus
        fitting = [d for d in devices if kind_refusal(d, needs, wish) is None]
        if count and not fitting:
            kinds = sorted({d.profile or d.name for d in devices})
            refusals = [kind_refusal(d, needs, wish) for d in devices]
            why = "; ".join(sorted({r for r in refusals if r is not None}))
            return f"no device here suits it ({', '.join(kinds)}): {why}"
        if (few := shortage([(count, fitting)])) is not None:
            return _too_many(*few)
        certain = max(needs.gpu_memory_mib or 0, job.memory_floor_mib or 0)
        large = [d for d in fitting if d.capacity_mib >= certain]
        if shortage([(count, large)]) is not None:
            sizes = sorted((d.capacity_mib for d in fitting), reverse=True)
            return (
                f"it needs {show_mib(certain)} ({certain} MiB) on each of {count} GPU(s); "
                f"the largest here have {show_mib(sizes[0])} ({sizes[0]} MiB)"
            )
        wanted.append((count, large))
    few = shortage(wanted)
    return None if few is None else _too_many(*few)


def shortage(wanted: Sequence[tuple[int, Sequence[Device]]]) -> tuple[int, int] | None:
    """How many devices are wanted, and how many one placement can have, where those are too
    few; None where they suffice.

    `wanted`: for each role how many it wants, and of which. No two roles share a device, and
    a placement has one way of sharing: it has GPUs or MIG instances, not both.
    """

    def of(kind: DeviceKind, devices: Sequence[Device]) -> set[str]:
        return {device.uuid for device in devices if device.kind is kind}

    total, most, fewest = sum(count for count, _ in wanted), 0, None
    for kind in DeviceKind:
        found = [(count, of(kind, devices)) for count, devices in wanted]
        short = next(((count, len(some)) for count, some in found if count > len(some)), None)
        every = len(set[str]().union(*(some for _, some in found)))
        if short is None and total <= every:
            return None
        if short is not None and short[1] >= most:
            fewest, most = short, short[1]
        elif short is None:
            fewest, most = (total, every), every
    return fewest


def _too_many(wanted: int, there: int) -> str:
    return f"it wants {wanted} GPUs and at most {there} of a kind that suits it exist"


# ------------------------------------------------------------------ proposals


def check(state: State, proposal: Proposal) -> Refusal | None:
    """None when the proposal may be carried out as the state stands."""
    job = state.jobs.get(proposal.job_id)
    if job is None:
        return Refusal("job", f"job {proposal.job_id} does not exist or has ended")
    if isinstance(proposal, (Start, Hopeless)):
        if job.id not in state.waiting and state.waiting.why_aside(job.id) is None:
            return Refusal("job", f"job {job.id} is not waiting to start")
        if isinstance(proposal, Start) and state.launch_trouble is not None:
            return Refusal("launch", f"nothing can be started: {state.launch_trouble}")
        if isinstance(proposal, Start):
            return check_placement(state, job, proposal.placement)
        return None
    attempt = state.attempts.get(job.id)
    if attempt is None or job.state is not JobState.RUNNING:
        return Refusal("job", f"job {job.id} is not running")
    return _check_running(state, job, attempt, proposal)


def _check_running(state: State, job: Job, attempt: Attempt, proposal: Proposal) -> Refusal | None:
    can_save = job.spec.checkpoint.kind is not CheckpointKind.NONE
    if isinstance(proposal, Preempt):
        if not can_save and not job.spec.requeue:
            return Refusal("checkpoint", "it can neither save its work nor be run again")
        return None
    if isinstance(proposal, TakeCheckpointNow):
        return None if can_save else Refusal("checkpoint", "it cannot save its work")
    if isinstance(proposal, SetShares):
        return _check_shares(attempt, proposal)
    if job.target is not None or attempt.target is not None:
        return Refusal("moving", "a migration or resize of it is under way")
    if isinstance(proposal, Migrate):
        if not can_save:
            return Refusal("checkpoint", "it cannot save its work")
        return check_placement(state, job, proposal.placement)
    assert isinstance(proposal, ResizeTo)
    before = _devices_by_task(attempt.placement)
    then = _devices_by_task(proposal.placement)
    if any(then[task] != devices for task, devices in before.items() if task in then):
        return Refusal("resize", "a task that stays cannot change its device")
    if proposal.placement.collocation is not attempt.placement.collocation:
        return Refusal("resize", "a resize cannot change the way of sharing")
    return check_placement(state, job, proposal.placement)


def _check_shares(attempt: Attempt, proposal: SetShares) -> Refusal | None:
    def fixed(placement: Placement) -> Counter[tuple[object, ...]]:
        return Counter((s.role, s.task, s.node, s.device, s.reserved_mib) for s in placement.shares)

    wanted = Placement(shares=proposal.shares, collocation=attempt.placement.collocation)
    if fixed(wanted) != fixed(attempt.placement):
        return Refusal("shares", "only CPU and SM caps can change while a job runs")
    for share in proposal.shares:
        if share.sm_fraction is not None and not 0 < share.sm_fraction <= 1:
            return Refusal("shares", "an SM fraction lies in (0, 1]", share.device)
        if share.cpus is not None and share.cpus <= 0:
            return Refusal("shares", "a CPU cap is above zero", share.device)
    return None


def _devices_by_task(placement: Placement) -> dict[tuple[str, int], list[str | None]]:
    found: dict[tuple[str, int], list[str | None]] = {}
    for share in placement.shares:
        found.setdefault((share.role, share.task), []).append(share.device)
    return found


def check_placement(state: State, job: Job, placement: Placement) -> Refusal | None:
    """All shares of a placement, or none: kinds, numbers, room and company."""
    if not job.spec.gpus:
        busy = refuse_gpuless(state)
        if busy is not None:
            return busy
    roles = {role.name: role for role in job.spec.roles}
    shape = _check_shape(roles, placement)
    if shape is not None:
        return shape
    owner = owner_of(job.id)
    role_of = {s.device: roles[s.role] for s in placement.shares if s.device is not None}
    for uuid, promised in State.promises(placement).items():
        role = role_of[uuid]
        ledger = state.ledgers.get(uuid)
        if ledger is None:
            return Refusal("vanished", "there is no such device", uuid)
        mode = mode_on(state, job, role, ledger)
        if placement.collocation is Collocation.TIMESLICE and can_be_time_sliced(job, mode):
            mode = Collocation.TIMESLICE
        refusal = refuse_device(state, job, role, ledger, mode)
        if refusal is not None:
            return refusal
        if placement.collocation is not mode and not placement.collocation.whole_device:
            return Refusal("mode", f"the job would share it by {mode.value}", uuid)
        if placement.collocation.whole_device and not ledger.idle_for(owner):
            return Refusal("not idle", "others are on it or have reserved it", uuid)
        room = _check_room(state, job, role, ledger, promised)
        if room is not None:
            return room
    return None


def _check_shape(roles: dict[str, Role], placement: Placement) -> Refusal | None:
    counts = placement.tasks()
    for name, role in roles.items():
        if not role.allows(counts.get(name, 0)):
            span = f"{role.count_min}..{role.count_max}"
            return Refusal(
                "count",
                f"role {name} runs with {span} tasks",
                None,
                role.count_min,
                counts.get(name),
            )
    for (name, task), devices in _devices_by_task(placement).items():
        if name not in roles:
            return Refusal("role", f"the job has no role {name}")
        wanted = roles[name].needs.gpus
        gpus = [d for d in devices if d is not None]
        if len(gpus) != wanted or len(set(gpus)) != len(gpus):
            why = f"task {task} of role {name} wants {wanted} different GPUs"
            return Refusal("count", why, None, wanted, len(set(gpus)))
    return None


def _check_room(
    state: State, job: Job, role: Role, ledger: DeviceLedger, promised: int | None
) -> Refusal | None:
    if promised is None:
        return None
    uuid, owner = ledger.device.uuid, owner_of(job.id)
    need = effective_need_mib(state, job, role)
    if need is not None and promised < need:
        return Refusal("promise", "less is promised than the job needs", uuid, need, promised)
    room = ledger.free_mib(owner)
    if ledger.idle_for(owner):
        # A trifle of unmanaged memory must not keep a job off a device that it fits.
        room = ledger.device.capacity_mib
    if room is None or (promised > room and not state.settings.overcommit):
        return Refusal("memory", "not enough free memory", uuid, promised, room)
    return None

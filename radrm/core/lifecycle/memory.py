"""Memory of jobs that may grow: host memory in place and after a death, GPU memory up to a cap.

Host memory of a running job that is near its limit grows while its node has room. The growth is a
change of shares, which the host applies and answers. It doubles what the job books, up to the range
of the job and to the room on its node. It never shrinks: the kernel would have to take pages away
from running tasks. While a job waits for host memory, none grows.

After a death at that limit the next attempt of an elastic job books twice as much, up to its range
and to the largest node. For a parameter server, which is a task of any role but the last one, the
*number* of servers doubles instead, because their parameters are divided among them (DLRover,
section 4.2). So such deaths end: each one has the job larger, up to its most.

Theory of operation: memory caps
--------------------------------
A cap is the most that the processes of an attempt may hold on a GPU, where that is enforced.
Each client of an MPS server has a cap, which it reads when it starts: nobody can change it then.
Elsewhere the driver may enforce one for all processes of an attempt together (`Device.caps`); such
a cap can be raised.

    declared memory, by MPS     the reservation, and all that is unreserved at the start
    declared, by the driver     the reservation, which has a margin (`Job.margin_mib`)
    SIZE:LIMIT                  LIMIT
    an estimate, by MPS         the reservation, which `core.stretch` has enlarged
    an estimate, by the driver  `core.stretch` times the estimate

A declared size is what its submitter has seen, or a guess. As a hard cap it would kill a job that
needs slightly more, beside free memory. SIZE:SIZE asks for a hard cap.

A cap is never below the reservation. Beyond, at its start, it is what nobody has reserved: no
reservation is weakened. What an attempt uses beyond its reservation counts as used, so jobs that
come later see it.

An allocation beyond a cap fails at once, before any reading shows it. So the driver's cap of an
attempt that uses `FULL` of it is raised, up to its LIMIT, while memory is unreserved. It never
shrinks: the attempt may have filled it. It begins small because CUDA shows it to the program as the
size of the GPU.

A job without a known need has no cap, nor has one that recovers on idle devices: a cap could kill
it again. Nor has an attempt whose tasks change while it runs a cap by the driver: the driver has
none for the devices that it gets later.
"""

from __future__ import annotations

from math import inf

from radrm.core.constraints.feasibility import hopeless
from radrm.core.constraints.nodes import MEMORY, refuse_size
from radrm.core.constraints.proposal import check
from radrm.core.lifecycle.asking import ask
from radrm.core.proposals import SetShares
from radrm.core.records import Attempt, Caps, Job, Placement, Role
from radrm.core.state.ledger import DeviceLedger
from radrm.core.state.nodes import free_memory_mib
from radrm.core.state.state import State, owner_of
from radrm.core.units import show_mib
from radrm.core.words import ActionKind, Collocation, Resizing
from radrm.structs import replace

FULL = 0.9
"""A job that uses this part of its host memory or of its cap gets more (as DLRover scales up,
section 4.2)."""
GROWTH = "memory growth"
"""The name of such a change among failed proposals (`state.proposals`)."""
_LEAST_MIB = 64
"""A smaller growth or raise is not worth an action, unless it reaches the end of the range."""


def grow_memory(state: State, job: Job, attempt: Attempt) -> None:
    """Ask for more host memory for a job whose measured use is near what it books, if it may."""
    span, use, booked = job.spec.memory_range_mib, attempt.host_use, booked_mib(job, attempt)
    if span is None or use is None or use.memory_mib is None or booked is None:
        return
    if booked >= span[1] or use.memory_mib < FULL * booked:
        return
    if state.proposals.pausing(job.id, GROWTH, state.step.now.boot_s) is not None:
        return
    shares = attempt.placement.shares
    first = next(s for s in shares if is_first(job, s.role, s.task))
    free = free_memory_mib(state.nodes, first.node)
    most = span[1] if free is None else min(span[1], booked + free)
    wanted = min(2 * booked, most)
    if wanted - booked < min(_LEAST_MIB, span[1] - booked) or _somebody_waits(state):
        return
    grown = tuple(
        replace(s, memory_mib=wanted) if is_first(job, s.role, s.task) else s for s in shares
    )
    if check(state, SetShares(job_id=job.id, shares=grown)) is None:
        ask(state, job, attempt, ActionKind.SHARES, shares=grown)


def booked_mib(job: Job, attempt: Attempt) -> int | None:
    """Return the host memory that an attempt books for its whole job; None without a range."""
    if job.spec.memory_range_mib is None:
        return None
    for share in attempt.placement.shares:
        if is_first(job, share.role, share.task):
            return share.memory_mib
    return None


def is_first(job: Job, role: str, task: int) -> bool:
    """Return whether a task is the one that books the host memory of a job with a range of it."""
    return task == 0 and role == job.spec.roles[0].name


def _somebody_waits(state: State) -> bool:
    """Return whether the head of a line waits for host memory."""
    heads = state.lines.gpu.head(), state.queue.gpuless.head()
    lacks = [refuse_size(state, state.jobs[job_id]) for job_id in heads if job_id is not None]
    return any(refusal is not None and refusal.rule == MEMORY for refusal in lacks)


def enlarged(state: State, job: Job, attempt: Attempt, role_name: str) -> Job | str | None:
    """Return the job as it is started again after a task of this role ran out of host memory.

    A text: why it cannot have more. None: it has no range, so this is a failure like any other.
    """
    role = next((each for each in job.spec.roles if each.name == role_name), None)
    span, why = job.spec.memory_range_mib, None
    if role is not None and role is not job.spec.roles[-1] and role.count_max > role.count_min:
        more = _more_tasks(state, job, attempt, role)
        if isinstance(more, Job):
            return more
        why = more
    booked = booked_mib(job, attempt)
    if span is None or booked is None:
        return why
    there = [node.memory_mib for node in state.nodes.known()]
    largest = max((mib for mib in there if mib is not None), default=None)
    most = span[1] if largest is None or None in there else min(span[1], largest)
    if booked >= most:
        what = "of its range" if most == span[1] else "that a server here has"
        return f"it had {show_mib(booked)}, the most {what}"
    return replace(job, memory_mib=min(2 * booked, most))


def _more_tasks(state: State, job: Job, attempt: Attempt, role: Role) -> Job | str:
    """Return the job with twice as many tasks of a role as it had, or why that is impossible."""
    had = attempt.placement.tasks().get(role.name, role.count_min)
    wanted = min(2 * had, role.count_max)
    count = wanted - (wanted - role.count_min) % role.step
    if count <= had:
        return f"it had {had} tasks of role {role.name}, the most of its range"
    others = tuple((name, number) for name, number in job.counts if name != role.name)
    more = replace(job, counts=(*others, (role.name, count)))
    return hopeless(state, more) or more


RAISE = "raised memory cap"
"""The name of such a change among failed proposals (`state.proposals`)."""


def told_caps(state: State, job: Job, placement: Placement) -> dict[str, int]:
    """Return what a job may use of each of its shared devices, in MiB.

    `enforced_caps` says which are enforced. {} for a job without a cap.
    """
    # On an idle device a recovered job has all memory; a cap could kill it again.
    if job.need_mib is None or job.recovers_idle:
        return {}
    found = {}
    for uuid, reserved in placement.reserved().items():
        if reserved is not None:
            limit = _limit_mib(job, placement, uuid)
            if limit is None and job.declared and placement.collocation is Collocation.MPS:
                limit = inf
            found[uuid] = reserved if limit is None else _within(state, job, uuid, reserved, limit)
    return found


def told_mib(job: Job, cap_mib: int | None) -> int | None:
    """Return the MiB per GPU that `RADRM_GPU_MEMORY_MIB` names: the declared size, else the cap.

    A cap may be most of the GPU, and a program that uses the variable would allocate all of it.
    """
    if cap_mib is None or job.recovers or not job.declared or job.spec.limits_gpu_memory:
        return cap_mib
    needs = [role.needs for role in job.spec.roles if role.needs.gpus]
    sizes = [each.gpu_memory_mib for each in needs if each.gpu_memory_mib is not None]
    return min([cap_mib, *sizes])


def cap_of(job: Job, placement: Placement, caps: Caps) -> int | None:
    """Return the memory cap per GPU of tasks that an attempt with these caps gets later, in MiB.

    On a device without one it is the reservation. None: no cap.
    """
    own, reserved = dict(caps), placement.reserved()
    found = [own.get(uuid, mib) for uuid, mib in reserved.items() if mib is not None]
    capped = job.need_mib is not None and not job.recovers_idle
    return min(found, default=None) if capped else None


def enforced_caps(state: State, job: Job, placement: Placement, told: dict[str, int]) -> Caps:
    """Return the caps that are enforced of what a job was told: by MPS, or by the driver."""
    if placement.collocation is Collocation.MPS:
        return tuple(told.items())
    if placement.collocation is not Collocation.TIMESLICE or job.spec.resizing is Resizing.LIVE:
        return ()
    found = []
    for uuid, mib in told.items():
        ledger = state.ledgers.get(uuid)
        if ledger is None or not ledger.device.caps:
            continue
        if _is_guess(job):
            mib = _within(state, job, uuid, mib, _stretched_mib(state, mib))
        found.append((uuid, mib))
    return tuple(found)


def raise_cap(state: State, ledger: DeviceLedger) -> None:
    """Have the driver's caps on a device raised where attempts have nearly reached them."""
    for occupant in ledger.occupants.values():
        attempt = state.live_attempt(occupant.job_id, occupant.serial)
        used = occupant.observed_mib
        if attempt is None or used is None or attempt.placement.collocation is Collocation.MPS:
            continue
        present = dict(attempt.caps).get(ledger.device.uuid)
        if present is not None and used >= FULL * present:
            _raise(state, state.jobs[occupant.job_id], attempt, ledger, present)


def _raise(state: State, job: Job, attempt: Attempt, ledger: DeviceLedger, present: int) -> None:
    """Have an attempt's cap on a device doubled, up to its limit and to the room there."""
    uuid = ledger.device.uuid
    limit = _limit_mib(job, attempt.placement, uuid)
    if attempt.stop is not None or attempt.asked(ActionKind.CAPS) is not None:
        return
    if state.proposals.pausing(job.id, RAISE, state.step.now.boot_s) is not None:
        return
    wanted = 2 * present if limit is None else min(2 * present, limit)
    wanted = _within(state, job, uuid, present, wanted)
    if (wanted - present < _LEAST_MIB and wanted != limit) or wanted == present:
        return
    caps = {**dict(attempt.caps), uuid: wanted}
    ask(state, job, attempt, ActionKind.CAPS, caps=tuple(caps.items()))


def is_capped(job: Job, attempt: Attempt, uuid: str) -> bool:
    """Return whether a cap of an attempt is enforced on a device."""
    # Its record has no cap of a device that a resize has given it, but MPS enforces one there.
    mps = attempt.placement.collocation is Collocation.MPS
    known = job.need_mib is not None and not job.recovers_idle
    return uuid in dict(attempt.caps) or (mps and known)


def _stretched_mib(state: State, need_mib: int) -> float:
    """Return the first cap of an estimated need, in MiB, where there is room for it."""
    settings = state.settings
    if settings.stretch > 1.0:
        return max(need_mib * settings.stretch, need_mib + settings.headroom_mib)
    return need_mib


def _is_guess(job: Job) -> bool:
    """Return whether a job's need is an estimate, or what a death has shown."""
    return not job.declared or job.recovers


def _limit_mib(job: Job, placement: Placement, uuid: str) -> float | None:
    """Return the declared limit of a job's tasks on a device together; None without one."""
    if not job.spec.limits_gpu_memory:
        return None
    limits = {role.name: role.needs.gpu_memory_max_mib for role in job.spec.roles}
    found = [limits.get(share.role) for share in placement.shares if share.device == uuid]
    return None if None in found else sum(mib or 0 for mib in found)


def _within(state: State, job: Job, uuid: str, least: int, most: float) -> int:
    """Return `most`, but not more than the job has there with all that is unreserved now.

    At least `least`.
    """
    ledger, now_s = state.ledgers.get(uuid), state.step.now.boot_s
    room = None if ledger is None else ledger.free_mib(owner_of(job.id), now_s, now_s)
    return least if room is None else int(max(least, min(most, room)))

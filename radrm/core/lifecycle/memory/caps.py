"""Memory caps: the most that the processes of an attempt may hold on a GPU, where that is enforced.

Theory of operation
-------------------
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

from radrm.core.lifecycle.pending import ask
from radrm.core.records import Attempt, Caps, Job, Placement
from radrm.core.state.ledger import DeviceLedger
from radrm.core.state.state import State, owner_of
from radrm.core.words import ActionKind, Collocation, Resizing

FULL = 0.9
"""An attempt that uses this part of its cap gets a higher one."""
RAISE = "raised memory cap"
"""The name of such a change among failed proposals (`state.proposals`)."""
_LEAST_MIB = 64
"""A smaller raise is not worth an action, unless it reaches the limit."""


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
    for holding in ledger.holdings.values():
        attempt = state.live_attempt(holding.job_id, holding.serial)
        used = holding.observed_mib
        if attempt is None or used is None or attempt.placement.collocation is Collocation.MPS:
            continue
        present = dict(attempt.caps).get(ledger.device.uuid)
        if present is not None and used >= FULL * present:
            _raise(state, state.jobs[holding.job_id], attempt, ledger, present)


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

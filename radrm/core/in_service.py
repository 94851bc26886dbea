"""Which devices are in service, and which waiting jobs stand aside because of that.

Theory of operation
-------------------
A job stands aside if it could not start even if every device in service were idle. Under a
strict order all other jobs would wait behind it otherwise. It keeps its order key and shows
the reason. A job that no known device could ever run fails after `GONE_AFTER_S`. Until
then an administrator may change the MIG layout, or the driver may start.

Invariants:
- A verdict depends only on the job's need and on the devices in service, so jobs of one need
  share it (`core/state/queue/lines.py`). The devices that are reserved for others, now or before
  the job would end, are a part of the need (`constraints/claims.py`).
- A device is out of service only after `OUT_OF_SERVICE_S`: one failed reading moves no job.

What may interleave: a device may leave or enter service at any reading. `update` compares the
devices with the last ones, and judges the jobs again only if these differ.

A restart sees nothing of this: the times begin again, so no job fails early.
"""

from __future__ import annotations

from collections.abc import Sequence

from radrm.core.constraints.claims import RULE, reserved_for_others
from radrm.core.constraints.feasibility import never_here, suitable, wants_idle
from radrm.core.constraints.kinds import shortage
from radrm.core.constraints.need import effective_need_mib
from radrm.core.lifecycle.leaving import fail_waiting
from radrm.core.records import Job, Refusal, Role
from radrm.core.state.queue.lines import Aside
from radrm.core.state.state import State
from radrm.core.units import show_mib
from radrm.core.words import Collocation, Unit

GONE_AFTER_S = 600.0
"""A waiting job fails after this time if no device can ever run it: time to change a MIG layout, or
for a driver to start."""


def update(state: State, force: bool) -> None:
    """Update the devices in service and the jobs aside; fail jobs that can never run.

    `force`: judge the jobs again even if the same devices are in service.
    """
    now = state.step.now
    ledgers = [(uuid, each) for uuid, each in state.ledgers.items() if not each.is_sound(now)]
    out = {uuid: why for uuid, ledger in ledgers if (why := ledger.out_of_service(now))}
    used = {uuid: why for uuid, ledger in ledgers if (why := ledger.never_idle(now))}
    before = state.out_of_service.keys(), state.never_idle.keys()
    if force or (out.keys(), used.keys()) != before:
        state.out_of_service, state.never_idle = out, used
        state.lines.judge_again()
        state.turns = None
    _end_hopeless(state)


def judge(state: State, job: Job) -> Aside | None:
    """Return why a job stands aside; None if it could start on idle devices in service."""
    # An MPS daemon that is down can return, so jobs that ask for MPS must not fail.
    wish = job.spec.collocation
    never = never_here(state, job, Collocation.AUTO if wish is Collocation.MPS else wish)
    if never is not None:
        return Aside(Refusal("service", never), never)
    if not state.known_devices():
        return None
    roles = [role for role in job.spec.roles if role.needs.gpus]
    wanted = [(job.count(role) * role.needs.gpus, suitable(state, job, role)) for role in roles]
    for role, each in zip(roles, wanted, strict=True):
        if (few := shortage([each])) is not None:
            return _too_few(state, job, role, *few)
    few = shortage(wanted)
    return None if few is None else _too_few(state, job, roles[0], *few)


def _too_few(state: State, job: Job, role: Role, wanted: int, available: int) -> Aside:
    """Return the reason with both numbers, and what is out of service."""
    idle = wants_idle(state, job) and bool(state.never_idle)
    what = f"{wanted} {'idle ' * idle}GPU{'s' * (wanted != 1)}"
    if job.spec.gpu_types:
        what += f" of type {job.spec.gpu_types_text}"
    if role.needs.mig_profile is not None:
        what += f" of profile {role.needs.mig_profile}"
    elif job.spec.collocation is Collocation.MPS:
        what += " under MPS"
    need = effective_need_mib(state, job, role) or 0
    smaller = [size for size in state.lines.sizes if size < need]
    if smaller:
        what += f" with more than {show_mib(smaller[-1])}"
    out = _out_of_service(state, idle)
    more = f" ({'; '.join(out)})" if out else ""
    are = "is" if available == 1 else "are"
    reserved, within_s = reserved_for_others(state, job) if state.for_users.every else ("", None)
    if reserved:
        why = f"needs {what}, {available} {are} left: {reserved}{more}"
        no = Refusal(RULE, why, None, wanted, available, unit=Unit.GPUS, within_s=within_s)
        return Aside(no)
    why = f"needs {what}, {available} {are} in service{more}"
    return Aside(Refusal("service", why, None, wanted, available))


def _out_of_service(state: State, idle: bool) -> Sequence[str]:
    """Return the first few devices out of service with their reasons, by index.

    `idle`: also those that would not be idle without radrm's jobs.
    """
    why_not = {**(state.never_idle if idle else {}), **state.out_of_service}
    found = [(state.ledgers[uuid].device, why) for uuid, why in why_not.items()]
    found.sort(key=lambda item: (item[0].node, item[0].index))
    shown = [f"GPU {device.index}: {why}" for device, why in found[:_SHOWN]]
    return shown + [f"and {len(found) - _SHOWN} more"] * (len(found) > _SHOWN)


_SHOWN = 3
"""How many devices out of service a reason names."""


def _end_hopeless(state: State) -> None:
    """Fail jobs whose need no known device could serve for `GONE_AFTER_S`."""
    now_s, since = state.step.now.boot_s, state.never_since
    found = list(state.lines.hopeless())
    needs = {need for need, _, _ in found}
    for need in [need for need in since if need not in needs]:
        del since[need]
    for need, why, job_ids in found:
        if now_s - since.setdefault(need, now_s) >= GONE_AFTER_S:
            for job_id in sorted(job_ids):
                fail_waiting(state, state.jobs[job_id], why)

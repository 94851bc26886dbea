"""Which devices are in service, and which waiting jobs could start on those.

A job that could not start although every device in service were idle stands aside, in its
place, with the reason: under a strict order all would wait behind it otherwise. What no
device that is known could ever run fails, once it has been so for `core.gone_after_s`.
"""

from __future__ import annotations

from collections.abc import Sequence

from radrm.core import lifecycle as life
from radrm.core.records import Device, Job, Refusal, Role
from radrm.core.state.state import State
from radrm.core.state.waiting import Aside
from radrm.core.units import show_mib
from radrm.core.validation import (
    effective_need_mib,
    hopeless,
    kind_refusal,
    shortage,
    wants_whole_device,
)
from radrm.core.words import Collocation, Queue


def look(state: State, anew: bool) -> None:
    """See which devices are in service, who stands aside now, and who waits for nothing.

    `anew`: who stands aside is judged even where no device has come or gone.
    """
    now, ledgers = state.turn.now, state.ledgers.items()
    out = {uuid: why for uuid, ledger in ledgers if (why := ledger.out_of_service(now))}
    used = {uuid: why for uuid, ledger in ledgers if (why := ledger.never_idle(now))}
    before = state.out_of_service.keys(), state.never_idle.keys()
    if anew or (out.keys(), used.keys()) != before:
        state.out_of_service, state.never_idle = out, used
        state.waiting.judge_anew(state.jobs.__getitem__)
    _end_hopeless(state)


def judge(state: State, job: Job) -> Aside | None:
    """Why a job stands aside; None for one that could start on idle devices in service."""
    if not state.known_devices():
        return None
    # MPS that is down is somebody's to start again, not a reason to fail those that wait.
    wish = job.spec.collocation
    never = hopeless(state, job, Collocation.AUTO if wish is Collocation.MPS else wish)
    if never is not None:
        return Aside(Refusal("service", never), never)
    roles = [role for role in job.spec.roles if role.needs.gpus]
    wanted = [(role.count_min * role.needs.gpus, _suitable(state, job, role)) for role in roles]
    for role, each in zip(roles, wanted, strict=True):
        if (few := shortage([each])) is not None:
            return _aside(state, job, role, *few)
    few = shortage(wanted)
    return None if few is None else _aside(state, job, roles[0], *few)


def _suitable(state: State, job: Job, role: Role) -> list[Device]:
    """The devices in service that could run a task of this role, were they idle."""
    need = effective_need_mib(state, job, role) or 0
    barred = state.out_of_service.keys() | (state.never_idle if _wants_idle(state, job) else ())
    return [
        ledger.device
        for uuid, ledger in state.ledgers.items()
        if uuid not in barred
        and kind_refusal(ledger.device, role.needs, job.spec.collocation) is None
        and need <= ledger.device.capacity_mib
    ]


def _wants_idle(state: State, job: Job) -> bool:
    """True for a job that starts on idle devices only."""
    recovers = job.queue is Queue.RECOVERY
    return state.settings.whole_devices or recovers or wants_whole_device(state, job)


def _aside(state: State, job: Job, role: Role, wanted: int, there: int) -> Aside:
    idle = _wants_idle(state, job) and bool(state.never_idle)
    what = f"{wanted} {'idle ' * idle}GPU{'s' * (wanted != 1)}"
    if role.needs.mig_profile is not None:
        what += f" of profile {role.needs.mig_profile}"
    elif job.spec.collocation is Collocation.MPS:
        what += " under MPS"
    need = effective_need_mib(state, job, role) or 0
    smaller = [size for size in state.waiting.sizes if size < need]
    if smaller:
        what += f" with more than {show_mib(smaller[-1])}"
    out = _out(state, idle)
    more = f" ({'; '.join(out)})" if out else ""
    why = f"needs {what}, {there} {'is' if there == 1 else 'are'} in service{more}"
    return Aside(Refusal("service", why, None, wanted, there))


def _out(state: State, idle: bool) -> Sequence[str]:
    """What is out of service and why, by index: the first few. `idle`: or could not be idle."""
    why_not = {**(state.never_idle if idle else {}), **state.out_of_service}
    found = [(state.ledgers[uuid].device, why) for uuid, why in why_not.items()]
    found += [(device, "it has vanished") for device in state.absent.values()]
    found.sort(key=lambda item: (item[0].node, item[0].index))
    said = [f"GPU {device.index}: {why}" for device, why in found[:_SHOWN]]
    return said + [f"and {len(found) - _SHOWN} more"] * (len(found) > _SHOWN)


_SHOWN = 3
"""So many devices that are out of service are named in a reason."""


def _end_hopeless(state: State) -> None:
    now_s, since = state.turn.now.boot_s, state.never_since
    found = list(state.waiting.hopeless())
    needs = {need for need, _, _ in found}
    for need in [need for need in since if need not in needs]:
        del since[need]
    for need, why, job_ids in found:
        if now_s - since.setdefault(need, now_s) >= state.settings.gone_after_s:
            for job_id in sorted(job_ids):
                life.refuse(state, state.jobs[job_id], why)

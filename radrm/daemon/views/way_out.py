"""What a waiting job's user can change so that it starts sooner.

Only an option that concerns the reason is named: an edit that changes nothing costs trust. Many
reasons have none: another job is on the GPU, a limit of the user, a drained GPU.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from radrm.core.constraints.nodes import CPUS, MEMORY
from radrm.core.records import Job, Refusal
from radrm.core.settings import CoreSettings
from radrm.core.words import Collocation

_ASSUMED = "see --smact"
"""Stands in the reason of a policy that has assumed the job's SM activity."""
_BY_RULE = {
    **dict.fromkeys(("memory", "capacity", "reservation"), "--gpu-memory=SIZE"),
    "slowdown": "--max-slowdown=none",
    "sm-share": "--sm-share=PERCENT",
}
"""The option that concerns a device's reason, by its rule."""
_ON_NODES = {CPUS: "--cpus=N", MEMORY: "--memory=SIZE"}


def way_out(
    job: Job, refusals: Sequence[Refusal], settings: CoreSettings, devices: int
) -> str | None:
    """Return an option of `radrm edit` that may let a waiting job start sooner; None: none is
    known. `refusals`: why it waits. `devices`: how many are here."""
    if job.held or not job.state.waiting:
        return None
    if job.after:
        return "--after=none"
    if job.awaits_begin:
        return "--begin=none"
    general = [_of(job, each, settings) for each in refusals if each.device is None]
    first = {each.device: each for each in reversed(refusals) if each.device is not None}
    each_device = Counter(_of(job, each, settings) for each in first.values())
    # It must help on as many devices as the job needs.
    enough = job.gpus - (devices - len(first))
    found = [option for option, count in each_device.most_common() if count >= enough]
    return next(filter(None, (*general, *found)), None)


def _of(job: Job, refusal: Refusal, settings: CoreSettings) -> str | None:
    if refusal.device is None:
        if refusal.rule == "service":
            return _of_service(job, refusal, settings)
        return _ON_NODES.get(refusal.rule)
    if refusal.rule == "not idle":
        return _shared(job, settings)
    if refusal.rule == "demand":
        return "--smact=PART" if _ASSUMED in refusal.message else None
    return _BY_RULE.get(refusal.rule)


def _of_service(job: Job, refusal: Refusal, settings: CoreSettings) -> str | None:
    """Too few devices that suit it are in service: it may wish for less."""
    if "idle GPU" in refusal.message:
        return _shared(job, settings)
    if job.spec.gpu_types:
        return "--gpu-type=any"
    return "--collocation=auto" if job.spec.collocation is Collocation.MPS else None


def _shared(job: Job, settings: CoreSettings) -> str | None:
    """Return what lets a job that wants an idle GPU share one; None: the site or its recovery
    wants that."""
    if settings.whole_devices or job.own_device or job.recovers_idle:
        return None
    if job.spec.collocation is Collocation.EXCLUSIVE:
        return "--collocation=timeslice"
    if job.spec.max_slowdown is not None and not settings.honours_slowdown:
        return "--max-slowdown=none"
    return "--gpu-memory=SIZE"  # its estimate is more than any GPU has

"""Who gives back what it has beyond its smallest size, so that a waiting job can start.

The youngest growth goes first. Nothing is given back that would not let a job start: a job that
waits for more than all growth together waits for others. When one of those ends, this is asked
again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from radrm.rules import ActionKind, Attempt, Job, Offer, Role, Share, View, can_change

MOST_LOOKED_AT = 16
"""The waiting jobs that are looked at: one behind the head may pass it (`backfill`)."""


class Giver(Struct, frozen=True):
    """A running job with more than its smallest size. `grown_s`: when it last grew."""

    job: Job
    attempt: Attempt
    role: Role
    workers: int
    grown_s: float


def waiting_jobs(view: View) -> Iterator[Job]:
    """Yield the first waiting jobs of both lines."""
    for gpuless in (False, True):
        for count, job in enumerate(view.waiting(gpuless)):
            if count >= MOST_LOOKED_AT:
                break
            yield job


def gpus_back(view: View, job: Job, givers: Iterable[Giver]) -> dict[int, int] | None:
    """Return to how many workers jobs shrink so that a waiting job finds enough GPUs, by job id.

    Empty if it needs none of theirs, or if enough is on its way; None if all would not suffice.
    """
    roles = [role for role in job.spec.roles if job.count(role) * role.needs.gpus]
    suitable = {device.uuid for role in roles for device in view.suitable(job, role)}
    lacking = job.gpus
    for uuid in suitable:
        lacking -= _comes_free(view, view.offer(job, roles[0], uuid))
    found: dict[int, int] = {}
    for giver in _youngest_first(givers):
        if lacking <= 0:
            break
        if not can_change(giver.job, giver.attempt):
            continue
        workers = giver.workers
        while lacking > 0 and workers - giver.role.step >= giver.role.count_min:
            workers -= giver.role.step
            lacking -= len(_gone(giver, workers) & suitable) - len(
                _gone(giver, workers + giver.role.step) & suitable
            )
            found[giver.job.id] = workers
    return found if lacking <= 0 else None


def _comes_free(view: View, offer: Offer) -> bool:
    """Return whether a device is idle, or will be without another change."""
    uuid, refused = offer.device.uuid, offer.refusal
    if offer.occupants:
        return all(uuid in view.leaving(each.job, each.attempt) for each in offer.occupants)
    # A job has just left one that is not read yet.
    return offer.idle if refused is None else refused.rule == "reading"


def cpus_back(view: View, lacking: float, givers: Iterable[Giver]) -> list[int] | None:
    """Return the jobs that go back to the CPUs of their start, so that `lacking` CPUs are free.

    Empty if enough are on their way; None if all would not suffice.
    """
    found: list[int] = []
    for job, attempt in view.running():
        asked = attempt.asked(ActionKind.SHARES)
        left = view.leaving(job, attempt).issuperset(attempt.placement.devices)
        then = () if left else asked.shares if asked is not None else attempt.placement.shares
        lacking -= max(0.0, _cpus(attempt.placement.shares) - _cpus(then))
    for giver in _youngest_first(givers):
        if lacking <= 0:
            break
        extra = extra_cpus(giver)
        if extra > 0 and can_change(giver.job, giver.attempt):
            found.append(giver.job.id)
            lacking -= extra
    return found if lacking <= 0 else None


def _cpus(shares: Sequence[Share]) -> float:
    return sum({(s.role, s.task): s.cpus or 0.0 for s in shares}.values())


def extra_cpus(giver: Giver) -> float:
    """Return the CPUs that a job has beyond those of its start."""
    base = giver.role.needs.cpus
    if base is None:
        return 0.0
    tasks = {s.task: s.cpus for s in giver.attempt.placement.shares if s.role == giver.role.name}
    return sum(max(0.0, cpus - base) for cpus in tasks.values() if cpus is not None)


def _youngest_first(givers: Iterable[Giver]) -> Sequence[Giver]:
    return sorted(givers, key=lambda giver: (-giver.grown_s, -giver.job.id))


def _gone(giver: Giver, workers: int) -> set[str]:
    """Return the devices that a job gives back with so many workers."""
    mine = [s for s in giver.attempt.placement.shares if s.role == giver.role.name]
    staying = sorted({share.task for share in mine})[:workers]
    return {s.device for s in mine if s.task not in staying and s.device is not None}

"""CPUs and host memory of all tasks of an attempt together."""

from __future__ import annotations

from collections.abc import Iterable

from radrm.core.records import Job, Share


def cpus_of(shares: Iterable[Share]) -> float | None:
    """The CPUs of all tasks together; None if a task has no cap."""
    caps = {(share.role, share.task): share.cpus for share in shares}
    known = [cpus for cpus in caps.values() if cpus is not None]
    return sum(known) if known and len(known) == len(caps) else None


def weight_of(shares: Iterable[Share]) -> float | None:
    """The CPU weight of all tasks together; None if no task has one."""
    weights = {(share.role, share.task): share.cpu_weight for share in shares}
    if set(weights.values()) <= {None}:
        return None
    return sum(1.0 if weight is None else weight for weight in weights.values())


def memory_of(job: Job, shares: Iterable[Share]) -> int | None:
    """The host memory of all tasks of a job together; None if a task has no limit."""
    limits = {(share.role, share.task): share.memory_mib for share in shares}
    known = [mib for mib in limits.values() if mib is not None]
    # The first task books the whole job's memory, if that has a range.
    whole = job.spec.memory_range_mib is not None or len(known) == len(limits)
    return sum(known) if known and whole else None


def most_memory_of(job: Job) -> int | None:
    """The host memory to which a job's limit may grow while it runs; None if it may not."""
    span = job.spec.memory_range_mib
    return None if span is None else span[1]

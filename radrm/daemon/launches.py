"""What a launch gets: its devices, amounts for its limits, and its logs."""

from __future__ import annotations

import os
from collections.abc import Iterable

from radrm.core.records import Device, Job, Share, by_task
from radrm.core.snapshot import Snapshot
from radrm.errors import RadrmError
from radrm.jobfile.options import Options


def devices_of(snapshot: Snapshot, uuids: Iterable[str]) -> list[Device]:
    """The devices of a placement, in its order. Raises `RadrmError` for one that is gone."""
    found = []
    for uuid in uuids:
        seen = snapshot.device(uuid)
        if seen is None:
            raise RadrmError(f"device {uuid} is not known any more")
        found.append(seen.device)
    return found


def cpus_of(shares: Iterable[Share]) -> float | None:
    """The CPUs of all tasks together; None if a task has no cap."""
    caps = [its[0].cpus for its in by_task(shares).values()]
    known = [cpus for cpus in caps if cpus is not None]
    return sum(known) if known and len(known) == len(caps) else None


def weight_of(shares: Iterable[Share]) -> float | None:
    """The CPU weight of all tasks together; None if no task has one."""
    weights = [its[0].cpu_weight for its in by_task(shares).values()]
    if set(weights) <= {None}:
        return None
    return sum(1.0 if weight is None else weight for weight in weights)


def memory_of(job: Job, shares: Iterable[Share]) -> int | None:
    """The host memory of all tasks of a job together; None if a task has no limit."""
    limits = [its[0].memory_mib for its in by_task(shares).values()]
    known = [mib for mib in limits if mib is not None]
    # The first task books the whole job's memory, if that has a range.
    whole = job.spec.memory_range_mib is not None or len(known) == len(limits)
    return sum(known) if known and whole else None


def most_memory_of(job: Job) -> int | None:
    """The host memory to which a job's limit may grow while it runs; None if it may not."""
    span = job.spec.memory_range_mib
    return None if span is None else span[1]


def log_paths(
    job: Job, attempt: int, options: Options, cwd: str, as_slurm: bool = False
) -> tuple[str, str]:
    """The paths of an attempt's standard output and error: one file, in which the lines are in the
    order in which they were printed, as in Slurm. `--error` makes them two; `radrm run` shows the
    two streams apart.

    From the second attempt on, a pattern without `%t` gets the attempt's number before its
    suffix, so that no attempt overwrites another's log. A device, as /dev/null, keeps its name.
    A job that was submitted as Slurm's has one log for all attempts, as in Slurm.
    """
    stem = "radrm-%j" if job.array is None else "radrm-%A_%a"
    output = options.output or f"{stem}.out"
    apart = options.interactive and not options.output
    error = options.error or (f"{stem}.err" if apart else output)
    one_log = as_slurm or job.outer is not None
    stdout, stderr = (_log_path(each, job, attempt, cwd, one_log) for each in (output, error))
    return stdout, stderr


def _log_path(pattern: str, job: Job, attempt: int, cwd: str, one_log: bool) -> str:
    if attempt > 1 and "%t" not in pattern and not pattern.startswith("/dev/") and not one_log:
        stem, suffix = os.path.splitext(pattern)
        pattern = f"{stem}.attempt%t{suffix}"
    values = {
        "j": str(job.id),
        "x": job.spec.name,
        "u": job.spec.user,
        "A": str(job.array.array_id if job.array is not None else job.id),
        "a": str(job.array.index if job.array is not None else 0),
        "t": str(attempt),
        "%": "%",
    }
    parts = pattern.split("%")
    text = parts[0]
    rest = iter(parts[1:])
    for part in rest:
        if part == "":  # `%%`
            text += "%" + next(rest, "")
        elif part[0] in values:
            # A name or user must not lead out of the folder that the pattern names.
            text += values[part[0]].replace("/", "_") + part[1:]
        else:
            text += "%" + part
    return os.path.join(cwd, text)

"""The CPUs near a job's GPUs, on which its processes run.

Theory of operation. A job gets all CPUs of its GPUs' socket (or NUMA node), and shares them with
the other jobs there: `cpu.max` limits how much CPU time it has, this only limits where. No core
belongs to one job: whole cores would not fit shares such as `--cpus=2.5`, would leave cores idle
that another job could use, and would break up the sockets until wide jobs find none.

The runner sets the affinity of the job's first process, and all others inherit it. A cpuset would
do the same, but a job could not leave it: `numactl`, `taskset` and the pinning of MPI inside a job
would fail, while they may widen or narrow an affinity. A container is not the job's child, so it
gets the CPUs as an argument (`host/attempts/engines.py`). `radrun` binds each worker near its own
GPU, also after a resize.

The job runs on all CPUs where the CPUs near one of its GPUs are unknown, where they are all CPUs
that it may use anyway, and where they are fewer than it asks for with `--cpus`.

The runner imports this file before it starts a job, so it imports only what Python has loaded
anyway.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from radrm.core.records import Device

SCOPES = ("numa", "socket")
"""Where CPUs are near, the smallest first."""
NONE = "none"
MOST_CPUS = 8192
"""The kernel's own limit (`NR_CPUS`) on all architectures with GPUs."""


def near(
    devices: Sequence[Device], scope: str, cpus: float | None, allowed: Collection[int]
) -> list[int] | None:
    """Return the CPUs near all of these devices together; None: the job is not bound.

    `scope`: one of SCOPES, or NONE. `cpus`: those that the job asks for; where fewer are near, the
    next larger scope counts. `allowed`: the CPUs that the daemon itself may use.
    """
    if scope == NONE or not devices:
        return None
    for each in SCOPES[SCOPES.index(scope) :]:
        lists = [d.numa_cpus if each == "numa" else d.socket_cpus for d in devices]
        if None in lists:
            continue
        found = set().union(*(numbers(text) for text in lists if text)) & set(allowed)
        if found and len(found) >= (cpus or 0):
            return sorted(found) if len(found) < len(allowed) else None
    return None


def bind(pid: int, cpus: Sequence[int] | None) -> list[int] | None:
    """Have a process, and all that it will start, run on these CPUs; return those that it has.

    None: it is not bound, because `cpus` is None or the kernel refuses them (they went offline).
    """
    if not cpus:
        return None
    try:
        os.sched_setaffinity(pid, cpus)
        return sorted(os.sched_getaffinity(pid))
    except (OSError, ValueError, OverflowError, TypeError):
        return None


def listed(cpus: Iterable[int]) -> str:
    """Return CPU numbers as the kernel lists them: `0-15,64-79`."""
    spans: list[list[int]] = []
    for cpu in sorted(set(cpus)):
        if spans and cpu == spans[-1][1] + 1:
            spans[-1][1] = cpu
        else:
            spans.append([cpu, cpu])
    return ",".join(f"{a}" if a == b else f"{a}-{b}" for a, b in spans)


def numbers(text: str) -> set[int]:
    """Return the CPU numbers of a list that `listed` has made."""
    found: set[int] = set()
    for span in filter(None, text.split(",")):
        first, _, last = span.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found

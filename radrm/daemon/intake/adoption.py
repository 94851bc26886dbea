"""Which process `radrm adopt` may book, and where it is.

Theory of operation. A user may book a process of its own (root: any) that the last readings show on
a GPU as an unmanaged process, itself or a descendant of it. The kernel says whose it is. It is
known by pid, start time and boot, so another process that gets its number is not taken for it. The
command asks first, for a quick answer in one line; what counts is the same check at intake, since
anybody can write an envelope.

The process is there already, so no limit, drain or reservation for users refuses it: that would
protect nobody. But it reserves nothing that is reserved for others: at most its present use and
what is free.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from typing import Protocol

from radrm.core.records import Adopted
from radrm.core.scheduler import Scheduler
from radrm.core.snapshot import DeviceSnapshot, Snapshot
from radrm.core.units import show_mib
from radrm.daemon.intake.envelopes import user_name
from radrm.errors import Refused
from radrm.host.processes.identity import boot_id
from radrm.host.processes.procfs import Stat, read_stat, status_of, uid_of
from radrm.jobfile.options import Options
from radrm.jobfile.radfile import JobFile
from radrm.jobfile.relations import AdoptOption

ALLOWED = frozenset(
    {
        *("adopt", "chdir", "comment", "expect-idle", "gpu-memory", "gpus", "name", "notify"),
        "output",
    }
)
"""The options of a job that adopts: the others would need a start, or an end by radrm."""
MOST_ANCESTORS = 64
"""Looked at above one process."""
MOST_LOOKED_AT = 4096
"""Processes that are looked at for one adoption: chains of them cost their maker's own request."""


class Knows(Protocol):
    """What is asked of the loop."""

    scheduler: Scheduler


def of_job(loop: Knows, job_file: JobFile, uid: int) -> Adopted:
    """Return the process that a job of user `uid` adopts. Raises `Refused`, and `OSError` while the
    GPUs have not been read."""
    options = job_file.options
    assert options.adopt is not None
    wrong = sorted(job_file.raw.keys() - ALLOWED)
    if wrong:
        raise Refused(f"--{wrong[0]} does not apply to a process that runs already; leave it out")
    refuse_limit(options)
    snapshot = loop.scheduler.snapshot
    try:
        found = adoptable(snapshot, options.adopt, uid, options.gpu_memory_mib)
    except Refused:
        if any(each.reading is None and not each.vanished for each in snapshot.devices):
            raise OSError(errno.EAGAIN, "the GPUs have not been read yet") from None
        raise
    if len(found.devices) != options.least_gpus:
        raise Refused(
            f"process {found.pid} is on {len(found.devices)} GPUs now, not on "
            f"{options.least_gpus}; adopt it again"
        )
    return found


def refuse_limit(options: Options) -> None:
    """Raise `Refused` for a limit of GPU memory: none can be set for a process that runs."""
    if options.gpu_memory_max_mib not in (None, options.gpu_memory_mib):
        raise Refused(
            "--gpu-memory: nothing limits a process that runs already; say only what to reserve"
        )


def adoptable(
    snapshot: Snapshot,
    asked: AdoptOption,
    uid: int,
    declared_mib: int | None,
    owner_of: Callable[[int], tuple[int, int] | None] = lambda pid: None,
) -> Adopted:
    """Return the process, with its GPUs and what is to be reserved. Raises `Refused`."""
    _refuse_process(snapshot, asked, uid, owner_of)
    places: list[tuple[str, int, int]] = []
    pids: list[int] = []
    families = Families()
    for device in snapshot.devices:
        reading = device.reading
        listed = reading.unmanaged if reading is not None and reading.error is None else ()
        its = [each for each in listed if families.descends(each.pid, asked)]
        if its:
            amounts = [each.used_mib for each in its]
            known = [mib for mib in amounts if mib is not None]
            used_mib = sum(known) if len(known) == len(amounts) else None
            used_mib, reserved_mib = _amounts(snapshot, device, asked.pid, used_mib, declared_mib)
            places.append((device.device.uuid, used_mib, reserved_mib))
            pids += [each.pid for each in its]
    if not places:
        raise Refused(f"process {asked.pid} is on no GPU that radrm watches (see radrm gpus)")
    pids = list(dict.fromkeys(pids))
    identity = asked.pid, asked.start_ticks, asked.boot_id
    return Adopted(*identity, tuple(places), tuple(pids), asked.for_s)


def _refuse_process(
    snapshot: Snapshot,
    asked: AdoptOption,
    uid: int,
    owner_of: Callable[[int], tuple[int, int] | None],
) -> None:
    """Raise `Refused` unless this user may adopt this process."""
    pid = asked.pid
    stat, owner = read_stat(pid), uid_of(pid)
    if stat is None or stat.dead or owner is None:
        raise Refused(f"there is no process {pid}")
    leader = status_of(pid, b"Tgid").decode("ascii", "replace")
    if leader != str(pid):
        raise Refused(f"{pid} is a thread of process {leader}; write: radrm adopt {leader}")
    if pid == 1:
        raise Refused("process 1 is init, above every job; name the process on the GPU")
    if (stat.start_ticks, boot_id()) != (asked.start_ticks, asked.boot_id):
        raise Refused(
            f"process {pid} is another one for the daemon: its number was given again, or you are "
            "in a container; try again outside"
        )
    if uid not in (0, owner):
        raise Refused(f"process {pid} belongs to {user_name(owner)}; adopt only your own")
    mine = owner_of(pid)
    job = snapshot.job(mine[0]) if mine is not None else None
    if job is not None:
        raise Refused(f"process {pid} belongs to job {job.label}")
    if any(above == pid for above, _ in Families().line_of(os.getpid())):
        raise Refused(
            f"process {pid} is this daemon, or has started it; name the process on the GPU"
        )


class Families:
    """Looks at the ancestors of processes, at each process once, and at `MOST_LOOKED_AT` in all."""

    def __init__(self) -> None:
        self._stats: dict[int, Stat | None] = {}

    def descends(self, pid: int, asked: AdoptOption) -> bool:
        """Return whether a process is this one, or a descendant of it."""
        return any(each == (asked.pid, asked.start_ticks) for each in self.line_of(pid))

    def line_of(self, pid: int) -> Iterator[tuple[int, int]]:
        """Yield the pid and start time of a process and of its ancestors, without init."""
        for _ in range(MOST_ANCESTORS):
            stat = self._stat(pid)
            if stat is None:
                return
            yield pid, stat.start_ticks
            pid = stat.parent

    def _stat(self, pid: int) -> Stat | None:
        if pid <= 1:
            return None
        if pid not in self._stats:
            if len(self._stats) >= MOST_LOOKED_AT:
                return None
            self._stats[pid] = read_stat(pid)
        return self._stats[pid]


def _amounts(
    snapshot: Snapshot,
    device: DeviceSnapshot,
    pid: int,
    used_mib: int | None,
    declared_mib: int | None,
) -> tuple[int, int]:
    """Return the MiB in use on a device, and those to reserve. Raises `Refused`."""
    where, free_mib = f"GPU {device.device.index}", device.free_mib or 0
    if used_mib is None and declared_mib is None:
        raise Refused(
            f"the driver does not tell what process {pid} uses of {where}; say --gpu-memory=SIZE"
        )
    used = used_mib or 0
    if declared_mib is None:
        return used, used + min(snapshot.settings.headroom_mib, free_mib)
    if declared_mib < used:
        raise Refused(
            f"process {pid} uses {show_mib(used)} of {where}, --gpu-memory is "
            f"{show_mib(declared_mib)}; ask for as much as it uses"
        )
    if declared_mib > used + free_mib:
        raise Refused(
            f"process {pid} can have {show_mib(used + free_mib)} of {where}, --gpu-memory is "
            f"{show_mib(declared_mib)}; lower it"
        )
    return used, declared_mib

"""Book a process that radrm did not start (`radrm adopt`).

Theory of operation
-------------------
The process runs already, on devices that nobody can take from it. So its job passes the queue and
every constraint: refusing it would protect no one, and its memory is in use as before. What is new
is the reservation: its present use, and at most what is free. The host has checked that
(`daemon/intake/adoption.py`), but it checks many envelopes before the first of them is a job. So
`_with_room` checks it again.

The host starts a watcher as the attempt, which ends when the process does. Readings give the
memory of the process, and of its descendants, to the attempt.

Invariants:
- A process has at most one job.
- Its memory counts once. In the step of its adoption it leaves the unmanaged memory of the last
  reading and becomes the job's. A later reading that still calls it unmanaged counts it twice for
  a moment, and never not at all.
- Such a job waits in no queue: a launch that was void is repeated in the same step, or fails.
- Nothing but a cancel by its user ends the process (`stops`, `constraints/proposal.py`).

What a restart sees: a live attempt like any other; the watcher outlives the daemon.
"""

from __future__ import annotations

from dataclasses import replace

from radrm.core.events import AttemptEnded
from radrm.core.lifecycle.final import fail_waiting
from radrm.core.lifecycle.launching import start
from radrm.core.records import Adopted, Exit, Job, Placement, Share
from radrm.core.state.ledger import DeviceLedger
from radrm.core.state.state import State
from radrm.core.units import show_seconds
from radrm.core.words import Collocation, DeviceKind

ENDED, OVER = 0, 3
"""Exit codes of the watcher: the process has ended; its time as a job is over."""


def adopt(state: State, job: Job) -> None:
    """Start the job of a process that runs, or fail it with the reason."""
    assert job.adopted is not None
    found = _refuse(state, job, job.adopted) or _with_room(state, job.adopted)
    if isinstance(found, str):
        fail_waiting(state, job, found)
        return
    _start(state, state.put_job(replace(job, adopted=found)))


def _start(state: State, job: Job) -> None:
    assert job.adopted is not None
    start(state, job, _placement(state, job.adopted))
    for uuid, _, _ in job.adopted.devices:
        _count_once(state.ledgers[uuid], job.adopted)


def adopt_again(state: State, job: Job, reason: str | None) -> None:
    """Adopt a process anew after a launch that was void; `reason`: why it could not be launched."""
    if reason is not None or job.pause is not None:
        why = reason or "its watcher was not started, again and again"
        fail_waiting(state, replace(job, pause=None), f"{why}; its process is unmanaged again")
        return
    assert job.adopted is not None
    refused = _refuse(state, job, job.adopted)
    if refused is not None:
        fail_waiting(state, job, refused)
    else:
        _start(state, job)


def _refuse(state: State, job: Job, adopted: Adopted) -> str | None:
    """Return why the process cannot be adopted now; None if it can."""
    for job_id in state.attempts:
        other = state.jobs[job_id]
        if other.adopted is not None and other.adopted.process == adopted.process:
            return f"process {adopted.pid} belongs to job {other.label}"
    if state.launch_error is not None:
        return f"the server cannot start jobs: {state.launch_error}"
    if any(uuid not in state.ledgers for uuid, _, _ in adopted.devices):
        return f"the GPU of process {adopted.pid} has vanished"
    return None


def _with_room(state: State, adopted: Adopted) -> Adopted | str:
    """Return the process with what it can have of its devices now, or why it can have nothing.

    Jobs of the same moment may have taken what was free. One of an ancestor or a descendant may
    have its processes, which are then no longer unmanaged.
    """
    places = []
    for uuid, used_mib, mib in adopted.devices:
        ledger = state.ledgers[uuid]
        reading, free_mib = ledger.reading, ledger.free_now_mib
        if reading is not None and free_mib is not None:
            its = [each for each in reading.unmanaged if each.pid in adopted.pids]
            room = sum(each.used_mib or 0 for each in its) + max(0, free_mib)
            if not its:
                return (
                    f"process {adopted.pid} is not unmanaged on GPU {ledger.device.index} any more"
                )
            if room <= 0:
                return f"nothing of GPU {ledger.device.index} is free for process {adopted.pid}"
            mib = min(mib, room)
        places.append((uuid, used_mib, mib))
    return replace(adopted, devices=tuple(places))


def _placement(state: State, adopted: Adopted) -> Placement:
    kinds = {state.ledgers[uuid].device.kind for uuid, _, _ in adopted.devices}
    shares = tuple(
        Share(uuid, mib, state.ledgers[uuid].device.node) for uuid, _, mib in adopted.devices
    )
    mig = DeviceKind.MIG in kinds
    return Placement(shares, Collocation.MIG if mig else Collocation.TIMESLICE)


def _count_once(ledger: DeviceLedger, adopted: Adopted) -> None:
    """Count the process's memory as its job's, and not as unmanaged, from now on."""
    reading = ledger.reading
    if reading is None or ledger.unmanaged_mib is None:
        return
    its = [process for process in reading.unmanaged if process.pid in adopted.pids]
    used = sum(process.used_mib or 0 for process in its)
    ledger.unmanaged_mib = max(0, ledger.unmanaged_mib - used)
    others = tuple(process for process in reading.unmanaged if process.pid not in adopted.pids)
    ledger.reading = replace(reading, unmanaged=others)
    ledger.version += 1


def all_that_is_known(adopted: Adopted, event: AttemptEnded) -> AttemptEnded:
    """Return the end of the watcher as that of the process: only a parent learns an exit status."""
    if event.lost is not None:
        return replace(event, lost=f"{event.lost}; process {adopted.pid} is not watched any more")
    if event.never_started is not None or not event.exits:
        return event
    code = event.exits[0].code
    event = replace(event, exits=(Exit(),), oom=None)
    if code == ENDED:
        why = f"process {adopted.pid} has ended; its exit status is unknown"
        return replace(event, unknown=why)
    if code == OVER:
        span = "" if adopted.for_s is None else f" (--for {show_seconds(adopted.for_s)})"
        why = f"its time{span} is over; process {adopted.pid} runs on as an unmanaged process"
        return replace(event, unknown=why)
    return replace(event, failure=f"process {adopted.pid} cannot be watched any more")

"""The request `step`: the batch step of a Slurm job asks about its job.

A step asks first who it is, then submits its job, then asks when it is woken: is there an attempt
to run, has the job ended. It also says when its Slurm job ends.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from time import CLOCK_BOOTTIME, clock_gettime
from typing import Any, Protocol

from radrm.core import events as ev
from radrm.core.records import Attempt, Job, OuterJob
from radrm.core.scheduler import Scheduler
from radrm.core.words import StopReason
from radrm.daemon.outer.steps import Steps
from radrm.daemon.serving.server import Request
from radrm.daemon.views.arguments import Words
from radrm.daemon.views.documents import Document, JobDocuments
from radrm.errors import Refused, UsageError, plain
from radrm.host.attempts import folder as attempts
from radrm.host.attempts import waiting
from radrm.host.attempts.launcher import Launcher
from radrm.host.clock import Clock
from radrm.host.storage.spool import OUTER, SUFFIX
from radrm.host.storage.store import Store
from radrm.host.storage.tickets import is_ticket

RETURNED = "returned"
"""It goes back to Slurm, unless it runs."""
_REASONS = {
    RETURNED: StopReason.CANCELLED,
    "cancelled": StopReason.CANCELLED,
    "timeout": StopReason.TIMEOUT,
    "preempted": StopReason.PREEMPTED,
}
_LONGEST_WHY = 200
_LONGEST_AGO_S = 86_400.0


class Serves(Protocol):
    """What is asked of the loop."""

    clock: Clock
    scheduler: Scheduler
    store: Store
    steps: Steps
    launcher: Launcher

    def scan(self, names: Iterable[str] = (), first: int | None = None) -> None: ...

    def process(self, events: Iterable[ev.Event]) -> None: ...


def step(loop: Serves, request: Request) -> Document:
    """Return what a step is to do: `vouched` False: ask again; `folder`: run the attempt in it;
    `earlier`: its Slurm job has had this job already."""
    words, client = request.words, request.client
    fields: dict[str, Any] = {name: words.get(name) for name in OUTER}
    if not all(OUTER[name](fields[name]) for name in OUTER):
        raise UsageError("the request 'step' does not name its process and its Slurm job")
    outer = OuterJob(**fields)
    answer: Document = {"vouched": loop.steps.vouch(client, outer.step, outer.id)}
    ticket = words.get("ticket")
    if not answer["vouched"] or ticket is None:
        return answer
    if not isinstance(ticket, str) or not is_ticket(ticket):
        raise UsageError("the request 'step' has no ticket")
    job = _job(loop, ticket, client.uid)
    if job is None:
        answer["earlier"] = _earlier(loop, outer)
        return answer
    if job.outer is not None and job.outer.step != outer.step:
        raise Refused(f"job {job.label} is not that of {outer.label}")
    _note_end(loop, job, words)
    job = loop.scheduler.snapshot.job(job.id) or loop.store.job(job.id) or job
    documents = JobDocuments(loop.scheduler, loop.store)
    answer["job"] = documents.detailed(job, loop.clock.now())
    if job.state.final:
        answer["use"] = _use(loop.store.attempts(job.id))
    attempt = loop.scheduler.snapshot.attempt(job.id)
    if attempt is not None:
        folder = loop.launcher.folder(attempt.serial)
        answer["serial"] = attempt.serial
        there = waiting.exists(folder)
        answer["folder"] = os.path.join(folder, attempts.STEP) if there else None
    return answer


def _use(made: Iterable[Attempt]) -> Document:
    """What all attempts of a job have used, as far as it was measured."""
    gpu_s = smact_s = measured_s = 0.0
    peaks, energies = [], []
    for attempt in made:
        if attempt.started is None or attempt.ended is None:
            continue
        ran_s = attempt.ended.since(attempt.started) or 0.0
        gpu_s += ran_s * len(attempt.placement.devices)
        for used in attempt.usage:
            if used.peak_mib is not None:
                peaks.append(used.peak_mib)
            if used.energy_j is not None:
                energies.append(used.energy_j)
            if used.smact_mean is not None:
                smact_s += used.smact_mean * ran_s
                measured_s += ran_s
    return {
        "gpu_s": gpu_s,
        "smact": smact_s / measured_s if measured_s else None,
        "peak_mib": max(peaks, default=None),
        "energy_j": sum(energies) if energies else None,
    }


def _job(loop: Serves, ticket: str, uid: int) -> Job | None:
    """The job of a ticket, which is taken in now if it is there; None: not yet."""
    taken = loop.store.taken(ticket)
    if taken is None:
        loop.scan([f"{ticket}{SUFFIX}"], first=uid)
        taken = loop.store.taken(ticket)
    if taken is None:
        return None
    if taken.uid != uid:
        raise Refused("that job is not yours")
    return loop.scheduler.snapshot.job(taken.first_id) or loop.store.job(taken.first_id)


def _earlier(loop: Serves, outer: OuterJob) -> str | None:
    """The job that an outer job has had: what another step submits there is dropped."""
    job_id = loop.store.job_of_outer(outer.name)
    if job_id is None:
        return None
    job = loop.scheduler.snapshot.job(job_id) or loop.store.job(job_id)
    return "an earlier one" if job is None else f"job {job.label} ({job.state.value})"


def _note_end(loop: Serves, job: Job, words: Words) -> None:
    """Note that the Slurm job ends, if the step says so: why, and since when (time since boot)."""
    gone, why, since_s = words.get("gone"), words.get("why"), words.get("since_s")
    if gone is None:
        return
    if gone not in _REASONS or not isinstance(why, str) or not isinstance(since_s, float):
        raise UsageError("the request 'step' does not say why its Slurm job ends")
    if gone == RETURNED and not job.state.waiting:
        return  # it has started meanwhile
    text = plain(why[:_LONGEST_WHY])
    reason, ago_s = _REASONS[str(gone)], clock_gettime(CLOCK_BOOTTIME) - since_s
    if not 0 <= ago_s < _LONGEST_AGO_S:
        ago_s = 0.0
    now = loop.clock.now()
    ago_s *= loop.clock.scale
    happened = replace(now, boot_s=now.boot_s - ago_s, wall_s=now.wall_s - ago_s)
    loop.process([ev.OuterGone(at=now, job_id=job.id, reason=reason, why=text, happened=happened)])

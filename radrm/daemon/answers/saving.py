"""The commands that ask running jobs to save their work: `checkpoint` and `migrate`.

A command only asks. The answer says whether the job was asked; its documents show what came of it
(`checkpoint_pending`, `checkpoint_error`, `saved_at`, `moves`).
"""

from __future__ import annotations

from collections.abc import Callable

from radrm.core import events as ev
from radrm.core.planning.requests import READING, Requested
from radrm.core.records import Job, Refusal
from radrm.core.words import JobState
from radrm.daemon.answers.device_commands import find_device
from radrm.daemon.answers.each_job import JobResult, for_each_job
from radrm.daemon.answers.selection import select_jobs
from radrm.daemon.intake.envelopes import user_name
from radrm.daemon.loop import Loop
from radrm.daemon.serving.server import Request
from radrm.daemon.serving.turns import Work
from radrm.daemon.views.documents import in_one_line
from radrm.errors import Refused, UsageError


def checkpoint(loop: Loop, request: Request) -> Work[list[JobResult]]:
    """Ask running jobs to save their work now. They run on."""
    by = user_name(request.client.uid)

    def make_event(job: Job) -> Requested:
        return ev.CheckpointRequested(at=loop.clock.now(), job_id=job.id, by=by)

    return (yield from ask_running(loop, request, make_event, "save its work"))


def migrate(loop: Loop, request: Request) -> Work[list[JobResult]]:
    """Ask running jobs to save their work, and have them go on elsewhere: on the named device, or
    where the policy chooses."""
    by, word = user_name(request.client.uid), request.words.get("device")
    if word is not None and not isinstance(word, str):
        raise UsageError("the request takes one GPU by its index or UUID")
    device = find_device(loop.scheduler.snapshot.devices, word).device.uuid if word else None

    def make_event(job: Job) -> Requested:
        return ev.MigrateRequested(at=loop.clock.now(), job_id=job.id, by=by, device=device)

    return (yield from ask_running(loop, request, make_event, "move"))


def ask_running(
    loop: Loop,
    request: Request,
    make_event: Callable[[Job], Requested],
    what: str,
    say: Callable[[Job, Refusal], str] | None = None,
) -> Work[list[JobResult]]:
    """Ask the running jobs that a request selects. `what`: as "only a running job can `what`".

    `say` puts the core's refusal into words.
    """

    def checked(job: Job) -> ev.Event:
        if job.state.final:
            raise Refused(f"job {job.label} has ended already ({job.state.value})")
        if job.state is not JobState.RUNNING:
            raise Refused(f"job {job.label} is {job.state.value}; only a running job can {what}")
        event = make_event(job)
        refusal = loop.scheduler.refuse_request(event)
        if refusal is not None and say is not None:
            raise Refused(f"job {job.label} cannot {what}: {say(job, refusal)}")
        if refusal is not None:
            why = in_one_line(loop.scheduler.snapshot, (refusal,)) or refusal.message
            if refusal.rule == "checkpoint":
                why += "; submit it with --checkpoint=signal or --checkpoint=exit"
            if refusal.rule == READING:
                why += "; try again when it has been read, usually within seconds"
            raise Refused(f"job {job.label} cannot {what}: {why}")
        return event

    selection = yield from select_jobs(loop, request, by_filter=True)
    return (yield from for_each_job(loop, request, selection, checked))

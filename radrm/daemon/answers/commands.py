"""The commands that users give about their jobs, and the table of all commands.

A command may name several jobs at once, by an array, a name or a glob. The daemon carries it out
for each job for which that is possible. It refuses the command only if there is no such job.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

from radrm.core import events as ev
from radrm.core.records import Job
from radrm.core.words import JobState
from radrm.daemon.answers.device_commands import drain, mps_start, mps_stop, resume
from radrm.daemon.answers.each_job import JobResult, for_each_job
from radrm.daemon.answers.edit import edit
from radrm.daemon.answers.followers import Followers
from radrm.daemon.answers.reservations import reserve, unreserve
from radrm.daemon.answers.resizing import resize
from radrm.daemon.answers.saving import checkpoint, migrate
from radrm.daemon.answers.selection import select_jobs
from radrm.daemon.intake.admission import refuse_more, refuse_priority
from radrm.daemon.intake.batch import dependencies
from radrm.daemon.intake.envelopes import user_name
from radrm.daemon.loop import Loop
from radrm.daemon.serving.server import Request
from radrm.daemon.serving.turns import Pace, Work
from radrm.daemon.views.references import References
from radrm.errors import RadrmError, Refused

Command: TypeAlias = Callable[[Loop, Request], Any]
"""Carries a request out. Returns its answer, or the work that leads to it."""


def cancel(loop: Loop, request: Request) -> Work[list[JobResult]]:
    """End jobs, waiting or running. The result of each names the jobs that fail with it."""
    selection = yield from select_jobs(loop, request, by_filter=True)
    pace = Pace()

    def find(job_id: int) -> Job | None:
        return loop.scheduler.snapshot.job(job_id)

    unfinished = {job_id for job_id in selection.ids if find(job_id) is not None}
    followers = Followers(find, unfinished)
    for job in loop.scheduler.snapshot.jobs:
        followers.note(job)
        if pace.spent:
            yield from pace.rest()

    def make_event(job: Job) -> ev.Event | None:
        if job.state.final and job.id in unfinished:
            return None  # it has failed with a job that this command cancelled before
        if job.state.final:
            raise Refused(f"job {job.label} has ended already ({job.state.value})")
        by = user_name(request.client.uid)
        return ev.CancelRequested(at=loop.clock.now(), job_id=job.id, by=by)

    def carry_out(done: list[JobResult], events: list[ev.Event]) -> None:
        cancelled = {int(result.id): result for result in done if result.error is None}
        for job_id, failing in followers.failing_with(cancelled).items():
            cancelled[job_id].followers = [job.label for job in failing]
        loop.process(events)

    return (yield from for_each_job(loop, request, selection, make_event, carry_out))


def hold(loop: Loop, request: Request) -> Work[list[JobResult]]:
    """Keep waiting jobs from starting."""

    def make_event(job: Job) -> ev.Event:
        if not job.state.waiting:
            raise Refused(f"job {job.label} is {job.state.value}; only a waiting job can be held")
        if job.held:
            raise Refused(f"job {job.label} is held already")
        return ev.HoldRequested(at=loop.clock.now(), job_id=job.id, held=True)

    selection = yield from select_jobs(loop, request, by_filter=True)
    return (yield from for_each_job(loop, request, selection, make_event))


def release(loop: Loop, request: Request) -> Work[list[JobResult]]:
    """Let held jobs start, and end the pause of jobs that wait before they are tried again.

    The release of one element lets an array go on that `--max-fails` has stopped.
    """
    gone_on: set[int] = set()
    """The arrays that this command has let go on."""

    def make_event(job: Job) -> ev.Event:
        array = job.array.array_id if job.array is not None and job.state.waiting else None
        if array is not None and array not in gone_on and _is_stopped(loop, job):
            gone_on.add(array)
        if job.awaits_begin and not (job.held or array in gone_on):
            raise Refused(
                f"job {job.label} is not held, it waits for its --begin; to start it now: radrm "
                f"edit {job.label} --begin=none"
            )
        if job.state.final or not (job.held or job.pause or array in gone_on):
            raise Refused(f"job {job.label} is {job.state.value} and not held")
        _check_priority(loop, request, job)
        return ev.HoldRequested(at=loop.clock.now(), job_id=job.id, held=False)

    selection = yield from select_jobs(loop, request, by_filter=True)
    return (yield from for_each_job(loop, request, selection, make_event))


def _is_stopped(loop: Loop, job: Job) -> bool:
    """Whether `--max-fails` keeps a waiting element from starting."""
    if job.array is None or job.array.max_fails is None:
        return False
    why = loop.scheduler.why_waiting(job.id, loop.clock.now())
    return any(refusal.rule == "max-fails" for refusal in why)


def requeue(loop: Loop, request: Request) -> Work[list[JobResult]]:
    """Run jobs again from their start: running jobs, and jobs that have ended."""
    coming: Counter[int] = Counter()
    """By user: the jobs of this command that the scheduler has not queued yet."""

    def make_event(job: Job) -> ev.Event:
        if job.state.waiting or job.state is JobState.STOPPING:
            raise Refused(f"job {job.label} is {job.state.value}; there is nothing to run again")
        _check_priority(loop, request, job)
        mine = loop.parts.users.of(request.client.uid)
        queued = loop.scheduler.use_of(job.spec.uid).queued
        if (why := refuse_more(mine, queued + coming[job.spec.uid], 1)) is not None:
            raise Refused(why)
        coming[job.spec.uid] += 1
        by = user_name(request.client.uid)
        return ev.RequeueRequested(at=loop.clock.now(), job=_as_new(loop, job), by=by)

    def carry_out(done: list[JobResult], events: list[ev.Event]) -> None:
        coming.clear()
        loop.process(events)

    selection = yield from select_jobs(loop, request, by_filter=True)
    return (yield from for_each_job(loop, request, selection, make_event, carry_out))


def _check_priority(loop: Loop, request: Request, job: Job) -> None:
    """Raise `Refused` for a job whose priority is beyond the client's limit."""
    advice = f"lower it: radrm edit {job.label} --priority=N"
    mine = loop.parts.users.of(request.client.uid)
    if (why := refuse_priority(mine, job.spec.priority, advice)) is not None:
        raise Refused(f"job {job.label}: {why}")


def _as_new(loop: Loop, job: Job) -> Job:
    """The job as it runs again.

    A job that never ran gets its dependencies back. They are looked up again, and a dependency
    that cannot be met raises `Refused`.
    """
    if not job.state.final or job.attempts:
        return job
    submission = loop.store.submissions.of_job(job.id)
    wanted = submission.job_file().options.after
    if job.state is JobState.FAILED and submission.parsed is None:
        raise Refused(f"job {job.label} was refused: {job.reason}; submit it again")
    try:
        after = dependencies(wanted, References(loop.scheduler, loop.store).target)
    except RadrmError as error:
        raise Refused(
            f"job {job.label} never ran and cannot: {error}; submit it with another --after"
        ) from None
    return replace(job, after=after)


COMMANDS: dict[str, Command] = {
    "cancel": cancel,
    "hold": hold,
    "release": release,
    "requeue": requeue,
    "checkpoint": checkpoint,
    "migrate": migrate,
    "resize": resize,
    "edit": edit,
    "drain": drain,
    "resume": resume,
    "reserve": reserve,
    "unreserve": unreserve,
    "mps-start": mps_start,
    "mps-stop": mps_stop,
}

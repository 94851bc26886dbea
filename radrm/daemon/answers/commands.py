"""Commands of users to jobs, and what becomes of jobs that follow.

A command may name several jobs at once, by an array, a name or a glob. The daemon carries it out
for each job for which that is possible. It refuses the command only if there is no such job.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import msgspec

from radrm.core import events as ev
from radrm.core.lifecycle.edits import saves_first
from radrm.core.records import Dependency, Job
from radrm.core.words import Condition, JobState
from radrm.daemon.answers.device_commands import drain, mps_start, mps_stop, resume
from radrm.daemon.answers.each_job import JobResult, for_each_job
from radrm.daemon.answers.edit import Changes, edit
from radrm.daemon.answers.reservations import reserve, unreserve
from radrm.daemon.answers.running import checkpoint, migrate, resize
from radrm.daemon.answers.selection import Selection, is_administrator, select_jobs
from radrm.daemon.intake.admission import refuse_more, refuse_priority
from radrm.daemon.intake.batch import dependencies
from radrm.daemon.intake.envelopes import user_name
from radrm.daemon.loop import Loop
from radrm.daemon.serving.server import Request
from radrm.daemon.serving.turns import Pace, Work
from radrm.daemon.views.arguments import MAX_FINISHED
from radrm.daemon.views.references import Found, References
from radrm.errors import RadrmError, Refused
from radrm.structs import replace


def reload(loop: Loop, request: Request) -> None:
    """Replace the daemon after this answer. Raises `RadrmError` for a wrong configuration."""
    if not is_administrator(request.client.uid):
        raise Refused("only root and the daemon's own user may reload the configuration")
    loop.parts.check()
    loop.reload_soon()


_Key = tuple[bool, int]


class Followers:
    """The waiting jobs, by what they follow; filled by `note`.

    `find` gives an unfinished job by its id. `selected` are the jobs of the cancel itself,
    which are never reported as followers.
    """

    def __init__(self, find: Callable[[int], Job | None], selected: Iterable[int]) -> None:
        self._find = find
        self._following: dict[_Key, list[tuple[Job, Condition]]] = defaultdict(list)
        self._seen = set(selected)

    def note(self, job: Job) -> None:
        """Add a job, under each job or array that it follows; nothing if it does not wait."""
        for dependency in job.after if job.state.waiting else ():
            key = (dependency.array, dependency.job_id)
            self._following[key].append((job, dependency.condition))

    def failing_with(self, cancelled: Iterable[int]) -> dict[int, list[Job]]:
        """The waiting jobs that fail because they follow a cancelled job, directly or through
        others. Each job appears once, under the first cancelled job that it follows."""
        found: dict[int, list[Job]] = {}
        for job_id in dict.fromkeys(cancelled) if self._following else ():
            first = self._find(job_id)
            ended = [(first, JobState.CANCELLED)] if first is not None else []
            hit: list[Job] = []
            while ended:
                job, state = ended.pop()
                for key in _keys(job):
                    for follower, condition in self._following.get(key, ()):
                        if follower.id not in self._seen and not condition.met_by(state):
                            self._seen.add(follower.id)
                            hit.append(follower)
                            ended.append((follower, JobState.FAILED))
            if hit:
                found[job_id] = sorted(hit, key=lambda job: job.id)
        return found


def _keys(job: Job) -> list[_Key]:
    """The keys under which others may follow a job: the job itself, and its array."""
    mine = [(False, job.id)]
    return mine if job.array is None else [*mine, (True, job.array.array_id)]


class EndedFollowers:
    """The jobs that have ended without completing, by what they follow; filled by `note`."""

    def __init__(self) -> None:
        self._following: dict[_Key, list[Job]] = defaultdict(list)

    def note(self, job: Job) -> None:
        """Add a job under each job or array that it follows, or has followed."""
        for dependency in dict.fromkeys((*job.after, *job.followed)):
            self._following[dependency.array, dependency.job_id].append(job)

    def levels(self, again: Iterable[Job]) -> Work[list[list[int]]]:
        """The ids of the jobs that follow these, directly or through others, in an order in which
        they can run again: each level only follows these jobs and earlier levels."""
        first, pace = list(again), Pace()
        waits_for: dict[int, int] = dict.fromkeys((job.id for job in first), 0)
        """For each job found, how many of the others it follows."""
        todo = first[:]
        while todo:
            for follower in self._of(todo.pop()):
                if follower.id not in waits_for:
                    waits_for[follower.id] = 0
                    todo.append(follower)
                waits_for[follower.id] += 1
            yield from pace.rest_if_spent()
        seen = {job.id for job in first}
        level, levels = first, []
        while level:
            ready: dict[int, Job] = {}
            for follower in (each for job in level for each in self._of(job)):
                waits_for[follower.id] -= 1
                if not waits_for[follower.id] and follower.id not in seen:
                    seen.add(follower.id)
                    ready[follower.id] = follower
            level = list(ready.values())
            levels.append(sorted(ready))
            yield from pace.rest_if_spent()
        return [ids for ids in levels if ids]

    def _of(self, job: Job) -> list[Job]:
        return [each for key in _keys(job) for each in self._following.get(key, ())]


_STATES_AT_ONCE = 500
"""Jobs whose states the store reads at once."""

Command: TypeAlias = Callable[[Loop, Request], Any]
"""Carries a request out. Returns its answer, or the work that leads to it."""


def cancel(loop: Loop, request: Request, dry: bool = False) -> Work[list[JobResult]]:
    """End jobs, waiting or running. The result of each names the jobs that fail with it.

    `dry`: only say what would be done.
    """
    selection = yield from select_jobs(loop, request, by_filter=True)
    pace = Pace()

    def find(job_id: int) -> Job | None:
        return loop.scheduler.snapshot.job(job_id)

    unfinished = {job_id for job_id in selection.ids if find(job_id) is not None}
    followers = Followers(find, unfinished)
    for job in loop.scheduler.snapshot.jobs:
        followers.note(job)
        yield from pace.rest_if_spent()

    def make_event(job: Job) -> ev.Event | None:
        if job.state.final and job.id in unfinished:
            return None  # it has failed with a job that this command cancelled before
        if job.state.final:
            raise Refused(f"job {job.label} has ended already ({job.state.value})")
        by = user_name(request.client.uid)
        return ev.CancelRequested(at=loop.clock.now(), job_id=job.id, by=by)

    def carry_out(done: list[JobResult], events: list[ev.Event]) -> None:
        places = {int(result.id): at for at, result in enumerate(done) if result.error is None}
        for job_id, failing in followers.failing_with(places).items():
            at, labels = places[job_id], tuple(job.label for job in failing)
            done[at] = msgspec.structs.replace(done[at], followers=labels)
        loop.process([] if dry else events)

    return (yield from for_each_job(loop, request, selection, make_event, carry_out))


def would_cancel(loop: Loop, request: Request) -> Work[list[JobResult]]:
    """Say what `cancel` would do. It has a name of its own, which an earlier daemon refuses."""
    return cancel(loop, request, dry=True)


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
    """Run jobs again: running jobs, which save first if they can, and jobs that have ended.

    With `from_start` they begin anew, in place of going on from what they have saved.
    With `followers`, those that follow them and have ended without completing run again after them.
    With `options`, the named jobs are changed as by `edit`; a job that refuses the change stays
    as it was.
    """
    changes = None
    if request.words.get("options") is not None:
        changes = yield from Changes.of(loop, request)
    coming: Counter[int] = Counter()
    """By user: the jobs of this command that the scheduler has not queued yet."""
    selection = yield from select_jobs(loop, request, by_filter=True)
    by_name = selection.by_name
    partly_ended: dict[int, bool] = {}
    """By array. Such a name hardly means the elements that still run."""
    follows = request.words.get("followers") is True
    from_start = request.words.get("from_start") is True
    saving: set[int] = set()
    """The jobs that save first."""
    edits: list[ev.Event] = []
    """The changes of live jobs, which come first."""

    def make_event(job: Job) -> ev.Event:
        if job.outer is not None and job.state.final:
            raise Refused(
                f"job {job.label} ran inside {job.outer.label}, which has ended; submit it to Slurm"
            )
        if job.state.waiting or job.state is JobState.STOPPING:
            step = f"; to change it: radrm edit {job.label}" if changes is not None else ""
            raise Refused(
                f"job {job.label} is {job.state.value}; there is nothing to run again{step}"
            )
        if job.state.live and job.id in by_name and job.array is not None:
            array_id = job.array.array_id
            if array_id not in partly_ended:
                partly_ended[array_id] = any(s.final for s in loop.store.array_states(array_id))
            if partly_ended[array_id]:
                raise Refused(
                    f"job {job.label} is {job.state.value}, and others of its array have ended; "
                    "name it by its id, or say which are meant, as --state failed"
                )
        if changes is None or "priority" not in changes.names:
            _check_priority(loop, request, job)
        mine = loop.parts.users.of(request.client.uid)
        queued = loop.scheduler.use_of(job.spec.uid).queued
        if (why := refuse_more(mine, queued + coming[job.spec.uid], 1)) is not None:
            raise Refused(why)
        again = _as_new(loop, job, follows, changes)
        if changes is not None and not job.state.final:
            edits.append(_changed_live(changes, job))
        coming[job.spec.uid] += 1
        by = user_name(request.client.uid)
        if not from_start and saves_first(job):
            saving.add(job.id)
        return ev.RequeueRequested(at=loop.clock.now(), job=again, by=by, from_start=from_start)

    def carry_out(done: list[JobResult], events: list[ev.Event]) -> None:
        for at, result in enumerate(done):
            if result.id in saving:
                done[at] = msgspec.structs.replace(result, saves=True)
        coming.clear()
        changed = changes.finish(done) if changes is not None else []
        loop.process([*edits, *events], edits=changed)
        edits.clear()

    results = yield from for_each_job(loop, request, selection, make_event, carry_out)
    if not follows:
        return results
    done = {result.id for result in results if result.error is None}
    changes = None  # they are about the named jobs
    for level in (yield from _followers_of(loop, selection, done)):
        # Each level begins when those that it follows are in the queue again.
        follow = [Found(str(job_id), (job_id,)) for job_id in level]
        chosen = Selection(follow, None, selection.uid)
        results += yield from for_each_job(loop, request, chosen, make_event, carry_out)
    return results


def _followers_of(
    loop: Loop, selection: Selection, requeued: set[int | str]
) -> Work[list[list[int]]]:
    """The ended jobs that follow requeued ones, in levels, among the latest that have ended."""
    ended, pace = EndedFollowers(), Pace()
    ids = loop.store.finished(MAX_FINISHED)
    for first in range(0, len(ids), _STATES_AT_ONCE):
        for job_id, state in loop.store.states(ids[first : first + _STATES_AT_ONCE]).items():
            job = None if state is JobState.COMPLETED else loop.store.job(job_id)
            if job is not None and selection.refusal(job) is None:
                ended.note(job)
            yield from pace.rest_if_spent()
    look_up = References(loop.scheduler, loop.store)
    again = (look_up.current(job_id) for job_id in requeued if isinstance(job_id, int))
    return (yield from ended.levels(job for job in again if job is not None))


def _check_priority(loop: Loop, request: Request, job: Job) -> None:
    """Raise `Refused` for a job whose priority is beyond the client's limit."""
    advice = f"lower it: radrm edit {job.label} --priority=N"
    mine = loop.parts.users.of(request.client.uid)
    if (why := refuse_priority(mine, job.spec.priority, advice)) is not None:
        raise Refused(f"job {job.label}: {why}")


def _changed_live(changes: Changes, job: Job) -> ev.Event:
    """The change of a job that runs: of that which can change while it does."""
    try:
        return changes.event(job)
    except Refused as error:
        way = f"radrm cancel {job.label}, then radrm requeue {job.label} with the same options"
        raise Refused(f"{error}; or: {way}") from None


def _as_new(loop: Loop, job: Job, follows: bool, changes: Changes | None) -> Job:
    """The job as it runs again, with `changes`.

    A job that never ran gets its dependencies back. They are looked up again, and a dependency
    that cannot be met raises `Refused`. With `follows`, one that ran waits for those that it
    followed and that run again now.
    """
    if not job.state.final:
        return job
    if changes is not None and "after" in changes.names:
        return changes.again(job)
    if job.attempts:
        open_again = tuple(d for d in job.followed if follows and loop.scheduler.is_open(d))
        job = replace(job, after=(*job.after, *open_again))
    else:
        job = replace(job, after=_first_dependencies(loop, job))
    return job if changes is None else changes.again(job)


def _first_dependencies(loop: Loop, job: Job) -> tuple[Dependency, ...]:
    """The dependencies of a job that never ran, as they are now."""
    submission = loop.store.submissions.of_job(job.id)
    wanted = submission.job_file().options.after
    if job.state is JobState.FAILED and submission.parsed is None:
        raise Refused(f"job {job.label} was refused: {job.reason}; submit it again")
    try:
        return dependencies(wanted, References(loop.scheduler, loop.store).target)
    except RadrmError as error:
        raise Refused(
            f"job {job.label} never ran and cannot: {error}; submit it with another --after"
        ) from None


COMMANDS: dict[str, Command] = {
    "cancel": cancel,
    "would-cancel": would_cancel,
    "hold": hold,
    "release": release,
    "requeue": requeue,
    "checkpoint": checkpoint,
    "migrate": migrate,
    "resize": resize,
    "edit": edit,
    "drain": drain,
    "reload": reload,
    "step": lambda loop, request: loop.steps.answer(loop, request),
    "resume": resume,
    "reserve": reserve,
    "unreserve": unreserve,
    "mps-start": mps_start,
    "mps-stop": mps_stop,
}

"""Requests for running jobs: to save, to move, to have another size.

A command only asks. The answer says whether the job was asked; its documents show what came of it
(`checkpoint_pending`, `checkpoint_error`, `saved_at`, `moves`; of a resize `resizing`,
`resize_error`, `roles`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from radrm.core import events as ev
from radrm.core.planning.requests import READING, Requested
from radrm.core.records import Attempt, Job, Refusal, Role
from radrm.core.snapshot import DeviceSnapshot, Snapshot
from radrm.core.words import JobState, Resizing
from radrm.daemon.answers.device_commands import find_device
from radrm.daemon.answers.each_job import JobResult, for_each_job
from radrm.daemon.answers.selection import select_jobs
from radrm.daemon.intake.envelopes import user_name
from radrm.daemon.loop import Loop
from radrm.daemon.serving.server import Request
from radrm.daemon.serving.turns import Work
from radrm.daemon.views.arguments import Words
from radrm.daemon.views.sizes import target_of
from radrm.daemon.views.waiting_reasons import clause
from radrm.errors import Refused, UsageError
from radrm.jobfile.values import MAX_TASKS


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
            why = clause(loop.scheduler.snapshot, refusal)
            if refusal.rule == "checkpoint":
                why += "; submit it with --checkpoint=signal or --checkpoint=exit"
            if refusal.rule == READING:
                why += "; try again when it has been read, usually within seconds"
            raise Refused(f"job {job.label} cannot {what}: {why}")
        return event

    selection = yield from select_jobs(loop, request, by_filter=True)
    return (yield from for_each_job(loop, request, selection, checked))


_MOST_ROLES = 64
_MOST_SHOWN = 4
"""GPUs of others that an answer names."""


def resize(loop: Loop, request: Request) -> Work[list[JobResult]]:
    """Ask for another size of running jobs: `gpus` in all, or the tasks of each of some roles."""
    by = user_name(request.client.uid)
    gpus, roles = _wanted(request.words)

    def make_event(job: Job) -> ev.ResizeRequested:
        snapshot = loop.scheduler.snapshot
        live = snapshot.attempt(job.id)
        if live is None:
            raise Refused(f"job {job.label} does not run; only a running job can get another size")
        counts = _counts(job, live, gpus, roles)
        return ev.ResizeRequested(
            at=loop.clock.now(), job_id=job.id, by=by, counts=tuple(sorted(counts.items()))
        )

    def say(job: Job, refusal: Refusal) -> str:
        snapshot = loop.scheduler.snapshot
        why = clause(snapshot, refusal)
        if refusal.rule == "checkpoint":
            return f"{why}; submit it with --checkpoint=signal"
        live = snapshot.attempt(job.id)
        if live is None or (refusal.device is None and refusal.rule not in _OF_DEVICES):
            return why
        holders = list(_holders(snapshot, live))
        more = len(holders) - _MOST_SHOWN
        shown = ", ".join(holders[:_MOST_SHOWN]) + (f" and {more} more" if more > 0 else "")
        return f"{why}; {shown}" if holders else why

    return (yield from ask_running(loop, request, make_event, "get that size", say))


_OF_DEVICES = frozenset({"count", "devices"})
"""Rules of a refusal that speaks of all GPUs together."""


def _wanted(words: Words) -> tuple[int | None, dict[str, int]]:
    """Return the GPUs, or the tasks by role, that a request asks for. Raises `UsageError`."""
    gpus, roles = words.get("gpus"), words.get("roles") or {}
    if gpus is not None and (type(gpus) is not int or not 1 <= gpus <= MAX_TASKS):
        raise UsageError(f"--gpus: {gpus!r:.40} is not a whole number from 1 to {MAX_TASKS}")
    if not isinstance(roles, dict) or len(roles) > _MOST_ROLES:
        raise UsageError("the request 'resize' takes roles with their numbers of tasks")
    for name, count in roles.items():
        if type(count) is not int or not 1 <= count <= MAX_TASKS:
            raise UsageError(
                f"--role {name!r:.40}: {count!r:.40} is not a whole number from 1 to {MAX_TASKS}"
            )
    if (gpus is None) == (not roles):
        raise UsageError("say one new size: radrm resize JOB --gpus=2, or --role worker=6")
    return gpus, roles


def _counts(job: Job, live: Attempt, gpus: int | None, roles: dict[str, int]) -> dict[str, int]:
    """Return the tasks of each role that changes. Raises `Refused` with the reason."""
    spec, label = job.spec, job.label
    if spec.resizing is Resizing.NONE:
        raise Refused(
            f"job {label} keeps the size of its start: it was submitted without a range such as "
            "--gpus=1-4"
        )
    target = target_of(job, live)
    if target is not None:
        raise Refused(f"job {label} is being resized already, to {_size(job, target.tasks())}")
    wanted = roles if gpus is None else _by_gpus(job, gpus)
    present = live.placement.tasks()
    for name, count in wanted.items():
        role = next((role for role in spec.roles if role.name == name), None)
        if role is None:
            names = ", ".join(role.name for role in spec.roles)
            raise Refused(f"job {label} has no role {name[:40]!r}; it has {names}")
        if not role.allows(count):
            many = f"{count * role.needs.gpus} GPUs" if gpus is not None else f"{count} tasks"
            raise Refused(f"job {label} cannot run with {many}{_of(role)}; {_range(role)}")
    counts = {name: count for name, count in wanted.items() if present.get(name) != count}
    if not counts:
        raise Refused(f"job {label} has that size already: {_size(job, present)}")
    return counts


def _by_gpus(job: Job, gpus: int) -> dict[str, int]:
    """Return the tasks with which a job has so many GPUs. Raises `Refused`."""
    with_gpus = [role for role in job.spec.roles if role.needs.gpus]
    if len(with_gpus) != 1:
        what = "has several roles with GPUs" if with_gpus else "uses no GPU"
        raise Refused(f"job {job.label} {what}; name a role, as in --role worker=6")
    (role,) = with_gpus
    count, rest = divmod(gpus, role.needs.gpus)
    if rest:
        each = role.needs.gpus
        raise Refused(f"job {job.label} has {each} GPUs in each task, so {gpus} is not possible")
    return {role.name: count}


def _of(role: Role) -> str:
    return "" if role.name == "main" else f" of role {role.name}"


def _range(role: Role) -> str:
    if role.count_min == role.count_max:
        return f"it always has {role.count_min}; submit it with a range"
    return f"its range is {role.count_min}-{role.count_max}"


def _size(job: Job, counts: dict[str, int]) -> str:
    """As `2 GPUs`, or `ps 1, worker 4`."""
    if len(job.spec.roles) == 1 and job.spec.gpus:
        gpus = sum(counts.values()) * job.spec.roles[0].needs.gpus
        return f"{gpus} GPU{'' if gpus == 1 else 's'}"
    return ", ".join(f"{name} {count}" for name, count in counts.items())


def _holders(snapshot: Snapshot, live: Attempt) -> Iterator[str]:
    """Yield who has each GPU that the job has not: `GPU 1: job 7 (ada)`."""
    for each in snapshot.devices:
        if each.device.uuid in live.devices:
            continue
        who = _who(snapshot, each)
        if who:
            yield f"GPU {each.device.index}: {', '.join(who)}"


def _who(snapshot: Snapshot, device: DeviceSnapshot) -> list[str]:
    jobs = [snapshot.job(job_id) for job_id in device.occupants]
    found = [f"job {job.label} ({job.spec.user})" for job in jobs if job is not None]
    if device.drained is not None:
        found.append("drained")
    if device.unmanaged_mib:
        found.append("an unmanaged process")
    return found

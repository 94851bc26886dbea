"""The questions that any user may ask. A question changes nothing."""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable
from typing import Any, TypeAlias

from msgspec.structs import asdict, replace

from radrm import __version__
from radrm.core.records import Instant, Job, JobSpec
from radrm.core.words import Collocation
from radrm.daemon.answers.past.energy import energy
from radrm.daemon.answers.past.history import history
from radrm.daemon.answers.past.overview import overview
from radrm.daemon.answers.past.report import report
from radrm.daemon.answers.reservations import reservations
from radrm.daemon.answers.status import documents_for, paged, status
from radrm.daemon.intake.admission import refuse_job, refuse_more
from radrm.daemon.intake.batch import dependencies
from radrm.daemon.intake.envelopes import user_name
from radrm.daemon.intake.estimation import SAME_RUNS
from radrm.daemon.launches import log_paths
from radrm.daemon.loop import Loop
from radrm.daemon.serving.turns import Pace, Work
from radrm.daemon.views.arguments import MAX_REFERENCES, Words, is_text, references
from radrm.daemon.views.device_documents import device_documents, processes_on
from radrm.daemon.views.documents import Document, unknown_gpus
from radrm.daemon.views.explanations import explain as explain_job
from radrm.daemon.views.explanations import learned_documents
from radrm.daemon.views.references import References
from radrm.daemon.views.shares import shares as shares_of
from radrm.daemon.views.submitted import submitted
from radrm.documents.jobs import Explanation, Notice
from radrm.documents.server import Gpu, GpuProcess, Process
from radrm.errors import Refused, UsageError
from radrm.estimators.learning.fingerprint import parts_of
from radrm.estimators.learning.learned import MOST_RUNS
from radrm.estimators.learning.profile import profile_of
from radrm.host.processes.procfs import hides_processes
from radrm.host.storage.store import Store
from radrm.host.storage.tickets import is_ticket
from radrm.jobfile.options import Options
from radrm.jobfile.parsing import typed
from radrm.jobfile.sizes import memory_range, roles_of
from radrm.jobfile.slurm import MARK
from radrm.jobfile.targets import target_of


def limits(loop: Loop, words: Words, uid: int) -> Document:
    """Each limit of a user with its value and the user's use.

    `limit` null: none. `use` null: nothing adds up. Only root and the daemon's user may ask about
    other users.
    """
    name = words.get("user")
    if uid not in (0, os.getuid()) and name not in (None, str(uid), user_name(uid)):
        # Not looked up: a directory service may keep the loop waiting for each name.
        raise Refused("only root may see the limits of another user")
    asked = _user(name, uid)
    users = loop.parts.users
    mine, use = users.of(asked), loop.scheduler.use_of(asked)
    spool = loop.parts.spool.arrivals.use_of(asked)
    used: dict[str, float | None] = {
        "queued_jobs": use.queued,
        "running_jobs": use.running,
        "gpus": use.gpus,
        "reserved_gpu_hours": _reserved_hours(loop, asked),
        "array_size": None,
        "environment_kib": None,
        "priority_max": None,
        "spool_files": spool.files,
        "spool_mib": round(spool.size / 2**20, 1),
        "connections": loop.connections_of(asked),
        "requests_per_s": None,
    }
    note = None
    if not users.shared:
        note = "no limits: this daemon is its user's own"
    elif asked in users.exempt:
        note = "no limits: root and the daemon's user have none"
    return {
        "user": user_name(asked),
        "uid": asked,
        "note": note,
        "limits": [
            {"name": name, "limit": _limit(name, getattr(mine, name), note), "use": number}
            for name, number in used.items()
        ],
    }


def _limit(name: str, value: float, note: str | None) -> float | None:
    """A limit; None for none, where `note` says so or it is 0. These two are limits at 0, too."""
    at_zero = ("priority_max",) if note is not None else ("priority_max", "reserved_gpu_hours")
    return value if value or name in at_zero else None


def _reserved_hours(loop: Loop, uid: int) -> float:
    """The GPU-hours that a user has reserved for itself."""
    now_s, found = loop.clock.now().wall_s, loop.scheduler.snapshot.for_users
    mine = [each for each in found if each.own and each.by_uid == uid and each.end_s > now_s]
    return round(sum(each.gpu_hours for each in mine), 2)


def _user(name: object, uid: int) -> int:
    """Return the uid of a user by name or number; the client's, if none is named."""
    if name is None:
        return uid
    if not isinstance(name, str):
        raise UsageError("the request takes a user by name")
    try:
        return pwd.getpwnam(name).pw_uid
    except (KeyError, ValueError):
        if name.isascii() and name.isdigit() and int(name) < 2**32:
            return int(name)
    raise Refused(f"there is no user {name[:40]!r}")


Question: TypeAlias = Callable[[Loop, Words, int], Any]
"""Takes the request and the client's uid. Returns the answer, or the work that leads to it."""

_LONGEST_NAME = 128
"""The most characters of a job's name."""


# ------------------------------------------------------------------ jobs


def explain(loop: Loop, words: Words, uid: int) -> Work[Explanation]:
    """Why a job waits, or where and how it ran."""
    yield from loop.parts.foresight.prepare()
    job = yield from _one_job(loop, words, uid)
    found = explain_job(documents_for(loop), job, loop.clock.now())
    notices = tuple(Notice(**each) for each in not_sent(loop.store, job, uid))
    given = submitted(loop.store, job, uid)
    return replace(found, job=replace(found.job, notices=notices, **given))


def not_sent(store: Store, job: Job, uid: int) -> list[Document]:
    """The notices about a job that could not be sent. Only its user, root and the daemon's user
    are shown any: a target may be a secret."""
    if uid not in (job.spec.uid, 0, os.getuid()):
        return []
    return store.notices.problems(job.id, job.array.array_id if job.array is not None else None)


def logs(loop: Loop, words: Words, uid: int) -> Work[Document]:
    """The paths of an attempt's logs, and the job's user. The client opens them itself, with its
    own rights (`client/tail.py`). Its user also learns the submitted file and the job's folder."""
    job = yield from _one_job(loop, words, uid)
    if job.attempts == 0 and job.state.final:
        raise Refused(f"job {job.label} never started ({job.state.value}: {job.reason})")
    if job.attempts == 0:
        raise Refused(f"job {job.label} has not started yet, so it has no log")
    number = words.get("attempt") or job.attempts
    if type(number) is not int or not 1 <= number <= job.attempts:
        raise Refused(f"job {job.label} has attempts 1 to {job.attempts}, not {number!r}")
    submission = loop.store.submissions.of_job(job.id)
    options = submission.job_file().options
    cwd = os.path.join(submission.envelope.cwd, options.chdir or "")
    own = uid in (job.spec.uid, 0)
    as_slurm = submission.envelope.environment.get(MARK) == "1"
    stdout, stderr = log_paths(job, number, options, cwd, as_slurm)
    return {
        "id": job.id,
        "uid": job.spec.uid,
        "stdout": stdout,
        "stderr": stderr,
        "file": submission.envelope.file if own else None,
        "cwd": os.path.normpath(cwd) if own else None,
        "attempt": number,
        "live": job.state.live and number == job.attempts,
        "final": job.state.final,
    }


def _one_job(loop: Loop, words: Words, uid: int) -> Work[Job]:
    named = references(words)
    if len(named) != 1:
        raise UsageError("this request takes one job")
    return (yield from References(loop.scheduler, loop.store, uid).one(named[0]))


def after(loop: Loop, words: Words, uid: int) -> Work[list[str]]:
    """The values of `--after` of a submission, with ids in place of names, patterns and `@`."""
    asked = typed({"after": words.get("after")}, "--after")
    return (yield from References(loop.scheduler, loop.store, uid).followed(asked.after))


def runs(loop: Loop, words: Words, uid: int) -> Document:
    """The runs that estimators learn from here: the client's own runs with a fingerprint, and
    the latest runs of all users, without their names."""
    mark = words.get("fingerprint")
    if mark is not None and (not is_text(mark) or len(mark) > 64):
        raise UsageError("the request takes a fingerprint")
    name = words.get("name")
    if name is not None and (not is_text(name) or len(name) > _LONGEST_NAME):
        raise UsageError("the request takes a job's name")
    kind = loop.scheduler.device_kind()
    program, length = parts_of(mark)
    same, brief = loop.store.runs.of_program(program, uid, SAME_RUNS)
    named = loop.store.runs.named(name, uid, SAME_RUNS) if name is not None else ()
    recent = loop.store.runs.recent(kind, MOST_RUNS)
    return {
        "device_kind": kind,
        "device_mib": loop.scheduler.device_mib(),
        "driver": loop.parts.estimates.estimation.driver,
        "contexts": loop.parts.estimates.estimation.contexts(uid),
        "same": [asdict(run) for run in same],
        "named": [asdict(run) for run in named],
        "profile": [asdict(each) for each in profile_of((*same, *brief), length)],
        "recent": [asdict(run) for run in recent],
    }


# ------------------------------------------------------------------ the server


def gpus(loop: Loop, words: Words, uid: int) -> list[Gpu]:
    """The devices. An unmanaged process also has what was done about it, if anything was.

    `processes`: each with its processes; `user`, `mine`: only those of this user, of the client.
    """
    now, unmanaged = loop.clock.now(), loop.parts.attempts.unmanaged

    def with_action(process: Process) -> Process:
        return replace(process, **unmanaged.action_taken(process.pid, now.boot_s))

    found = [
        replace(each, unmanaged=tuple(map(with_action, each.unmanaged)))
        for each in device_documents(loop.scheduler.snapshot, now)
    ]
    return _with_processes(loop, found, words, uid) if words.get("processes") else found


def _with_processes(loop: Loop, found: list[Gpu], words: Words, uid: int) -> list[Gpu]:
    """Everybody sees the command lines of others' jobs as in `ps`: not where `hidepid` hides
    them."""
    user = user_name(uid) if words.get("mine") else words.get("user")
    if user is not None and not is_text(user):
        raise UsageError("the request takes a user by name")
    trusted = uid in (0, os.getuid()) or not hides_processes()
    snapshot = loop.scheduler.snapshot

    def of(uuid: str) -> tuple[GpuProcess, ...] | None:
        here = processes_on(snapshot, uuid, lambda job: trusted or job.spec.uid == uid)
        if here is None or user is None:
            return here
        return tuple(each for each in here if each.user == user)

    return [replace(each, processes=of(each.uuid)) for each in found]


def shares(loop: Loop, words: Words, uid: int) -> Document:
    """The recent GPU time of users and groups."""
    return shares_of(loop.scheduler.snapshot)


def health(loop: Loop, words: Words, uid: int) -> Document:
    """What `radrm doctor` asks: the state of all that can fail, in one answer."""
    return {
        "devices": gpus(loop, words, uid),
        "mps": mps(loop, words, uid),
        "launch_error": loop.scheduler.launch_error,
        "rules": list(loop.scheduler.errors(loop.clock.now(), refused=True)),
        "sharing": learned_documents(loop.scheduler.learned),
        "unknown_gpus": {
            setting: unknown_gpus(loop.scheduler.snapshot, names)
            for setting, names in loop.parts.devices.named.items()
        },
    }


def metrics(loop: Loop, words: Words, uid: int) -> Work[Document]:
    """What `radrm metrics` shows beside the devices: counters since the daemon's start, and the
    jobs now. It names no job and no user."""
    counts = loop.counts
    states = yield from counts.unfinished(loop.scheduler.snapshot)
    devices = {each.device.uuid for each in loop.scheduler.snapshot.devices}
    found = counts.document()
    return {
        **found,
        "version": __version__,
        "jobs": states,
        "queued": loop.scheduler.snapshot.waiting,
        "energy_j": {uuid: joules for uuid, joules in found["energy_j"].items() if uuid in devices},
        "writable": not loop.unsaved,
        "rules_resting": len(loop.scheduler.errors(loop.clock.now())),
        "notices_given_up": loop.store.notices.given_up,
    }


def mps(loop: Loop, words: Words, uid: int) -> list[Document]:
    """A row for each MPS control daemon; each of its clients with the job that it belongs to."""
    service, owner_of = loop.parts.devices.mps, loop.launcher.owner_of
    rows = service.rows() if service is not None else []
    for row in rows:
        for server in row["servers"]:
            owners = [(pid, owner_of(pid)) for pid in server["clients"]]
            server["clients"] = [{"pid": pid, "job": o[0] if o else None} for pid, o in owners]
    return rows


def check(loop: Loop, words: Words, uid: int) -> Work[list[Any]]:
    """Why each of these jobs can never run here, or exceeds a limit of its user; null if neither.
    With it, a list of lines for the submitter.

    `environment`: the bytes of the environment that all of them have.
    """
    needs, environment = words.get("needs"), words.get("environment", 0)
    if not isinstance(needs, list) or len(needs) > MAX_REFERENCES or type(environment) is not int:
        raise UsageError("the request 'check' takes a list of needs")
    mine, queued = loop.parts.users.of(uid), loop.scheduler.use_of(uid).queued
    found: list[Any] = []
    pace, more = Pace(), 0
    for each in needs:
        asked = typed(each, "these needs")
        elements = 1 if asked.array is None else len(asked.array.indices)
        more += elements
        never, unmet = _after(loop, asked)
        why = (
            refuse_job(mine, asked.priority or 0, elements, environment)
            or loop.scheduler.hopeless(_imagined(asked, uid))
            or never
            or refuse_more(mine, queued, more)
        )
        notes = [*unmet, *not_notified(loop, asked), *_not_here(loop, asked)]
        found.append([why, notes])
        yield from pace.rest_if_spent()
    return found


def _not_here(loop: Loop, asked: Options) -> list[str]:
    """A line on names of GPUs that mean none of the present ones; a GPU may return."""
    named = (*(asked.prefer_gpus or ()), *(asked.avoid_gpus or ()))
    names = ", ".join(unknown_gpus(loop.scheduler.snapshot, named))
    if not names:
        return []
    return [
        f"no GPU here matches {names}, so that part of --prefer-gpus or --avoid-gpus has no "
        "effect; see radrm gpus"
    ]


def _after(loop: Loop, asked: Options) -> tuple[str | None, list[str]]:
    """Why a job cannot be submitted after the jobs that it names: one never was; and a line about
    one that has ended otherwise. A ticket that the store does not know may be in the spool."""
    known = [
        each
        for each in asked.after
        if not is_ticket(each.job) or loop.store.taken(each.job) is not None
    ]
    try:
        dependencies(tuple(known), References(loop.scheduler, loop.store).target)
    except Refused as error:
        why = str(error)
        return (why, []) if why.startswith("--after") else (None, [f"--after: {why}"])
    return None, []


def not_notified(loop: Loop, asked: Options) -> list[str]:
    """A line for the kinds of notices that this server cannot send."""
    site = loop.store.notices.site
    notes = []
    for kind in dict.fromkeys(target_of(each).kind for each in asked.notify):
        if kind not in site.kinds:
            allowed = ", ".join(site.kinds) or "none"
            notes.append(f"--notify: this server sends no {kind} (notify.kinds: {allowed})")
        elif kind == "mail" and not os.access(site.sendmail, os.X_OK):
            notes.append(
                f"--notify: this server cannot send mail, as it has no program {site.sendmail}; "
                "name a URL or a program, or ask the administrator to install one"
            )
    return notes


def _imagined(asked: Options, uid: int) -> Job:
    """A job with these options, to ask the scheduler about. It is never submitted."""
    spec = JobSpec(
        name="",
        user="",
        uid=uid,
        collocation=Collocation(asked.collocation or "auto"),
        gpu_types=asked.gpu_type or (),
        roles=roles_of(asked),
        memory_range_mib=memory_range(asked),
    )
    return Job(id=0, ticket="", spec=spec, submitted=Instant(0.0, 0.0))


QUESTIONS: dict[str, Question] = {
    "status": status,
    "page": paged,
    "explain": explain,
    "after": after,
    "runs": runs,
    "logs": logs,
    "gpus": gpus,
    "health": health,
    "metrics": metrics,
    "mps": mps,
    "shares": shares,
    "energy": energy,
    "report": report,
    "history": history,
    "overview": overview,
    "check": check,
    "limits": limits,
    "reservations": reservations,
}

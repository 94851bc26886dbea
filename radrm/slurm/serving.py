"""The batch steps of Slurm jobs that wait on this server for their jobs.

Theory of operation. A step is a process of the job's user, who can write anything into an envelope
and into a request. So an outer job is believed only if the kernel says that the process which
connected is that user's, and Slurm says that it is in that Slurm job of that user
(`asking.py`). That can take Slurm's own command, so it is asked in a thread; the step asks
again until there is an answer. An envelope of a step that nobody has vouched for waits in the
spool, and is refused once the process is dead.

A pidfd tells when a step ends. All memory here is a cache: after a restart the steps ask again, and
the jobs' records name their processes.

A step first asks for its Slurm job, then submits the job to the daemon. Whenever it is woken, it
asks whether there is an attempt to run and whether the job has ended. It reports the end of its
Slurm job. This file queries slurmctld once for each step; `telling.py` sends all updates.

Whose fault it is that a job cannot run here is decided here, as far as the daemon knows: `fault` in
an answer (`step/returning.py`).
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import threading
from collections.abc import Callable, Iterable
from time import CLOCK_BOOTTIME, clock_gettime
from typing import Any, Protocol

from radrm.config import SlurmConfig
from radrm.core import events as ev
from radrm.core.records import Attempt, Instant, Job, OuterJob
from radrm.core.words import JobState, StopReason
from radrm.daemon.serving.server import Request
from radrm.daemon.steps import OuterSteps, Serves
from radrm.daemon.views.arguments import Words
from radrm.daemon.views.documents import Document, JobDocuments
from radrm.errors import RadrmError, Refused, Unreachable, UsageError, plain
from radrm.host.attempts import folder as attempts
from radrm.host.attempts import waiting
from radrm.host.attempts.live import readable
from radrm.host.processes.identity import Identity, alive, open_pidfd, wake
from radrm.host.sockets import Peer
from radrm.host.storage.spool import OUTER, SUFFIX, Envelope
from radrm.host.storage.tickets import is_ticket
from radrm.slurm import comment
from radrm.slurm.asking import is_in_job
from radrm.slurm.outer import Told, shown, told_of
from radrm.slurm.telling import Notes
from radrm.structs import replace

_MOST_ASKED = 64
"""Steps about which Slurm is asked at a time."""
_KEPT = 4096
"""Answers that are kept; of more, those about dead processes are forgotten."""

Process = tuple[int, int, str]
"""What names a process for ever: pid, start time, boot."""


class Taken(Protocol):
    """What is asked of the store."""

    def job_of_outer(self, name: str) -> int | None: ...


class NotThere(Refused):
    """A process is not in the Slurm job that it names."""

    def __init__(self, pid: int, outer_id: str) -> None:
        super().__init__(f"process {pid} is not in Slurm job {outer_id}")


Ask = Callable[[int, str, str], "Told | None"]
"""Says what the controller says of the job of a process: its pid, the job's number, and its name
for Slurm's commands. None while the controller is away. Raises `NotThere`."""


class Steps(OuterSteps):
    """Used by the loop's thread. `ask` is called in another one."""

    def __init__(
        self,
        config: SlurmConfig,
        store: Taken,
        ask: Ask | None = None,
        notes: Notes | None = None,
    ) -> None:
        self.config = config
        self.notes = notes or Notes(config.local_wait_s)
        self._store = store
        self._ask = ask or self._ask_slurm
        self._vouched: dict[Process, tuple[int, str, Told | None] | RadrmError] = {}
        """By process: its user, its Slurm job, and what the controller said of that, None if it was
        away; or why that is not known of it."""
        self._asking: set[Process] = set()
        self._tickets: dict[str, str] = {}
        """By outer job: the ticket of an unfinished job that runs in it."""
        self._fds: dict[int, int] = {}
        """By job: a pidfd of its step."""
        self._dead: set[int] = set()
        """Jobs whose steps were dead when they were looked for."""
        self._retired: list[int] = []
        self._retiring: list[int] = []

    # ------------------------------------------------------------- what a step says of itself

    def vouch(self, client: Peer, process: Process, outer_id: str, named: str = "") -> bool:
        """Return whether this client is that process, in that Slurm job; False: ask again soon.
        `named`: what Slurm's commands call the job.

        Raises `Refused` if it is not, and `Unreachable` while Slurm does not say.
        """
        if client.pid != process[0] or not alive(Identity(*process)):
            raise Refused(
                f"process {process[0]} is not the one that asks; start the step on this node, "
                "outside containers"
            )
        known = self._vouched.get(process)
        if isinstance(known, RadrmError):
            del self._vouched[process]  # it may ask again
            raise known
        if known is None:
            self._begin_to_ask(client, process, outer_id, named or outer_id)
            return False
        if known[:2] != (client.uid, outer_id):
            raise NotThere(process[0], outer_id)
        return True

    def told(self, client: Peer, outer: OuterJob, named: str) -> Told | None:
        """Return what the controller says of the job of a step that was vouched for; None while it
        says nothing, and is asked again as `named`."""
        known = self._vouched.get(outer.step)
        if isinstance(known, tuple) and known[2] is not None:
            self.notes.begin(known[2])
            return known[2]
        self._begin_to_ask(client, outer.step, outer.id, named)
        return None

    def fault(self, outer: OuterJob, told: Told) -> tuple[str, str] | None:
        """Return whose fault it is that this job cannot run here, and why; None if it can."""
        if not self.config.enabled:
            why = "its radrm takes no jobs of Slurm (slurm.enabled is false)"
            if told.gpumem_mib is not None:  # nobody drains a node by a job of another kind
                self.notes.fault(told, why)
            return "node", why
        if told.partition != self.config.partition:
            own = self.config.partition
            why = f"{outer.label} is in partition {told.partition}, and radrm shares the GPUs of "
            return "job", f"{why}partition {own}; submit it there: sbatch -p {own} FILE"
        return None

    def _ask_slurm(self, pid: int, outer_id: str, named: str) -> Told | None:
        if not is_in_job(pid, outer_id, node=self.config.node):
            raise NotThere(pid, outer_id)
        try:
            return told_of(named, shown(named), self.config.gres)
        except Refused:
            return None  # the controller is away; Slurm starts no process of another user in a job

    def _begin_to_ask(self, client: Peer, process: Process, outer_id: str, named: str) -> None:
        if process in self._asking or len(self._asking) >= _MOST_ASKED:
            return
        if len(self._vouched) >= _KEPT:
            self._vouched = {p: v for p, v in self._vouched.items() if alive(Identity(*p))}
        self._asking.add(process)

        def ask() -> None:
            try:
                told = self._ask(client.pid, outer_id, named)
                found: tuple[int, str, Told | None] | RadrmError = client.uid, outer_id, told
                if told is not None and (told.uid, told.id) != (client.uid, outer_id):
                    found = NotThere(client.pid, outer_id)
            except NotThere as error:
                found = error
            except RadrmError as error:
                found = Unreachable(f"Slurm does not say what is in job {outer_id}: {error}")
            except Exception as error:
                found = Unreachable(f"Slurm cannot be asked about job {outer_id}: {error}")
            if not alive(Identity(*process)):  # another may have taken its number meanwhile
                found = Refused("the step has ended")
            self._vouched[process] = found
            self._asking.discard(process)
            with contextlib.suppress(OSError):  # it asks again anyway
                wake(fd := open_pidfd(Identity(*process)))
                if fd is not None:
                    os.close(fd)

        threading.Thread(target=ask, name="slurm", daemon=True).start()

    # ------------------------------------------------------------- for intake

    def outer_of(self, envelope: Envelope, uid: int) -> OuterJob | None:
        """Return the outer job of an envelope of user `uid`; None: it has none.

        Raises `Refused`, and OSError while nobody has vouched for its step.
        """
        fields = envelope.outer
        if fields is None:
            if self.config.only:
                raise Refused(
                    "this server takes jobs from Slurm alone; submit it there: "
                    "radrm submit --cluster FILE, or sbatch"
                )
            return None
        if not self.config.enabled:
            raise Refused("this daemon takes no jobs from Slurm; set slurm.enabled = true")
        outer = OuterJob(**{name: fields[name] for name in OUTER})
        known = self._vouched.get(outer.step)
        if not isinstance(known, tuple) or known[:2] != (uid, outer.id):
            if not alive(Identity(*outer.step)):
                raise Refused(f"the step of {outer.label} ended before its job was taken in")
            raise OSError(errno.EAGAIN, f"the step of {outer.label} has not been vouched for")
        return outer

    def is_repeated(self, outer: OuterJob, ticket: str) -> bool:
        """Return whether the outer job of a new envelope, which is believed, has a job already."""
        if self._store.job_of_outer(outer.name) is not None:
            return True
        return self._tickets.setdefault(outer.name, ticket) != ticket

    # ------------------------------------------------------------- for the loop

    def note(self, job: Job) -> None:
        """Watch the step of an unfinished job, and wake that of one that has ended."""
        if job.outer is None:
            return
        if job.state.final:
            self._tickets.pop(job.outer.name, None)
            self._dead.discard(job.id)
            if (fd := self._fds.pop(job.id, None)) is not None:
                wake(fd)
                self._retiring.append(fd)
        elif job.id not in self._fds and job.outer.gone is None:
            self._tickets[job.outer.name] = job.ticket
            fd = open_pidfd(Identity(*job.outer.step))
            if fd is None:
                self._dead.add(job.id)
            else:
                self._fds[job.id] = fd

    def fds(self) -> list[int]:
        """Descriptors that can be read when a step ends. Ask before each wait.

        One that is no longer among them stays open until the next call.
        """
        for fd in self._retired:
            os.close(fd)
        self._retired, self._retiring = self._retiring, []
        return list(self._fds.values())

    def events(self, now: Instant) -> list[ev.Event]:
        """Return the ends of steps since the last call."""
        ended = [job_id for job_id, fd in self._fds.items() if readable(fd)]
        for job_id in ended:
            self._retiring.append(self._fds.pop(job_id))
        gone, self._dead = sorted({*ended, *self._dead}), set()
        why = "its Slurm step has ended"
        return [
            ev.OuterGone(at=now, job_id=job_id, reason=StopReason.LOST, why=why) for job_id in gone
        ]

    def answer(self, loop: Serves, request: Request) -> Document:
        """Return what the step that asks is to do. Raises `RadrmError`."""
        return _answer(self, loop, request)


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


def _answer(steps: Steps, loop: Serves, request: Request) -> Document:
    """Return what a step is to do: `vouched` False: ask again; `slurm`: what Slurm says of its job;
    `fault` and `why`: it does not run here; `folder`: run the attempt in it; `telling`: wait until
    Slurm knows what the job has used; `earlier`: its Slurm job has had this job already."""
    words, client = request.words, request.client
    fields: dict[str, Any] = {name: words.get(name) for name in OUTER}
    named = words.get("named") or fields["id"]
    if not all(OUTER[name](fields[name]) for name in OUTER) or not _is_name(named):
        raise UsageError("the request 'step' does not name its process and its Slurm job")
    outer = OuterJob(**fields)
    answer: Document = {"vouched": steps.vouch(client, outer.step, outer.id, named)}
    answer["patience_s"] = steps.config.local_wait_s
    if not answer["vouched"]:
        return answer
    if steps.config.fence:
        answer["silent"], answer["every_s"] = steps.notes.silence()
    told = steps.told(client, outer, named)
    run = "" if told is None else told.run
    if (ticket := words.get("ticket")) is None:
        if told is not None:
            limit_s = steps.notes.own_limit_s(told.run)
            answer["slurm"] = {**told.document, "limit_s": limit_s}
            answer["fault"], answer["why"] = steps.fault(outer, told) or (None, None)
        return answer
    if not isinstance(ticket, str) or not is_ticket(ticket):
        raise UsageError("the request 'step' has no ticket")
    job = _job(loop, ticket, client.uid)
    if job is None:
        answer["earlier"] = _earlier(loop, outer)
        return answer
    if job.outer is not None and job.outer.step != outer.step:
        raise Refused(f"job {job.label} is not that of {outer.label}")
    _note_end(steps, loop, job, run, words)
    if job.state.waiting and words.get("suspended") is not None:
        held = words["suspended"] is True
        loop.process([ev.HoldRequested(at=loop.clock.now(), job_id=job.id, held=held)])
    job = loop.scheduler.snapshot.job(job.id) or loop.store.job(job.id) or job
    documents = JobDocuments(loop.scheduler, loop.store)
    answer["job"] = documents.detailed(job, loop.clock.now())
    steps.notes.limit(run, job.spec.time_limit_s)
    if job.state.final:
        _note_ended(steps, loop, job, run, answer)
    elif job.state.waiting:
        _note_waiting(steps, loop, job, run, answer["job"].reason)
    attempt = loop.scheduler.snapshot.attempt(job.id)
    if attempt is not None:
        folder = loop.launcher.folder(attempt.serial)
        answer["serial"] = attempt.serial
        there = waiting.exists(folder)
        answer["folder"] = os.path.join(folder, attempts.STEP) if there else None
        if there:
            steps.notes.started(run)
    return answer


_NAMED = re.compile(r"[0-9]{1,10}(?:_[0-9]{1,7})?")
_JOBS = re.compile(r"\b(jobs?) ([0-9]{1,10}(?:, [0-9]{1,10})*)\b")


def _is_name(named: Any) -> bool:
    return isinstance(named, str) and _NAMED.fullmatch(named) is not None


def _note_waiting(steps: Steps, loop: Serves, job: Job, run: str, reason: str | None) -> None:
    """Have Slurm show why a job waits."""
    if steps.notes.is_due(run):
        rules = {r.rule for r in loop.scheduler.why_waiting(job.id, loop.clock.now())}
        why = in_slurms_numbers(reason or "for its turn", loop.scheduler.snapshot.job)
        steps.notes.waiting(run, why, frozenset(rules))


def in_slurms_numbers(text: str, job_of: Callable[[int], Job | None]) -> str:
    """Return a reason that names jobs of Slurm's by Slurm's numbers, not by those of this node."""

    def named(match: re.Match[str]) -> str:
        jobs = [job_of(int(number)) for number in match[2].split(", ")]
        if any(job is None or job.outer is None for job in jobs):
            return match[0]
        return f"Slurm {match[1]} {', '.join(job.outer.id for job in jobs if job and job.outer)}"

    return _JOBS.sub(named, text)


def _note_ended(steps: Steps, loop: Serves, job: Job, run: str, answer: Document) -> None:
    """Have Slurm show what a job has used; or say that it has not fitted here."""
    if job.state is JobState.FAILED and not job.attempts:
        answer["fault"], answer["why"] = "place", job.reason or "it cannot run there"
    elif job.outer is not None and job.outer.gone is None:
        use = comment.Use(**_use(loop.store.attempts(job.id)))
        answer["telling"] = not steps.notes.ended(run, use)


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


def _note_end(steps: Steps, loop: Serves, job: Job, run: str, words: Words) -> None:
    """Note that the Slurm job ends, if the step says so: why, and since when (time since boot)."""
    gone, why, since_s = words.get("gone"), words.get("why"), words.get("since_s")
    if gone is None:
        return
    if gone not in _REASONS or not isinstance(why, str) or not isinstance(since_s, float):
        raise UsageError("the request 'step' does not say why its Slurm job ends")
    if gone == RETURNED and not job.state.waiting:
        return  # it has started meanwhile
    text = plain(why[:_LONGEST_WHY])
    if gone == RETURNED and job.outer is not None and job.outer.gone is None:
        steps.notes.returns(run, text)
    reason, ago_s = _REASONS[str(gone)], clock_gettime(CLOCK_BOOTTIME) - since_s
    if not 0 <= ago_s < _LONGEST_AGO_S:
        ago_s = 0.0
    now = loop.clock.now()
    ago_s *= loop.clock.scale
    happened = replace(now, boot_s=now.boot_s - ago_s, wall_s=now.wall_s - ago_s)
    loop.process([ev.OuterGone(at=now, job_id=job.id, reason=reason, why=text, happened=happened)])

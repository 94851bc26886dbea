"""Measure the memory of a CUDA context by a job: the *probe*.

The trace of a job contains the CUDA version of its program. If no run has measured a context of
that CUDA on this kind of GPU under this driver, the daemon submits one probe for the same user.
A probe is an ordinary job with an ordinary attempt, behind all other jobs and on a device of its
own. The memory that it used is stored as a run, with `context_mark` as its fingerprint. After a
restart a waiting probe is found by that fingerprint, so the daemon submits no second one.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence

from radrm.core.records import Estimate, Job
from radrm.core.words import Quantity
from radrm.daemon.intake.batch import Taker, take_in
from radrm.daemon.intake.envelopes import group_of
from radrm.daemon.intake.estimation import Estimation, Knowledge
from radrm.daemon.views.references import Target
from radrm.errors import RadrmError, Refused
from radrm.host.estimation import probe
from radrm.host.storage.runs import context_mark
from radrm.host.storage.spool import Arrival, Envelope
from radrm.host.storage.submitted import Submission
from radrm.host.storage.tickets import new_ticket
from radrm.jobfile.radfile import JobFile

log = logging.getLogger("radrm")

_CUDA = re.compile(r"\d{1,3}(\.\d{1,3}){0,2}")


class Probing:
    """Submits probes, if `wanted`. Used by the loop's thread.

    `simulated_s`: the seconds from one round of readings to the next, on the clock of simulated
    GPUs; None: the GPUs are real.
    """

    def __init__(self, estimation: Estimation, wanted: bool, simulated_s: float | None) -> None:
        self._estimation = estimation
        self._wanted = wanted
        self._simulated_s = simulated_s
        self._tried: set[tuple[int, str]] = set()
        """Users and marks. A probe that has failed is not repeated: it would fail again."""

    def look(self, loop: Taker, job_ids: Sequence[int], estimates: Sequence[Estimate]) -> None:
        """Submit a probe if these new estimates need a context that was not measured yet."""
        snapshot = loop.scheduler.snapshot
        job = next((job for i in job_ids if (job := snapshot.job(i)) is not None), None)
        mark = self._mark(job, estimates) if job is not None and not loop.unsaved else None
        if job is None or mark is None:
            return
        if any(j.fingerprint == mark for j in snapshot.jobs):
            return  # another user's probe waits, or one from before this daemon's start
        self._tried.add((job.spec.uid, mark))
        try:
            self._submit(loop, job, mark)
        except RadrmError as error:
            log.warning("the CUDA context is not measured for job %s: %s", job.label, error)

    def _mark(self, job: Job, estimates: Sequence[Estimate]) -> str | None:
        """The mark of the context to measure; None if there is nothing to measure."""
        memory = next((e for e in estimates if e.quantity is Quantity.MEMORY), None)
        driver, kind = self._estimation.driver, self._estimation.device_kind()
        if not self._wanted or memory is None or memory.context_mib is None:
            return None
        if driver is None or kind is None or not _CUDA.fullmatch(memory.cuda or ""):
            return None
        mark = context_mark(driver, memory.cuda or "")
        if (job.spec.uid, mark) in self._tried:
            return None
        known = self._estimation.contexts(job.spec.uid)
        return None if memory.cuda in known else mark

    def _submit(self, loop: Taker, job: Job, mark: str) -> None:
        submission = loop.store.submissions.of_job(job.id)
        theirs, now = submission.envelope, loop.clock.now()
        own = dict(submission.job_file().options.env)
        envelope = Envelope(
            ticket=new_ticket(),
            file=None,
            script=None,
            command=probe.command(self._simulated_s),
            options=probe.options(self._simulated_s),
            cwd=theirs.cwd,
            umask=theirs.umask,
            environment={**theirs.environment, **own},
            submitted_s=now.wall_s,
        )
        gid = group_of(submission.uid, submission.gid)
        arrival = Arrival(envelope.ticket, submission.uid, gid, envelope, None)
        batch = take_in(arrival, envelope, _KnowledgeOfProbe(mark), _refuse_dependency)
        new_id = loop.store.next_job_id()
        log.info("job %d measures the CUDA context for job %s (%s)", new_id, job.label, mark)
        loop.process(
            batch.events(0, new_id, new_id, now),
            [Submission(submission.uid, gid, envelope, batch.parsed)],
        )


class _KnowledgeOfProbe:
    """The knowledge of a probe: its mark. It gets a whole device, so it needs no estimate."""

    def __init__(self, mark: str) -> None:
        self._knowledge = Knowledge(fingerprint=mark)

    def known_at_once(self, job_file: JobFile, envelope: Envelope, uid: int) -> Knowledge:
        return self._knowledge


def _refuse_dependency(word: str) -> Target:
    raise Refused(f"a probe follows no job such as {word}")

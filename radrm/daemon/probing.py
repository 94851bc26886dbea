"""The CUDA context measured: when that is wanted, and the job that does it.

A traced job tells with which CUDA its program was built. Where nobody has measured a context
of that CUDA on this kind of GPU under this driver, a small job of the same user does, once: an
ordinary job with an ordinary attempt, behind all others, on a device of its own. What it
was seen to use is remembered as a run, with `context_mark` as its fingerprint.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence

from radrm.core.records import Estimate, Job
from radrm.core.words import Quantity
from radrm.daemon.intake.batch import take_in
from radrm.daemon.intake.envelopes import group_of, read_envelope
from radrm.daemon.intake.estimation import Estimation, Told
from radrm.daemon.intake.scan import Taker
from radrm.daemon.views.references import Target
from radrm.errors import RadrmError, Refused
from radrm.host.estimation import probe
from radrm.host.storage.spool import Arrival, Envelope
from radrm.host.storage.store import Submission, context_mark
from radrm.host.storage.tickets import new_ticket
from radrm.jobfile.radfile import JobFile

log = logging.getLogger("radrm")

_CUDA = re.compile(r"\d{1,3}(\.\d{1,3}){0,2}")


class Probing:
    """Used by the loop's thread. `wanted` False: never. `simulated_s`: the GPUs are simulated,
    with so many seconds of their clock from one round of readings to the next."""

    def __init__(self, estimation: Estimation, wanted: bool, simulated_s: float | None) -> None:
        self._estimation = estimation
        self._wanted = wanted
        self._simulated_s = simulated_s
        self._tried: set[tuple[int, str]] = set()
        """Users and marks: one that has failed would fail again."""

    def look(self, loop: Taker, job_ids: Sequence[int], estimates: Sequence[Estimate]) -> None:
        """Submit a probe, if these estimates of jobs that were just asked about want one."""
        job = next((j for i in job_ids if (j := loop.scheduler.state.jobs.get(i))), None)
        mark = self._mark(job, estimates) if job is not None and not loop.unsaved else None
        if job is None or mark is None:
            return
        if any(j.fingerprint == mark for j in loop.scheduler.state.jobs.values()):
            return  # another's waits, or one from before this daemon's start
        self._tried.add((job.spec.uid, mark))
        try:
            self._submit(loop, job, mark)
        except RadrmError as error:
            log.warning("the CUDA context is not measured for job %s: %s", job.label, error)

    def _mark(self, job: Job, estimates: Sequence[Estimate]) -> str | None:
        """What is to be measured; None for nothing."""
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
        submission = loop.store.submission(job.id)
        theirs, now = submission.envelope, loop.clock.now()
        own = dict(read_envelope(theirs).options.env)
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
        batch = take_in(arrival, envelope, _Known(mark), _follows_nothing)
        new_id = loop.store.next_job_id()
        log.info("job %d measures the CUDA context for job %s (%s)", new_id, job.label, mark)
        loop.process(
            [*batch.events(0, new_id, new_id, now)], [Submission(submission.uid, gid, envelope)]
        )


class _Known:
    """What is known of a probe: its mark, and nothing of its need, as it gets a whole device."""

    def __init__(self, mark: str) -> None:
        self._told = Told(fingerprint=mark)

    def told(self, job_file: JobFile, envelope: Envelope, uid: int) -> Told:
        return self._told


def _follows_nothing(word: str) -> Target:
    raise Refused(f"a probe follows no job such as {word}")

"""What a job will need, as the daemon comes to know it: at once, or asked of the estimators.

What is declared, and what the very same thing needed before, is known at intake. All else
takes thought, elsewhere: the job waits for it outside the queue.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass, replace

from radrm.config import Config
from radrm.core.records import Estimate, Job
from radrm.core.rules import Description
from radrm.core.words import Quantity
from radrm.daemon.intake.envelopes import group_of, read_envelope
from radrm.estimators import ESTIMATORS
from radrm.estimators.fingerprint import fingerprint, variables_of
from radrm.estimators.learned import MOST_RUNS
from radrm.estimators.traced import Traced
from radrm.host.estimation.asking import Asking
from radrm.host.estimation.service import EstimationService, Wanted
from radrm.host.estimation.tracing import TraceRequest, tracer_arguments
from radrm.host.storage.spool import Envelope
from radrm.host.storage.store import Store
from radrm.jobfile.radfile import JobFile
from radrm.wiring import describe

log = logging.getLogger("radrm")

_TRACING = frozenset({"auto", "trace", "faketensor"})
SAME_RUNS = 20
"""So many of the latest runs of the very same thing are looked at."""


@dataclass(frozen=True, slots=True)
class Told:
    """What is known of a job at once. `estimating`: the estimators may know more."""

    estimates: tuple[Estimate, ...] = ()
    estimating: bool = False
    fingerprint: str | None = None


NOTHING_KNOWN = Told()


class Estimation:
    """Used by the loop's thread. `device_kind` tells the kind of all GPUs, None for several;
    `driver` is their driver's version, None where it is not known."""

    def __init__(
        self,
        config: Config,
        store: Store,
        service: EstimationService,
        device_kind: Callable[[], str | None],
        driver: str | None = None,
    ) -> None:
        self._config = config
        self._store = store
        self._service = service
        self.device_kind = device_kind
        self.driver = driver
        self._asking = Asking(config)

    def told(self, job_file: JobFile, envelope: Envelope, uid: int) -> Told:
        """What is known at once of a job that `uid` submits. Never raises for what it is like."""
        if job_file.options.gpus == 0:
            return NOTHING_KNOWN
        mark = fingerprint_of(job_file, envelope)
        description = self._described(job_file, mark, uid)
        if description.same_runs:
            description = self._with_recent(description, uid)
        estimates = self._asking.at_once(description)
        known = {e.quantity for e in estimates}
        more = Quantity.MEMORY not in known and self._is_worth_asking(description, job_file)
        return Told(estimates, more, mark)

    def begin(self, job: Job) -> None:
        """Have the estimators asked about a job. Raises `RadrmError` where its file cannot be
        read any more."""
        key = f"{job.ticket} {self._store.edited(job.id)}"
        if self._service.join(key, job.id):
            return
        submission = self._store.submission(job.id)
        envelope = submission.envelope
        job_file = read_envelope(envelope)
        # Anew: a job of an earlier release brings one along that may match another thing's.
        mark = fingerprint_of(job_file, envelope)
        description = self._described(job_file, mark, submission.uid)
        description = self._with_recent(description, submission.uid)
        request = None
        if self._is_to_be_traced(description, job_file):
            drop = os.getuid() == 0
            request = TraceRequest(
                arguments=tracer_arguments(job_file.options),
                cwd=os.path.join(envelope.cwd, job_file.options.chdir or ""),
                environment={**envelope.environment, **dict(job_file.options.env)},
                umask=envelope.umask,
                command=command_of(job_file),
                user=job.spec.user,
                uid=submission.uid if drop else None,
                gid=group_of(submission.uid, submission.gid) if drop else None,
            )
        self._service.ask(key, job.id, Wanted(description, request))

    def _described(self, job_file: JobFile, mark: str | None, uid: int) -> Description:
        same = self._store.same_runs(mark, uid, SAME_RUNS) if mark is not None else ()
        return replace(
            describe(job_file),
            device_kind=self.device_kind(),
            driver=self.driver,
            same_runs=same,
        )

    def contexts(self, uid: int) -> dict[str, float]:
        """What a CUDA context takes on the GPUs here, as far as it was measured."""
        kind = self.device_kind()
        if kind is None or self.driver is None:
            return {}
        return self._store.contexts(kind, self.driver, uid)

    def _with_recent(self, job: Description, uid: int) -> Description:
        """With what estimates are corrected by: looked up where there are any."""
        recent = self._store.recent_runs(job.device_kind, MOST_RUNS)
        return replace(job, recent_runs=recent, contexts=self.contexts(uid))

    def _is_worth_asking(self, job: Description, job_file: JobFile) -> bool:
        name = self._config.estimator
        if name not in ESTIMATORS:
            return True  # a third party's may know something that we do not
        told = job.summary or job.published or job_file.options.model_factory
        return bool(told) and name not in ("none", "declared", "history")

    def _is_to_be_traced(self, job: Description, job_file: JobFile) -> bool:
        config = self._config
        if job_file.options.model_factory is None or not config.estimation.trace:
            return False
        if config.estimator not in _TRACING:
            return False
        return job.summary is None or Traced.from_text(job.summary) is None


def command_of(job_file: JobFile) -> str:
    """The text of what a job runs."""
    return job_file.script or " ".join(job_file.argv)


def fingerprint_of(job_file: JobFile, envelope: Envelope) -> str:
    """What this job has in common with all runs of the same thing."""
    options = job_file.options
    matters: dict[str, object] = {
        "gpus": 1 if options.gpus is None else options.gpus,
        "batch_size": options.batch_size,
        "sequence_length": options.sequence_length,
        "input_shape": options.input_shape,
        "optimizer": options.optimizer,
        "precision": options.precision,
        "mig_profile": options.mig_profile,
        "env": sorted(options.env),
    }
    text = "\n".join([job_file.script or "", *job_file.argv])
    matters["cwd"] = os.path.join(envelope.cwd, options.chdir or "")
    matters["variables"] = variables_of(text, envelope.environment)
    return fingerprint(
        job_file.argv or job_file.script or "",
        sources=envelope.sources,
        summary=job_file.summary,
        settings=[f"{name}={value}" for name, value in matters.items()],
    )

"""Estimate what a job needs: at intake, or by asking the estimators.

Theory of operation. Declared needs, and the needs of equal past jobs, are known at intake. For
all others the estimators run in another process, and the job waits outside the queue until the
event `EstimateReady`. Nothing of a question is stored: after a restart the daemon asks again for
every job that is still `estimating`. Jobs of one ticket with the same edits share one question.

A job that says nothing of its memory is traced: its own command runs for some steps, without a GPU
and with nothing kept of what it writes. That costs a part of a core for seconds, so no job is
traced that cannot train (`jobfile/programs`), whose user works in it, or who asks for none.

When a run has ended, the first waiting jobs of the same fingerprint are predicted again (`again`):
their SM activity and duration, since a longer history knows them better.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from radrm.config import Config
from radrm.core.events import PredictionsReady
from radrm.core.records import Estimate, Instant, Job, Profiled
from radrm.core.scheduler import Scheduler
from radrm.core.words import Quantity
from radrm.daemon.intake.envelopes import group_of
from radrm.estimators import ESTIMATORS
from radrm.estimators.interface import Description, PastRun
from radrm.estimators.learning.fingerprint import parts_of
from radrm.estimators.learning.learned import MOST_RUNS
from radrm.estimators.learning.profile import profile_of, with_other_sizes
from radrm.estimators.traces import Traced
from radrm.host.estimation.asking import Asking
from radrm.host.estimation.commands import (
    command_request,
    factory_request,
    fingerprint_of,
    may_run,
    may_trace,
)
from radrm.host.estimation.service import EstimationService, Wanted
from radrm.host.storage.runs import Run, program_of
from radrm.host.storage.schema import digest_of
from radrm.host.storage.spool import Envelope
from radrm.host.storage.store import Store
from radrm.jobfile.programs import may_train
from radrm.jobfile.radfile import JobFile
from radrm.structs import replace
from radrm.wiring import describe

log = logging.getLogger("radrm")

_MOST_KEPT = 256
"""Users whose latest runs are kept."""
_TRACING = frozenset({"auto", "trace", "faketensor"})
_RUNNING = frozenset({"auto", "script"})
"""The estimators that trace a factory, and a job's command."""
_OF_PYTHON = (
    "PATH", "VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "PYTHONPATH", "LD_LIBRARY_PATH",
)  # fmt: skip
"""Variables that decide which programs a command finds. A history does not ask for them."""
_MOST_SIZES = 16
"""Larger sizes of a job's range whose run times are looked up."""
SAME_RUNS = 20
"""Latest runs with the same fingerprint that an estimate uses."""


class Knowledge(Struct, frozen=True):
    """What intake knows of a job. `estimating`: the estimators may know more."""

    estimates: tuple[Estimate, ...] = ()
    estimating: bool = False
    fingerprint: str | None = None
    profile: tuple[Profiled, ...] = ()


NOTHING_KNOWN = Knowledge()


class Estimation:
    """Estimates jobs. Used by the loop's thread.

    `scheduler` knows the kinds of GPU that are here; `driver` is their driver's version, None if
    unknown.
    """

    def __init__(
        self,
        config: Config,
        store: Store,
        service: EstimationService,
        scheduler: Scheduler,
        driver: str | None = None,
    ) -> None:
        self._chips = scheduler.chips
        self._config = config
        self._store = store
        self._service = service
        self.device_kind, self._device_mib = scheduler.device_kind, scheduler.device_mib
        self.driver = driver
        self._asking = Asking(config)
        self._recent: dict[tuple[str | None, int | None], tuple[PastRun, ...]] = {}
        """The latest runs on a kind of GPU, of a user (None: of all), until a run ends."""

    def known_at_once(self, job_file: JobFile, envelope: Envelope, uid: int) -> Knowledge:
        """What is known at intake of a job that `uid` submits. No content of a job raises."""
        if job_file.options.least_gpus == 0:
            return NOTHING_KNOWN
        mark = fingerprint_of(job_file, envelope)
        description = self._described(job_file, envelope, mark, uid)
        if description.same_runs or description.profile:
            description = replace(description, contexts=self.contexts(uid))
        estimates = self._asking.at_once(description)
        known = {e.quantity for e in estimates}
        more = Quantity.MEMORY not in known and self._is_worth_asking(description, job_file)
        return Knowledge(estimates, more, mark, description.profile)

    def begin(self, job: Job) -> None:
        """Ask the estimators about a job. Raises `RadrmError` if its file cannot be read."""
        # The elements of a sweep may differ in what they need.
        own = job.fingerprint if job.array is not None and job.array.params else None
        key = f"{job.ticket} {self._store.submissions.edits_digest(job.id)} {own}"
        if self._service.join(key, job.id):
            return
        submission = self._store.submissions.of_job(job.id)
        envelope, job_file = submission.envelope, submission.job_file()
        mark = fingerprint_of(job_file, envelope)
        description = self._described(job_file, envelope, mark, submission.uid)
        description = replace(description, contexts=self.contexts(submission.uid))
        wanted = Wanted(description)
        if self._is_to_be_traced(description, job_file):
            wanted = replace(wanted, trace=factory_request(job_file, envelope))
        elif self._is_to_be_run(description, job_file):
            made = command_request(job_file, envelope, job.array.index if job.array else None)
            shared = f"{submission.uid} {mark} {_python_of(made.environment)}"
            wanted = replace(wanted, trace=made, mark=shared)
        if wanted.trace is not None:
            made = replace(wanted.trace, device_mib=self._device_mib())
            if os.getuid() == 0:
                gid = group_of(submission.uid, submission.gid)
                made = replace(made, user=job.spec.user, uid=submission.uid, gid=gid)
            wanted = replace(wanted, trace=made)
        self._service.ask(key, job.id, wanted)

    def forget(self, job_id: int) -> None:
        """Note that a job has ended, with or without its estimates."""
        self._service.drop(job_id)

    def again(
        self, runs: Sequence[Run], waiting: Iterable[Job], now: Instant
    ) -> PredictionsReady | None:
        """Predict those of the waiting jobs again of which `runs` are earlier runs; None for none.

        Nothing is read for other jobs. Raises `StoreError`.
        """
        self._recent.clear()
        ended = {(run.uid, program_of(run.fingerprint)) for run in runs}
        alike = [(job, *parts_of(job.fingerprint)) for job in waiting]
        wanted = [
            (job, (job.spec.uid, program), length)
            for job, program, length in alike
            if program is not None and (job.spec.uid, program) in ended
        ]
        if not wanted:
            return None
        kind, read, chips = self.device_kind(), self._store.runs, self._chips()
        same = {
            (uid, program): read.of_program(program, uid, SAME_RUNS)
            for uid, program in {owned for _, owned, _ in wanted}
        }
        found: dict[object, tuple[tuple[Estimate, ...], tuple[Profiled, ...]]] = {}
        anew: dict[int, tuple[Estimate, ...]] = {}
        profiles: dict[int, tuple[Profiled, ...]] = {}
        for job, owned, length in wanted:
            key = owned, length, job.spec.time_limit_s
            if key not in found:
                whole, brief = same[owned]
                profile = profile_of((*whole, *brief), length)
                estimates = self._asking.at_once(
                    Description(
                        job.spec,
                        device_kind=kind,
                        chips=chips,
                        length=length,
                        same_runs=whole,
                        recent_runs=self._latest(kind, None),
                        own_runs=self._latest(kind, job.spec.uid),
                        profile=profile,
                    )
                )
                found[key] = estimates, profile
            anew[job.id], profile = found[key]
            profiles[job.id] = with_other_sizes(profile, job.profile)
        predicted = tuple(anew.items())
        return PredictionsReady(at=now, estimates=predicted, profiles=tuple(profiles.items()))

    def _described(
        self, job_file: JobFile, envelope: Envelope, mark: str | None, uid: int
    ) -> Description:
        program, length = parts_of(mark)
        runs, described = self._store.runs, describe(job_file, envelope.environment)
        same, brief = runs.of_program(program, uid, SAME_RUNS)
        others = self._of_other_sizes(job_file, envelope, uid)
        # Runs of the same name are read only where there are no better ones: intake is quick.
        named = () if same else runs.named(described.spec.name, uid, SAME_RUNS)
        kind = self.device_kind()
        return replace(
            described,
            device_kind=kind,
            recent_runs=self._latest(kind, None),
            own_runs=self._latest(kind, uid),
            chips=self._chips(),
            driver=self.driver,
            length=length,
            same_runs=same,
            named_runs=named,
            profile=with_other_sizes(profile_of((*same, *brief), length), others),
        )

    def _of_other_sizes(
        self, job_file: JobFile, envelope: Envelope, uid: int
    ) -> tuple[Profiled, ...]:
        """The profile of the larger sizes of a job with a range: probes and jobs of these."""
        options, runs = job_file.options, self._store.runs
        most = min(options.gpus_max or 0, options.least_gpus + _MOST_SIZES)
        found: tuple[Profiled, ...] = ()
        for gpus in range(options.least_gpus + 1, most + 1):
            program, length = parts_of(fingerprint_of(job_file, envelope, gpus))
            same, brief = runs.of_program(program, uid, SAME_RUNS)
            found += profile_of((*same, *brief), length)
        return found

    def contexts(self, uid: int) -> dict[str, float]:
        """The memory of a CUDA context (MiB) by CUDA version, as measured on these GPUs."""
        kind = self.device_kind()
        if kind is None or self.driver is None:
            return {}
        return self._store.runs.contexts(kind, self.driver, uid)

    def _latest(self, kind: str | None, uid: int | None) -> tuple[PastRun, ...]:
        """The latest runs of a user, or of all; read once until a run ends."""
        runs, key = self._store.runs, (kind, uid)
        if key not in self._recent:
            if len(self._recent) >= _MOST_KEPT:
                self._recent.clear()
            every = uid is None
            found = runs.recent(kind, MOST_RUNS) if every else runs.own(kind, uid or 0, MOST_RUNS)
            self._recent[key] = found
        return self._recent[key]

    def _is_worth_asking(self, job: Description, job_file: JobFile) -> bool:
        name, auto = self._config.estimator, self._config.estimators.get("auto", {})
        if name not in ESTIMATORS or (name == "auto" and auto.get("also")):
            return True  # a third party's estimator may need none of the inputs below
        given = job.summary or job.published or job_file.options.model_factory
        if given and name not in ("none", "declared", "history"):
            return True
        return self._is_to_be_run(job, job_file)

    def _is_to_be_traced(self, job: Description, job_file: JobFile) -> bool:
        config = self._config
        if job_file.options.model_factory is None or not may_trace(config, job_file.options):
            return False
        if config.estimator not in _TRACING:
            return False
        return job.summary is None or Traced.from_text(job.summary) is None

    def _is_to_be_run(self, job: Description, job_file: JobFile) -> bool:
        config, options = self._config, job_file.options
        if config.estimator not in _RUNNING or not may_run(config, options):
            return False
        declared = job.declared_mib or job.published or job.summary or options.model_factory
        return not declared and not options.interactive and may_train(job_file)


def _python_of(environment: Mapping[str, str]) -> str:
    return digest_of(json.dumps([environment.get(name) for name in _OF_PYTHON]))

"""The JSON documents of jobs, as `status` and other questions answer them.

`radrm/documents/jobs.py` says what each field means; here are the values of all that do not just
repeat a field of the job or of its spec. Times are epoch seconds
on the daemon's clock. Durations are measured by time since boot, and unknown across a reboot.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from signal import Signals
from typing import Any

from msgspec.structs import replace

from radrm.core.constraints.kinds import without_device
from radrm.core.records import Attempt, EarlySignal, Instant, Job, JobWarning, Progress, Refusal
from radrm.core.scheduler import Scheduler
from radrm.core.snapshot import Snapshot
from radrm.core.units import show_seconds
from radrm.core.words import ActionKind, Collocation, Quantity, ReservationKind, Resizing
from radrm.daemon.launches import cpus_of, weight_of
from radrm.daemon.progress import Reports
from radrm.daemon.views.device_documents import misplaced_on
from radrm.daemon.views.expected import Foresight
from radrm.daemon.views.rows import Row
from radrm.daemon.views.sizes import cap_of, gpu_limit_mib, size_of, tasks_of
from radrm.daemon.views.verdict import verdict
from radrm.daemon.views.waiting_reasons import sentence
from radrm.documents import jobs as shown
from radrm.documents.base import Source, repeated
from radrm.host.processes.controllers import Controllers
from radrm.host.storage.store import Store


def cpu_share(attempt: Attempt) -> shown.CpuShare | None:
    """The CPUs that a live attempt may use at most, and its weight beside others.

    None if it has neither a cap nor a weight.
    """
    shares = attempt.placement.shares
    cpus, weight = cpus_of(shares), weight_of(shares)
    return None if cpus is weight is None else shown.CpuShare(cpus=cpus, weight=weight)


def part(snapshot: Snapshot, attempt: Attempt) -> float | None:
    """The part of its server's CPUs that a live attempt gets while all want more, 0..1.

    None if that is unknown, or nothing was set. Jobs without a weight have the weight 1.
    """
    share = cpu_share(attempt)
    if share is None:
        return None
    found = 1.0
    if share.weight is not None:
        weights = (weight_of(each.placement.shares) for _, each in snapshot.running)
        found = share.weight / max(sum(w or 1.0 for w in weights), share.weight)
    cpus = next((use.node.cpus for use in snapshot.nodes), None)
    if share.cpus is not None:
        if not cpus:
            return None
        found = min(found, share.cpus / cpus)
    return found


Document = dict[str, Any]

_OF_JOB, _OF_SPEC = (repeated(shown.Job, source) for source in (Source.JOB, Source.SPEC))
_of_job, _of_spec = attrgetter(*_OF_JOB), attrgetter(*_OF_SPEC)
"""The values of the fields that repeat a record's."""
_UNUSED_S = 600.0
"""A job that has had a device for this long without using its memory is noted: imports and
downloads take minutes."""
_MOST_RUNS = 100
"""Earlier runs in a document."""
_STOPPED = "max-fails"
"""The rule that holds the rest of an array after failures."""


class JobDocuments:
    """Makes documents from the scheduler's snapshots and the store; changes neither.

    Each document is of the moment at which it is made. `controllers`, `reports` and `foresight`
    are those of the daemon.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        store: Store,
        controllers: Controllers | None = None,
        reports: Reports | None = None,
        foresight: Foresight | None = None,
    ) -> None:
        self.scheduler = scheduler
        self.store = store
        self._controllers = controllers
        self._reports = reports
        self._foresight = foresight or Foresight(scheduler)

    def row(self, row: Row, now: Instant) -> shown.Job:
        """A row of `status`. Devices' reasons are computed only for the head of a line: all
        other jobs wait behind it."""
        job = row.job
        behind = self._behind(job)
        refusals = None if behind is not None else self._refusals(job, now)
        reason = f"Waits behind job {behind}."
        if behind is None:
            reason = sentence(self.scheduler.snapshot, job, refusals or ()) or ""
        document = self._document(job, now, reason, behind, refusals, row.position)
        if row.last is None:
            return document
        last = _params(row.last)
        return replace(document, label=row.label, count=row.count, params_last=last)

    def detailed(self, job: Job, now: Instant) -> shown.Job:
        """One job, with the computed reason why it waits."""
        position = self.scheduler.snapshot.position(job)
        document = self.job(job, now, self._refusals(job, now))
        return replace(document, position=None if position is None else position + 1)

    def job(self, job: Job, now: Instant, refusals: Sequence[Refusal] | None = None) -> shown.Job:
        """One job. `refusals` are why it waits, if that is known."""
        snapshot = self.scheduler.snapshot
        reason = sentence(snapshot, job, refusals or ())
        document = self._document(job, now, reason, self._behind(job), refusals)
        live = snapshot.attempt(job.id)
        share = document.cpu_share
        if live is not None and share is not None:
            share = replace(share, part=part(snapshot, live))
        return replace(
            document,
            cpu_share=share,
            estimate_smact_scaled=_scaled(snapshot, job),
            tasks=self._tasks(job, live),
            earlier=self._earlier(job),
            unknown_gpus=unknown_gpus(snapshot, job.spec.prefer_gpus + job.spec.avoid_gpus),
        )

    def _refusals(self, job: Job, now: Instant) -> Sequence[Refusal]:
        """Why a waiting job waits; nothing for one that does not wait."""
        return self.scheduler.why_waiting(job.id, now) if job.state.waiting else ()

    # ------------------------------------------------------------- the parts of a document

    def _document(
        self,
        job: Job,
        now: Instant,
        reason: str | None,
        behind: str | None,
        refusals: Sequence[Refusal] | None,
        position: int | None = None,
    ) -> shown.Job:
        snapshot = self.scheduler.snapshot
        # A job that has ended is also an earlier run of one that runs again.
        live = None if job.state.final else snapshot.attempt(job.id)
        attempt = live
        if attempt is None and job.attempts:
            attempt = self.store.last_attempt(job)
        estimate = job.estimate(Quantity.MEMORY)
        smact, duration = job.estimate(Quantity.SMACT), job.estimate(Quantity.DURATION)
        smact = smact or job.estimate(Quantity.USUAL_SMACT)
        used = snapshot.used_now(attempt) if attempt else None
        expected = self._foresight.of(job, live, now, refusals)
        late_s = self._foresight.late_s(job, expected, now)
        dropped = self._reports.dropped(attempt.serial) if self._reports and attempt else None
        return shown.Job(
            **dict(zip(_OF_JOB, _of_job(job), strict=True)),
            **dict(zip(_OF_SPEC, _of_spec(job.spec), strict=True)),
            state=job.state.value,
            outcome=job.outcome.value if job.outcome else None,
            queue=job.queue.value if not job.state.final else None,
            position=position,
            devices=tuple(attempt.placement.devices) if attempt else (),
            collocation=attempt.placement.collocation.value if attempt else None,
            reason=reason or job.reason or (_remark(snapshot, live, now) if live else None),
            warnings=tuple(map(_warning, live.warnings)) if live else (),
            misplaced=_misplaced(snapshot, job, live) if live else (),
            submitted_at=job.submitted.wall_s,
            started_at=job.started.wall_s if job.started else None,
            ended_at=job.ended.wall_s if job.ended else None,
            waited_s=(job.started or job.ended or now).since(job.queued),
            ran_s=(job.ended or now).since(job.started) if job.started else None,
            **size_of(job, live),
            memory_max_mib=(job.spec.memory_range_mib or (None, None))[1],
            not_enforced=self._not_enforced(job),
            cpu_share=cpu_share(live) if live else None,
            cpu_list=attempt.cpu_list if attempt else None,
            left=attempt.left if attempt else None,
            remarks=tuple(self.scheduler.view.remarks(job.id)) if live else (),
            estimate_mib=int(estimate.value) if estimate else None,
            estimate_upper_mib=int(max(estimate.upper, estimate.value)) if estimate else None,
            estimate_source=estimate.source if estimate else None,
            estimate_basis=estimate.basis if estimate else "",
            estimate_guesses=tuple(g for each in (estimate, smact) if each for g in each.guesses),
            estimate_smact=smact.value if smact else None,
            estimate_smact_upper=max(smact.upper, smact.value) if smact else None,
            estimate_smact_source=smact.source if smact else None,
            estimate_smact_on=smact.chip.name if smact and smact.chip else None,
            estimate_duration_s=duration.value if duration else None,
            estimate_duration_upper_s=max(duration.upper, duration.value) if duration else None,
            estimate_duration_source=duration.source if duration else None,
            alone_smact=used.alone_smact if used else None,
            begin_at=job.spec.begin_s if job.awaits_begin and job.state.waiting else None,
            due_at=job.spec.due_s,
            expected_start_at=expected.start,
            latest_start_at=expected.start_latest,
            start_unknown=expected.start_unknown,
            expected_end_at=expected.end,
            latest_end_at=expected.latest,
            expected_source=expected.source,
            expected_unknown=expected.unknown,
            needs_s=expected.needs_s,
            late_s=late_s,
            cost=self._foresight.cost(job, late_s),
            progress=_progress(job.progress),
            saved_at=job.saved_at.wall_s if job.saved_at else None,
            reports_dropped=dropped.count if dropped else 0,
            reports_dropped_why=dropped.reason if dropped else None,
            gpu_memory_max_mib=gpu_limit_mib(job.spec),
            reserved_mib=_reserved_mib(snapshot, live) if live else None,
            **cap_of(live),
            peak_mib=used.peak_mib if used else None,
            energy_j=used.energy_j if used else None,
            held=job.held or any(r.rule == _STOPPED for r in refusals or ()),
            time_limit_at=_limit_at(job, live),
            checkpoint=job.spec.checkpoint.kind.value,
            checkpoint_pending=bool(live and live.asked(ActionKind.CHECKPOINT)),
            checkpoint_error=live.checkpoint_failed if live else None,
            saved_work_done=job.saved.work_done if job.saved else None,
            outer=job.outer.name if job.outer else None,
            sm_share_unbound=_unbound(job, live) if live else None,
            array_id=job.array.array_id if job.array else None,
            array_index=job.array.index if job.array else None,
            params=_params(job),
            verdict=self._verdict(job, attempt),
            after=tuple(
                shown.Dependency(
                    job=_label(snapshot, d.job_id, d.array), condition=d.condition.value
                )
                for d in job.after
            ),
            signal=_show_signal(job.spec.signal),
            behind=behind,
        )

    def _earlier(self, job: Job) -> tuple[shown.EarlierRun, ...]:
        """The latest earlier runs of a job."""
        runs = self.store.earlier_runs(job.id, _MOST_RUNS) if job.run > 1 else ()
        return tuple(
            shown.EarlierRun(
                run=each.run,
                state=each.state.value,
                exit_code=each.exit_code,
                reason=each.reason,
                started_at=each.started.wall_s if each.started else None,
                ended_at=each.ended.wall_s if each.ended else None,
                ran_s=each.ended.since(each.started) if each.ended and each.started else None,
            )
            for each in runs
        )

    def _tasks(self, job: Job, live: Attempt | None) -> tuple[shown.Task, ...]:
        """The tasks of the last attempt of a job that has a range or roles."""
        if job.spec.resizing is Resizing.NONE or not job.attempts:
            return ()
        last = live or self.store.last_attempt(job)
        return tasks_of(last) if last is not None else ()

    def _verdict(self, job: Job, last: Attempt | None) -> tuple[str, ...]:
        """What the next such job should ask for; empty if nothing is known, or before its end."""
        if last is None or not job.state.final:
            return ()
        snapshot = self.scheduler.snapshot
        attempts = self.store.attempts(job.id)[: job.attempts] if job.oom_count else [last]
        largest = max((d.device.capacity_mib for d in snapshot.devices), default=None)
        return verdict(job, attempts, snapshot.settings.headroom_mib, largest)

    def _not_enforced(self, job: Job) -> str | None:
        """Why the CPUs or host memory that a job asks for do not limit it; None if they do."""
        asked = {"cpu": job.spec.cpus, "memory": job.spec.memory_mib}
        wanted = [controller for controller, amount in asked.items() if amount is not None]
        return self._controllers.why_not(*wanted) if self._controllers and wanted else None

    def _behind(self, job: Job) -> str | None:
        """The label of the head of the line that a job stands in; None for the head itself."""
        head = None if job.state.final else self.scheduler.snapshot.head(job)
        return None if head is None or head.id == job.id else head.label


def _scaled(snapshot: Snapshot, job: Job) -> tuple[shown.Scaled, ...]:
    """The predicted SM activity on each kind of GPU here to which it is scaled."""
    said = job.estimate(Quantity.SMACT)
    chips = dict.fromkeys(each.device.chip for each in snapshot.devices) if said else {}
    found = [said.on(chip) for chip in chips] if said and said.chip else []
    return tuple(
        shown.Scaled(gpu=each.chip.name, smact=each.value, smact_upper=each.upper)
        for each in found
        if each is not said and each.chip is not None
    )


def unknown_gpus(snapshot: Snapshot, names: Sequence[str]) -> tuple[str, ...]:
    """The names of GPUs that mean none of the present ones."""
    if not names:
        return ()
    return tuple(without_device(names, [each.device for each in snapshot.devices]))


_NO_CLIENT = {
    Collocation.TIMESLICE: "it is time-sliced and no MPS client",
    Collocation.EXCLUSIVE: "it has the GPU alone and is no MPS client",
    Collocation.MIG: "it has a MIG instance and is no MPS client",
}


def _unbound(job: Job, live: Attempt) -> str | None:
    """Why the SM share that a job declares does not limit it; None if it does, or none is."""
    return None if job.spec.sm_share is None else _NO_CLIENT.get(live.placement.collocation)


def _params(job: Job) -> dict[str, str] | None:
    """The values of an element of a sweep, by parameter; None for another job."""
    return dict(job.array.params) if job.array and job.array.params else None


def _limit_at(job: Job, live: Attempt | None) -> float | None:
    """When a live attempt reaches its time limit; None without one, or before its start."""
    if live is None or live.started is None or job.limit_s is None:
        return None
    return live.started.wall_s + job.limit_s


def _progress(progress: Progress | None) -> shown.Progress | None:
    """What a job has reported, with the time of the report."""
    if progress is None:
        return None
    return shown.Progress(
        at=progress.at.wall_s,
        step_at=progress.measured.wall_s,
        step=progress.step,
        total=progress.total,
        epoch=progress.epoch,
        loss=progress.loss,
        work_done=progress.work_done,
    )


def _label(snapshot: Snapshot, job_id: int, array: bool) -> str:
    job = snapshot.job(job_id)
    return str(job_id) if array or job is None else job.label


def _remark(snapshot: Snapshot, live: Attempt, now: Instant) -> str | None:
    """What its user should know of a running job; None for nothing."""
    warned = next(iter(live.warnings), None)
    trouble = snapshot.trouble(live)
    if trouble is not None or warned is None:
        return trouble or _unused(snapshot, live, now)
    return warned.text


def _warning(warned: JobWarning) -> shown.JobWarning:
    """What its user was warned of, and what follows when."""
    at_s, acts_s = warned.at.wall_s, None if warned.acts is None else warned.acts.wall_s
    does = warned.does or None
    return shown.JobWarning(kind=warned.kind, text=warned.text, at=at_s, does=does, does_at=acts_s)


def _misplaced(snapshot: Snapshot, job: Job, live: Attempt) -> tuple[shown.GpuUse, ...]:
    """What a job uses of GPUs that it was not given, once it was warned of that."""
    if not live.misplaced:
        return ()
    found = (use for each in snapshot.devices for use in misplaced_on(snapshot, each))
    return tuple(use for use in found if use.job == job.label)


def _unused(snapshot: Snapshot, attempt: Attempt, now: Instant) -> str | None:
    """A note that a job has not used one of its devices for long; None if it uses all."""
    for uuid in attempt.placement.devices:
        found = snapshot.device(uuid)
        occupant = found.occupants.get(attempt.job_id) if found is not None else None
        unused_s = occupant.unused_for(now.boot_s) if occupant is not None else None
        if found is None or unused_s is None:
            continue
        if unused_s >= _UNUSED_S:
            index, lasting = found.device.index, show_seconds(unused_s)
            return f"it has used nothing of GPU {index} for {lasting}"
    return None


def _reserved_mib(snapshot: Snapshot, attempt: Attempt) -> int | None:
    """The largest reservation of a live attempt on one of its devices."""
    found = [snapshot.device(uuid) for uuid in attempt.placement.devices]
    mine = [
        each.device.capacity_mib if reservation.mib is None else reservation.mib
        for each in found
        if each is not None
        for reservation in each.reservations
        if reservation.job_id == attempt.job_id and reservation.kind is ReservationKind.RUNNING
    ]
    return max(mine, default=None)


def _show_signal(signal: EarlySignal | None) -> str | None:
    """As the option `--signal` has it: `USR1@60`."""
    if signal is None:
        return None
    return f"{Signals(signal.number).name.removeprefix('SIG')}@{signal.lead_s:g}"

"""What clients are shown: the JSON documents of jobs and devices (design: CLI contract).

Times are epoch seconds on the daemon's clock; durations are measured by time since boot, and
null where a reboot lies between. What is not known is null.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from signal import Signals
from typing import Any

from radrm.core.records import Attempt, EarlySignal, Instant, Job, Placement
from radrm.core.scheduler import Scheduler
from radrm.core.units import show_mib, show_seconds
from radrm.core.words import JobState, Quantity
from radrm.host.storage.store import Store

Document = dict[str, Any]


_FOR_GOOD = frozenset({"kind", "capacity", "vanished"})
"""Rules by which a device refuses a job whenever it is asked."""


@dataclass(slots=True)
class Row:
    """A job, or waiting elements of one array that stand one after another (up to `last`)."""

    job: Job
    position: int | None = None
    last: Job | None = None
    count: int = 1

    def takes(self, job: Job) -> bool:
        """Add the array's next waiting element to the row; False where it is none."""
        first, next_ = self.job.array, job.array
        if first is None or next_ is None or first.array_id != next_.array_id:
            return False
        mine, last = self.job, (self.last or self.job).array
        alike = (
            mine.state is job.state is JobState.PENDING
            and last is not None
            and mine.pause == job.pause
            and last.index + 1 == next_.index
            and mine.held == job.held
            and mine.after == job.after
        )
        if alike:
            self.last, self.count = job, self.count + 1
        return alike


def collapsed(rows: Iterable[Row | int]) -> list[Row | int]:
    """The rows with the waiting elements of an array put into one where they are alike. An
    id stands for a job that has ended."""
    found: list[Row | int] = []
    last: Row | None = None
    for row in rows:
        if isinstance(row, int):
            last = None
            found.append(row)
        elif last is None or not last.takes(row.job):
            last = Row(row.job, row.position)
            found.append(last)
    return found


def _shown_signal(signal: EarlySignal | None) -> str | None:
    if signal is None:
        return None
    return f"{Signals(signal.number).name.removeprefix('SIG')}@{signal.lead_s:g}"


class Documents:
    """Reads the scheduler's state and the store; changes neither."""

    def __init__(self, scheduler: Scheduler, store: Store) -> None:
        self._scheduler = scheduler
        self._store = store

    # ------------------------------------------------------------- jobs

    def row(self, row: Row, now: Instant) -> Document:
        """A row as people and programs read it. Only for the head of the queue is it worked
        out which device refuses it why: the others wait behind it."""
        job = row.job
        behind = self._behind(job)
        if behind is not None:
            reason: str | None = f"behind job {behind}"
        else:
            reason = self.why(job, now) if job.state.waiting else None
        document = {**self.job(job, now, reason), "position": row.position}
        if row.last is not None and job.array is not None and row.last.array is not None:
            first, last = job.array.index, row.last.array.index
            document["label"] = f"{job.array.array_id}_[{first}-{last}]"
            document["count"] = row.count
        return document

    def one(self, job: Job, now: Instant) -> Document:
        """One job with its reason worked out in full."""
        position = self._scheduler.state.waiting.of(job).position(job.id)
        document = self.job(job, now, reason=self.why(job, now) if job.state.waiting else None)
        return {**document, "position": None if position is None else position + 1}

    def _behind(self, job: Job) -> str | None:
        """The label of the head of the line that a job stands in; None for the head itself."""
        line = self._scheduler.state.waiting.of(job)
        head = line.head()
        if head is None or head == job.id or job.id not in line:
            return None
        return self._scheduler.state.jobs[head].label

    def job(self, job: Job, now: Instant, reason: str | None) -> Document:
        attempt = self._scheduler.state.attempts.get(job.id)
        if attempt is None and job.attempts:
            attempt = self._store.last_attempt(job.id)
        live = attempt is not None and attempt.ended is None
        estimate = job.estimate(Quantity.MEMORY)
        used = self._scheduler.state.used_now(attempt) if attempt else None
        return {
            "id": job.id,
            "ticket": job.ticket,
            "name": job.spec.name,
            "user": job.spec.user,
            "state": job.state.value,
            "outcome": job.outcome.value if job.outcome else None,
            "queue": job.queue.value if not job.state.final else None,
            "position": None,
            "devices": list(attempt.placement.devices) if attempt else [],
            "collocation": attempt.placement.collocation.value if attempt else None,
            "attempts": job.attempts,
            "exit_code": job.exit_code,
            "reason": reason or job.reason or self._unused(job, attempt, now),
            "submitted_at": job.submitted.wall_s,
            "started_at": job.started.wall_s if job.started else None,
            "ended_at": job.ended.wall_s if job.ended else None,
            "waited_s": (job.started or job.ended or now).since(job.submitted),
            "ran_s": (job.ended or now).since(job.started) if job.started else None,
            "gpus": job.spec.gpus,
            "estimate_mib": int(estimate.value) if estimate else None,
            "estimate_upper_mib": int(max(estimate.upper, estimate.value)) if estimate else None,
            "estimate_source": estimate.source if estimate else None,
            "estimate_guesses": list(estimate.guesses) if estimate else [],
            "estimate_notes": list(job.estimate_notes),
            "reserved_mib": self._reserved(job, attempt) if live else None,
            "peak_mib": used.peak_mib if used else None,
            "energy_j": used.energy_j if used else None,
            "oom_count": job.oom_count,
            "priority": job.spec.priority,
            "held": job.held,
            "time_limit_s": job.spec.time_limit_s,
            "label": job.label,
            "array_id": job.array.array_id if job.array else None,
            "array_index": job.array.index if job.array else None,
            "after": [
                {"job": self._label(d.job_id, d.array), "condition": d.condition.value}
                for d in job.after
            ],
            "signal": _shown_signal(job.spec.signal),
            "comment": job.spec.comment,
            "behind": self._behind(job),
        }

    def _label(self, job_id: int, array: bool) -> str:
        job = self._scheduler.state.jobs.get(job_id)
        return str(job_id) if array or job is None else job.label

    def why(self, job: Job, now: Instant) -> str | None:
        """Why a waiting job waits, in one line with numbers: of the devices that could take it
        at another time, the first one's refusal."""
        refusals = self._scheduler.why_waiting(job.id, now)
        if not refusals:
            return None
        general = [r for r in refusals if r.device is None and r.rule not in ("count", "rule")]
        if general:
            return general[0].message
        devices = [r for r in refusals if r.device is not None]
        if not devices:
            return refusals[0].message
        state = self._scheduler.state
        devices = [r for r in devices if r.rule not in _FOR_GOOD] or devices
        first = devices[0]
        index = state.ledgers[first.device].device.index if first.device else 0
        others = len(devices) - 1
        more = f" (and {others} more {'GPU' if others == 1 else 'GPUs'})" if others else ""
        return f"GPU {index}: {first.message}{more}"

    def _unused(self, job: Job, attempt: Attempt | None, now: Instant) -> str | None:
        """That a job holds devices it has never used, once it has done so for long."""
        state, most = self._scheduler.state, self._scheduler.state.settings.unused_report_s
        for uuid in attempt.placement.devices if attempt and attempt.ended is None else ():
            ledger = state.ledgers.get(uuid)
            holding = ledger.holdings.get(job.id) if ledger else None
            unused_s = holding.unused_for(now.boot_s) if holding else None
            if ledger is not None and unused_s is not None and unused_s >= most:
                return (
                    f"it has used nothing of GPU {ledger.device.index} for {show_seconds(unused_s)}"
                )
        return None

    def _reserved(self, job: Job, attempt: Attempt | None) -> int | None:
        """MiB promised per device, at the most."""
        placement: Placement | None = attempt.placement if attempt else None
        found = []
        for uuid in placement.devices if placement else ():
            ledger = self._scheduler.state.ledgers.get(uuid)
            if ledger is not None:
                found += [
                    ledger.device.capacity_mib if r.mib is None else r.mib
                    for r in ledger.reservations.values()
                    if r.job_id == job.id
                ]
        return max(found, default=None)

    # ------------------------------------------------------------- devices

    def devices(self, now: Instant) -> list[Document]:
        state = self._scheduler.state
        ledgers = sorted(state.ledgers.values(), key=lambda le: (le.device.node, le.device.index))
        documents = []
        for ledger in ledgers:
            device, reading = ledger.device, ledger.reading
            unreadable = ledger.unreadable(now.boot_s)
            known = reading is not None and reading.error is None
            if ledger.vanished:
                condition = "vanished"
            elif ledger.drained is not None:
                condition = "drained"
            elif reading is None or reading.error is not None:
                condition = "unreadable"
            elif reading.fault is not None:
                condition = "unhealthy"
            else:
                condition = "busy" if ledger.holdings else "idle"
            documents.append(
                {
                    "uuid": device.uuid,
                    "index": device.index,
                    "name": device.name,
                    "kind": device.kind.value,
                    "node": device.node,
                    "total_mib": device.total_mib,
                    "used_mib": reading.used_mib if known and reading else None,
                    "free_mib": ledger.free_mib() if known else None,
                    "reserved_mib": ledger.reserved_mib,
                    "unmanaged_mib": ledger.unmanaged_mib if known else None,
                    "smact": reading.smact if known and reading else None,
                    "smact_source": reading.smact_source if known and reading else None,
                    "smact_trouble": reading.smact_trouble if known and reading else None,
                    "smact_coarse": reading.smact_coarse if known and reading else None,
                    "power_w": reading.power_w if known and reading else None,
                    "jobs": sorted(ledger.holdings),
                    "labels": [state.jobs[i].label for i in sorted(ledger.holdings)],
                    "state": condition,
                    "profile": device.profile,
                    "parent": device.parent,
                    "reason": ledger.drained
                    or (unreadable if condition in ("unreadable", "unhealthy") else None)
                    or (reading.smact_trouble if reading else None)
                    or (self._yields(ledger.unmanaged_mib) if known else None),
                    "notes": list(reading.notes) if reading else [],
                    "strangers": [asdict(s) for s in reading.strangers] if reading else [],
                    "mps": device.mps,
                }
            )
        return documents

    def _yields(self, unmanaged_mib: int | None) -> str | None:
        """That a device takes no new job because strangers use it, where the site wants that."""
        settings = self._scheduler.state.settings
        if not settings.yield_to_unmanaged or (unmanaged_mib or 0) <= settings.idle_unmanaged_mib:
            return None
        return f"takes no new job: others use {show_mib(unmanaged_mib)} of it"

    def summary(self, now: Instant) -> str:
        """One line on the whole server, for logs."""
        state = self._scheduler.state
        running = state.count(JobState.RUNNING)
        free = sum(ledger.free_mib() or 0 for ledger in state.ledgers.values())
        return (
            f"{len(state.ledgers)} device(s), {show_mib(free)} free, "
            f"{running} running, {len(state.waiting)} waiting"
        )

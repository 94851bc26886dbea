"""What clients are shown: the JSON documents of jobs and devices (design: CLI contract).

Times are epoch seconds on the daemon's clock; what is not known is null.
"""

from __future__ import annotations

from typing import Any

from radrm.core.records import Attempt, Instant, Job, Placement
from radrm.core.scheduler import Scheduler
from radrm.core.units import show_mib
from radrm.core.words import JobState, Quantity
from radrm.host.store import Store

Document = dict[str, Any]


class Documents:
    """Reads the scheduler's state and the store; changes neither."""

    def __init__(self, scheduler: Scheduler, store: Store) -> None:
        self._scheduler = scheduler
        self._store = store

    # ------------------------------------------------------------- jobs

    def unfinished(self, now: Instant) -> list[Document]:
        """Every job that has not ended: first those with an attempt, then in order of service."""
        state = self._scheduler.state
        live = [job for job, _ in state.running()]
        waiting = [state.jobs[i] for i in state.waiting]
        others = [j for j in state.jobs.values() if j.state.waiting and j.id not in state.waiting]
        head = state.waiting.head()
        documents = [self.job(job, now, reason=None) for job in live]
        for position, job in enumerate(waiting):
            if job.id == head:
                reason = self.why(job, now)
            else:
                reason = f"behind job {head}" if head is not None else None
            documents.append({**self.job(job, now, reason=reason), "position": position + 1})
        return documents + [self.job(job, now, reason=self.why(job, now)) for job in others]

    def one(self, job: Job, now: Instant) -> Document:
        """One job with its reason worked out in full."""
        position = self._scheduler.state.waiting.position(job.id)
        document = self.job(job, now, reason=self.why(job, now) if job.state.waiting else None)
        return {**document, "position": None if position is None else position + 1}

    def job(self, job: Job, now: Instant, reason: str | None) -> Document:
        attempt = self._scheduler.state.attempts.get(job.id)
        if attempt is None and job.attempts:
            attempt = self._store.last_attempts([job.id]).get(job.id)
        live = attempt is not None and attempt.ended is None
        estimate = job.estimate(Quantity.MEMORY)
        peak, energy = self._usage(job, attempt)
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
            "reason": reason or job.reason,
            "submitted_at": job.submitted.wall_s,
            "started_at": job.started.wall_s if job.started else None,
            "ended_at": job.ended.wall_s if job.ended else None,
            "gpus": job.spec.gpus,
            "estimate_mib": int(estimate.value) if estimate else None,
            "estimate_source": estimate.source if estimate else None,
            "reserved_mib": self._reserved(job, attempt) if live else None,
            "peak_mib": peak,
            "energy_j": energy,
            "oom_count": job.oom_count,
            "priority": job.spec.priority,
            "held": job.held,
            "time_limit_s": job.spec.time_limit_s,
        }

    def why(self, job: Job, now: Instant) -> str | None:
        """Why a waiting job waits, in one line: the rule that most devices name, with numbers."""
        refusals = self._scheduler.why_waiting(job.id, now)
        if not refusals:
            return None
        general = [r for r in refusals if r.device is None and r.rule != "count"]
        if general:
            return general[0].message
        devices = [r for r in refusals if r.device is not None]
        if not devices:
            return refusals[0].message
        state = self._scheduler.state
        first = devices[0]
        index = state.ledgers[first.device].device.index if first.device else 0
        others = len(devices) - 1
        more = f" (and {others} more {'GPU' if others == 1 else 'GPUs'})" if others else ""
        return f"GPU {index}: {first.message}{more}"

    def _usage(self, job: Job, attempt: Attempt | None) -> tuple[int | None, float | None]:
        """Peak MiB and joules so far: of the live attempt, else of the last one."""
        if attempt is None:
            return None, None
        if attempt.ended is not None:
            return attempt.peak_mib, attempt.energy_j
        peaks, joules = [], []
        for uuid in attempt.placement.devices:
            ledger = self._scheduler.state.ledgers.get(uuid)
            holding = ledger.holdings.get(job.id) if ledger else None
            if holding is not None and holding.peak_mib is not None:
                peaks.append(holding.peak_mib)
            if holding is not None and holding.energy_j is not None:
                joules.append(holding.energy_j)
        return max(peaks, default=None), sum(joules) if joules else None

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
                    "power_w": reading.power_w if known and reading else None,
                    "jobs": sorted(ledger.holdings),
                    "state": condition,
                    "profile": device.profile,
                    "parent": device.parent,
                    "reason": ledger.drained or (unreadable if condition == "unreadable" else None),
                }
            )
        return documents

    def summary(self, now: Instant) -> str:
        """One line on the whole server, for logs."""
        state = self._scheduler.state
        running = state.count(JobState.RUNNING)
        free = sum(ledger.free_mib() or 0 for ledger in state.ledgers.values())
        return (
            f"{len(state.ledgers)} device(s), {show_mib(free)} free, "
            f"{running} running, {len(state.waiting)} waiting"
        )

"""Why a job waits, device by device with both numbers; where and how its attempts ran."""

from __future__ import annotations

from radrm.core.records import Attempt, Instant, Job, Refusal
from radrm.core.scheduler import Scheduler
from radrm.daemon.views.documents import Document, Documents
from radrm.host.storage.store import Store

_UNITS = {"memory": "MiB", "capacity": "MiB", "promise": "MiB"}


class Explanations:
    """Reads the scheduler's state and the store; changes neither."""

    def __init__(self, scheduler: Scheduler, store: Store) -> None:
        self._scheduler = scheduler
        self._store = store

    def of(self, job: Job, now: Instant) -> Document:
        """Everything on one job: the document of `radrm explain --json`."""
        documents = Documents(self._scheduler, self._store)
        refusals = self._scheduler.why_waiting(job.id, now) if job.state.waiting else ()
        position = self._scheduler.state.waiting.of(job).position(job.id)
        return {
            "job": documents.one(job, now),
            "now": now.wall_s,
            "summary": documents.why(job, now) if job.state.waiting else job.reason,
            "ahead": position,
            "reasons": [_refusal(r) for r in refusals if r.device is None],
            "devices": self._devices(refusals) if job.state.waiting and job.spec.gpus else [],
            "attempts": [self._attempt(a, now) for a in self._attempts(job)],
        }

    def _devices(self, refusals: tuple[Refusal, ...]) -> list[Document]:
        """Each device with the first rule that refuses it; no rule where none does."""
        first: dict[str, Refusal] = {}
        for refusal in refusals:
            if refusal.device is not None:
                first.setdefault(refusal.device, refusal)
        nothing = Refusal(rule="", message="")
        return [
            {
                "index": ledger.device.index,
                "uuid": uuid,
                "name": ledger.device.name,
                **_refusal(first.get(uuid, nothing)),
            }
            for uuid, ledger in sorted(
                self._scheduler.state.ledgers.items(), key=lambda item: item[1].device.index
            )
        ]

    def _attempts(self, job: Job) -> list[Attempt]:
        live = self._scheduler.state.attempts.get(job.id)
        stored = [a for a in self._store.attempts(job.id) if live is None or a.serial < live.serial]
        return stored if live is None else [*stored, live]

    def _attempt(self, attempt: Attempt, now: Instant) -> Document:
        attempt = self._scheduler.state.used_now(attempt)
        ledgers = self._scheduler.state.ledgers
        promised = [s.reserved_mib for s in attempt.placement.shares if s.device is not None]
        return {
            "number": attempt.number,
            "outcome": attempt.outcome.value if attempt.outcome else None,
            "exit_code": attempt.exit_code,
            "reason": attempt.reason,
            "devices": [
                ledgers[uuid].device.index if uuid in ledgers else uuid
                for uuid in attempt.placement.devices
            ],
            "collocation": attempt.placement.collocation.value,
            "launched_at": attempt.launched.wall_s,
            "started_at": attempt.started.wall_s if attempt.started else None,
            "ended_at": attempt.ended.wall_s if attempt.ended else None,
            "ran_s": (attempt.ended or now).since(attempt.started) if attempt.started else None,
            "reserved_mib": max(promised, default=None),
            "peak_mib": attempt.peak_mib,
            "smact": attempt.smact_mean,
            "energy_j": attempt.energy_j,
        }


def _refusal(refusal: Refusal) -> Document:
    return {
        "rule": refusal.rule or None,
        "message": refusal.message or None,
        "needed": refusal.needed,
        "available": refusal.available,
        "unit": _UNITS.get(refusal.rule),
    }

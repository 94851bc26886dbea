"""The document of `radrm explain`: why a job waits, device by device with both numbers, where and
how its attempts ran, and what sharing costs on the GPUs here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from msgspec.structs import replace

from radrm.core.records import Attempt, Instant, Job, LearnedLoss, PlannerRequest, Refusal
from radrm.core.snapshot import Snapshot
from radrm.daemon.views.documents import JobDocuments
from radrm.daemon.views.reservations import reserved_for_later
from radrm.daemon.views.sizes import cap_of
from radrm.daemon.views.waiting_reasons import of_device, of_server, sentence
from radrm.daemon.views.way_out import way_out
from radrm.documents import jobs as shown
from radrm.host.storage.store import Store
from radrm.interference.model import Demand, speeds
from radrm.structs import replace as replaced

_TYPICAL = 0.6
"""The text names the speed of two jobs that each have this SM activity alone."""


def learned_documents(
    found: Iterable[LearnedLoss], kinds: Collection[str] | None = None
) -> list[shown.Sharing]:
    """Return a document for each kind of GPU and mode of which something was learned.

    `kinds`: of these GPUs only.
    """
    return [_document(each) for each in found if kinds is None or each.kind in kinds]


def _document(found: LearnedLoss) -> shown.Sharing:
    mode = "MPS" if found.mps else "time-sliced"
    pair = [Demand(_TYPICAL), Demand(_TYPICAL)]
    keeps, shipped = (speeds(pair, mps=found.mps, loss=loss)[0] for loss in (found.loss, None))
    periods = f"{found.periods} shared period{'s' if found.periods != 1 else ''}"
    return shown.Sharing(
        name=found.kind,
        mps=found.mps,
        loss=round(found.loss, 3),
        periods=found.periods,
        keeps=round(keeps, 3),
        shipped=round(shipped, 3),
        text=f"sharing on {found.kind}, {mode}: two jobs of SM activity {_TYPICAL:.2f} keep "
        f"{keeps:.2f} of their speed (shipped model: {shipped:.2f}), from {periods} here",
    )


def explain(documents: JobDocuments, job: Job, now: Instant) -> shown.Explanation:
    """All that is known of one job."""
    scheduler, store = documents.scheduler, documents.store
    snapshot, waiting = scheduler.snapshot, job.state.waiting
    refusals = scheduler.why_waiting(job.id, now) if waiting else ()
    why = sentence(snapshot, job, refusals)
    ahead = snapshot.position(job)
    judged = waiting and job.spec.gpus
    kinds = {each.device.name for each in snapshot.devices} if judged else ()
    document = documents.job(job, now, refusals)
    return shown.Explanation(
        job=replace(
            document,
            position=None if ahead is None else ahead + 1,
            way_out=way_out(scheduler, job, refusals, now),
        ),
        now=now.wall_s,
        summary=why if waiting else job.reason,
        ahead=ahead,
        reasons=tuple(_general(snapshot, each) for each in refusals if each.device is None),
        devices=_devices(snapshot, refusals) if judged else (),
        sharing=tuple(learned_documents(scheduler.learned, kinds)),
        size=tuple(shown.Refusal(**_refusal(r)) for r in scheduler.why_size(job.id, now)),
        reservations=tuple(reserved_for_later(snapshot, job, now)),
        attempts=tuple(_attempt(snapshot, a, now) for a in _attempts(snapshot, store, job)),
    )


def _general(snapshot: Snapshot, refusal: Refusal) -> shown.Refusal:
    return shown.Refusal(**_refusal(replaced(refusal, message=of_server(snapshot, refusal))))


def _devices(snapshot: Snapshot, refusals: Sequence[Refusal]) -> tuple[shown.GpuRefusal, ...]:
    """Each device with the first rule that refuses it, if one does."""
    first: dict[str, Refusal] = {}
    for refusal in refusals:
        if refusal.device is not None:
            first.setdefault(refusal.device, refusal)
    rows = []
    for each in snapshot.devices:
        found = first.get(each.device.uuid, Refusal(rule="", message=""))
        if found.rule:
            found = replaced(found, message=of_device(snapshot, each, found))
        device = each.device
        rows.append(
            shown.GpuRefusal(
                index=device.index, uuid=device.uuid, name=device.name, **_refusal(found)
            )
        )
    return tuple(rows)


def _refusal(refusal: Refusal) -> dict[str, Any]:
    return {
        "rule": refusal.rule or None,
        "message": refusal.message or None,
        "needed": refusal.needed,
        "available": refusal.available,
        "unit": refusal.measured_in,
        "planner": refusal.planner,
    }


def _attempts(snapshot: Snapshot, store: Store, job: Job) -> list[Attempt]:
    """All attempts of a job, the live one last. The live record replaces its older copy in the
    store."""
    live = snapshot.attempt(job.id)
    stored = [a for a in store.attempts(job.id) if live is None or a.serial < live.serial]
    return stored if live is None else [*stored, live]


def _attempt(snapshot: Snapshot, attempt: Attempt, now: Instant) -> shown.Attempt:
    attempt = snapshot.used_now(attempt)
    reserved = [s.reserved_mib for s in attempt.placement.shares if s.device is not None]
    return shown.Attempt(
        number=attempt.number,
        outcome=attempt.outcome.value if attempt.outcome else None,
        exit_code=attempt.exit_code,
        reason=attempt.reason,
        planner=attempt.planner,
        requested=_requested(attempt.requested) if attempt.requested else None,
        devices=tuple(_index(snapshot, uuid) for uuid in attempt.placement.devices),
        collocation=attempt.placement.collocation.value,
        cpu_list=attempt.cpu_list,
        launched_at=attempt.launched.wall_s,
        started_at=attempt.started.wall_s if attempt.started else None,
        ended_at=attempt.ended.wall_s if attempt.ended else None,
        ran_s=(attempt.ended or now).since(attempt.started) if attempt.started else None,
        reserved_mib=max(reserved, default=None),
        cap_mib=cap_of(attempt)["cap_mib"],
        peak_mib=attempt.peak_mib,
        smact=attempt.smact_mean,
        energy_j=attempt.energy_j,
    )


def _index(snapshot: Snapshot, uuid: str) -> int | str:
    """The index of a device; its UUID if the device is gone."""
    found = snapshot.device(uuid)
    return uuid if found is None else found.device.index


def _requested(asked: PlannerRequest) -> shown.Requested:
    """What a planner, or a user in place of one, asked for."""
    return shown.Requested(
        kind=asked.kind,
        planner=asked.planner or None,
        user=asked.user or None,
        why=asked.why or None,
    )

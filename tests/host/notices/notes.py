"""Jobs with `--notify` in a store, for tests of notices."""

from __future__ import annotations

from typing import Any

from radrm.core.decision import Decision, Warned
from radrm.core.records import ArrayElement, Attempt, Instant, Job, JobSpec, Placement
from radrm.core.words import Collocation, JobState, Outcome
from radrm.host.storage.notices import Notice
from radrm.host.storage.store import Store
from radrm.host.storage.submitted import Submission
from radrm.jobfile.radfile import wrap_command
from radrm.structs import replace
from tests.host.storage.pasts import at, envelope

UID = 1000


def decided(*records: Job | Attempt, warned: tuple[Warned, ...] = ()) -> Decision:
    return Decision((), records, (), None, (), warned=warned)


def pending(number: int = 1, uid: int = UID, name: str = "train", **changes: Any) -> Job:
    return Job(
        number,
        **{"ticket": f"T{number}", "spec": JobSpec(name, "ada", uid), "submitted": at(0.0)}
        | changes,
    )


def submitted(store: Store, job: Job, *targets: str, **options: Any) -> None:
    """Save a job with these targets."""
    raw: dict[str, Any] = {**options, **({"notify": list(targets)} if targets else {})}
    parsed = wrap_command(["true"], raw)
    sent = Submission(job.spec.uid, 100, envelope(job.ticket), parsed)
    store.save([decided(job)], [sent])


def array(store: Store, count: int, *targets: str, taken: int | None = None) -> list[Job]:
    """Save the first `taken` elements of an array; all by default."""
    elements = [pending(1, array=ArrayElement(1, 0))]
    elements += [
        replace(elements[0], id=1 + i, array=ArrayElement(1, i)) for i in range(1, taken or count)
    ]
    submitted(store, elements[0], *targets, array=f"0-{count - 1}")
    store.save([decided(*elements[1:])])
    return elements


def ended(job: Job, state: JobState = JobState.COMPLETED, **changes: Any) -> Job:
    times = {"started": at(2.0), "ended": at(65.0)}
    return replace(job, state=state, **{**times, **changes})


def tried(job: Job, outcome: Outcome | None = None, serial: int = 7, **changes: Any) -> Attempt:
    placement = Placement((), Collocation.EXCLUSIVE)
    found: Instant | None = at(60.0) if outcome is not None else None
    return Attempt(
        job.id, 1, serial, placement, at(1.0), at(2.0), found, outcome=outcome, **changes
    )


def waiting(store: Store) -> list[Notice]:
    """All notices that wait, oldest first."""
    found: dict[int, Notice] = {}

    def seen(notice_id: int, _: int) -> bool:
        return notice_id in found

    while more := store.notices.waiting(seen, 1):
        found[more[0].id] = more[0]
    return list(found.values())


def told(store: Store) -> list[tuple[str, str, str]]:
    """Job, event and target of the notices that wait."""
    return [(n.facts["job"], n.kind, n.target.place) for n in waiting(store)]

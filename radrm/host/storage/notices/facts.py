"""What a notice says of a job or of an array: plain JSON, of its own user's data only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from radrm.core.decision import Decision, Warned
from radrm.core.records import Attempt, Job
from radrm.core.words import JobState, Outcome

Facts = dict[str, Any]
_LONGEST = 500
"""Characters of a text."""


def facts_of(
    job: Job, event: str, attempt: Attempt | None = None, text: str | None = None
) -> Facts:
    """Return the facts about a job. `attempt`: its last one, if known; `text`: a warning.

    Times are epoch seconds, durations seconds; what is unknown is None.
    """
    return {
        "event": event,
        "id": job.id,
        "job": job.label,
        "name": job.spec.name,
        "user": job.spec.user,
        "comment": _short(job.spec.comment),
        "params": dict(job.array.params) if job.array is not None and job.array.params else None,
        "state": job.state.value,
        "exit_code": job.exit_code,
        "reason": _short(_reason(job, event, attempt)),
        "text": _short(text),
        "submitted_at": job.submitted.wall_s,
        "started_at": job.started.wall_s if job.started else None,
        "ended_at": job.ended.wall_s if job.ended else None,
        "waited_s": job.started.since(job.submitted) if job.started else None,
        "ran_s": job.ended.since(job.started) if job.started and job.ended else None,
        "attempts": job.attempts,
        "oom_count": job.oom_count,
        "gpus": job.gpus,
        "peak_mib": attempt.peak_mib if attempt is not None else None,
        "states": None,
    }


def facts_of_array(job: Job, states: Mapping[JobState, int]) -> Facts:
    """Return the facts about an array that has ended. `job` is an element, `states` has how many
    elements are in each state."""
    count = {state.value: number for state, number in states.items() if number}
    worst = next((state for state in _WORST if count.get(state)), JobState.COMPLETED.value)
    label = str(job.array.array_id) if job.array is not None else job.label
    found = {**facts_of(job, "end"), **dict.fromkeys(_OF_ONE)}
    return {**found, "job": label, "state": worst, "states": count}


_OF_ONE = (
    *("params", "exit_code", "reason", "started_at", "waited_s", "ran_s", "attempts", "peak_mib"),
    "oom_count",
)
"""The facts of an element that are none of its array's."""
_WORST = (JobState.FAILED.value, JobState.TIMEOUT.value, JobState.CANCELLED.value)


def occasions(decision: Decision) -> list[tuple[int, str, Job | None, Attempt | None, str | None]]:
    """Return what a decision has to tell of, in order: a job's id, the event, the job's record if
    the decision has it, its attempt, and the text of a warning.

    `start` stands for any durable change of a running job, so the first of them counts.
    """
    attempts = {each.job_id: each for each in decision.changed if isinstance(each, Attempt)}
    jobs = {each.id: each for each in decision.changed if isinstance(each, Job)}
    found: list[tuple[int, str, Job | None, Attempt | None, str | None]] = []
    for attempt in attempts.values():
        if attempt.ended is not None and attempt.outcome is Outcome.OOM:
            found.append((attempt.job_id, "oom", jobs.get(attempt.job_id), attempt, None))
    for job in jobs.values():
        if job.state.final:
            found.append((job.id, "end", job, attempts.get(job.id), None))
        elif job.state is JobState.RUNNING:
            found.append((job.id, "start", job, attempts.get(job.id), None))
    found += [_warning(each, jobs) for each in decision.warned]
    return found


def _warning(
    warned: Warned, jobs: Mapping[int, Job]
) -> tuple[int, str, Job | None, Attempt | None, str | None]:
    return warned.job_id, warned.kind, jobs.get(warned.job_id), None, warned.text


def _reason(job: Job, event: str, attempt: Attempt | None) -> str | None:
    if event == "oom" and attempt is not None:
        return attempt.reason
    return job.reason if job.state.final else None


def _short(text: str | None) -> str | None:
    return None if text is None else text[:_LONGEST]

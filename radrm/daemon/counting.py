"""Counters and histograms since the daemon's start: the question `metrics`.

Theory of operation. `note` is called with each round of decisions once it is on disk, so nothing
counts that a later daemon does not know. The next daemon begins at 0, as counters of Prometheus
do. All amounts are bounded: no count is kept by job or by user.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Any

from radrm.core import events as ev
from radrm.core.decision import Decision
from radrm.core.records import Attempt, Job
from radrm.core.snapshot import Snapshot
from radrm.core.words import JobState, Outcome
from radrm.daemon.serving.turns import Pace, Work
from radrm.host.wall import wall_s


class Histogram:
    """Counts values by `bounds`, which ascend. A value that equals a bound lies within it."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def add(self, value: float) -> None:
        """Count one value. A negative one, which a clock that was set back gives, counts as 0."""
        value = max(0.0, value)
        self._counts[bisect_left(self.bounds, value)] += 1
        self._sum += value

    def document(self) -> dict[str, Any]:
        """As JSON: `counts` has one number for each bound, without those of lower bounds, and a
        last one for the values above all."""
        return {"bounds": list(self.bounds), "counts": list(self._counts), "sum": self._sum}


WAIT_BOUNDS_S = (
    *(1.0, 5.0, 15.0, 60.0, 180.0, 600.0, 1800.0),
    *(3600.0, 10800.0, 21600.0, 43200.0, 86400.0, 259200.0),
)
"""From a second to three days."""
DECISION_BOUNDS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
_MOST_DEVICES = 1000
"""Devices whose energy is kept: MIG instances that are made anew have new names."""
_BATCH = 2000
_UNFINISHED = tuple(state for state in JobState if not state.final)


class Counts:
    """Used by the loop's thread. `tick`: a clock for durations, in real seconds."""

    def __init__(self, tick: Callable[[], float] = time.perf_counter) -> None:
        self.tick = tick
        self.since = wall_s()
        """When this daemon started, in seconds since the epoch."""
        self.decision_s = Histogram(DECISION_BOUNDS_S)
        self.wait_s = Histogram(WAIT_BOUNDS_S)
        """From the submission to the first instruction of a job's first attempt."""
        self.submitted = 0
        self.rejected = 0
        self.ended = {state: 0 for state in JobState if state.final}
        self.attempts = dict.fromkeys(Outcome, 0)
        self.energy_j: dict[str, float] = {}
        """Metered energy, by device; one that was never metered has no entry."""
        self._unfinished: tuple[int, dict[str, int]] = (-1, {})

    def note(
        self, events: Sequence[ev.Event], decisions: Sequence[Decision], took_s: float
    ) -> None:
        """Count a round of decisions that is on disk, and the time that it took."""
        self.decision_s.add(took_s)
        for event, decision in zip(events, decisions, strict=True):
            for record in decision.changed:
                if isinstance(record, Attempt):
                    if record.ended is not None and record.outcome is not None:
                        self.attempts[record.outcome] += 1
                elif isinstance(record, Job):
                    self._note_job(event, record)
            for used in decision.energy:
                joules = sum(part.joules for part in used.parts)
                known = self.energy_j.get(used.device)
                if known is None and len(self.energy_j) >= _MOST_DEVICES:
                    del self.energy_j[next(iter(self.energy_j))]
                self.energy_j[used.device] = (known or 0.0) + joules

    def _note_job(self, event: ev.Event, job: Job) -> None:
        if job.state in self.ended:
            self.ended[job.state] += 1
        if isinstance(event, ev.JobSubmitted) and event.job.id == job.id:
            self.submitted += 1
            self.rejected += job.state is JobState.FAILED
        elif isinstance(event, ev.AttemptStarted) and event.job_id == job.id:
            # A requeued job keeps the time of its first start.
            first = job.attempts == 1 and job.requeued is None
            waited_s = job.started.since(job.submitted) if first and job.started else None
            if waited_s is not None:
                self.wait_s.add(waited_s)

    def unfinished(self, snapshot: Snapshot) -> Work[dict[str, int]]:
        """Return the number of jobs in each state that is no end. It is counted once for all
        questions until a job changes."""
        version, states = self._unfinished
        if version == snapshot.jobs_version:
            return states
        version, jobs, pace = snapshot.jobs_version, snapshot.jobs, Pace()
        states = {state.value: 0 for state in _UNFINISHED}
        for i in range(0, len(jobs), _BATCH):
            found = [job.state for job in jobs[i : i + _BATCH]]
            left = len(found)
            for state in _UNFINISHED:
                if left:  # most jobs of a long queue are in the first one
                    count = found.count(state)
                    states[state.value] += count
                    left -= count
            yield from pace.rest_if_spent()
        self._unfinished = version, states
        return states

    def document(self) -> dict[str, Any]:
        """What was counted so far, as JSON."""
        return {
            "since": self.since,
            "submitted": self.submitted,
            "rejected": self.rejected,
            "ended": {state.value: count for state, count in self.ended.items()},
            "attempts": {outcome.value: count for outcome, count in self.attempts.items()},
            "energy_j": dict(self.energy_j),
            "wait_s": self.wait_s.document(),
            "decision_s": self.decision_s.document(),
        }

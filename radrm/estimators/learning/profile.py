"""The run time of a job on each kind and number of GPUs, from its runs there.

Theory of operation. A run that was alone on its GPUs and reported how far it was shows the pace of
its job there, also if it was stopped long before its end: the seconds between its first and its
last report, for the part of the work done between them. The time before the first report, less
what the pace explains of it, is the start-up. A run that has completed shows its own duration.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from radrm.core.records import Attempt, Profiled
from radrm.estimators.interface import PastRun

LEAST_S = 5.0
"""The least time between two reports that show a pace: the daemon reads them once a second."""
LATEST = 10
"""The latest runs on a kind and number of GPUs that count."""


def paced_s(attempt: Attempt) -> float | None:
    """Return the seconds that all work of an ended attempt's job takes alone on its GPUs, by the
    attempt's reports. None if it shared a GPU, or reported too little."""
    if len(attempt.reported) < 2 or any(usage.shared for usage in attempt.used.values()):
        return None
    first, last = attempt.reported
    took_s = last.measured.since(first.measured)
    if first.work_done is None or last.work_done is None or took_s is None:
        return None
    done = last.work_done - first.work_done
    if took_s < LEAST_S or done <= 0:
        return None
    pace_s = took_s / done
    before_s = first.measured.since(attempt.started) if attempt.started is not None else None
    begun = attempt.work_begun
    if before_s is None or begun is None:
        return pace_s
    return pace_s + max(0.0, before_s - max(0.0, first.work_done - begun) * pace_s)


def profile_of(runs: Sequence[PastRun], length: str | None) -> tuple[Profiled, ...]:
    """Return the median run time on each kind and number of GPUs of runs of one program.

    Only runs of this length of training count that were alone, the latest first.
    """
    found: dict[tuple[str, int], list[float]] = {}
    for run in runs:
        if run.alone and run.length == length and run.duration_s is not None:
            found.setdefault((run.device_kind, run.gpus), []).append(run.duration_s)
    return tuple(
        Profiled(kind, gpus, median(times[:LATEST]))
        for (kind, gpus), times in sorted(found.items())
    )


def with_other_sizes(own: Sequence[Profiled], known: Sequence[Profiled]) -> tuple[Profiled, ...]:
    """Return a profile with what was known of the kinds and numbers of GPUs that it lacks."""
    found = {(each.kind, each.gpus): each for each in (*known, *own)}
    return tuple(found[key] for key in sorted(found))

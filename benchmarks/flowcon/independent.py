"""FlowCon as the thesis prints it, in one loop of its own: it imports nothing of radrm.

It judges `measure = "paper"`: both follow Algorithms 1 and 2 (section 5.1.2) and equations 4.1 and
4.2, written apart. Time passes in steps of `_STEP_S`; docker's soft limits are water-filling with
limits, and what these leave is divided among all. `contention`: the part by which each further
running job slows all, which the thesis does not measure. `whole`: a job of unknown growth counts as
all growth, so that its neighbours have their least limit, as Figure 6.5 shows it.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp

_STEP_S = 0.1
_BETA = 2.0

Work = tuple[float, float, float, float]
"""A job: its submission, its CPU seconds, its loss exp(-k x work done), the CPUs it can use."""


def completion_s(
    jobs: Sequence[Work],
    alpha: float | None,
    interval_s: float,
    contention: float = 0.0,
    *,
    whole: bool = False,
) -> list[float]:
    """Return the completion time of each job on one CPU; `alpha` None: equal shares."""
    done, used, seen_used = [0.0] * len(jobs), [0.0] * len(jobs), [0.0] * len(jobs)
    seen = [1.0] * len(jobs)  # E at the start
    limits, lists, growths = [1.0] * len(jobs), ["NL"] * len(jobs), [0.0] * len(jobs)
    judged_s: list[float | None] = [None] * len(jobs)
    ended: dict[int, float] = {}
    before: list[int] = []
    now_s, next_s, wait_s = 0.0, 0.0, interval_s
    while len(ended) < len(jobs):
        active = [i for i in range(len(jobs)) if jobs[i][0] <= now_s and i not in ended]
        if alpha is not None and active and (active != before or now_s >= next_s - 1e-9):
            if active != before:
                wait_s = interval_s
            for i in active:
                loss = exp(-jobs[i][2] * done[i] / jobs[i][1])
                if (at_s := judged_s[i]) is not None and now_s > at_s:
                    mean = max(1e-3, (used[i] - seen_used[i]) / (now_s - at_s))
                    growths[i] = abs(loss - seen[i]) / (now_s - at_s) / mean
                    later = "WL" if lists[i] == "NL" else "CL"
                    lists[i] = later if growths[i] < alpha else "NL"
                seen[i], seen_used[i] = loss, used[i]
            total = sum(growths[i] for i in active) or 1.0
            if whole and any(judged_s[i] is None for i in active):
                total = float("inf")
            if all(lists[i] == "CL" for i in active):
                wait_s *= 2
                for i in active:
                    limits[i] = 1.0
            else:
                for i in active:
                    if judged_s[i] is None:
                        limits[i] = 1.0
                    elif lists[i] == "NL":
                        limits[i] = growths[i] / total
                    elif lists[i] == "CL":
                        limits[i] = max(growths[i] / total, 1 / (_BETA * len(active)))
            for i in active:
                judged_s[i] = now_s
            before, next_s = active, now_s + wait_s
        slower = 1 + contention * (len(active) - 1)
        parts = _shared([limits[i] for i in active], [jobs[i][3] for i in active])
        for i, part in zip(active, parts, strict=True):
            done[i] += part * _STEP_S / slower
            used[i] += part * _STEP_S
            if done[i] >= jobs[i][1]:
                ended[i] = now_s + _STEP_S - jobs[i][0]
        now_s += _STEP_S
    return [ended[i] for i in range(len(jobs))]


def _shared(limits: Sequence[float], wants: Sequence[float]) -> list[float]:
    """Return the CPU that each job gets: alike up to its limit, then alike up to what it wants."""
    first = filled([min(a, b) for a, b in zip(limits, wants, strict=True)], 1.0)
    left = [want - part for want, part in zip(wants, first, strict=True)]
    more = filled(left, 1.0 - sum(first))
    return [a + b for a, b in zip(first, more, strict=True)]


def filled(caps: Sequence[float], volume: float) -> list[float]:
    """Return what each gets of a volume that is divided alike, none more than its cap."""
    parts = [0.0] * len(caps)
    for passed, at in enumerate(sorted(range(len(caps)), key=caps.__getitem__)):
        parts[at] = max(0.0, min(caps[at], volume / (len(caps) - passed)))
        volume -= parts[at]
    return parts

"""Findings: what a soak has shown to be wrong. Pure functions, one for each promise.

An empty list means that nothing was found. Each finding is one line with the job or thing, what
was seen, and what was promised.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from statistics import median, quantiles
from typing import NamedTuple

from proofs.soak.jobs import ELEMENTS, ENDS
from proofs.soak.ledger import Acknowledged, Ended, Line
from proofs.soak.prober import MACHINE
from proofs.soak.samples import Sample
from radrm.daemon.intake.envelopes import user_name

RSS_GROWTH = 0.10
RSS_SLACK_KIB = 6 * 1024
"""Resident memory of one daemon is flat if its last third needs at most 10 % and 6 MiB more
than its second third."""
SLACK = 5
"""Descriptors and threads that the idle daemon may have more than at its start."""
STORE_GROWTH = 0.25
STORE_SLACK_KIB = 1024
"""The store is flat if, once it keeps as many jobs as it may, the last third of its samples needs
at most 25 % and 1 MiB more than the second third."""
DRIFT = 2.0
DRIFT_SLACK_S = 0.05
"""A median latency has not drifted while the last part's is below twice the first one's + 50 ms;
more only by the factor by which a shell that does nothing needs longer, too."""
MOST_TOLD = 20


class Latency(NamedTuple):
    """One question: when it was asked (seconds since the epoch), what, and the seconds until the
    answer, or until there was none."""

    at_s: float
    op: str
    took_s: float
    answered: bool = True


Window = tuple[float, float]


def lost(
    acknowledged: Mapping[str, Acknowledged],
    ended: Iterable[Ended],
    lines: Iterable[Line],
    cancelled: Collection[int],
    hostile: int | None = None,
) -> list[str]:
    """Acknowledged jobs that have not come to an end that their kind may have.

    The user `hostile` sends requests that are nearly right; some cancel jobs of his own.
    """
    of_ticket: dict[str, list[Ended]] = defaultdict(list)
    for job in ended:
        of_ticket[job.ticket].append(job)
    given_up = {job.ticket for jobs in of_ticket.values() for job in jobs if job.id in cancelled}
    said_ended = {line.job for line in lines if line.word == "ended"}
    found = []
    for ticket, ack in acknowledged.items():
        jobs = of_ticket[ticket]
        if len(jobs) != ELEMENTS[ack.kind]:
            found.append(
                f"lost: submission {ticket} ({ack.kind}) was acknowledged, and {len(jobs)} of its "
                f"{ELEMENTS[ack.kind]} jobs have ended"
            )
        for job in jobs:
            by_himself = ack.uid == hostile and job.reason == f"cancelled by {user_name(ack.uid)}"
            may_be_cancelled = ticket in given_up or by_himself
            allowed = ENDS[ack.kind] | ({"CANCELLED"} if may_be_cancelled else set())
            if job.state not in allowed:
                found.append(
                    f"lost: job {job.id} ({ack.kind}) is {job.state}, not {' or '.join(allowed)}: "
                    f"{job.reason}"
                )
            elif job.state == "COMPLETED" and job.id not in said_ended:
                found.append(f"lost: job {job.id} ({ack.kind}) is COMPLETED, but it never ended")
    return found


def untried(kinds: Iterable[str], ended: int, faults: Mapping[str, int]) -> list[str]:
    """What has not been tried at all, so that nothing is proven of it."""
    found = [f"untried: {name}" for name, times in faults.items() if not times]
    if not ended:
        found.append("untried: no job has ended")
    missing = sorted(set(ENDS) - set(kinds))
    return found + [f"untried: no job of kind {kind!r}" for kind in missing]


def doubled(ended: Iterable[Ended], lines: Iterable[Line]) -> list[str]:
    """Jobs that ran twice at once, attempts that began twice, and jobs that completed twice."""
    found = []
    begun: Counter[tuple[int, int]] = Counter()
    for line in lines:
        if line.word == "doubled":
            found.append(f"doubled: job {line.job} began attempt {line.attempt} beside another one")
        if line.word in ("begun", "doubled"):
            begun[line.job, line.attempt] += 1
    for (job, attempt), times in begun.items():
        if times > 1:
            found.append(f"doubled: attempt {attempt} of job {job} began {times} times")
    numbers: dict[int, list[int]] = defaultdict(list)
    for job, attempt in begun:
        numbers[job].append(attempt)
    for each in ended:
        completed = [n for n, outcome in each.outcomes.items() if outcome == "completed"]
        if len(completed) > 1:
            found.append(f"doubled: job {each.id} completed in attempts {completed}")
        unknown = [n for n in numbers[each.id] if n not in each.outcomes]
        if unknown and each.outcomes:
            found.append(f"doubled: job {each.id} ran attempts {unknown} that the store lacks")
    return found


def orphaned(
    processes: Iterable[object],
    groups: Iterable[str],
    files: Iterable[str],
    reserved: Iterable[str],
    memory: Mapping[str, tuple[int, int]],
) -> list[str]:
    """What is left when every job has ended. `memory`: MiB in use before the first job, and now."""
    found = [f"orphaned: process {each}" for each in processes]
    found += [f"orphaned: control group {each}" for each in groups]
    found += [f"orphaned: {each}" for each in files]
    found += [f"orphaned: reservation {each[:200]}" for each in reserved]
    for device, (before, now) in memory.items():
        if now > before:
            found.append(f"orphaned: {now - before} MiB of {device}")
    return found


def growth(
    samples: Sequence[Sample], idle: tuple[Sample, Sample] | None, filled: int = 0
) -> list[str]:
    """What the daemon gathers: `idle` are its samples before the first job and after the last.

    Until `filled` jobs have ended, the store and the daemon's memory may grow: neither keeps all
    that it may yet.
    """
    found = []
    full = [sample for sample in samples if sample.ended >= filled]
    for life in sorted({sample.life for sample in full}):
        rss = [sample.rss_kib for sample in full if sample.life == life]
        third = len(rss) // 3
        if third < 3:
            continue
        before, after = median(rss[third : 2 * third]), median(rss[-third:])
        if after > before * (1 + RSS_GROWTH) + RSS_SLACK_KIB:
            found.append(f"growth: daemon {life} holds {after:.0f} KiB after {before:.0f} KiB")
    store = [sample.store_kib for sample in full]
    third = len(store) // 3
    if third >= 3:
        before, after = median(store[third : 2 * third]), median(store[-third:])
        if after > before * (1 + STORE_GROWTH) + STORE_SLACK_KIB:
            found.append(f"growth: the store has {after:.0f} KiB after {before:.0f} KiB")
    if idle is not None:
        first, last = idle
        for name in ("descriptors", "threads"):
            before, after = getattr(first, name), getattr(last, name)
            if after > before + SLACK:
                found.append(f"growth: the idle daemon has {after} {name}, and began with {before}")
    return found


def drift(parts: Mapping[str, tuple[Sequence[float], Sequence[float]]]) -> list[str]:
    """Latencies of the first and the last part, in seconds, by question."""
    found = []
    busier = max(1.0, _ratio(parts.get(MACHINE, ([], []))))
    for name, (first, last) in parts.items():
        if name == MACHINE:
            continue
        if not first or not last:
            found.append(f"drift: {name} was not measured in the first or the last part")
        elif median(last) > DRIFT * busier * median(first) + DRIFT_SLACK_S:
            found.append(
                f"drift: {name} took {median(first) * 1000:.0f} ms, in the last part "
                f"{median(last) * 1000:.0f} ms"
            )
    return found


def _ratio(part: tuple[Sequence[float], Sequence[float]]) -> float:
    first, last = part
    return median(last) / median(first) if first and last else 1.0


def calm(latencies: Iterable[Latency], windows: Sequence[Window]) -> list[Latency]:
    """The latencies that no window of a fault touches."""
    return [
        each
        for each in latencies
        if not any(each.at_s < end and each.at_s + each.took_s >= begin for begin, end in windows)
    ]


def unanswered(latencies: Iterable[Latency]) -> list[str]:
    """Questions without an answer, outside all windows."""
    return [
        f"unanswered: {each.op}, asked at {each.at_s:.1f}, for {each.took_s:.1f} s"
        for each in latencies
        if not each.answered
    ]


Parts = dict[str, tuple[list[float], list[float]]]


def split(latencies: Iterable[Latency], first_until: float, last_from: float) -> Parts:
    """The latencies of the first and the last part, by question."""
    parts: Parts = {}
    for each in latencies:
        first, last = parts.setdefault(each.op, ([], []))
        if each.answered and each.at_s < first_until:
            first.append(each.took_s)
        if each.answered and each.at_s >= last_from:
            last.append(each.took_s)
    return parts


def p50_p95(values: Sequence[float]) -> tuple[float, float] | None:
    """Median and 95th percentile; None of fewer than two."""
    if len(values) < 2:
        return None
    return median(values), quantiles(values, n=20)[-1]

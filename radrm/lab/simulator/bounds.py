"""Lower bounds: no policy does better on this server, in the model of `interference.model`.

A job's work on a GPU is its solo SMACT times its solo time. The work that a GPU delivers per
second is limited, for any number of jobs (`interference.delivered`).

The bounds are for an easier problem: one machine with the capacity of all GPUs, on which
work can be split, paused and moved, without memory limits. A bound there is also a bound
on the server.

- Makespan: the larger of two. After each release, the remaining work over the capacity; and
  each job's release plus its solo time.
- Mean JCT: the largest of three. (1) The mean solo time. (2) Shortest remaining work first,
  which is optimal on one machine (Schrage 1968). (3) The least sum of mean busy times
  (Goemans 1997: preemptive, smallest job first), plus half of each solo time: a job ends at
  least half its solo time after the middle of its work.

`fluid` is close to a bound but none: shortest remaining work first, each job at most at
its solo speed. A policy that can pause jobs may come near it.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from statistics import fmean

from msgspec import Struct

from radrm.core.words import Outcome
from radrm.interference.model import delivered
from radrm.lab.simulator.run import Run
from radrm.lab.simulator.traces.job import TraceJob, best_of

_MUCH = 1e6
_LITTLE = 1e-9


class Bounds(Struct, frozen=True):
    """Makespans count from the first submission, JCTs from each job's own, in seconds."""

    makespan_s: float
    mean_jct_s: float
    fluid_makespan_s: float
    fluid_mean_jct_s: float


class Solo(Struct, frozen=True):
    """A job alone on the server: the seconds of load on its GPUs, and its least duration."""

    loading_s: float
    least_s: float


def nominal(jobs: Sequence[TraceJob], start_up_s: float = 0.0) -> list[Solo]:
    """Return the jobs as in the trace. `start_up_s` is without load, half the time at most."""
    return [Solo(j.duration_s - min(start_up_s, j.duration_s / 2), j.duration_s) for j in jobs]


def drawn(
    run: Run, start_up_s: float, nominal_start_s: float = 0.0
) -> tuple[list[TraceJob], list[Solo]]:
    """Return the completed jobs with the values that the run's seed has drawn.

    `start_up_s` is the least start-up that the seed can draw, `nominal_start_s` the one that is a
    part of the trace's run times.
    """
    jobs, solos = [], []
    for each in run.jobs:
        done = next((a for a in each.attempts if a.outcome is Outcome.COMPLETED), None)
        if each.ended_s is not None and done is not None:
            job, work_s = each.job, done.begun_s + done.solo_s
            load, least = _parts(job, nominal_start_s)
            least_s = least * work_s + min(start_up_s, job.duration_s / 4)
            jobs.append(job)
            solos.append(Solo(load * work_s, least_s))
    return jobs, solos


def _parts(job: TraceJob, nominal_start_s: float) -> tuple[float, float]:
    """Return the least load and the least computing time of a job on any kind and number of GPUs,
    as parts of those by its `duration_s`."""

    def computes_s(duration_s: float) -> float:
        return duration_s - min(nominal_start_s, duration_s / 2)

    if job.elastic:
        return best_of(job)
    usual_s = computes_s(job.duration_s)
    times = [(each.gpus / job.gpus, computes_s(each.duration_s)) for each in job.profile]
    load = min((gpus * seconds / usual_s for gpus, seconds in times), default=1.0)
    return min(1.0, load), min(1.0, min((s / usual_s for _, s in times), default=1.0))


def bounds(jobs: Sequence[TraceJob], solos: Sequence[Solo], fractions: Sequence[float]) -> Bounds:
    """Return the bounds of these jobs on devices that are parts (0..1] of a whole GPU."""
    if not jobs or not fractions:
        return Bounds(0.0, 0.0, 0.0, 0.0)
    ceiling = delivered(_MUCH)
    whole = all(fraction >= 1 for fraction in fractions)
    # A job alone may exceed the ceiling of shared GPUs. On whole GPUs the excess is ignored;
    # with parts of GPUs the ceiling is. Both make the problem easier, so the bounds hold.
    most = ceiling if whole else 1.0
    capacity = sum(fractions) * most
    begin_s = min(job.submit_s for job in jobs)
    pieces = sorted(
        (
            _Piece(
                job.submit_s - begin_s,
                solo.loading_s * min(job.smact, most) * job.gpus,
                solo.least_s,
            )
            for job, solo in zip(jobs, solos, strict=True)
        ),
        key=lambda piece: piece.release_s,
    )
    solo_s = sum(p.least_s for p in pieces)
    count = len(pieces)
    loading = [p for p in pieces if p.work > 0]
    idle_s = sum(p.least_s for p in pieces if p.work <= 0)
    shortest_s = _shortest_remaining(loading, capacity) + idle_s
    busy_s = _mean_busy(loading, capacity) + idle_s
    fluid_makespan_s, fluid_sum_s = _fluid(loading, capacity)
    latest_s = max(p.release_s + p.least_s for p in pieces)
    return Bounds(
        makespan_s=max(latest_s, _work_over_capacity(loading, capacity)),
        mean_jct_s=max(solo_s, shortest_s, busy_s) / count,
        fluid_makespan_s=max(latest_s, fluid_makespan_s),
        fluid_mean_jct_s=(fluid_sum_s + idle_s) / count,
    )


def mean_of(found: Sequence[Bounds]) -> Bounds:
    """Return the means over one or more seeds."""
    return Bounds(
        *(fmean(getattr(each, name) for each in found) for name in Bounds.__struct_fields__)
    )


class _Piece(Struct, frozen=True):
    """A job of the easier problem. `work` is in GPU-seconds of full activity."""

    release_s: float
    work: float
    least_s: float

    @property
    def rate(self) -> float:
        return self.work / self.least_s


def _work_over_capacity(pieces: Sequence[_Piece], capacity: float) -> float:
    left, latest = 0.0, 0.0
    for piece in reversed(pieces):
        left += piece.work
        latest = max(latest, piece.release_s + left / capacity)
    return latest


def _shortest_remaining(pieces: Sequence[_Piece], capacity: float) -> float:
    """Return the sum of completion minus release, with shortest remaining work first."""
    waiting: list[tuple[float, float]] = []
    now, total, at = 0.0, 0.0, 0
    while at < len(pieces) or waiting:
        if not waiting:
            now = max(now, pieces[at].release_s)
        while at < len(pieces) and pieces[at].release_s <= now:
            heappush(waiting, (pieces[at].work, pieces[at].release_s))
            at += 1
        work, release = heappop(waiting)
        end = now + work / capacity
        if at < len(pieces) and pieces[at].release_s < end:
            heappush(waiting, (work - (pieces[at].release_s - now) * capacity, release))
            now = pieces[at].release_s
        else:
            now, total = end, total + end - release
    return total


def _mean_busy(pieces: Sequence[_Piece], capacity: float) -> float:
    """Return the least sum of (mean busy time + half the solo time - release)."""
    waiting: list[tuple[float, int, float]] = []  # whole work, which, work left
    now, total, at = 0.0, 0.0, 0
    while at < len(pieces) or waiting:
        if not waiting:
            now = max(now, pieces[at].release_s)
        while at < len(pieces) and pieces[at].release_s <= now:
            heappush(waiting, (pieces[at].work, at, pieces[at].work))
            at += 1
        work, which, left = heappop(waiting)
        end = now + left / capacity
        until = min(end, pieces[at].release_s) if at < len(pieces) else end
        done = left if until == end else (until - now) * capacity
        total += (now + until) / 2 * done / work
        if until < end:
            heappush(waiting, (work, which, left - done))
        else:
            total += pieces[which].least_s / 2 - pieces[which].release_s
        now = until
    return total


def _fluid(pieces: Sequence[_Piece], capacity: float) -> tuple[float, float]:
    """Return the last end, and the sum of completion minus release, of the fluid schedule.

    The jobs with the least remaining work share the server, each at most at its own rate.
    """
    running: list[tuple[float, int, float]] = []  # work left, which, its rate now
    paused: list[tuple[float, int]] = []
    now, total, at = 0.0, 0.0, 0
    while at < len(pieces) or running or paused:
        if not running and not paused:
            now = max(now, pieces[at].release_s)
        while at < len(pieces) and pieces[at].release_s <= now:
            heappush(paused, (pieces[at].work, at))
            at += 1
        _share_out(running, paused, pieces, capacity)
        step = min(left / rate for left, _, rate in running)
        if at < len(pieces):
            step = min(step, pieces[at].release_s - now)
        now += step
        still = []
        for left, which, rate in running:
            left -= rate * step
            if left <= _LITTLE * pieces[which].work:
                total += now - pieces[which].release_s
            else:
                still.append((left, which, rate))
        running = still
    return now, total


def _share_out(
    running: list[tuple[float, int, float]],
    paused: list[tuple[float, int]],
    pieces: Sequence[_Piece],
    capacity: float,
) -> None:
    """Give the capacity to the jobs with the least remaining work; the last may get a part."""
    running.sort()
    while running and (
        running[-1][2] < pieces[running[-1][1]].rate or (paused and paused[0][0] < running[-1][0])
    ):
        left, which, _ = running.pop()
        heappush(paused, (left, which))
    room = capacity - sum(rate for _, _, rate in running)
    while paused and (room > _LITTLE * capacity or not running):
        left, which = heappop(paused)
        rate = min(max(room, _LITTLE * capacity), pieces[which].rate)
        running.append((left, which, rate))
        room -= rate

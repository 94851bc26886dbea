"""The verdict on an ended job.

What a job that has ended should have asked for, in at most two short lines.

Theory of operation. Only figures that were measured count, and only of a job that COMPLETED or died
of GPU out-of-memory: another end says nothing of what the job needs. A line is said only where it
can change something: where the difference is large enough for another job, or the job may start
sooner. Each line has both numbers and what to do.

The rules:
    memory    what is declared should be the peak and `CoreSettings.headroom_mib`, in whole GiB.
              Said if the peak exceeds it by a twentieth, or if at least 1 GiB and a fifth of it
              are left over.
              A program that died of the part of the GPU's total that it takes: that part.
    GPUs      a job of a minute or more that used no memory of a GPU did not need it.
    activity  a mean below 0.10 in 20 readings or more while no other job was on the GPU.
    time      a limit of at least three times the run time and 10 minutes more.

A job that used a GPU which it was not given has only a line about that: what it used of its own
GPUs says nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil

from radrm.core.lifecycle.recovery import part_of_total
from radrm.core.records import MISPLACED, Attempt, Job
from radrm.core.units import show_mib, show_seconds
from radrm.core.words import JobState, Outcome, Quantity

MOST_LINES = 2
_GIB = 1024
_LEFT_OVER = 0.2
_MORE = 1.05
_LONG_S = 60.0
_IDLE = 0.10
_READINGS = 20
_TIMES = 3.0
_SOONER_S = 600.0


def verdict(
    job: Job, attempts: Sequence[Attempt], headroom_mib: int, largest_mib: int | None = None
) -> tuple[str, ...]:
    """Return what to change in the next submission of an ended job; empty if nothing is known.

    `attempts`: its attempts, the last one last; of a job without out-of-memory deaths the last one
    is enough. `headroom_mib`: what is reserved above a peak. `largest_mib`: the memory of the
    largest device, which is the most to ask for; None: unknown.
    """
    if not attempts or not job.state.final:
        return ()
    last = attempts[-1]
    if (warning := last.warning(MISPLACED)) is not None:
        return (warning.past or warning.text,)
    if job.state is not JobState.COMPLETED:
        return tuple(_after_death(attempts, job.memory_floor_mib, largest_mib))
    found = (
        *_memory(job, attempts, headroom_mib, largest_mib),
        *_unused(last),
        *_activity(last),
        *_time(job, last),
    )
    return found[:MOST_LINES]


def _after_death(
    attempts: Sequence[Attempt], floor_mib: int | None, largest_mib: int | None
) -> Iterator[str]:
    """What is known of the need of a job whose last attempt died of GPU out-of-memory."""
    if attempts[-1].outcome is not Outcome.OOM:
        return
    tried = _most_reserved_mib(attempts)
    by_total = _by_total(attempts, largest_mib)
    if by_total is not None:
        yield by_total
    elif tried is not None:
        yield _not_enough(tried, floor_mib, largest_mib)


def _not_enough(tried: int, floor_mib: int | None, largest_mib: int | None) -> str:
    """`floor_mib`: what its deaths have proven that it needs."""
    least = max(tried, floor_mib or 0)
    if largest_mib is not None and least >= largest_mib:
        has = f"needs {'more than ' * (least == tried)}{show_mib(least)}"
        return f"it {has}, the largest GPU has {show_mib(largest_mib)}: use a smaller batch"
    return f"{show_mib(tried)} per GPU was not enough: use a smaller batch, or ask for more memory"


def _memory(
    job: Job, attempts: Sequence[Attempt], headroom_mib: int, largest_mib: int | None
) -> Iterator[str]:
    by_total = _by_total(attempts, largest_mib)
    if by_total is not None:
        yield by_total
        return
    peak = attempts[-1].peak_mib
    if not peak:
        return
    enough = ceil((peak + headroom_mib) / _GIB) * _GIB
    if largest_mib is not None:
        enough = min(enough, largest_mib // _GIB * _GIB)
    rule = f"peak {show_mib(peak)}: try --gpu-memory={enough // _GIB}G (peak and headroom)"
    died = [each for each in attempts if each.outcome is Outcome.OOM]
    asked = _declared_mib(job)
    if died and (tried := _most_reserved_mib(died)) is not None and tried < enough:
        yield f"out of memory with {show_mib(tried)} reserved, {rule}"
    elif asked is None:
        return
    elif peak > _MORE * asked:
        yield f"asked {show_mib(asked)}, more was used: {rule}"
    elif asked - enough >= max(_GIB, _LEFT_OVER * asked):
        yield f"asked {show_mib(asked)}, {rule}"


def _by_total(attempts: Sequence[Attempt], largest_mib: int | None) -> str | None:
    """What to set for a program that took a part of the GPU's total where it could have less."""
    died = [each for each in attempts if each.fraction is not None]
    tried = _most_reserved_mib(died)
    if not died or tried is None or largest_mib is None or tried >= largest_mib:
        return None
    return part_of_total(str(died[0].fraction), tried, largest_mib)


def _declared_mib(job: Job) -> int | None:
    """The memory per GPU that the submitter declared for the whole job; None if none."""
    found = job.estimate(Quantity.MEMORY)
    return int(found.value) if found is not None and job.declared else None


def _most_reserved_mib(attempts: Sequence[Attempt]) -> int | None:
    shares = (share for each in attempts for share in each.placement.shares)
    return max(
        (s.reserved_mib for s in shares if s.device is not None and s.reserved_mib), default=None
    )


def _unused(last: Attempt) -> Iterator[str]:
    used, ran_s = last.used, last.ran_s
    idle = sum(1 for usage in used.values() if usage.peak_mib == 0)
    if not idle or ran_s is None or ran_s < _LONG_S:
        return
    if idle == len(used):
        yield "it used no GPU memory: without a GPU (--gpus=0) it starts sooner"
    else:
        yield f"it used {len(used) - idle} of its {len(used)} GPUs: try --gpus={len(used) - idle}"


def _activity(last: Attempt) -> Iterator[str]:
    """A low activity may have many causes, so this asks more than it says."""
    used = last.used.values()
    alone = [
        u.alone_smact for u in used if u.alone_count >= _READINGS and u.alone_smact is not None
    ]
    if not alone or len(alone) < len(used) or last.slowed or not last.peak_mib:
        return
    mean = sum(alone) / len(alone)
    if mean < _IDLE:
        yield f"SM activity {mean:.0%} while alone: does it wait for the CPU, or for data?"


def _time(job: Job, last: Attempt) -> Iterator[str]:
    limit_s, ran_s = job.spec.time_limit_s, last.ran_s
    if limit_s is None or ran_s is None or job.used_s:
        return
    if limit_s >= _TIMES * ran_s and limit_s - ran_s >= _SOONER_S:
        asked, ran = show_seconds(limit_s), show_seconds(ran_s)
        yield f"asked {asked}, ran {ran}: a shorter --time can start sooner"

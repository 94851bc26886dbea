"""Checks of readings: drop impossible figures, and divide the memory in use by job."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

from radrm.core.records import Reading
from radrm.core.state.holding import Holding


def why_unreadable(
    reading: Reading | None, fresh_from_s: float, stale_after_s: float, now_s: float
) -> str | None:
    """Return why the last reading does not show what is on the device now; None if it does.

    A reading from before `fresh_from_s` may still count the memory of a job that has left.
    """
    if reading is None:
        return "it has not been read yet"
    if reading.error:
        return reading.error
    if reading.fault:
        return reading.fault
    if reading.used_mib is None:
        return "its memory in use cannot be read"
    age_s = now_s - reading.at.boot_s
    if age_s > stale_after_s:
        return f"its last reading is {age_s:.0f} s old"
    if reading.at.boot_s < fresh_from_s:
        return "a job has just left it; it has not been read since"
    return None


def believable(reading: Reading) -> tuple[Reading, str | None]:
    """Return the reading without impossible figures, and why its SM activity is unusable.

    NaN compares as False with every threshold, so a broken monitor would make a full device
    look free. So impossible figures become unknown (None) here, once.
    """
    cause = reading.smact_error
    figures = [reading.used_mib, *[memory.used_mib for memory in reading.attempts or ()]]
    for mib in figures:  # each reading comes here: a loop costs less than a generator
        if mib is not None and not 0 <= mib < math.inf:
            return replace(reading, used_mib=None, attempts=()), cause
    if reading.power_w is not None and not 0 <= reading.power_w < math.inf:
        reading = replace(reading, power_w=None)
    if cause is not None:
        return replace(reading, smact=None), cause
    if reading.smact is not None and not 0 <= reading.smact < math.inf:
        return replace(reading, smact=None), f"its SM activity reads {reading.smact}"
    return reading, None


def attribute(
    reading: Reading,
    holdings: Mapping[int, Holding],
    reserved_for: Callable[[int], int],
) -> tuple[int | None, dict[int, int | None]]:
    """Return the memory of unmanaged processes, and of each job on the device, in MiB.

    Unmanaged memory is the memory in use minus that of the jobs; None if the first is unknown.
    That of an attempt which does not hold the device counts as unmanaged: its processes have
    outlived it (`lifecycle/ending.py`).
    A job whose memory the driver does not report has None. A job that is not in the reading
    uses none, unless the reading attributes nothing: then no job's memory is reported.
    `reserved_for` returns what is reserved for a job.
    """
    if reading.used_mib is None:
        return None, {}
    seen: dict[int, int | None] = {} if reading.attempts is not None else dict.fromkeys(holdings)
    left_mib = 0
    for memory in reading.attempts or ():
        holding = holdings.get(memory.job_id)
        if holding is not None and holding.serial == memory.serial:
            seen[memory.job_id] = memory.used_mib
        else:
            left_mib += memory.used_mib or 0
    unknown, rest = [], reading.used_mib
    for job_id, mib in seen.items():
        if mib is None:
            unknown.append(job_id)
        else:
            rest -= mib
    if len(unknown) == 1:
        # The driver does not report one job: all the rest counts as this job's.
        seen[unknown[0]] = max(0, rest - left_mib)
        rest = min(rest, left_mib)
    elif unknown:
        # Several such jobs: each counts as using its reservation.
        rest -= sum(reserved_for(job_id) for job_id in unknown)
    return max(0, rest), {job_id: seen.get(job_id, 0) for job_id in holdings}

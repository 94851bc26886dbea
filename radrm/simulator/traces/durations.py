"""The columns of a trace that give a job's run time on a kind of GPU.

    duration_s@V100        alone on one GPU whose name has the word V100
    duration_s@2xV100      alone on two of them

A job with several of these may run on as many GPUs as any of them names.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from radrm.core.constraints.kinds import is_name_of
from radrm.core.records import Device, Profiled
from radrm.errors import BadFile
from radrm.simulator.traces.job import TraceJob
from radrm.simulator.traces.table import shown

_PREFIX = "duration_s@"
_KIND = re.compile(r"(?:([1-9]\d{0,3})x)?(?!\d+x)([a-z0-9][a-z0-9 ._-]{0,99})", re.IGNORECASE)
_MOST_COLUMNS = 256


def duration_columns(names: Sequence[str], source: str) -> list[tuple[str, int, int]]:
    """Return the kind, the number of GPUs and the place of each of these columns.

    Raises `BadFile`.
    """
    found: list[tuple[str, int, int]] = []
    for at, name in enumerate(names):
        if not name.startswith(_PREFIX):
            continue
        written = _KIND.fullmatch(name.removeprefix(_PREFIX))
        if written is None:
            raise BadFile(
                f"{source} line 1: column {shown(name)} names no kind of GPU; write "
                "duration_s@V100 or duration_s@2xV100"
            )
        kind, gpus = written[2], int(written[1] or 1)
        if any(gpus == other and kind.casefold() == named.casefold() for named, other, _ in found):
            raise BadFile(f"{source} line 1: two columns give the run time on {gpus} x {kind}")
        found.append((kind, gpus, at))
    if len(found) > _MOST_COLUMNS:
        raise BadFile(f"{source} line 1: more than {_MOST_COLUMNS} columns {_PREFIX}")
    return found


def column_of(each: Profiled) -> str:
    """Return the name of the column of a run time."""
    return f"{_PREFIX}{'' if each.gpus == 1 else f'{each.gpus}x'}{each.kind}"


def seconds_on(job: TraceJob, gpu: str, gpus: int) -> float:
    """Return a job's run time alone on so many GPUs of this name.

    More GPUs than it has a figure for do not help; without any for this kind, and for fewer than
    its least figure, it is `duration_s`.
    """
    known = [each for each in job.profile if each.gpus <= gpus and is_name_of(gpu, each.kind)]
    return max(known, key=lambda each: each.gpus).duration_s if known else job.duration_s


def most_of_each(devices: Iterable[Device]) -> dict[str, int]:
    """Return the most GPUs that one server has of each name."""
    counts = Counter((device.name, device.node) for device in devices)
    most: dict[str, int] = {}
    for (name, _), count in counts.items():
        most[name] = max(most.get(name, 0), count)
    return most


def profile_there(job: TraceJob, most: Mapping[str, int]) -> tuple[Profiled, ...]:
    """Return a job's run times on so many GPUs of these names as a server has, by their names."""
    if not job.profile:
        return ()
    return tuple(
        Profiled(name, each.gpus, each.duration_s)
        for name, count in most.items()
        for each in job.profile
        if each.gpus <= count and is_name_of(name, each.kind)
    )

"""What a submission would be: its document, for commands and programs. Nothing is written."""

from __future__ import annotations

from radrm.client.submitting import remarks_on
from radrm.jobfile.sweeps import array_of, sweep_of, with_values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from radrm.client.connection import Client
    from radrm.client.submitting import Submission
    from radrm.jobfile.radfile import JobFile

_SHOWN = 3
"""Elements of a sweep that are shown, and the last one."""


def preview(result: Submission, client: Client | None) -> dict[str, Any]:
    """The document `Understood` of a submission that was checked, and not put.

    `client`: of a running daemon; None without one.
    """
    document = {key: result[key] for key in ("name", "file", "error")}
    if result["error"] is not None:
        return document
    job_file: JobFile = result["job_file"]
    asked, array = job_file.options, array_of(job_file)
    return document | {
        "elements": 1 if array is None else len(array.indices),
        "at_once": None if array is None else array.at_once,
        "gpus": asked.least_gpus,
        "gpu_memory_mib": asked.gpu_memory_mib,
        "gpu_memory_max_mib": asked.gpu_memory_max_mib,
        "memory_mib": asked.memory_mib,
        "time_limit_s": asked.time_s,
        **_estimate(result, client),
        "notes": [text for _, text in remarks_on(result)],
        "first": _elements(job_file),
    }


def _estimate(result: Submission, client: Client | None) -> dict[str, Any]:
    """What earlier runs tell of the memory at once; None for nothing, and without a daemon."""
    nothing = {"estimate_mib": None, "estimate_upper_mib": None, "estimate_source": None}
    job_file: JobFile = result["job_file"]
    if client is None or job_file.options.least_gpus == 0:
        return nothing
    from radrm.client.estimates import known

    memory = known(job_file, result["envelope"], client)
    if memory is None:
        return nothing
    return {
        "estimate_mib": int(memory.value),
        "estimate_upper_mib": int(max(memory.upper, memory.value)),
        "estimate_source": memory.source,
    }


def _elements(job_file: JobFile) -> list[dict[str, Any]]:
    """The first elements of a sweep and the last one: number, name, values and command."""
    sweep = sweep_of(job_file)
    if sweep is None:
        return []
    numbers = sorted({*range(min(_SHOWN, len(sweep))), len(sweep) - 1})
    found = []
    for number in numbers:
        values = sweep.values(number)
        one = with_values(job_file, values)
        command = list(one.argv) or None
        found.append(
            {"index": number, "name": one.name, "params": dict(values), "command": command}
        )
    return found

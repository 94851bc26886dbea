"""What each letter of squeue's `--format` shows of a job. docs/others.md has them as a table.

Letters without a meaning on one server (`%a` account, `%q` QOS...) are unknown here.
"""

from __future__ import annotations

import time

from radrm.client.states import FINAL, WAITING
from radrm.client.text import label
from radrm.client.words.jobs import where, why

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from radrm.client.text import Document

    Show = Callable[[Document, Mapping[str, int], float], object]
    """Takes a job, the indices of GPUs by UUID, and the daemon's time."""

_SHORT = {
    "PENDING": "PD", "RECOVERING": "PD", "LAUNCHING": "CF", "RUNNING": "R", "STOPPING": "CG",
    "COMPLETED": "CD", "FAILED": "F", "TIMEOUT": "TO", "CANCELLED": "CA",
}  # fmt: skip
_ENDS = {"ok": "afterok", "failed": "afternotok", "any": "afterany"}


def span(seconds: float | None) -> str:
    """A time as squeue writes it: `0:05`, `1:02:03`, `1-02:03:04`; `-` if it is not known."""
    if seconds is None:
        return "-"
    minutes, second = divmod(int(max(0.0, seconds)), 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    if days:
        return f"{days}-{hour:02}:{minute:02}:{second:02}"
    return f"{hour}:{minute:02}:{second:02}" if hour else f"{minute}:{second:02}"


def moment(at_s: float | None) -> str:
    """A date as squeue writes it, in the zone of this machine."""
    return "N/A" if at_s is None else time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(at_s))


def _used(job: Document, *_: object) -> str:
    return span(0.0 if job["started_at"] is None else job["ran_s"])


def _left(job: Document, index: Mapping[str, int], now: float) -> str:
    ends_at = job.get("time_limit_at")
    return span(job["time_limit_s"] if ends_at is None else ends_at - now)


def _limit(job: Document, *_: object) -> str:
    return "UNLIMITED" if job["time_limit_s"] is None else span(job["time_limit_s"])


def _place(job: Document, index: Mapping[str, int], now: float) -> str:
    return f"({why(job, True, now)})" if job["state"] in WAITING else where(job, index)


def _start(job: Document, *_: object) -> str:
    return moment(job["started_at"] or job.get("expected_start_at"))


def _end(job: Document, *_: object) -> str:
    return moment(job["ended_at"] if job["state"] in FINAL else job.get("expected_end_at"))


def _after(job: Document, *_: object) -> str:
    return (
        ",".join(f"{_ENDS[each['condition']]}:{each['job']}" for each in job["after"]) or "(null)"
    )


def _cpus(job: Document, *_: object) -> object:
    return job.get("cpus")


LETTERS: dict[str, tuple[str, str, Show]] = {
    "i": ("JOBID", "id; 12_3 or 12_[0-9] of an array", lambda job, *_: label(job)),
    "A": ("JOBID", "number of the job", lambda job, *_: job["id"]),
    "F": ("ARRAY_JOB_ID", "number of the array", lambda job, *_: job["array_id"] or job["id"]),
    "K": ("ARRAY_TASK_ID", "index in the array", lambda job, *_: job["array_index"]),
    "j": ("NAME", "name", lambda job, *_: job["name"]),
    "u": ("USER", "user", lambda job, *_: job["user"]),
    "t": ("ST", "state: PD CF R CG CD F TO CA", lambda job, *_: _SHORT.get(job["state"])),
    "T": ("STATE", "state in full, as radrm names it", lambda job, *_: job["state"]),
    "M": ("TIME", "run time so far", _used),
    "l": ("TIME_LIMIT", "time limit", _limit),
    "L": ("TIME_LEFT", "time until the limit", _left),
    "R": ("NODELIST(REASON)", "GPUs; of a waiting job the reason", _place),
    "r": ("REASON", "why it waits, or how it ended", lambda job, _, now: why(job, True, now)),
    "N": ("NODELIST", "GPUs", lambda job, index, _: where(job, index)),
    "b": ("TRES_PER_NODE", "number of GPUs, as gpu:2", lambda job, *_: f"gpu:{job['gpus']}"),
    "C": ("CPUS", "CPUs asked for", _cpus),
    "m": ("MIN_MEMORY", "host memory asked for, MiB", lambda job, *_: job.get("memory_mib")),
    "p": ("PRIORITY", "priority", lambda job, *_: job["priority"]),
    "Q": ("PRIORITY", "priority", lambda job, *_: job["priority"]),
    "V": ("SUBMIT_TIME", "when it was submitted", lambda job, *_: moment(job["submitted_at"])),
    "S": ("START_TIME", "start, or the expected one", _start),
    "e": ("END_TIME", "end, or the expected one", _end),
    "E": ("DEPENDENCY", "jobs that it waits for", _after),
    "k": ("COMMENT", "comment", lambda job, *_: job.get("comment")),
    "P": ("PARTITION", "always gpu", lambda *_: "gpu"),
    "D": ("NODES", "always 1", lambda *_: 1),
}
"""By letter: the heading, the meaning, and what a row shows."""

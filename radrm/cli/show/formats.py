"""`--format`: rows of jobs as the user lays them out, in squeue's letters or by field names.

Letters without a meaning on one server (`%a` account, `%q` QOS...) are unknown here.

`%[[.]WIDTH]LETTER` is as for squeue: the value in as many columns as it needs, or in WIDTH
columns, cut there; the dot moves it to the right. `{FIELD}` and `{FIELD:[.]WIDTH}` are the same
for any field of `status --json`. `%%`, `{{` and `}}` are these characters.
"""

from __future__ import annotations

import json
import os
import re
import time
from functools import cache

from radrm.client.text import FINAL, WAITING, label
from radrm.client.words.jobs import where, why
from radrm.errors import UsageError
from radrm.jobfile.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from radrm.client.text import Document

    Show = Callable[[Document, Mapping[str, int], float], object]
    """Takes a job, the indices of GPUs by UUID, and the daemon's time."""
    from collections.abc import Collection, Mapping, Sequence

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
    return span(0.0 if job["started_at"] is None else job.get("ran_s"))


def _left(job: Document, index: Mapping[str, int], now: float) -> str:
    if job.get("time_limit_s") is None:
        return "UNLIMITED"
    ends_at = job.get("time_limit_at")
    return span(job.get("time_limit_s") if ends_at is None else ends_at - now)


def _limit(job: Document, *_: object) -> str:
    limit_s = job.get("time_limit_s")
    return "UNLIMITED" if limit_s is None else span(limit_s)


def _place(job: Document, index: Mapping[str, int], now: float) -> str:
    return f"({why(job, True, now)})" if job["state"] in WAITING else where(job, index)


def _host(job: Document, *_: object) -> str:
    return "" if job["state"] in WAITING else os.uname().nodename


def _start(job: Document, *_: object) -> str:
    return moment(job["started_at"] or job.get("expected_start_at"))


def _end(job: Document, *_: object) -> str:
    return moment(job["ended_at"] if job["state"] in FINAL else job.get("expected_end_at"))


def _after(job: Document, *_: object) -> str:
    others = job.get("after", ())
    return ",".join(f"{_ENDS[each['condition']]}:{each['job']}" for each in others) or "(null)"


def _cpus(job: Document, *_: object) -> object:
    return job.get("cpus")


LETTERS: dict[str, tuple[str, str, Show]] = {
    "i": ("JOBID", "id; 12_3 or 12_[0-9] of an array", lambda job, *_: label(job)),
    "A": ("JOBID", "number of the job", lambda job, *_: job["id"]),
    "F": ("ARRAY_JOB_ID", "number of the array", lambda job, *_: job.get("array_id") or job["id"]),
    "K": ("ARRAY_TASK_ID", "index in the array", lambda job, *_: job.get("array_index")),
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
    "B": ("EXEC_HOST", "this server, once it has started", _host),
}
"""By letter: the heading, the meaning, and what a row shows."""


_LONGEST = 1000
_WIDEST = 1000
_PART = re.compile(
    r"%(?P<dot>\.?)(?P<width>[0-9]{0,4})(?P<letter>[A-Za-z])"
    r"|\{(?P<field>[a-z_]+)(?::(?P<right>\.?)(?P<columns>[0-9]{1,4}))?\}"
    r"|(?P<same>%%|\{\{|\}\})"
    r"|(?P<text>[^%{}]+)"
    r"|(?P<wrong>.)",
    re.DOTALL,
)


class Part(Record):
    """A text, a letter or a field. `width` 0: as wide as its value."""

    text: str = ""
    letter: str = ""
    field: str = ""
    width: int = 0
    right: bool = False


def read_format(text: str) -> list[Part]:
    """The parts of a format. Raises `UsageError` for one that cannot be read, is too long, or names
    a field that no job has."""
    if len(text) > _LONGEST:
        raise UsageError(f"--format: {len(text)} characters are too many; at most {_LONGEST}")
    parts = [_part(found, text) for found in _PART.finditer(text)]
    named = [part.field for part in parts if part.field]
    known = _fields() if named else {}
    for field in named:
        if field not in known:
            raise UsageError(f"--format: there is no field {field}; {_nearest(field, known)}")
    return parts


@cache
def _fields() -> Mapping[str, object]:
    """The fields of a job, with the value of each where the document leaves it out."""
    from radrm.documents.jobs import Job  # only a format with fields waits for msgspec

    names, values = Job.__struct_fields__, Job.__struct_defaults__
    always = len(names) - len(values)
    return dict(zip(names, (*[None] * always, *values), strict=True))


def _nearest(field: str, known: Collection[str]) -> str:
    from difflib import get_close_matches  # only a mistake needs it

    near = get_close_matches(field, known, n=1)
    return f"did you mean {near[0]}?" if near else "radrm status --json shows them"


def _part(found: re.Match[str], text: str) -> Part:
    if found["wrong"]:
        here = text[found.start() :][:12]
        raise UsageError(
            f"--format: {here!r} is neither %LETTER nor {{FIELD}}; write %% for a %, {{{{ for a {{"
        )
    if found["text"] or found["same"]:
        return Part(found["text"] or found["same"][0])
    width = int(found["width"] or found["columns"] or 0)
    if width > _WIDEST:
        raise UsageError(f"--format: {width} columns are too many; at most {_WIDEST}")
    if found["letter"] and found["letter"] not in LETTERS:
        raise UsageError(
            f"--format: there is no %{found['letter']}; the letters are {' '.join(LETTERS)}; "
            "every field of status --json is a {FIELD}, as {reserved_mib}"
        )
    right = bool(found["dot"] or found["right"])
    return Part("", found["letter"] or "", found["field"] or "", width, right)


def heading(parts: Sequence[Part]) -> str:
    """The line above the rows."""
    return _joined([LETTERS[p.letter][0] if p.letter else p.field.upper() for p in parts], parts)


def row(parts: Sequence[Part], job: Document, index: Mapping[str, int], now: float) -> str:
    """The line of one job. `index`: of GPUs by UUID. A field that it lacks is shown as `-`."""
    return _joined([_value(part, job, index, now) for part in parts], parts)


def _value(part: Part, job: Document, index: Mapping[str, int], now: float) -> str:
    if part.letter:
        found = LETTERS[part.letter][2](job, index, now)
    elif not part.field:
        return ""
    else:
        found = job.get(part.field, _fields().get(part.field))
    if found is None or found == "":
        return "-"
    return found if isinstance(found, str) else json.dumps(found)


def _joined(values: Sequence[str], parts: Sequence[Part]) -> str:
    found = [
        part.text or (_fitted(value, part) if part.width else value)
        for value, part in zip(values, parts, strict=True)
    ]
    return "".join(found).rstrip(" ")


def _fitted(value: str, part: Part) -> str:
    cut = value[: part.width]
    return cut.rjust(part.width) if part.right else cut.ljust(part.width)

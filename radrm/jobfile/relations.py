"""The values of `--after`, `--array`, `--param` and `--max-fails`: jobs that belong to others."""

from __future__ import annotations

import re

from radrm.jobfile.record import Record
from radrm.jobfile.values import seconds, shown, whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_ARRAY = 100_000
PARAM_NAME = r"[A-Za-z_][A-Za-z0-9_]{0,31}"
PARAM_VARIABLE = "RADRM_PARAM_"
"""What the variables of a sweep begin with; the name of the parameter follows."""

ONLY_IDS = (
    "a file that is copied in can only name ids and tickets; write the id of the job, or submit "
    "the file with radrm submit"
)
"""Why a name in `--after` is refused where no client has looked it up."""


class AfterOption(Record):
    """The value of `--after`: start after `job` ended as `condition` says.

    `job` is an id or a ticket, or a word that the daemon looks up when the job is submitted: a
    name, a pattern or `@`. `condition` is `ok`, `any` or `failed`. The core's record is
    `Dependency`, which has the id of an existing job.
    """

    job: str
    condition: str

    @property
    def looked_up(self) -> bool:
        """Whether later jobs could change what it means: it is no id and no ticket."""
        return re.fullmatch(_IDS, self.job) is None


class ArrayOption(Record):
    """The value of `--array`: elements `first..last`, or those `listed`, which are sorted.

    At most `at_once` at a time; None: no limit.
    """

    first: int
    last: int
    at_once: int | None
    listed: tuple[int, ...] | None = None

    @property
    def indices(self) -> Sequence[int]:
        return range(self.first, self.last + 1) if self.listed is None else self.listed


class MaxFailsOption(Record):
    """The value of `--max-fails`: the rest of an array is held after `count` elements failed.

    `within_s`: only those count that failed so soon after their start; None: all count.
    """

    count: int
    within_s: float | None = None


_SLURM_CONDITIONS = {
    "after": ":any",
    "afterok": "",
    "afterany": ":any",
    "afternotok": ":failed",
    "aftercorr": "",
}


_IDS = r"[0-9]{1,18}(?:_[0-9]{1,9})?|[0-9A-HJKMNP-TV-Z]{26}"
_NAMES = r"@(?:~[0-9]{1,4})?|[^\s:/@][^:/]{0,127}"


def after_option(given: str) -> AfterOption | None:
    """Return the value; None for `none`, which removes earlier values, such as a job file's."""
    if given == "none":
        return None
    found = re.fullmatch(rf"({_IDS}|{_NAMES})(?::(ok|any|failed))?", given)
    slurm = re.fullmatch(r"(after[a-z]*):([0-9_]{1,28}(?::[0-9_]{1,28})*)(?:\+[0-9]+)?", given)
    if slurm and slurm[1] in _SLURM_CONDITIONS:
        condition = _SLURM_CONDITIONS[slurm[1]]
        ours = " ".join(f"--after={job}{condition}" for job in slurm[2].split(":")[:4])
        raise ValueError(f"{shown(given)} is Slurm's; write {ours}")
    if not found or found[1] == "none" or not given.isprintable():
        raise ValueError(
            f"{shown(given)} is not JOB, JOB:ok, JOB:any or JOB:failed; name JOB by its id, "
            "ticket, name or a pattern, or as @"
        )
    return AfterOption(found[1], found[2] or "ok")


def array_option(given: str) -> ArrayOption:
    words, percent, most = given.partition("%")
    spans = [
        re.fullmatch(r"([0-9]{1,9})(?:-([0-9]{1,9})(?::([0-9]{1,9}))?)?", word)
        for word in words.split(",")
    ]
    if None in spans or (percent and not re.fullmatch(r"[0-9]{1,9}", most)):
        raise ValueError(
            f"{shown(given)} is not FIRST-LAST, FIRST-LAST:STEP or a list, with %N or without, as "
            "in 0-9%4 or 1,3,10-20:5"
        )
    at_once = int(most) if percent else None
    if at_once == 0:
        raise ValueError(f"{shown(given)} allows no element to run; write 1 or more after the %")
    bounds = [(int(f[1]), int(f[2] or f[1]), int(f[3] or 1)) for f in spans if f is not None]
    if any(step == 0 for _, _, step in bounds):
        raise ValueError(f"{shown(given)} has a step of 0; write 1 or more after the colon")
    ranges = [range(first, last + 1, step) for first, last, step in bounds]
    if not all(ranges) or sum(map(len, ranges)) > MAX_ARRAY:
        raise ValueError(f"{shown(given)} is not an array of 1 to {MAX_ARRAY} elements")
    indices = sorted({index for each in ranges for index in each})
    first, last = indices[0], indices[-1]
    whole = len(indices) == last - first + 1
    return ArrayOption(first, last, at_once, None if whole else tuple(indices))


def param_option(given: str) -> str:
    """Return the text as it is: only a sweep needs its values (`sweeps.axis_of`)."""
    name, _, values = given.partition("=")
    if not values or not re.fullmatch(PARAM_NAME, name):
        raise ValueError(
            f"{shown(given)} is not NAME=VALUES, as in lr=1e-3,1e-4 or seed=0:9, with a name of "
            "letters, digits and _"
        )
    return given


def max_fails_option(given: str) -> MaxFailsOption:
    count, at, limit = given.partition("@")
    return MaxFailsOption(whole(1, MAX_ARRAY)(count), seconds(limit) if at else None)

"""The values of `--after`, `--array`, `--param` and `--max-fails`: jobs that belong to others."""

from __future__ import annotations

from radrm.core.units import is_digits
from radrm.jobfile.record import Record
from radrm.jobfile.values import is_variable_name, seconds, shown, whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_ARRAY = 100_000
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
        return not _is_id(self.job)


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


SLURM_CONDITIONS = {"afterok": "", "afterany": ":any", "afternotok": ":failed", "aftercorr": ""}
"""What those of sbatch's `--dependency` are here."""
_OF_TICKETS = frozenset("0123456789ABCDEFGHJKMNPQRSTVWXYZ")


def _is_id(job: str) -> bool:
    """True for an id, an element (`12_3`) and a ticket."""
    number, of_array, index = job.partition("_")
    if is_digits(number, 18) and (is_digits(index, 9) or not of_array):
        return True
    return len(job) == 26 and _OF_TICKETS.issuperset(job)


def _is_name(job: str) -> bool:
    """True for a name, a pattern, `@` and `@~2`."""
    if job.startswith("@"):
        return job == "@" or (job.startswith("@~") and is_digits(job[2:], 4))
    return bool(job) and not job[0].isspace() and "/" not in job and len(job) <= 128


def after_option(given: str) -> AfterOption | None:
    """Return the value; None for `none`, which removes earlier values, such as a job file's."""
    if given == "none":
        return None
    job, colon, condition = given.partition(":")
    known = condition in ("ok", "any", "failed") or not colon
    named = _is_id(job) or (_is_name(job) and job != "none" and given.isprintable())
    if not (known and named):
        theirs = [each.partition("+")[0] for each in condition.split(":")]
        meant = {"after": ":any", **SLURM_CONDITIONS}.get(job)
        if meant is not None and all(map(_is_id, theirs)):
            ours = " ".join(f"--after={each}{meant}" for each in theirs[:4])
            raise ValueError(f"{shown(given)} is Slurm's; write {ours}")
        raise ValueError(
            f"{shown(given)} is not JOB, JOB:ok, JOB:any or JOB:failed; name JOB by its id, "
            "ticket, name or a pattern, or as @"
        )
    return AfterOption(job, condition or "ok")


def array_option(given: str) -> ArrayOption:
    words, percent, most = given.partition("%")
    bounds = [_indices(word) for word in words.split(",")]
    if not all(bounds) or (percent and not is_digits(most, 9)):
        raise ValueError(
            f"{shown(given)} is not FIRST-LAST, FIRST-LAST:STEP or a list, with %N or without, as "
            "in 0-9%4 or 1,3,10-20:5"
        )
    at_once = int(most) if percent else None
    if at_once == 0:
        raise ValueError(f"{shown(given)} allows no element to run; write 1 or more after the %")
    if any(step == 0 for _, _, step in bounds):
        raise ValueError(f"{shown(given)} has a step of 0; write 1 or more after the colon")
    ranges = [range(first, last + 1, step) for first, last, step in bounds]
    if not all(ranges) or sum(map(len, ranges)) > MAX_ARRAY:
        raise ValueError(f"{shown(given)} is not an array of 1 to {MAX_ARRAY} elements")
    indices = sorted({index for each in ranges for index in each})
    first, last = indices[0], indices[-1]
    whole = len(indices) == last - first + 1
    return ArrayOption(first, last, at_once, None if whole else tuple(indices))


def _indices(word: str) -> tuple[int, ...]:
    """FIRST, LAST and STEP of `7`, `0-9` or `0-9:2`; () for other text."""
    ends, colon, step = word.partition(":")
    first, dash, last = ends.partition("-")
    given = [first, *([last] if dash else []), *([step] if colon else [])]
    if not all(is_digits(each, 9) for each in given) or (colon and not dash):
        return ()
    return int(first), int(last or first), int(step or 1)


def is_param_name(text: str) -> bool:
    return is_variable_name(text) and len(text) <= 32


def param_option(given: str) -> str:
    """Return the text as it is: only a sweep needs its values (`sweeps.axis_of`)."""
    name, _, values = given.partition("=")
    if not values or not is_param_name(name):
        raise ValueError(
            f"{shown(given)} is not NAME=VALUES, as in lr=1e-3,1e-4 or seed=0:9, with a name of "
            "letters, digits and _"
        )
    return given


def max_fails_option(given: str) -> MaxFailsOption:
    count, at, limit = given.partition("@")
    return MaxFailsOption(whole(1, MAX_ARRAY)(count), seconds(limit) if at else None)

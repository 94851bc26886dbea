"""Fill in what a trace lacks of a job, from a table of typical jobs.

The draw depends only on the seed and the job's place in the source. So the trace is the same
for every policy and every seed of the simulation.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate

from msgspec import Struct

from radrm.errors import BadFile
from radrm.lab.simulator.traces.job import TraceJob
from radrm.lab.simulator.traces.table import read_table
from radrm.lab.simulator.traces.trace import MAX_MIB, family_of, number, whole
from radrm.structs import replace

_64_BITS = (1 << 64) - 1


class Typical(Struct, frozen=True):
    """A kind of job. `share` is its frequency relative to the other kinds."""

    share: float
    memory_mib: float
    smact: float
    family: str | None = None
    batch_size: int | None = None


TYPICAL = (
    Typical(33, 2000, 0.25, "light", 32),
    Typical(32, 2500, 0.35, "light", 128),
    Typical(9, 5000, 0.50, "cnn", 32),
    Typical(9, 9000, 0.55, "cnn", 64),
    Typical(9, 16000, 0.60, "cnn", 128),
    Typical(5, 18000, 0.85, "transformer", 8),
    Typical(3, 24000, 0.87, "vgg", 128),
)
"""Round figures of this project. Light, medium and large jobs are 65 : 27 : 8, as in the 90-job
trace of the RAD-RM thesis (section 6.3.2)."""


class Fill(Struct, frozen=True):
    """A table of typical jobs, and the seed that chooses from it."""

    kinds: Sequence[Typical] = TYPICAL
    seed: int = 0

    def draw(self, place: int) -> Typical:
        """Return the kind for the job at this place of its source."""
        sums = list(accumulate(kind.share for kind in self.kinds))
        at = bisect_right(sums, fraction(self.seed, place) * sums[-1])
        return self.kinds[min(at, len(self.kinds) - 1)]

    def of_memory(self, memory_mib: float) -> Typical:
        """Return the kind with the nearest memory, for a job of which only that is known."""
        return min(self.kinds, key=lambda kind: abs(kind.memory_mib - memory_mib))

    def note(self, drawn: int, jobs: int) -> str:
        """Return a note for the user: how many of the jobs have drawn values."""
        which = "all jobs" if drawn == jobs else f"{drawn} of {jobs} jobs"
        return (
            f"memory or SM activity of {which} is not in the trace; it is drawn from "
            f"{len(self.kinds)} typical kinds of jobs by seed {self.seed} (see --fill)"
        )


def read_fill(lines: Iterable[str], source: str, seed: int = 0) -> Fill:
    """Read a user's table: CSV with `memory_mib,smact`, optionally `share,family,batch_size`.

    Raises `BadFile`.
    """
    table = read_table(lines, source)
    memory, smact = table.need([["memory_mib"], ["smact"]])
    share, family, batch = table.at("share"), table.at("family"), table.at("batch_size")

    def kind(line: int, cells: list[str]) -> Typical:
        return Typical(
            1.0 if share is None else number(cells[share], "share", 0, 1e9, above=True),
            number(cells[memory], "memory_mib", 0, MAX_MIB, above=True),
            number(cells[smact], "smact", 0, 1),
            None if family is None else family_of(cells[family].strip()),
            whole(cells[batch], "batch_size", 1, 10**9)
            if batch is not None and cells[batch].strip()
            else None,
        )

    kinds = table.each(kind)
    if not kinds:
        raise BadFile(f"{source}: holds no kind of job; add rows below the first line")
    return Fill(tuple(kinds), seed)


def fraction(seed: int, place: int) -> float:
    """Return a pseudo-random number in [0, 1) (splitmix64, Steele et al. 2014)."""
    z = (seed * 0x9E3779B97F4A7C15 + (place + 1) * 0xD1342543DE82EF95) & _64_BITS
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _64_BITS
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _64_BITS
    return ((z ^ (z >> 31)) >> 11) / (1 << 53)


# ------------------------------------------------------------------
# Deal the jobs of a trace to users: a published trace often names none.


MOST_USERS = 1000
_DEALT = 4 << 40
"""Places of `fraction`, so that this draw is independent of the others of a seed."""


def dealt(jobs: Sequence[TraceJob], users: int, seed: int = 0) -> tuple[TraceJob, ...]:
    """Return the jobs with the users `user1`, `user2`, ..., so many at most, drawn by the seed.

    Shares are unequal as those of a group: the second has half of the first's, the third a
    third, and so on. All jobs of one name are of one user, who runs that program.
    """
    sums = list(accumulate(1.0 / number for number in range(1, users + 1)))
    of_name: dict[str, str] = {}
    found = []
    for job in jobs:
        if job.name not in of_name:
            drawn = fraction(seed, _DEALT + len(of_name)) * sums[-1]
            of_name[job.name] = f"user{min(bisect_right(sums, drawn), users - 1) + 1}"
        found.append(replace(job, user=of_name[job.name]))
    return tuple(found)

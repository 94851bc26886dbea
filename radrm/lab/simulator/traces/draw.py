"""Fill in what a trace lacks of a job, from a table of typical jobs.

The draw depends only on the seed and the job's place in the source. So the trace is the same
for every policy and every seed of the simulation.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate

from msgspec import Struct

from radrm.errors import BadFile, UsageError
from radrm.interference.model import FAMILIES
from radrm.lab.simulator.traces.job import TraceJob
from radrm.lab.simulator.traces.table import Table, read_table, shown
from radrm.lab.simulator.traces.trace import (
    MAX_MIB,
    NEEDED,
    Trace,
    arranged,
    number,
    row_reader,
    whole,
)
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
    kinds = []
    for line, cells in table.rows:
        try:
            kinds.append(
                Typical(
                    1.0 if share is None else number(cells[share], "share", 0, 1e9, above=True),
                    number(cells[memory], "memory_mib", 0, MAX_MIB, above=True),
                    number(cells[smact], "smact", 0, 1),
                    None if family is None else _family(cells[family].strip()),
                    whole(cells[batch], "batch_size", 1, 10**9)
                    if batch is not None and cells[batch].strip()
                    else None,
                )
            )
        except ValueError as error:
            table.errors.add(line, str(error))
    table.errors.raise_any()
    if not kinds:
        raise BadFile(f"{source}: holds no kind of job; add rows below the first line")
    return Fill(tuple(kinds), seed)


def _family(word: str) -> str | None:
    if word and word not in FAMILIES:
        raise ValueError(f"family {shown(word)} is not one of {', '.join(FAMILIES)}")
    return word or None


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


# ------------------------------------------------------------------
# Draw a trace: arrival times of a window of another trace, and jobs of a table of kinds.
#
# The RAD-RM thesis made its traces so (section 6.3.2): the submissions of a part of the Philly
# jobs in a window, and its own models, 65 % light, 27 % medium and 8 % large in one trace, 83 %
# medium and 17 % large in the other. The draw depends only on its arguments.


_CLASS, _SHARE = "class", "share"
_MOST_CLASSES = 100
_THINNED, _ORDERED, _CHOSEN = 1 << 40, 2 << 40, 3 << 40
"""Places of `fraction`, so that the three draws of a seed are independent."""


class Kind(Struct, frozen=True):
    """A job that may be drawn. `share`: its frequency relative to the others of its class."""

    job: TraceJob
    share: float = 1.0
    of_class: str = ""


def read_kinds(lines: Iterable[str], source: str) -> tuple[Kind, ...]:
    """Read a table of kinds: a trace's columns but `submit_s`, and optionally `class,share`.

    So a trace is a table, too. Raises `BadFile`.
    """
    table = read_table(lines, source)
    table.need([[name] for name in NEEDED[1:]])
    of_class, share = table.at(_CLASS), table.at(_SHARE)
    whole = Table(source, (*table.names, "submit_s"), table.errors, table.rows)
    made = row_reader(whole if table.at("submit_s") is None else table)
    kinds = []
    for line, cells in table.rows:
        try:
            kinds.append(
                Kind(
                    made(line, [*cells, "0"]),
                    1.0 if share is None else number(cells[share], _SHARE, 0, 1e9),
                    "" if of_class is None else cells[of_class].strip(),
                )
            )
        except ValueError as error:
            table.errors.add(line, str(error))
    table.errors.raise_any()
    if not sum(kind.share for kind in kinds) > 0:
        raise BadFile(f"{source}: holds no kind of job; add rows below the first line")
    return tuple(kinds)


def parse_mix(text: str) -> dict[str, float]:
    """Return the share of each class, from text as `light=65,medium=27,heavy=8`.

    Raises `UsageError`.
    """
    mix: dict[str, float] = {}
    for word in text.split(","):
        name, equals, share = word.partition("=")
        try:
            if not equals or not name.strip() or name.strip() in mix or len(mix) >= _MOST_CLASSES:
                raise ValueError
            mix[name.strip()] = number(share, _SHARE, 0, 1e9)
        except ValueError:
            raise UsageError(
                f"--mix {shown(word)}: write each class once with its share, as "
                "light=65,medium=27,heavy=8"
            ) from None
    if not sum(mix.values()) > 0:
        raise UsageError(f"--mix {shown(text)}: all shares are 0")
    return mix


def arrivals(
    jobs: Sequence[TraceJob], from_s: float, length_s: float, count: int | None, seed: int
) -> tuple[list[float], int]:
    """Return the arrival times of a window, and how many the window holds.

    `count` of them are chosen, all by default. Raises `UsageError` if there are too few.
    """
    inside = [job.submit_s for job in jobs if from_s <= job.submit_s < from_s + length_s]
    wanted = len(inside) if count is None else count
    if not inside or wanted > len(inside):
        last_s = jobs[-1].submit_s
        raise UsageError(
            f"the window holds {len(inside)} jobs, {max(1, wanted)} are needed; choose another "
            f"--from or more --hours (the trace has {len(jobs)} jobs in {last_s / 3600:.1f} h)"
        )
    by_chance = sorted(range(len(inside)), key=lambda at: fraction(seed, _THINNED + at))
    return [inside[at] for at in sorted(by_chance[:wanted])], len(inside)


def make_trace(
    times_s: Sequence[float], kinds: Sequence[Kind], mix: Mapping[str, float] | None, seed: int
) -> Trace:
    """Return a trace with a job of one of the kinds at each time.

    Each class of `mix` has its exact share of the jobs, rounded; the kinds of a class are drawn
    by their shares. Without `mix` all kinds are one class. Raises `UsageError`.
    """
    if mix is None:
        kinds, mix = [replace(kind, of_class="") for kind in kinds], {"": 1.0}
    counts = _counts(mix, len(times_s))
    classes = [name for name, count in counts.items() for _ in range(count)]
    order = sorted(range(len(classes)), key=lambda at: fraction(seed, _ORDERED + at))
    pools = {name: _pool(name, kinds) for name, count in counts.items() if count}
    jobs = []
    for at, time_s in enumerate(times_s):
        pool, sums = pools[classes[order[at]]]
        chosen = bisect_right(sums, fraction(seed, _CHOSEN + at) * sums[-1])
        kind = pool[min(chosen, len(pool) - 1)]
        jobs.append(replace(kind.job, submit_s=time_s, due_s=None, line=at + 2))
    notes = (_counted(counts),) if "" not in mix else ()
    return Trace(arranged(jobs, "the drawn trace").jobs, notes)


def _counts(mix: Mapping[str, float], jobs: int) -> dict[str, int]:
    """Return the number of jobs of each class, by the largest remainder."""
    total = sum(mix.values())
    exact = {name: jobs * share / total for name, share in mix.items()}
    counts = {name: int(part) for name, part in exact.items()}
    by_rest = sorted(mix, key=lambda name: counts[name] - exact[name])
    for name in by_rest[: jobs - sum(counts.values())]:
        counts[name] += 1
    return counts


def _pool(name: str, kinds: Sequence[Kind]) -> tuple[list[Kind], list[float]]:
    """Return the kinds of a class that may be drawn, and the sums of their shares."""
    pool = [kind for kind in kinds if kind.of_class == name and kind.share > 0]
    if not pool:
        known = sorted({kind.of_class for kind in kinds if kind.share > 0} - {""})
        there = f"there are: {', '.join(known)}" if known else f"it has no column {_CLASS}"
        raise UsageError(f"--mix: the table has no kind of class {shown(name)}; {there}")
    return pool, list(accumulate(kind.share for kind in pool))


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items())

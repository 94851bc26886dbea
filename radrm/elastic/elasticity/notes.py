"""What the planner has measured of one job: its speed at each size, and what a change costs.

A *setting* of a job is its number of workers and the CPUs of each. The speed of a setting is the
mean from the first report under it until the last one: the reports before belong to the earlier
setting, and the time between the two is what the change has cost.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any

from msgspec import Struct, convert, field, to_builtins

from radrm.rules import Attempt, Job, Progress, Role

# ------------------------------------------------------------------
# The seconds of a step at each number of workers, fitted to what was measured.
#
#     step = io + compute / n + sync * (n - 1)
#
# `io` waits for data, `compute` divides among n workers, and `sync` is what each further worker
# adds by exchanging gradients. The global batch is the same at every size, so steps per second is
# speed.


_SMALL = 1e-9


class Scaling(Struct, frozen=True):
    """The parts of a step's time, in seconds; none is negative, and `compute_s` is above zero."""

    io_s: float
    compute_s: float
    sync_s: float

    def step_s(self, workers: int) -> float:
        """Return the seconds of a step with so many workers (1 or more)."""
        return self.io_s + self.compute_s / workers + self.sync_s * (workers - 1)

    def gain(self, workers: int, more: int) -> float:
        """Return which part of `more` workers becomes speed: 1.0 is as good as the present ones."""
        before, after = self.step_s(workers), self.step_s(workers + more)
        return (before / after - 1.0) * workers / more


def fit(step_s: Mapping[int, float], data_wait: float | None = None) -> Scaling | None:
    """Return the scaling that fits these step times, by number of workers; None without any.

    `data_wait` (0..1) is the part of a step that waited for data, at the largest of these sizes.

    One size says nothing about the exchange of gradients: it counts as free, which a second size
    corrects. With two sizes `io` is what the job says, and `sync` follows. With three or more, all
    parts are the least squares of relative errors, none below zero.
    """
    known = {n: seconds for n, seconds in step_s.items() if n >= 1 and seconds > 0}
    if not known:
        return None
    largest = max(known)
    io_s = known[largest] * min(max(data_wait or 0.0, 0.0), 0.95)
    if len(known) == 1:
        return Scaling(io_s, (known[largest] - io_s) * largest, 0.0)
    if len(known) == 2:
        left = {n: seconds - io_s for n, seconds in known.items()}
        if min(left.values()) > 0:
            found = _best(left, (("compute",), ("compute", "sync")))
            if found is not None and found[0] <= _SMALL:
                return Scaling(io_s + found[1].io_s, found[1].compute_s, found[1].sync_s)
    subsets = [
        ("compute", *others)
        for size in range(min(len(known), 3))
        for others in combinations(("io", "sync"), size)
    ]
    found = _best(known, subsets)
    return None if found is None else found[1]


def _best(
    step_s: Mapping[int, float], subsets: Iterable[Sequence[str]]
) -> tuple[float, Scaling] | None:
    """Return the least sum of squared relative errors, and its scaling, over sets of parts.

    The least squares with bounds at zero are plain ones of the parts that are above zero there.
    """
    found: tuple[float, Scaling] | None = None
    for parts in subsets:
        values = _least_squares(step_s, parts)
        if values is None or min(values) < 0 or values[parts.index("compute")] <= 0:
            continue
        named = dict(zip(parts, values, strict=True))
        scaling = Scaling(named.get("io", 0.0), named["compute"], named.get("sync", 0.0))
        error = sum((scaling.step_s(n) / s - 1.0) ** 2 for n, s in step_s.items())
        if found is None or error < found[0] - _SMALL:
            found = error, scaling
    return found


def _row(workers: int, parts: Sequence[str]) -> list[float]:
    of_part = {"io": 1.0, "compute": 1.0 / workers, "sync": float(workers - 1)}
    return [of_part[part] for part in parts]


def _least_squares(step_s: Mapping[int, float], parts: Sequence[str]) -> list[float] | None:
    """Return the parts with the least squared relative errors; None if they are not determined."""
    rows = [[cell / s for cell in _row(n, parts)] for n, s in step_s.items()]
    size = len(parts)
    matrix = [[sum(r[i] * r[j] for r in rows) for j in range(size)] for i in range(size)]
    right = [sum(r[i] for r in rows) for i in range(size)]
    for at in range(size):  # Gauss, with the largest pivot
        pivot = max(range(at, size), key=lambda i: abs(matrix[i][at]))
        if abs(matrix[pivot][at]) < 1e-12 * max(1.0, abs(matrix[0][0])):
            return None
        matrix[at], matrix[pivot] = matrix[pivot], matrix[at]
        right[at], right[pivot] = right[pivot], right[at]
        for i in range(at + 1, size):
            times = matrix[i][at] / matrix[at][at]
            right[i] -= times * right[at]
            matrix[i] = [a - times * b for a, b in zip(matrix[i], matrix[at], strict=True)]
    values = [0.0] * size
    for at in reversed(range(size)):
        rest = sum(matrix[at][j] * values[j] for j in range(at + 1, size))
        values[at] = (right[at] - rest) / matrix[at][at]
    return values


GPUS, CPUS = "GPUs", "CPUs"
FIRST_COST_S = 30.0
"""What a change costs until one was measured: a guess, above what a start of PyTorch takes."""
_MOST_SIZES = 64


class Setting(Struct, frozen=True):
    """A job's number of workers, and the CPUs of each of them; None: no limit."""

    workers: int
    cpus: float | None = None


def elastic_role(job: Job) -> Role | None:
    """Return the role of a job with GPUs whose tasks, or their CPUs, can become more; else None."""
    for role in job.spec.roles:
        more = role.count_max > role.count_min or role.needs.cpus_max is not None
        if role.needs.gpus and more:
            return role
    return None


def setting_of(attempt: Attempt, role: Role) -> Setting:
    mine = [share for share in attempt.placement.shares if share.role == role.name]
    cpus = [share.cpus for share in mine if share.cpus is not None]
    return Setting(len({share.task for share in mine}), min(cpus, default=None))


class Note(Struct):
    """What is known of one job. Times are boot-time seconds."""

    workers: int = 0
    cpus: float | None = None
    serial: int = 0
    since_s: float = 0.0
    """When the present setting began."""
    first: tuple[float, float] | None = None
    """The time and the step of the first report under the present setting."""
    last: tuple[float, float] | None = None
    """The same of the last report."""
    sizes: dict[int, float] = field(default_factory=dict)
    """The seconds of a step by the number of workers, with the present CPUs."""
    kind: str = ""
    """The kind of the GPUs on which these were measured."""
    changed: bool = False
    """The first report under the present setting tells what lay between the two."""
    gap: tuple[float, float] | None = None
    """The seconds and the steps between the last report under the setting before and the first
    under this one."""
    cost_s: float | None = None
    """What the last change has cost: the seconds of the gap in which no step was done."""
    trial: tuple[str, float, float, float] | None = None
    """A change that must prove itself: of what, how many before, the seconds of a step then, and
    the part of it that waited for data."""
    most_workers: int | None = None
    most_cpus: float | None = None
    """More than these was tried, and was not worth it."""
    grown: list[tuple[float, int]] = field(default_factory=list)
    """When it grew, and to how many workers."""
    why: tuple[str, str, float | None, float | None] | None = None
    """Why it does not grow: a refusal's rule, message, needed and available."""

    @classmethod
    def from_plain(cls, kept: dict[str, Any]) -> Note:
        return convert(kept, cls, str_keys=True)

    def plain(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        found: dict[str, Any] = to_builtins(self, str_keys=True)
        return found

    # ------------------------------------------------------------- measuring

    def look(self, job: Job, attempt: Attempt, role: Role, kind: str, now_s: float) -> None:
        """Take in the present setting and the last report of a running job."""
        found = setting_of(attempt, role)
        if kind != self.kind:
            self.kind, self.sizes, self.trial = kind, {}, None
        if found.cpus != self.cpus:
            self.sizes = {}  # measured with other CPUs
        resized = (attempt.serial, found.workers) != (self.serial, self.workers)
        if resized or found.cpus != self.cpus:
            self.changed = resized and self.serial != 0 and self.last is not None
            self.serial, self.workers, self.cpus = attempt.serial, found.workers, found.cpus
            self.since_s, self.first, self.gap = now_s, None, None
            self.grown = [(at_s, n) for at_s, n in self.grown if n <= self.workers]
        self._report(job.progress, attempt)

    def _report(self, progress: Progress | None, attempt: Attempt) -> None:
        if (
            progress is None
            or progress.step is None
            or progress.measured.boot != attempt.launched.boot
        ):
            return
        at_s, step = progress.measured.boot_s, progress.step
        if at_s < self.since_s:
            self.last = at_s, step
            return
        if self.first is None or step < self.first[1]:
            if self.changed and self.last is not None and self.first is None:
                self.gap = at_s - self.last[0], step - self.last[1]
            self.first, self.changed = (at_s, step), False
        self.last = at_s, step
        passed_s, steps = at_s - self.first[0], step - self.first[1]
        if passed_s > 0 and steps > 0:
            if len(self.sizes) >= _MOST_SIZES and self.workers not in self.sizes:
                self.sizes.pop(next(iter(self.sizes)))
            self.sizes[self.workers] = passed_s / steps
            if self.gap is not None:
                gap_s, gap_steps = self.gap
                self.cost_s = max(0.0, gap_s - gap_steps * self.sizes[self.workers])

    def measured_s(self, now_s: float) -> float:
        """Return for how long the present setting has been measured."""
        return 0.0 if self.first is None else max(0.0, now_s - self.first[0])

    def change_s(self, job: Job) -> float:
        """Return what a change costs, in seconds without a step."""
        if self.cost_s is not None:
            return self.cost_s
        return FIRST_COST_S + (job.save_s or job.spec.checkpoint.cost_s or 0.0)

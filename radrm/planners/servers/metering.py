"""What a job's tasks use and how fast it trains, from the sums that it reports.

A count begins with the first reports after a change: those from before are of other processes.
"""

from __future__ import annotations

from dataclasses import dataclass

from radrm.core.records import Attempt, HostUse, Job, Progress, TaskUse
from radrm.planners.servers.layout import SERVER, WORKER, Layout, numbers_of


@dataclass(frozen=True, slots=True)
class Rates:
    """What a job did in `seconds`, in which it made `steps`.

    `used` has the mean CPUs that each task used. `speed` is in steps per second.
    """

    used: Layout
    speed: float
    steps: float
    seconds: float


@dataclass(slots=True)
class Meter:
    """Where a count began, in fields that plain JSON can hold. `use_at_s` None: it has not.

    Times are seconds since boot. `cpu_s` has the CPU seconds of each server and of each worker.
    """

    use_at_s: float | None = None
    cpu_s: list[list[float]] | None = None
    step_at_s: float = 0.0
    step: float = 0.0

    def begin(self, job: Job, attempt: Attempt, after_s: float) -> bool:
        """Begin a count with the last reports, if both came after `after_s`."""
        use, progress = attempt.host_use, job.progress
        sums = cpu_sums(attempt)
        if use is None or progress is None or progress.step is None or sums is None:
            return False
        if use.tasks_measured.boot_s <= after_s or progress.measured.boot_s <= after_s:
            return False
        self._set(use, progress, sums)
        return True

    def _set(self, use: HostUse, progress: Progress, sums: list[list[float]]) -> None:
        self.use_at_s, self.cpu_s = use.tasks_measured.boot_s, sums
        self.step_at_s, self.step = progress.measured.boot_s, progress.step or 0.0

    def stop(self) -> None:
        """Forget the count."""
        self.use_at_s = self.cpu_s = None

    def rates(self, job: Job, attempt: Attempt) -> Rates | None:
        """Return the rates since the count began; None if it has not, or nothing came since.

        A sum that has fallen is of a task that was started again; then a new count begins.
        """
        use, progress, sums = attempt.host_use, job.progress, cpu_sums(attempt)
        if self.use_at_s is None or self.cpu_s is None or use is None or sums is None:
            return None
        if progress is None or progress.step is None:
            return None
        use_s, step_s = (
            use.tasks_measured.boot_s - self.use_at_s,
            progress.measured.boot_s - self.step_at_s,
        )
        if use_s <= 0 or step_s <= 0:
            return None
        used = [
            [(now - was) / use_s for now, was in zip(role, before, strict=False)]
            for role, before in zip(sums, self.cpu_s, strict=True)
        ]
        same = [len(role) for role in sums] == [len(role) for role in self.cpu_s]
        steps = progress.step - self.step
        if not same or steps < 0 or any(each < 0 for role in used for each in role):
            self._set(use, progress, sums)
            return None
        layout = Layout(tuple(used[0]), tuple(used[1]))
        return Rates(layout, steps / step_s, steps, min(use_s, step_s))


def cpu_sums(attempt: Attempt) -> list[list[float]] | None:
    """Return the CPU seconds of each server and of each worker; None if one is not known."""
    known = {(task.role, task.number): task.cpu_s for task in _tasks(attempt)}
    found: list[list[float]] = []
    for role in (SERVER, WORKER):
        sums = [known.get((role, number)) for number in numbers_of(attempt.placement, role)]
        some = [each for each in sums if each is not None]
        if len(some) < len(sums):
            return None
        found.append(some)
    return found


def networks(attempt: Attempt) -> list[float | None]:
    """Return the part of the network's speed (0..1) that each server uses; None if unknown."""
    known = {(task.role, task.number): task.network for task in _tasks(attempt)}
    return [known.get((SERVER, number)) for number in numbers_of(attempt.placement, SERVER)]


def _tasks(attempt: Attempt) -> tuple[TaskUse, ...]:
    return attempt.host_use.tasks if attempt.host_use is not None else ()

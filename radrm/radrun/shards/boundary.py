"""At which step all workers pause together: to save, or to stop. Pure.

Theory of operation. The server pushes "hold" to every worker. A worker reports each of its steps
and says whether it had seen the hold before; one that has waits at that step for an answer. One
that has not goes on, so it will report at the next step.

In **lockstep** (synchronous training) no worker ends step k+1 before all have begun it: they need
each other's gradients. So workers must not wait at different steps. The step at which all pause
is at least `k` for one that waits at k, and `k + 1` for one whose last report was k. The largest
of these is known to be safe: every worker that waits before it is told to go on (`release`), and
the others reach it without help of those that wait there. It grows by one at most, by a report
that was under way when the hold was sent.

**Out of lockstep** (asynchronous training) each worker pauses where it is.
"""

from __future__ import annotations

from collections.abc import Iterable

from radrm.radrun.shards.book import Worker


class Boundary:
    """One pause."""

    def __init__(self, lockstep: bool) -> None:
        self._lockstep = lockstep
        self._passed: dict[Worker, int] = {}
        self.waiting: dict[Worker, int] = {}
        """The workers that wait, and at which step."""

    def expect(self, worker: Worker, passed: int) -> None:
        """Wait for this worker too, which has reported `passed` steps."""
        self._passed.setdefault(worker, passed)

    def report(self, worker: Worker, step: int, seen: bool) -> list[Worker]:
        """Note a worker's report. Return the workers that have to go on by one step."""
        self._passed.setdefault(worker, step)
        self._passed[worker] = max(step, self._passed[worker])
        if seen:
            self.waiting[worker] = step
        return self.release()

    def release(self) -> list[Worker]:
        """Take out and return the workers that wait before the step at which all pause."""
        if not self._lockstep:
            return []
        target = self.step
        behind = [worker for worker, step in self.waiting.items() if step < target]
        for worker in behind:
            del self.waiting[worker]
        return behind

    def forget(self, worker: Worker) -> None:
        """A worker is gone: the others do not wait for it."""
        self._passed.pop(worker, None)
        self.waiting.pop(worker, None)

    @property
    def step(self) -> int:
        """The step at which all pause, as far as it is known."""
        steps = [
            step if worker in self.waiting else step + 1 for worker, step in self._passed.items()
        ]
        return max(steps, default=0)

    def complete(self, idle: Iterable[Worker] = ()) -> bool:
        """Whether every worker waits, or is one of `idle`, which do no step."""
        return all(worker in self.waiting for worker in self._passed.keys() - set(idle))

"""The loop of the published prototype of RAD-RM, to reproduce its tables.

It decides from measurements, without reservations. One thread repeats a round:

1. Every 5 s it looks for tasks that died of GPU out-of-memory, and for waiting tasks.
2. If a task waits, it lets the readings settle for 30 s. Then the task gets an idle device,
   with any policy.
3. If no device is idle, it waits 30 s more. Then the collocation policy decides.

A round places one task at most, the head of a queue. The recovery queue comes first; its
tasks want idle devices, and no task is collocated while one of them waits.

The monitor reads "every 1 seconds for 90-second time window" (thesis, sections 6.2.1 and
6.2.2): the loop sees the last complete window, until the next one is complete. SM activity is
the window's mean, memory the window's last reading. The first window begins with the loop. The
thesis gives no age of readings, and none is fitted.

The policies are those of `radrm.policies`; only their input differs.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from radrm.core.records import Instant, Job, JobSpec, Needs, Role
from radrm.core.rules import Ask, Policy
from radrm.core.view import Offer
from radrm.core.words import Collocation, Outcome
from radrm.lab.simulator.courses import Task
from radrm.lab.simulator.history import History
from radrm.lab.simulator.loop import Arrival, in_order
from radrm.lab.simulator.world import World, WorldEvent
from radrm.simulated.spec import SimulatedDevice


class Pace(Struct, frozen=True):
    """The prototype's times in seconds."""

    scan_s: float = 5.0
    settle_s: float = 30.0
    window_s: float = 90.0


PACE = Pace()

_MOST_DEATHS = 20
"""After this many deaths a task fails. The prototype would retry it forever on a device that is
too small."""


class PublishedLoop:
    """One server from the first arrival to the last end."""

    def __init__(
        self,
        devices: Sequence[SimulatedDevice],
        mps: bool,
        policy: Policy,
        tasks: Sequence[Task],
        history: History,
        pace: Pace = PACE,
    ) -> None:
        self._world = World(devices)
        self._devices = [simulated.device for simulated in devices]
        self._mps = mps
        self._policy = policy
        self._policy_state: Any = None
        self._tasks = tasks
        self._history = history
        self._pace = pace
        self._main: deque[int] = deque()
        self._recovery: deque[int] = deque()
        self._crashed: list[int] = []
        self._deaths: Counter[int] = Counter()
        self._coming = 0
        self._alive = 0

    @property
    def world(self) -> World:
        return self._world

    def run(self) -> None:
        """Run until every task has ended."""
        for at, task in enumerate(self._tasks):
            never = self._why_impossible(task)
            if never is not None:
                self._history.job_ended(at, None, never)
                continue
            self._coming += 1
            self._world.at(task.job.submit_s, Arrival(at))
        while self._coming or self._alive or self._main or self._recovery or self._crashed:
            self._round()

    def _why_impossible(self, task: Task) -> str | None:
        if task.job.gpus > len(self._devices):
            return f"it needs {task.job.gpus} GPUs, the server has {len(self._devices)}"
        sizes = sorted((gpu.room_mib for gpu in self._world.gpus), reverse=True)
        if task.job.memory_mib > sizes[task.job.gpus - 1]:
            return (
                f"it needs {task.job.memory_mib:.0f} MiB on each of {task.job.gpus} GPU(s); "
                f"the largest here have {sizes[0]} MiB free"
            )
        return None

    # ------------------------------------------------------------- the loop

    def _round(self) -> None:
        self._wait(self._pace.scan_s)
        self._scan()
        if not self._main and not self._recovery:
            if not self._crashed:
                self._sleep()
            return
        self._wait(self._pace.settle_s)
        self._scan()
        if self._place_idle() or self._recovery or self._policy.whole_device:
            return
        self._wait(self._pace.settle_s)
        self._scan()
        if not self._recovery:
            self._collocate()

    def _sleep(self) -> None:
        """Skip the rounds before the next event: they would find nothing."""
        next_s = self._world.next_s
        if next_s is not None:
            left = int((next_s - self._world.now_s) / self._pace.scan_s)
            self._world.advance_to(self._world.now_s + left * self._pace.scan_s)

    def _wait(self, seconds: float) -> None:
        """Wait, and process the events that happen meanwhile."""
        until_s = self._world.now_s + seconds
        for _, happened in in_order([self._world], until_s):
            self._on(happened)
        self._world.advance_to(until_s)

    def _on(self, happened: object) -> None:
        if isinstance(happened, Arrival):
            self._coming -= 1
            self._main.append(happened.job)
        elif isinstance(happened, WorldEvent) and happened.ended:
            attempt, now_s = happened.attempt, self._world.now_s
            self._alive -= 1
            if happened.missing_mib is None:
                self._history.attempt_ended(attempt, now_s, Outcome.COMPLETED)
                self._history.job_ended(attempt.job, now_s, None)
            else:
                self._history.attempt_ended(attempt, now_s, Outcome.OOM)
                self._crashed.append(attempt.job)

    def _scan(self) -> None:
        """Move the tasks that died to the recovery queue, as a scan of their error files does."""
        for job in self._crashed:
            self._deaths[job] += 1
            if self._deaths[job] < _MOST_DEATHS:
                self._recovery.append(job)
            else:
                why = f"it ran out of GPU memory {_MOST_DEATHS} times"
                self._history.job_ended(job, None, why)
        self._crashed.clear()

    # ------------------------------------------------------------- placements

    def _place_idle(self) -> bool:
        queue = self._recovery or self._main
        wanted = self._tasks[queue[0]].job.gpus
        idle = [at for at, gpu in enumerate(self._world.gpus) if not gpu.attempts]
        if len(idle) < wanted:
            return False
        self._start(queue.popleft(), tuple(idle[:wanted]))
        return True

    def _collocate(self) -> None:
        task = self._tasks[self._main[0]]
        need = task.estimates[0].upper if task.estimates else None
        ask = Ask(
            job=_record(self._main[0], task, self._world.now_s),
            gpus=task.job.gpus,
            need_mib=None if need is None else int(need),
        )
        eligible = [
            offer
            for at in range(len(self._devices))
            if self._policy.refuse(ask, offer := self._offer(at)) is None
        ]
        if len(eligible) < ask.gpus:
            return
        chosen, self._policy_state = self._policy.choose(ask, eligible, self._policy_state)
        self._start(self._main.popleft(), tuple(offer.device.index for offer in chosen))

    def _offer(self, at: int) -> Offer:
        """Return a device as the last complete window shows it. Without one it looks idle."""
        gpu, window_s = self._world.gpus[at], self._pace.window_s
        end_s = self._world.now_s // window_s * window_s
        smact = gpu.mean_smact(end_s - window_s, end_s) if end_s > 0 else 0.0
        last = bisect_right(gpu.steps, end_s, key=lambda step: step.at_s) - 1
        return Offer(
            device=self._devices[at],
            mode=Collocation.MPS if self._mps else Collocation.TIMESLICE,
            idle=False,
            free_mib=int(gpu.capacity_mib - gpu.steps[last].memory_mib),
            smact=smact,
            smact_refusal=None,
            job_ids=tuple(attempt.job + 1 for attempt in gpu.attempts),
            refusal=None,
        )

    def _start(self, job: int, devices: tuple[int, ...]) -> None:
        mode = Collocation.MPS if self._mps else Collocation.TIMESLICE
        if self._policy.whole_device:
            mode = Collocation.EXCLUSIVE
        course = self._tasks[job].course
        attempt = self._world.launch(job, course, devices, mode, mps=self._mps)
        self._alive += 1
        self._history.attempt_started(attempt, 0)


def _record(position: int, task: Task, now_s: float) -> Job:
    job = task.job
    spec = JobSpec(name=job.name, user=job.user, uid=0, roles=(Role(needs=Needs(gpus=job.gpus)),))
    at = Instant(now_s, now_s)
    return Job(
        id=position + 1,
        ticket=str(position + 1),
        spec=spec,
        submitted=at,
        estimates=task.estimates,
    )

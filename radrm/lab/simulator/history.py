"""Collect attempts and ends of jobs during a run, and make its `Run`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from radrm.core.words import Outcome
from radrm.lab.simulator.run import AttemptRun, DeviceRun, JobRun, Run
from radrm.lab.simulator.traces.job import TraceJob
from radrm.lab.simulator.world import SimulatedAttempt


class History:
    """The attempts and ends of a trace's jobs. A job is known by its position in the trace.

    `on_step` is called when a job is submitted, and when it has ended."""

    def __init__(
        self, jobs: Sequence[TraceJob], on_step: Callable[[], object] = lambda: None
    ) -> None:
        self._jobs, self._on_step = jobs, on_step
        self._attempts: list[list[AttemptRun]] = [[] for _ in jobs]
        self._ended: dict[int, float] = {}
        self._reasons: dict[int, str] = {}
        self._reserved: dict[SimulatedAttempt, int] = {}
        self._sizes: dict[SimulatedAttempt, list[tuple[float, tuple[int, ...]]]] = {}
        self._decisions: list[tuple[int, tuple[int, ...]]] = []
        self._ooms = 0
        self._last_s = 0.0

    def job_submitted(self) -> None:
        self._on_step()

    def attempt_started(self, attempt: SimulatedAttempt, reserved_mib: int) -> None:
        self._decisions.append((attempt.job, attempt.devices))
        self._reserved[attempt] = reserved_mib

    def attempt_resized(
        self, attempt: SimulatedAttempt, before: tuple[int, ...], now_s: float
    ) -> None:
        """Record that an attempt has its present devices from now on, in place of those before."""
        sizes = self._sizes.setdefault(attempt, [(attempt.started_s, before)])
        sizes.append((now_s, attempt.devices))

    def attempt_ended(self, attempt: SimulatedAttempt, now_s: float, outcome: Outcome) -> None:
        """Record an attempt that has ended now, with its outcome."""
        self._ooms += outcome is Outcome.OOM
        self._last_s = max(self._last_s, now_s)
        completed = outcome is Outcome.COMPLETED
        done_s = attempt.course.work_s if completed else attempt.work.value
        self._attempts[attempt.job].append(
            AttemptRun(
                started_s=attempt.started_s,
                ended_s=now_s,
                devices=attempt.devices,
                outcome=outcome,
                collocation=attempt.collocation.value,
                reserved_mib=self._reserved.pop(attempt),
                solo_s=done_s - attempt.begun_s,
                begun_s=attempt.begun_s,
                sizes=tuple(self._sizes.pop(attempt, ())),
            )
        )

    def job_ended(self, job: int, ended_s: float | None, reason: str | None) -> None:
        """Record the end of a job: `ended_s` if it completed, else the reason why it did not."""
        if ended_s is not None:
            self._ended[job] = ended_s
        if reason is not None:
            self._reasons[job] = reason
        self._on_step()

    @property
    def complete(self) -> bool:
        """Whether every job has ended."""
        return len(self._ended) + len(self._reasons) >= len(self._jobs) and not self.unfinished()

    def unfinished(self) -> list[int]:
        """Return the jobs that have neither completed nor failed."""
        return [
            at for at in range(len(self._jobs)) if at not in self._ended and at not in self._reasons
        ]

    def attempts_of(self, job: int) -> Sequence[AttemptRun]:
        """Return the attempts of a job that have ended."""
        return self._attempts[job]

    def run(self, devices: tuple[DeviceRun, ...]) -> Run:
        return Run(
            jobs=tuple(
                JobRun(job, tuple(self._attempts[at]), self._ended.get(at), self._reasons.get(at))
                for at, job in enumerate(self._jobs)
            ),
            devices=devices,
            ended_s=self._last_s,
            oom_count=self._ooms,
            decisions=tuple(self._decisions),
        )

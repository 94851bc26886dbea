"""What is written down while a run goes on, and the `Run` that it becomes."""

from __future__ import annotations

from collections.abc import Sequence

from radrm.core.words import Outcome
from radrm.simulator.job import TraceJob
from radrm.simulator.run import AttemptRun, DeviceRun, JobRun, Run
from radrm.simulator.world import Lived


class History:
    """Attempts and ends of the jobs of a trace, by their positions in it."""

    def __init__(self, jobs: Sequence[TraceJob]) -> None:
        self._jobs = jobs
        self._attempts: list[list[AttemptRun]] = [[] for _ in jobs]
        self._ended: dict[int, float] = {}
        self._reasons: dict[int, str] = {}
        self._reserved: dict[Lived, int] = {}
        self._decisions: list[tuple[int, tuple[int, ...]]] = []
        self._ooms = 0
        self._last_s = 0.0

    def placed(self, attempt: Lived, reserved_mib: int) -> None:
        self._decisions.append((attempt.job, attempt.devices))
        self._reserved[attempt] = reserved_mib

    def over(self, attempt: Lived, now_s: float, outcome: Outcome) -> None:
        """An attempt has ended, so."""
        self._ooms += outcome is Outcome.OOM
        self._last_s = max(self._last_s, now_s)
        self._attempts[attempt.job].append(
            AttemptRun(
                started_s=attempt.started_s,
                ended_s=now_s,
                devices=attempt.devices,
                outcome=outcome,
                collocation=attempt.collocation.value,
                reserved_mib=self._reserved.pop(attempt),
                solo_s=attempt.course.work_s if outcome is Outcome.COMPLETED else attempt.done_s,
            )
        )

    def job_ended(self, job: int, ended_s: float | None, reason: str | None) -> None:
        """For good: well (`ended_s`), or not."""
        if ended_s is not None:
            self._ended[job] = ended_s
        if reason is not None:
            self._reasons[job] = reason

    def unfinished(self) -> list[int]:
        return [
            at for at in range(len(self._jobs)) if at not in self._ended and at not in self._reasons
        ]

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

"""A server whose attempts can change their devices and their pace while they run."""

from __future__ import annotations

from radrm.simulator.courses import Course
from radrm.simulator.reporting.cpus import CpuWorld
from radrm.simulator.world import LiveAttempt, Stage


class ElasticWorld(CpuWorld):
    """The server. An attempt keeps its work and its memory of each device when its size changes."""

    def move(
        self, attempt: LiveAttempt, devices: tuple[int, ...], pace: float, course: Course
    ) -> float | None:
        """Let an attempt that stands still go on with these devices, at this pace.

        Returns None, or the size of the request that fails: then a new device lacks the memory, and
        the attempt has ended.
        """
        gone = [at for at in attempt.devices if at not in devices]
        new = [at for at in devices if at not in attempt.devices]
        held_mib = attempt.held_mib
        self._leave(attempt, gone)
        if any(self.gpus[at].used_mib + held_mib > self.gpus[at].capacity_mib for at in new):
            attempt.devices = tuple(at for at in attempt.devices if at not in gone)
            self.end(attempt)
            return held_mib
        attempt.devices = devices
        for at in new:
            gpu = self.gpus[at]
            gpu.attempts[attempt] = None
            gpu.used_mib += held_mib
            gpu.note(self.now_s)
        self._settle_again(attempt, new)
        self.retime(attempt, pace, course)
        if attempt.computing:
            self._update_speeds([*gone, *devices])
        return None

    def retime(self, attempt: LiveAttempt, pace: float, course: Course) -> None:
        """Let an attempt compute at this pace from now on, with the demand of this course."""
        self._add_up_work(attempt)
        changes_demand = course.demand != attempt.course.demand
        attempt.pace, attempt.course = pace, course
        if attempt.computing and changes_demand:
            self._update_speeds(attempt.devices)
        speed = attempt.speed
        if speed > 0:  # its end moves, too
            self._go_at(attempt, 0.0)
            self._go_at(attempt, speed)

    def _leave(self, attempt: LiveAttempt, gone: list[int]) -> None:
        for at in gone:
            gpu = self.gpus[at]
            del gpu.attempts[attempt]
            attempt.alone.pop(at, None)
            gpu.used_mib -= attempt.held_mib
            if not gpu.attempts:
                gpu.used_mib = gpu.simulated.unmanaged_mib  # drop the rounding errors
            gpu.note(self.now_s)

    def _settle_again(self, attempt: LiveAttempt, new: list[int]) -> None:
        """Report it when the memory on new devices has been the same for long enough."""
        if new and self._settle_s is not None:
            self._push(self.now_s + self._settle_s, attempt, Stage.SETTLED, 0)

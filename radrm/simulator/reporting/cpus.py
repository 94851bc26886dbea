"""A server whose jobs share CPUs by weights and caps, as control groups do.

Theory of operation
-------------------
A job that can use `cpus` CPUs and runs at the speed that its devices allow wants that part of them.
While all wishes together fit, each is met. Else CPU time is shared in proportion to the weights; no
job gets more than it wants or than its cap, and what it leaves goes to the others. So no CPU idles
while a job without a cap wants it. A job's speed is what it gets over what it could use.

One pool serves the whole server, or each device has one (a device stands for a server then).

While a job saves its state it stands still.

Invariants: a job without `cpus` is never slowed here. Each change of a wish, a weight or a cap
shares its pool anew, and only that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from radrm.interference.model import water_level
from radrm.simulated.spec import SimulatedDevice
from radrm.simulator.world import LiveAttempt, World

SERVER = -1
"""The pool of the whole server, and of jobs without devices."""


@dataclass(slots=True)
class CpuUse:
    """One attempt's CPUs: those that it can use, its weight and cap, and what it has used."""

    wants: float | None
    pool: int
    weight: float = 1.0
    cap: float | None = None
    used_s: float = 0.0
    allowed: float = 0.0
    """The speed that its devices allow."""
    stops: int = 0
    """The reasons why it stands still now."""

    def wish(self) -> float:
        """Return the CPUs that it would use now."""
        if self.stops or self.wants is None:
            return 0.0
        wish = self.wants * self.allowed
        return wish if self.cap is None else min(wish, self.cap)


class CpuWorld(World):
    """The server with `cpus` CPUs (None: as many as jobs want), or as many for each device."""

    def __init__(
        self,
        devices: Sequence[SimulatedDevice],
        settle_s: float | None,
        cpus: float | None,
        per_device: bool = False,
    ) -> None:
        super().__init__(devices, settle_s)
        self._cpus, self._per_device = cpus, per_device
        self._uses: dict[LiveAttempt, CpuUse] = {}
        self._pools: dict[int, dict[LiveAttempt, None]] = {}

    def begin(self, attempt: LiveAttempt, wants: float | None, begun_s: float) -> None:
        """Take an attempt that was launched now. It goes on after `begun_s` of work."""
        attempt.begun_s = attempt.done_s = begun_s
        pool = attempt.devices[0] if self._per_device and attempt.devices else SERVER
        self._uses[attempt] = CpuUse(wants, pool)
        self._pools.setdefault(pool, {})[attempt] = None

    def set_shares(self, attempt: LiveAttempt, weight: float | None, cap: float | None) -> None:
        """Give an attempt this weight (None: 1) and this cap in CPUs (None: none)."""
        use = self._uses[attempt]
        use.weight, use.cap = 1.0 if weight is None else weight, cap
        if use.wants is not None:
            self._share(use.pool)

    def stand_still(self, attempt: LiveAttempt, still: bool) -> None:
        """Have an attempt stand still, or go on when nothing else holds it up."""
        use = self._uses[attempt]
        use.stops += 1 if still else -1
        if use.wants is None:
            self._go_at(attempt, 0.0 if use.stops else use.allowed)
        else:
            self._share(use.pool)

    def work_done(self, attempt: LiveAttempt) -> float:
        """Return the part of all its work (0..1) that an attempt has done by now."""
        self._add_up_work(attempt)
        return min(1.0, attempt.done_s / attempt.course.work_s)

    def cpu_s(self, attempt: LiveAttempt) -> float | None:
        """Return the CPU seconds that an attempt has used by now; None if it counts none."""
        self._add_up_work(attempt)
        use = self._uses[attempt]
        return None if use.wants is None else use.used_s

    # ------------------------------------------------------------- speeds

    def end(self, attempt: LiveAttempt) -> None:
        self._add_up_work(attempt)
        use = self._uses.pop(attempt)
        del self._pools[use.pool][attempt]
        super().end(attempt)
        if use.wants is not None:
            self._share(use.pool)

    def _add_up_work(self, attempt: LiveAttempt) -> None:
        use = self._uses.get(attempt)
        if use is not None and use.wants is not None:
            use.used_s += use.wants * attempt.speed * (self.now_s - attempt.since_s)
        super()._add_up_work(attempt)

    def _set_speed(self, attempt: LiveAttempt, speed: float) -> None:
        """Let an attempt run at the speed that its devices allow, as far as it gets CPUs."""
        use = self._uses[attempt]
        use.allowed = speed
        if use.wants is not None:
            self._share(use.pool)
        elif not use.stops:
            self._go_at(attempt, speed)

    def _share(self, pool: int) -> None:
        """Share the CPUs of a pool anew."""
        here = [(a, self._uses[a]) for a in self._pools[pool]]
        wishing = [(a, u) for a, u in here if u.wish() > 0]
        wishes = [use.wish() for _, use in wishing]
        level = None
        if self._cpus is not None and sum(wishes) > self._cpus:
            level = water_level(self._cpus, wishes, [use.weight for _, use in wishing])
        gets = {
            attempt: wish if level is None else min(wish, level * use.weight)
            for (attempt, use), wish in zip(wishing, wishes, strict=True)
        }
        for attempt, use in here:
            if use.wants is not None and attempt.computing:
                self._go_at(attempt, gets.get(attempt, 0.0) / use.wants)

    def _go_at(self, attempt: LiveAttempt, speed: float) -> None:
        if speed == attempt.speed:
            return
        super()._set_speed(attempt, speed)
        for at in attempt.devices:
            self._note_activity(at)

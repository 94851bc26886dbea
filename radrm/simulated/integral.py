"""The one integrator of everything simulated: what has grown, and the rate at which it grows.

Theory of operation
-------------------
Work, CPU time, activity and energy all grow at rates that are constant between two changes: a job
starts or ends, its size or its CPUs change, a device fails. So a rate times the time since the last
change is exact, there is no time step, and the moment at which a total is reached is known until
the next change. A change of a rate has a time; what the old rate gave until then is added first.

`simulator.world` (GPU jobs), `simulator.elastic.training` (jobs of several roles) and
`simulated.model` (the driver of the daemon's simulated GPUs, in real time) differ in which rates
there are, and in nothing that follows from them.
"""

from __future__ import annotations

from msgspec import Struct


class Integral(Struct):
    """What has grown by `since_s`, and its growth per second from then on.

    Times are seconds on any clock that never goes back.
    """

    value: float = 0.0
    rate: float = 0.0
    since_s: float = 0.0

    def at(self, now_s: float) -> float:
        """Return the value at a time since the last change."""
        return self.value + self.rate * (now_s - self.since_s)

    def add_up(self, now_s: float) -> float:
        """Let `value` be that of now, and return it."""
        self.value += self.rate * (now_s - self.since_s)
        self.since_s = now_s
        return self.value

    def go_at(self, rate: float, now_s: float) -> None:
        """Let it grow at this rate from now on."""
        self.add_up(now_s)
        self.rate = rate

    def reaches_s(self, total: float) -> float | None:
        """Return when the value is `total`, at this rate; None: never, since nothing grows."""
        if self.rate <= 0:
            return None
        return self.since_s + max(0.0, total - self.value) / self.rate

"""Whether Slurm's controller is silent: it may then start the job again on another node."""

from __future__ import annotations

import time

from radrm.core.units import show_seconds
from radrm.errors import RadrmError
from radrm.host.slurm import is_up, run
from radrm.slurm.step.attempt import Gone

_ASKS = 4
"""How often the controller is asked within the time after which it counts as silent."""
_LEAST_S, _DEFAULT_S = 4.0, 300.0
"""The shortest time that is waited, and Slurm's default of `SlurmdTimeout`."""


class Fence:
    """Ends the job of a node that Slurm's controller has not answered for `SlurmdTimeout`."""

    def __init__(self) -> None:
        self._timeout_s = _slurmd_timeout_s()
        self.every_s = self._timeout_s / _ASKS
        self._heard_s = self._asked_s = time.monotonic()

    def look(self, now_s: float) -> Gone | None:
        """Ask the controller if that is due. Returns why the job ends, None if it does not.

        `now_s`: of the monotonic clock.
        """
        if now_s - self._asked_s < self.every_s:
            return None
        self._asked_s = now_s
        if is_up(self.every_s):
            self._heard_s = now_s
        silent_s = now_s - self._heard_s
        if silent_s < self._timeout_s:
            return None
        silent = show_seconds(silent_s)
        why = f"Slurm's controller has been silent for {silent}, and may start the job elsewhere"
        return Gone("cancelled", why)


def _slurmd_timeout_s() -> float:
    """`SlurmdTimeout` of the cluster; Slurm's default if it is not known."""
    try:
        for line in run("scontrol", "show", "config").splitlines():
            name, _, value = line.partition("=")
            if name.strip() == "SlurmdTimeout":
                return max(_LEAST_S, float(value.split()[0]))
    except (RadrmError, ValueError, IndexError):
        pass
    return _DEFAULT_S

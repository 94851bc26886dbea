"""How long something waits after an error of the machine; each time longer."""

from __future__ import annotations

from dataclasses import dataclass

SHORTEST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 60.0


@dataclass(slots=True)
class Pause:
    """The length of a pause after an error, and its end by the look's clock."""

    length_s: float = 0.0
    until_s: float = 0.0

    def grow(self, now_s: float) -> None:
        """Begin a pause, twice as long as the last one."""
        self.length_s = min(LONGEST_PAUSE_S, max(SHORTEST_PAUSE_S, 2 * self.length_s))
        self.until_s = now_s + self.length_s

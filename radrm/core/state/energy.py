"""Divide the energy of a device among the attempts on it."""

from __future__ import annotations

from collections.abc import Collection

from radrm.core.state.holding import Holding


class EnergyMeter:
    """Divides a device's energy equally, at each reading and whenever an attempt comes or goes.

    So the attempts on the device are the same over each divided interval. The energy before
    the first reading, or while readings fail, is unknown and counts for no attempt.
    """

    __slots__ = ("_until_s",)

    def __init__(self) -> None:
        self._until_s: float | None = None
        """Boot time up to which the energy is divided; None after a failed reading."""

    def interrupt(self) -> None:
        """A reading failed: the energy until the next one is unknown."""
        self._until_s = None

    def divide(self, holdings: Collection[Holding], until_s: float, power_w: float | None) -> None:
        """Divide the energy since the last call, at this power."""
        since_s, self._until_s = self._until_s, until_s
        if since_s is None:
            return
        if since_s > until_s:
            # This reading is older than a change up to which the energy is divided already.
            self._until_s = since_s
            return
        if power_w is not None:
            for holding in holdings:
                part_j = power_w * (until_s - since_s) / len(holdings)
                holding.energy_j = (holding.energy_j or 0.0) + part_j

    def divide_before_change(
        self, holdings: Collection[Holding], at_s: float, power_w: float | None
    ) -> None:
        """Divide the energy until `at_s`, when an attempt comes or goes, among those before."""
        if self._until_s is not None and at_s > self._until_s:
            self.divide(holdings, at_s, power_w)

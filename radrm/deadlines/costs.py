"""The price of energy by the local hour, and the cost of a late end.

A site's zone is a list of offsets from UTC, which the host reads once: so a rule, also one in
another process, decides alike wherever it runs. The offsets change in summer.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from datetime import datetime, timezone
from math import inf

from msgspec import Struct

from radrm.core.constraints.kinds import is_name_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from radrm.config import Config

_DAY_S = 86_400.0
_HOUR_S = 3600.0
_J_PER_KWH = 3.6e6
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


class Zone(Struct, frozen=True):
    """The site's offset from UTC: `starts` has epoch seconds, ascending, `offsets` seconds east.

    Before the first start the first offset holds, and after the last one the last.
    """

    starts: tuple[float, ...] = (0.0,)
    offsets: tuple[float, ...] = (0.0,)

    def local_s(self, wall_s: float) -> float:
        """Return the seconds of the local clock at an epoch second."""
        return wall_s + self.offsets[max(0, bisect_right(self.starts, wall_s) - 1)]

    def next_change_s(self, wall_s: float) -> float:
        """Return the epoch second at which the offset changes next; infinity without one."""
        at = bisect_right(self.starts, wall_s)
        return self.starts[at] if at < len(self.starts) else inf

    def clock(self, wall_s: float, now_s: float) -> str:
        """Return a moment as users read it: `14:20`, and `21 Nov 14:20` if that is not today."""
        then, today = (
            datetime.fromtimestamp(self.local_s(each), timezone.utc) for each in (wall_s, now_s)
        )
        day = "" if then.date() == today.date() else f"{then.day} {_MONTHS[then.month - 1]} "
        return f"{day}{then:%H:%M}"


UTC = Zone()


class Costs(Struct, frozen=True):
    """What energy and lateness cost at a site, in `currency`.

    `prices`: from which minute of the local day (ascending, the first is 0) a kWh costs how much.
    `pue`: the energy of the whole site for each part that its servers use. `cost_per_hour`: of a
    late job with weight 1. `node_watts`: for types of GPU, the power of a server with 1, 2, ... of
    its GPUs in use.
    """

    prices: tuple[tuple[int, float], ...] = ((0, 0.25),)
    pue: float = 1.33
    currency: str = "EUR"
    cost_per_hour: float = 1.0
    node_watts: tuple[tuple[str, tuple[float, ...]], ...] = ()
    wait_for_cheap: bool = False
    zone: Zone = UTC

    def price_at(self, wall_s: float) -> float:
        """Return what a kWh costs at an epoch second."""
        return self.prices[self._place(self.zone.local_s(wall_s))][1]

    def price_changes_s(self, wall_s: float) -> float:
        """Return the first epoch second after `wall_s` at which the price may change.

        Infinity if it is the same all day.
        """
        if len(self.prices) == 1:
            return inf
        local_s = self.zone.local_s(wall_s)
        place = self._place(local_s)
        midnight_s = local_s - local_s % _DAY_S
        later = place + 1 < len(self.prices)
        next_s = self.prices[place + 1][0] * 60.0 if later else _DAY_S
        return min(wall_s + midnight_s + next_s - local_s, self.zone.next_change_s(wall_s))

    def energy_cost(self, joules: float, begin_s: float, end_s: float) -> float:
        """Return what energy costs that was used evenly between two epoch seconds."""
        if end_s <= begin_s:
            return self._cost_of(joules, self.price_at(begin_s))
        total, at_s = 0.0, begin_s
        while at_s < end_s:
            until_s = min(end_s, self.price_changes_s(at_s))
            if until_s <= at_s:  # so far from now that a float does not tell the difference
                until_s = end_s
            part_j = joules * (until_s - at_s) / (end_s - begin_s)
            total += self._cost_of(part_j, self.price_at(at_s))
            at_s = until_s
        return total

    def cost_of_watts(self, watts: float, wall_s: float, seconds: float) -> float:
        """Return what this power costs from an epoch second on."""
        return self.energy_cost(watts * seconds, wall_s, wall_s + seconds)

    def node_w(self, gpu: str, in_use: int) -> float | None:
        """Return the power of a server of which so many GPUs of this name are in use.

        0 with none in use; None if the configuration does not say.
        """
        for kind, watts in self.node_watts:
            if is_name_of(gpu, kind):
                return watts[min(in_use, len(watts)) - 1] if in_use > 0 else 0.0
        return None

    def tardiness_cost(self, weight: float, late_s: float) -> float:
        """Return what a late end costs; 0 for one in time."""
        return self.cost_per_hour * weight * max(0.0, late_s) / _HOUR_S

    def _place(self, local_s: float) -> int:
        minute = local_s % _DAY_S / 60.0
        return max(0, bisect_right([start for start, _ in self.prices], minute) - 1)

    def _cost_of(self, joules: float, price: float) -> float:
        return joules / _J_PER_KWH * self.pue * price


def in_order(prices: Sequence[tuple[int, float]]) -> tuple[tuple[int, float], ...]:
    """Return prices by their minute of the day. Raises ValueError, without one from 0:00 on."""
    found = tuple(sorted(prices))
    if not found or found[0][0] != 0:
        raise ValueError("no price holds from 00:00 on")
    return found


def make_costs(config: Config, zone: Zone = UTC) -> Costs:
    """Return what energy and lateness cost."""
    energy, price = config.energy, config.energy.price
    prices = {"00:00": price} if isinstance(price, (int, float)) else price
    clock = [(key.split(":"), each) for key, each in prices.items()]
    return Costs(
        prices=in_order([(int(h) * 60 + int(m), float(each)) for (h, m), each in clock]),
        pue=energy.pue,
        currency=energy.currency,
        cost_per_hour=config.deadlines.cost_per_hour,
        node_watts=tuple((kind, tuple(watts)) for kind, watts in energy.node_watts.items()),
        wait_for_cheap=energy.wait_for_cheap,
        zone=zone,
    )

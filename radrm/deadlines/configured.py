"""The costs of a configuration."""

from __future__ import annotations

from radrm.config import Config
from radrm.deadlines.costs import UTC, Costs, Zone, in_order


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

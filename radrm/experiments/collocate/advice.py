"""Say which settings of the default policy decide whether radrm shares a GPU as was measured.

The default is the goal's policy, `packing`: it adds jobs while the sum of their SM activity alone
stays below a limit. The site's own configuration is not looked at, so the line names settings.
"""

from __future__ import annotations

from collections.abc import Sequence

from radrm.config import Config
from radrm.config.goals import resolved
from radrm.policies.packing import Packing


def advise(mode: str, alone: Sequence[float | None]) -> str | None:
    """Return what to set so that radrm runs these programs together; None where nothing decides.

    `alone`: the SM activity of each program alone; None: unknown.
    """
    if mode == "mig":
        return None
    policy = Packing(**resolved(Config()).policies["packing"])
    most, setting = policy.max_demand, "max_demand"
    if mode == "timeslice" and policy.timeslice_max_demand < most:
        most, setting = policy.timeslice_max_demand, "timeslice_max_demand"
    demands = [policy.assumed_smact if each is None else each for each in alone]
    total = sum(demands)
    same = len(set(demands)) == 1
    shown = f"{len(demands)} x {demands[0]:.2f}" if same else _sum(demands)
    if None in alone:
        shown += " (unknown: policies.packing.assumed_smact)"
    with_mps = ", with mps.enabled = true," if mode == "mps" else ""
    limit = f"policies.packing.{setting} = {most:g}"
    start, demand = f"By default (policy packing){with_mps} radrm", f"{shown} = {total:.2f}"
    if total <= most:
        return f"{start} shares so: SM activity {demand}, within {limit}."
    return (
        f"{start} does not share so: SM activity {demand} is above {limit}. Raise it to allow this."
    )


def _sum(demands: Sequence[float]) -> str:
    return " + ".join(f"{each:.2f}" for each in demands)

"""Say which settings of the default policy decide whether radrm shares a GPU as was measured.

The default is the goal's policy, `packing`: it adds jobs while the sum of their SM activity alone
stays below a limit, and time-sliced while each adds enough work. The site's own configuration is
not looked at, so the line names settings.
"""

from __future__ import annotations

from collections.abc import Sequence

from radrm.config import Config
from radrm.config.goals import resolved
from radrm.interference.model import Demand, activity, speeds
from radrm.policies.packing import Packing


def advise(mode: str, alone: Sequence[float | None]) -> str | None:
    """Return what to set so that radrm runs these programs together; None where nothing decides.

    `alone`: the SM activity of each program alone; None: unknown.
    """
    if mode == "mig":
        return None
    policy = Packing(**resolved(Config()).policies["packing"])
    most, mps = policy.max_demand, mode == "mps"
    setting = "assumed_smact" if mps else "timeslice_assumed_smact"
    assumed: float = getattr(policy, setting)
    demands = [assumed if each is None else each for each in alone]
    total = sum(demands)
    same = len(set(demands)) == 1
    shown = f"{len(demands)} x {demands[0]:.2f}" if same else _sum(demands)
    if None in alone:
        shown += f" (unknown: policies.packing.{setting})"
    with_mps = ", with mps.enabled = true," if mps else ""
    limit = f"policies.packing.max_demand = {most:g}"
    start, demand = f"By default (policy packing){with_mps} radrm", f"{shown} = {total:.2f}"
    *others, last = sorted(demands, reverse=True)
    if total <= most and not mps and others:
        added, least = _work(demands) - _work(others), policy.timeslice_min_gain * last
        if added < least:
            return (
                f"{start} does not share so: SM activity {demand}, but the last job would add "
                f"{added:.2f}, less than {least:.2f}. Lower policies.packing.timeslice_min_gain = "
                f"{policy.timeslice_min_gain:g} to allow this."
            )
    if total <= most:
        return f"{start} shares so: SM activity {demand}, within {limit}."
    return (
        f"{start} does not share so: SM activity {demand} is above {limit}. Raise it to allow this."
    )


def _work(demands: Sequence[float]) -> float:
    """Return the SM activity of time-sliced jobs."""
    found = [Demand(smact) for smact in demands]
    return activity(found, speeds(found, mps=False))


def _sum(demands: Sequence[float]) -> str:
    return " + ".join(f"{each:.2f}" for each in demands)

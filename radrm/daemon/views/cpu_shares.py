"""The CPU share of a running job, as answers show it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from radrm.core.records import Attempt
from radrm.core.snapshot import Snapshot


def cpu_share(attempt: Attempt) -> dict[str, Any] | None:
    """The CPUs that a live attempt may use at most, and its weight beside others.

    None if it has neither a cap nor a weight.
    """
    tasks = {(s.role, s.task): (s.cpus, s.cpu_weight) for s in attempt.placement.shares}
    caps = [cpus for cpus, _ in tasks.values()]
    weights = [weight for _, weight in tasks.values()]
    cpus = sum(cap for cap in caps if cap is not None) if None not in caps else None
    weight = _weight(weights) if any(each is not None for each in weights) else None
    return None if not tasks or cpus is weight is None else {"cpus": cpus, "weight": weight}


def part(snapshot: Snapshot, attempt: Attempt) -> float | None:
    """The part of its server's CPUs that a live attempt gets while all want more, 0..1.

    None if that is unknown, or nothing was set. Jobs without a weight have the weight 1.
    """
    share = cpu_share(attempt)
    if share is None:
        return None
    found = 1.0
    if share["weight"] is not None:
        all_weights = [_weight_of(each) for _, each in snapshot.running]
        found = share["weight"] / max(sum(all_weights), share["weight"])
    cpus = next((use.node.cpus for use in snapshot.nodes), None)
    if share["cpus"] is not None:
        if not cpus:
            return None
        found = min(found, share["cpus"] / cpus)
    return found


def _weight_of(attempt: Attempt) -> float:
    share = cpu_share(attempt)
    return 1.0 if share is None or share["weight"] is None else share["weight"]


def _weight(weights: Sequence[float | None]) -> float:
    return sum(1.0 if weight is None else weight for weight in weights)

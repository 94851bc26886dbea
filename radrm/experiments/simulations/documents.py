"""The results of simulations as JSON documents."""

from __future__ import annotations

from typing import Any

from radrm.experiments.simulations.runs import Result
from radrm.simulator.metrics import ELASTIC, MEASURED, over_seeds


def document(result: Result, left_out: int = 0) -> dict[str, Any]:
    """The document of one variant: means over the seeds, and standard deviations (null for one
    seed)."""
    scenario, found = result.variant.scenario, over_seeds(result.runs)
    limits = result.limits
    figures: dict[str, Any] = {
        "yours": result.variant.yours,
        "policy": result.variant.policy,
        "order": scenario.config.order,
        "planner": scenario.config.planners_joined,
        "estimator": scenario.estimator,
        "collocation": result.variant.mode,
        "recovery": scenario.config.recovery,
        "fidelity": scenario.fidelity,
        "devices": len(scenario.devices) * result.variant.servers,
        "servers": result.variant.servers,
        "dealer": result.variant.dealer,
        "seeds": len(result.runs),
        "jobs": result.runs[0].jobs,
        "left_out": left_out,
        "unfinished": found["unfinished"].mean,
    }
    elastic = [name for name in ELASTIC if found[name].mean is not None]
    figures |= {name: found[name].mean for name in (*MEASURED, *elastic)}
    figures |= {f"{name}_sd": found[name].sd for name in (*MEASURED, *elastic)}
    figures |= {
        "bound_makespan_s": limits.makespan_s,
        "bound_mean_jct_s": limits.mean_jct_s,
        "fluid_makespan_s": limits.fluid_makespan_s,
        "fluid_mean_jct_s": limits.fluid_mean_jct_s,
    }
    return figures

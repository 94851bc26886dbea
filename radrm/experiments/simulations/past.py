"""Run the daemon's own past jobs under other policies, for `radrm replay`.

The SM activity of jobs that were never alone is unknown. It is assumed at several *levels*, and
everything is simulated once at each level.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from radrm.client.connection import Client
from radrm.config import Config
from radrm.core.units import parse_seconds
from radrm.core.words import Collocation, Quantity
from radrm.errors import BadFile, RadrmError, UsageError
from radrm.experiments.simulations.documents import document
from radrm.experiments.simulations.runs import Progress, Result, capacities_mib, results
from radrm.experiments.simulations.variants import Variant
from radrm.host.storage.history import read_past
from radrm.host.storage.paths import client_paths
from radrm.simulator.metrics import Change, gain, over_seeds
from radrm.simulator.traces.job import TraceJob
from radrm.simulator.traces.past import RECORDED, Assumption, Past, Replayed, assumptions, replayed
from radrm.simulator.traces.trace import fitting

_TYPE = re.compile(r"\b(A100|A10|A30|A40|H100|H200|L40S|L4|T4|V100|P100|RTX ?A?\d{4})\b")


@dataclass(frozen=True, slots=True)
class Level:
    """The past under one assumption about unknown SM activity, and the results."""

    assumed: Assumption
    past: Replayed
    jobs: tuple[TraceJob, ...]
    found: list[Result]


def past_jobs(store: str | None, since: str) -> list[Past]:
    """The jobs of the last `since` in a store, by default the daemon's. Raises `RadrmError`."""
    try:
        span_s = parse_seconds(since)
    except ValueError as error:
        raise UsageError(f"--since: {error}") from None
    path = store or _database()
    found = [Past(job, made) for job, made in read_past(path, time.time() - span_s)]
    if not found:
        raise BadFile(f"the store {path} holds no job of the last {since}; try a longer --since")
    return found


def _database() -> str:
    places = [paths.database for paths in client_paths(os.environ, os.getuid())]
    return next((path for path in places if os.path.exists(path)), places[0])


def own_estimator(past: Sequence[Past]) -> str:
    """The name for the recorded estimates if there are any, else `none`."""
    recorded = any(e.quantity is Quantity.MEMORY for p in past for e in p.job.estimates)
    return RECORDED if recorded else "none"


def own_mode(config: Config, past: Sequence[Past]) -> str:
    """How the past jobs shared GPUs; if none did, the configured way."""
    seen = {a.placement.collocation for each in past for a in each.attempts}
    if Collocation.MPS in seen:
        return "mps"
    if Collocation.TIMESLICE in seen:
        return "timeslice"
    if config.collocation is not Collocation.AUTO:
        return str(config.collocation.value)
    return "mps" if config.mps.enabled else "timeslice"


def own_gpus(past: Sequence[Past]) -> str:
    """The server's GPUs as the daemon shows them. Raises `UsageError` if no daemon answers."""
    try:
        with Client() as client:
            devices: list[dict[str, Any]] = client.ask("gpus")
    except RadrmError:
        used = {d for each in past for a in each.attempts for d in a.placement.devices}
        raise UsageError(
            f"no daemon answers, so the server's GPUs (its jobs used {len(used)}) are unknown; "
            "add --gpus, as in --gpus=sim:4xA100-40GB"
        ) from None
    return described(devices)


def described(devices: Sequence[dict[str, Any]]) -> str:
    """The GPUs in the documents of `gpus` as a specification. Raises `UsageError`."""
    if not devices or any(device["kind"] != "gpu" for device in devices):
        raise UsageError("the server's GPUs are cut into MIG instances; describe them with --gpus")
    return "sim:" + ",".join(f"1x{_kind(device)}" for device in devices)


def _kind(device: dict[str, Any]) -> str:
    found = _TYPE.search(str(device["name"]))
    name = str(found[1]).replace(" ", "") if found else "GPU"
    return f"{name}-{max(1, round(device['total_mib'] / 1024))}GB"


# ------------------------------------------------------------------ running


def levels_of(
    past: Sequence[Past], variants: Sequence[Variant], seeds: int, progress: Progress
) -> list[Level]:
    """The results at each assumed level of unknown SM activity."""
    now_s = time.time()
    levels = []
    for assumed in assumptions(past):
        known = replayed(past, assumed, now_s)
        if not known.jobs:
            why = ", ".join(f"{count} {reason}" for reason, count in known.left_out.items())
            raise BadFile(f"none of {len(past)} jobs can be replayed: {why}")
        fit = fitting(known.jobs, capacities_mib(variants[0].scenario.devices))
        levels.append(
            Level(assumed, known, fit.jobs, results(fit.jobs, variants, seeds, progress=progress))
        )
    return levels


def overall_gain(levels: Sequence[Level], at: int) -> Change | None:
    """How much sooner jobs end with variant `at` than with the first, over all seeds: the mean of
    the middle level, and the widest interval over all levels."""
    changes = []
    for level in levels:
        own = [m.mean_jct_s for m in level.found[at].runs]
        first = [m.mean_jct_s for m in level.found[0].runs]
        if None in own or None in first:
            return None
        changes.append(gain([v or 0.0 for v in own], [v or 0.0 for v in first]))
    known = [change for change in changes if change is not None]
    if not known or len(known) < len(changes):
        return None
    ends = [e for c in known for e in (c.gain, c.low, c.high) if e is not None]
    return Change(known[len(known) // 2].gain, min(ends), max(ends))


def model_error(level: Level) -> float | None:
    """The error of the model's mean completion time, as a share of the recorded one."""
    simulated = over_seeds(level.found[0].runs)["mean_jct_s"].mean
    if simulated is None or not level.past.jct_s:
        return None
    return simulated / level.past.jct_s - 1


# ------------------------------------------------------------------ results


def past_document(levels: Sequence[Level], middle: Level, since: str) -> dict[str, Any]:
    policies = []
    for at, result in enumerate(middle.found):
        change = overall_gain(levels, at) if at else None
        policies.append(
            document(result)
            | {
                "sooner": None if change is None else change.gain,
                "sooner_low": None if change is None else change.low,
                "sooner_high": None if change is None else change.high,
            }
        )
    return {
        "since": since,
        "instead_of": middle.found[0].variant.policy,
        "jobs": len(middle.jobs),
        "left_out": {
            **middle.past.left_out,
            "fits no GPU": len(middle.past.jobs) - len(middle.jobs),
        },
        "shared": middle.past.shared,
        "slow_down": middle.past.slow_down,
        "smact_unknown": middle.past.assumed,
        "recorded_mean_jct_s": middle.past.jct_s,
        "recorded_mean_wait_s": middle.past.wait_s,
        "model_error": model_error(middle),
        "policies": policies,
    }

"""Run the daemon's own past jobs under other policies, for `radrm replay`.

What the jobs would be alone is partly unknown. Each seed has its own draw of what explains the
record, and every policy runs the same draws. So the spread of the results over the seeds is their
uncertainty.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from radrm.client.connection import Client
from radrm.config import Config
from radrm.core.units import parse_seconds
from radrm.core.words import Collocation, Quantity
from radrm.errors import BadFile, RadrmError, UsageError
from radrm.host.storage.history import read_past
from radrm.host.storage.paths import client_paths
from radrm.host.wall import wall_s
from radrm.lab.experiments.simulations.runs import (
    Progress,
    Result,
    capacities_mib,
    document,
    results,
)
from radrm.lab.experiments.simulations.variants import Variant
from radrm.lab.simulator.metrics import Change, over_seeds, range_of_gain
from radrm.lab.simulator.traces.job import TraceJob
from radrm.lab.simulator.traces.past import RECORDED, Past, Replayed, replayed
from radrm.lab.simulator.traces.trace import fitting

_WIDER = 1.25
"""The factor of each range. Histories with known truth lay in their ranges without it, and with it:
37 and 40 of 40 under MPS, 22 and 25 of 26 time-sliced (`python -m benchmarks.simulation.replays`).
The draws are linear near the best fit, and so too alike."""

_TYPE = re.compile(r"\b(A100|A10|A30|A40|H100|H200|L40S|L4|T4|V100|P100|RTX ?A?\d{4})\b")


class Replay(Struct, frozen=True):
    """A past, the jobs of it that fit the GPUs (as most likely), and the results of the draws."""

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
    found = [Past(job, made) for job, made in read_past(path, wall_s() - span_s)]
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


def drawn_past(
    past: Sequence[Past], variant: Variant, draws: int
) -> tuple[Replayed, list[tuple[TraceJob, ...]]]:
    """The past, and the jobs that fit the GPUs: as most likely, then so many draws. Raises
    `BadFile` if no job is left."""
    known = replayed(past, wall_s(), draws)
    if not known.jobs:
        why = ", ".join(f"{count} {reason}" for reason, count in known.left_out.items())
        raise BadFile(f"none of {len(past)} jobs can be replayed: {why}")
    capacities = capacities_mib(variant.scenario.devices)
    return known, [fitting(jobs, capacities).jobs for jobs in (known.jobs, *known.draws)]


def replay_past(
    past: Sequence[Past], variants: Sequence[Variant], seeds: int, progress: Progress
) -> Replay:
    """Run the past under every variant. Raises `RadrmError`."""
    known, (likely, *draws) = drawn_past(past, variants[0], seeds)
    return Replay(known, likely, results(draws, variants, range(seeds), progress=progress))


def wide_range(values: Sequence[float], others: Sequence[float]) -> Change | None:
    """The gain, and its range of 90 %, which contains what draws cannot show."""
    change = range_of_gain(values, others)
    if change is None or change.low is None or change.high is None:
        return change
    gain = change.gain
    return Change(gain, gain - _WIDER * (gain - change.low), gain + _WIDER * (change.high - gain))


def gain_of(found: Sequence[Result], at: int, name: str = "mean_jct_s") -> Change | None:
    """How far a metric of result `at` is below that of the first, with its range of 90 %."""
    own = [getattr(run, name) for run in found[at].runs]
    first = [getattr(run, name) for run in found[0].runs]
    if None in own or None in first:
        return None
    return wide_range(own, first)


def model_error(replay: Replay) -> float | None:
    """The error of the model's mean completion time, as a share of the recorded one."""
    simulated = over_seeds(replay.found[0].runs)["mean_jct_s"].mean
    if simulated is None or not replay.past.jct_s:
        return None
    return simulated / replay.past.jct_s - 1


# ------------------------------------------------------------------ results


def past_document(replay: Replay, since: str) -> dict[str, Any]:
    """The document of a replay: means over the draws, and ranges of 90 %."""
    past, found = replay.past, replay.found
    policies = []
    for at, result in enumerate(found):
        change = gain_of(found, at) if at else None
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
        "instead_of": found[0].variant.policy,
        "jobs": len(replay.jobs),
        "left_out": {**past.left_out, "fits no GPU": len(past.jobs) - len(replay.jobs)},
        "shared": past.shared,
        "slow_down": past.slow_down.best,
        "slow_down_low": past.slow_down.low,
        "slow_down_high": past.slow_down.high,
        "smact_alone": past.alone,
        "smact_told": past.told,
        "smact_solved": past.solved,
        "smact_guessed": past.guessed,
        "smact_unknown": past.unknown,
        "smact_error": past.unsure,
        "recorded_mean_jct_s": past.jct_s,
        "recorded_mean_wait_s": past.wait_s,
        "model_error": model_error(replay),
        "policies": policies,
    }

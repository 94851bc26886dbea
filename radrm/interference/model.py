"""How jobs that share a GPU slow one another down.

The simulated GPUs and the simulator follow this model, and rules that weigh sharing use it. This
project fitted the constants to the published 60-job run of MAGM with GPUMemNet on A100-40GB
GPUs under MPS (RAD-RM, arXiv 2508.19073). With them the execution times of its jobs are 12 % off
(root mean square); `benchmarks.simulation.calibration` fits the constants again. Solo activity
comes from the exclusive run of the same paper.

A job's demand is the SM activity (SMACT) that it shows alone on a whole GPU, in each mode: also
time-sliced, where utilisation (the part of the time with any kernel) fits measured pairs less
well: 15 % off in place of 10 %. Where only that is read, `utilization` converts it. A job's speed
is a fraction of its solo speed.

`loss` (0..1) is what the way of sharing costs beyond the ceiling: 0, nothing, as in the published
run under MPS, and in Lucid's pairs of time-sliced jobs, which fit no loss best; 1, as in the
pessimistic model of time-slicing, for the published runs on streams. Demands grow by its part of a
quarter, and throughput falls by its part of a quarter (an eighth with two jobs). None means the
mode's shipped figure: docs/lab/measurements.md says how it was chosen. A server learns its own.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Mapping, Sequence
from math import exp, log
from typing import TypeVar

from msgspec import Struct

Key = TypeVar("Key", bound=Hashable)

FAMILIES = ("cnn", "vgg", "transformer", "light", "tiny", "other")

CEILING = 0.944  # upper limit of a shared GPU's SM activity, at any demand
UNKNOWN_SMACT_MPS = 0.6  # of a job whose SM activity is neither measured nor predicted
UNKNOWN_SMACT_TIMESLICE = 0.4  # lower, since it costs less to be wrong: jobs slow one another less
_KNEE = 6.15  # how sharply throughput bends towards the ceiling
_MOST_OF_OWN = 0.99  # the largest part of its own demand that a sharing job gets
_JOINT = 2.65  # the weight of a job's faster GPUs relative to its slowest
_JOINT_LEAST = 0.5  # not fitted: outside the fitted speeds the power law approaches zero
MPS_LOSS = 0.0  # the constants above were fitted with none
TIMESLICE_LOSS = 0.4  # between Lucid's pairs (0) and the published runs on streams (0.75 to 1)
_LOSS_OF_DEMAND = 0.25  # with loss 1 each job needs so much more of the device,
_LOSS_OF_WORK = 0.25  # and this part of what the device delivers is lost, times 1 - 1/jobs
_TYPICAL_BATCH = 64

_FAMILY_WEIGHT = {"vgg": 2.66, "transformer": 3.27, "light": 1.0, "tiny": 6.0}
_BATCH_WEIGHT = ((32, 1.0), (64, 1.53), (128, 2.49))
_WEIGHT_RANGE = (0.25, 6.0)  # keeps extrapolated weights near the measured ones


class Demand(Struct, frozen=True):
    """One job's demand on a GPU: its solo SMACT (0..1) and its share weight (> 0)."""

    smact: float
    weight: float = 1.0


class Load(Struct, frozen=True):
    """A working job: the same demand on each of its devices (one or more), with or without MPS."""

    demand: Demand
    devices: tuple[str, ...]
    mps: bool = False


def unknown_smact(mps: bool) -> float:
    """The SM activity that a job counts with if its own is neither measured nor predicted."""
    return UNKNOWN_SMACT_MPS if mps else UNKNOWN_SMACT_TIMESLICE


def share_weight(family: str | None, batch_size: int | None) -> float:
    """The weight of a job's share of a GPU; a CNN of batch size 32 has 1.0.

    A job with a small batch gets little beside one with a large batch. A power law between
    neighbouring fitted batch sizes gives the others. An unknown batch size counts as 64.
    """
    if family in _FAMILY_WEIGHT:
        return _FAMILY_WEIGHT[family]
    batch = max(1, batch_size if batch_size is not None else _TYPICAL_BATCH)
    at = min(max(1, bisect_right(_BATCH_WEIGHT, (batch, 0.0))), len(_BATCH_WEIGHT) - 1)
    (low, low_weight), (high, high_weight) = _BATCH_WEIGHT[at - 1], _BATCH_WEIGHT[at]
    slope = log(high_weight / low_weight) / log(high / low)
    weight = low_weight * exp(slope * log(batch / low))
    return min(max(weight, _WEIGHT_RANGE[0]), _WEIGHT_RANGE[1])


def delivered(total_demand: float) -> float:
    """The SM activity that a shared GPU delivers under MPS at this total demand."""
    return float(total_demand / (1 + (total_demand / CEILING) ** _KNEE) ** (1 / _KNEE))


def speeds(
    demands: Sequence[Demand],
    *,
    mps: bool,
    fraction: float = 1.0,
    fixed: Mapping[int, float] | None = None,
    loss: float | None = None,
) -> tuple[float, ...]:
    """The speed (0..1] of each job on one device, 1.0 for a job alone on a whole GPU.

    Without `mps` the jobs are time-sliced. `loss`: what sharing costs in this mode (see above);
    it lowers every speed. `fraction` is the device's part of a whole GPU (a MIG instance's
    compute slices); there even a job alone is slow if it needs more. `fixed` gives the speeds of
    some jobs by their position (a job alone is slower if the device cannot deliver it); the other
    jobs share the rest. A job without demand slows no other job, and no other job slows it.
    """
    held = fixed or {}
    busy = [at for at, demand in enumerate(demands) if demand.smact > 0]
    result = [held.get(at, 1.0) for at in range(len(demands))]
    if len(busy) < 2:
        for at in busy:
            result[at] = min(result[at], fraction / demands[at].smact)
        return tuple(result)
    grown, kept = _sharing(len(busy), mps, loss)
    wanted = {at: grown * demands[at].smact / fraction for at in busy}
    free = [at for at in busy if at not in held]
    taken = sum(wanted[at] * held[at] for at in busy if at in held)
    level = water_level(
        delivered(sum(wanted.values())) * kept - taken,
        [_MOST_OF_OWN * wanted[at] for at in free],
        [demands[at].weight * wanted[at] for at in free],
    )
    for at in free:
        result[at] = min(_MOST_OF_OWN, level * demands[at].weight)
    return tuple(result)


def shipped_loss(mps: bool) -> float:
    """The loss of a mode (with or without MPS) of which this server has learned nothing."""
    return MPS_LOSS if mps else TIMESLICE_LOSS


def _sharing(jobs: int, mps: bool, loss: float | None) -> tuple[float, float]:
    """The factor of each demand, and the part of the throughput that is left, for so many jobs."""
    part = shipped_loss(mps) if loss is None else loss
    return 1 + _LOSS_OF_DEMAND * part, 1 - _LOSS_OF_WORK * part * (1 - 1 / jobs)


def mixed_speeds(
    demands: Sequence[Demand],
    clients: Sequence[bool],
    *,
    fraction: float = 1.0,
    fixed: Mapping[int, float] | None = None,
    loss: float | None = None,
) -> tuple[float, ...]:
    """The `speeds` of jobs on one device of which some are clients of its MPS server.

    Clients run side by side. To the GPU their server is one process, which it time-slices with the
    other jobs: together they get the time of one job that needs what they would use alone.
    `loss`: of MPS if all jobs are clients, else of time-slicing.
    """
    inside = [at for at, client in enumerate(clients) if client]
    others = [at for at, client in enumerate(clients) if not client]
    if not inside or not others:
        mps = bool(inside)
        return speeds(demands, mps=mps, fraction=fraction, fixed=fixed, loss=loss)
    held = fixed or {}
    members = [demands[at] for at in inside]
    own = speeds(
        members,
        mps=True,
        fraction=fraction,
        fixed={place: held[at] for place, at in enumerate(inside) if at in held},
    )
    total = sum(each.smact for each in members)
    weight = sum(each.smact * each.weight for each in members) / total if total else 1.0
    server, *rest = speeds(
        [Demand(min(1.0, activity(members, own)), weight), *(demands[at] for at in others)],
        mps=False,
        fraction=fraction,
        fixed={place: held[at] for place, at in enumerate(others, 1) if at in held},
        loss=loss,
    )
    result = dict(zip(others, rest, strict=True))
    for at, speed in zip(inside, own, strict=True):
        result[at] = held.get(at, speed * server if demands[at].smact > 0 else speed)
    return tuple(result[at] for at in range(len(demands)))


def water_level(volume: float, caps: Sequence[float], widths: Sequence[float]) -> float:
    """The level at which vessels of these widths, each full at its cap, hold the volume.

    It is the water-filling form of a weighted max-min share: no job gets more than its cap, and
    the others share the rest in proportion to their widths.
    """
    vessels = sorted((cap / width, cap, width) for cap, width in zip(caps, widths, strict=True))
    left, open_width = volume, sum(widths)
    for full_at, cap, width in vessels:
        if full_at * open_width >= left:
            return left / open_width
        left -= cap
        open_width -= width
    return vessels[-1][0] if vessels else 0.0


def joint_speed(per_device: Sequence[float]) -> float:
    """The speed of one job from its speeds on each of its devices (at least one).

    For two GPUs it is min * max^2.65, fitted to three jobs whose lowest speed was a third. The
    result is at least half of the slowest speed. For more GPUs the geometric mean of all speeds
    but the slowest replaces the max.
    """
    slowest, *others = sorted(per_device)
    if not others:
        return slowest
    if slowest <= 0:
        return 0.0
    return slowest * max(_JOINT_LEAST, exp(_JOINT * sum(map(log, others)) / len(others)))


def running_speeds(
    loads: Mapping[Key, Load],
    fractions: Mapping[str, float] | None = None,
    *,
    loss: float | None = None,
) -> dict[Key, float]:
    """The speed (0..1] of every job at work on a server, given all of them.

    A device is time-sliced between its MPS clients and each other job. A job on several devices has
    its joint speed on each of them, and uses of each only as much as that speed needs. Its
    neighbours get the rest; without this rule the model does not reproduce the published run.
    `fractions` names the devices that are less than a whole GPU; `loss` holds for all devices.
    """
    on_device: dict[str, list[Key]] = {}
    for key, load in loads.items():
        for device in load.devices:
            on_device.setdefault(device, []).append(key)

    def on_each(joint: Mapping[Key, float]) -> dict[Key, list[float]]:
        found: dict[Key, list[float]] = {key: [] for key in loads}
        for device, keys in on_device.items():
            each = mixed_speeds(
                [loads[key].demand for key in keys],
                [loads[key].mps for key in keys],
                fraction=1.0 if fractions is None else fractions.get(device, 1.0),
                fixed={at: joint[key] for at, key in enumerate(keys) if key in joint},
                loss=loss,
            )
            for key, speed in zip(keys, each, strict=True):
                found[key].append(speed)
        return found

    at_full = on_each({})
    joint = {key: joint_speed(each) for key, each in at_full.items() if len(each) > 1}
    eased = on_each(joint) if joint else at_full
    return {key: joint.get(key, each[0]) for key, each in eased.items()}


def activity(
    demands: Sequence[Demand], at_speeds: Sequence[float], *, fraction: float = 1.0
) -> float:
    """The SMACT (0..1) that a device shows while these jobs run at these speeds."""
    work = sum(d.smact * speed for d, speed in zip(demands, at_speeds, strict=True))
    return min(1.0, work / fraction)


def total_activity(
    total_demand: float,
    jobs: int,
    *,
    mps: bool,
    loss: float | None = None,
) -> float:
    """The SMACT (0..1) that a whole GPU shows for so many one-GPU jobs of this total demand.

    It is the `activity` at their `speeds`, which the single demands and weights do not change.
    """
    if jobs < 2:
        return min(1.0, total_demand)
    grown, kept = _sharing(jobs, mps, loss)
    shown = delivered(grown * total_demand) * kept / grown
    return min(_MOST_OF_OWN * total_demand, shown)

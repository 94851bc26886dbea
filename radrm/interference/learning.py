"""What sharing costs on this server, from periods in which jobs share a device.

Theory of operation
-------------------
For each kind of device and mode the learner keeps how likely each of 21 losses is (`model`), as a
logarithm. At first that is a normal curve around the shipped figure. A period adds, for each loss,
how well the model explains

- the SM activity of the device, from what each of its jobs shows alone, and
- the speed of each job that reported steps both alone on the device and in the period.

Errors are those of the demands, and of the model itself (`benchmarks.simulation.sharing`). They
have Student's t distribution with 3 degrees of freedom, and no period adds more than `_MOST`: one
that is wrong moves the figure little. What was seen fades, so that about `1 / (1 - _KEPT)` periods
count. The learned loss is the most likely one, between the points by a parabola: without a period
that is the shipped figure.

Under MPS the speed of one job depends on weights that nobody knows, so there it counts less.
"""

from __future__ import annotations

from math import hypot, isfinite, log
from typing import Any

from msgspec import Struct

from radrm.core.records import SharedPeriod
from radrm.interference.model import Demand, shipped_loss, speeds, total_activity

POINTS = 21
"""Losses from 0 to 1 at equal distances."""
_STEP = 1 / (POINTS - 1)
_PRIOR_SD = 0.3
"""How far a server may be from the shipped figure."""
_KEPT = 0.98
_MOST = 2.0
_READING_SD = 0.03
"""The error of the model's SM activity, as `solo` has it, and of a mean reading."""
_MEASURED, _PREDICTED = (0.02, 0.05), (0.05, 0.25)
"""The error of a demand: an amount, and a part of it."""
_SPEED_SD = {False: 0.1, True: 0.25}
"""The error of the logarithm of a speed, time-sliced (that of Lucid's pairs) and under MPS (that of
the published run)."""
_MOST_JOBS = 16
_MOST_COUNT = 1_000_000


class LossLearner(Struct, frozen=True):
    """Learns the loss of a kind of device and a mode. Its state: `loss` (0..1), `periods` and
    `seen` (a logarithm for each point)."""

    def learn(self, known: Any, period: SharedPeriod) -> dict[str, Any] | None:
        """Return the state after a period; None: it shows nothing. `known`: the state before; None,
        or something damaged: begin anew."""
        likely = _likely(period)
        if likely is None:
            return None
        seen, periods = _read(known)
        best = max(likely)
        seen = [
            round(_KEPT * old + max(-_MOST, new - best), 4)
            for old, new in zip(seen, likely, strict=True)
        ]
        best = max(seen)
        seen = [each - best for each in seen]
        return {
            "loss": round(_mode(seen, shipped_loss(period.mps)), 4),
            "periods": min(_MOST_COUNT, periods + 1),
            "seen": seen,
        }


def _read(known: Any) -> tuple[list[float], int]:
    """Return what a state has; nothing if it is damaged."""
    try:
        seen, periods = [float(each) for each in known["seen"]], int(known["periods"])
    except (KeyError, TypeError, ValueError):
        return [0.0] * POINTS, 0
    sound = len(seen) == POINTS and all(map(isfinite, seen)) and periods >= 0
    return (seen, periods) if sound else ([0.0] * POINTS, 0)


def _mode(seen: list[float], shipped: float) -> float:
    """Return the most likely loss, between the points by a parabola."""
    found = [each - ((at * _STEP - shipped) / _PRIOR_SD) ** 2 / 2 for at, each in enumerate(seen)]
    at = max(range(POINTS), key=found.__getitem__)
    off = 0.0
    if 0 < at < POINTS - 1:
        before, here, after = found[at - 1 : at + 2]
        bend = before - 2 * here + after
        off = (before - after) / (2 * bend) if bend < 0 else 0.0
    return min(1.0, max(0.0, (at + off) * _STEP))


def _likely(period: SharedPeriod) -> list[float] | None:
    """Return the logarithm of the likelihood at each point; None: the period shows nothing."""
    jobs, mps = period.jobs[:_MOST_JOBS], period.mps
    smacts = [each.smact for each in jobs if each.smact is not None]
    if len(smacts) < len(period.jobs) or len(jobs) < 2:
        return None
    total = sum(smacts)
    off = 0.0
    for each, smact in zip(jobs, smacts, strict=True):
        amount, part = _MEASURED if each.measured else _PREDICTED
        off = hypot(off, amount + part * smact)
    told = [(at, each.speed) for at, each in enumerate(jobs) if each.speed]
    if total <= 0 or (period.smact is None and not told):
        return None
    demands = [Demand(smact) for smact in smacts]
    found = []
    for point in range(POINTS):
        loss, fit = point * _STEP, 0.0
        if period.smact is not None:
            shown = total_activity(total, len(jobs), mps=mps, loss=loss)
            less = total_activity(max(0.0, total - off), len(jobs), mps=mps, loss=loss)
            fit += _fit(period.smact - shown, hypot(_READING_SD, shown - less))
        if told:
            model, sd = speeds(demands, mps=mps, loss=loss), _SPEED_SD[mps]
            each_fit = [_fit(log(speed / model[at]), sd) for at, speed in told]
            # The errors of jobs that share a device are alike, so they count as one.
            fit += sum(each_fit) / len(each_fit)
        found.append(fit)
    return found


def _fit(off: float, sd: float) -> float:
    """Return the logarithm of the likelihood of an error, by Student's t."""
    return -2 * log(1 + (off / sd) ** 2 / 3) - log(sd)

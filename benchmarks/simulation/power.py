"""The fit of the power curve of `radrm.simulated.spec` to the published exclusive run."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from math import sqrt
from pathlib import Path

from benchmarks.simulation.published import published_trace
from radrm.simulated.spec import A100_IDLE_W
from tests.paths import SHARED_DATA

Point = tuple[float, float, float]
"""SM activity (0..1), power (W) and weight."""


def points_of(data: Path = SHARED_DATA) -> list[Point]:
    """Return SM activity, power (W) and GPU time (min) of each job of the exclusive run."""
    path = data / "measured" / "measured_solo_profile_a100.csv"
    with path.open(encoding="utf-8") as lines:
        rows = {row["job_name"]: row for row in csv.DictReader(lines)}
    found = []
    for job in published_trace("heavy60", data):
        row = rows[job.name]
        minutes = float(row["plateau_min"]) * job.gpus
        found.append((float(row["smact"]), float(row["power_w"]), minutes))
    return found


def two_lines(
    points: Sequence[Point], knee: float, idle_w: float = A100_IDLE_W
) -> tuple[float, float]:
    """Return the power at `knee` and at 1 of the two lines that fit best.

    They begin at (0, `idle_w`). The points are x, power and weight.
    """
    # The normal equations of y - idle_w * a = b * at_knee + c * at_one, by Cramer's rule.
    bb = bc = cc = by = cy = 0.0
    for x, power_w, weight in points:
        below = x <= knee
        a, b, c = (
            (1 - x / knee, x / knee, 0.0)
            if below
            else (0.0, (1 - x) / (1 - knee), (x - knee) / (1 - knee))
        )
        y = power_w - idle_w * a
        bb, bc, cc = bb + weight * b * b, bc + weight * b * c, cc + weight * c * c
        by, cy = by + weight * b * y, cy + weight * c * y
    divisor = bb * cc - bc * bc
    return (by * cc - cy * bc) / divisor, (bb * cy - bc * by) / divisor


def error_of(points: Sequence[Point], curve: Callable[[float], float]) -> tuple[float, float]:
    """Return the root mean square and the mean of curve minus power (W), by weight."""
    whole = sum(weight for _, _, weight in points)
    off = [(curve(x) - power_w, weight) for x, power_w, weight in points]
    square = sum(weight * each * each for each, weight in off) / whole
    return sqrt(square), sum(weight * each for each, weight in off) / whole


def through(knee: float, at_knee_w: float, at_one_w: float) -> Callable[[float], float]:
    def curve(x: float) -> float:
        if x <= knee:
            return A100_IDLE_W + (at_knee_w - A100_IDLE_W) * x / knee
        return at_knee_w + (at_one_w - at_knee_w) * (x - knee) / (1 - knee)

    return curve


def fitted_power(points: Sequence[Point]) -> tuple[float, float, float]:
    """Return the knee (to 0.02) and the power at it and at 1 that fit best."""
    tried = [(at / 50, *two_lines(points, at / 50)) for at in range(10, 45)]
    return min(tried, key=lambda each: error_of(points, through(*each))[0])

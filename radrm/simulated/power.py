"""The power that a GPU draws at an SM activity.

The curve is an A100's: two lines through idle power, fitted to the power and SM activity of the
22 kinds of jobs in the published exclusive run of the 60-job trace (RAD-RM, arXiv 2508.19073),
weighted by GPU time. Jobs are off it by 9.5 W (root mean square): power also depends on what the
SMs do. `benchmarks.simulation.calibration` fits it. Other devices have the same curve between
their own idle and peak power.
"""

from __future__ import annotations

from bisect import bisect_right

_WATTS = ((0.0, 58.0), (0.52, 216.0), (1.0, 278.0))
A100_IDLE_W = _WATTS[0][1]
A100_PEAK_W = _WATTS[-1][1]


def watts(utilisation: float, idle_w: float = A100_IDLE_W, peak_w: float = A100_PEAK_W) -> float:
    """The power draw (W) at a utilisation (0..1): the A100's curve, scaled to the device."""
    used = min(1.0, max(0.0, utilisation))
    at = min(bisect_right(_WATTS, (used, float("inf"))), len(_WATTS) - 1)
    (low, low_w), (high, high_w) = _WATTS[at - 1], _WATTS[at]
    a100 = low_w + (high_w - low_w) * (used - low) / (high - low)
    return idle_w + (peak_w - idle_w) * (a100 - A100_IDLE_W) / (A100_PEAK_W - A100_IDLE_W)

"""The thesis' Figures 6.13 to 6.15, simulated: `python -m benchmarks.simulation.pictures`.

Writes docs/lab/reproduction.svg: memory, SM activity and power of every GPU over time on heavy60,
under exclusive and under MAGM with GPUMemNet, in the prototype's loop. Needs matplotlib and traces.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks.simulation.published import ROWS, published_trace, scenario
from radrm.lab.simulator.engine import simulate
from radrm.lab.simulator.metrics import step_durations
from radrm.lab.simulator.run import DeviceRun, DeviceStep, Run
from tests.paths import REPOSITORY, SHARED_DATA

PICTURE = REPOSITORY / "docs" / "lab" / "reproduction.svg"
SHOWN = ("Exclusive", "MAGM + GPUMemNet (80%)")
BIN_S = 900.0

CURVES: tuple[tuple[str, Callable[[DeviceStep], float]], ...] = (
    ("memory (GiB)", lambda step: step.memory_mib / 1024),
    ("SM activity", lambda step: step.smact),
    ("power (W)", lambda step: step.power_w),
)


def binned(
    device: DeviceRun, value: Callable[[DeviceStep], float], until_s: float
) -> tuple[list[float], list[float]]:
    """Return the middle (s) and the mean of a curve in each bin; the last ends at `until_s`."""
    middles, means = [], []
    begin_s = 0.0
    while begin_s < until_s:
        end_s = min(begin_s + BIN_S, until_s)
        total = sum(
            value(step) * seconds for step, seconds in step_durations(device, begin_s, end_s)
        )
        middles.append((begin_s + end_s) / 2)
        means.append(total / (end_s - begin_s))
        begin_s = end_s
    return middles, means


def draw(runs: dict[str, Run], path: Path) -> None:
    import matplotlib
    from matplotlib.figure import Figure

    # The same runs give the same file.
    matplotlib.rcParams.update({"svg.hashsalt": "radrm", "svg.fonttype": "none"})
    figure = Figure(figsize=(10, 7), layout="constrained")
    axes = figure.subplots(len(CURVES), len(runs), sharex=True, sharey="row")
    for column, (name, run) in enumerate(runs.items()):
        for row, (words, value) in enumerate(CURVES):
            for at, device in enumerate(run.devices):
                middles, means = binned(device, value, run.ended_s)
                hours = [middle_s / 3600 for middle_s in middles]
                axes[row][column].plot(hours, means, linewidth=0.9, label=f"GPU {at}")
            axes[row][0].set_ylabel(words)
        axes[0][column].set_title(name)
        axes[-1][column].set_xlabel("hours")
    for row in axes:
        row[0].set_ylim(bottom=0)
    axes[0][0].legend(ncols=4, fontsize="small")
    figure.savefig(path, metadata={"Date": None})


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.simulation.pictures")
    parser.add_argument("--data", type=Path, default=SHARED_DATA, help="where traces/ lies")
    parser.add_argument("--to", type=Path, default=PICTURE, help="the file to write")
    args = parser.parse_args()
    if not (args.data / "traces").is_dir():
        sys.exit(f"{args.data}: has no traces/; name the folder that has with --data")
    jobs = published_trace("heavy60", args.data)
    rows = {row.what: row for row in ROWS if row.trace == "heavy60"}
    draw({what: simulate(jobs, scenario(rows[what], "published", 0)) for what in SHOWN}, args.to)
    print(f"wrote {args.to}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

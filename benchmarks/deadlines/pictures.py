"""docs/lab/reproduction-andreas.svg: costs over the load, seconds of the optimizer over nodes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.deadlines.claims import Found, total
from benchmarks.deadlines.methods import BASELINES, DEADLINE, FREE, OWN
from benchmarks.deadlines.sizes import Sized

_SHOWN = (*BASELINES, OWN[1], FREE, DEADLINE)


def draw(found: Found, sizes: Sequence[Sized], path: Path) -> None:
    """Draw the picture. Needs matplotlib."""
    import matplotlib
    from matplotlib.figure import Figure

    # The same runs give the same file.
    matplotlib.rcParams.update({"svg.hashsalt": "radrm", "svg.fonttype": "none"})
    figure = Figure(figsize=(10, 3.4), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    for scenario, axes in ((1, left), (2, middle)):
        loads = sorted({load for s, load, _ in found if s == scenario})
        for method in _SHOWN:
            costs = [total(found, scenario, load, method).value for load in loads]
            axes.plot(loads, costs, marker=".", linewidth=1, label=method.name)
        axes.set_title(f"scenario {scenario}: total cost (EUR)")
        axes.set_xlabel("load")
        axes.set_yscale("log")
    left.legend(fontsize="x-small")
    for scenario in (1, 2):
        timed = [each for each in sizes if each.scenario == scenario and each.call_s is not None]
        right.plot(
            [each.nodes for each in timed],
            [each.call_s for each in timed],
            marker=".",
            label=f"scenario {scenario}",
        )
    right.set_title("a call of the optimizer (s, median)")
    right.set_xlabel("nodes")
    right.set_ylim(bottom=0)
    right.legend(fontsize="x-small")
    figure.savefig(path, metadata={"Date": None})

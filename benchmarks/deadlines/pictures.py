"""docs/lab/reproduction-andreas.svg: costs over the load."""

from __future__ import annotations

from pathlib import Path

from benchmarks.deadlines.claims import Found, total
from benchmarks.deadlines.methods import BASELINES, DEADLINE, FREE, OWN

_SHOWN = (*BASELINES, OWN[1], FREE, DEADLINE)


def draw(found: Found, path: Path) -> None:
    """Draw the picture. Needs matplotlib."""
    import matplotlib
    from matplotlib.figure import Figure

    # The same runs give the same file.
    matplotlib.rcParams.update({"svg.hashsalt": "radrm", "svg.fonttype": "none"})
    figure = Figure(figsize=(7, 3.4), layout="constrained")
    left, middle = figure.subplots(1, 2)
    for scenario, axes in ((1, left), (2, middle)):
        loads = sorted({load for s, load, _ in found if s == scenario})
        for method in _SHOWN:
            costs = [total(found, scenario, load, method).value for load in loads]
            axes.plot(loads, costs, marker=".", linewidth=1, label=method.name)
        axes.set_title(f"scenario {scenario}: total cost (EUR)")
        axes.set_xlabel("load")
        axes.set_yscale("log")
    left.legend(fontsize="x-small")
    figure.savefig(path, metadata={"Date": None})

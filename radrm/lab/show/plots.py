"""Plots of simulations, if matplotlib is installed.

One run: memory, SM activity and power of each GPU over time, as in figures 6.13 to 6.15 of the
RAD-RM thesis. A comparison: bars.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

from radrm.errors import BadFile, UsageError, plain
from radrm.lab.experiments.simulations.runs import Result
from radrm.lab.show.simulations import variant_name
from radrm.lab.simulator.metrics import over_seeds
from radrm.lab.simulator.run import DeviceRun, DeviceStep, Run

ENDINGS = (".png", ".pdf", ".svg")
MOST_DEVICES = 16
_HOUR_S = 3600.0
_DEAD = "crimson"


def check_plot(path: str | None) -> None:
    """Check before the work that a plot can be written. Raises `UsageError` and `BadFile`."""
    if path is None:
        return
    if os.path.splitext(path)[1].lower() not in ENDINGS:
        raise UsageError(f"--plot {path}: end its name with one of {', '.join(ENDINGS)}")
    if find_spec("matplotlib") is None:
        from radrm.extras import lacks

        raise UsageError(lacks("--plot", "matplotlib", "plots"))
    folder = os.path.dirname(path) or "."
    if not os.path.isdir(folder):
        raise BadFile(f"cannot write {path}: there is no folder {folder}")


def plot_run(path: str, run: Run, title: str) -> None:
    """Memory, SM activity and power of the first GPUs of a run."""
    devices = run.devices[:MOST_DEVICES]
    hours = run.ended_s / _HOUR_S
    figure, rows = _figure(3, (11, 9))
    named = f"{title}: {len(run.jobs)} jobs, {hours:.1f} h, {run.oom_count} out-of-memory deaths"
    if len(run.devices) > len(devices):
        named += f" (the first {len(devices)} of {len(run.devices)} GPUs)"
    figure.suptitle(_text(named))
    curves: tuple[tuple[str, Callable[[DeviceStep], float], float | None], ...] = (
        ("memory in use (GiB)", lambda step: step.memory_mib / 1024, None),
        ("SM activity", lambda step: step.smact, 1.02),
        ("power (W)", lambda step: step.power_w, None),
    )
    for axes, (name, value, top) in zip(rows, curves, strict=False):
        for at, device in enumerate(devices):
            times, values = _stairs(device, value, run.ended_s)
            axes.step(times, values, where="post", linewidth=0.9, label=f"GPU {at}")
        axes.set_ylabel(name)
        axes.set_ylim(bottom=0, top=top)
        axes.set_xlim(0, hours)
    rows[0].legend(loc="upper right", ncols=4, fontsize="small")
    rows[-1].set_xlabel("hours")
    _save(figure, path)


def _stairs(
    device: DeviceRun, value: Callable[[DeviceStep], float], end_s: float
) -> tuple[list[float], list[float]]:
    times = [step.at_s / _HOUR_S for step in device.steps]
    values = [value(step) for step in device.steps]
    return [*times, end_s / _HOUR_S], [*values, values[-1] if values else 0.0]


def plot_comparison(path: str, found: Sequence[Result]) -> None:
    """Draw bars: total time, completion time (waiting and execution), energy, deaths."""
    limits = found[0].limits
    several = len({result.variant.estimator for result in found}) > 1
    names = [
        _text(variant_name(r, found) + (f"\n{r.variant.estimator}" if several else ""))
        for r in found
    ]
    spreads = [over_seeds(result.runs) for result in found]
    places = range(len(found))
    figure, rows = _figure(4, (max(7.0, 1.0 * len(found) + 3), 12))

    def bars(axes: Any, name: str, scale: float, words: str, **more: Any) -> None:
        values = [(s[name].mean or 0.0) / scale for s in spreads]
        errors = [(s[name].sd or 0.0) / scale for s in spreads]
        axes.bar(places, values, yerr=errors if any(errors) else None, capsize=3, **more)
        axes.set_ylabel(words)
        axes.set_xticks(places, names)

    bars(rows[0], "makespan_s", _HOUR_S, "total time (h)")
    rows[0].axhline(limits.makespan_s / _HOUR_S, linestyle="--", color="grey", label="lower bound")
    rows[0].legend(fontsize="small")
    bars(rows[1], "mean_jct_s", _HOUR_S, "completion time (h)", color="C1", label="execution")
    waits = [(s["mean_wait_s"].mean or 0.0) / _HOUR_S for s in spreads]
    rows[1].bar(places, waits, color="C0", label="waiting")
    rows[1].axhline(limits.mean_jct_s / _HOUR_S, linestyle="--", color="grey", label="lower bound")
    rows[1].legend(fontsize="small")
    bars(rows[2], "energy_j", 1e6, "energy (MJ)", color="C2")
    bars(rows[3], "oom_count", 1.0, "out-of-memory deaths", color=_DEAD)
    figure.suptitle(f"{found[0].runs[0].jobs} jobs, {len(found[0].runs)} seeds")
    _save(figure, path)


def _figure(rows: int, size: tuple[float, float]) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    return figure, figure.subplots(rows, 1)


def _text(text: str) -> str:
    """Users' text made plain; a `$` would start a formula of matplotlib."""
    return "\n".join(plain(line) for line in text.split("\n")).replace("$", r"\$")


def _save(figure: Any, path: str) -> None:
    try:
        figure.savefig(path, dpi=120)
    except OSError as error:
        raise BadFile(f"cannot write {path}: {error.strerror}") from None

"""The experiments of chapter 3 of the thesis of RAD-RM, on this GPU.

Figure 3.1: what each measure of load says of a kernel with few or many blocks and threads.
Table 3.2: what reading costs a training, here with radrm's daemon as the tool.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import time
from pathlib import Path
from typing import Any

from proofs.acceptance.daemon import running
from proofs.acceptance.step import Failed, Step, lines_of, said

EPOCHS = 3
_TICKS_S = os.sysconf("SC_CLK_TCK")
_MOST_SLOWER = 1.10
"""The thesis finds nothing beyond noise; a virtual machine has more of it."""


def blocks(step: Step) -> str:
    """Utilization, graphics-engine activity, SM activity and occupancy by blocks and threads."""
    step.python()
    done = step.command(step.program("blocks.py", "--gpu", step.uuid), timeout_s=115)
    step.check(done.returncode == 0, f"blocks.py: {said(done)}")
    step.keep("blocks.jsonl", done.stdout)
    points = lines_of(done.stdout)
    step.record(points=points)
    one, full = points[0], points[-1]
    for point in (one, full):
        for name in ("graphics", "smact", "occupancy"):
            step.check(point[name] is not None, f"{name} was not measured")
    step.check(one["graphics"] > 0.5, f"one thread: graphics-engine activity {one['graphics']:.2f}")
    step.check(one["smact"] < 0.05, f"one thread: SM activity {one['smact']:.3f}")
    step.check(full["smact"] > 0.8, f"all SMs at work: SM activity {full['smact']:.2f}")
    step.check(full["occupancy"] > one["occupancy"], "occupancy does not grow with the threads")
    return (
        f"one thread: graphics {one['graphics']:.2f}, SMACT {one['smact']:.3f}; full: SMACT "
        f"{full['smact']:.2f}, occupancy {full['occupancy']:.2f}"
    )


def overhead(step: Step) -> str:
    """Epoch times, CPU time and memory of a training, with and without radrm's readings."""
    alone = [_train(step)]
    with running(step) as server:
        assert server.process is not None
        before_s, began = _cpu_s(server.process.pid), time.monotonic()
        read = [_train(step), _train(step)]
        seconds = time.monotonic() - began
        cpu_s = _cpu_s(server.process.pid) - before_s
        daemon = {"cpu_share": cpu_s / seconds, "memory_mib": _memory_mib(server.process.pid)}
    alone.append(_train(step))
    step.record(alone=alone, read=read, daemon=daemon)
    plain, watched = (_epoch_s(each) for each in (alone, read))
    step.record(epoch_s={"alone": plain, "read": watched})
    slower = f"an epoch takes {plain:.2f} s, with radrm's readings {watched:.2f} s"
    step.check(watched <= plain * _MOST_SLOWER, slower)
    return (
        f"{slower}; the daemon uses {100 * daemon['cpu_share']:.1f} % of a CPU and "
        f"{daemon['memory_mib']:.0f} MiB"
    )


# ------------------------------------------------------------------ helpers


def _train(step: Step) -> dict[str, Any]:
    """Epoch times of one run, and what its process used."""
    command = step.program("train.py", "--epochs", EPOCHS)
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except subprocess.TimeoutExpired:
        raise Failed("a training of three epochs took more than 60 s") from None
    print(done.stdout, done.stderr, flush=True)
    step.check(done.returncode == 0, f"train.py: {said(done)}")
    *epochs, used = lines_of(done.stdout)
    return {"epochs_s": [each["epoch_s"] for each in epochs], **used}


def _epoch_s(runs: list[dict[str, Any]]) -> float:
    """The mean epoch without the first of each run, which warms up."""
    return statistics.mean(each for run in runs for each in run["epochs_s"][1:])


def _cpu_s(pid: int) -> float:
    """CPU seconds of a process and its ended children."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(int(word) for word in words[11:15]) / _TICKS_S


def _memory_mib(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise Failed(f"/proc/{pid}/status has no VmHWM")


def table(points: list[dict[str, Any]]) -> list[str]:
    """Figure 3.1 as Markdown."""
    lines = ["| threads | blocks | utilization | graphics engine | SMACT | occupancy |"]
    lines.append("|---|---|---|---|---|---|")
    for point in points:
        names = ("utilization", "graphics", "smact", "occupancy")
        cells = ["-" if point[name] is None else f"{point[name]:.3f}" for name in names]
        lines.append(f"| {point['threads']} | {point['blocks']} | {' | '.join(cells)} |")
    return lines


def costs(facts: dict[str, Any]) -> list[str]:
    """Table 3.2 as Markdown."""
    lines = ["| tool | epoch (s) | CPU of the training (s) | its host memory (MiB) |"]
    lines.append("|---|---|---|---|")
    for name, runs in (("none", facts["alone"]), ("radrm's readings", facts["read"])):
        cpu_s, memory_mib = (statistics.mean(r[k] for r in runs) for k in ("cpu_s", "memory_mib"))
        lines.append(f"| {name} | {_epoch_s(runs):.3f} | {cpu_s:.1f} | {memory_mib:.0f} |")
    return [*lines, "", f"The daemon: `{json.dumps(facts['daemon'])}`."]

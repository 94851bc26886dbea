"""Table 3.2 of the thesis of RAD-RM on this GPU: what reading costs a training."""

from __future__ import annotations

import json
import statistics
import subprocess
import time
from typing import Any

from proofs.acceptance.daemon import running
from proofs.acceptance.step import Failed, Step, lines_of, said
from proofs.processes import cpu_s, figures

EPOCHS = 3
_MOST_SLOWER = 1.10
"""The thesis finds nothing beyond noise; a virtual machine has more of it."""


def overhead(step: Step) -> str:
    """Epoch times, CPU time and memory of a training, with and without radrm's readings."""
    alone = [_train(step)]
    with running(step) as server:
        assert server.process is not None
        before_s, began = cpu_s(server.process.pid), time.monotonic()
        read = [_train(step), _train(step)]
        seconds = time.monotonic() - began
        used_s = cpu_s(server.process.pid) - before_s
        daemon = {
            "cpu_share": used_s / seconds,
            "memory_mib": figures(server.process.pid)["VmHWM"] / 1024,
        }
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


def costs(facts: dict[str, Any]) -> list[str]:
    """Table 3.2 as Markdown."""
    lines = ["| tool | epoch (s) | CPU of the training (s) | its host memory (MiB) |"]
    lines.append("|---|---|---|---|")
    for name, runs in (("none", facts["alone"]), ("radrm's readings", facts["read"])):
        cpu_s, memory_mib = (statistics.mean(r[k] for r in runs) for k in ("cpu_s", "memory_mib"))
        lines.append(f"| {name} | {_epoch_s(runs):.3f} | {cpu_s:.1f} | {memory_mib:.0f} |")
    return [*lines, "", f"The daemon: `{json.dumps(facts['daemon'])}`."]

"""Chapters 3 to 5 of the thesis of RAD-RM on this GPU.

metrics    Figure 3.1: what the GPU's figures say of kernels of known size
overhead   Table 3.2: what reading them costs a training
mixed      Figures 4.12 and 4.13: different trainings at once
labels     section 5.4: measured memory of random networks, beside the modelled labels
"""

from __future__ import annotations

import contextlib
import csv
import json
import os
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import asdict

from benchmarks import micro
from proofs.acceptance.daemon import running
from proofs.acceptance.sharing import CONTROL, served
from proofs.acceptance.step import REHEARSAL, Failed, NotHere, Step, lines_of, said
from proofs.processes import cpu_s, figures
from tests.gpu.server import mean
from tests.paths import REPOSITORY


def _on_gpu(step: Step) -> dict[str, str]:
    """The environment of a program that runs without a daemon."""
    return {**os.environ, "CUDA_VISIBLE_DEVICES": step.uuid}


# ------------------------------------------------------------------ Figure 3.1

_SECONDS = 3.0


def metrics(step: Step) -> str:
    """Figures of kernels of known size. One thread must look like much to GRACT only."""
    with micro.Sampler(step.uuid) as sampler:
        points = list(micro.measure(step.python(), sampler, _SECONDS))
    step.record(points=[asdict(each) for each in points])
    one, last = ([each.gract, each.smact] for each in (points[0], points[-1]))
    step.check(None not in (*one, *last), "no hardware counters here")
    (gract, least), (_, most) = one, last
    told = f"one thread: GRACT {gract:.2f}, SMACT {least:.3f}; the most threads: SMACT {most:.2f}"
    step.check(gract > 0.5 and least < 0.1 and most > 0.5, told)
    return told


def activity(facts: Mapping[str, Any]) -> list[str]:
    """Figure 3.1 as Markdown."""
    return micro.table([micro.Point(**each) for each in facts["points"]])


# ------------------------------------------------------------------ Table 3.2

EPOCHS = 3
_MOST_SLOWER = 1.10
"""The thesis finds nothing beyond noise; a virtual machine has more of it."""
_FIELDS = "utilization.gpu,utilization.memory,memory.used,power.draw"
TOOLS: Mapping[str, Sequence[str]] = {
    "top": ("top", "-b", "-d", "1"),
    "nvidia-smi": ("nvidia-smi", f"--query-gpu={_FIELDS}", "--format=csv", "-lms", "1000"),
    "dcgm": ("dcgmi", "dmon", "-e", "203,1001,1002,1003,1005,155", "-d", "1000"),
}
"""Each reads once a second. Not here: nsys, which a machine with PyTorch alone does not have."""
TRAININGS: Mapping[str, Sequence[object]] = {
    "light": ("train.py", "--epochs", EPOCHS),
    "heavy": ("resnet.py", "--depth", 50, "--image", 224, "--batch", 32, "--steps", 200),
}
"""The thesis' own: a small CNN for MNIST; ResNet50 for ImageNet, here so many steps of it."""
_PROFILED_EPOCHS = 2


def overhead(step: Step) -> str:
    """Times, CPU time and memory of two trainings, with and without what reads the GPU."""
    runs: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for training in TRAININGS:
        found = runs[training] = {"none": [_train(step, training)]}
        for tool, command in TOOLS.items():
            if shutil.which(command[0]):
                with _beside(step, command) as file:
                    found[tool] = [_train(step, training)]
                found[tool][0]["bytes"] = file.stat().st_size
        with running(step) as server:
            before_s, began = cpu_s(server.process.pid), time.monotonic()
            found["radrm"] = [_train(step, training), _train(step, training)]
            seconds = time.monotonic() - began
            used_s = cpu_s(server.process.pid) - before_s
            memory_mib = figures(server.process.pid)["VmHWM"] / 1024
        found["none"].append(_train(step, training))
    runs["light"]["pytorch"] = [_profiled(step)]
    daemon = {"cpu_share": used_s / seconds, "memory_mib": memory_mib}
    step.record(runs=runs, daemon=daemon)
    told = []
    for training, found in runs.items():
        plain, watched = (_step_s(found[name]) for name in ("none", "radrm"))
        told.append(f"{training} {1e3 * plain:.1f} ms, with radrm's readings {1e3 * watched:.1f}")
        step.check(watched <= plain * _MOST_SLOWER, told[-1])
    return (
        f"{'; '.join(told)}; the daemon uses {100 * daemon['cpu_share']:.1f} % of a CPU and "
        f"{daemon['memory_mib']:.0f} MiB"
    )


@contextlib.contextmanager
def _beside(step: Step, command: Sequence[str]) -> Iterator[Path]:
    """A tool that writes into a file of the step while this lasts."""
    path = step.raw / f"{step.name}-{command[0]}.txt"
    with path.open("wb") as file, subprocess.Popen(command, stdout=file, stderr=file) as tool:
        try:
            yield path
        finally:
            tool.terminate()


def _train(step: Step, training: str, *more: object, timeout_s: float = 60) -> dict[str, Any]:
    """What one run says of its epochs or steps, and what its process used."""
    name, *words = TRAININGS[training]
    command = step.program(str(name), *words, *more)
    try:
        done = subprocess.run(
            command,
            env=_on_gpu(step),
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Failed(f"{name} took more than {timeout_s:g} s") from None
    print(done.stdout, done.stderr, flush=True)
    step.check(done.returncode == 0, f"{name}: {said(done)}")
    *epochs, used = lines_of(done.stdout)
    # The first epoch warms up.
    return {"step_s": mean([each["epoch_s"] for each in epochs[1:]]), **used}


def _profiled(step: Step) -> dict[str, Any]:
    """The light training under PyTorch's profiler. Its trace is counted, and not kept."""
    path = step.folder / "profile.json"
    words = ("--epochs", _PROFILED_EPOCHS, "--profile", path)
    try:
        run = _train(step, "light", *words, timeout_s=100)
        return {**run, "bytes": path.stat().st_size}
    finally:
        path.unlink(missing_ok=True)


def _step_s(runs: Sequence[Mapping[str, Any]]) -> float:
    return statistics.mean(each["step_s"] for each in runs)


def costs(facts: Mapping[str, Any]) -> list[str]:
    """Table 3.2 as Markdown."""
    lines = [f"Light: an epoch of {EPOCHS}, heavy: a step. PyTorch's profiler: {_PROFILED_EPOCHS}"]
    lines[0] += " epochs. nsys: not tried."
    lines += ["", "| training | tool | ms | data (kB) | CPU (s) | host memory (MiB) |"]
    lines.append("|---|---|---|---|---|---|")
    for training, found in facts["runs"].items():
        for tool, runs in found.items():
            size = f"{runs[0]['bytes'] / 1000:.1f}" if "bytes" in runs[0] else ""
            used = (statistics.mean(run[key] for run in runs) for key in ("cpu_s", "memory_mib"))
            cells = f"{1e3 * _step_s(runs):.1f} | {size} | {' | '.join(f'{u:.0f}' for u in used)}"
            lines.append(f"| {training} | {tool} | {cells} |")
    return [*lines, "", f"The daemon: `{json.dumps(facts['daemon'])}`."]


# ------------------------------------------------------------------ Figures 4.12 and 4.13

PROGRAMS: Mapping[str, Sequence[object]] = {
    "S": ("--depth", 26, "--image", 32, "--classes", 10, "--steps", 200),
    "M": ("--depth", 50, "--image", 64, "--steps", 500),
}
"""ResNet26 for CIFAR-10 and ResNet50 for ImageNet64, batches of 128. Two epochs are 782 and 20,020
steps: S has more of its own than M, or it would end before the GPU was read once."""
MIXES = ("SMM", "SSMM", "SMMM")
"""Of Figure 4.12 those that the text names. MIG is as found, so MIG is not tried."""


def mixed(step: Step) -> str:
    """Mixes time-sliced and under MPS, beside their programs one after another."""
    alone: dict[str, float] = {}
    rows: dict[str, dict[str, Any]] = {}
    step.record(alone=alone, mixes=rows)
    with micro.Sampler(step.uuid) as sampler:
        for name in PROGRAMS:
            alone[name] = _together(step, sampler, name, None)["seconds"]
        for mix in MIXES:
            row = rows[mix] = {"serial": {"seconds": sum(alone[name] for name in mix)}}
            row["time-sliced"] = _together(step, sampler, mix, None)
        if shutil.which(CONTROL):
            with served(step) as mps:
                for mix in MIXES:
                    rows[mix]["mps"] = _together(step, sampler, mix, mps.environment)
    step.keep("mixed.json", json.dumps(rows))
    for row in rows.values():
        for found in row.values():
            found.pop("samples", None)
    step.record(alone=alone, mixes=rows)
    best = {mix: min(row, key=lambda mode: row[mode]["seconds"]) for mix, row in rows.items()}
    return "least time: " + ", ".join(f"{'+'.join(mix)} {mode}" for mix, mode in best.items())


def _together(
    step: Step, sampler: micro.Sampler, mix: str, environment: Mapping[str, str] | None
) -> dict[str, Any]:
    """Programs that begin at once: seconds to the last end, each one's own, and the GPU's."""
    running = [
        subprocess.Popen(
            step.program("resnet.py", "--wait", *PROGRAMS[name]),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment or _on_gpu(step),
        )
        for name in mix
    ]
    for each in running:
        ready = any(line == "ready\n" for line in each.stdout)
        step.check(ready, f"resnet.py of {mix} has ended before it was ready")
    began_s = time.monotonic()
    for each in running:
        each.stdin.write("go\n")
        each.stdin.flush()
    texts = [each.communicate()[0] for each in running]
    ended_s = time.monotonic()
    step.check(not any(each.returncode for each in running), f"resnet.py of {mix} has failed")
    each_s = [lines_of(text)[-1]["seconds"] for text in texts]
    read = sampler.between(began_s, ended_s)
    small_s = min(each_s)
    parts = {
        "all": [r for r in read if r.at_s <= began_s + small_s],
        "rest": [r for r in read if r.at_s > began_s + small_s],
    }
    return {
        "seconds": max(each_s),
        "each_s": each_s,
        **{f"{key}_smact": mean([r.smact for r in part]) for key, part in parts.items()},
        **{f"{key}_mib": mean([r.used_mib for r in part]) for key, part in parts.items()},
        "samples": [[round(r.at_s - began_s, 2), r.smact, r.used_mib] for r in read],
    }


def collocations(facts: Mapping[str, Any]) -> list[str]:
    """Figures 4.12 and 4.13 as Markdown."""
    head = (
        "| mix | way | s | against serial | each (s) | SMACT: all, then the rest | MiB: the same |"
    )
    lines = [head, "|---|---|---|---|---|---|---|"]
    for mix, row in facts["mixes"].items():
        serial_s = row["serial"]["seconds"]
        for mode, found in row.items():
            change = f"{100 * (found['seconds'] / serial_s - 1):+.0f} %"
            each = ", ".join(f"{one:.1f}" for one in found.get("each_s", ()))
            pairs = (
                ", ".join(
                    "?"
                    if found.get(f"{part}_{key}") is None
                    else f"{found[f'{part}_{key}']:{form}}"
                    for part in ("all", "rest")
                )
                for key, form in (("smact", ".2f"), ("mib", ".0f"))
            )
            cells = ("", "") if mode == "serial" else pairs
            lines.append(
                f"| {'+'.join(mix)} | {mode} | {found['seconds']:.1f} | {change} | {each} |"
                f" {' | '.join(cells)} |"
            )
    return lines


# ------------------------------------------------------------------ the labels of section 5.4

_LABELS_S = 150.0


def labels(step: Step) -> str:
    """Random networks of GPUMemNet's training data, trained here: what the labels are off."""
    found: dict[str, list[dict[str, float]]] = {}
    environment = _on_gpu(step)
    more = ["--gpu"]
    if REHEARSAL in os.environ:
        # The stand-in of PyTorch has no networks: the CPU's own trains some small ones.
        environment["PYTHONPATH"] = str(REPOSITORY)
        done = step.command(
            [step.python(), "-c", "from torch.nn import Embedding"], env=environment
        )
        if done.returncode != 0:
            raise NotHere("no PyTorch to try this with")
        more = ["--cpu", "--seconds", "25"]
    for family in ("cnn", "transformer"):
        path = step.raw / f"{family}_measured.csv"
        command = [step.python(), "-m", "benchmarks.gpumemnet.label", family, "0", "100000"]
        command += ["--seconds", str(_LABELS_S / 2), "--each", "3", "--output", str(path), *more]
        done = step.command(command, timeout_s=_LABELS_S, cwd=REPOSITORY, env=environment)
        step.check(done.returncode == 0 and path.exists(), f"label --gpu: {said(done)}")
        with path.open() as file:
            found[family] = [
                {key: float(row[key]) for key in ("memory_mib", "modelled_mib")}
                for row in csv.DictReader(file)
            ]
    step.record(labels=found)
    told = []
    for family, rows in found.items():
        off = [abs(row["modelled_mib"] / row["memory_mib"] - 1) for row in rows]
        step.check(off, f"no {family} network was measured in the time")
        told.append(f"{len(off)} {family}s, median error {statistics.median(off):.1%}")
    return "; ".join(told)


TABLES: Mapping[str, tuple[str, str, Callable[[Mapping[str, Any]], list[str]]]] = {
    "metrics": ("What figures say of kernels (thesis, Figure 3.1)", "points", activity),
    "overhead": ("What reading costs (thesis, Table 3.2)", "runs", costs),
    "mixed": ("Different trainings at once (thesis, Figures 4.12, 4.13)", "mixes", collocations),
}
"""What the report shows: of which step, its title, the fact that it needs, and its table."""

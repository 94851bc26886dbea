"""Label random networks with the memory of their training, by radrm's tracer or on a GPU.

    python -m benchmarks.gpumemnet.label cnn 0 1500 --seconds 1500

    python -m benchmarks.gpumemnet.label cnn --features

    python -m benchmarks.gpumemnet.label cnn 0 1500 --gpu --output cnn_measured.csv

The first appends to `data/cnn_modelled.csv`: network after network, from that seed on,
until that seed or so many seconds later. The second reads the features of the networks in
it anew, and leaves their labels. Neither uses a GPU: the labels are modelled, not measured.
They are what `nvidia-smi` would show on an A100: what the caching allocator reserves,
cuDNN's workspaces and the CUDA context. Adam, 32-bit floats and no evaluation, as the
thesis collected its data.

The third trains the labelled networks of these seeds on the first visible GPU, each for `--each`
seconds (a minute in the thesis), and writes what the GPU's memory has grown by beside the modelled
label. It needs a GPU with no other process on it. `--cpu` is a dry run without a GPU: one
step of each network below 2,300 MiB. Its figure is the memory of the process, not a measurement.
"""

from __future__ import annotations

import argparse
import csv
import gc
import importlib.util
import multiprocessing
import os
import resource
import sys
import time
import types
from collections.abc import Callable
from functools import lru_cache, partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeVar

import torch

from benchmarks.gpumemnet import nets
from benchmarks.gpumemnet.data import MODELLED, as_words, modelled
from benchmarks.gpumemnet.summaries import summary_of
from radrm.estimators.gpumemnet.features import Family, Features, features_of
from radrm.estimators.memory import context_mib
from radrm.estimators.traces import Traced
from radrm.host.gpus.nvml.library import load

TRACER = Path(__file__).parents[2] / "radrm" / "tracer"
T = TypeVar("T")
LARGEST_MIB = 80_000
"""Beyond this a label tells nothing that another does not."""
DRY_MIB = 2300
_STEPS = 3
"""So many at least on a GPU: Adam's moments are there after the first."""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("family", choices=[family.value for family in MODELLED])
    parser.add_argument("first", type=int, nargs="?", default=0)
    parser.add_argument("last", type=int, nargs="?", default=0)
    parser.add_argument("--features", action="store_true")
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--gpu", action="store_true", help="measure on the first visible GPU")
    parser.add_argument("--cpu", action="store_true", help="try --gpu without one")
    parser.add_argument("--each", type=float, default=60.0, help="seconds of each training")
    parser.add_argument("--output", type=Path, help="where measured labels go")
    asked = parser.parse_args()
    if asked.gpu or asked.cpu:
        if asked.output is None:
            parser.error("--gpu needs --output")
        sys.exit(measure(asked))
    torch.set_num_threads(1)
    if asked.features:
        read_features_again(asked.family)
        return
    # What PyTorch loads at first use is loaded once, before processes are forked.
    memory_mib(asked.family, asked.first)
    gc.collect()
    gc.freeze()
    path, started = MODELLED[Family(asked.family)], time.monotonic()
    fresh = not path.exists()
    with path.open("a", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        for seed in range(asked.first, asked.last):
            if time.monotonic() - started > asked.seconds:
                print(f"time is up before seed {seed}")
                break
            try:
                job = in_child(features, asked.family, seed)
                need_mib = in_child(memory_mib, asked.family, seed)
            except RuntimeError as error:
                print(f"{asked.family}-{seed}: left out: {error}"[:300], file=sys.stderr)
                continue
            if need_mib > LARGEST_MIB:
                continue
            words = {"name": f"{asked.family}-{seed}", **as_words(job)}
            words["memory_mib"] = round(need_mib)
            if fresh:
                table.writerow(words.keys())
                fresh = False
            table.writerow(words.values())
            file.flush()


def read_features_again(family: str) -> None:
    rows = list(modelled(Family(family)))
    with MODELLED[Family(family)].open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        for at, row in enumerate(rows):
            found = as_words(features(family, int(row.group.rpartition("-")[2])))
            words = {"name": row.group, **found, "memory_mib": round(row.memory_mib)}
            if not at:
                table.writerow(words.keys())
            table.writerow(words.values())


def measure(asked: argparse.Namespace) -> int:
    """Train labelled networks, and write what each needs beside its modelled label."""
    # Asked in a child: a process that has asked CUDA may not fork others that use it.
    if not asked.cpu and not in_child(lambda *_: torch.cuda.is_available(), asked.family, 0):
        print("no GPU that PyTorch sees; --cpu tries the program without one", file=sys.stderr)
        return 2
    device, ends = "cpu" if asked.cpu else "cuda", time.monotonic() + asked.seconds
    with asked.output.open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["name", "memory_mib", "modelled_mib"])
        for row in modelled(Family(asked.family)):
            seed = int(row.group.rpartition("-")[2])
            if not asked.first <= seed < asked.last or (asked.cpu and row.memory_mib > DRY_MIB):
                continue
            if time.monotonic() > ends:
                print(f"time is up before seed {seed}")
                break
            try:
                train = partial(measured_mib, device=device, seconds=0 if asked.cpu else asked.each)
                table.writerow(
                    [row.group, round(in_child(train, asked.family, seed)), row.memory_mib]
                )
            except RuntimeError as error:
                print(f"{row.group}: left out: {error}"[:300], file=sys.stderr)
            file.flush()
    return 0


def measured_mib(family: str, seed: int, device: str, seconds: float) -> float:
    """Train a network for so long; MiB by which the GPU's memory has grown, context included.

    PyTorch keeps what it has reserved, so the last look sees the peak. Without a GPU: one step, and
    the peak of this process.
    """
    before_mib = 0.0 if device == "cpu" else _used_mib()
    plan = nets.network_plan(family, seed)
    with torch.device(device):
        job = nets.training_job(family, seed)
    model, inputs, targets = job["model"], job["inputs"], job["targets"]
    if isinstance(plan, nets.CnnPlan):
        inputs.normal_()
        targets.random_(0, plan.classes)
    else:
        inputs.random_(0, plan.vocabulary)
        targets.random_(0, plan.classes or plan.vocabulary)
    optimizer = torch.optim.Adam(model.parameters())
    ends, steps = time.monotonic() + seconds, 0
    while time.monotonic() < ends or steps < (1 if device == "cpu" else _STEPS):
        optimizer.zero_grad()
        job["loss"](model(inputs), targets).backward()
        optimizer.step()
        steps += 1
        if device != "cpu":
            torch.cuda.synchronize()
    if device == "cpu":
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return _used_mib() - before_mib


def _used_mib() -> float:
    """What NVML says of the GPU that CUDA will call 0: `nvidia-smi` shows the same."""
    nvml: Any = load()
    nvml.nvmlInit()
    first = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]
    find = nvml.nvmlDeviceGetHandleByIndex if first.isdecimal() else nvml.nvmlDeviceGetHandleByUUID
    gpu = find(int(first) if first.isdecimal() else first)
    return float(nvml.nvmlDeviceGetMemoryInfo(gpu).used) / 2**20


def in_child(made: Callable[[str, int], T], family: str, seed: int) -> T:
    """Called in a process of its own: the tracer changes PyTorch's functions, and wants them
    untouched. Raises RuntimeError with what went wrong."""
    here, there = multiprocessing.get_context("fork").Pipe(duplex=False)
    arguments = (there, made, family, seed)
    child = multiprocessing.get_context("fork").Process(target=_child, args=arguments)
    child.start()
    there.close()
    try:
        result, problem = here.recv()
    except EOFError:
        raise RuntimeError("its process died") from None
    finally:
        child.join()
    if problem is not None:
        raise RuntimeError(problem)
    told: T = result
    return told


def _child(answer: Connection, made: Callable[[str, int], object], family: str, seed: int) -> None:
    try:
        answer.send((made(family, seed), None))
    except Exception as error:
        answer.send((None, f"{type(error).__name__}: {error}"))


def features(family: str, seed: int) -> Features:
    with torch.device("meta"):
        model, shape, batch_size = nets.network(family, seed)
        dtype = torch.float32 if family == "cnn" else torch.long
        sample = torch.empty(2, *shape, dtype=dtype)
    found = features_of(summary_of(model.train(), sample), batch_size)
    if found is None or found.family.value != family:
        raise ValueError("it has no features of its family")
    return found


@lru_cache(maxsize=1)
def _tracer() -> tuple[Any, Any]:
    """The tracer's program and its `step`, whose files know one another by plain names."""
    sys.path.insert(0, str(TRACER))
    spec = importlib.util.spec_from_file_location("radrm_tracer", TRACER / "__main__.py")
    assert spec is not None and spec.loader is not None
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    return program, importlib.import_module("step")


def memory_mib(family: str, seed: int) -> float:
    program, step = _tracer()
    job = types.ModuleType("random_job")
    job.make = lambda: nets.training_job(family, seed)
    sys.modules[job.__name__] = job
    batch_size = str(nets.network_plan(family, seed).batch_size)
    words = ("random_job:make", "--output", "-", "--optimizer", "adam", "--evaluation-batch", "0")
    asked = program._arguments([*words, "--batch-size", batch_size])
    document = {"version": program.VERSION, "seconds": 0.0, **step.traced(asked)}
    return Traced.from_events(document).reserved_mib + context_mib()


if __name__ == "__main__":
    main()

"""Label random networks with the memory of their training, by radrm's tracer.

    python -m benchmarks.gpumemnet.label cnn 0 1500 --seconds 1500

    python -m benchmarks.gpumemnet.label cnn --features

The first appends to `data/cnn_modelled.csv`: network after network, from that seed on,
until that seed or so many seconds later. The second reads the features of the networks in
it anew, and leaves their labels. No GPU is used: the labels are modelled, not measured.
They are what `nvidia-smi` would show on an A100: what the caching allocator reserves,
cuDNN's workspaces and the CUDA context. Adam, 32-bit floats and no evaluation, as the
thesis collected its data.
"""

from __future__ import annotations

import argparse
import csv
import gc
import importlib.util
import multiprocessing
import sys
import time
import types
from collections.abc import Callable
from functools import lru_cache
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

TRACER = Path(__file__).parents[2] / "radrm" / "tracer"
T = TypeVar("T")
LARGEST_MIB = 80_000
"""Beyond this a label tells nothing that another does not."""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("family", choices=[family.value for family in MODELLED])
    parser.add_argument("first", type=int, nargs="?", default=0)
    parser.add_argument("last", type=int, nargs="?", default=0)
    parser.add_argument("--features", action="store_true")
    parser.add_argument("--seconds", type=float, default=1e9)
    asked = parser.parse_args()
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
    job.make = lambda: nets.training_job(family, seed)  # type: ignore[attr-defined]
    sys.modules[job.__name__] = job
    batch_size = str(nets.network_plan(family, seed).batch_size)
    words = ("random_job:make", "--output", "-", "--optimizer", "adam", "--evaluation-batch", "0")
    asked = program._arguments([*words, "--batch-size", batch_size])
    document = {"version": program.VERSION, "seconds": 0.0, **step.traced(asked)}
    return Traced.from_events(document).reserved_mib + context_mib()


if __name__ == "__main__":
    main()

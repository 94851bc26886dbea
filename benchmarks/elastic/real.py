"""A real training that grows and shrinks: torch with gloo, the daemon, `radrun`, simulated GPUs.

    python -m benchmarks.elastic --real [--runs 5] [--folder PATH]

One worker, then two, then one: the same job by `radrun` in place, and by torchrun, which radrm
saves, stops and starts again. Times are medians of five runs, of both resizes together; run it on
an idle machine. Losses are compared with five seeds at a fixed size.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks import markdown
from benchmarks.elastic import real_training
from benchmarks.table import percentile
from tests.daemon.harness import DaemonHome
from tests.waiting import wait_until

GPUS = "sim:4xA100-40GB"
SIZES = (2, 1)
STEPS = 700
COMPUTE_S = 0.06
_PROGRAM = Path(real_training.__file__)


@dataclass
class Run:
    """What one training has noted."""

    samples_once: bool = False
    loss: float = 0.0
    pauses_s: list[float] = field(default_factory=list)
    stops_s: list[float] = field(default_factory=list)
    requests_s: list[float] = field(default_factory=list)


def read(notes: Path, name: str) -> list[dict[str, Any]]:
    """All whole lines of a file of notes."""
    path = notes / name
    text = path.read_text() if path.exists() else ""
    return [json.loads(line) for line in text.split("\n")[:-1]]


def train(home: DaemonHome, way: str, seed: int, sizes: tuple[int, ...], compute_s: float) -> Run:
    """One training from its first step to its last."""
    notes = Path(tempfile.mkdtemp(dir=home.folder))
    launcher = {
        "elastic": "radrun",
        "plain": "torchrun --standalone --nproc-per-node=$RADRM_GPUS",
    }[way]
    gpus = f"1-{max(sizes)}" if sizes else "1"
    script = notes / "job.rad"
    script.write_text(
        f"#!/bin/bash\n#RAD --gpus={gpus} --gpu-memory=2G --checkpoint=signal\n"
        f'echo "$RADRM_ELASTIC_DIR" > {notes}/place\n'
        f"{launcher} {_PROGRAM} {way} {notes} {seed} {STEPS} {compute_s}\n"
    )
    number = home.submit(str(script))
    run = Run()
    runs = 0

    def steps_of(size: int) -> bool:
        """Whether workers of that number, started since, have done ten steps together."""
        firsts = {each["run"] for each in read(notes, "begun")[runs:]}
        ranks = {n["rank"] for n in read(notes, "steps") if n["run"] in firsts and n["step"]}
        done = [n for n in read(notes, "steps") if n["run"] in firsts and n["rank"] == 0]
        return len(ranks) == size and len(done) >= 10

    wait_until(lambda: steps_of(1), f"the first steps; see {notes}")
    for generation, size in enumerate(sizes, 2):
        runs = len(read(notes, "begun"))
        # A job that is stopped for it may wait a moment in its queue, which the command tells.
        done = home.radrm("resize", str(number), f"--gpus={size}")
        assert way == "plain" or done.returncode == 0, done.stderr
        wait_until(lambda size=size: steps_of(size), f"{size} workers; see {notes}")
        if way == "elastic":
            place = Path((notes / "place").read_text().strip())
            run.stops_s.append(stop_time(place, generation, notes))
    ended = home.wait_end(number)
    if ended["state"] != "COMPLETED":
        raise SystemExit(f"the training failed: {ended['reason']}; see {notes}")
    run.pauses_s = pauses(notes, 1 + len(sizes))
    run.samples_once = sorted(seen(notes)) == list(range(STEPS * real_training.BATCH))
    run.requests_s = [s for each in read(notes, "requests") for s in each["seconds"]]
    run.loss = read(notes, "end")[-1]["loss"]
    return run


def stop_time(place: Path, generation: int, notes: Path) -> float:
    """Seconds from the decision to stop until the old workers' last step."""
    wall_s = time.time() - time.monotonic()
    begun_s = (place / f"begun-{generation}").stat().st_mtime - wall_s
    ended_s = (place / f"resized-{generation}.json").stat().st_mtime - wall_s
    last_s = max(n["at_s"] for n in read(notes, "steps") if n["at_s"] <= ended_s)
    return max(0.0, last_s - begun_s)


def groups(notes: Path) -> list[dict[str, Any]]:
    """The runs of the first rank, in order."""
    return [each for each in read(notes, "begun") if each["rank"] == 0]


def pauses(notes: Path, generations: int) -> list[float]:
    """Seconds between the last step that counts before a resize, and the first one after it."""
    begun = groups(notes)
    steps = [each for each in read(notes, "steps") if each["rank"] == 0]
    assert len(begun) == generations, begun
    found = []
    for before, after in pairwise(begun):
        last = max(
            each["at_s"]
            for each in steps
            if each["run"] == before["run"] and each["step"] <= after["step"]
        )
        found.append(min(n["at_s"] for n in steps if n["run"] == after["run"]) - last)
    return found


def seen(notes: Path) -> list[int]:
    """All samples that the surviving model has seen; a run goes on from a step of the last one."""
    begun = read(notes, "begun")
    firsts = groups(notes)
    found: list[int] = []
    for number, first in enumerate(firsts):
        until_step = firsts[number + 1]["step"] if number + 1 < len(firsts) else STEPS
        ranks = {each["run"] for each in begun if each["step"] == first["step"]}
        for each in read(notes, "steps"):
            if each["run"] in ranks and first["step"] < each["step"] <= until_step:
                found += each["samples"]
    return found


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.elastic --real")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="an empty folder to keep all notes and logs in")
    options = parser.parse_args(arguments)
    if options.folder is not None:
        options.folder.mkdir(parents=True, exist_ok=True)
        return measure(options.folder.resolve(), options.runs)
    with tempfile.TemporaryDirectory(prefix="radrm-real-") as folder:
        return measure(Path(folder), options.runs)


def measure(folder: Path, runs: int) -> int:
    """Make all runs and print the rows."""
    home = DaemonHome(folder, GPUS, scale=1.0)
    home.scripts = True
    home.start()
    try:
        seeds = range(runs)
        fixed = [train(home, "elastic", seed, (), 0.0) for seed in seeds]
        resized = [train(home, "elastic", seed, SIZES, COMPUTE_S) for seed in seeds]
        restarted = [train(home, "plain", seed, SIZES, COMPUTE_S) for seed in seeds]
    finally:
        home.close()
    print(report(fixed, resized, restarted))
    return 0


def report(fixed: list[Run], resized: list[Run], restarted: list[Run]) -> str:
    """The rows, as a table in Markdown."""
    stop_s = statistics.median(each for run in resized for each in run.stops_s)
    pause_s = statistics.median(each for run in resized for each in run.pauses_s)
    restart_s = statistics.median(each for run in restarted for each in run.pauses_s)
    requests = [each for run in resized for each in run.requests_s]
    losses = [run.loss for run in fixed]
    worst = max(resized, key=lambda run: abs(run.loss - statistics.mean(losses)))
    once = sum(run.samples_once for run in resized)
    rows = [
        ("every sample once", f"{once} of {len(resized)} runs", "all"),
        ("stop at a step boundary", f"{stop_s:.2f} s", "at most 0.5 s"),
        ("time without a step, standbys", f"{pause_s:.2f} s", "at most 2 s"),
        ("time without a step, save, stop and start", f"{restart_s:.2f} s", "beside it"),
        (
            "request for data, 99th percentile",
            f"{percentile(requests, 0.99) * 1e3:.2f} ms of {len(requests)}",
            "at most 1 ms",
        ),
        (
            "final loss farthest from the mean at a fixed size",
            f"{worst.loss:.5f}",
            f"{min(losses):.5f} to {max(losses):.5f}",
        ),
    ]
    return "\n".join(markdown.table(("", "reached", "to reach"), rows))

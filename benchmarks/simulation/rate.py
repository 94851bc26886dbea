"""The simulator's rate: events of the world per second of processor time, and memory per job.

    python -m benchmarks.simulation.rate                        this tree
    python -m benchmarks.simulation.rate --against COMMIT       and a commit, in turns
    python -m benchmarks.simulation.rate --gpus 64 --jobs 10000
    python -m benchmarks.simulation.rate --replay 10000         `radrm replay`: one draw of a past

Jobs come faster than the GPUs serve them (26 an hour for four), so a head waits at almost every
event. The other commit runs from a git worktree of its own. Both must give the same run, bit for
bit, unless a change of decisions lies between them.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

COUNTS = (100, 1_000, 10_000)
PER_HOUR = 26.0 / 4
"""Jobs that come for each GPU."""
RULES = ("policy=magm", "order=fifo", "planner=default")
"""The rules of the first measurements, so that any commit can be compared."""
_REPOSITORY = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Rate:
    """One run: events of the simulated world, seconds of processor time, digest of the run, and the
    memory that it needed at most, in KiB for each job."""

    events: int
    seconds: float
    digest: str
    job_kib: float

    @property
    def per_s(self) -> float:
        return self.events / self.seconds


def run_once(count: int, gpus: int = 4) -> Rate:
    """Simulate so many jobs in this process. It imports only what old commits have, too."""
    from radrm.config import Config, with_set
    from radrm.simulated.spec import parse
    from radrm.simulator.engine import simulate
    from radrm.simulator.scenario import Scenario
    from radrm.simulator.traces.job import TraceJob
    from radrm.simulator.world import World

    rng, now_s, jobs = random.Random(0), 0.0, []
    for number in range(count):
        now_s += rng.expovariate(PER_HOUR * gpus / 3600)
        jobs.append(
            TraceJob(
                submit_s=now_s,
                name=f"job{number}",
                gpus=rng.choice((1, 1, 1, 1, 1, 1, 1, 2)),
                duration_s=60 + rng.expovariate(1 / 900),
                memory_mib=rng.uniform(1500, 24000),
                smact=rng.choice((0.07, 0.3, 0.45, 0.62, 0.85)),
                batch_size=rng.choice((32, 64, 128)),
            )
        )
    events, advance = 0, World.advance

    def counted(world: World) -> object:
        nonlocal events
        events += 1
        return advance(world)

    config = Config()
    for setting in RULES:
        config = with_set(config, setting)
    setattr(World, "advance", counted)  # noqa: B010  (a method of another class)
    try:
        before_kib, begun = _peak_kib(), time.process_time()
        run = simulate(jobs, Scenario(devices=parse(f"sim:{gpus}xA100-40GB"), config=config))
        seconds = time.process_time() - begun
    finally:
        setattr(World, "advance", advance)  # noqa: B010
    job_kib = (_peak_kib() - before_kib) / count
    text = repr((run.jobs, run.devices, run.decisions))
    return Rate(events, seconds, hashlib.sha256(text.encode()).hexdigest(), job_kib)


def _peak_kib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def replay_once(count: int) -> str:
    """Say how long one draw of a past of so many jobs takes: to solve it, and to simulate it."""
    from benchmarks.simulation.replays import drawn
    from radrm.config import Config
    from radrm.simulated.spec import parse
    from radrm.simulator.engine import simulate
    from radrm.simulator.scenario import Scenario
    from radrm.simulator.traces.past import RECORDED, replayed
    from tests.simulator.pasts import BEGIN, as_past

    config = Config(policy="magm", order="fifo", planner=("default",))
    scenario = Scenario(parse("sim:4xA100-40GB"), config, estimator=RECORDED)
    made = drawn(0, count)
    past = as_past(simulate(made, scenario))
    begun = time.process_time()
    (draw,) = replayed(past, BEGIN, 1).draws
    solved = time.process_time()
    simulate([replace(job, estimates=made[job.line - 1].estimates) for job in draw], scenario)
    ended = time.process_time()
    return f"a past of {count:,} jobs: {solved - begun:.1f} s + {ended - solved:.1f} s for a draw"


def _in_process(tree: Path, count: int, gpus: int) -> Rate:
    """The same in a process of its own, with the package of this tree."""
    command = [sys.executable, str(Path(__file__).resolve()), "--once", str(count)]
    command += ["--gpus", str(gpus)]
    environment = {**os.environ, "PYTHONPATH": str(tree), "PYTHONHASHSEED": "0"}
    done = subprocess.run(
        command, check=True, cwd=tree, env=environment, stdout=subprocess.PIPE, text=True
    )
    return Rate(**json.loads(done.stdout))


@contextmanager
def _worktree(commit: str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        git = ["git", "-C", str(_REPOSITORY), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", str(tree), commit], check=True)
        try:
            yield tree
        finally:
            subprocess.run([*git, "remove", "--force", str(tree)], check=True)


def compare(trees: Sequence[Path], counts: Sequence[int], gpus: int, rounds: int) -> None:
    """Print the median rate of each tree; they run in turns."""
    for count in counts:
        found = [[_in_process(tree, count, gpus) for tree in trees] for _ in range(rounds)]
        per_s = [statistics.median(run.per_s for run in runs) for runs in zip(*found, strict=True)]
        told = " beside ".join(f"{rate:,.0f}" for rate in per_s)
        line = f"{gpus} GPUs, {count:,} jobs, {found[0][0].events:,} events: {told} events/s"
        if len(trees) > 1:
            same = len({run.digest for runs in found for run in runs}) == 1
            line += f" ({per_s[0] / per_s[1]:.2f} x), runs {'equal' if same else 'DIFFER'}"
        print(f"{line}; {found[0][0].job_kib:.1f} KiB per job", flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.simulation.rate")
    parser.add_argument("--against", metavar="COMMIT")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--jobs", type=int, nargs="+", default=COUNTS)
    parser.add_argument("--gpus", type=int, default=4)
    parser.add_argument("--replay", type=int, metavar="JOBS")
    parser.add_argument("--once", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.once is not None:
        print(json.dumps(vars(run_once(args.once, args.gpus))))
    elif args.replay is not None:
        print(replay_once(args.replay))
    elif args.against is None:
        compare([_REPOSITORY], args.jobs, args.gpus, args.rounds)
    else:
        with _worktree(args.against) as other:
            compare([_REPOSITORY, other], args.jobs, args.gpus, args.rounds)
    return 0


if __name__ == "__main__":
    sys.exit(main())

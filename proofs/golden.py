"""Golden results: what a change that promises to change nothing must leave as it is.

`python -m proofs.golden FILE` records into FILE, or compares with it where it exists:

- `simulate --json` for every policy, order, planner and recovery over the traces of examples/;
- `status --json` after a scripted day of a real daemon on simulated GPUs, without what depends on
  the clock: times, sizes that were read, process ids;
- exit codes of commands, right and wrong.

Record at the commit before the change (in a work tree of its own), compare after it. Exit status:
0 all the same, 1 something differs, each difference on a line.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.daemon.harness import DaemonHome, simjob
from tests.paths import REPOSITORY

TRACES = REPOSITORY / "examples" / "traces"
SERVER = ("--gpus", "sim:4xA100-40GB", "--seeds", "2", "--json")

POLICIES = ("best-fit", "exclusive", "first-fit", "lug", "magm", "mug", "packing", "rr")
ORDERS = ("due", "fair", "fifo", "latest-start", "shortest", "smallest-work", "weight")
PLANNERS = ("backfill", "deadline", "strict", "elastic", "flowcon", "nearchus", "specon")
RECOVERIES = ("doubling", "exclusive", "ladder", "none", "own-device")
MODES = ("mps", "timeslice", "exclusive")


def simulations() -> list[tuple[str, ...]]:
    """Arguments of `radrm simulate`, without the server."""
    mixed, sharing = "mixed.csv", "sharing.csv"
    found: list[tuple[str, ...]] = []
    for trace in (mixed, sharing):
        found += [(trace, "--policy", each, "--estimator", "oracle") for each in POLICIES]
        found += [(trace, "--policy", each, "--fidelity", "published") for each in POLICIES[:-1]]
        found += [(trace, "--recovery", each, "--estimator", "none") for each in RECOVERIES]
        found += [(trace, "--collocation", each, "--known", "smact,duration=0.3") for each in MODES]
    found += [("afternoon.csv", "--order", each, "--users", "4") for each in ORDERS]
    found += [("afternoon-due.csv", "--planner", each) for each in PLANNERS]
    found += [("elastic.csv", "--planner", each) for each in ("elastic", "dlrover")]
    found += [("servers.csv", "--servers", "3", "--dealer", each) for each in ("hash", "gpumem")]
    found += [("--import", "andreas", "--nodes", "4", "--planner", "andreas")]
    return found


def simulated(arguments: tuple[str, ...]) -> Any:
    """The document of one simulation, or its exit code and what it says."""
    words = [str(TRACES / each) if each.endswith(".csv") else each for each in arguments]
    server = SERVER[2:] if "--import" in arguments or "servers.csv" in arguments else SERVER
    with TemporaryDirectory(prefix="radrm-golden-") as folder:
        done = subprocess.run(
            [sys.executable, "-m", "radrm.cli.main", "simulate", *words, *server],
            env={"PATH": "/usr/bin:/bin", "RADRM_HOME": folder, "PYTHONPATH": str(REPOSITORY)},
            capture_output=True,
            text=True,
            check=False,
        )
    return json.loads(done.stdout) if done.returncode == 0 else [done.returncode, done.stderr]


# ------------------------------------------------------------------ a scripted day

DAY: tuple[tuple[str, ...], ...] = (
    ("--name=done", "--gpu-memory=4G", "--", *simjob(4, 0.3, 20)),
    ("--name=fails", "--gpus=0", "--", "bash", "-c", "exit 3"),
    ("--name=again", "--gpus=0", "--retries=1", "--", "bash", "-c", "exit 4"),
    ("--name=grows", "--gpu-memory=4G", "--", *simjob(30, 0.3, 20)),
    ("--name=whole", "--exclusive", "--", *simjob(8, 0.9, 20)),
    ("--name=array", "--gpus=0", "--array=0-3", "--", "bash", "-c", "exit $RADRM_ARRAY_TASK_ID"),
    ("--name=after", "--gpus=0", "--after=done", "--", "true"),
    ("--name=never", "--gpus=0", "--after-ok=fails", "--", "true"),
    ("--name=held", "--gpus=0", "--hold", "--", "true"),
    ("--name=late", "--gpus=0", "--time=1s", "--", "sleep", "1000"),
    ("--name=both", "--gpus=2", "--gpu-memory=2G", "--", *simjob(2, 0.2, 20)),
    ("--name=large", "--gpu-memory=400G", "--", "true"),
)
"""Jobs of a day, by the arguments of `radrm submit`."""

ENDED = ("COMPLETED", "FAILED", "TIMEOUT", "CANCELLED")


def day() -> dict[str, Any]:
    """What `status --json` says of each job when the day is over, and how its submission ended."""
    found: dict[str, Any] = {}
    with TemporaryDirectory(prefix="radrm-golden-") as folder:
        home = DaemonHome(Path(folder))
        home.start()
        try:
            for words in DAY:
                done = home.radrm("submit", "--json", *words)
                found[f"submit {words[0]}"] = done.returncode
            found["cancel held"] = home.radrm("cancel", "held").returncode
            found["wait"] = home.radrm("wait", "*").returncode
            for job in home.json("status", "--all"):
                found[f"job {job['name']} {job['id']}"] = lasting(job)
        finally:
            home.close()
    return found


def lasting(job: dict[str, Any]) -> dict[str, Any]:
    """What of a job's document does not depend on the clock, and the names of all its fields."""
    kept = ("state", "outcome", "exit_code", "attempts", "priority", "reason", "user")
    return {**{key: job[key] for key in kept if key in job}, "fields": dict.fromkeys(job, "there")}


# ------------------------------------------------------------------ exit codes

COMMANDS: tuple[tuple[str, ...], ...] = (
    ("--version",),
    ("--help",),
    ("submit", "--help"),
    ("nonsense",),
    ("status",),
    ("status", "99"),
    ("status", "--json"),
    ("cancel", "99"),
    ("wait", "99"),
    ("logs", "99"),
    ("explain", "99"),
    ("edit", "99", "--priority=-1"),
    ("hold", "99"),
    ("release", "99"),
    ("requeue", "99"),
    ("submit",),
    ("submit", "--gpus=-1", "--", "true"),
    ("submit", "--gpu-memory=x", "--", "true"),
    ("submit", "--gpu-memory=4G:2G", "--", "true"),
    ("submit", "--array=5-1", "--", "true"),
    ("submit", "missing.rad"),
    ("submit", "--time=never", "--", "true"),
    ("simulate", "missing.csv"),
    ("simulate", "mixed.csv", "--policy", "nonsense"),
    ("compare", "missing.csv"),
    ("config", "check"),
    ("policies",),
    ("gpus",),
    ("history",),
    ("report",),
    ("limits",),
    ("run", "--gpus=0", "--", "bash", "-c", "exit 7"),
    ("run", "--gpus=0", "--", "true"),
    ("run", "--gpus=0", "--", "bash", "-c", "kill -9 $$"),
)


def exit_codes() -> dict[str, int]:
    """The exit code of each command, with a daemon and without."""
    found = {}
    with TemporaryDirectory(prefix="radrm-golden-") as folder:
        home = DaemonHome(Path(folder))
        for words in COMMANDS:
            if words[0] not in ("run", "submit", "wait"):
                found[f"no daemon: {' '.join(words)}"] = code_of(home, words)
        home.start()
        try:
            for words in COMMANDS:
                found[" ".join(words)] = code_of(home, words)
        finally:
            home.close()
    return found


def code_of(home: DaemonHome, words: tuple[str, ...]) -> int:
    return home.radrm(*(str(TRACES / w) if (TRACES / w).exists() else w for w in words)).returncode


# ------------------------------------------------------------------ the comparison


def record() -> dict[str, Any]:
    """Everything, by name."""
    found: dict[str, Any] = {}
    for arguments in simulations():
        found["simulate " + " ".join(arguments)] = simulated(arguments)
        print(".", end="", flush=True)
    found |= {f"day: {name}": value for name, value in day().items()}
    found |= {f"exit code: {name}": value for name, value in exit_codes().items()}
    print()
    return found


def differences(before: Any, after: Any, where: str) -> list[str]:
    """One line for each value that is not the same."""
    if isinstance(before, dict) and isinstance(after, dict):
        names = sorted({*before, *after})
        return [
            line
            for name in names
            for line in differences(before.get(name), after.get(name), f"{where} / {name}")
        ]
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        pairs = enumerate(zip(before, after, strict=True))
        return [line for i, (a, b) in pairs for line in differences(a, b, f"{where}[{i}]")]
    if before == after:
        return []
    return [f"{where.removeprefix(' / ')}: {str(before)[:200]} -> {str(after)[:200]}"]


def main(path: Path) -> int:
    """Record into `path`, or compare with it."""
    found = json.loads(json.dumps(record()))
    if not path.exists():
        path.write_text(json.dumps(found, indent=1, sort_keys=True))
        print(f"{len(found)} results recorded in {path}")
        return 0
    before = json.loads(path.read_text())
    lines = differences(before, found, "")
    print("\n".join(lines[:200]) or f"all {len(found)} results are the same")
    return 1 if lines else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    sys.exit(main(parser.parse_args().file))

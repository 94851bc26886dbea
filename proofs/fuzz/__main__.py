"""`make fuzz`: hostile inputs for all parsers, and for a real daemon.

    python -m proofs.fuzz [--inputs N] [--target NAME] [--seed S] [--hours H]
    python -m proofs.fuzz --target NAME --repeat FILE

Each target runs in a process of its own, several at a time. A line is printed for each: how many
inputs, how many of them were taken as valid, CPU seconds, growth of the memory, and findings. Each
finding is saved with the command that repeats it. The exit code is 1 if there is one.

With `--hours`, rounds with other seeds follow until the time is over.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from proofs.fuzz import campaign
from proofs.fuzz.hostile_daemon import WAYS, attack
from proofs.fuzz.targets import BY_NAME

INPUTS = 50_000
"""Inputs of each parser."""
MOST_MEMORY = 4 << 30
"""Bytes of address space of a target's process. A parser that needs more gets a MemoryError."""
MOST_GROWN_MIB = 512.0
FINDINGS = Path("fuzz-findings")


@dataclass
class Row:
    """One line of the report."""

    target: str
    inputs: int = 0
    accepted: int = 0
    cpu_s: float = 0.0
    grown_mib: float = 0.0
    findings: Sequence[str] = ()

    def show(self) -> str:
        rate = self.inputs / self.cpu_s if self.cpu_s else 0.0
        return (
            f"{self.target:18} {self.inputs:9,} inputs {self.accepted:9,} valid "
            f"{self.cpu_s:7.1f} s CPU {rate:8,.0f}/s {self.grown_mib:5.0f} MiB "
            f"{len(self.findings):3} findings"
        )


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m proofs.fuzz")
    parser.add_argument("--inputs", type=int, default=INPUTS, help="of each parser")
    parser.add_argument("--target", action="append", help="one target only; may be repeated")
    parser.add_argument("--seed", default="0", help="other inputs for another seed")
    parser.add_argument("--hours", type=float, help="begin new rounds until this time is over")
    parser.add_argument("--repeat", type=Path, help="one saved input of the target")
    parser.add_argument("--findings", type=Path, default=FINDINGS, help="the folder for findings")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="targets at a time")
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args(argv)
    names = asked.target or [*BY_NAME, *WAYS]
    unknown = [name for name in names if name not in BY_NAME and name not in WAYS]
    if unknown:
        parser.error(f"no target {unknown[0]!r}; there are: {', '.join([*BY_NAME, *WAYS])}")
    if asked.repeat is not None:
        return _repeat(names[0], asked.repeat)
    if asked.alone:
        row = _run(names[0], asked.inputs, asked.seed, asked.findings)
        print(json.dumps(vars(row)), flush=True)
        return 0
    until_s = time.monotonic() + (asked.hours or 0.0) * 3600
    failed = total = rounds = 0
    while rounds == 0 or time.monotonic() < until_s:
        seed = asked.seed if rounds == 0 else f"{asked.seed}.{rounds}"
        for row in _rows(names, asked.inputs, seed, asked.findings, asked.jobs):
            total += row.inputs
            failed += len(row.findings)
            print(row.show(), flush=True)
            for line in row.findings:
                print(f"    {line}", flush=True)
        rounds += 1
    print(f"{total:,} inputs, {failed} findings" + (f", in {asked.findings}" if failed else ""))
    return 1 if failed else 0


def _rows(names: Sequence[str], inputs: int, seed: str, findings: Path, jobs: int) -> Iterator[Row]:
    """Run all targets, each in a process of its own. A daemon has the machine for itself."""

    def run(name: str) -> Row:
        command = [sys.executable, "-m", "proofs.fuzz", "--alone", "--target", name]
        command += ["--inputs", str(inputs), "--seed", seed, "--findings", str(findings)]
        if name in WAYS:
            command = WAYS[name].prefix() + command
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        lines = done.stdout.splitlines()
        if done.returncode != 0 or not lines:
            return Row(name, findings=[f"its process has ended with {done.returncode}"])
        return Row(**json.loads(lines[-1]))

    with ThreadPoolExecutor(jobs) as pool:
        begun = [pool.submit(run, name) for name in names if name in BY_NAME]
        yield from (done.result() for done in as_completed(begun))
    yield from map(run, [name for name in names if name in WAYS])


def _run(name: str, inputs: int, seed: str, folder: Path) -> Row:
    """Run one target in this process."""
    if name in WAYS:
        return Row(**attack(name, inputs, seed))
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, resource.RLIM_INFINITY))
    target = BY_NAME[name]
    began_s = time.process_time()
    result = campaign.run(target, max(1, int(inputs * target.part)), seed)
    cpu_s = time.process_time() - began_s
    lines = []
    for found in result.findings.values():
        path = campaign.save(found, folder)
        lines.append(f"{found.kind}: {path.with_suffix('.txt')}")
    if result.grown_mib > MOST_GROWN_MIB:
        lines.append(f"its memory has grown by {result.grown_mib:.0f} MiB")
    return Row(name, result.inputs, result.accepted, cpu_s, result.grown_mib, lines)


def _repeat(name: str, path: Path) -> int:
    target = BY_NAME[name]
    found = campaign.try_one(target, campaign.load(target, path))
    print(f"{name}: {found.kind}: {found.what}" if found else f"{name}: nothing is wrong")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

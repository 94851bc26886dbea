"""The kinds of jobs that the soak submits, and how each of them may end.

A kind is a shell script. `witness.sh` goes before it, and a line `ended` follows it. All jobs are
rerun after a lost attempt (`--requeue`); those that a broken GPU may end are retried. Times in
options are of the scaled clock, `sleep` is real.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

SCALE = 20.0
"""How much faster the simulated GPUs and the daemon's clock run than real time."""
_WITNESS = (Path(__file__).parent / "witness.sh").read_text()

DONE = frozenset({"COMPLETED"})
FAILED = frozenset({"FAILED"})
EITHER = DONE | FAILED


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of job: how often it is drawn, its options, its script, and how it may end."""

    name: str
    weight: float
    options: str
    body: str
    ends: frozenset[str] = DONE
    elements: int = 1


_ON_GPU = "--smact=0.15 --collocation=timeslice --retries=50"
_PYTHON_FLOOD = (
    "import os,socket\n"
    "s=socket.socket(socket.AF_UNIX,socket.SOCK_DGRAM); s.setblocking(False)\n"
    "for i in range(20000):\n"
    "    try: s.sendto(os.urandom(i%600), os.environ['RADRM_PROGRESS'])\n"
    "    except OSError: pass\n"
)

KINDS = (
    Kind("quick", 30, "--gpus=0", ":"),
    Kind("on a GPU", 25, f"{_ON_GPU} --gpu-memory=12G", "sleep {nap}"),
    Kind("on two GPUs", 4, f"{_ON_GPU} --gpus=2 --gpu-memory=3G", "sleep 0.{nap}"),
    Kind(
        "trains",
        6,
        f"{_ON_GPU} --gpu-memory=4G",
        "radrm-simjob --gpu-memory 3G --smact 0.15 --seconds 1{nap} --ramp 5 || exit 1",
    ),
    Kind(
        "reports progress",
        3,
        f"{_ON_GPU} --gpu-memory=4G --checkpoint=signal",
        "radrm-simjob --gpu-memory 3G --smact 0.1 --seconds 20 --loss-k 3 --saves || exit 1",
    ),
    Kind(
        "unknown need",
        3,
        "--retries=50",
        "radrm-simjob --gpu-memory 6G --smact 0.15 --seconds 10 --ramp 2 || exit 1",
    ),
    Kind(
        "declares too little",
        2,
        f"{_ON_GPU} --gpu-memory=2G",
        "radrm-simjob --gpu-memory 14G --smact 0.15 --seconds 10 --ramp 2 || exit 1",
    ),
    Kind(
        "needs more than there is",
        1,
        "--gpu-memory=2G",
        "radrm-simjob --gpu-memory 60G --seconds 10 --ramp 2 || exit 1",
        FAILED,
    ),
    Kind("fails", 4, "--gpus=0", "exit 3", FAILED),
    Kind("kills itself", 2, "--gpus=0", "kill -9 $$", FAILED),
    Kind(
        "ignores TERM",
        2,
        "--gpus=0 --time=10s",
        "trap '' TERM; while :; do sleep 0.2; done",
        frozenset({"TIMEOUT"}),
    ),
    Kind(
        "leaves a chain of processes",
        3,
        "--gpus=0",
        'setsid nohup env -i bash -c \'(setsid bash -c "(setsid sleep 1000 &) ; sleep 1000" &) ; '
        "sleep 1000' >/dev/null 2>&1 &\nsleep 0.05",
    ),
    Kind(
        "forks and forks",
        2,
        "--gpus=0",
        "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do (setsid sleep 1000 &) & done",
    ),
    # If its runner is killed just after that, there is no folder to run again in.
    Kind("removes its folder", 3, "--gpus=0 --chdir={folder}", 'cd /; rm -rf "{folder}"', EITHER),
    Kind(
        "fills its log",
        2,
        "--gpus=0",
        'head -c 8M /dev/zero; : >"radrm-$RADRM_JOB_ID.out"',
    ),
    Kind("floods with progress", 1, "--gpus=0", f'"$PYTHON" -S -c "\n{_PYTHON_FLOOD}"'),
    Kind(
        "needs more host memory",
        1,
        "--gpus=0 --memory=64M",
        "\"$PYTHON\" -S -c 'x = bytearray(200 << 20)' || exit 1",
        EITHER,
    ),
    Kind("array", 1, "--gpus=0 --array=0-4%2", ":", elements=5),
    Kind("10,000 lines", 0.3, "--gpus=0", ": a line of a long script\n" * 10_000),
)

PROBE = "probe"
"""The kind of the jobs that take the time from submission to start."""
ENDS = {kind.name: kind.ends for kind in KINDS} | {PROBE: DONE}
ELEMENTS = {kind.name: kind.elements for kind in KINDS} | {PROBE: 1}


def draw(chance: random.Random) -> Kind:
    """A kind by chance."""
    return chance.choices(KINDS, [kind.weight for kind in KINDS])[0]


def script_of(kind: Kind, folder: Path, ticket: str, chance: random.Random) -> str:
    """The job file of one job. `folder`: one that it may remove."""
    words = {"nap": str(chance.randint(1, 5)), "folder": str(folder)}
    options, body = kind.options, kind.body
    for key, word in words.items():
        options, body = (text.replace("{" + key + "}", word) for text in (options, body))
    head = f"#!/bin/bash\n#RAD --requeue --name='{kind.name}' {options}\n"
    return f"{head}SOAK_TICKET={ticket}\n{_WITNESS}{body}\nsay ended\n"


def script_of_probe(ticket: str) -> str:
    """The job file of a probe: it passes all others, and ends at once."""
    head = f"#!/bin/bash\n#RAD --requeue --name={PROBE} --gpus=0 --priority=1000\n"
    return f"{head}SOAK_TICKET={ticket}\n{_WITNESS}say ended\n"

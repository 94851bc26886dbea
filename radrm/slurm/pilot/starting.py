"""The Slurm job of a pilot: an ordinary one, with whole GPUs."""

from __future__ import annotations

import math
import shlex
import sys
from collections.abc import Sequence

from radrm.errors import UsageError
from radrm.host.slurm import run
from radrm.slurm.pilot.shared import Shared

NAME = "radrm-pilot"
_SBATCH_S = 60.0


def words_of(
    shared: Shared,
    gpus: int | None,
    time_s: float,
    partition: str | None = None,
    more: Sequence[str] = (),
) -> list[str]:
    """Return the options of sbatch for a pilot. `gpus` None: none, for simulated ones. `more` are
    other options of sbatch. Raises `UsageError`."""
    if any(not word.startswith("-") for word in more[:1]):
        raise UsageError(f"{more[0][:40]!r} is no option of sbatch, as --account=NAME")
    words = ["--parsable", f"--job-name={NAME}", "--nodes=1", "--ntasks=1", "--no-requeue"]
    words.append(f"--time={max(1, math.ceil(time_s / 60))}")
    if gpus is not None:
        words.append(f"--gres=gpu:{gpus}")
    if partition:
        words.append(f"--partition={partition}")
    return [*words, f"--output={shared.logs}/%j.out", *more]


def script_of(words: Sequence[str]) -> str:
    """Return the batch script. `words` are options of `radrm pilot --here`."""
    command = [sys.executable, "-m", "radrm.cli.main", "pilot", "--here", *words]
    return f"#!/bin/sh\nexec {shlex.join(command)}\n"


def submit(words: Sequence[str], script: str) -> str:
    """Submit a pilot; return Slurm's id for it. Raises what Slurm says, word for word."""
    printed = run("sbatch", *words, timeout_s=_SBATCH_S, input_text=script)
    return printed.strip().partition(";")[0]


def own_jobs() -> dict[str, dict[str, str]]:
    """Return this user's Slurm jobs that have not ended, by their number: name, state, node, end.

    Raises `RadrmError`.
    """
    printed = run("squeue", "--noheader", "--me", "--format=%A\x1f%T\x1f%N\x1f%e\x1f%j")
    rows = (line.split("\x1f", 4) for line in printed.splitlines())
    keys = ("state", "node", "end", "name")
    return {row[0]: dict(zip(keys, row[1:], strict=True)) for row in rows if len(row) == 5}

"""`radrm bench`: measure on this server. `collocate`: does sharing a GPU pay for a job?"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from radrm.cli.parameters import COMMAND, JSON, REAL, TEXT, TEXTS, Parameter
from radrm.client.text import print_json, warn
from radrm.core.units import parse_seconds
from radrm.errors import UsageError
from radrm.lab.experiments.collocate.measure import (
    Servers,
    advice_on,
    at_once,
    document,
    measure,
    modes_of,
    notes_of,
    take,
)
from radrm.lab.experiments.collocate.numbers import (
    compiled,
    parse_copies,
    parse_modes,
    parse_programs,
)
from radrm.lab.experiments.collocate.rounds import Work
from radrm.lab.experiments.demo.server import orderly_end
from radrm.lab.show.collocation import show_collocation

S = TypeVar("S")
T = TypeVar("T")

_COPIES = "Numbers of copies; 1,2,4 by default, 1 always."
_OTHERS = "Another program, in place of copies (repeatable)."
_SCALE = "Run the clock of simulated GPUs N times as fast."
COLLOCATE_PARAMETERS = (
    Parameter("command", COMMAND, "The command of a job.", "CMD...", least=1),
    Parameter("copies", TEXT, _COPIES, "LIST", ("--copies",)),
    Parameter("others", TEXTS, _OTHERS, "'CMD'", ("--with",)),
    Parameter("gpu", TEXT, "Index or UUID; a free GPU by default.", "GPU", ("--gpu",)),
    Parameter("modes", TEXT, "timeslice, mps, mig; all by default.", "LIST", ("--modes",)),
    Parameter(
        *("step_pattern", TEXT, "Matches a line that reports a step.", "REGEX"),
        flags=("--step-pattern",),
    ),
    Parameter("seconds", TEXT, "End each round after this time.", "TIME", ("--seconds",)),
    Parameter("gpus", TEXT, "Use simulated GPUs, as sim:1xA100-40GB.", "sim:SPEC", ("--gpus",)),
    Parameter("time_scale", REAL, _SCALE, "N", ("--time-scale",), least=1, initial=1.0),
    JSON,
)


def collocate(
    command: list[str],
    copies: str,
    others: list[str],
    gpu: str,
    modes: str,
    step_pattern: str,
    seconds: str,
    gpus: str,
    time_scale: float,
    as_json: bool,
) -> int:
    """Run 1, 2, 4 copies of a command on one GPU, and say whether sharing the GPU pays.

    Shows for each number of copies, with time-slicing and with MPS: the time of a copy, the
    work per time compared with one copy alone, SM activity, memory and energy. A private
    daemon places the copies. GPUs that another radrm daemon manages are not used.

    --step-pattern measures the time of a step, without start-up. Its group (?P<step>...), or
    its first group, is the number of the step; without a group, each line is one step. Each
    copy finds its own number in RADRM_ARRAY_TASK_ID, for output files of its own.

    --with runs different programs: each alone, then all together. Their words are split as by a
    shell, and no shell runs them.

    \b
    Examples:
      radrm bench collocate -- python train.py --epochs 1
      radrm bench collocate --seconds 60 --step-pattern 'step (\\d+)' -- python train.py
      radrm bench collocate --with 'python other.py' -- python train.py
      radrm bench collocate --gpus sim:1xA100-40GB --time-scale 60 -- \\
        radrm-simjob --gpu-memory 6G --smact 0.4 --seconds 300
    """
    if others and copies:
        raise UsageError("--copies goes without --with: give a program twice to run it twice")
    numbers = _usage("--copies", parse_copies, copies or "1,2,4")
    programs = _usage("--with", parse_programs, others)
    wanted = _usage("--modes", parse_modes, modes) if modes else None
    limit_s = _usage("--seconds", parse_seconds, seconds) if seconds else None
    pattern = compiled(step_pattern) if step_pattern else None
    if limit_s is not None and pattern is None:
        raise UsageError(
            "--seconds needs --step-pattern: copies that are cut short compare by their steps only"
        )
    if not gpus and time_scale != 1.0:
        raise UsageError("--time-scale goes with simulated GPUs only: add --gpus sim:1xA100-40GB")
    work = Work(tuple(command), pattern, limit_s, programs)
    with orderly_end(_say_stopped), tempfile.TemporaryDirectory(prefix="radrm-bench-") as folder:
        servers = Servers(Path(folder), gpus or None, time_scale)
        devices = take(servers, gpu or None)
        device = devices[0]
        offered = modes_of(device, wanted)
        numbers = at_once(devices, numbers, work)
        results, notes = measure(servers, devices, work, offered, numbers, wanted)
    notes += [*notes_of(device, results.every), *advice_on(results)]
    if as_json:
        print_json(document(device, work, results, notes))
    else:
        show_collocation(device, work, results, notes)
    return 0 if results.complete else 1


def _usage(option: str, read: Callable[[S], T], text: S) -> T:
    try:
        return read(text)
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from None


def _say_stopped() -> None:
    warn("stopped; the copies and their daemon are ended")

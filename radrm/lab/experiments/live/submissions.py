"""What is submitted for each job of a trace: its command, and what it declares.

A job declares what its scenario lets the simulator know of it (`--estimator`, `--known`). The
simulator then knows the same as declared: radrm reserves more than an estimate where it can, and
never more than a declared need. A stand-in has the course that the simulator gives its job.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from math import ceil

from msgspec import Struct

from radrm.core.words import Quantity
from radrm.errors import BadFile, UsageError
from radrm.host.storage.spool import Envelope
from radrm.host.storage.submission import envelope_of, load
from radrm.jobfile.options import RawOptions
from radrm.jobfile.radfile import name_from, read_job_file, wrap_command
from radrm.lab.simulator.courses import Task
from radrm.lab.simulator.engine import tasks_of
from radrm.lab.simulator.estimates import NONE
from radrm.lab.simulator.scenario import Life, Scenario
from radrm.lab.simulator.traces.job import TraceJob
from radrm.lab.simulator.traces.table import shown
from radrm.structs import replace

STAND_IN = Life(
    start_up_s=30.0, ramp_s=15.0, hold_s=0.0, first_mib=0.0, steady=(1.0, 1.0), spread=0.0,
    work_sd=0.0,
)  # fmt: skip
"""How `radrm-simjob` lives: no memory while it starts, and its peak to its end."""

_TOLD = "told"
"""The estimator whose figures the jobs declare."""
_LONGEST_NAME = 128
_FIELD = re.compile(r"\{(\w+)\}")
_FIELDS = (
    *("name", "gpus", "duration_s", "memory_mib", "smact", "batch_size", "family", "user"),
    *("priority", "line"),
)


class Commands(Struct, frozen=True):
    """Where commands come from: the first of these that is given, else the trace itself.

    `folder` has a job file `NAME.rad` for each name. `template` is a command with `{FIELD}`.
    `stand_ins`: simulated training jobs.
    """

    folder: str | None = None
    template: str | None = None
    stand_ins: bool = False


def as_declared(
    jobs: Sequence[TraceJob], scenario: Scenario, sizes_mib: Sequence[int]
) -> tuple[list[TraceJob], Scenario]:
    """Return the jobs with their estimated memory as a declared need, and their scenario.

    A job declares the upper bound of its estimate. `sizes_mib`: the memory of the devices; an
    estimate of more means a whole device. An elastic job keeps its smallest size.
    Raises `UsageError` for one with parameter servers.
    """
    for job in jobs:
        if not job.gpus:
            raise UsageError(
                f"line {job.line} is a job with parameter servers, which only radrm simulate and "
                "compare can run; leave it out"
            )
    jobs = [replace(job, gpus_max=None, cpus_max=None) for job in jobs]
    largest = sorted(sizes_mib, reverse=True)
    found = []
    for task in tasks_of(jobs, scenario):
        job, needs = task.job, [e for e in task.estimates if e.quantity is Quantity.MEMORY]
        figures = {}
        if needs:
            figures[_TOLD] = float(min(max(1, ceil(needs[0].upper)), largest[job.gpus - 1]))
        found.append(replace(job, estimates=figures, declared=True))
    anything = any(job.estimates for job in found)
    known = replace(scenario.known, memory=None)
    return found, replace(scenario, estimator=_TOLD if anything else NONE, known=known)


def submissions(
    jobs: Sequence[TraceJob],
    scenario: Scenario,
    commands: Commands,
    environment: Mapping[str, str],
    chdir: str | None = None,
) -> list[Envelope]:
    """Return the envelope of each job, of `as_declared`. Nothing is submitted.

    Raises `RadrmError` for the first job without a usable command.
    """
    variables = dict(environment)
    if commands.stand_ins:  # `radrm-simjob` is installed beside this Python
        path = variables.get("PATH", os.defpath)
        variables["PATH"] = f"{os.path.dirname(sys.executable)}:{path}"
    return [_envelope(task, commands, variables, chdir) for task in tasks_of(jobs, scenario)]


def _envelope(
    task: Task, commands: Commands, environment: Mapping[str, str], chdir: str | None
) -> Envelope:
    job, data, path = task.job, None, None
    raw = declared(task)
    if chdir is not None:
        raw["chdir"] = chdir
    if commands.folder is not None:
        path = os.path.join(commands.folder, f"{os.path.basename(job.name)}.rad")
        data = load(path)
        own = read_job_file(data, path, {})
        if own.options.array is not None or own.options.param or own.options.params:
            raise BadFile(f"{path}: it is an array, and a line of a trace is one job")
        raw = {name: value for name, value in raw.items() if name not in own.raw}
        job_file = read_job_file(data, path, raw)
    else:
        job_file = wrap_command(_words(task, commands), raw)
    return envelope_of(job_file, path, data, raw, environment=environment)


def declared(task: Task) -> RawOptions:
    """Return the options of a job: its name, GPUs, priority, and what is known of its figures."""
    job = task.job
    raw: RawOptions = {"name": name_from(job.name)[:_LONGEST_NAME].replace("/", "_")}
    raw["gpus"] = str(job.gpus)
    if job.priority:
        raw["priority"] = str(job.priority)
    if job.batch_size is not None:
        raw["batch-size"] = str(job.batch_size)
    for estimate in task.estimates:
        if estimate.quantity is Quantity.MEMORY:
            raw["gpu-memory"] = str(ceil(estimate.upper))
        elif estimate.quantity is Quantity.SMACT:
            raw["smact"] = f"{estimate.value:.4f}"
        elif estimate.quantity is Quantity.DURATION:
            raw["duration"] = f"{max(1.0, estimate.value):.0f}"
    return raw


def _words(task: Task, commands: Commands) -> list[str]:
    if commands.template is not None:
        return [_filled(word, task.job) for word in _split(commands.template, "--command")]
    if commands.stand_ins:
        return stand_in(task)
    if task.job.command is None:
        raise UsageError(
            f"line {task.job.line}: {shown(task.job.name)} has no command; give all jobs one with "
            "--command or --jobs-dir, add a column command to the trace, or use --gpus=sim:SPEC"
        )
    return _split(task.job.command, f"line {task.job.line}: command")


def _split(text: str, what: str) -> list[str]:
    """Return the words of a command line. No shell reads them: a trace is not trusted."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise BadFile(f"{what} {shown(text)}: {error}") from None
    if not words:
        raise UsageError(f"{what} is empty; write the command of a job")
    return words


def _filled(word: str, job: TraceJob) -> str:
    """Return a word of the template with the job's values in place of `{FIELD}`."""

    def value(found: re.Match[str]) -> str:
        if found[1] not in _FIELDS:
            raise UsageError(f"--command: there is no {{{found[1]}}}; there are: {_known()}")
        given = getattr(job, found[1])
        return "" if given is None else str(given)

    return _FIELD.sub(value, word)


def _known() -> str:
    return ", ".join(f"{{{name}}}" for name in _FIELDS)


def stand_in(task: Task) -> list[str]:
    """Return the command of `radrm-simjob` that lives as the job does in the simulator."""
    job, course = task.job, task.course
    words = [
        *("radrm-simjob", "--gpu-memory", str(ceil(course.peak_mib)), "--smact", f"{job.smact:g}"),
        *("--seconds", f"{course.work_s:.3f}", "--start-up", f"{course.computes_s:.3f}"),
        *("--ramp", f"{course.peak_s - course.computes_s:.3f}", "--gpus", str(job.gpus)),
        *("--print-every", f"{max(60.0, course.work_s):.0f}"),
    ]
    if job.family is not None:
        words += ["--family", job.family]
    if job.batch_size is not None:
        words += ["--batch-size", str(job.batch_size)]
    return words


def without_commands(jobs: Sequence[TraceJob]) -> bool:
    """True if no job of the trace has a command of its own."""
    return all(job.command is None for job in jobs)


def for_stand_ins(jobs: Sequence[TraceJob], scenario: Scenario) -> tuple[list[TraceJob], Scenario]:
    """Return the jobs and the scenario in which they live as stand-ins do."""
    return [replace(job, steady_mib=None) for job in jobs], replace(scenario, life=STAND_IN)

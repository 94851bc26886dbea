"""`radrm submit --cluster`: a job file becomes a job of Slurm's, by Slurm's own sbatch.

Theory of operation. No daemon is needed: the job is estimated here, and asks Slurm for the upper
bound of its GPU memory, with the policy's margin, as the counted GRES `gpumem`. Options that say
when or whether a job may start, and how much of the node it needs, become options of sbatch; the
options of the command line, which override the script's, travel in the script, so the
daemon of the node reads them too. What only one daemon could know is refused here.
"""

from __future__ import annotations

import math
import shlex
import time
from collections.abc import Sequence

from msgspec import Struct

from radrm.core.records import DECLARED_MARGIN, Estimate
from radrm.core.units import parse_mib, spans
from radrm.core.words import Quantity
from radrm.errors import RadrmError, Refused, UsageError
from radrm.host.storage.submission import here, load
from radrm.jobfile.command_line import STDIN, SubmitRequest
from radrm.jobfile.options import Options, RawOptions
from radrm.jobfile.radfile import JobFile, read_job_file, wrap_command
from radrm.jobfile.relations import AfterOption
from radrm.jobfile.text import read_text
from radrm.slurm.asking import run
from radrm.slurm.jobs import nodes_of
from radrm.slurm.scripts import unwrap, wrap
from radrm.slurm.setup import MARGIN_MIB, program

TYPE_CHECKING = False
if TYPE_CHECKING:
    from radrm.config import Config, SlurmConfig


_SBATCH_S = 60.0

TO_SLURM = frozenset({"array", "after", "begin", "hold", "output", "error", "time"})
"""Options that Slurm sees to. All others are the daemon's on the node."""
REFUSED = {
    "param": "a sweep is one job for each value; make it an array, with --array",
    "params": "a sweep is one job for each row; make it an array, with --array",
    "max-fails": "Slurm stops no array after failures; leave it out",
    "snapshot": "copies of the code lie on one server; leave it out",
    "interactive": "it is for radrm run",
}
"""Options that cannot go to a cluster, and why."""
_CONDITIONS = {"ok": "afterok", "any": "afterany", "failed": "afternotok"}


class ClusterJob(Struct, frozen=True):
    """What sbatch is given: its words, and the script on its standard input. `gpumem_mib`: what the
    job asks for; `source`: where that comes from."""

    name: str
    words: tuple[str, ...]
    script: str
    gpumem_mib: int
    source: str


def prepare(request: SubmitRequest, file: str | None, config: Config) -> ClusterJob:
    """Return what a job file (None: the command of the request) asks of Slurm. Raises `RadrmError`
    for one that cannot go there."""
    raw, slurm = request.raw_options, config.slurm
    if request.arguments:
        raise UsageError("--cluster takes no arguments of a script; write them into the script")
    if file is None:
        job_file = wrap_command(list(request.command), raw)
        script = f"#!/bin/sh\nexec {shlex.join(request.command)}\n"
    else:
        name = "job" if file == STDIN else file
        text = read_text(load(file), name)  # sbatch refuses Windows' line ends
        script, typed = unwrap(text.text)
        raw = {**typed, **raw}
        job_file = read_job_file(script.encode(), name, raw)
    for option, why in REFUSED.items():
        if option in job_file.raw:
            raise UsageError(f"--{option} does not go with --cluster: {why}")
    if job_file.options.gpus_max or job_file.options.role:
        raise UsageError("--cluster takes no job whose size changes: Slurm fixes it at the start")
    job_file = job_file.dated(here(), file or "command line")
    mib, source = gpumem(job_file, raw, file, config)
    words = words_of(job_file.options, job_file.name, slurm, mib)
    wrapped = wrap(script, spelled(raw), program())
    return ClusterJob(job_file.name, words, wrapped, mib, source)


def gpumem(job_file: JobFile, raw: RawOptions, file: str | None, config: Config) -> tuple[int, str]:
    """Return the MiB of GPU memory that a job asks for on all its GPUs, and their source."""
    gpus = job_file.options.least_gpus
    if not gpus:
        return 0, "no GPU"
    declared = job_file.options.gpu_memory_mib
    best = None if declared is not None or file in (None, STDIN) else _estimated(file, raw, config)
    margin_mib = MARGIN_MIB
    if declared is not None:
        need, source = declared, "declared"
        if job_file.options.gpu_memory_max_mib is None:
            margin_mib = max(MARGIN_MIB, math.ceil(DECLARED_MARGIN * need))
    elif best is not None:
        need, source = math.ceil(max(best.upper, best.value)), best.source
    else:
        return gpus * parse_mib(config.slurm.default_gpumem), "slurm.default_gpumem"
    return with_margin(need, margin_mib, gpus, largest_mib(config.slurm)), source


def with_margin(need_mib: int, margin_mib: int, gpus: int, largest_mib: int | None) -> int:
    """Return the MiB that a job asks for which needs so much on each GPU. The margin is left out
    where the largest node has no room for it: an idle GPU needs none."""
    asked = gpus * (need_mib + margin_mib)
    return asked if largest_mib is None else min(asked, max(gpus * need_mib, largest_mib))


def largest_mib(config: SlurmConfig) -> int | None:
    """Return the GPU memory of the partition's largest node in MiB; None if it is unknown."""
    try:
        found = [mib for _, mib in nodes_of(config.partition, config.gres) if mib]
    except Refused:
        return None  # sbatch says what is wrong
    return max(found, default=None)


def _estimated(file: str, raw: RawOptions, config: Config) -> Estimate | None:
    """The best estimate of a job's memory that needs no daemon; None without any."""
    from radrm.client.estimates import answer, names_of, read  # steps wait for no estimators

    try:
        asked, _, _ = read(file, raw)
        (name,) = names_of(config.estimator, config)
        found = answer(asked, config, name).estimates
    except (RadrmError, ValueError):
        return None
    return next((each for each in found if each.quantity is Quantity.MEMORY), None)


def words_of(options: Options, name: str, slurm: SlurmConfig, gpumem_mib: int) -> tuple[str, ...]:
    """Return the options of sbatch for a job's. Raises `UsageError`."""
    words = ["--parsable", "--requeue", f"--partition={slurm.partition}", f"--job-name={name}"]
    if gpumem_mib:
        words.append(f"--gres={slurm.gres}:{gpumem_mib}")
    if options.array is not None:
        words.append(f"--array={_array(options)}")
    if options.after:
        words.append(f"--dependency={','.join(map(_dependency, options.after))}")
    if options.time_s is not None:
        words.append(f"--time={max(1, math.ceil(options.time_s / 60))}")
    if options.cpus is not None:
        words.append(f"--cpus-per-task={max(1, math.ceil(options.cpus))}")
    if options.memory_mib is not None:
        words.append(f"--mem={options.memory_mib}M")
    for option, given in (("output", options.output), ("error", options.error)):
        if given is not None:
            words.append(f"--{option}={_log(option, given)}")
    if options.begin_s is not None:
        begin = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(options.begin_s))
        words.append(f"--begin={begin}")
    if options.hold:
        words.append("--hold")
    return tuple(words)


def _array(options: Options) -> str:
    array = options.array
    assert array is not None
    found = spans(array.indices)
    text = ",".join(str(a) if a == b else f"{a}-{b}" for a, b in found)
    return text if array.at_once is None else f"{text}%{array.at_once}"


def _dependency(after: AfterOption) -> str:
    if not after.job.replace("_", "").isdigit():
        raise UsageError(
            f"--after={after.job}: with --cluster, name a job of Slurm's, as in --after=4711"
        )
    return f"{_CONDITIONS[after.condition]}:{after.job}"


def _log(option: str, pattern: str) -> str:
    """Return Slurm's pattern for the path of a log: most of ours are the same."""
    if "%t" in pattern.replace("%%", ""):
        raise UsageError(
            f"--{option}={pattern}: %t, the attempt, is not known to Slurm, which has one log for "
            "all attempts; leave it out"
        )
    return pattern


def spelled(raw: RawOptions) -> list[str]:
    """Return options as words of a command line, but for those that Slurm sees to."""
    words = []
    for name, value in raw.items():
        if name in TO_SLURM:
            continue
        for text in value if isinstance(value, list) else [value]:
            words.append(f"--{name}" if text is True else f"--{name}={text}")
    return words


def submit(job: ClusterJob) -> int:
    """Submit a job; return Slurm's id for it. Raises what Slurm says, word for word."""
    printed = run("sbatch", *job.words, timeout_s=_SBATCH_S, input_text=job.script)
    number = printed.strip().partition(";")[0]
    if not (number.isascii() and number.isdigit()):
        raise Refused(f"sbatch printed no job id: {number[:60]!r}; see squeue --me")
    return int(number)


def not_a_sweep(request: SubmitRequest) -> Sequence[str | None]:
    """Return the job files of a request; None for its command. Raises `UsageError`."""
    if request.lines:
        raise UsageError("--lines does not go with --cluster; make it an array, with --array")
    if request.slurm:
        raise UsageError("--slurm and --cluster exclude each other: write sbatch itself")
    return request.files or (None,)

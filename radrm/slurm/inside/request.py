"""From a command line of `srun` to the step that it asks for.

Theory of operation. An option overrides the variable of srun for input, and that what the job's own
options said (`SLURM_NTASKS`). What Slurm refuses, because the job has less, is refused in Slurm's
words. Only what was booked can be exceeded: a job without `--cpus` has all CPUs of the server.

Source: srun(1) of Slurm 25.11.
"""

from __future__ import annotations

import re

from radrm.errors import Refused, UsageError
from radrm.jobfile.inherited import SET, named_in
from radrm.jobfile.record import Record
from radrm.jobfile.slurm.amounts import parse_time
from radrm.jobfile.values import shown
from radrm.slurm.inside.options import REFUSED, read

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MOST_TASKS = 1024
"""Of a step in a job that booked no CPUs."""
PROCESSORS = "More processors requested than permitted"
GRES = "Invalid generic resource (gres) specification"


class Job(Record):
    """The job in which a step runs. `gpus`: what `CUDA_VISIBLE_DEVICES` names; `numbers`: their
    numbers on the server, where known. `cpus`: what it booked; None: all."""

    id: str
    host: str
    gpus: tuple[str, ...]
    numbers: tuple[str, ...]
    cpus: int | None


class Request(Record):
    """A step. `gpus`: how many it asks for; None: it has all of the job's, beside other steps.

    `per_node`: what `--ntasks-per-node` says.
    `binding`: the GPUs of each task, as `per_task:1`; "" for all of the step's. `counted`: it has
    its CPUs for itself while it runs. `overlap`: it waits for no other step. `lasts_s`: its time
    limit, None for none. `wait_s`: how long others run on after the first end, None for ever.
    """

    command: tuple[str, ...]
    tasks: int
    per_node: str | None
    cpus: int | None
    gpus: int | None
    binding: str
    counted: bool
    overlap: bool
    label: bool
    unbuffered: bool
    kill_on_bad_exit: bool
    wait_s: float | None
    lasts_s: float | None
    immediate: bool
    quits: bool
    multi_prog: bool
    input: str
    output: str
    error: str
    appends: bool
    chdir: str | None
    export: str
    name: str | None
    notes: tuple[str, ...]


def job_of(environ: Mapping[str, str], host: str) -> Job | None:
    """Return the job of radrm in which this process runs, by what radrm has set for the attempt;
    None outside of one."""
    number = environ.get("RADRM_JOB_ID", "")
    if not (number.isdecimal() and environ.get("RADRM_ATTEMPT", "").isdecimal()):
        return None
    gpus, numbers = _gpus_of_job(environ)
    booked = environ.get("RADRM_CPUS", "")
    cpus = max(1, int(float(booked))) if re.fullmatch(r"[0-9]{1,6}(\.[0-9]+)?", booked) else None
    return Job(number, environ.get("SLURMD_NODENAME") or host, gpus, numbers, cpus)


def _gpus_of_job(environ: Mapping[str, str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the GPUs of the job or of the step around, and their numbers on the server.

    A script may have set `CUDA_VISIBLE_DEVICES` itself, as `0,1`. In Slurm a job's first GPU is its
    GPU 0, so a number chooses among the job's own; what names none of them is left out.
    """
    seen, given = (_listed(environ, f"{name}_VISIBLE_DEVICES") for name in ("CUDA", "NVIDIA"))
    numbers = _listed(environ, "SLURM_STEP_GPUS") or _listed(environ, "SLURM_JOB_GPUS")
    of_radrm = "CUDA_VISIBLE_DEVICES" in named_in(environ, SET)
    if not given or given == ("void",) or of_radrm or seen == given:
        return seen, numbers if len(numbers) == len(seen) else seen
    known = numbers if len(numbers) == len(given) else given
    both = list(zip(given, known, strict=True))
    by_name = {name: pair for pair in both for name in pair}
    by_name |= {str(at): pair for at, pair in enumerate(both)}
    chosen = [by_name[name] for name in dict.fromkeys(seen) if name in by_name] or both
    return tuple(gpu for gpu, _ in chosen), tuple(number for _, number in chosen)


def _listed(environ: Mapping[str, str], name: str) -> tuple[str, ...]:
    return tuple(each for each in environ.get(name, "").split(",") if each)


def request(words: Sequence[str], job: Job, environ: Mapping[str, str]) -> Request:
    """Return the step of a command line. Raises `UsageError`, and `Refused` as Slurm does."""
    given, command = read(words)
    if not command:
        raise UsageError("no command given to execute")
    if ":" in command:
        raise UsageError(
            "':' begins another part of a heterogeneous step; start each part with its own srun"
        )
    for name in given.keys() & REFUSED.keys():
        raise UsageError(f"--{name}: {REFUSED[name]}")
    _check_place(given, job)
    asked = _Asked(given, environ, job)
    asked.check()
    value = asked.value
    output = value("output", "SLURM_STDOUTMODE") or "all"
    wait = _whole("wait", value("wait", "SLURM_WAIT") or "0")
    bad = value("kill-on-bad-exit", "SLURM_KILL_BAD_EXIT")
    counted = bool(given.keys() & {"exact", "exclusive", "cpus-per-task", "cpus-per-gpu"})
    time = given.get("time")
    try:
        lasts_s = parse_time(time) if time is not None else None
    except ValueError as error:
        raise UsageError(f"--time: {error}") from None
    return Request(
        command=tuple(command),
        tasks=asked.tasks,
        per_node=given.get("ntasks-per-node"),
        cpus=asked.cpus,
        gpus=asked.gpus,
        binding=asked.binding,
        counted=counted,
        overlap="overlap" in given or environ.get("SLURM_OVERLAP", "0") not in ("", "0"),
        label="label" in given or environ.get("SLURM_LABELIO", "0") not in ("", "0"),
        unbuffered="unbuffered" in given or environ.get("SLURM_UNBUFFEREDIO", "0") not in ("", "0"),
        kill_on_bad_exit=bad not in (None, "", "0") or ("kill-on-bad-exit" in given and not bad),
        wait_s=wait or None,
        lasts_s=lasts_s,
        immediate="immediate" in given,
        quits=bool(given.keys() & {"quit-on-interrupt", "disable-status"}),
        multi_prog="multi-prog" in given,
        input=value("input", "SLURM_STDINMODE") or "all",
        output=output,
        error=value("error", "SLURM_STDERRMODE") or output,
        appends=(value("open-mode", "SLURM_OPEN_MODE") or "t")[:1].lower() == "a",
        chdir=value("chdir", "SLURM_WORKING_DIR"),
        export=value("export", "SRUN_EXPORT_ENV") or "ALL",
        name=given.get("job-name"),
        notes=_notes(given, asked.tasks),
    )


def cannot(job: Job, why: str) -> Refused:
    """Return the error of a step that cannot be."""
    return Refused(f"Unable to create step for job {job.id}: {why}")


def _check_place(given: Mapping[str, str | None], job: Job) -> None:
    """Refuse what leads to other nodes or jobs than this one."""
    nodes = re.fullmatch(r"([0-9]{1,6})(?:-[0-9]{1,6})?", given.get("nodes") or "1")
    if nodes is None:
        raise UsageError(f"--nodes: {shown(given['nodes'] or '')} is not a number")
    if int(nodes[1]) > 1:
        raise Refused(f"Only allocated 1 nodes asked for {nodes[1]}; radrm is one server")
    short = job.host.partition(".")[0]
    here = {job.host, short, "localhost"}
    wanted = given.get("nodelist")
    if wanted is not None and "/" not in wanted and not set(wanted.split(",")) <= here:
        raise cannot(job, f"Requested node configuration is not available; this is {job.host}")
    if set((given.get("exclude") or "").split(",")) & here:
        raise cannot(job, "Requested node configuration is not available; it is excluded")
    if (given.get("relative") or "0") != "0":
        raise cannot(job, "Requested node configuration is not available; there is node 0 only")
    if (given.get("het-group") or "0") not in ("0", "0-0"):
        raise cannot(job, "the job has one part, --het-group=0")
    other = given.get("jobid")
    if other is not None and other.partition(".")[0].partition("_")[0] != job.id:
        raise Refused(
            f"--jobid={shown(other)}: a step runs in the job that starts it, and this is job "
            f"{job.id}"
        )


def _notes(given: Mapping[str, str | None], tasks: int) -> tuple[str, ...]:
    found = []
    if (given.get("mpi") or "none") not in ("none", "list") and tasks > 1:
        found.append("--mpi: tasks get no PMI of radrm; start MPI programs by mpirun -n N")
    return tuple(found)


class _Asked:
    """The tasks, CPUs and GPUs of a step."""

    def __init__(
        self, given: Mapping[str, str | None], environ: Mapping[str, str], job: Job
    ) -> None:
        self.given, self.environ, self.job = given, environ, job
        self.gpus = self._total()
        self.each = self._for_each()
        self.tasks = self._tasks()
        if self.gpus is None and self.each is not None:
            self.gpus = self.each * self.tasks
        self.cpus = self._cpus()
        self.binding = self._binding()

    def value(self, name: str, variable: str) -> str | None:
        found = self.given.get(name)
        return found if name in self.given else self.environ.get(variable) or None

    def _total(self) -> int | None:
        """The GPUs of the step; None if no option says."""
        for name in ("gpus", "gpus-per-node", "gpus-per-socket", "gres"):
            text = self.given.get(name)
            if text is not None:
                return _gpus(name, text)
        return None

    def _for_each(self) -> int | None:
        """The GPUs of each task; None if nothing says."""
        own = self.given.get("tres-per-task")
        if own is not None and "gpu" in own:
            return _gpus("tres-per-task", own)
        text = self.given.get("gpus-per-task")
        if text is None and self.gpus is None:
            text = self.environ.get("SLURM_GPUS_PER_TASK") or None
        return None if text is None else _gpus("gpus-per-task", text)

    def _tasks(self) -> int:
        for name in ("ntasks", "ntasks-per-node"):
            if (text := self.given.get(name)) is not None:
                return _whole(name, text, least=1)
        on_each = self.given.get("ntasks-per-gpu")
        if on_each is not None:
            count = len(self.job.gpus) if self.gpus is None else self.gpus
            return _whole("ntasks-per-gpu", on_each, least=1) * max(1, count)
        if self.gpus and self.given.get("gpus-per-task") and self.each:
            return max(1, self.gpus // self.each)
        for variable in ("SLURM_NTASKS", "SLURM_NPROCS", "SLURM_NTASKS_PER_NODE"):
            text = self.environ.get(variable, "")
            if text.isdecimal() and 0 < int(text) <= MOST_TASKS:
                return int(text)
        return 1

    def _cpus(self) -> int | None:
        """The CPUs of each task; None if no option says."""
        text = self.value("cpus-per-task", "SRUN_CPUS_PER_TASK")
        if text is not None:
            return _whole("cpus-per-task", text, least=1)
        text = self.given.get("cpus-per-gpu")
        if text is not None:
            count = len(self.job.gpus) if self.gpus is None else self.gpus
            return max(1, _whole("cpus-per-gpu", text, least=1) * count // self.tasks)
        # As srun since 23.11; radrm runs more tasks of fewer CPUs where Slurm would refuse them.
        of_job = self.environ.get("SLURM_CPUS_PER_TASK", "")
        fits = of_job.isdecimal() and 0 < int(of_job) * self.tasks <= (self.job.cpus or 0)
        return int(of_job) if fits else None

    def _binding(self) -> str:
        text = self.value("gpu-bind", "SLURM_GPU_BIND")
        if text is not None:
            return re.sub(r"^(verbose|v),?", "", text)
        if self.each:
            return f"per_task:{self.each}"
        on_each = self.given.get("ntasks-per-gpu")
        return "" if on_each is None else f"single:{on_each}"

    def check(self) -> None:
        """Raise `Refused` for more than the job has."""
        job = self.job
        if self.gpus is not None and self.gpus > len(job.gpus):
            has = "no GPU" if not job.gpus else f"{len(job.gpus)}"
            raise cannot(job, f"{GRES}; it asks for {self.gpus} GPUs, the job has {has}")
        if self.tasks > MOST_TASKS:
            raise cannot(job, f"{PROCESSORS}; a step has at most {MOST_TASKS} tasks")
        wanted = self.tasks * (self.cpus or 1)
        shared = "overcommit" in self.given or self.environ.get("SLURM_OVERCOMMIT", "0") != "0"
        if job.cpus is not None and wanted > job.cpus and not shared:
            raise cannot(job, f"{PROCESSORS}; it asks for {wanted} CPUs, the job has {job.cpus}")


def _whole(name: str, text: str, least: int = 0) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text) or int(text) < least:
        raise UsageError(f"--{name}: {shown(text)} is not a whole number of {least} or more")
    return int(text)


def _gpus(name: str, text: str) -> int:
    """The GPUs of `[gres/]gpu[:TYPE][:N]`, `[TYPE:]N` or `none`."""
    if text in ("none", "NONE", "0", ""):
        return 0
    for part in text.split(","):
        part = re.sub(r"^gres[/:]", "", part)
        if name in ("gres", "tres-per-task") and not re.match(r"gpu\b", part):
            continue
        found = re.fullmatch(r"(?:[\w.-]+[:=])*?([0-9]{1,6})", part)
        if found is None and not re.fullmatch(r"[A-Za-z][\w.-]*(:[A-Za-z][\w.-]*)?", part):
            raise UsageError(f"--{name}: {shown(text)} is no number of GPUs, as gpu:1")
        return 1 if found is None else int(found[1])
    return 0


def bound(binding: str, gpus: Sequence[str], task: int) -> list[str]:
    """Return which of a step's GPUs a task has. Raises `UsageError` for a binding that is none."""
    kind, _, text = binding.partition(":")
    if kind in ("", "none", "closest"):
        return list(gpus)
    try:
        if kind == "per_task":
            count = int(text or "1")
            return list(gpus[task * count : (task + 1) * count])
        if not gpus:
            return []
        if kind == "single":
            return [gpus[task // max(1, int(text or "1")) % len(gpus)]]
        # Shorter lists begin again; `0*4` stands for four.
        every = [
            one for each in text.split(",")
            for one in [each.partition("*")[0]] * min(int(each.partition("*")[2] or 1), MOST_TASKS)
        ]  # fmt: skip
        own = every[task % len(every)]
        if kind in ("map_gpu", "map"):
            return [gpus[int(own, 0)]]
        if kind in ("mask_gpu", "mask"):
            mask = int(own, 16)
            return [gpu for at, gpu in enumerate(gpus) if mask >> at & 1]
    except (ValueError, IndexError):
        pass
    raise UsageError(f"--gpu-bind={shown(binding)} does not name GPUs of this step")

"""The one table of options of a submission.

`#RAD` lines, the command line of `submit`, the daemon's check of each submission, the help and
the documentation all use this table. `radrm submit` imports this file while a user waits, so
it imports almost nothing. The table has no defaults: a missing option is None, and the code
that uses the option has its default.
"""

from __future__ import annotations

from radrm.errors import UsageError
from radrm.jobfile import relations as r
from radrm.jobfile import values as v
from radrm.jobfile.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

RawValue = str | list[str] | bool
"""A value as written: a text, a list of texts (repeatable options) or True (flags)."""
RawOptions = dict[str, RawValue]
"""Options as written, by name. Envelopes hold them in this form, as JSON."""


class Option(Record):
    """One option. `parse` turns its text into a value, or raises ValueError.

    A flag has the `metavar` None. `unit` is the suffix of the option's field in `Options`.
    The ends of a `range` are in two fields. `bare` is the value of an option without `=`.
    A `hidden` option is for programs of radrm, and no help shows it. The `first` help shows what
    most jobs need. `marks` say what the option is a matter of, below.
    """

    name: str
    metavar: str | None
    parse: Callable[[str], object]
    help: str
    unit: str = ""
    repeatable: bool = False
    hidden: bool = False
    range: bool = False
    bare: str | None = None
    first: bool = False
    marks: tuple[str, ...] = ()

    @property
    def field(self) -> str:
        """The name of the option's field in `Options`."""
        return self.name.replace("-", "_") + self.unit

    @property
    def field_max(self) -> str:
        """The name of the field of a range's larger end. It holds None for a single value."""
        return self.name.replace("-", "_") + "_max" + self.unit

    @property
    def usage(self) -> str:
        """The option as help shows it: `--NAME=METAVAR`."""
        if self.metavar is None:
            return f"--{self.name}"
        value = f"={self.metavar}"
        return f"--{self.name}" + (value if self.bare is None else f"[{value}]")

    def value(self, text: str, where: str) -> object:
        """Return the typed value of `text`. Raises `UsageError`, which names `where`."""
        try:
            if len(text) > v.MAX_TEXT or "\0" in text:
                raise ValueError(f"{v.shown(text)} is too long or holds a NUL")
            text.encode()
            return self.parse(text)
        except UnicodeEncodeError:
            raise UsageError(f"{where}: --{self.name}: {v.shown(text)} is not UTF-8") from None
        except ValueError as cause:
            raise UsageError(f"{where}: --{self.name}: {cause}") from None


def _smact(given: str) -> float:
    """Return the SM activity. Its type of GPU stays in the option as written."""
    figure, at, gpu_type = given.partition("@")
    if at and len(v.gpu_types(gpu_type)) != 1:
        raise ValueError(f"{v.shown(gpu_type)} is not one type of GPU such as a100")
    return v.number(0, 1)(figure)


# What options are a matter of (`Option.marks`).
ARRAY = "array"
"""The whole array: its elements keep it as it was submitted, and `radrm run` has none."""
SUBMIT = "submit"
"""Submission: no edit changes it."""
START = "start"
"""The start of an attempt: under another value its logs would not be found."""
SIZE = "size"
"""How many tasks there are."""
NEED = "need"
"""What the job will need, stated or to be estimated."""
FOLDER = "folder"
"""A path that the client looks up."""
END = "end"
"""When the job can end, so whether it will be late."""

_SHARING = ("auto", "exclusive", "timeslice", "mps", "mig")
_PRECISION = ("fp32", "tf32", "fp16", "bf16", "amp")
_many: dict[str, Any] = {"repeatable": True}
_s: dict[str, Any] = {"unit": "_s"}
_mib: dict[str, Any] = {"unit": "_mib"}
_range: dict[str, Any] = {"range": True}

GROUPS: dict[str, tuple[Option, ...]] = {
    "GPUs, CPUs and memory": (
        Option(
            "gpus",
            "N|MIN-MAX",
            v.gpus_or_range,
            "number of GPUs (default: 1)",
            **_range,
            first=True,
            marks=(SIZE, NEED),
        ),
        Option(
            "gpu-memory",
            "SIZE[:LIMIT]|auto",
            v.size_or_limit,
            "memory to reserve per GPU, and a limit",
            **_mib,
            **_range,
            first=True,
            marks=(NEED,),
        ),
        Option(
            "gpu-type", "TYPE[|TYPE]", v.gpu_types, "types of GPU to accept, such as a6000|a100"
        ),
        Option("prefer-gpus", "LIST", v.gpu_list, "GPUs to use first: types, indices, UUIDs"),
        Option("avoid-gpus", "LIST", v.gpu_list, "GPUs to use only if no others will do"),
        Option(
            "mig-profile", "PROFILE", v.mig_profile, "MIG profile, such as 1g.5gb", marks=(NEED,)
        ),
        Option(
            "cpus",
            "N|MIN-MAX",
            v.cpus_or_range,
            "CPUs for the job (with a range: for each worker); also its limit",
            **_range,
            first=True,
        ),
        Option(
            "memory",
            "SIZE|MIN-MAX",
            v.size_or_range,
            "host memory for the job; also its limit",
            **_mib,
            **_range,
            first=True,
        ),
        Option(
            "role",
            "NAME:N|MIN-MAX[,cpus=N|MIN-MAX][,memory=SIZE][,gpus=N]",
            v.role_option,
            "tasks of one kind, with --gpus=0",
            **_many,
            marks=(SIZE, NEED),
        ),
    ),
    "Sharing a GPU": (
        Option("collocation", "|".join(_SHARING), v.choice(*_SHARING), "how to share a GPU"),
        Option(
            "smact",
            "0..1[@TYPE]",
            _smact,
            "expected SM activity when alone on a GPU (0.6@a100: on an A100)",
            marks=(NEED,),
        ),
        Option("sm-share", "PERCENT", v.whole(1, 100), "the part of a GPU's SMs as an MPS client"),
        Option(
            "max-slowdown",
            "X|none",
            v.or_none(v.number(1, 1000)),
            "longest run time beside others (1.3: 30% longer)",
        ),
    ),
    "When it runs": (
        Option(
            "time",
            "TIME|none",
            v.or_none(v.seconds),
            "time limit, such as 90min, 4:00:00 or 1-00:00:00",
            **_s,
            first=True,
            marks=(END,),
        ),
        Option(
            "duration",
            "TIME|none",
            v.or_none(v.seconds),
            "expected run time when alone on a GPU",
            **_s,
            marks=(NEED, END),
        ),
        Option("priority", "N", v.whole(-1000, 1000), "higher starts earlier (-1000 to 1000)"),
        Option(
            "hold", None, v.flag, "do not start the job before `radrm release`", marks=(SUBMIT,)
        ),
        Option(
            "after",
            "JOB[:ok|:any|:failed]",
            r.after_option,
            "start after that job; `none` drops earlier ones",
            **_many,
            first=True,
        ),
        Option(
            "begin",
            "TIME",
            v.moment,
            "do not start before, such as 18:00, +2h or none",
            **_s,
            marks=(END,),
        ),
        Option(
            "due",
            "TIME",
            v.moment,
            "due time, such as 18:00, 'fri 9:00', +90m or none",
            **_s,
            marks=(END,),
        ),
        Option("weight", "W", v.weight, "multiplies the cost of a late end (default: 1)"),
    ),
    "Arrays and sweeps": (
        Option(
            "array",
            "0-9[%N]",
            r.array_option,
            "a job per number (or 1,3,5; 0-9:2), N at once",
            first=True,
            marks=(ARRAY,),
        ),
        Option(
            "param",
            "NAME=VALUES",
            r.param_option,
            "a job per value (lr=1,2 or seed=0:9), for {NAME}",
            **_many,
            first=True,
            marks=(ARRAY,),
        ),
        Option(
            "params",
            "FILE.csv",
            v.path,
            "a job per row of values; the first line has the names",
            marks=(ARRAY,),
        ),
        Option(
            "at-once",
            "N",
            v.whole(1, r.MAX_ARRAY),
            "elements of a sweep at once (of an array: 0-9%N)",
            marks=(ARRAY,),
        ),
        Option(
            "max-fails",
            "N[@TIME]",
            r.max_fails_option,
            "hold the rest of an array after N failures (@60s: within 60 s)",
            marks=(ARRAY,),
        ),
    ),
    "Where and how it runs": (
        Option(
            "name",
            "NAME",
            v.job_name,
            "its name (default: that of its file)",
            first=True,
            marks=(START,),
        ),
        Option("comment", "TEXT", v.text(1024), "a note kept with the job"),
        Option(
            "chdir",
            "DIR",
            v.path,
            "run here instead of the submit directory",
            marks=(START, NEED, FOLDER),
        ),
        Option(
            "env",
            "NAME=VALUE",
            v.variable,
            "set a variable for the job",
            **_many,
            marks=(START, NEED),
        ),
        Option(
            "output",
            "PATH",
            v.log_path,
            "file of its output: %j %x %u %A %a %t",
            first=True,
            marks=(START, FOLDER),
        ),
        Option(
            "error",
            "PATH",
            v.log_path,
            "file of standard error alone; the same patterns",
            marks=(START, FOLDER),
        ),
        Option(
            "snapshot",
            "DIR",
            v.path,
            "run in a copy of DIR (default: the submit directory)",
            bare=".",
            marks=(SUBMIT,),
        ),
        Option(
            "device-ids",
            "uuid|index",
            v.choice("uuid", "index"),
            "how CUDA_VISIBLE_DEVICES names the job's GPUs",
        ),
        Option(
            "cpu-bind",
            "socket|numa|none",
            v.choice("socket", "numa", "none"),
            "run on the CPUs of the GPUs' sockets or NUMA nodes (none: on all)",
        ),
        Option(
            "interactive",
            None,
            v.flag,
            "somebody works in it (set by `radrm run`)",
            hidden=True,
            marks=(SUBMIT,),
        ),
    ),
    "Its end, and failures": (
        Option(
            "background",
            "end|wait",
            v.choice("end", "wait"),
            "what becomes of processes that its script leaves running",
            marks=(START,),
        ),
        Option(
            "notify",
            "TARGET[:EVENT,...]",
            v.notify,
            "mail address, URL or program to tell of its end",
            **_many,
            first=True,
        ),
        Option(
            "retries",
            "N",
            v.whole(0, 1000),
            "run again up to N times after a failure",
            first=True,
        ),
        Option(
            "retry-on",
            "CODES",
            v.exit_codes,
            "retry only after these exit codes or signals, as in 1,75-80,KILL",
        ),
        Option("requeue", None, v.flag, "run again after a lost attempt"),
        Option(
            "signal",
            "NAME@SECONDS|none",
            v.or_none(v.signal_option),
            "send it SECONDS before the time limit",
        ),
        Option(
            "silent-limit",
            "TIME|none",
            v.or_none(v.silent_limit),
            "stop the job if its log and progress do not change for so long",
            **_s,
        ),
        Option("expect-idle", None, v.flag, "the job may leave its GPUs idle ([idle] spares it)"),
    ),
    "Jobs that save their work": (
        Option(
            "checkpoint",
            "none|signal|exit",
            v.choice("none", "signal", "exit"),
            "how the job saves its work: on a signal; or on TERM, and exits",
            first=True,
        ),
        Option("checkpoint-signal", "NAME", v.save_signal, "the signal that asks for it (USR1)"),
        Option("checkpoint-cost", "TIME", v.seconds, "how long saving takes", **_s),
        Option(
            "progress-pattern",
            "REGEX|auto",
            v.progress_pattern,
            "read progress from the log, as in (?P<step>\\d+)/(?P<total>\\d+)",
        ),
        Option("progress-file", "PATH", v.path, "read progress from this file instead of the log"),
    ),
    "For estimates of its memory": (
        Option(
            "model-summary",
            "FILE",
            v.path,
            "file with the model's summary, for estimators",
            marks=(NEED,),
        ),
        Option(
            "model-factory",
            "MODULE:FUNCTION",
            v.factory,
            "builds the model, for estimators",
            marks=(NEED,),
        ),
        Option("batch-size", "N", v.whole(1, 10**9), "for estimators", marks=(NEED,)),
        Option("sequence-length", "N", v.whole(1, 10**7), "tokens per sequence", marks=(NEED,)),
        Option("input-shape", "SHAPE", v.shape, "one sample, such as 3x224x224", marks=(NEED,)),
        Option("optimizer", "NAME", v.word, "for estimators", marks=(NEED,)),
        Option(
            "precision",
            "|".join(_PRECISION),
            v.choice(*_PRECISION),
            "for estimators",
            marks=(NEED,),
        ),
        Option(
            "no-trace",
            None,
            v.flag,
            "run nothing of the job before it starts, not even to estimate it",
            marks=(NEED,),
        ),
    ),
}
"""Every option, by what it is about. Help and documentation show them in this order."""
OPTIONS = tuple(option for group in GROUPS.values() for option in group)
SHOWN = tuple(option for option in OPTIONS if not option.hidden)
"""Those that users set."""
BY_NAME = {option.name: option for option in OPTIONS}


def marked(*marks: str) -> frozenset[str]:
    """Return the names of the options with one of these marks."""
    return frozenset(each.name for each in OPTIONS if set(each.marks) & set(marks))


OF_ARRAYS = marked(ARRAY)
FIXED = marked(ARRAY, SUBMIT)
"""The options that no edit changes."""
MOMENTS = frozenset(option.name for option in OPTIONS if option.parse is v.moment)
"""The options whose values are moments."""


class Options(Record):
    """The typed values. A missing option is None, or an empty tuple.

    Of a range, `gpus`, `cpus` and `memory_mib` are the smaller end, and `gpu_memory_mib` is what a
    job with a limit (`gpu_memory_max_mib`) reserves; it is also None for `auto`. `due_s` and
    `begin_s` are in seconds since the epoch, and None also for a time that is not absolute yet
    (`JobFile.dated`).
    """

    gpus: int | None = None
    gpus_max: int | None = None
    gpu_memory_mib: int | None = None
    gpu_memory_max_mib: int | None = None
    gpu_type: tuple[str, ...] | None = None
    prefer_gpus: tuple[str, ...] | None = None
    avoid_gpus: tuple[str, ...] | None = None
    mig_profile: str | None = None
    cpus: float | None = None
    cpus_max: float | None = None
    memory_mib: int | None = None
    memory_max_mib: int | None = None
    role: tuple[v.RoleOption, ...] = ()
    collocation: str | None = None
    smact: float | None = None
    sm_share: int | None = None
    max_slowdown: float | None = None
    time_s: float | None = None
    duration_s: float | None = None
    priority: int | None = None
    hold: bool | None = None
    after: tuple[r.AfterOption, ...] = ()
    begin_s: float | None = None
    due_s: float | None = None
    weight: float | None = None
    array: r.ArrayOption | None = None
    param: tuple[str, ...] = ()
    params: str | None = None
    at_once: int | None = None
    max_fails: r.MaxFailsOption | None = None
    name: str | None = None
    comment: str | None = None
    chdir: str | None = None
    env: tuple[tuple[str, str], ...] = ()
    output: str | None = None
    error: str | None = None
    snapshot: str | None = None
    device_ids: str | None = None
    cpu_bind: str | None = None
    interactive: bool | None = None
    background: str | None = None
    notify: tuple[str, ...] = ()
    retries: int | None = None
    retry_on: tuple[tuple[int, int], ...] | None = None
    requeue: bool | None = None
    signal: v.SignalOption | None = None
    silent_limit_s: float | None = None
    expect_idle: bool | None = None
    checkpoint: str | None = None
    checkpoint_signal: int | None = None
    checkpoint_cost_s: float | None = None
    progress_pattern: str | None = None
    progress_file: str | None = None
    model_summary: str | None = None
    model_factory: str | None = None
    batch_size: int | None = None
    sequence_length: int | None = None
    input_shape: tuple[int, ...] | None = None
    optimizer: str | None = None
    precision: str | None = None
    no_trace: bool | None = None

    @property
    def least_gpus(self) -> int:
        """The number of GPUs with which the job starts."""
        if self.role:
            return sum(role.count * role.gpus for role in self.role)
        return 1 if self.gpus is None else self.gpus

    @property
    def of_tasks(self) -> bool:
        """True if the job has a range or roles, so that it may have several tasks."""
        return bool(self.role or self.gpus_max or self.cpus_max or self.memory_max_mib)

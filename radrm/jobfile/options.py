"""The one table of options of a submission.

`#RAD` lines, the command line of `submit`, the daemon's check of each submission, the help and
the documentation all use this table. Each option is declared once, as a field of `Options`: the
field's name is the option's, with the unit of its values. `radrm submit` imports this file while a
user waits, so it imports almost nothing. The table has no defaults: a missing option is None, and
the code that uses the option has its default.
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

# What an option concerns (`Option.marks`).
MANY = "many"
"""It is repeatable: its field has a tuple."""
FIRST = "first"
"""Most jobs need it, so the first help shows it."""
HIDDEN = "hidden"
"""It is for programs of radrm, and no help shows it."""
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
LIVE = "live"
"""What still applies to a running job, so that an edit can change it."""


class Option(Record):
    """One option. `parse` turns its text into a value, or raises ValueError.

    A flag has the `metavar` None. `field` is its field in `Options`, and `unit` the end of that.
    `bare` is the value of an option without `=`.
    """

    name: str
    field: str
    unit: str
    group: str
    metavar: str | None
    parse: Callable[[str], object]
    help: str
    marks: tuple[str, ...]
    bare: str | None

    @property
    def repeatable(self) -> bool:
        return MANY in self.marks

    @property
    def field_max(self) -> str:
        """The name of the field of a range's larger end. It holds None for a single value."""
        return f"{self.field.removesuffix(self.unit)}_max{self.unit}"

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


def option(
    group: str,
    metavar: str | None,
    parse: Callable[[str], object],
    help: str,
    *marks: str,
    bare: str | None = None,
) -> Any:
    """Declare the option of a field."""
    return group, metavar, parse, help, marks, bare


def _smact(given: str) -> float:
    """Return the SM activity. Its type of GPU stays in the option as written."""
    figure, at, gpu_type = given.partition("@")
    if at and len(v.gpu_types(gpu_type)) != 1:
        raise ValueError(f"{v.shown(gpu_type)} is not one type of GPU such as a100")
    return v.number(0, 1)(figure)


_NEEDS = "GPUs, CPUs and memory"
_SHARED = "Sharing a GPU"
_WHEN = "When it runs"
_ARRAYS = "Arrays and sweeps"
_HOW = "Where and how it runs"
_ENDING = "Its end, and failures"
_SAVING = "Jobs that save their work"
_ESTIMATES = "For estimates of its memory"

_MODES = ("auto", "exclusive", "timeslice", "mps", "mig")
_PRECISION = ("fp32", "tf32", "fp16", "bf16", "amp")


class Options(Record):
    """The typed values. A missing option is None, or an empty tuple.

    Of a range, `gpus`, `cpus` and `memory_mib` are the smaller end, and `gpu_memory_mib` is what a
    job with a limit (`gpu_memory_max_mib`) reserves; it is also None for `auto`. `due_s` and
    `begin_s` are in seconds since the epoch, and None also for a time that is not absolute yet
    (`JobFile.dated`).
    """

    gpus: int | None = option(
        _NEEDS, "N|MIN-MAX", v.gpus_or_range, "number of GPUs (default: 1)", FIRST, SIZE, NEED
    )
    gpus_max: int | None = None
    gpu_memory_mib: int | None = option(
        _NEEDS,
        "SIZE[:LIMIT]|auto",
        v.size_or_limit,
        "memory to reserve per GPU, and a limit",
        FIRST,
        NEED,
    )
    gpu_memory_max_mib: int | None = None
    gpu_type: tuple[str, ...] | None = option(
        _NEEDS, "TYPE[|TYPE]", v.gpu_types, "types of GPU to accept, such as a6000|a100"
    )
    prefer_gpus: tuple[str, ...] | None = option(
        _NEEDS, "LIST", v.gpu_list, "GPUs to use first: types, indices, UUIDs"
    )
    avoid_gpus: tuple[str, ...] | None = option(
        _NEEDS, "LIST", v.gpu_list, "GPUs to use only if no others will do"
    )
    mig_profile: str | None = option(
        _NEEDS, "PROFILE", v.mig_profile, "MIG profile, such as 1g.5gb", NEED
    )
    cpus: float | None = option(
        _NEEDS,
        "N|MIN-MAX",
        v.cpus_or_range,
        "CPUs for the job (with a range: for each worker); also its limit",
        FIRST,
    )
    cpus_max: float | None = None
    memory_mib: int | None = option(
        _NEEDS, "SIZE|MIN-MAX", v.size_or_range, "host memory for the job; also its limit", FIRST
    )
    memory_max_mib: int | None = None
    role: tuple[v.RoleOption, ...] = option(
        _NEEDS,
        "NAME:N|MIN-MAX[,cpus=N|MIN-MAX][,memory=SIZE][,gpus=N]",
        v.role_option,
        "tasks of one kind, with --gpus=0",
        MANY,
        SIZE,
        NEED,
    )

    collocation: str | None = option(
        _SHARED, "|".join(_MODES), v.choice(*_MODES), "how to share a GPU"
    )
    smact: float | None = option(
        _SHARED,
        "0..1[@TYPE]",
        _smact,
        "expected SM activity when alone on a GPU (0.6@a100: on an A100)",
        NEED,
    )
    sm_share: int | None = option(
        _SHARED, "PERCENT", v.whole(1, 100), "the part of a GPU's SMs as an MPS client"
    )
    max_slowdown: float | None = option(
        _SHARED,
        "X|none",
        v.or_none(v.number(1, 1000)),
        "longest run time beside others (1.3: 30% longer)",
    )

    time_s: float | None = option(
        _WHEN,
        "TIME|none",
        v.or_none(v.seconds),
        "time limit, such as 90min, 4:00:00 or 1-00:00:00",
        FIRST,
        END,
        LIVE,
    )
    duration_s: float | None = option(
        _WHEN, "TIME|none", v.or_none(v.seconds), "expected run time when alone on a GPU", NEED, END
    )
    priority: int | None = option(
        _WHEN, "N", v.whole(-1000, 1000), "higher starts earlier (-1000 to 1000)", LIVE
    )
    hold: bool | None = option(
        _WHEN, None, v.flag, "do not start the job before `radrm release`", SUBMIT
    )
    after: tuple[r.AfterOption, ...] = option(
        _WHEN,
        "JOB[:ok|:any|:failed]",
        r.after_option,
        "start after that job; `none` drops earlier ones",
        MANY,
        FIRST,
    )
    begin_s: float | None = option(
        _WHEN, "TIME", v.moment, "do not start before, such as 18:00, +2h or none", END
    )
    due_s: float | None = option(
        _WHEN, "TIME", v.moment, "due time, such as 18:00, 'fri 9:00', +90m or none", END, LIVE
    )
    weight: float | None = option(
        _WHEN, "W", v.weight, "multiplies the cost of a late end (default: 1)", LIVE
    )

    array: r.ArrayOption | None = option(
        _ARRAYS,
        "0-9[%N]",
        r.array_option,
        "a job per number (or 1,3,5; 0-9:2), N at once",
        FIRST,
        ARRAY,
    )
    param: tuple[str, ...] = option(
        _ARRAYS,
        "NAME=VALUES",
        r.param_option,
        "a job per value (lr=1,2 or seed=0:9), for {NAME}",
        MANY,
        FIRST,
        ARRAY,
    )
    params: str | None = option(
        _ARRAYS, "FILE.csv", v.path, "a job per row of values; the first line has the names", ARRAY
    )
    at_once: int | None = option(
        _ARRAYS,
        "N",
        v.whole(1, r.MAX_ARRAY),
        "elements of a sweep at once (of an array: 0-9%N)",
        ARRAY,
    )
    max_fails: r.MaxFailsOption | None = option(
        _ARRAYS,
        "N[@TIME]",
        r.max_fails_option,
        "hold the rest of an array after N failures (@60s: within 60 s)",
        ARRAY,
    )

    name: str | None = option(
        _HOW, "NAME", v.job_name, "its name (default: that of its file)", FIRST, START
    )
    comment: str | None = option(_HOW, "TEXT", v.text(1024), "a note kept with the job", LIVE)
    chdir: str | None = option(
        _HOW, "DIR", v.path, "run here instead of the submit directory", START, NEED, FOLDER
    )
    env: tuple[tuple[str, str], ...] = option(
        _HOW, "NAME=VALUE", v.variable, "set a variable for the job", MANY, START, NEED
    )
    output: str | None = option(
        _HOW, "PATH", v.log_path, "file of its output: %j %x %u %A %a %t", FIRST, START, FOLDER
    )
    error: str | None = option(
        _HOW, "PATH", v.log_path, "file of standard error alone; the same patterns", START, FOLDER
    )
    snapshot: str | None = option(
        _HOW,
        "DIR",
        v.path,
        "run in a copy of DIR (default: the submit directory)",
        SUBMIT,
        bare=".",
    )
    device_ids: str | None = option(
        _HOW,
        "uuid|index",
        v.choice("uuid", "index"),
        "how CUDA_VISIBLE_DEVICES names the job's GPUs",
    )
    cpu_bind: str | None = option(
        _HOW,
        "socket|numa|none",
        v.choice("socket", "numa", "none"),
        "run on the CPUs of the GPUs' sockets or NUMA nodes (none: on all)",
    )
    interactive: bool | None = option(
        _HOW, None, v.flag, "somebody works in it (set by `radrm run`)", HIDDEN, SUBMIT
    )

    background: str | None = option(
        _ENDING,
        "end|wait",
        v.choice("end", "wait"),
        "what becomes of processes that its script leaves running",
        START,
    )
    notify: tuple[str, ...] = option(
        _ENDING,
        "TARGET[:EVENT,...]",
        v.notify,
        "mail address, URL or program to tell of its end",
        MANY,
        FIRST,
    )
    retries: int | None = option(
        _ENDING, "N", v.whole(0, 1000), "run again up to N times after a failure", FIRST, LIVE
    )
    retry_on: tuple[tuple[int, int], ...] | None = option(
        _ENDING,
        "CODES",
        v.exit_codes,
        "retry only after these exit codes or signals, as in 1,75-80,KILL",
        LIVE,
    )
    requeue: bool | None = option(_ENDING, None, v.flag, "run again after a lost attempt", LIVE)
    signal: v.SignalOption | None = option(
        _ENDING,
        "NAME@SECONDS|none",
        v.or_none(v.signal_option),
        "send it SECONDS before the time limit",
        LIVE,
    )
    silent_limit_s: float | None = option(
        _ENDING,
        "TIME|none",
        v.or_none(v.silent_limit),
        "stop the job if its log and progress do not change for so long",
        LIVE,
    )
    expect_idle: bool | None = option(
        _ENDING, None, v.flag, "the job may leave its GPUs idle ([idle] spares it)", LIVE
    )

    checkpoint: str | None = option(
        _SAVING,
        "none|signal|exit",
        v.choice("none", "signal", "exit"),
        "how the job saves its work: on a signal; or on TERM, and exits",
        FIRST,
    )
    checkpoint_signal: int | None = option(
        _SAVING, "NAME", v.save_signal, "the signal that asks for it (USR1)"
    )
    checkpoint_cost_s: float | None = option(_SAVING, "TIME", v.seconds, "how long saving takes")
    progress_pattern: str | None = option(
        _SAVING,
        "REGEX|auto",
        v.progress_pattern,
        "read progress from the log, as in (?P<step>\\d+)/(?P<total>\\d+)",
    )
    progress_file: str | None = option(
        _SAVING, "PATH", v.path, "read progress from this file instead of the log"
    )

    model_summary: str | None = option(
        _ESTIMATES, "FILE", v.path, "file with the model's summary, for estimators", NEED
    )
    model_factory: str | None = option(
        _ESTIMATES, "MODULE:FUNCTION", v.factory, "builds the model, for estimators", NEED
    )
    batch_size: int | None = option(_ESTIMATES, "N", v.whole(1, 10**9), "for estimators", NEED)
    sequence_length: int | None = option(
        _ESTIMATES, "N", v.whole(1, 10**7), "tokens per sequence", NEED
    )
    input_shape: tuple[int, ...] | None = option(
        _ESTIMATES, "SHAPE", v.shape, "one sample, such as 3x224x224", NEED
    )
    optimizer: str | None = option(_ESTIMATES, "NAME", v.word, "for estimators", NEED)
    precision: str | None = option(
        _ESTIMATES, "|".join(_PRECISION), v.choice(*_PRECISION), "for estimators", NEED
    )
    no_trace: bool | None = option(
        _ESTIMATES,
        None,
        v.flag,
        "run nothing of the job before it starts, not even to estimate it",
        NEED,
    )

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


def _declared() -> dict[str, Option]:
    """Return the options by name, and leave their fields without a value."""
    found = {}
    for field, declared in list(vars(Options).items()):
        if field in Options.__annotations__ and declared is not None:
            unit = next((each for each in ("_mib", "_s") if field.endswith(each)), "")
            name = field.removesuffix(unit).replace("_", "-")
            found[name] = Option(name, field, unit, *declared)
            setattr(Options, field, () if found[name].repeatable else None)
    return found


BY_NAME = _declared()
OPTIONS = tuple(BY_NAME.values())
SHOWN = tuple(option for option in OPTIONS if HIDDEN not in option.marks)
"""Those that users set. Help and documentation show them in this order."""


def marked(*marks: str) -> frozenset[str]:
    """Return the names of the options with one of these marks."""
    return frozenset(each.name for each in OPTIONS if set(each.marks) & set(marks))


OF_ARRAYS = marked(ARRAY)
FIXED = marked(ARRAY, SUBMIT)
"""The options that no edit changes."""
MOMENTS = frozenset(option.name for option in OPTIONS if option.parse is v.moment)
"""The options whose values are moments."""

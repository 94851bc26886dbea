"""The one option table: what a submission may ask for.

It feeds the `#RAD` lines of job files, the command line of `submit`, the daemon's
check of what arrives, the help and the documents. `submit` imports this file each
time somebody waits for it, so it imports next to nothing. No defaults stand here:
an option that nobody gave is None, and whoever uses it knows what that means.
How the values are read stands in `option_values`.
"""

from __future__ import annotations

from radrm.errors import UsageError
from radrm.jobfile import values as v
from radrm.jobfile.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any, NoReturn

RawValue = str | list[str] | bool
"""A value as written: text, several texts (options that repeat), True (flags)."""
RawOptions = dict[str, RawValue]
MAX_REPEATS = 4096

# --------------------------------------------------------------------------- the table


class Option(Record):
    """One option. `parse` turns its text into a value or raises ValueError.

    `metavar` None marks a flag. `unit` ends the name of its field in `Options`.
    What is not `available`, or is a value in `later`, is understood and refused.
    """

    name: str
    metavar: str | None
    parse: Callable[[str], object]
    help: str
    unit: str = ""
    repeatable: bool = False
    available: bool = True
    later: tuple[str, ...] = ()

    @property
    def field(self) -> str:
        return self.name.replace("-", "_") + self.unit

    @property
    def usage(self) -> str:
        return f"--{self.name}" if self.metavar is None else f"--{self.name}={self.metavar}"

    def value(self, text: str, where: str) -> object:
        """The typed value of `text`; UsageError, naming `where`, when it cannot be had."""
        try:
            if len(text) > v.MAX_TEXT or "\0" in text:
                raise ValueError(f"{v.shown(text)} is too long or holds a NUL")
            text.encode()
            value = self.parse(text)
        except UnicodeEncodeError:
            raise UsageError(f"{where}: --{self.name}: {v.shown(text)} is not UTF-8") from None
        except ValueError as cause:
            raise UsageError(f"{where}: --{self.name}: {cause}") from None
        if not self.available or text in self.later:
            what = f"--{self.name}" + ("" if not self.available else f"={text}")
            raise UsageError(f"{where}: {what} is not available in this release; leave it out")
        return value


_SHARING = ("auto", "exclusive", "timeslice", "mps", "mig")
_PRECISION = ("fp32", "tf32", "fp16", "bf16", "amp")
_later: dict[str, Any] = {"available": False}
_many: dict[str, Any] = {"repeatable": True}
_s: dict[str, Any] = {"unit": "_s"}
_mib: dict[str, Any] = {"unit": "_mib"}

OPTIONS: tuple[Option, ...] = (
    Option("name", "NAME", v.job_name, "the job's name (otherwise the file's)"),
    Option("gpus", "N", v.whole(0, v.MAX_GPUS), "GPUs wanted (otherwise 1)"),
    Option("gpu-memory", "SIZE|auto", v.size_or_auto, "memory per GPU: need and MPS cap", **_mib),
    Option("smact", "0..1", v.number(0, 1), "SM activity expected when alone on a GPU"),
    Option("duration", "TIME", v.seconds, "run time expected when alone on a GPU", **_s),
    Option("collocation", "|".join(_SHARING), v.choice(*_SHARING), "how to share a GPU"),
    Option("mig-profile", "PROFILE", v.mig_profile, "MIG instance wanted, as 1g.5gb"),
    Option("time", "TIME", v.seconds, "time limit, as 90s, 4:00:00 or 1-00:00:00", **_s),
    Option("priority", "N", v.whole(-1000, 1000), "higher starts earlier (-1000 to 1000)"),
    Option("hold", None, v.flag, "do not start it before `radrm release`"),
    Option(
        "after",
        "ID[:ok|:any|:failed]",
        v.dependency,
        "start after that job; `none` undoes earlier ones",
        **_many,
    ),
    Option("array", "0-9[%N]", v.array, "one job per number, N of them at once"),
    Option("output", "PATH", v.log_path, "standard output; may hold %j %x %u %A %a %t"),
    Option("error", "PATH", v.log_path, "standard error, likewise"),
    Option("chdir", "DIR", v.path, "run here instead of the submit directory"),
    Option("env", "NAME=VALUE", v.variable, "set a variable for the job", **_many),
    Option("cpus", "N", v.number(0.01, 4096), "CPUs wanted", **_later),
    Option("memory", "SIZE", v.size, "host memory wanted", **_mib, **_later),
    Option(
        "retries",
        "N",
        v.whole(0, 1000),
        "run again up to N times after a failure, with a growing pause",
    ),
    Option("requeue", None, v.flag, "run again when an attempt was lost"),
    Option("signal", "NAME@SECONDS", v.early_signal, "send it so long before the time limit"),
    Option(
        "checkpoint",
        "none|signal",
        v.choice("none", "signal"),
        "how the job can save its state",
        later=("signal",),
    ),
    Option("model-summary", "FILE", v.path, "the model's summary, for estimators"),
    Option("model-factory", "MODULE:FUNCTION", v.factory, "builds the model, for estimators"),
    Option("batch-size", "N", v.whole(1, 10**9), "batch size, for estimators"),
    Option("sequence-length", "N", v.whole(1, 10**7), "tokens of a sequence, for estimators"),
    Option("input-shape", "SHAPE", v.shape, "one sample, as 3x224x224, for estimators"),
    Option("optimizer", "NAME", v.word, "optimizer, for estimators"),
    Option("precision", "|".join(_PRECISION), v.choice(*_PRECISION), "precision, for estimators"),
    Option("notify", "TARGET", v.text(1024), "tell when the job ends", **_many, **_later),
    Option("comment", "TEXT", v.text(1024), "a note kept with the job"),
    Option("due", "TIME", v.moment, "wanted by, as 2030-01-31T18:00", **_s, **_later),
    Option("weight", "W", v.number(0.001, 1e6), "what being late costs", **_later),
    Option("elastic", "MIN-MAX", v.gpu_range, "GPUs may change between these", **_later),
    Option("max-slowdown", "X", v.number(1, 1000), "the most it may be slowed down", **_later),
    Option("device-ids", "uuid|index", v.choice("uuid", "index"), "how its GPUs are told to it"),
)
_BY_NAME = {option.name: option for option in OPTIONS}


class Options(Record):
    """The typed values: None, or an empty tuple, where an option was not given.

    `gpu_memory_mib` is None for `auto` too; `due_s` is seconds since the epoch.
    """

    name: str | None = None
    gpus: int | None = None
    gpu_memory_mib: int | None = None
    smact: float | None = None
    duration_s: float | None = None
    collocation: str | None = None
    mig_profile: str | None = None
    time_s: float | None = None
    priority: int | None = None
    hold: bool | None = None
    after: tuple[v.Dependency, ...] = ()
    array: v.Array | None = None
    output: str | None = None
    error: str | None = None
    chdir: str | None = None
    env: tuple[tuple[str, str], ...] = ()
    cpus: float | None = None
    memory_mib: int | None = None
    retries: int | None = None
    requeue: bool | None = None
    signal: v.EarlySignal | None = None
    checkpoint: str | None = None
    model_summary: str | None = None
    model_factory: str | None = None
    batch_size: int | None = None
    sequence_length: int | None = None
    input_shape: tuple[int, ...] | None = None
    optimizer: str | None = None
    precision: str | None = None
    notify: tuple[str, ...] = ()
    comment: str | None = None
    due_s: float | None = None
    weight: float | None = None
    elastic: tuple[int, int] | None = None
    max_slowdown: float | None = None
    device_ids: str | None = None


# --------------------------------------------------------------------------- reading


_ELSEWHERE = {
    "J": "--name=NAME",
    "job-name": "--name=NAME",
    "t": "--time=TIME (a plain number is seconds)",
    "gres": "--gpus=N",
    "G": "--gpus=N",
    "gpus-per-node": "--gpus=N",
    "mem": "--gpu-memory=SIZE for the GPU's (--memory, the host's, is not in this release)",
    "dependency": "--after=ID[:ok|:any|:failed]",
    "d": "--after=ID[:ok|:any|:failed]",
    "a": "--array=0-9[%N]",
    "o": "--output=PATH",
    "e": "--error=PATH",
    "D": "--chdir=DIR",
    "c": "--cpus=N, which is not in this release",
    "cpus-per-task": "--cpus=N, which is not in this release",
    "export": "--env=NAME=VALUE",
}
"""What users of Slurm type, and what it is called here."""


def _unknown(word: str, where: str, others: Iterable[str] = ()) -> NoReturn:
    from difflib import get_close_matches

    if not word.startswith("-"):
        raise UsageError(f"{where}: {v.shown(word)} is not an option; options begin with --")
    bare = word.lstrip("-").partition("=")[0][:40]
    if bare in _ELSEWHERE:
        raise UsageError(f"{where}: unknown option {v.shown(word)}; here it is {_ELSEWHERE[bare]}")
    if word == "-":
        raise UsageError(
            f"{where}: a job file is not read from standard input; save it to a file, or write "
            "the command after --"
        )
    near = get_close_matches(bare, [*_BY_NAME, *others], n=1)
    hint = f"; did you mean --{near[0]}?" if near else "; see `radrm submit --help`"
    raise UsageError(f"{where}: unknown option {v.shown(word)}{hint}")


def _take(word: str, rest: Iterator[str], where: str, raw: RawOptions) -> None:
    """Read the option that `word` begins into `raw`, with its value from `rest` if need be."""
    name, equals, text = word.removeprefix("--").partition("=")
    option = _BY_NAME[name]
    if option.metavar is None:
        if equals:
            raise UsageError(f"{where}: --{name} takes no value; write --{name} alone")
    elif not equals:
        text = next(rest, "--")
        if text.startswith("--"):
            raise UsageError(f"{where}: --{name} needs a value; write {option.usage}")
    option.value(text, where)
    earlier = raw.get(name)
    if option.repeatable:
        texts = earlier if isinstance(earlier, list) else []
        if len(texts) >= MAX_REPEATS:
            raise UsageError(f"{where}: --{name} is given more than {MAX_REPEATS} times")
        raw[name] = [*texts, text]
    elif earlier is not None:
        raise UsageError(f"{where}: --{name} is given twice; keep one of them")
    else:
        raw[name] = text if option.metavar is not None else True


def _is_option(word: str) -> bool:
    return word.startswith("--") and word[2:].partition("=")[0] in _BY_NAME


def parse_words(words: Iterable[str], where: str, earlier: RawOptions | None = None) -> RawOptions:
    """The options in `words`, checked but still as written: fit for JSON.

    `earlier` is what the same source has given before (a file's lines above): to
    say the same thing twice in one source is an error. UsageErrors name `where`.
    """
    raw = dict(earlier or {})
    rest = iter(words)
    for word in rest:
        if not _is_option(word):
            _unknown(word, where)
        _take(word, rest, where, raw)
    return raw


def merged(low: RawOptions, high: RawOptions) -> RawOptions:
    """Both sources; `high` wins. Options that repeat add up, the higher source's last."""
    both = {**low, **high}
    for name in low.keys() & high.keys():
        first, last = low[name], high[name]
        if isinstance(first, list) and isinstance(last, list):
            both[name] = _added_up(name, [*first, *last])
    return both


def _added_up(name: str, words: list[str]) -> list[str]:
    """Without what a later word has made void, so that nothing grows with every edit."""
    if name == "env":
        return list({word.partition("=")[0]: word for word in words}.values())
    while name == "after" and "none" in words:
        del words[: words.index("none") + 1]
    return words


def _texts(option: Option, given: object) -> list[str] | None:
    """The texts of a raw value, None when it is not of the option's kind."""
    if option.metavar is None:
        return [""] if given is True else None
    if not option.repeatable:
        return [given] if isinstance(given, str) else None
    if not isinstance(given, list) or len(given) > MAX_REPEATS:
        return None
    return given if all(isinstance(text, str) for text in given) else None


def typed(raw: object, where: str = "options") -> Options:
    """The typed values of raw options that may come from anybody: nothing is trusted.

    Raises UsageError for whatever is not exactly as `parse_words` would have made it.
    """
    if not isinstance(raw, dict):
        raise UsageError(f"{where}: options are not a table; submit the job again")
    values: dict[str, Any] = {}
    for name, given in raw.items():
        option = _BY_NAME.get(name) if isinstance(name, str) else None
        if option is None:
            _unknown(f"--{name}", where)
        texts = _texts(option, given)
        if texts is None:
            raise UsageError(f"{where}: --{name} holds a value of the wrong kind; give it again")
        found = [option.value(text, where) for text in texts]
        if option.repeatable:
            while None in found:  # it takes back all that stands before it
                del found[: found.index(None) + 1]
        values[option.field] = tuple(found) if option.repeatable else found[0]
    options = Options(**values)
    if options.mig_profile and options.collocation not in (None, "auto", "mig"):
        raise UsageError(
            f"{where}: --mig-profile does not go with --collocation={options.collocation}; drop one"
        )
    return options


def typed_whole(raw: object, where: str = "options") -> Options:
    """As `typed`, for all that is said of a job: what needs another option must have it."""
    options = typed(raw, where)
    warning, limit_s = options.signal, options.time_s
    if warning is not None and (limit_s is None or limit_s <= warning.seconds):
        limit = "none" if limit_s is None else f"{limit_s:g} s"
        raise UsageError(
            f"{where}: --signal comes {warning.seconds:g} s before the time limit, which is "
            f"{limit}; give a longer --time"
        )
    return options


# --------------------------------------------------------------------------- submit

_FLAGS = {
    "wait": "wait for the jobs and exit with their exit code",
    "parsable": "print bare tickets, one a line",
    "json": "print one JSON document",
    "help": "show this text",
}


class SubmitRequest(Record):
    """A whole `submit` command line. Exactly one of `files` and `command` is filled."""

    raw_options: RawOptions
    files: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    wait: bool = False
    parsable: bool = False
    json: bool = False
    help: bool = False


def parse_submit(argv: Sequence[str]) -> SubmitRequest:
    """Read the words after `radrm submit`. With `help` nothing else has been checked."""
    where = "command line"
    words = list(argv)
    cut = words.index("--") if "--" in words else len(words)
    ours, command = words[:cut], tuple(words[cut + 1 :])
    if "--help" in ours or "-h" in ours:
        return SubmitRequest({}, help=True)
    raw: RawOptions = {}
    files: list[str] = []
    flags: set[str] = set()
    rest = iter(ours)
    for word in rest:
        if _is_option(word):
            _take(word, rest, where, raw)
        elif word.startswith("--") and word[2:] in _FLAGS:
            flags.add(word[2:])
        elif word.startswith("-") or not word:
            _unknown(word, where, _FLAGS)
        else:
            files.append(word)
    if cut < len(words) and not command:
        raise UsageError(f"{where}: no command after --; write one, or leave out the --")
    if files and command:
        raise UsageError(f"{where}: both job files and a command after --; submit them apart")
    if not files and not command:
        raise UsageError(f"{where}: nothing to submit; name a job file, or a command after --")
    if {"parsable", "json"} <= flags:
        raise UsageError(f"{where}: --parsable and --json exclude each other; keep one")
    typed(raw, where)
    return SubmitRequest(raw, tuple(files), command, **dict.fromkeys(flags, True))


def parse_edit(argv: Sequence[str]) -> tuple[list[str], RawOptions]:
    """Read the words after `radrm edit`: the jobs, and what is to be different."""
    where = "command line"
    raw: RawOptions = {}
    jobs: list[str] = []
    rest = iter(argv)
    for word in rest:
        if _is_option(word):
            _take(word, rest, where, raw)
        elif word.startswith("-") or not word:
            _unknown(word, where)
        else:
            jobs.append(word)
    if not jobs:
        raise UsageError(f"{where}: no job named; write: radrm edit JOB --priority=10")
    if not raw:
        raise UsageError(f"{where}: nothing to change; write: radrm edit JOB --priority=10")
    if "hold" in raw:
        raise UsageError(f"{where}: to hold a job that was submitted, write: radrm hold JOB")
    if "array" in raw:
        raise UsageError(f"{where}: an array stays as it was submitted; submit another")
    typed(raw, where)
    return jobs, raw


# --------------------------------------------------------------------------- help


def _meaning(option: Option) -> str:
    notes = ["may be repeated"] if option.repeatable else []
    if not option.available:
        notes.append("not in this release")
    notes += [f"{value} not in this release" for value in option.later]
    return option.help + (f" ({'; '.join(notes)})" if notes else "")


def submit_help() -> str:
    """The text of `radrm submit --help`."""
    rows = [(option.usage, _meaning(option)) for option in OPTIONS]
    rows += [(f"--{name}", meaning) for name, meaning in _FLAGS.items()]
    lines = [
        "Usage: radrm submit [OPTIONS] FILE...",
        "       radrm submit [OPTIONS] -- COMMAND [ARGUMENT]...",
        "",
        "Submit job files, or one command, and print a ticket for each. Works with the",
        "daemon down too. The command line beats the #RAD lines of a file.",
        "",
        "Options:",
    ]
    for usage, meaning in rows:
        if len(usage) > 30:
            lines += [f"  {usage}", f"{'':34}{meaning}"]
        else:
            lines.append(f"  {usage:<30}  {meaning}")
    return "\n".join(lines) + "\n"


def options_markdown() -> str:
    """The option table for the documents."""
    rows = [(f"`{option.usage}`", _meaning(option)) for option in OPTIONS]
    cells = [("option", "meaning"), ("---", "---"), *rows]
    return "".join(f"| {a} | {b} |\n" for a, b in ((a.replace("|", r"\|"), b) for a, b in cells))

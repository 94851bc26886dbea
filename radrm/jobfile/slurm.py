"""Translate the options of Slurm's `sbatch` into those of radrm.

Theory of operation
-------------------
`#SBATCH` lines and the command line of `sbatch` are read alike: each option gets its long name,
and the command line overrides the script. They become options of the table, variables for the
job, and flags of `radrm submit`. An option belongs to one of three kinds:

    it has a meaning here          it is translated
    it changes nothing on one      it is left out, and a note names it
    server without accounts
    the job would be another one   it is refused, and the error names ours

What the daemon reads is the translation: it knows nothing of Slurm, but for the variables that
only it can set (`radrm/daemon/launching.py`).

Source: sbatch(1) of Slurm 24.05, without its environment variables for input.
"""

from __future__ import annotations

import re
import shlex

from radrm.errors import UsageError, plain
from radrm.jobfile.options import BY_NAME, RawOptions
from radrm.jobfile.record import Record
from radrm.jobfile.relations import array_option
from radrm.jobfile.values import shown

# ------------------------------------------------------------------
# The variable that tells a daemon that a job was written for Slurm.


MARK = "RADRM_SLURM"
"""Set to 1 by `radrm submit --slurm`: the attempt gets Slurm's names for its id and element."""


# ------------------------------------------------------------------
# Times and amounts of memory as Slurm writes them.


def parse_time(text: str) -> int | None:
    """Return Slurm's time limit in seconds; None for none. A plain number is minutes.

    Raises ValueError.
    """
    if text.upper() in ("0", "INFINITE", "UNLIMITED", "-1"):
        return None
    found = re.fullmatch(
        r"(?:([0-9]{1,6})-)?([0-9]{1,9})(?::([0-9]{1,9}))?(?::([0-9]{1,9}))?", text
    )
    if not found:
        raise ValueError(f"{shown(text)} is not a time; write 90 (minutes), 1:30:00 or 1-00:00:00")
    days, *parts = found.groups()
    numbers = [int(part) for part in parts if part is not None]
    if days is not None:  # D-H, D-H:M, D-H:M:S
        hours, minutes, seconds = (*numbers, 0, 0)[:3]
    elif len(numbers) == 3:
        hours, minutes, seconds = numbers
    else:  # M, M:S
        hours, (minutes, seconds) = 0, (*numbers, 0)[:2]
    total = ((int(days or 0) * 24 + hours) * 60 + minutes) * 60 + seconds
    return total or None


def parse_memory(text: str) -> float:
    """Return an amount of memory in MiB; a plain number is MiB. Raises ValueError."""
    found = re.fullmatch(r"([0-9]{1,12})([KMGT]?)B?", text, re.IGNORECASE)
    if not found:
        raise ValueError(f"{shown(text)} is not an amount; write 16G or 16000 (MiB)")
    return int(found[1]) * {"K": 1 / 1024, "": 1, "M": 1, "G": 1024, "T": 1024**2}[found[2].upper()]


# ------------------------------------------------------------------
# Read the options of `sbatch` from its command line and from `#SBATCH` lines.


TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

MOST_LINES = 1000
MOST_CHARACTERS = 8192
"""Of a line: the time that shlex needs grows with the square of its length."""

_LONG = {
    "J": "job-name", "G": "gpus", "t": "time", "c": "cpus-per-task", "a": "array", "o": "output",
    "e": "error", "d": "dependency", "D": "chdir", "H": "hold", "b": "begin", "N": "nodes",
    "n": "ntasks", "p": "partition", "A": "account", "q": "qos", "C": "constraint",
    "w": "nodelist", "x": "exclude", "W": "wait", "Q": "quiet", "v": "verbose",
    "s": "oversubscribe",
    "i": "input", "L": "licenses", "M": "clusters", "k": "no-kill", "O": "overcommit",
    "B": "extra-node-info", "F": "nodefile", "m": "distribution", "S": "core-spec",
    "h": "help", "V": "version",
}  # fmt: skip
_FLAGS = frozenset(
    {
        *("hold", "requeue", "no-requeue", "wait", "quiet", "verbose", "oversubscribe"),
        *("parsable", "test-only", "no-kill", "overcommit", "contiguous", "spread-job"),
        *("use-min-nodes", "ignore-pbs", "reboot", "help", "version"),
    }
)
"""Options without a value."""
_MAYBE = frozenset({"exclusive", "nice", "no-kill", "get-user-env", "propagate"})
"""Options whose value may be left out; it stands after a `=`."""


class Given(Record):
    """An option as it was given: its long name, its value (None for none), and where."""

    name: str
    value: str | None
    where: str


def directives(text: str, where: str) -> list[Given]:
    """Return the options of the `#SBATCH` lines before the first command. Raises `UsageError`."""
    found: list[Given] = []
    for number, line in enumerate(text.split("\n"), 1):
        plain = line.strip()
        if plain and not plain.startswith("#"):
            break
        if not re.match(r"#SBATCH(\s|$)", line):
            continue
        here = f"{where} line {number}"
        if len(found) >= MOST_LINES or len(line) > MOST_CHARACTERS:
            raise UsageError(
                f"{here}: more than {MOST_LINES} lines, or {MOST_CHARACTERS} characters in one"
            )
        try:
            words = shlex.split(line[len("#SBATCH") :], comments=True)
        except ValueError as cause:
            raise UsageError(f"{here}: {str(cause).lower()}; close the quotes") from None
        options, rest = read(words, here)
        if rest:
            raise UsageError(f"{here}: {shown(rest[0])} is not an option; options begin with -")
        found += options
    return found


def read(
    words: Sequence[str], where: str, flags: Collection[str] = ()
) -> tuple[list[Given], list[str]]:
    """Return the options at the head of a command line of `sbatch`, and the words after them.

    `flags`: more options that have no value. Raises `UsageError` for an option without its value.
    """
    found: list[Given] = []
    left = list(words)
    while left and left[0].startswith("-") and left[0] not in ("-", "--"):
        word = left.pop(0)
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            given: str | None = value if equals else None
        else:
            name, value = _LONG.get(word[1], word[1]), word[2:].removeprefix("=")
            given = value or None
            if name in _FLAGS and given is not None:  # -Hv
                left.insert(0, f"-{given}")
                given = None
        if given is None and name not in _FLAGS | _MAYBE and name not in flags:
            if not left or (left[0].startswith("-") and len(left[0]) > 1):
                raise UsageError(f"{where}: {spelled(name)} needs a value")
            given = left.pop(0)
        found.append(Given(name, given, where))
    if left[:1] == ["--"]:
        left.pop(0)
    return found, left


def spelled(name: str) -> str:
    """Return an option as it is written, as plain text of limited length."""
    return f"-{plain(name)}" if len(name) == 1 else f"--{plain(name[:40])}"


# ------------------------------------------------------------------
# From options of `sbatch` to options of radrm.


TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

_IGNORED = frozenset(
    {
        *(
            "partition",
            "account",
            "qos",
            "quiet",
            "verbose",
            "oversubscribe",
            "no-kill",
            "clusters",
        ),
        *("overcommit", "contiguous", "spread-job", "use-min-nodes", "ignore-pbs", "reservation"),
        *("get-user-env", "propagate", "open-mode", "cpu-freq", "cpu-bind", "mem-bind", "gpu-bind"),
        *("gpu-freq", "hint", "distribution", "threads-per-core", "ntasks-per-core", "profile"),
        *("acctg-freq", "wckey", "kill-on-invalid-dep", "nodelist", "priority", "gid", "uid"),
        *("cores-per-socket", "sockets-per-node", "extra-node-info", "core-spec", "time-min"),
        *("delay-boot", "deadline", "bb", "bbf", "container", "mcs-label", "power", "switches"),
        *("thread-spec", "tmp", "export-file", "tres-per-task", "extra", "prefer", "mincpus"),
    }
)
_REFUSED = {
    "input": "a job's standard input is empty; redirect it in the script: < FILE",
    "licenses": "there are no licences here; leave it out",
    "constraint": "name types of GPU by --gpu-type=TYPE instead",
    "exclude": "name GPUs by --avoid-gpus=LIST instead",
    "nodefile": "this is one server; leave it out",
}


class Slurm(Record):
    """A translation. `variables` are added to the job's environment; `kept` (None: all) are the
    variables of the submitter that the job gets. `flags` are flags of `radrm submit`."""

    raw: RawOptions
    variables: dict[str, str]
    kept: tuple[str, ...] | None
    flags: frozenset[str]
    notes: tuple[str, ...]


def translate(given: Iterable[Given], cwd: str, host: str, own: Collection[str] = ()) -> Slurm:
    """Translate options; of two alike the later one counts.

    `own`: names of flags of `radrm submit`. Raises `UsageError` for an option that cannot be kept,
    which names what to write instead.
    """
    last = {each.name: each for each in given}
    found = _Translation(last, own)
    for each in last.values():
        try:
            found.take(each)
        except ValueError as cause:
            raise UsageError(f"{each.where}: {spelled(each.name)}: {cause}") from None
    return found.result(cwd, host)


class _Translation:
    """What was translated so far."""

    def __init__(self, given: Mapping[str, Given], own: Collection[str]) -> None:
        self.given = given
        self.own = own
        self.raw: RawOptions = {}
        self.variables: dict[str, str] = {}
        self.kept: tuple[str, ...] | None = None
        self.flags: set[str] = set()
        self.notes: list[str] = []
        self.ignored: list[str] = []

    def take(self, each: Given) -> None:
        name, value = each.name, each.value or ""
        if name in _MEANINGS:
            _MEANINGS[name](self, value)
        elif name in _IGNORED:
            self.ignored.append(spelled(name))
        elif name in _REFUSED:
            raise ValueError(_REFUSED[name])
        elif name in self.own:
            self.flags.add(name)
        elif name in BY_NAME:  # an option of ours among those of sbatch
            self.put(name, value if BY_NAME[name].metavar is not None else True)
        else:
            raise ValueError("no option of sbatch, or none that is known here; leave it out")

    def put(self, name: str, value: str | bool | list[str]) -> None:
        """Set an option of ours."""
        if isinstance(value, str):
            _check(name, value)
        self.raw[name] = [value] if isinstance(value, str) and BY_NAME[name].repeatable else value

    def value(self, name: str) -> str | None:
        each = self.given.get(name)
        return None if each is None else each.value

    def result(self, cwd: str, host: str) -> Slurm:
        if self.ignored:
            names = ", ".join(self.ignored)
            self.notes.append(f"has no meaning on one server, and is left out: {names}")
        raw = self.raw
        array = "array" in raw
        raw.setdefault("gpus", "0")  # as Slurm; a job of radrm's own has one
        # One file for both, as sbatch does: --output alone takes standard error, too.
        raw.setdefault("output", "slurm-%A_%a.out" if array else "slurm-%j.out")
        variables = {
            MARK: "1",
            "SLURM_SUBMIT_DIR": cwd,
            "SLURM_SUBMIT_HOST": host,
            "SLURMD_NODENAME": host,
            "SLURM_JOB_NODELIST": host,
            "SLURM_JOB_NUM_NODES": "1",
            "SLURM_NNODES": "1",
            **self.variables,
        }
        return Slurm(raw, variables, self.kept, frozenset(self.flags), tuple(self.notes))

    # -------------------------------------------------------------- options of sbatch

    def name(self, value: str) -> None:
        self.put("name", value)

    def gpus(self, value: str) -> None:
        """`[TYPE:]N`."""
        kind, _, count = value.rpartition(":")
        if not re.fullmatch(r"[0-9]{1,6}", count):
            raise ValueError(f"{shown(value)} is not [TYPE:]NUMBER")
        before = self.raw.get("gpus")
        if before is not None and before != str(int(count)):
            raise ValueError(f"{shown(value)} differs from the {before} GPUs of another option")
        self.put("gpus", str(int(count)))
        self.variables["SLURM_GPUS"] = str(int(count))
        if kind:
            self.put("gpu-type", kind)

    def gres(self, value: str) -> None:
        """`gpu[:TYPE][:N]`, or `none`."""
        if value == "none":
            self.put("gpus", "0")
            return
        others = [each for each in value.split(",") if not re.match(r"gpu(:|$)", each)]
        wanted = [each for each in value.split(",") if each not in others]
        if others:
            raise ValueError(f"{shown(others[0])} is not a GPU; write gpu:NUMBER")
        if len(wanted) > 1:
            raise ValueError("several kinds of GPUs at once; write one, as gpu:a100:2")
        what = wanted[0].partition(":")[2] or "1"
        self.gpus(what if re.search(r"(^|:)[0-9]+$", what) else f"{what}:1")

    def time(self, value: str) -> None:
        seconds = parse_time(value)
        if seconds is not None:
            self.put("time", f"{seconds}s")

    def cpus(self, value: str) -> None:
        self.put("cpus", value)
        self.variables["SLURM_CPUS_PER_TASK"] = value

    def memory(self, value: str, times: float = 1.0) -> None:
        mib = parse_memory(value) * times
        if mib:
            self.put("memory", f"{-int(-mib // 1)}M")
        else:
            self.notes.append("--mem=0 (all memory of the server) is left out: no memory is booked")

    def memory_per_cpu(self, value: str) -> None:
        self.memory(value, float(self.value("cpus-per-task") or 1))

    def memory_per_gpu(self, value: str) -> None:
        self._count_gpus()
        self.memory(value, float(str(self.raw.get("gpus", "0"))))

    def _count_gpus(self) -> None:
        for name in ("gpus", "gres", "gpus-per-node", "gpus-per-task"):
            value = self.value(name)
            if value is not None:
                _MEANINGS[name](self, value)

    def array(self, value: str) -> None:
        self.put("array", value)
        indices = array_option(value).indices
        self.variables["SLURM_ARRAY_TASK_COUNT"] = str(len(indices))
        self.variables["SLURM_ARRAY_TASK_MIN"] = str(indices[0])
        self.variables["SLURM_ARRAY_TASK_MAX"] = str(indices[-1])

    def output(self, value: str) -> None:
        self.put("output", self._pattern(value))

    def error(self, value: str) -> None:
        self.put("error", self._pattern(value))

    def _pattern(self, value: str) -> str:
        """Slurm's patterns as ours. There is one node and one task: %n %s %t are 0."""

        def ours(found: re.Match[str]) -> str:
            width, letter = found[1], found[2]
            if letter in "nst":
                return "0".zfill(int(width or 1))
            if letter == "J":
                letter = "j"
            if width:
                self.notes.append(f"%{width}{letter} in a log's name is not padded")
            return f"%{letter}"

        return re.sub(r"%([0-9]{0,2})([A-Za-z])", ours, value)

    def dependency(self, value: str) -> None:
        """`TYPE:ID[:ID],...`; all of them must hold."""
        if "?" in value:
            raise ValueError(f"{shown(value)} means one of several jobs; radrm waits for all")
        after: list[str] = []
        for part in value.split(","):
            kind, *jobs = part.split(":")
            if kind not in _CONDITIONS or not jobs:
                known = ", ".join(_CONDITIONS)
                raise ValueError(f"{shown(part)} is none of {known}, with ids of jobs")
            after += [f"{job}{_CONDITIONS[kind]}" for job in jobs]
        for each in after:
            _check("after", each)
        self.raw["after"] = list(after)

    def chdir(self, value: str) -> None:
        self.put("chdir", value)

    def export(self, value: str) -> None:
        """`ALL`, `NONE`, or names and `NAME=VALUE`, with ALL or without."""
        words = value.split(",")
        settings = [word for word in words if "=" in word]
        names = [word for word in words if "=" not in word and word not in ("ALL", "NONE", "NIL")]
        for setting in settings:
            _check("env", setting)
        if settings:
            self.raw["env"] = list(settings)
        if "ALL" not in words:
            self.kept = (*_LOGIN, *names)

    def nice(self, value: str) -> None:
        """Slurm's niceness lowers the priority."""
        if not re.fullmatch(r"(-?[0-9]{1,9})?", value):
            raise ValueError(f"{shown(value)} is not a whole number")
        self.put("priority", str(max(-1000, min(1000, -int(value or 100)))))

    def hold(self, value: str) -> None:
        self.put("hold", True)

    def begin(self, value: str) -> None:
        now = re.fullmatch(r"now(?:\+([0-9]{1,9})([a-z]*))?", value)
        if now is None:
            self.put("begin", value)
        elif now[1]:
            unit = next((u for u in ("seconds", "minutes", "hours", "days", "weeks")
                         if u.startswith(now[2]) or u[:-1] == now[2]), None)  # fmt: skip
            if unit is None:
                raise ValueError(f"{shown(value)}: {now[2]} is no unit; write now+2hours")
            count = int(now[1]) * (7 if unit == "weeks" else 1)
            self.put("begin", f"+{count}{'d' if unit == 'weeks' else unit[0]}")

    def signal(self, value: str) -> None:
        """`[B:][R:]SIGNAL[@SECONDS]`; 60 seconds by default."""
        name, _, seconds = re.sub(r"^[BR]+:", "", value).partition("@")
        if name.isdecimal():
            import signal

            known = {int(each): each.name for each in signal.Signals}
            name = known.get(int(name), name)
        self.put("signal", f"{name.removeprefix('SIG')}@{seconds or 60}")

    def requeue(self, value: str) -> None:
        self.put("requeue", True)

    def nothing(self, value: str) -> None:
        """The option says what is so by default."""

    def comment(self, value: str) -> None:
        self.put("comment", value)

    def exclusive(self, value: str) -> None:
        self.put("collocation", "exclusive")
        self.notes.append(
            "--exclusive: the job shares no GPU; others may use the rest of the server"
        )

    def mail(self, value: str) -> None:
        address = self.value("mail-user")
        if address is None or "NONE" in value.upper().split(","):
            return
        kinds = {_MAIL[word] for word in value.upper().split(",") if _MAIL.get(word)}
        events = "end,oom,start" if "all" in kinds else ",".join(sorted(kinds))
        if events:
            self.put("notify", f"{address}:{events}")

    def one(self, value: str) -> None:
        """A number of nodes or tasks."""
        if value not in ("1", "1-1"):
            raise ValueError(
                f"{shown(value)}: a job is one task on one server; start more processes in the "
                "script, as by torchrun --nproc-per-node"
            )

    def one_task(self, value: str) -> None:
        self.one(value)
        self.variables |= {"SLURM_NTASKS": "1", "SLURM_NPROCS": "1"}


_CONDITIONS = {"afterok": "", "afterany": ":any", "afternotok": ":failed"}
_LOGIN = ("HOME", "USER", "LOGNAME", "SHELL", "PATH", "LANG", "TERM", "TZ")
"""What a login would set: all that `--export=NONE` leaves."""
_MAIL = {"BEGIN": "start", "END": "end", "FAIL": "fail", "ALL": "all"}

_MEANINGS: dict[str, Callable[[_Translation, str], None]] = {
    "job-name": _Translation.name,
    "gpus": _Translation.gpus,
    "gpus-per-node": _Translation.gpus,
    "gpus-per-task": _Translation.gpus,
    "gres": _Translation.gres,
    "time": _Translation.time,
    "cpus-per-task": _Translation.cpus,
    "mem": _Translation.memory,
    "mem-per-cpu": _Translation.memory_per_cpu,
    "mem-per-gpu": _Translation.memory_per_gpu,
    "array": _Translation.array,
    "output": _Translation.output,
    "error": _Translation.error,
    "dependency": _Translation.dependency,
    "chdir": _Translation.chdir,
    "export": _Translation.export,
    "nice": _Translation.nice,
    "hold": _Translation.hold,
    "begin": _Translation.begin,
    "signal": _Translation.signal,
    "requeue": _Translation.requeue,
    "no-requeue": _Translation.nothing,
    "comment": _Translation.comment,
    "exclusive": _Translation.exclusive,
    "mail-user": _Translation.nothing,
    "mail-type": _Translation.mail,
    "nodes": _Translation.one,
    "ntasks": _Translation.one_task,
    "ntasks-per-node": _Translation.one,
    "wait": lambda found, value: found.flags.add("wait"),
    "parsable": lambda found, value: found.flags.add("parsable"),
    "test-only": lambda found, value: found.flags.add("dry-run"),
}


def _check(name: str, text: str) -> None:
    """Raise ValueError for a text that is no value of our option."""
    try:
        BY_NAME[name].value(text, "")
    except UsageError as error:
        raise ValueError(str(error).removeprefix(f": --{name}: ")) from None

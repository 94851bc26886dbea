"""From options of `sbatch` to options of radrm.

Theory of operation
-------------------
The options become options of radrm's table, variables for the job, and flags of `radrm submit`.
What radrm makes of each is declared in `radrm.jobfile.slurm.options`. Of two alike the later one
counts, so the command line overrides the script; only kinds of mail add up.

Some options are factors of one amount: `--gpus-per-task` times `--ntasks`, `--cpus-per-gpu` times
the GPUs, `--mem-per-cpu` times the CPUs. They are only noted while options are taken, and
multiplied at the end: tasks and GPUs first, then CPUs, then memory. Options that exclude each
other are refused as by sbatch, unless one of them was typed: that one overrides the script.

What the daemon reads is the translation: it knows nothing of Slurm, but for the variables that
only it can set (`radrm/daemon/launching.py`).

Source: sbatch(1) of Slurm 25.11.
"""

from __future__ import annotations

import re

from radrm.core.constraints.gpu_names import is_type
from radrm.errors import UsageError
from radrm.jobfile.options import BY_NAME, RawOptions
from radrm.jobfile.record import Record
from radrm.jobfile.relations import SLURM_CONDITIONS, array_option
from radrm.jobfile.slurm import options as known
from radrm.jobfile.slurm.amounts import parse_memory, parse_moment, parse_time
from radrm.jobfile.slurm.words import Given, repeated, spelled
from radrm.jobfile.values import is_own_stream, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

# ------------------------------------------------------------------
# The variable that tells a daemon that a job was written for Slurm.


MARK = "RADRM_SLURM"
"""Set to 1 by `radrm submit --slurm`: the attempt gets Slurm's names for its id and element."""


# ------------------------------------------------------------------
# The translation.


class Slurm(Record):
    """A translation. `variables` are added to the job's environment; `kept` (None: all) are the
    variables of the submitter that the job gets. `flags` are flags of `radrm submit`. `singleton`:
    the job follows the user's unfinished jobs of its name."""

    raw: RawOptions
    variables: dict[str, str]
    kept: tuple[str, ...] | None
    flags: frozenset[str]
    notes: tuple[str, ...]
    singleton: bool = False


def translate(given: Iterable[Given], cwd: str, host: str, own: Collection[str] = ()) -> Slurm:
    """Translate options; of two alike the later one counts.

    `own`: names of flags of `radrm submit`. Raises `UsageError` for an option that cannot be kept,
    which names what to write instead.
    """
    last: dict[str, Given] = {}
    for each in given:
        earlier = last.get(each.name)
        if each.name == "mail-type" and earlier is not None:
            each = Given(each.name, _added_up(earlier.value, each.value), each.where)
        last[each.name] = each
    found = _Translation(last, host, own)
    for each in last.values():
        with found.at(each):
            found.take(each)
    return found.result(cwd)


class _At:
    """Makes of a ValueError the `UsageError` that names an option and its place."""

    def __init__(self, each: Given) -> None:
        self.each = each

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, cause: object, traceback: object) -> None:
        if isinstance(cause, ValueError):
            raise UsageError(f"{self.each.where}: {spelled(self.each.name)}: {cause}") from None


class _Translation:
    """What was translated so far."""

    def __init__(self, given: Mapping[str, Given], host: str, own: Collection[str]) -> None:
        self.given = given
        self.host = host
        self.own = own
        self.raw: RawOptions = {}
        self.variables: dict[str, str] = {}
        self.kept: tuple[str, ...] | None = None
        self.flags: set[str] = set()
        self.notes: list[str] = []
        self.ignored: list[str] = []
        self.singleton = False
        self.tasks: int | None = None
        self.cpus: int | None = None

    at = _At

    def take(self, each: Given) -> None:
        name, value = each.name, each.value or ""
        option = known.BY_NAME.get(name)
        if option is not None and option.fate == known.BECOMES:
            if (meaning := _MEANINGS[name]) is not None:
                meaning(self, value)
        elif option is not None and option.fate == known.NOTHING:
            self.ignored.append(spelled(name))
        elif option is not None:
            raise ValueError(option.says)
        elif name in self.own:
            self.flags.add(name)
        elif name in BY_NAME:  # an option of ours among those of sbatch
            self.put(name, value if BY_NAME[name].metavar is not None else True)
        else:
            raise ValueError(known.why_unknown(name))

    def put(self, name: str, value: str | bool | list[str]) -> None:
        """Set an option of ours."""
        if isinstance(value, str):
            _check(name, value)
        self.raw[name] = [value] if isinstance(value, str) and BY_NAME[name].repeatable else value

    def value(self, name: str) -> str | None:
        each = self.given.get(name)
        return None if each is None else each.value

    def result(self, cwd: str) -> Slurm:
        self._gpus_and_tasks()
        self._cpus()
        self._memory()
        self._types()
        raw = self.raw
        per_gpu = [name for name in _PER_GPU if raw["gpus"] == "0" and name in self.given]
        if per_gpu:
            self.notes.append(
                f"{spelled(per_gpu[0])} counts for each GPU, but no option asks for GPUs, so the "
                "job gets none; add --gpus=1"
            )
        if self.ignored:
            names = ", ".join(self.ignored)
            self.notes.append(f"has no meaning on one server, and is left out: {names}")
        if "signal" in raw and not raw.keys() & {"time", "silent-limit"}:
            del raw["signal"]
            self.notes.append("--signal is left out: it comes before a time limit, and no --time")
        array = raw.get("array")
        if self.singleton and isinstance(array, str):  # its elements have one name
            raw["array"] = f"{array.partition('%')[0]}%1"
        # One file for both, as sbatch does: --output alone takes standard error, too.
        raw.setdefault("output", "slurm-%A_%a.out" if array else "slurm-%j.out")
        variables = {
            MARK: "1",
            "SLURM_SUBMIT_DIR": cwd,
            "SLURM_SUBMIT_HOST": self.host,
            "SLURMD_NODENAME": self.host,
            "SLURM_JOB_NODELIST": self.host,
            "SLURM_JOB_NUM_NODES": "1",
            "SLURM_NNODES": "1",
            **repeated(self.given),
            **self.variables,
        }
        flags, notes = frozenset(self.flags), tuple(self.notes)
        return Slurm(raw, variables, self.kept, flags, notes, self.singleton)

    # -------------------------------------------------------------- amounts

    def _effective(self, *names: str) -> list[Given]:
        """Return those of these options that count: what was typed overrides the script."""
        found = [self.given[name] for name in names if name in self.given]
        return [each for each in found if each.typed] or found

    def _gpus_and_tasks(self) -> None:
        """Set `gpus` and the tasks: GPUs for each task times tasks, or tasks for each GPU."""
        total: int | None = None
        for each in self._effective(*_TOTALS):
            with self.at(each):
                count = _TOTALS[each.name](self, each.value or "")
                if total is not None and total != count:
                    raise ValueError(f"{count} differs from the {total} GPUs of another option")
                total = count
        self.tasks = self._tasks_asked()
        if total is None or (self.tasks is None and "ntasks-per-gpu" in self.given):
            total = self._by_tasks(total)
        for each in self._effective("gpus-per-task"):
            with self.at(each):
                count = self._count_of(each.value or "")
                self.variables["SLURM_GPUS_PER_TASK"] = str(count)
                if self.tasks is None and total is not None and count:
                    self.tasks = total // count
        if total is not None:
            self.variables["SLURM_GPUS"] = str(total)
        if self.tasks is not None:
            self.variables |= {"SLURM_NTASKS": str(self.tasks), "SLURM_NPROCS": str(self.tasks)}
        # As Slurm, none by default; a job of radrm's own has one.
        self.raw = {"gpus": str(total or 0), **self.raw}

    def _tasks_asked(self) -> int | None:
        """The tasks of `--ntasks` or `--ntasks-per-node`; None if neither says."""
        asked: int | None = None
        per_node: int | None = None
        for each in self._effective("ntasks-per-node"):
            with self.at(each):
                per_node = _whole(each.value)
                self.variables["SLURM_NTASKS_PER_NODE"] = str(per_node)
        for each in self._effective("ntasks"):
            with self.at(each):
                asked = _whole(each.value)
                if per_node is not None and asked > per_node and "nodes" in self.given:
                    del self.variables["SLURM_NTASKS_PER_NODE"]  # so does sbatch
                    self.notes.append(
                        f"--ntasks-per-node={per_node} is left out: {asked} tasks on one node"
                    )
                elif per_node is not None and asked > per_node:
                    raise ValueError(
                        f"{asked} tasks with {per_node} on a node need several nodes, and this is "
                        f"one server; write --ntasks-per-node={asked}"
                    )
        return per_node if asked is None else asked

    def _by_tasks(self, total: int | None) -> int | None:
        """The GPUs that tasks need, where no option has their number."""
        for each in self._effective("ntasks-per-gpu"):
            with self.at(each):
                count = _whole(each.value)
                self.variables["SLURM_NTASKS_PER_GPU"] = str(count)
                if self.tasks is None:
                    self.tasks = count * (total or 0) or None
                elif total is None:
                    total = -(-self.tasks // count)
        for name in ("gpus-per-task", "tres-per-task"):
            for each in self._effective(name) if total is None else ():
                with self.at(each):
                    text = each.value or ""
                    gpus = text if name == "gpus-per-task" else _tres(text).gpus
                    total = None if gpus is None else self._count_of(gpus) * (self.tasks or 1)
        return total

    def _cpus(self) -> None:
        """Set `cpus`: those of each task times tasks, or of each GPU times GPUs."""
        found: dict[str, int] = {}
        tasks = 1 if "overcommit" in self.given else self.tasks or 1
        for each in self._effective("cpus-per-task", "cpus-per-gpu", "tres-per-task"):
            with self.at(each):
                if each.name == "tres-per-task":
                    one = _tres(each.value or "").cpus
                    if one is not None:
                        found[each.name] = one * tasks
                    continue
                one = _whole(each.value)
                times = tasks if each.name == "cpus-per-task" else self._gpu_count()
                self.variables[f"SLURM_{each.name.replace('-', '_').upper()}"] = str(one)
                found[each.name] = one * times
                if len(found) > 1:
                    raise ValueError(f"does not go with {spelled(next(iter(found)))}; keep one")
        count = next(iter(found.values()), tasks if tasks > 1 else 0)
        for each in self._effective("mincpus"):
            with self.at(each):
                count = max(count, _whole(each.value))
        if count:
            self.cpus = count
            self.put("cpus", str(count))

    def _gpu_count(self) -> int:
        text = self.raw.get("gpus")
        return int(text) if isinstance(text, str) and text.isdecimal() else 1

    def _memory(self) -> None:
        """Set `memory`, of the whole job."""
        given = self._effective("mem", "mem-per-cpu", "mem-per-gpu")
        if not given:
            each, *_ = (*self._effective("tres-per-task"), None)
            mib = None if each is None else _tres(each.value or "").mib
            if mib:
                self.put("memory", f"{-int(-mib * (self.tasks or 1) // 1)}M")
            return
        with self.at(given[-1]):
            if len(given) > 1:
                raise ValueError(f"does not go with {spelled(given[0].name)}; keep one")
            (each,) = given
            times = {"mem": 1, "mem-per-cpu": self.cpus or 1, "mem-per-gpu": self._gpu_count()}
            one = parse_memory(each.value or "")
            variable = "NODE" if each.name == "mem" else each.name[-3:].upper()
            self.variables[f"SLURM_MEM_PER_{variable}"] = str(-int(-one // 1))
            if mib := one * times[each.name]:
                self.put("memory", f"{-int(-mib // 1)}M")
            elif not one:
                self.notes.append(
                    f"{spelled(each.name)}=0 (all memory of the server) is left out: no memory is "
                    "booked"
                )

    def _count_of(self, value: str) -> int:
        """The number of GPUs of `[TYPE:]N`; sets the type."""
        if "," in value:
            raise ValueError("several kinds of GPUs at once; write one, as a100:2")
        kind, _, count = value.replace("=", ":").rpartition(":")
        if not re.fullmatch(r"[0-9]{1,6}", count):
            if kind or not re.fullmatch(r"[A-Za-z][\w.-]*", count):
                raise ValueError(f"{shown(value)} is not [TYPE:]NUMBER")
            kind, count = count, "1"
        if kind:
            self._kind(kind)
        return int(count)

    def _kind(self, kind: str) -> None:
        """A type of GPU, or a MIG instance of one: `a100`, `a100_3g.20gb`."""
        instance = re.fullmatch(
            r"(?:(.*?)[-_.:])?(?:mig[-_])?([0-9]g\.[0-9]+gb)", kind, re.IGNORECASE
        )
        if instance is None:
            self.put("gpu-type", kind)
            return
        self.put("mig-profile", instance[2].lower())
        if instance[1] and instance[1].lower() not in ("mig", "nvidia"):
            self.put("gpu-type", instance[1])

    def _per_node(self, value: str) -> int:
        count = self._count_of(value)
        self.variables["SLURM_GPUS_PER_NODE"] = str(count)
        return count

    def _per_socket(self, value: str) -> int:
        sockets = self.value("sockets-per-node")
        if sockets is None:
            raise ValueError("needs --sockets-per-node; write --gpus=N")
        return self._count_of(value) * _whole(sockets)

    def _gres(self, value: str) -> int:
        """`gpu[:TYPE][:N],...`, or `none`."""
        if value.lower() in ("none", "0", ""):
            return 0
        every = [re.sub(r"^gres[:/]", "", each) for each in value.split(",") if each]
        wanted = [each for each in every if re.match(r"(?i)gpu([:=]|$)", each)]
        others = [each for each in every if each not in wanted]
        part = next((each for each in others if re.match(r"(shard|mps|gpumem)\b", each)), None)
        if part is not None:
            raise ValueError(f"{shown(part)}: jobs share GPUs here without it; write gpu:NUMBER")
        if others:
            self.notes.append(
                f"--gres: left out, as radrm knows only GPUs: {', '.join(map(shown, others[:6]))}"
            )
        if not wanted:
            return 0
        if len(wanted) > 1:
            raise ValueError("several kinds of GPUs at once; write one, as gpu:a100:2")
        return self._count_of(re.sub(r"\(.*\)$", "", wanted[0][4:]) or "1")

    def _types(self) -> None:
        """`--constraint` and `--prefer`: types of GPU, if they name some."""
        for each in (self.given[name] for name in ("constraint", "prefer") if name in self.given):
            with self.at(each):
                types, others = _features(each.value or "", each.name)
                option = "gpu-type" if each.name == "constraint" else "prefer-gpus"
                if types and option not in self.raw and self.raw["gpus"] != "0":
                    self.put(option, ("|" if option == "gpu-type" else ",").join(types))
                if self.raw["gpus"] == "0" and (types or "gpu" in map(str.lower, others)):
                    self.notes.append(
                        f"{spelled(each.name)} chooses nodes with GPUs, but no option asks for "
                        "GPUs, so the job gets none; add --gpus=1"
                    )
                if others:
                    self.notes.append(
                        f"{spelled(each.name)}: left out, as there is one server: "
                        f"{', '.join(map(shown, others[:6]))}"
                    )

    # -------------------------------------------------------------- other options

    def time(self, value: str) -> None:
        seconds = parse_time(value)
        if seconds is not None:
            self.put("time", f"{seconds}s")

    def array(self, value: str) -> None:
        value = re.sub(r"[\[\] ]", "", value)
        self.put("array", value)
        indices = array_option(value).indices
        self.variables["SLURM_ARRAY_TASK_COUNT"] = str(len(indices))
        self.variables["SLURM_ARRAY_TASK_MIN"] = str(indices[0])
        self.variables["SLURM_ARRAY_TASK_MAX"] = str(indices[-1])
        step = indices[1] - indices[0] if len(indices) > 1 else 1
        self.variables["SLURM_ARRAY_TASK_STEP"] = str(step)

    def output(self, value: str) -> None:
        self._log("output", value)

    def error(self, value: str) -> None:
        self._log("error", value)

    def _log(self, name: str, value: str) -> None:
        """The batch's own streams are its default log."""
        if is_own_stream(value):
            self.notes.append(f"--{name}={value} is left out: a job's streams are its log")
        else:
            self.put(name, self._pattern(value))

    def _pattern(self, value: str) -> str:
        """Slurm's patterns as ours. There is one node and one task: %n %s %t are 0."""
        if "\\" in value:  # Slurm then fills no pattern
            return value.replace("\\", "").replace("%", "%%")

        def ours(found: re.Match[str]) -> str:
            width, letter = found[1], found[2]
            if letter == "%":
                return "%%"
            if letter in "nst":
                return "0".zfill(int(width or 1))
            if letter == "N":
                return self.host.partition(".")[0]
            if letter == "J":
                letter = "j"
            if width:
                self.notes.append(f"%{width}{letter} in a log's name is not padded")
            return f"%{letter}"

        return re.sub(r"%([0-9]{0,2})([A-Za-z%])", ours, value)

    def open_mode(self, value: str) -> None:
        if value not in ("append", "truncate", "a", "t"):
            raise ValueError(f"{shown(value)} is neither append nor truncate")
        if value.startswith("t"):
            self.notes.append("--open-mode=truncate is left out: logs are always appended to")

    def input(self, value: str) -> None:
        if value not in ("/dev/null", "none"):
            raise ValueError("a job's standard input is empty; redirect it in the script: < FILE")

    def dependency(self, value: str) -> None:
        """`TYPE:ID[:ID],...`; all of them must hold."""
        if "?" in value:
            raise ValueError(f"{shown(value)} means one of several jobs; radrm waits for all")
        after: list[str] = []
        for part in value.split(","):
            kind, *jobs = part.split(":")
            kind = kind.lower()
            if kind == "singleton" and not jobs:
                self.singleton = True
                continue
            if kind in _NO_CONDITIONS:
                raise ValueError(f"{kind}: {_NO_CONDITIONS[kind]}")
            if kind not in SLURM_CONDITIONS or not jobs:
                names = ", ".join(SLURM_CONDITIONS)
                raise ValueError(f"{shown(part)} is none of {names}, with ids of jobs")
            if kind == "aftercorr":
                self.notes.append("aftercorr: each element waits for the whole array before it")
            after += [f"{job}{SLURM_CONDITIONS[kind]}" for job in jobs]
        for each in after:
            _check("after", each)
        if after:
            self.raw["after"] = list(after)

    def export(self, value: str) -> None:
        """`ALL`, `NONE`, or names and `NAME=VALUE`, with ALL or without."""
        words = [_unquoted(word) for word in re.findall(r"""(?:[^,'"]|'[^']*'|"[^"]*")+""", value)]
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
        if not re.fullmatch(r"(-?[0-9]{1,10})?", value):
            raise ValueError(f"{shown(value)} is not a whole number")
        self.put("priority", str(max(-1000, min(1000, -int(value or 100)))))

    def begin(self, value: str) -> None:
        if (moment := parse_moment(value)) is not None:
            self.put("begin", moment)

    def deadline(self, value: str) -> None:
        moment = parse_moment(value)
        if moment is not None:
            self.put("due", moment)
        self.notes.append("--deadline is the due time (--due): a job that is late runs on")

    def signal(self, value: str) -> None:
        """`[B:][R:]SIGNAL[@SECONDS]`; 60 seconds by default."""
        name, _, seconds = re.sub(r"^[BR]+:", "", value.upper()).partition("@")
        if name.isdecimal():
            import signal

            numbers = {int(each): each.name for each in signal.Signals}
            name = numbers.get(int(name), name)
        self.put("signal", f"{name.removeprefix('SIG')}@{seconds or 60}")

    def exclusive(self, value: str) -> None:
        self.put("collocation", "exclusive")
        self.notes.append(
            "--exclusive: the job shares no GPU; others may use the rest of the server"
        )

    def mail(self, value: str) -> None:
        """Kinds of mail as events, to `--mail-user`; without it to the submitter's own mailbox."""
        words = [word for word in value.upper().split(",") if word]
        if "NONE" in words:
            return
        unknown = [word for word in words if word not in _MAIL]
        if unknown:
            raise ValueError(f"{shown(unknown[0])} is none of {', '.join(_MAIL)}, NONE")
        events = sorted({event for word in words for event in _MAIL[word]})
        silent = [word for word in words if not _MAIL[word] and word not in _QUIET]
        if silent:
            self.notes.append(f"--mail-type: radrm sends no mail of {', '.join(silent)}")
        for user in (self.value("mail-user") or "mail").split(",") if events else ():
            if (user != "mail" and "@" not in user) or not _is_target(user):
                self.notes.append(
                    f"--mail-user: {shown(user)} is no mail address, and gets no mail; write "
                    "NAME@HOST, or leave it out for your own mailbox"
                )
                continue
            notify = self.raw.setdefault("notify", [])
            assert isinstance(notify, list)
            notify.append(f"{user}:{','.join(events)}")

    def nodes(self, value: str) -> None:
        """The least number of nodes must be one: `1`, `1-4`, `1,2`."""
        if not re.fullmatch(r"0*1([-,:].*)?", value):
            if not re.match(r"[0-9]", value):
                raise ValueError(f"{shown(value)} is not a number of nodes")
            raise ValueError(
                f"{shown(value)}: this is one server; write --nodes=1, and --gpus=N for all the "
                "GPUs"
            )

    def nodelist(self, value: str) -> None:
        if not self._names_this(value):
            self.notes.append(f"--nodelist: {shown(value)} is left out: this server is {self.host}")

    def exclude(self, value: str) -> None:
        if self._names_this(value):
            raise ValueError(f"{shown(value)} is this server, the only one; leave it out")

    def _names_this(self, value: str) -> bool:
        short = self.host.partition(".")[0]
        return any(word.partition(".")[0] == short for word in value.split(","))


def _added_up(earlier: str | None, later: str | None) -> str:
    """Return kinds of mail of two options. NONE takes away what was before it."""
    if "NONE" in (later or "").upper().split(","):
        return "NONE"
    return f"{earlier},{later}" if (earlier or "NONE").upper() != "NONE" else later or ""


def _whole(text: str | None) -> int:
    """Return a whole number from 1. Raises ValueError."""
    if text is None or not re.fullmatch(r"[0-9]{1,6}", text) or not int(text):
        raise ValueError(f"{shown(text or '')} is not a whole number from 1")
    return int(text)


class _Tres(Record):
    """What one task gets, of `--tres-per-task`."""

    gpus: str | None = None
    cpus: int | None = None
    mib: float | None = None


def _tres(value: str) -> _Tres:
    """Read `cpu=4,mem=8G,gres/gpu=1`. Raises ValueError for other resources."""
    gpus: str | None = None
    cpus: int | None = None
    mib: float | None = None
    for each in value.split(","):
        kind, _, amount = re.sub(r"^gres[:/]", "", each).replace("=", ":").partition(":")
        if kind == "gpu":
            gpus = amount or "1"
        elif kind == "cpu":
            cpus = _whole(amount)
        elif kind == "mem":
            mib = parse_memory(amount)
        else:
            raise ValueError(f"{shown(each)} is none of cpu=N, mem=SIZE, gres/gpu=N")
    return _Tres(gpus, cpus, mib)


def _features(value: str, name: str) -> tuple[list[str], list[str]]:
    """Return the types of GPU of a list of features, and the others that one server need not have.

    Raises ValueError for what would choose among GPUs, but not by their types.
    """
    words = [word for word in re.split(r"[|&,]", re.sub(r"[\[\]() ]", "", value)) if word]
    words = [re.sub("^any[-_]", "", word) for word in words]
    types = [word for word in words if is_type(word)]
    others = [word for word in words if word not in types]
    for word in others:
        if _OF_GPUS.search(word) and not _GENERAL.fullmatch(word):
            raise ValueError(
                f"{shown(word)} is no type of GPU; write --gpu-type=TYPE, or --gpu-memory=SIZE"
            )
    if types and others and "|" in value:
        raise ValueError(f"{shown(value)} has more than types of GPU; write --gpu-type=TYPE")
    if len(types) > 1 and "&" in value:
        raise ValueError(f"{shown(value)}: no GPU is of two types; write {types[0]}|{types[1]}")
    return types, others


_GENERAL = re.compile(r"gpus?|(?:[a-z]+-)?gpu", re.IGNORECASE)
"""A feature of all nodes with GPUs."""
_OF_GPUS = re.compile(r"gpu|vram|hbm|gmem|cuda|sm_?[0-9]|^cc|^!|\*", re.IGNORECASE)


def _is_target(user: str) -> bool:
    try:
        _check("notify", user)
    except ValueError:
        return False
    return True


def _unquoted(word: str) -> str:
    return re.sub(r"""(['"])(.*?)\1""", r"\2", word)


_NO_CONDITIONS = {
    "after": "radrm waits for the ends of jobs, not for starts; write afterany",
    "afterburstbuffer": "there is no burst buffer; write afterany",
    "expand": "a job cannot grow by another one; leave it out",
}
_LOGIN = ("HOME", "USER", "LOGNAME", "SHELL", "PATH", "LANG", "TERM", "TZ")
"""What a login would set: all that `--export=NONE` leaves."""
_MAIL: dict[str, tuple[str, ...]] = {
    "BEGIN": ("start",),
    "END": ("end",),
    "FAIL": ("fail",),
    "ALL": ("end", "oom", "start"),
    "TIME_LIMIT": ("fail",),
    **dict.fromkeys(("TIME_LIMIT_90", "TIME_LIMIT_80", "TIME_LIMIT_50"), ()),
    **dict.fromkeys(("REQUEUE", "INVALID_DEPEND", "STAGE_OUT", "ARRAY_TASKS"), ()),
}
_QUIET = ("INVALID_DEPEND", "STAGE_OUT")
"""Kinds of mail that no job of radrm has a reason for."""

_TOTALS: dict[str, Callable[[_Translation, str], int]] = {
    "gpus": _Translation._count_of,
    "gpus-per-node": _Translation._per_node,
    "gres": _Translation._gres,
    "gpus-per-socket": _Translation._per_socket,
}
_PER_GPU = ("cpus-per-gpu", "mem-per-gpu", "ntasks-per-gpu")
_LATER = (
    *(*_TOTALS, "gpus-per-task", "tres-per-task", "constraint", "prefer", "mail-user", "wrap"),
    *("gpu-bind", "cpus-per-task", "cpus-per-gpu", "mincpus", "mem", "mem-per-cpu", "mem-per-gpu"),
    *("ntasks", "ntasks-per-node", "ntasks-per-gpu", "no-requeue", "help", "usage", "version"),
)
_MEANINGS: dict[str, Callable[[_Translation, str], None] | None] = {
    **dict.fromkeys(_LATER),
    "job-name": lambda found, value: found.put("name", value),
    "chdir": lambda found, value: found.put("chdir", value),
    "comment": lambda found, value: found.put("comment", value),
    "hold": lambda found, value: found.put("hold", True),
    "requeue": lambda found, value: found.put("requeue", True),
    "overcommit": lambda found, value: found.variables.update(SLURM_OVERCOMMIT="1"),
    "time": _Translation.time,
    "array": _Translation.array,
    "output": _Translation.output,
    "error": _Translation.error,
    "open-mode": _Translation.open_mode,
    "input": _Translation.input,
    "dependency": _Translation.dependency,
    "export": _Translation.export,
    "nice": _Translation.nice,
    "begin": _Translation.begin,
    "deadline": _Translation.deadline,
    "signal": _Translation.signal,
    "exclusive": _Translation.exclusive,
    "mail-type": _Translation.mail,
    "nodes": _Translation.nodes,
    "nodelist": _Translation.nodelist,
    "exclude": _Translation.exclude,
    "wait": lambda found, value: found.flags.add("wait"),
    "parsable": lambda found, value: found.flags.add("parsable"),
    "test-only": lambda found, value: found.flags.add("dry-run"),
}
"""What an option does when it is taken; None: it counts at the end, with others."""


def _check(name: str, text: str) -> None:
    """Raise ValueError for a text that is no value of our option."""
    try:
        BY_NAME[name].value(text, "")
    except UsageError as error:
        raise ValueError(str(error).removeprefix(f": --{name}: ")) from None

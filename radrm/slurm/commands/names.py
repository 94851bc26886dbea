"""The words of radrm for those of `sbatch`, `squeue`, `scancel`, `salloc`, `srun`.

What an option means for other jobs must not be guessed: one that chooses jobs and is not known
here is refused. One that only changes what is shown is left out.
"""

from __future__ import annotations

import os
import pwd
import re
import signal
import sys
from socket import gethostname

from radrm import __version__
from radrm.client.text import say, warn
from radrm.errors import UsageError
from radrm.host.storage.submission import load
from radrm.jobfile.command_line import STDIN, SUBMIT_FLAGS, SubmitRequest, parse_submit
from radrm.jobfile.inherited import submit_with
from radrm.jobfile.radfile import name_from
from radrm.jobfile.slurm import Given, Slurm, directives, of_variables, read, translate
from radrm.jobfile.slurm.options import RELEASE
from radrm.jobfile.slurm.words import COMMAND_LINE
from radrm.jobfile.text import read_text
from radrm.jobfile.values import shown
from radrm.slurm.hostlists import expanded
from radrm.slurm.inside import options as of_srun

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

INSTEAD = {
    "sattach": "radrm logs JOB --follow",
    "sstat": "radrm status JOB, or seff JOB",
    "sprio": "radrm explain JOB",
    "sshare": "radrm limits",
    "sreport": "radrm report",
    "sacctmgr": "radrm limits; there are no accounts",
    "sdiag": "radrm doctor",
    "strigger": "radrm submit --notify",
    "scrontab": "cron with radrm submit, or radrm submit --begin",
    "sgather": "cp; all tasks run on this server",
    "sview": "radrm top",
}
"""Commands of Slurm that say in one line what to use."""
NAMES = (
    *("sbatch", "srun", "salloc", "squeue", "scancel", "sinfo", "scontrol", "sacct", "seff"),
    *("sbcast", *INSTEAD),
)
_ABSENT = {**INSTEAD, **dict.fromkeys(("sh5util", "sjobexitmod", "sjstat", "smap", "scrun"), "")}
_CALLED = re.compile(
    r"(?:^|[|;&({`!]|\b(?:then|do|else|exec|if|while|time))\s*("
    + "|".join(_ABSENT)
    + r")(?=[\s;|&)`]|$)"
)
_GIVEN = """
ARRAY_JOB_ID ARRAY_TASK_COUNT ARRAY_TASK_ID ARRAY_TASK_MAX ARRAY_TASK_MIN ARRAY_TASK_STEP
CLUSTER_NAME CPUS_ON_NODE CPUS_PER_GPU CPUS_PER_TASK DISTRIBUTION GPUS GPUS_ON_NODE
GPUS_PER_NODE GPUS_PER_SOCKET GPUS_PER_TASK GPU_BIND GPU_FREQ GTIDS JOBID JOB_ACCOUNT
JOB_CPUS_PER_NODE JOB_DEPENDENCY JOB_END_TIME JOB_GID JOB_GPUS JOB_ID JOB_NAME JOB_NODELIST
JOB_NUM_NODES JOB_PARTITION JOB_QOS JOB_RESERVATION JOB_START_TIME JOB_UID JOB_USER
LAUNCH_NODE_IPADDR LOCALID MEM_PER_CPU MEM_PER_GPU MEM_PER_NODE NNODES NODEID NODELIST NPROCS
NTASKS NTASKS_PER_CORE NTASKS_PER_GPU NTASKS_PER_NODE NTASKS_PER_SOCKET OVERCOMMIT PROCID
PROFILE RESTART_COUNT SRUN_COMM_HOST STEPID STEP_GPUS STEP_ID STEP_NODELIST STEP_NUM_NODES
STEP_NUM_TASKS STEP_TASKS_PER_NODE SUBMIT_DIR SUBMIT_HOST TASKS_PER_NODE TASK_PID
THREADS_PER_CORE TOPOLOGY_ADDR TOPOLOGY_ADDR_PATTERN TRES_PER_TASK UMASK WORKING_DIR
"""
VARIABLES = frozenset(f"SLURM_{name}" for name in _GIVEN.split())
"""The variables of Slurm's that a job here may have, or one of its steps."""
_READ = re.compile(r"\$(?:(SLURM_[A-Z0-9_]+)|\{(SLURM_[A-Z0-9_]+)(?![A-Z0-9_]|:?[-+=]))")
_MOST_LINES = 10_000
_UNFINISHED = "pending,recovering,launching,running,stopping"
SQUEUE_FORMAT = "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R"
"""squeue's own."""
_LONG_FORMAT = "%.18i %.9P %.8j %.8u %.8T %.10M %.9l %.6D %R"
_STATES = {
    "PD": "pending", "PENDING": "pending", "R": "running", "RUNNING": "running",
    "CD": "completed", "COMPLETED": "completed", "F": "failed", "FAILED": "failed",
    "CA": "cancelled", "CANCELLED": "cancelled", "TO": "timeout", "TIMEOUT": "timeout",
    "CG": "stopping", "COMPLETING": "stopping", "CF": "launching", "CONFIGURING": "launching",
}  # fmt: skip
_COLUMNS = {
    "jobid": "A", "jobarrayid": "i", "arrayjobid": "F", "arraytaskid": "K", "name": "j",
    "username": "u", "state": "T", "statecompact": "t", "timeused": "M", "timelimit": "l",
    "timeleft": "L", "reason": "r", "reasonlist": "R", "nodelist": "N", "partition": "P",
    "starttime": "S", "endtime": "e", "submittime": "V", "prioritylong": "Q", "priority": "p",
    "numcpus": "C", "numnodes": "D", "minmemory": "m", "dependency": "E", "comment": "k",
    "tres-per-node": "b", "gres": "b", "exechost": "B", "batchhost": "B", "account": "a",
    "qos": "q", "feature": "f", "workdir": "Z", "command": "o", "userid": "U", "reservation": "v",
    "licenses": "W", "reqnodes": "n", "groupname": "g", "nice": "y",
}  # fmt: skip
"""Fields of squeue -O, and their letters of -o."""
_UNKNOWN_HERE = frozenset("acdfgGhHIJnoOqsUvwWxXyYzZ")
"""Letters of squeue for what no job has here, or what the queue does not tell."""
_OF_QUEUE = {"u": "user", "j": "jobs", "t": "states", "o": "format", "n": "name", "h": "noheader",
             "l": "long", "S": "sort", "p": "partition", "A": "account", "q": "qos", "r": "array",
             "O": "Format", "a": "all", "M": "clusters", "w": "nodelist",
             "i": "iterate"}  # fmt: skip
_OF_CANCEL = {"u": "user", "n": "name", "t": "state", "s": "signal", "Q": "quiet", "v": "verbose",
              "f": "full", "b": "batch", "i": "interactive", "p": "partition", "A": "account",
              "q": "qos", "w": "nodelist", "H": "hurry"}  # fmt: skip


def squeue(words: Sequence[str], me: str) -> list[str]:
    """Return the words of `radrm` for a command line of squeue; `me` is the caller's name."""
    flags = ("noheader", "long", "array", "all", "me", "start")
    options, rest = read_words(words, _OF_QUEUE, flags)
    if rest:
        raise UsageError(f"{shown(rest[0])} is not an option")
    found, jobs, header, layout = ["status"], [], True, SQUEUE_FORMAT
    wanted: str | None = _UNFINISHED
    for name, value in options:
        if name in ("user", "me"):
            found += ["--user", _one("--user", value) if name == "user" else me]
        elif name in ("jobs", "job"):
            jobs += elements(value)
        elif name == "name":
            jobs += value.split(",")
        elif name in ("states", "state"):
            wanted = states(value)
            found.append("--all")
        elif name == "noheader":
            header = False
        elif name == "format":
            layout = _layout(value)
        elif name == "Format":
            layout = _layout(_fields(value))
        elif name == "long":
            layout = _LONG_FORMAT
        elif name in ("iterate", "nodelist") or name not in (
            *flags,
            "sort",
            "partition",
            "account",
            "qos",
            "clusters",
        ):
            raise UsageError(f"--{name} is not known here; see radrm status --help")
    # Jobs that are named would be shown when they have ended, too.
    if wanted is not None and (jobs or "--all" in found):
        found += ["--state", wanted]
    found += [f"--format={layout}", *([] if header else ["--no-header"])]
    return [*found, "--", *jobs] if jobs else found


def _layout(text: str) -> str:
    """A format of squeue as one of radrm, whose `%N` are GPUs, and which has fewer letters."""

    def ours(found: re.Match[str]) -> str:
        dot, width, letter = found.groups()
        if letter in _UNKNOWN_HERE:
            return f"{'N/A':{'>' if dot else '<'}{min(int(width or 0), 100)}}"
        return f"%{dot}{width}{'B' if letter == 'N' else letter}"

    braces = {"{": "{{", "}": "}}"}  # radrm's fields stand in them
    plain = re.sub(r"[{}]", lambda found: braces[found[0]], text)
    return re.sub(r"%(\.?)([0-9]{0,4})([A-Za-z%])", ours, plain)


def ids_of(words: Sequence[str]) -> list[str]:
    """Return those words that are numbers of jobs; others are names."""
    return [word for word in words if re.fullmatch(r"[0-9]+(_[0-9]+)?", word)]


def scancel(words: Sequence[str], me: str) -> list[str]:
    """Return the words of `radrm` for a command line of scancel."""
    flags = ("quiet", "verbose", "full", "batch", "interactive", "me", "hurry")
    options, rest = read_words(words, _OF_CANCEL, flags)
    found, jobs = ["cancel"], [element for word in rest for element in elements(word)]
    for name, value in options:
        if name in ("user", "me"):
            found += ["--user", _one("--user", value) if name == "user" else me]
        elif name in ("name", "jobname"):
            jobs.append(value)
        elif name == "state":
            wanted = states(value)
            found += [] if wanted is None else ["--state", wanted]
        elif name == "signal":
            raise UsageError(
                "--signal: radrm sends no signals of one's choice; `radrm checkpoint JOB` "
                "has a job save its work, `radrm cancel JOB` ends it"
            )
        elif name not in ("quiet", "verbose", "full", "batch", "hurry"):
            raise UsageError(f"--{name} is not known here; see radrm cancel --help")
    return [*found, "--", *jobs] if jobs else found


def signal_in(words: Sequence[str], job: str) -> tuple[int, list[str | None], bool, bool] | None:
    """Return the signal that scancel is to send to this job: its number, the steps (None: all),
    and whether the script (`--batch`, `--full`) and the steps get it. None: it sends none, or not
    to this job alone. Raises `UsageError`."""
    flags = ("quiet", "verbose", "full", "batch", "interactive", "me", "hurry")
    options, rest = read_words(words, _OF_CANCEL, flags)
    given = dict(options)
    if rest and all("." in word for word in rest):
        given.setdefault("signal", "TERM")  # it ends steps
    if "signal" not in given or not rest or any(_of_job(word) != job for word in rest):
        return None
    name = given["signal"].upper().removeprefix("SIG")
    numbers = {each.name[3:]: int(each) for each in signal.Signals}
    number = int(name) if name.isdecimal() and int(name) < 65 else numbers.get(name)
    if number is None:
        raise UsageError(f"--signal: {shown(given['signal'])} is no signal, as USR1")
    steps = [word.partition(".")[2] or None for word in rest]
    return number, steps, bool({"batch", "full"} & given.keys()), "batch" not in given


def _of_job(word: str) -> str:
    """The job of `12.0`, by the number that it has inside: of an element, its own."""
    named = word.partition(".")[0]
    array = os.environ.get("SLURM_ARRAY_JOB_ID"), os.environ.get("SLURM_ARRAY_TASK_ID")
    return os.environ.get("SLURM_JOB_ID", "") if named == "_".join(map(str, array)) else named


def _fields(text: str) -> str:
    """`jobid:10,state` as a format of letters. A `.` before the width moves it to the right."""
    found = []
    for word in text.split(","):
        name, _, width = word.strip().partition(":")
        letter, at = _COLUMNS.get(name.lower()), re.fullmatch(r"(\.?)([0-9]{1,3})?.*", width)
        if letter is None or at is None:
            known = ", ".join(_COLUMNS)
            raise UsageError(f"--Format: {shown(name)} is no field here; there are {known}")
        found.append(f"%{at[1]}{at[2] or 20}{letter}")
    return "".join(found)


def srun(words: Sequence[str], cwd: str, host: str) -> tuple[list[str], Mapping[str, str]]:
    """Return the words of `radrm` for an srun that begins a job, and variables for its job.

    What only a step can do, such as several tasks, is left to `srun` inside the job.
    """
    given, rest = of_srun.read(words, ours=True)
    if not rest:
        raise UsageError("no command; write one: srun --gpus=1 --pty bash")
    for name in given.keys() & of_srun.REFUSED.keys():
        raise UsageError(f"--{name}: {of_srun.REFUSED[name]}")
    if "jobid" in given:
        raise UsageError("--jobid: a step runs in the job that starts it; write it into the script")
    own = {name: value for name, value in given.items() if name in of_srun.OF_STEPS}
    options = [Given(name, value, "srun") for name, value in given.items() if name not in own]
    found = translate(options, cwd, host)
    step = [f"--{name}" + ("" if value is None else f"={value}") for name, value in own.items()
            if name not in ("pty", "unbuffered", "overlap", "exact", "x11")]  # fmt: skip
    if step or found.variables.get("SLURM_NTASKS", "1") != "1":
        found.raw.setdefault("name", name_from(os.path.basename(rest[0])))
        rest = ["srun", *step, "--", *rest]
    return _run(found, "output" in given, "pty" in own, rest), found.variables


def salloc(words: Sequence[str], cwd: str, host: str) -> tuple[list[str], Mapping[str, str]]:
    """Return the words of `radrm` for a command line of salloc, and variables for its job."""
    flags = ("no-shell", "bell", "no-bell", "K", "kill-command")
    options, rest = read(words, "salloc", flags)
    if any(each.name == "no-shell" for each in options):
        raise UsageError("--no-shell: radrm keeps no GPUs without a process; see radrm reserve")
    found = translate([each for each in options if each.name not in flags], cwd, host)
    shell = [os.environ.get("SHELL") or "/bin/sh"]
    return _run(found, False, not rest or sys.stdin.isatty(), rest or shell), found.variables


def _run(found: Slurm, output: bool, pty: bool, command: list[str]) -> list[str]:
    if not output:
        del found.raw["output"]
    return ["run", *_words(found), *(["--pty"] if pty else []), "--", *command]


def elements(text: str) -> list[str]:
    """Return the jobs that a text names: `12`, `12_3`, `12_[1-3,7]`, `12,13`."""
    try:
        return expanded(re.sub(r"\]%[0-9]+", "]", text))
    except UsageError:
        raise UsageError(
            f"{shown(text)} is not an array's elements, as 12_[1-3,7], or names too many"
        ) from None


def read_words(
    words: Sequence[str], short: Mapping[str, str], flags: Sequence[str]
) -> tuple[list[tuple[str, str]], list[str]]:
    """Options and other words, in any order. Raises `UsageError`."""
    options: list[tuple[str, str]] = []
    rest: list[str] = []
    left = list(words)
    while left:
        word = left.pop(0)
        if not word.startswith("-") or word == "-":
            rest.append(word)
            continue
        if word == "--":
            return options, rest + left
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            name = _in_full(name, (*short.values(), *flags))
        else:
            name, value = short.get(word[1], word[1]), word[2:].removeprefix("=")
            equals = "=" if value else ""
            if name in flags and value:  # -hl
                left.insert(0, f"-{value}")
                equals = value = ""
        if name not in flags and not equals:
            if not left or name in _DOCUMENTS:
                why = "is not known here" if name in _DOCUMENTS else "needs a value"
                raise UsageError(f"{shown(word)} {why}")
            value = left.pop(0)
        options.append((name, value))
    return options, rest


_DOCUMENTS = ("json", "yaml")
"""Options whose value may be left out. Nobody here has them."""


def _in_full(name: str, known: Sequence[str]) -> str:
    """The full name of an option: its unique beginning may be given, or the plural."""
    if name in known:
        return name
    if name.endswith("s") and name[:-1] in known:
        return name[:-1]
    meant = {each for each in known if each.startswith(name)}
    return meant.pop() if len(meant) == 1 and name else name


def _one(option: str, value: str) -> str:
    if "," in value:
        raise UsageError(f"{option}: {shown(value)} names several; give one at a time")
    return value


def states(text: str) -> str | None:
    """Return our names of states; None for all."""
    if text.lower() == "all":
        return None
    wanted = [_STATES.get(word.strip().upper()) for word in text.split(",")]
    if None in wanted:
        known = ", ".join(word for word in _STATES if len(word) > 2)
        raise UsageError(f"{shown(text)}: the states here are {known}")
    return ",".join(dict.fromkeys(word for word in wanted if word))


def request_of(words: Sequence[str]) -> SubmitRequest:
    """Return the request of `radrm submit` for options and script of `sbatch`.

    It prints notes about options that are left out, and sets the variables that Slurm's jobs get
    in this process's environment, which the job inherits. Raises `RadrmError`.
    """
    options, rest = read(words, COMMAND_LINE, SUBMIT_FLAGS)
    given = {each.name: each for each in options}
    if "version" in given:
        say(f"radrm {__version__}, with the options of sbatch {RELEASE}")
        raise SystemExit(0)
    if given.keys() & {"help", "usage"}:
        return SubmitRequest({}, help=True)
    wrapped = given.get("wrap")
    data, text, before, arguments = None, "", [], tuple(rest[1:])
    if wrapped is not None:
        if rest:
            raise UsageError(f"{COMMAND_LINE}: both --wrap and a script; submit them separately")
        job, named = ["--", "/bin/sh", "-c", wrapped.value or ""], "wrap"
    else:
        name = rest[0] if rest else STDIN
        named = name_from(os.path.basename(name)) if rest else "sbatch"
        data = load(name) if rest else _from_standard_input()
        job, where = [name], os.path.basename(name) if rest else "standard input"
        text = read_text(data, where).text
        before = directives(text, where)
        _note_absent(text, where)
        _note_unset(text, where)
    asked = [*before, *of_variables(os.environ), *options]
    slurm = translate(asked, os.getcwd(), gethostname(), SUBMIT_FLAGS)
    slurm.raw.setdefault("name", named)
    _keep_own(slurm, text, {each.name for each in asked})
    if slurm.singleton:
        after = slurm.raw.setdefault("after", [])
        assert isinstance(after, list)
        after += _before(str(slurm.raw.get("name", named)))
    for note in slurm.notes:
        warn(f"note: {note}")
    _set_environment(slurm)
    line = [*(f"--{flag}" for flag in sorted(slurm.flags | {"slurm"})), *_words(slurm)]
    # A script's name may be one that an option would have.
    request = parse_submit([*line, *(job if wrapped is not None else [STDIN])])
    files = () if wrapped is not None else tuple(job)
    own = {"files": files, "arguments": arguments, "contents": data}
    return SubmitRequest(**{**request.as_dict(), **own})


def _before(name: str) -> list[str]:
    """`--after` for the user's unfinished jobs of a name. Raises `Unreachable` without a daemon."""
    from radrm.client.connection import Client, every_job

    user = pwd.getpwuid(os.getuid()).pw_name
    with Client() as client:
        jobs = every_job(client.ask, jobs=[], user=user)
    found = [job.get("array_id") or job["id"] for job in jobs if job["name"] == name]
    return [f"{number}:any" for number in dict.fromkeys(found)]


def _keep_own(slurm: Slurm, text: str, asked: Collection[str]) -> None:
    """Drop a default of Slurm's for which the script's `#RAD` lines say something else."""
    of_gpus = any(name.startswith(("gpus", "gres", "tres", "ntasks-per-")) for name in asked)
    said = {"gpus": of_gpus, "output": "output" in asked, "name": "job-name" in asked}
    for option in (option for option, is_asked in said.items() if not is_asked):
        if re.search(rf"(?m)^[ \t]*#RAD[ \t](.*[ \t])?--{option}\b(?!-)", text):
            slurm.raw.pop(option, None)


def _note_absent(text: str, where: str) -> None:
    """Print a note on the first call of a command of Slurm's that radrm does not have."""
    for number, line in enumerate(text.split("\n", _MOST_LINES)[:_MOST_LINES], 1):
        if not line.lstrip().startswith("#") and (found := _CALLED.search(line)):
            instead = f"; use: {_ABSENT[found[1]]}" if _ABSENT[found[1]] else ""
            note = f"{where} line {number}: {found[1]} is not here{instead}"
            warn(f"note: {note}")
            return


def _note_unset(text: str, where: str) -> None:
    """Print a note on the first variable of Slurm's that the script reads and that is nowhere set.

    Some sites set their own, as SLURM_TMPDIR: without a value, `cp data $SLURM_TMPDIR/` copies to
    the root of the file system.
    """
    known = {*VARIABLES, *os.environ, *re.findall(r"\b(SLURM_[A-Z0-9_]+)=", text)}
    for number, line in enumerate(text.split("\n", _MOST_LINES)[:_MOST_LINES], 1):
        for found in () if line.lstrip().startswith("#") else _READ.finditer(line):
            name = found[1] or found[2]
            if name in known:
                continue
            step = (
                f"set it in the script: {name}=$(mktemp -d)" if "TMP" in name else "write a value"
            )
            warn(f"note: {where} line {number}: ${name} is not set here; {step}")
            return


def _from_standard_input() -> bytes:
    """The script on standard input, which can be read only once."""
    if sys.stdin is None or sys.stdin.isatty():
        raise UsageError(f"{COMMAND_LINE}: no script; name one: radrm submit --slurm job.sbatch")
    data = load(STDIN)
    if not data.strip():
        raise UsageError("standard input is empty; name a script: radrm submit --slurm job.sbatch")
    return data


def _words(slurm: Slurm) -> list[str]:
    found = []
    for name, value in slurm.raw.items():
        texts = value if isinstance(value, list) else [value]
        found += [f"--{name}" if text is True else f"--{name}={text}" for text in texts]
    return found


def _set_environment(slurm: Slurm) -> None:
    if slurm.kept is not None:
        for name in [name for name in os.environ if name not in slurm.kept]:
            if not name.startswith(("SLURM_", "RADRM_")):
                del os.environ[name]
    submit_with(os.environ, {**slurm.variables, "SLURM_JOB_GID": str(os.getgid())})

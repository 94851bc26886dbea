"""The words of radrm for those of `sbatch`, `squeue`, `scancel`, `sinfo`, `srun`.

What an option means for other jobs must not be guessed: one that chooses jobs and is not known
here is refused. One that only changes what is shown is left out.
"""

from __future__ import annotations

import os
import re
import sys
from socket import gethostname

from radrm import __version__
from radrm.errors import UsageError
from radrm.host.storage.submission import load
from radrm.jobfile.command_line import STDIN, SUBMIT_FLAGS, SubmitRequest, parse_submit
from radrm.jobfile.inherited import submit_with
from radrm.jobfile.radfile import name_from
from radrm.jobfile.slurm import Slurm, directives, of_variables, read, translate
from radrm.jobfile.slurm.options import RELEASE
from radrm.jobfile.slurm.words import COMMAND_LINE
from radrm.jobfile.text import read_text
from radrm.jobfile.values import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

NAMES = ("sbatch", "squeue", "scancel", "sinfo", "srun")
SQUEUE_FORMAT = "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R"
"""squeue's own."""
_LONG_FORMAT = "%.18i %.9P %.8j %.8u %.8T %.10M %.9l %.6D %R"
_MOST_ELEMENTS = 10_000
_STATES = {
    "PD": "pending", "PENDING": "pending", "R": "running", "RUNNING": "running",
    "CD": "completed", "COMPLETED": "completed", "F": "failed", "FAILED": "failed",
    "CA": "cancelled", "CANCELLED": "cancelled", "TO": "timeout", "TIMEOUT": "timeout",
    "CG": "stopping", "COMPLETING": "stopping", "CF": "launching", "CONFIGURING": "launching",
}  # fmt: skip
_OF_QUEUE = {"u": "user", "j": "jobs", "t": "states", "o": "format", "n": "name", "h": "noheader",
             "l": "long", "S": "sort", "p": "partition", "A": "account", "q": "qos", "r": "array",
             "a": "all", "M": "clusters", "w": "nodelist", "i": "iterate"}  # fmt: skip
_OF_CANCEL = {"u": "user", "n": "name", "t": "state", "s": "signal", "Q": "quiet", "v": "verbose",
              "f": "full", "b": "batch", "i": "interactive", "p": "partition", "A": "account",
              "q": "qos", "w": "nodelist", "H": "hurry"}  # fmt: skip


def squeue(words: Sequence[str], me: str) -> list[str]:
    """Return the words of `radrm` for a command line of squeue; `me` is the caller's name."""
    flags = ("noheader", "long", "array", "all", "me", "start")
    options, rest = _read(words, _OF_QUEUE, flags)
    if rest:
        raise UsageError(f"{shown(rest[0])} is not an option")
    found, jobs, header, layout = ["status"], [], True, SQUEUE_FORMAT
    for name, value in options:
        if name in ("user", "me"):
            found += ["--user", _one("--user", value) if name == "user" else me]
        elif name in ("jobs", "job"):
            jobs += elements(value)
        elif name == "name":
            jobs += value.split(",")
        elif name in ("states", "state"):
            wanted = _states(value)
            found += ["--all"] if wanted is None else ["--all", "--state", wanted]
        elif name == "noheader":
            header = False
        elif name == "format":
            layout = value
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
    found += [f"--format={layout}", *([] if header else ["--no-header"])]
    return [*found, "--", *jobs] if jobs else found


def scancel(words: Sequence[str], me: str) -> list[str]:
    """Return the words of `radrm` for a command line of scancel."""
    flags = ("quiet", "verbose", "full", "batch", "interactive", "me", "hurry")
    options, rest = _read(words, _OF_CANCEL, flags)
    found, jobs = ["cancel"], [element for word in rest for element in elements(word)]
    for name, value in options:
        if name in ("user", "me"):
            found += ["--user", _one("--user", value) if name == "user" else me]
        elif name in ("name", "jobname"):
            jobs.append(value)
        elif name == "state":
            wanted = _states(value)
            found += [] if wanted is None else ["--state", wanted]
        elif name == "signal":
            raise UsageError(
                "--signal: radrm sends no signals of one's choice; `radrm checkpoint JOB` "
                "has a job save its work, `radrm cancel JOB` ends it"
            )
        elif name not in ("quiet", "verbose", "full", "batch", "hurry"):
            raise UsageError(f"--{name} is not known here; see radrm cancel --help")
    return [*found, "--", *jobs] if jobs else found


def srun(words: Sequence[str], cwd: str, host: str) -> tuple[list[str], Mapping[str, str]]:
    """Return the words of `radrm` for a command line of srun, and variables for its job."""
    own = ("pty", "unbuffered", "label", "multi-prog", "overlap", "exact")
    options, rest = read(words, "srun", own)
    if not rest:
        raise UsageError("no command; write one: srun --gpus=1 --pty bash")
    asked = {each.name for each in options}
    if asked & {"label", "multi-prog", "jobid"}:
        (name, *_) = sorted(asked & {"label", "multi-prog", "jobid"})
        raise UsageError(f"--{name}: a job is one task, with no steps; leave it out")
    found = translate([each for each in options if each.name not in own], cwd, host)
    if found.variables.get("SLURM_NTASKS", "1") != "1":
        raise UsageError("--ntasks: a job is one task; leave it out")
    if "output" not in asked:
        del found.raw["output"]
    line = ["run"]
    for name, value in found.raw.items():
        texts = value if isinstance(value, list) else [value]
        line += [f"--{name}" if text is True else f"--{name}={text}" for text in texts]
    return [*line, *(["--pty"] if "pty" in asked else []), "--", *rest], found.variables


def elements(text: str) -> list[str]:
    """Return the jobs that a text names: `12`, `12_3`, `12_[1-3,7]`, `12,13`."""
    found: list[str] = []
    for word in re.findall(r"[^,\[]+(?:\[[^\]]*\](?:%[0-9]+)?)?", text):
        array = re.fullmatch(r"([0-9]+)_\[(.*)\](?:%[0-9]+)?", word)
        if array is None:
            found.append(word)
            continue
        for span in array[2].split(","):
            ends = re.fullmatch(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", span)
            if ends is None:
                raise UsageError(f"{shown(word)} is not an array's elements, as 12_[1-3,7]")
            last = int(ends[2] or ends[1])
            if last - int(ends[1]) + len(found) > _MOST_ELEMENTS:
                raise UsageError(f"{shown(word)} names more than {_MOST_ELEMENTS} elements")
            found += [f"{array[1]}_{index}" for index in range(int(ends[1]), last + 1)]
    return found


def _read(
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
        else:
            name, value = short.get(word[1], word[1]), word[2:].removeprefix("=")
            equals = "=" if value else ""
            if name in flags and value:  # -hl
                left.insert(0, f"-{value}")
                equals = value = ""
        if name not in flags and not equals:
            if not left:
                raise UsageError(f"{shown(word)} needs a value")
            value = left.pop(0)
        options.append((name, value))
    return options, rest


def _one(option: str, value: str) -> str:
    if "," in value:
        raise UsageError(f"{option}: {shown(value)} names several; give one at a time")
    return value


def _states(text: str) -> str | None:
    """Return our names of states; None for all."""
    if text.lower() == "all":
        return None
    wanted = [_STATES.get(word.strip().upper()) for word in text.split(",")]
    if None in wanted:
        known = ", ".join(word for word in _STATES if len(word) > 2)
        raise UsageError(f"{shown(text)}: the states here are {known}")
    return ",".join(dict.fromkeys(word for word in wanted if word))


TRANSLATED: dict[str, Callable[[Sequence[str], str], list[str]]] = {
    "squeue": squeue,
    "scancel": scancel,
}


def request_of(words: Sequence[str]) -> SubmitRequest:
    """Return the request of `radrm submit` for options and script of `sbatch`.

    It prints notes about options that are left out, and sets the variables that Slurm's jobs get
    in this process's environment, which the job inherits. Raises `RadrmError`.
    """
    options, rest = read(words, COMMAND_LINE, SUBMIT_FLAGS)
    given = {each.name: each for each in options}
    if "version" in given:
        print(f"radrm {__version__}, with the options of sbatch {RELEASE}")
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
        named = name_from(os.path.splitext(os.path.basename(name))[0]) if rest else "sbatch"
        data = load(name) if rest else _from_standard_input()
        job, where = [name], os.path.basename(name) if rest else "standard input"
        text = read_text(data, where).text
        before = directives(text, where)
    asked = [*before, *of_variables(os.environ), *options]
    slurm = translate(asked, os.getcwd(), gethostname(), SUBMIT_FLAGS)
    slurm.raw.setdefault("name", named)
    _keep_own(slurm, text, {each.name for each in asked})
    for note in slurm.notes:
        print(f"radrm: note: {note}", file=sys.stderr)
    _set_environment(slurm)
    line = [*(f"--{flag}" for flag in sorted(slurm.flags | {"slurm"})), *_words(slurm)]
    # A script's name may be one that an option would have.
    request = parse_submit([*line, *(job if wrapped is not None else [STDIN])])
    files = () if wrapped is not None else tuple(job)
    own = {"files": files, "arguments": arguments, "contents": data}
    return SubmitRequest(**{**request.as_dict(), **own})


def _keep_own(slurm: Slurm, text: str, asked: Collection[str]) -> None:
    """Drop a default of Slurm's for which the script's `#RAD` lines say something else."""
    of_gpus = any(name.startswith(("gpus", "gres", "tres", "ntasks-per-")) for name in asked)
    said = {"gpus": of_gpus, "output": "output" in asked, "name": "job-name" in asked}
    for option in (option for option, is_asked in said.items() if not is_asked):
        if re.search(rf"(?m)^[ \t]*#RAD[ \t](.*[ \t])?--{option}\b(?!-)", text):
            slurm.raw.pop(option, None)


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
    submit_with(os.environ, slurm.variables)

"""The words of radrm for those of `sbatch`, `squeue`, `scancel`, `sinfo`, `srun`.

What an option means for other jobs must not be guessed: one that chooses jobs and is not known
here is refused. One that only changes what is shown is left out.
"""

from __future__ import annotations

import os
import re
import sys
from socket import gethostname

from radrm.errors import UsageError
from radrm.host.storage.submission import load
from radrm.jobfile.command_line import SUBMIT_FLAGS
from radrm.jobfile.radfile import MAX_BYTES, name_from
from radrm.jobfile.slurm import Given, Slurm, directives, read, translate
from radrm.jobfile.values import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

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


_WHERE = "command line"


def translated(words: list[str]) -> list[str]:
    """Return the words of `radrm submit` for options and script of `sbatch`.

    It prints notes about options that are left out, and sets the variables that Slurm's jobs get
    in this process's environment, which the job inherits. Raises `RadrmError`.
    """
    words = [word for word in words if word != "--slurm"]
    options, rest = read(words, _WHERE, SUBMIT_FLAGS)
    given = {each.name: each for each in options}
    wrapped = given.pop("wrap", None)
    if "help" in given:
        return ["--help"]
    options = list(given.values())
    if wrapped is not None:
        if rest:
            raise UsageError(f"{_WHERE}: both --wrap and a script; submit them separately")
        job, named, before = ["--", "/bin/sh", "-c", wrapped.value or ""], "wrap", []
    elif rest:
        before = _directives(rest[0])
        job, named = _job(rest), name_from(os.path.splitext(os.path.basename(rest[0]))[0])
    else:
        path = _from_standard_input()
        before = _directives(path)
        job, named = [path], "sbatch"
    slurm = translate([*before, *options], os.getcwd(), gethostname(), SUBMIT_FLAGS)
    slurm.raw.setdefault("name", named)
    for note in slurm.notes:
        print(f"radrm: note: {note}", file=sys.stderr)
    _set_environment(slurm)
    return ["--slurm", *(f"--{flag}" for flag in sorted(slurm.flags)), *_words(slurm), *job]


def _directives(name: str) -> list[Given]:
    text = load(name)[: MAX_BYTES + 1].decode("utf-8", "replace").replace("\r\n", "\n")
    return directives(text, os.path.basename(name))


def _job(rest: list[str]) -> list[str]:
    """A script; with arguments the command that runs it."""
    if len(rest) == 1:
        return rest
    first = load(rest[0]).partition(b"\n")[0].decode("utf-8", "replace")
    if not first.startswith("#!"):
        raise UsageError(f"{rest[0]}: a script with arguments begins with #!, as #!/bin/bash")
    print(
        f"radrm: note: {rest[0]} has arguments, so it is not copied: change it only once the job "
        "has started",
        file=sys.stderr,
    )
    return ["--", *first[2:].split(None, 1), os.path.abspath(rest[0]), *rest[1:]]


def _from_standard_input() -> str:
    """The path of a copy in memory of the script on standard input."""
    if sys.stdin is None or sys.stdin.isatty():
        raise UsageError(f"{_WHERE}: no script; name one: radrm submit --slurm job.sbatch")
    text = sys.stdin.buffer.read(MAX_BYTES + 1)
    if not text.strip():
        raise UsageError("standard input is empty; name a script: radrm submit --slurm job.sbatch")
    handle = os.memfd_create("sbatch", 0)
    os.write(handle, text)
    return f"/proc/self/fd/{handle}"


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
    os.environ.update(slurm.variables)

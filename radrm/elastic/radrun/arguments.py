"""The command line of `radrun`: its own options, and those of `torchrun` that mean the same here.

Options of torchrun that ask for what `radrun` does anyway (`--standalone`, `--nnodes=1`) are
accepted. Others are refused: to ignore them would run another program than the one asked for.
"""

from __future__ import annotations

import os
import re
import sys

from msgspec import Struct, field

from radrm.errors import UsageError

USAGE = """\
usage: radrun [OPTION]... SCRIPT [ARGUMENT]...

Start one worker per task of a job, each on its own GPU, as torchrun does, and change their
number while the job runs. Outside radrm it starts --nproc-per-node workers.

  --nproc-per-node=N|gpu|cpu|auto
                        workers outside radrm (default 1); in a job its tasks decide
  --max-restarts=N      times that workers which fail are started again (default 3); it is counted
                        anew after each save
  --role=NAME[:N][=SCRIPT]
                        tasks of this role run SCRIPT; repeat it for each role. N is their
                        number outside radrm (default 1)
  -m, --module          SCRIPT is a module, as in `python -m`
  --no-python           SCRIPT is a program of its own
  -h, --help            this text
"""

_OWN = ("nproc-per-node", "max-restarts", "role", "module", "no-python", "help")
# fmt: off
_MEAN_THE_SAME = {
    "standalone": None, "nnodes": {"1", "1:1"}, "node-rank": {"0"}, "monitor-interval": ...,
    "rdzv-backend": {"c10d", "static"}, "rdzv-endpoint": ..., "rdzv-id": ..., "rdzv-conf": ...,
    "master-addr": {"127.0.0.1", "localhost", "::1"}, "master-port": ..., "local-addr": ...,
    "start-method": {"spawn", "fork", "forkserver"},
}
# fmt: on
"""Options of torchrun: None takes no value; a set has the values that are accepted, `...` all."""
_REFUSED = {
    "redirects": "output goes through unchanged; use the job's --output",
    "tee": "output goes through unchanged; use the job's --output",
    "log-dir": "output goes through unchanged; use the job's --output",
    "local-ranks-filter": "the output of all workers goes through",
    "run-path": "leave it out; SCRIPT is always run by its path",
    "logs-specs": "output goes through unchanged",
}
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,31}")
_MOST = 256


class Role(Struct, frozen=True):
    """Tasks of one name. `script` None: they run the script of the command."""

    name: str
    script: str | None
    count: int = 1


class Options(Struct):
    """What to run. `workers`: how many, where no daemon says it."""

    script: str = ""
    arguments: list[str] = field(default_factory=list)
    workers: int = 1
    max_restarts: int = 3
    roles: list[Role] = field(default_factory=list)
    module: bool = False
    no_python: bool = False
    help: bool = False

    def script_of(self, role: str) -> str:
        """What a task of this role runs. Raises `UsageError` if no option says it."""
        for each in self.roles:
            if each.name == role and each.script is not None:
                return each.script
        if not self.script:
            raise UsageError(f"no script for role {role}; add --role={role}=SCRIPT")
        return self.script

    def counts(self) -> dict[str, int]:
        """The tasks of each role where no daemon says them."""
        return {each.name: each.count for each in self.roles} or {"main": self.workers}


def parse(words: list[str]) -> Options:
    """The options. Raises `UsageError` with one line."""
    options = Options()
    left = list(words)
    while left and left[0].startswith("-") and left[0] != "-":
        word = left.pop(0)
        if word == "--":
            break
        name, equals, value = word.lstrip("-").partition("=")
        name = "module" if word == "-m" else "help" if word == "-h" else name.replace("_", "-")
        if not word.startswith("--") and word not in ("-m", "-h"):
            raise _unknown(word)
        if name in ("module", "no-python", "help", "standalone"):
            if equals:
                raise UsageError(f"--{name} takes no value; leave out ={value}")
            _flag(options, name)
        elif name in ("nproc-per-node", "max-restarts", "role") or name in _MEAN_THE_SAME:
            if not equals:
                if not left:
                    raise UsageError(f"--{name} needs a value; see radrun --help")
                value = left.pop(0)
            _value(options, name, value)
        elif name in _REFUSED:
            raise UsageError(f"radrun has no --{name}: {_REFUSED[name]}")
        else:
            raise _unknown(word)
    roles_have_scripts = bool(options.roles) and all(each.script for each in options.roles)
    if left and not roles_have_scripts:
        options.script = left.pop(0)
    options.arguments = left
    if not options.help and not options.script and not roles_have_scripts:
        raise UsageError("no SCRIPT is given; see radrun --help")
    if options.module and options.no_python:
        raise UsageError("--module and --no-python exclude each other; leave one out")
    return options


def _unknown(word: str) -> UsageError:
    from radrm.spellings import option_hint  # only a mistake needs it

    hint = option_hint(word, [*_OWN, *_MEAN_THE_SAME]) or "see radrun --help"
    return UsageError(f"{word} is not an option of radrun; {hint}")


def _flag(options: Options, name: str) -> None:
    if name == "module":
        options.module = True
    elif name == "no-python":
        options.no_python = True
    elif name == "help":
        options.help = True


def _value(options: Options, name: str, value: str) -> None:
    if name == "nproc-per-node":
        options.workers = _workers(value)
    elif name == "max-restarts":
        options.max_restarts = _count(name, value, 0, 1_000_000)
    elif name == "role":
        role = _role(value)
        if any(each.name == role.name for each in options.roles):
            raise UsageError(f"--role={value}: role {role.name} is given twice; leave one out")
        options.roles.append(role)
    else:
        accepted = _MEAN_THE_SAME[name]
        if isinstance(accepted, set) and value not in accepted:
            shown = " or ".join(f"--{name}={each}" for each in sorted(accepted))
            raise UsageError(
                f"--{name}={value}: radrun runs a job on one server; leave it out, or use {shown}"
            )


def _role(text: str) -> Role:
    """A role from `NAME[:N][=SCRIPT]`. torchrun's `--role=NAME` is one, too."""
    name, equals, script = text.partition("=")
    name, colon, count = name.partition(":")
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"--role={text}: {name!r} is not a name; write NAME=SCRIPT, as in ps=ps.py"
        )
    if equals and not script:
        raise UsageError(f"--role={text}: no script follows the =; write {name}=SCRIPT")
    return Role(name, script or None, _count("role", count, 1, _MOST) if colon else 1)


def _workers(value: str) -> int:
    gpus = _visible_gpus()
    cpus = len(os.sched_getaffinity(0))
    if value == "auto":
        return gpus or cpus
    if value == "cpu":
        return cpus
    if value == "gpu":
        if not gpus:
            raise UsageError("--nproc-per-node=gpu: no GPU is visible; give a number")
        return gpus
    return _count("nproc-per-node", value, 1, _MOST)


def _visible_gpus() -> int:
    """The GPUs that a program started here sees."""
    text = os.environ.get("CUDA_VISIBLE_DEVICES")
    if text is not None:
        return len([word for word in text.split(",") if word.strip() not in ("", "-1")])
    try:
        return len(os.listdir("/proc/driver/nvidia/gpus"))
    except OSError:
        return 0


def _count(name: str, value: str, least: int, most: int) -> int:
    if not (value.isascii() and value.isdigit() and least <= int(value[:9]) <= most):
        raise UsageError(f"--{name}={value} is not a number from {least} to {most}")
    return int(value)


def exit_with_usage() -> int:
    """Print the help."""
    sys.stdout.write(USAGE)
    return 0

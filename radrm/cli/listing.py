"""Every command with its line of help: the server's own here, those of wings by `radrm.wings`.

`radrm --help` and a mistyped command wait for no import of a command.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

FIRST = (
    *("submit", "run", "status", "top", "logs", "explain", "wait", "cancel", "requeue", "edit"),
    *("gpus", "history", "report", "doctor"),
)
"""The commands of the first week."""
GROUPS: dict[str, dict[str, str]] = {
    "Jobs": {
        "submit": "Submit job files, or one command after `--`.",
        "run": "Run one command in the queue, tied to this terminal.",
        "status": "Show jobs: where they run, why they wait, how they ended.",
        "logs": "Print what a job has printed; -f as it runs.",
        "explain": "Say why a job waits, or where and how it ran.",
        "wait": "Wait for jobs to end.",
        "cancel": "Cancel jobs, waiting or running.",
        "hold": "Keep waiting jobs from starting, until they are released.",
        "release": "Let held jobs start.",
        "requeue": "Put jobs back into the queue.",
        "edit": "Change options of jobs: priority, time limit, memory...",
        "spool": "Print your spool folder, whose .rad files become jobs.",
    },
    "Jobs that save their work": {
        "checkpoint": "Have running jobs save their work now.",
        "migrate": "Move a running job to another GPU: it saves its work first.",
        "resize": "Give a running job another number of GPUs, or of tasks.",
        "progress": "Report a job's progress, from its own script.",
    },
    "GPUs": {
        "gpus": "Show the GPUs: memory, SM activity, power, jobs.",
        "drain": "Start no more jobs on GPUs; running jobs go on.",
        "resume": "Let drained GPUs take jobs again.",
        "reserve": "Reserve GPUs for yourself, for others, or for maintenance.",
        "mps": "CUDA MPS: jobs of one user share a GPU, each with a memory cap.",
    },
    "What was used, by whom": {
        "history": "List past jobs, with their sums.",
        "report": "Show what users, jobs or GPUs have used: GPU-hours, energy, cost.",
        "limits": "Show your limits with their use, and whose job is next.",
    },
    "The server": {
        "doctor": "Check this machine, the configuration and the daemon.",
        "daemon": "Run the daemon until Ctrl-C or TERM; jobs go on without it.",
        "service": "Make the daemon a service of systemd, show it, remove it.",
        "config": "Show, check or reload the configuration.",
        "completion": "Print the completion of your shell: bash, zsh or fish.",
    },
    "Pages and programs": {},
    "With Slurm": {},
    "Estimates and simulation": {
        "estimate": "Estimate the GPU memory of a job before it runs.",
        "summarize": "Write the summary of a model for estimators, without a GPU.",
    },
}
"""The server's own commands. Wings add to these groups."""
COMMANDS: dict[str, str] = {name: line for group in GROUPS.values() for name, line in group.items()}
ALIASES = {"ps": "status", "ls": "status", "queue": "status", "kill": "cancel"}
"""Other names of commands, for the fingers of people who come from other tools."""
_LONG = 12
OF_GROUPS: dict[str, tuple[str, ...]] = {
    "config": ("show", "check", "reload"),
    "mps": ("status", "start", "stop"),
    "service": ("install", "remove", "status"),
}
"""The server's commands that are groups of commands."""
_SHARED = {
    **dict.fromkeys(("cancel", "hold", "release", "requeue", "wait"), "jobs"),
    **dict.fromkeys(("checkpoint", "migrate", "resize", "progress"), "saving"),
    **dict.fromkeys(("drain", "resume"), "gpus"),
    **dict.fromkeys(("history", "limits"), "report"),
    "summarize": "estimate",
    "explain": "status",
}
"""Modules that have several commands."""


def groups() -> dict[str, dict[str, str]]:
    """All commands that are installed, by the titles of their groups."""
    from radrm import wings

    found = {title: dict(its) for title, its in GROUPS.items()}
    for name, command in wings.commands().items():
        found.setdefault(command.group, {})[name] = command.line
    return {title: its for title, its in found.items() if its}


def commands() -> dict[str, str]:
    """The line of help of each command that is installed."""
    return {name: line for group in groups().values() for name, line in group.items()}


def of_group(name: str) -> tuple[str, ...]:
    """The commands of a group, as `config show`; empty for a command that is none."""
    if name in COMMANDS:
        found = OF_GROUPS.get(name, ())
    else:
        from radrm import wings

        command = wings.commands().get(name)
        found = () if command is None else command.commands
    return tuple(f"{name} {each}" for each in found)


def module_of(command: str) -> Any:
    group = command.partition(" ")[0]
    if group in COMMANDS:
        name = f"radrm.cli.commands.{_SHARED.get(group, _python(group))}"
        __import__(name)  # `importlib` would take another millisecond
        return sys.modules[name]
    from importlib import import_module

    from radrm import wings

    return import_module(wings.commands()[group].module)


def function_of(command: str) -> Any:
    return getattr(module_of(command), _python(command.rpartition(" ")[2]))


def parameters_of(command: str) -> Any:
    own = _python(command.rpartition(" ")[2]).upper()
    return getattr(module_of(command), f"{own}_PARAMETERS")


def _python(command: str) -> str:
    return command.replace("-", "_")


def overview(whole: bool = False) -> str:
    """The text of `radrm --help`; `whole`: of `radrm help --all`."""
    shown = groups()
    if not whole:
        every = {name: line for group in shown.values() for name, line in group.items()}
        shown = {"Commands": {name: every[name] for name in FIRST if name in every}}
    # The few names that are longer move their own line only: it still fits a terminal.
    width = max(len(name) for group in shown.values() for name in group if len(name) <= _LONG)
    lines = [
        "Usage: radrm COMMAND [ARGS]...",
        "",
        "  Queue jobs for the GPUs of this server, several on one GPU where that is safe.",
    ]
    for title, its in shown.items():
        lines += ["", f"{title}:"]
        lines += [f"  {name:{width}}  {line}" for name, line in its.items()]
    return "\n".join(
        [
            *lines,
            "",
            *([] if whole else ["  radrm help --all        all commands"]),
            "  radrm COMMAND --help    the options of a command",
            *(_wrapped_topics() if whole else ()),
            "  radrm ps, ls, queue     status; kill is cancel",
            "  radrm --version         the version",
        ]
    )


def _wrapped_topics() -> list[str]:
    from textwrap import wrap

    from radrm.cli.guide import topics

    first = "  radrm help TOPIC        a page of the guide: "
    return wrap(
        *(", ".join(topics()), 80),
        initial_indent=first,
        subsequent_indent=" " * 26,
        break_on_hyphens=False,
    )


def unknown(word: str) -> str:
    """One line about a first word that is no command."""
    from shutil import which  # only a mistake needs these

    from radrm.spellings import command_hint, option_hint

    if word.startswith("-"):
        hint = option_hint(word, ("help", "version"))
        return f"radrm: unknown option {word}; {hint or 'see radrm --help'}"
    hint = command_hint(word, {**commands(), **ALIASES})
    if hint is None and (which(word) is not None or word.endswith((".py", ".sh", ".rad"))):
        hint = "to submit a program write: radrm submit -- python train.py"
    return f"radrm: unknown command {word}; {hint or 'see radrm --help'}"

"""Every command with its line of help. `radrm --help` and a mistyped command need only this file,
so neither waits for the imports of typer and of the commands."""

from __future__ import annotations

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
        "top": "Show GPUs and jobs live, and give commands by key.",
        "logs": "Print a job's log; -f as it runs.",
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
        "bench": "Measure on this server.",
        "profile": "Run a few steps of a job on each free kind and number of GPUs.",
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
        "demo": "Show it all once on simulated GPUs, in less than a minute.",
    },
    "Pages and programs": {
        "serve": "Show GPUs, jobs, logs and the history as a live web page.",
        "metrics": "Print or serve figures for Prometheus and Grafana.",
        "mcp": "Serve tools to a coding agent (MCP).",
    },
    "With Slurm": {
        "slurm": "Print what a Slurm cluster needs for shared GPUs.",
        "slurm-step": "Run a job file inside a Slurm job.",
        "pilot": "Run your own jobs, several on one GPU, in one Slurm job.",
        "install-slurm-names": "Write commands named sbatch, squeue, scancel...",
    },
    "Estimates and simulation": {
        "estimate": "Estimate the GPU memory of a job before it runs.",
        "estimators": "List the estimators, or try them on measured jobs.",
        "summarize": "Write the summary of a model for estimators, without a GPU.",
        "simulate": "Run a trace on a simulated server and show the result.",
        "compare": "Run a trace as configured here, and under several policies.",
        "trace": "Draw a trace, or play one through a daemon.",
        "replay": "Run the daemon's own past jobs under other policies.",
    },
}
COMMANDS: dict[str, str] = {name: line for group in GROUPS.values() for name, line in group.items()}
ALIASES = {"ps": "status", "ls": "status", "queue": "status", "kill": "cancel"}
"""Other names of commands, for the fingers of people who come from other tools."""
_LONG = 12
EVERYDAY = frozenset(
    {
        *("cancel", "checkpoint", "completion", "daemon", "drain", "explain", "gpus", "history"),
        *("hold", "limits", "logs", "mcp", "migrate", "progress", "release", "report", "requeue"),
        *("reserve", "resize", "resume", "slurm-step", "status", "top", "wait"),
    }
)
"""Commands that start without typer: their modules declare parameters (`parameters_of`)."""
_SHARED = {
    **dict.fromkeys(("cancel", "hold", "release", "requeue", "wait"), "jobs"),
    **dict.fromkeys(("checkpoint", "migrate", "resize", "progress"), "saving"),
    **dict.fromkeys(("drain", "resume"), "gpus"),
    **dict.fromkeys(("history", "limits"), "report"),
    **dict.fromkeys(("estimators", "summarize"), "estimate"),
    "explain": "status",
    "compare": "simulate",
    "install-slurm-names": "slurm",
}
"""Modules that have several commands."""


def module_of(command: str) -> Any:
    """Import the module of a command."""
    from importlib import import_module

    return import_module(f"radrm.cli.commands.{_SHARED.get(command, _python(command))}")


def function_of(command: str) -> Any:
    """Import the function of a command, or its typer application."""
    return getattr(module_of(command), _python(command))


def parameters_of(command: str) -> Any:
    """The declared parameters of an everyday command."""
    return getattr(module_of(command), f"{_python(command).upper()}_PARAMETERS")


def _python(command: str) -> str:
    return command.replace("-", "_")


def overview(whole: bool = False) -> str:
    """The text of `radrm --help`; `whole`: of `radrm help --all`."""
    groups = GROUPS if whole else {"Commands": {name: COMMANDS[name] for name in FIRST}}
    # The few names that are longer move their own line only: it still fits a terminal.
    width = max(len(name) for group in groups.values() for name in group if len(name) <= _LONG)
    lines = [
        "Usage: radrm COMMAND [ARGS]...",
        "",
        "  Queue jobs for the GPUs of this server, several on one GPU where that is safe.",
    ]
    for title, commands in groups.items():
        lines += ["", f"{title}:"]
        lines += [f"  {name:{width}}  {line}" for name, line in commands.items()]
    return "\n".join(
        [
            *lines,
            "",
            *([] if whole else ["  radrm help --all        all commands"]),
            "  radrm COMMAND --help    the options of a command",
            "  radrm ps, ls, queue     status; kill is cancel",
            "  radrm --version         the version",
        ]
    )


def unknown(word: str) -> str:
    """One line about a first word that is no command."""
    from radrm.spellings import command_hint, option_hint  # only a mistake needs it

    if word.startswith("-"):
        hint = option_hint(word, ("help", "version"))
        return f"radrm: unknown option {word}; {hint or 'see radrm --help'}"
    hint = command_hint(word, {**COMMANDS, **ALIASES})
    return f"radrm: unknown command {word}; {hint or 'see radrm --help'}"

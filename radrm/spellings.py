"""Options and commands of other tools by their names here, and the nearest of what is known.

Only a mistake imports this file. A table has the spellings whose meaning is clear; all others are
compared by their letters. An alternative counts only where its first option is known: `-p` is the
port of `radrm serve`, and a partition for `radrm submit`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from difflib import get_close_matches

_AFTER = ("--after=JOB[:ok|:any|:failed]",)
_CHDIR = ("--chdir=DIR",)
_CPUS = ("--cpus=N",)
_ENV = ("--env=NAME=VALUE",)
_ERROR = ("--error=PATH", "--stderr")
_GPUS = ("--gpus=N",)
_LISTEN = ("--listen=[HOST:]PORT",)
_MEMORY = ("--memory=SIZE, of the whole job",)
_NAME = ("--name=NAME",)
_NODES = ("--gpus=N (radrm has one server: leave it out)",)
_NOTIFY = ("--notify=ADDRESS[:end,fail,start]",)
_NO_ACCOUNT = ("--priority=N (there are no accounts: leave it out)",)
_OUTPUT = ("--output=PATH",)
_PARTITION = ("--gpu-type=TYPE, for there are no partitions",)
_SINCE = ("--since=7d",)
_TIME = ("--time=TIME", "--for=SPAN")
_UNTIL = ("--until=WHEN",)
_VRAM = ("--gpu-memory=SIZE",)

_OPTIONS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("J", "job-name", "jobname", "title"), _NAME),
    "t": ("--time=TIME (a plain number is seconds)",),
    **dict.fromkeys(("walltime", "time-limit", "timelimit", "timeout", "max-time", "limit"), _TIME),
    **dict.fromkeys(("gres", "G", "ngpus", "num-gpus", "n-gpus", "gpu-count", "gpu-num"), _GPUS),
    **dict.fromkeys(("gpus-per-node", "gpus-per-task", "nproc-per-node", "nproc"), _GPUS),
    **dict.fromkeys(
        ("devices", "device", "gpu-ids", "gpu-id", "gpu-index", "cuda-visible-devices"),
        ("--gpus=N (a number: radrm chooses which; --prefer-gpus names some)",),
    ),
    "elastic": ("--gpus=MIN-MAX",),
    "n": ("--gpus=N, --cpus=N, or --name=NAME", "--lines=N", "--name=NAME", "--limit=N"),
    "ntasks": ("--gpus=N or --cpus=N; programs start their own processes",),
    **dict.fromkeys(("N", "nodes", "num-nodes", "nnodes"), _NODES),
    **dict.fromkeys(("partition", "queue", "q"), _PARTITION),
    "p": (*_LISTEN, *_PARTITION),
    **dict.fromkeys(("port", "bind", "host", "address", "addr", "ip", "bind-address"), _LISTEN),
    **dict.fromkeys(("account", "A", "qos", "project"), _NO_ACCOUNT),
    **dict.fromkeys(("mail-user", "mail-type", "mail", "email", "M", "m"), _NOTIFY),
    "mem": ("--memory=SIZE for the host's memory, --gpu-memory=SIZE for a GPU's", *_VRAM),
    **dict.fromkeys(("mem-per-cpu", "mem-per-gpu", "ram", "host-memory"), _MEMORY),
    **dict.fromkeys(("gpu-mem", "gpumem", "vram", "gmem", "gpu-ram", "memory-gpu"), _VRAM),
    **dict.fromkeys(("dependency", "d", "depend", "depends-on", "afterok", "wait-for"), _AFTER),
    "a": ("--array=0-9[%N]", "--all"),
    **dict.fromkeys(("job-array", "array-job"), ("--array=0-9[%N]",)),
    **dict.fromkeys(("o", "out", "log", "log-file", "logfile", "stdout"), _OUTPUT),
    **dict.fromkeys(("e", "err", "stderr"), _ERROR),
    **dict.fromkeys(("D", "cwd", "workdir", "wd", "working-dir", "working-directory"), _CHDIR),
    **dict.fromkeys(("c", "cpus-per-task", "ncpus", "num-cpus", "cores", "threads"), _CPUS),
    **dict.fromkeys(("export", "environment", "v", "env-var"), _ENV),
    **dict.fromkeys(
        ("env-file", "envfile"), ("--env=NAME=VALUE, for each variable: it reads no file",)
    ),
    "nice": ("--priority=N, but a higher priority starts first; nice is the opposite",),
    **dict.fromkeys(("prio", "P"), ("--priority=N",)),
    **dict.fromkeys(
        ("restart", "from-scratch", "anew"),
        ("--from-start, to lose what was saved; without it the job continues",),
    ),
    **dict.fromkeys(("retry", "max-retries", "restarts"), ("--retries=N",)),
    **dict.fromkeys(
        ("start", "start-time", "starttime", "at", "defer"),
        ("--begin=TIME", "--from=TIME", *_SINCE),
    ),
    **dict.fromkeys(("duration", "time", "length", "hours"), ("--for=SPAN",)),
    **dict.fromkeys(("days", "day", "weeks", "period", "S"), _SINCE),
    "last": ("--since=7d for a time, --limit=N for a number of rows", *_SINCE),
    **dict.fromkeys(("end", "end-time", "endtime", "E"), _UNTIL),
    **dict.fromkeys(("deadline", "due-date"), ("--due=TIME",)),
    **dict.fromkeys(("exclusive",), ("--collocation=exclusive",)),
    **dict.fromkeys(("share", "shared", "oversubscribe", "sharing"), ("--collocation=timeslice",)),
    **dict.fromkeys(("constraint", "C", "gpu-model", "gputype"), ("--gpu-type=TYPE",)),
    "tail": ("--lines=N", "--follow", "--wait"),
    **dict.fromkeys(("f", "watch", "w", "i", "iterate"), ("--follow", "--wait")),
    **dict.fromkeys(("u", "username", "owner"), ("--user=NAME",)),
    **dict.fromkeys(("s", "states", "status"), ("--state=STATE,...",)),
    **dict.fromkeys(("h", "noheader", "no-headers"), ("--no-header",)),
    **dict.fromkeys(("y", "yes", "force", "assume-yes"), ("--yes", "--force")),
    "l": ("--lines=N", "--limit=N"),
    "array-size": ("--array=0-9[%N]",),
    "background": ("--wait (submit returns at once without it)",),
}
"""By name: what it is here. The first alternative counts whose first option is known."""

_COMMANDS: dict[str, str] = {
    **dict.fromkeys(("squeue", "qstat", "bjobs", "jobs", "list", "show", "stat", "info"), "status"),
    **dict.fromkeys(
        ("sbatch", "qsub", "bsub", "add", "enqueue", "tsp", "start", "queue-job"), "submit"
    ),
    **dict.fromkeys(("srun", "salloc", "exec", "interactive", "shell", "qlogin"), "run"),
    **dict.fromkeys(
        ("scancel", "qdel", "bkill", "stop", "delete", "rm", "remove", "abort"), "cancel"
    ),
    **dict.fromkeys(("sinfo", "nvidia-smi", "nodes", "devices", "gpustat", "pestat"), "gpus"),
    **dict.fromkeys(("nvtop", "htop", "monitor", "tui", "smi"), "top"),
    **dict.fromkeys(("web", "dashboard", "ui", "gui", "http"), "serve"),
    **dict.fromkeys(("log", "tail", "cat", "output", "peek", "attach"), "logs"),
    **dict.fromkeys(("why", "describe", "inspect", "scontrol"), "explain"),
    **dict.fromkeys(("sacct", "seff", "past"), "history"),
    **dict.fromkeys(("sreport", "stats", "statistics", "accounting"), "report"),
    **dict.fromkeys(("sshare", "sprio", "fairshare"), "limits"),
    **dict.fromkeys(("suspend", "pause", "qhold"), "hold"),
    **dict.fromkeys(("unhold", "qrls", "unpause"), "release"),
    **dict.fromkeys(("restart", "retry", "rerun", "resubmit"), "requeue"),
    **dict.fromkeys(("update", "modify", "alter", "qalter", "set", "change"), "edit"),
    **dict.fromkeys(("save", "snapshot"), "checkpoint"),
    **dict.fromkeys(("move",), "migrate"),
    **dict.fromkeys(("scale",), "resize"),
    **dict.fromkeys(("server", "up", "serve-daemon", "radrmd", "slurmd"), "daemon"),
    **dict.fromkeys(("settings", "configuration"), "config"),
    **dict.fromkeys(("check", "diag", "diagnose", "health"), "doctor"),
    **dict.fromkeys(("setup", "init", "systemd"), "service"),
    **dict.fromkeys(("version",), "--version"),
}
"""By the name of other tools: the command here."""

_ALIKE = 0.75
"""How alike two words are of which one is a mistyped other; two swapped letters of four."""


def option_hint(word: str, known: Iterable[str]) -> str | None:
    """Return what an unknown option is here: `here it is ...`, or `did you mean ...?`.

    `known`: the options that can be given, without dashes. None: nothing is like it.
    """
    names = [name for name in known if name]
    bare = word.lstrip("-").partition("=")[0][:40].replace("_", "-")
    alone = bare[:1] if not word.startswith("--") and len(bare) > 1 else bare
    for name in dict.fromkeys((bare, bare.lower() if len(bare) > 1 else bare, alone)):
        for text in _OPTIONS.get(name, ()):
            named = re.findall(r"--([a-z-]+)", text)
            if named[0] in names:
                return f"here it is {text if set(named) <= set(names) else f'--{named[0]}'}"
    near = _nearest(bare, [name for name in names if len(name) > 1])
    return None if near is None else f"did you mean --{near}?"


def command_hint(word: str, known: Collection[str]) -> str | None:
    """Return what an unknown command is here; None if nothing is like it."""
    name = word.lower().replace("_", "-")
    here = _COMMANDS.get(name)
    if here is not None and (here in known or here.startswith("--")):
        return f"here it is {here}"
    near = _nearest(name, known)
    return None if near is None else f"did you mean {near}?"


def _nearest(word: str, known: Iterable[str]) -> str | None:
    names = list(known)
    near = get_close_matches(word.lower(), names, n=1, cutoff=_ALIKE)
    if near:
        return near[0]
    # A whole word too much or too few: `array-task` for `array`, `size` for `batch-size`.
    parts = set(word.split("-"))
    return next(
        (n for n in names if parts <= set(n.split("-")) or set(n.split("-")) <= parts), None
    )

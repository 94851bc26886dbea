"""`scontrol` on a server of radrm: hosts, jobs, and commands about them.

Source: scontrol(1) of Slurm 25.11. What changes nodes, partitions or the controller has no meaning
here; a line says what radrm has for it.
"""

from __future__ import annotations

import os

from radrm.client.text import say
from radrm.errors import Refused, UsageError
from radrm.jobfile.slurm.amounts import parse_time
from radrm.jobfile.values import shown
from radrm.slurm.commands import shown as of_job
from radrm.slurm.hostlists import compressed, expanded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_OPTIONS = "-adohQv"
_COMMANDS = {
    "hold": "hold", "uhold": "hold", "release": "release", "requeue": "requeue",
}  # fmt: skip
_INSTEAD = {
    "requeuehold": "radrm requeue JOB, then radrm hold JOB",
    "suspend": "radrm checkpoint JOB has a job save its work; radrm requeue JOB stops it",
    "resume": "radrm release JOB",
    "top": "radrm edit JOB --priority=N",
    "listpids": "radrm status JOB",
    "reconfigure": "radrm config reload",
    "notify": "write into the job's log",
    "wait_job": "radrm wait JOB",
    "create": "radrm reserve",
    "delete": "radrm reserve",
}
_SHOWN_INSTEAD = {
    **dict.fromkeys(("node", "nodes", "partition", "partitions"), "radrm gpus, or sinfo"),
    **dict.fromkeys(("config", "slurmd", "daemons"), "radrm config"),
    **dict.fromkeys(("reservation", "reservations"), "radrm reserve"),
    **dict.fromkeys(("step", "steps"), "radrm status JOB"),
}
_EDITS: dict[str, Callable[[str], str]] = {
    "timelimit": lambda text: f"--time={_seconds(text)}",
    "jobname": lambda text: f"--name={text}",
    "name": lambda text: f"--name={text}",
    "priority": lambda text: f"--priority={text}",
    "nice": lambda text: f"--priority={-int(text)}",
    "comment": lambda text: f"--comment={text}",
    "starttime": lambda text: f"--begin={'+0s' if text == 'now' else text}",
    "eligibletime": lambda text: f"--begin={'+0s' if text == 'now' else text}",
}


def scontrol(words: Sequence[str], run: Callable[[list[str]], int]) -> int:
    """Carry out a command line. `run` carries out one of radrm's. Returns the exit code.

    Raises `RadrmError`.
    """
    flags = [word for word in words if word.startswith("-")]
    rest = [word for word in words if not word.startswith("-")]
    if {"-V", "--version"} & set(flags):
        return run(["--version"])
    if not rest:
        raise UsageError("scontrol needs a command, as: scontrol show job 12")
    command, *named = rest
    one_line = bool({"-o", "--oneliner"} & set(flags))
    detailed = bool({"-d", "--details", "-dd"} & set(flags))
    if command == "show" or (len(command) > 2 and "show".startswith(command)):
        return _show(named, one_line, detailed)
    if command in _COMMANDS:
        if not named:
            raise UsageError(f"scontrol {command} needs jobs, as: scontrol {command} 12")
        return run([_COMMANDS[command], "--", *_jobs(named)])
    if command in ("update", "updatejob"):
        return _update(named, run)
    if command == "version":
        return run(["--version"])
    if command == "ping":
        say(f"Slurmctld(primary) at {of_job.host()} is UP")
        return 0
    if command == "write" and named[:1] == ["batch_script"]:
        raise Refused(
            "radrm shows no copy of a job's script; the submitted file is RADRM_SCRIPT in the job"
        )
    if command in _INSTEAD:
        raise Refused(f"scontrol {command} is not here; use: {_INSTEAD[command]}")
    raise UsageError(f"scontrol {shown(command)}: no command of scontrol that radrm has")


def _jobs(words: Sequence[str]) -> list[str]:
    from radrm.slurm.commands.names import elements

    return [job for word in words for job in elements(word) if "=" not in word]


def _show(named: Sequence[str], one_line: bool, detailed: bool) -> int:
    what, *names = (*named, "")[:1] + tuple(named[1:]) if named else ("",)
    kind = what.lower()
    if kind in ("hostname", "hostnames"):
        text = ",".join(names) or os.environ.get("SLURM_JOB_NODELIST") or of_job.host()
        for host in expanded(text):
            say(str(host))
        return 0
    if kind in ("hostlist", "hostlistsorted"):
        hosts = expanded(",".join(names))
        if not hosts:
            raise UsageError("scontrol show hostlist needs hosts, as node1,node2")
        say(compressed(sorted(set(hosts)) if kind == "hostlistsorted" else hosts))
        return 0
    if kind in ("job", "jobs", "jobid"):
        return _show_jobs(names, one_line, detailed)
    if kind in _SHOWN_INSTEAD:
        raise Refused(f"scontrol show {kind} is not here; use: {_SHOWN_INSTEAD[kind]}")
    raise UsageError(f"scontrol show {shown(what)}: no entity of scontrol that radrm has")


def _show_jobs(names: Sequence[str], one_line: bool, detailed: bool) -> int:
    jobs = of_job.asked(_jobs([name.removeprefix("JobId=") for name in names]))
    if not jobs:
        say("No jobs in the system")
    for job in jobs:
        files = of_job.files(job) if names else {}
        first, *others = of_job.record(job, detailed, files)
        if one_line:
            say(" ".join((first, *others)))
        else:
            say(first, *(f"   {line}" for line in others), "")
    return 0


def _update(words: Sequence[str], run: Callable[[list[str]], int]) -> int:
    """`JobId=12 TimeLimit=2:00:00 Name=x`."""
    jobs: list[str] = []
    options: list[str] = []
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or name.endswith(("+", "-")):
            raise UsageError(f"scontrol update: {shown(word)} is not NAME=VALUE")
        if name.lower() in ("jobid", "job"):
            jobs += _jobs([value])
        elif name.lower() in _EDITS:
            try:
                options.append(_EDITS[name.lower()](value))
            except ValueError as error:
                raise UsageError(f"scontrol update: {shown(word)}: {error}") from None
        else:
            raise Refused(
                f"scontrol update: {shown(name)} cannot change here; see radrm edit --help"
            )
    if not jobs or not options:
        raise UsageError("scontrol update changes jobs, as: scontrol update JobId=12 TimeLimit=60")
    return run(["edit", *jobs, *options])


def _seconds(text: str) -> str:
    seconds = parse_time(text)
    if seconds is None:
        raise ValueError("a job without a limit: cancel it and submit it again without --time")
    return f"{seconds}s"

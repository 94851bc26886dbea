"""What the commands with Slurm's names run: `NAME ARGUMENT...` on the command line.

They are in the folder `programs`, on the PATH of jobs that were submitted as Slurm's, and where
`radrm install-slurm-names` has written them.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import pwd
import sys

from radrm.cli import main as entry
from radrm.client.text import say
from radrm.errors import RadrmError, Refused, UsageError
from radrm.slurm.inside.request import job_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import NoReturn

_VERSION = {"-V", "--version"}


def main() -> None:
    """Run the command of that name."""
    name, words = sys.argv[1], sys.argv[2:]
    job = job_of(os.environ, os.uname().nodename) if name == "srun" else None
    if job is None or _VERSION & set(words[:1]) or {"-h", "--help", "--usage"} & set(words[:1]):
        entry.end(lambda: _run(name, words))
    from radrm.slurm.inside.run import srun, tell  # steps start often: no more than they need

    try:
        code = srun(words, job)
    except RadrmError as error:
        for line in error.lines:
            tell(f"error: {line}")
        code = 1
    except OSError as error:
        tell(f"error: {error.filename or 'srun'}: {error.strerror}")
        code = 1
    sys.stdout.flush()
    os._exit(code)


def _run(name: str, words: list[str]) -> int:
    from radrm.slurm.commands.names import INSTEAD, NAMES

    if name not in NAMES:
        raise UsageError(f"{name} is none of {', '.join(NAMES)}")
    if name != "scontrol" and _VERSION & set(words[:1]):
        _radrm(["--version"])
    if name in INSTEAD:
        raise Refused(f"{name} is not here; use: {INSTEAD[name]}")
    if name not in ("sbatch", "scontrol") and {"-h", "--help"} & set(words) == {"--help"}:
        say(f"{name} of radrm: its options: radrm help sbatch")
        return 0
    return _COMMANDS[name](words)


def _me() -> str:
    return pwd.getpwuid(os.getuid()).pw_name


def _radrm(words: list[str]) -> NoReturn:
    sys.argv = ["radrm", *words]
    entry.main()
    raise SystemExit(0)


def _srun(words: list[str]) -> int:
    from radrm.slurm.commands.names import srun

    return _in_a_job(*srun(words, os.getcwd(), os.uname().nodename))


def _salloc(words: list[str]) -> int:
    from radrm.slurm.commands.names import salloc

    return _in_a_job(*salloc(words, os.getcwd(), os.uname().nodename))


def _in_a_job(line: list[str], variables: Mapping[str, str]) -> NoReturn:
    from radrm.jobfile.inherited import submit_with

    submit_with(os.environ, variables)
    _radrm(line)


def _sbatch(words: list[str]) -> int:
    """Submit, and say what sbatch says."""
    from radrm.cli.commands.jobs import wait
    from radrm.cli.commands.submit import carry_out
    from radrm.jobfile.command_line import SubmitRequest
    from radrm.slurm.commands.names import request_of

    request = request_of(words)
    if request.help or request.dry_run:
        return carry_out(request)
    parsable, waits = request.parsable, request.wait
    own = {"parsable": False, "wait": False, "json": True}
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        code = carry_out(SubmitRequest(**{**request.as_dict(), **own}))
    for job in json.loads(said.getvalue() or "[]"):
        if job["ticket"] is not None:
            number = job["id"] if job["id"] is not None else job["ticket"]
            say(number if parsable else f"Submitted batch job {number}")
            if waits and code == 0:
                code = wait([job["ticket"]], False)
    return code


def _squeue(words: list[str]) -> int:
    from radrm.cli.show.formats import heading, read_format
    from radrm.slurm.commands.names import ids_of, squeue
    from radrm.slurm.commands.shown import NO_JOB, known

    line = squeue(words, _me())
    if "--" in line:
        at = line.index("--") + 1
        there = known(line[at:])
        if not there and ids_of(line[at:]):
            say(f"slurm_load_jobs error: {NO_JOB}", error=True)
            return 1
        if not there:  # a name that no job has is none of Slurm's errors
            (layout,) = [word for word in line if word.startswith("--format=")]
            if "--no-header" not in line:
                say(heading(read_format(layout.partition("=")[2])))
            return 0
        line[at:] = there
    _radrm(line)


def _scancel(words: list[str]) -> int:
    from radrm.slurm.commands.names import scancel, signal_in
    from radrm.slurm.commands.shown import known

    job = job_of(os.environ, os.uname().nodename)
    asked = None if job is None else signal_in(words, job.id)
    if asked is not None:
        from radrm.slurm.inside.shares import signal_steps

        number, steps, script, of_steps = asked
        for step in steps if of_steps else ():
            signal_steps(os.environ, number, step)
        leader = os.getsid(0)  # the job's own process; 0: it cannot be seen from here
        if script and leader:
            os.kill(leader, number)
        return 0
    line = scancel(words, _me())
    by_name = any(word.startswith(("-n", "--name", "--jobname")) for word in words)
    if by_name and "--" in line and not known(line[line.index("--") + 1 :]):
        return 0  # as scancel: it chooses none
    _radrm(line)


def _scontrol(words: list[str]) -> int:
    from radrm.slurm.commands.scontrol import scontrol

    return scontrol(words, _radrm)


def _sacct(words: list[str]) -> int:
    from radrm.slurm.commands.accounting import sacct

    return sacct(words, _me())


def _seff(words: list[str]) -> int:
    from radrm.slurm.commands.accounting import seff

    return seff(words)


def _sbcast(words: list[str]) -> int:
    from radrm.slurm.commands.sbcast import sbcast

    return sbcast(words)


def _sinfo(words: list[str]) -> int:
    """Say how busy the server is, as a partition of one node."""
    from radrm.client.connection import Client

    header = not {"-h", "--noheader"} & set(words)
    if set(words) - {"-h", "--noheader"}:
        raise UsageError("options of sinfo are not known here; see radrm gpus")
    with Client() as client:
        gpus = client.ask("gpus")
    states = [gpu["state"] for gpu in gpus]
    kinds = sorted({gpu["name"].replace(" ", "_") for gpu in gpus})
    gres = ",".join(
        f"gpu:{kind}:{sum(g['name'].replace(' ', '_') == kind for g in gpus)}" for kind in kinds
    )
    busy = sum(bool(gpu["jobs"]) for gpu in gpus)
    if gpus and all(state == "drained" for state in states):
        state = "drain"
    else:
        state = "idle" if not busy else "alloc" if busy == len(gpus) else "mix"
    row = "{:<9} {:<5} {:<9} {:>5}  {:<6} {:<15} {}"
    if header:
        say(row.format("PARTITION", "AVAIL", "TIMELIMIT", "NODES", "STATE", "NODELIST", "GRES"))
    host = os.uname().nodename
    say(row.format("gpu*", "up", "infinite", 1, state, host, gres))
    return 0


_COMMANDS = {
    "sbatch": _sbatch,
    "srun": _srun,
    "salloc": _salloc,
    "squeue": _squeue,
    "scancel": _scancel,
    "scontrol": _scontrol,
    "sacct": _sacct,
    "seff": _seff,
    "sbcast": _sbcast,
    "sinfo": _sinfo,
}

if __name__ == "__main__":
    main()

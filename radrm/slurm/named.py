"""What the commands named `sbatch`, `squeue`, `scancel`, `sinfo` and `srun` run.

`radrm install-slurm-names` writes them: `python -m radrm.slurm.named NAME ARGUMENT...`.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import pwd
import sys

from radrm.cli import main as entry
from radrm.errors import UsageError, plain
from radrm.slurm.commands.names import NAMES, TRANSLATED, request_of, srun

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def main() -> None:
    """Run the command of that name."""
    entry.end(lambda: _run(sys.argv[1], sys.argv[2:]))


def _run(name: str, words: list[str]) -> int:
    if name == "sbatch":
        return _sbatch(words)
    if name == "sinfo":
        return _sinfo(words)
    if name == "srun":
        line, variables = srun(words, os.getcwd(), os.uname().nodename)
        os.environ.update(variables)
        _radrm(line)
    if name in TRANSLATED:
        _radrm(TRANSLATED[name](words, pwd.getpwuid(os.getuid()).pw_name))
    raise UsageError(f"{name} is none of {', '.join(NAMES)}")


def _radrm(words: list[str]) -> NoReturn:
    sys.argv = ["radrm", *words]
    entry.main()
    raise SystemExit(0)


def _sbatch(words: list[str]) -> int:
    """Submit, and say what sbatch says."""
    from radrm.cli.commands.jobs import wait
    from radrm.cli.commands.submit import carry_out
    from radrm.jobfile.command_line import SubmitRequest

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
            print(number if parsable else f"Submitted batch job {number}", flush=True)
            if waits and code == 0:
                code = wait([job["ticket"]], False)
    return code


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
        print(row.format("PARTITION", "AVAIL", "TIMELIMIT", "NODES", "STATE", "NODELIST", "GRES"))
    host = os.uname().nodename
    print(row.format("gpu*", "up", "infinite", 1, state, host, plain(gres)))
    return 0


if __name__ == "__main__":
    main()

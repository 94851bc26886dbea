"""The options of `srun`, as far as they are not those of `sbatch`, and what a step makes of them.

Theory of operation. A step inside a job makes something of an option, or nothing: options about
allocations change no step in Slurm either, and what binds CPUs and chooses nodes has no meaning on
one node. The rest is refused. Spellings are read as those of sbatch (`jobfile/slurm/words.py`).

Source: srun(1) of Slurm 25.11.
"""

from __future__ import annotations

from radrm.jobfile.slurm import words as of_slurm
from radrm.jobfile.slurm.options import (
    BY_NAME,
    MAYBE,
    NONE,
    NOTHING,
    OF_PYXIS,
    RELEASE,
    VALUE,
    SbatchOption,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_OF_SBATCH = """
    array wrap requeue no-requeue export-file external batch kill-on-invalid-dep resources
    wait-all-nodes context oom-kill-step wait
"""
"""Those that srun does not have, or has in another form."""
_OWN = {
    VALUE: """
        accel-bind bcast-exclude epilog het-group jobid launch-cmd launcher-opts mpi msg-timeout
        prolog r=relative slurmd-debug task-epilog task-prolog T=threads treewidth W=wait
    """,
    MAYBE: """
        bcast compress external-launcher I=immediate K=kill-on-bad-exit pty send-libs x11
    """,
    NONE: """
        X=disable-status exact l=label multi-prog Z=no-allocate overlap E=preserve-env
        quit-on-interrupt u=unbuffered wait-for-children whole interactive
    """,
}


def _table() -> dict[str, SbatchOption]:
    others = _OF_SBATCH.split()
    names = {name: each for name, each in BY_NAME.items() if each.name not in others}
    for takes, words in _OWN.items():
        for word in words.split():
            short, _, name = word.rpartition("=")
            names[name] = SbatchOption(name, NOTHING, short=short, takes=takes)
    also = {"tasks": "ntasks", "job-id": "jobid", "cpu_bind": "cpu-bind", "mem_bind": "mem-bind"}
    return names | {word: names[name] for word, name in also.items()}


OPTIONS = _table()
"""By all their long names."""
_CONTAINER = "start the container as the command, as: srun apptainer exec IMAGE COMMAND"
_BEFORE = "call it in the script"
REFUSED = {
    "prolog": _BEFORE, "epilog": _BEFORE, "task-prolog": _BEFORE, "task-epilog": _BEFORE,
    "container": _CONTAINER, "container-id": _CONTAINER,
    "uid": "a step runs as the job's user", "gid": "a step runs as the job's user",
    "no-allocate": "only Slurm's administrators have it",
}  # fmt: skip
"""What a step cannot keep, and what to do instead."""

OF_STEPS = frozenset(
    {
        *("label", "unbuffered", "multi-prog", "overlap", "exact", "kill-on-bad-exit", "wait"),
        *("input", "pty", "gpu-bind", "mpi", "het-group", "jobid", "launch-cmd", "relative"),
        *("disable-status", "quit-on-interrupt", "preserve-env", "bcast", "bcast-exclude"),
        *("compress", "send-libs", "whole", "wait-for-children", "accel-bind", "msg-timeout"),
        *("immediate", "slurmd-debug", "threads", "treewidth", "resv-ports", "launcher-opts"),
        *("external-launcher", "x11", "interactive", "tres-bind"),
    }
)
"""What a new job knows nothing of: it belongs to the steps inside."""


def _why_unknown(name: str) -> str:
    if name.startswith(OF_PYXIS):
        return f"of a plugin of Slurm (pyxis); {_CONTAINER}"
    return f"no option of srun in Slurm {RELEASE}; see srun --help"


def read(words: Sequence[str], ours: bool = False) -> tuple[dict[str, str | None], list[str]]:
    """Return the options at the head of a command line by their full names, and the command.

    Of two alike the later one counts. `ours`: options of radrm may stand among them. Raises
    `UsageError`.
    """
    command = of_slurm.Command(OPTIONS, _why_unknown, ours)
    found, left = of_slurm.read(words, of_slurm.COMMAND_LINE, command=command)
    return {each.name: each.value for each in found}, left

"""The options of `srun`: how they are spelled, and what a step makes of them.

Theory of operation. Each option has a value, perhaps one (after `=`), or none. A step inside a job
makes something of it, or nothing: options about allocations change no step in Slurm either, and
what binds CPUs and chooses nodes has no meaning on one node. The rest is refused.

Source: srun(1) of Slurm 25.11.
"""

from __future__ import annotations

from radrm.errors import UsageError
from radrm.jobfile.values import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_VALUE = """
    A=account accel-bind acctg-freq bb bbf b=begin bcast-exclude M=clusters cluster-constraint
    comment C=constraint container container-id S=core-spec cores-per-socket cpu-bind cpu-freq
    cpus-per-gpu c=cpus-per-task deadline delay-boot d=dependency D=chdir m=distribution epilog
    e=error x=exclude export extra B=extra-node-info gpu-bind gpu-freq G=gpus gpus-per-node
    gpus-per-socket gpus-per-task gres gres-flags het-group hint i=input J=job-name jobid
    launch-cmd launcher-opts L=licenses mail-type mail-user mcs-label mem mem-bind mem-per-cpu
    mem-per-gpu mincpus mpi msg-timeout network w=nodelist N=nodes n=ntasks ntasks-per-core
    ntasks-per-gpu ntasks-per-node ntasks-per-socket open-mode o=output p=partition power prefer
    priority profile prolog q=qos r=relative reservation segment signal slurmd-debug
    sockets-per-node switches task-epilog task-prolog thread-spec threads-per-core T=threads t=time
    time-min tmp treewidth tres-bind tres-per-task W=wait wckey nodefile F=nodefile gid uid
"""
_MAYBE = """
    bcast compress exclusive external-launcher I=immediate K=kill-on-bad-exit k=no-kill nice
    propagate pty resv-ports send-libs x11 get-user-env
"""
_NONE = """
    consolidate-segments contiguous X=disable-status exact h=help H=hold l=label multi-prog
    Z=no-allocate O=overcommit s=oversubscribe overlap E=preserve-env Q=quiet quit-on-interrupt
    reboot spread-job spread-segments stepmgr test-only u=unbuffered usage use-min-nodes
    v=verbose V=version wait-for-children whole ignore-pbs parsable interactive
"""
VALUE, MAYBE, NONE = "value", "maybe", "none"


def _table() -> tuple[dict[str, str], dict[str, str]]:
    names, short = {}, {}
    for takes, words in ((VALUE, _VALUE), (MAYBE, _MAYBE), (NONE, _NONE)):
        for word in words.split():
            letter, _, name = word.rpartition("=")
            names[name] = takes
            if letter:
                short[letter] = name
    return names, short


TAKES, SHORT = _table()
_ALSO = {"workdir": "chdir", "share": "oversubscribe", "tasks": "ntasks", "job-id": "jobid",
         "cluster": "clusters", "tasks-per-node": "ntasks-per-node", "cpu_bind": "cpu-bind",
         "mem_bind": "mem-bind"}  # fmt: skip
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


def read(
    words: Sequence[str], ours: Mapping[str, str] | None = None
) -> tuple[dict[str, str | None], list[str]]:
    """Return the options at the head of a command line by their full names, and the command.

    Of two alike the later one counts. `ours`: options of radrm that may stand among them, and
    whether they have a value. Raises `UsageError`.
    """
    takes = {**(ours or {}), **TAKES}
    found: dict[str, str | None] = {}
    left = list(words)
    while left and left[0].startswith("-") and len(left[0]) > 1:
        word = left.pop(0)
        if word == "--":
            break
        value: str | None
        if word.startswith("--"):
            name, equals, text = word[2:].partition("=")
            name, value = name if name in takes else _in_full(name), text if equals else None
        else:
            if word[1] not in SHORT:
                raise UsageError(f"invalid option -- {shown(word[1])}; see srun --help")
            name, value = SHORT[word[1]], word[2:].removeprefix("=") or None
            if takes[name] == NONE and value is not None:  # -lu
                left.insert(0, f"-{value}")
                value = None
        if takes[name] == VALUE and value is None:
            if not left:
                raise UsageError(f"option --{name} needs a value")
            value = left.pop(0)
        if takes[name] == NONE and value is not None:
            raise UsageError(f"option --{name} takes no value")
        found[name] = value
    return found, left


def _in_full(name: str) -> str:
    """The full name of an option, of which the unique beginning may be given."""
    if name in _ALSO:
        return _ALSO[name]
    if name.startswith("container-") and name not in ("container-", "container-i"):
        raise UsageError(f"option {shown('--' + name)} is a plugin's (pyxis); {_CONTAINER}")
    meant = [known for known in TAKES if known.startswith(name)] if name else []
    if len(meant) != 1:
        known = f"may be {', '.join(f'--{each}' for each in meant[:6])}" if meant else "is unknown"
        raise UsageError(f"option {shown('--' + name)} {known}; see srun --help")
    return meant[0]

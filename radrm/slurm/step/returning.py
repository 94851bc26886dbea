"""Give a job back to Slurm that has waited too long on its node."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from typing import TypeVar

from radrm.config import SlurmConfig
from radrm.errors import RadrmError
from radrm.slurm.asking import is_up, run
from radrm.slurm.jobs import nodes_of
from radrm.slurm.outer import SlurmJob, shown
from radrm.slurm.step import attempt

# ------------------------------------------------------------------
# Ask Slurm again: its controller may be restarting, or be away.
#
# A restart resets connections, and a command that waits for an answer then fails (`Connection reset
# by peer`, or `Unexpected message received`, as Slurm 22.05 was seen to say). The texts differ with
# releases and commands, so none is read: whether the controller is up is asked.


T = TypeVar("T")
_PAUSE_S, _PING_S = 1.0, 5.0
_TRIES = 3
"""How often a controller may refuse that is up."""


def patiently(ask: Callable[[], T], patience_s: float, say: Callable[[str], None]) -> T:
    """Return what `ask` returns, which asks Slurm. It is called again while the controller is away,
    for at most `patience_s`, or until a signal is to end this process; and a few times if it is up.

    Raises the last `RadrmError` of `ask`.
    """
    last_s = time.monotonic() + patience_s
    refused, told = 0, False
    while True:
        try:
            return ask()
        except RadrmError as error:
            if time.monotonic() >= last_s:
                raise
            up = is_up(_PING_S)
            refused += up
            if refused >= _TRIES or _is_to_end(_PAUSE_S):
                raise
            if not up and not told:
                told = True
                say(f"Slurm's controller does not answer, waiting: {error}")


def _is_to_end(within_s: float) -> bool:
    last_s = time.monotonic() + within_s
    while (left_s := last_s - time.monotonic()) > 0:
        if attempt.wait(left_s) in attempt.ENDING:
            return True
    return False


_SLURM_S = 5.0
_NONE = ("", "(null)")


def give_back(job: SlurmJob, config: SlurmConfig, why: str) -> None:
    """Have Slurm run the job again, on another node where that can be. `why` is its comment.

    Raises `Refused` if Slurm does not take it back, or not the comment: without the count in it,
    the job could be returned for ever.
    """
    _update(job, f"Comment={why}")
    run("scontrol", "requeue", job.named, timeout_s=_SLURM_S)
    try:
        # Only from now on, and while this run ends, does Slurm let its owner say where not.
        excluded = elsewhere(job.node, shown(job.named, _SLURM_S), _room(job, config), _expanded)
        if excluded:
            _update(job, f"ExcNodeList={','.join(sorted(excluded))}")
    except RadrmError:
        pass  # it may come to the same node again


def _update(job: SlurmJob, words: str) -> None:
    run("scontrol", "update", f"JobId={job.named}", words, timeout_s=_SLURM_S)


def elsewhere(
    node: str,
    found: Mapping[str, str],
    room: Collection[str],
    expanded: Callable[[str], Collection[str]],
) -> set[str]:
    """Return the nodes on which a job may not run any more; empty: nothing is to be changed.

    `found` is what Slurm shows of the job, `room` the nodes that could ever run it. What its user
    has excluded stays so. A job of named nodes stays there, and one that has been on all nodes may
    come to the last one again.
    """
    if found.get("ReqNodeList", "") not in _NONE:
        return set()
    earlier = found.get("ExcNodeList", "")
    excluded = {node, *([] if earlier in _NONE else expanded(earlier))}
    return excluded if set(room) - excluded else set()


def _room(job: SlurmJob, config: SlurmConfig) -> set[str]:
    """The nodes of the partition that are up and have as much `gpumem` as the job asks for."""
    up = "--states=idle,mixed,allocated"
    nodes = nodes_of(job.partition, config.gres, up, timeout_s=_SLURM_S)
    return {name for name, has_mib in nodes if has_mib >= (job.gpumem_mib or 0)}


def _expanded(nodes: str) -> list[str]:
    """The names in a list of nodes, as `g[1-3]`."""
    return run("scontrol", "show", "hostnames", nodes, timeout_s=_SLURM_S).split()

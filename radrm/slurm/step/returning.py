"""What becomes of a job that cannot run on its node: whose fault that is decides.

    Whose     as                              goes back       when no other node is left
    JOB       its file cannot be read         no: it fails    -
    PLACE     its GPUs are larger than these  yes             it fails
    NODE      no daemon answers here          yes             yes; Slurm may choose this one again
    WAIT      no GPU was free for so long     three times     yes; the same

Slurm does not choose a node again that a job has left, so a job that is at fault everywhere ends
with the last node. A job that has begun to run never goes back.
"""

from __future__ import annotations

import time
from enum import Enum

from radrm.errors import BadConfig, BadFile, RadrmError, StoreError, Unreachable, UsageError
from radrm.errors import one_line as in_one_line
from radrm.slurm.asking import is_up, run
from radrm.slurm.comment import MOST_RETURNS
from radrm.slurm.outer import SlurmJob, count_in, shown
from radrm.slurm.step import attempt

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from typing import TypeVar

    T = TypeVar("T")

# ------------------------------------------------------------------
# Whose fault it is.


class Whose(str, Enum):
    """Whose fault it is that a job cannot run here."""

    JOB = "job"
    PLACE = "place"
    NODE = "node"
    WAIT = "wait"


class Fault(RadrmError):
    """A job cannot run on its node. `returned`: how often it has waited on another one before."""

    def __init__(self, whose: Whose, why: str, returned: int = 0) -> None:
        super().__init__(why)
        self.whose, self.returned = whose, returned


def fault_of(error: Exception) -> Fault:
    """Return whose fault an error of a step is that has run nothing. One that nobody has thought of
    may be the job's or the node's: elsewhere is tried, while there is an elsewhere."""
    if isinstance(error, Fault):
        return error
    if isinstance(error, (BadFile, UsageError)):
        return Fault(Whose.JOB, str(error))
    if isinstance(error, (BadConfig, StoreError, Unreachable, OSError)):
        return Fault(Whose.NODE, str(error))
    return Fault(Whose.PLACE, str(error) if isinstance(error, RadrmError) else in_one_line(error))


def why_it_fails(fault: Fault, may_run_again: bool, others: Collection[str]) -> str | None:
    """Return why a job fails here; None: it goes back to Slurm. `may_run_again`: Slurm may.
    `others`: the other nodes on which it may still run."""
    if fault.whose is Whose.JOB:
        return ""
    if not may_run_again:
        return "it has --no-requeue, so it fails and does not go to another node"
    if fault.whose is Whose.PLACE and not others:
        return "no other node is left for it"
    if fault.whose is Whose.WAIT and fault.returned >= MOST_RETURNS:
        return f"it was returned to Slurm {fault.returned} times already, and fails"
    return None


# ------------------------------------------------------------------
# Ask Slurm again: its controller may be restarting, or be away.
#
# A restart resets connections, and a command that waits for an answer then fails (`Connection reset
# by peer`, or `Unexpected message received`, as Slurm 22.05 was seen to say). The texts differ with
# releases and commands, so none is read: whether the controller is up is asked.


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
_PATIENCE_S = 1800.0
"""How long a job that is to go back waits for a controller that is away."""
_LAST_WORD_S = 25.0
"""How long a step that has gone back to Slurm waits for its TERM."""
_NONE = ("", "(null)")


def give_back(job: SlurmJob, gres: str, fault: Fault, say: Callable[[str], None]) -> None:
    """Have Slurm run the job again, on another node where that can be. Returns once this run is to
    end. Raises `Fault` for a job that fails here, and `Refused` if Slurm does not take it back."""
    if fault.whose is Whose.JOB:
        raise fault
    on_node = f"on node {job.node}: {fault}"
    found = patiently(lambda: shown(job.named, _SLURM_S), _PATIENCE_S, say)
    excluded, others = elsewhere(job.node, found, lambda: _room(job, found, gres), _expanded)
    failing = why_it_fails(fault, found.get("Requeue") != "0", others)
    if failing is not None:
        raise Fault(Whose.JOB, f"{on_node}; {failing}")
    say(f"{on_node}; the job goes back to Slurm, which waits (cred_expire) and takes another node")
    patiently(lambda: run("scontrol", "requeue", job.named, timeout_s=_SLURM_S), _PATIENCE_S, say)
    # Only from now on, and while this run ends, does Slurm let its owner say where not.
    words = [f"ExcNodeList={','.join(sorted(excluded))}"] if others and excluded else []
    if is_free(found):
        words.append(f"Comment=radrm: returned {on_node}")
    if words:
        try:
            run("scontrol", "update", f"JobId={job.named}", *words, timeout_s=_SLURM_S)
        except RadrmError as error:
            say(f"Slurm does not take what this job may not use: {error}")
    while attempt.wait(_LAST_WORD_S) not in (*attempt.ENDING, None):
        pass


def elsewhere(
    node: str,
    found: Mapping[str, str],
    room: Callable[[], Collection[str]],
    expanded: Callable[[str], Collection[str]],
) -> tuple[set[str], set[str]]:
    """Return the nodes on which a job may not run any more, and the others that could run it.

    `found` is what Slurm shows of the job, `room` the nodes that could ever run it. What its user
    has excluded stays so. A job of named nodes has no others. Where Slurm does not say, nothing is
    excluded, and there may be another.
    """
    if found.get("ReqNodeList", "") not in _NONE:
        return set(), set()
    earlier = found.get("ExcNodeList", "")
    try:
        excluded = {node, *([] if earlier in _NONE else expanded(earlier))}
        return excluded, set(room()) - excluded
    except RadrmError:
        return set(), {node}


def is_free(found: Mapping[str, str]) -> bool:
    """Return whether nobody but radrm has written the Comment of a job. Sites bill by it."""
    text = found.get("Comment", "").strip()
    return text in _NONE or text.startswith("radrm:")


def _room(job: SlurmJob, found: Mapping[str, str], gres: str) -> set[str]:
    """The nodes of the partition that are up and have as much `gpumem` as the job asks for."""
    from radrm.slurm.jobs import nodes_of  # late: few jobs go back

    up = "--states=idle,mixed,allocated"
    nodes = nodes_of(job.partition, gres, up, timeout_s=_SLURM_S)
    asked_mib = count_in(found.get("TresPerNode", ""), gres) or 0
    return {name for name, has_mib in nodes if has_mib >= asked_mib}


def _expanded(nodes: str) -> list[str]:
    """The names in a list of nodes, as `g[1-3]`."""
    return run("scontrol", "show", "hostnames", nodes, timeout_s=_SLURM_S).split()

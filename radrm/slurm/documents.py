"""The JSON documents of Slurm's commands, declared as `radrm.documents` says."""

from __future__ import annotations

from radrm.documents.base import Document


class ClusterJob(Document):
    """A job of the Slurm partition that has not ended, as Slurm and its step say."""

    id: str
    """Slurm's number; elements of an array as 12_3."""
    name: str
    """Its name."""
    user: str
    """Who submitted it."""
    state: str
    """Slurm's state; WAITING: it is on its node, and waits for its GPU."""
    node: str | None
    """Its node."""
    gpumem_mib: int | None
    """GPU memory that it asks for, on all its GPUs."""
    time: str
    """Since its start, as squeue prints it."""
    time_limit: str
    """Its limit, as squeue prints it."""
    reason: str | None
    """Why it waits."""


class ClusterReport(Document):
    """What the jobs of a partition have used."""

    since: float
    """The begin of the time."""
    until: float
    """Its end."""
    source: str
    """Sacct, or the completion log."""
    by: str
    """User, account, node or day."""
    rows: tuple[ClusterUse, ...]
    """The most GPU time first; days in their order."""


class ClusterUse(Document):
    """What one user or account has used, on one node, or on one day."""

    name: str
    """The user, account, node or day."""
    runs: int
    """Runs that ended in that time; a requeued job has several."""
    completed: int
    """Those with exit code 0."""
    elapsed_s: float
    """Their time in Slurm, with their wait on the node."""
    gpumem_gib_h: float | None
    """GPU memory asked for, times hours, in GiB."""
    measured: int
    """The runs whose comment says what they used."""
    gpu_s: float | None
    """GPU time."""
    smact: float | None
    """Mean SM activity, 0 to 1."""
    peak_mib: int | None
    """The largest peak of one run."""
    energy_j: float | None
    """Energy of their GPUs."""


class Pilots(Document):
    """What `radrm pilot --list` shows; with --all, what has ended, too."""

    pilots: tuple[Pilot, ...]
    """Pilots, by the number of their Slurm job."""
    jobs: tuple[PilotJob, ...]
    """Jobs submitted with --pilot, oldest first."""


class Pilot(Document):
    """A daemon of one's own in a job of Slurm."""

    pilot: str
    """The number of its Slurm job."""
    state: str
    """Slurm's state; ENDED; UNKNOWN while Slurm does not answer."""
    node: str | None
    """Slurm's name of its node."""
    gpus: int | None
    """Its GPUs."""
    until: float | None
    """Until when jobs may run there."""
    home: str | None
    """The folder of its daemon, on that node (RADRM_HOME)."""


class PilotJob(Document):
    """A job that was submitted with --pilot."""

    ticket: str
    """The name that submit printed."""
    name: str
    """Its name; - while it is unknown."""
    state: str
    """WAITING for a pilot; CLAIMED by one; LOST with one; else its state there (STATE)."""
    pilot: str | None
    """The Slurm job of its pilot."""
    label: str | None
    """Its number there; 12_3 for an element of an array."""
    started_at: float | None
    """When its first attempt there started."""
    ended_at: float | None
    """When it ended."""
    exit_code: int | None
    """Of the last attempt; 128+n for signal n."""
    reason: str | None
    """Why it waits, or why it ended."""


ANSWERS = {
    "status --cluster": tuple[ClusterJob, ...],
    "explain --cluster": dict[str, str],
    "report --cluster": ClusterReport,
    "pilot": Pilots,
}
"""What each command answers with `--json`."""

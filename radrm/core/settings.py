"""The numbers of the core that a site may change, with their units and why they are so."""

from __future__ import annotations

from dataclasses import dataclass

from radrm.core.words import Collocation


@dataclass(frozen=True, slots=True)
class CoreSettings:
    """Settings of the table `[core]` of the configuration file."""

    smact_window_s: float = 90.0
    """SM activity is a mean over at most this long (RAD-RM thesis, section 6.2.1)."""
    smact_warm_s: float = 60.0
    """So long after a job has come, the mean of its device is trusted again: a training job
    starts up for 30 to 60 s, and what is read meanwhile tells nothing of it..."""
    smact_after_exit_s: float = 10.0
    """...and so long after one has gone: the others go on as they did."""
    use_coarse_smact: bool = False
    """Take "share of time with any kernel running" for SMACT where nothing better is read."""
    stale_after_s: float = 5.0
    """A device whose last reading is older takes no new job."""
    out_of_service_s: float = 60.0
    """A device that cannot be read, is faulty or is left to unmanaged processes for so long is
    out of service: a job that needs it stands aside until it is back, and others pass. So does a
    job that wants an idle device, where unmanaged processes have used one for so long."""
    gone_after_s: float = 600.0
    """Once no device here could ever run a waiting job for so long, the job fails: a MIG
    instance was cut away for good, or a GPU is missing since the daemon's start. A GPU that
    vanishes later may come back, and its jobs stand aside."""
    settle_s: float = 120.0
    """A job is settled when its memory has not grown for so long..."""
    settle_growth_mib: int = 64
    """...by more than this. Longer than the start-up of a training job (30 to 60 s)."""
    headroom_mib: int = 1024
    """A settled job's promise is its peak plus this."""
    stretch: float = 3.0
    """Until it has settled, an MPS client whose need is estimated, not declared, is promised up
    to so many times that (or the policy's `floor_mib`, if that is more), into half of what is
    free beyond it at most: its cap does not kill it for a poor estimate. 1: the estimate."""
    idle_unmanaged_mib: int = 256
    """A device counts as idle in spite of this much unmanaged memory (a desktop, a monitor)."""
    mps_cohort_s: float = 1800.0
    """An MPS server has one user at a time. Once jobs of one have been on a GPU for so long
    without a gap, no further one of theirs joins them there while others wait for a GPU."""
    mps_timeslice_others: bool = False
    """Let jobs that cannot be clients of a GPU's MPS server (those of other users, and those on
    several GPUs) join its clients there all the same, time-sliced and without a memory cap."""
    yield_to_unmanaged: bool = False
    """Give no new job to a device while processes that radrm did not start use more than
    `idle_unmanaged_mib` of it. Otherwise what they use is only counted."""
    unused_report_s: float = 600.0
    """A job that has had a device for so long and used no memory of it is reported."""
    unused_reclaim_s: float = 0.0
    """...and for so long is cancelled; 0: never."""
    grace_s: float = 30.0
    """From TERM to KILL."""
    gpuless_at_once: int = 16
    """So many jobs that need no GPU run at a time. The daemon's own default: as many as the
    server has CPUs."""
    launch_retry_s: float = 5.0
    """Until jobs are started again on a server that could not (its disk was full, say); doubles
    with each try that fails, up to a minute."""
    retry_s: float = 10.0
    """Before the first retry of a job (`--retries`); doubles with each further one. So do the
    pauses of a job that is lost again and again at once, and of a rule that fails..."""
    retry_most_s: float = 600.0
    """...up to this."""
    whole_devices: bool = False
    """Every job wants idle devices; `wiring` sets it with a policy that gives only those."""
    overcommit: bool = False
    """Let a policy place a job where its need does not fit. Only for policies of the
    literature that look at no memory (round-robin); `wiring` sets it with such a policy."""
    collocation: Collocation = Collocation.AUTO
    """How jobs that do not say share a device: AUTO is MPS where enabled, else time-slices."""

"""The settings of the core, with their units and meanings."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf

from radrm.core.words import Collocation


@dataclass(frozen=True, slots=True)
class CoreSettings:
    """The settings of the table `[core]` of the configuration file."""

    smact_window_s: float = 90.0
    """SM activity is a mean over at most this time (RAD-RM thesis, section 6.2.1)."""
    smact_warm_s: float = 60.0
    """Delay after a job starts before a device's mean is used again."""
    smact_after_exit_s: float = 10.0
    """The same delay after a job leaves."""
    stale_after_s: float = 5.0
    """A device whose last reading is older takes no new job."""
    out_of_service_s: float = 60.0
    """A device that is unreadable, faulty or left to unmanaged processes for this long is out of
    service."""
    gone_after_s: float = 600.0
    """A waiting job fails after this time if no device can ever run it."""
    settle_s: float = 120.0
    """A job is settled if its memory grew by at most `settle_growth_mib` for this long."""
    settle_growth_mib: int = 64
    """See `settle_s`."""
    headroom_mib: int = 1024
    """A settled job reserves its peak plus this."""
    stretch: float = 3.0
    """Until it is settled, an MPS client with an estimated need reserves up to this multiple of it
    (or `floor_mib`). 1: none."""
    idle_unmanaged_mib: int = 256
    """A device with at most this much unmanaged memory counts as idle."""
    mps_cohort_s: float = 1800.0
    """After this time without a gap, no more jobs of an MPS server's user join while other users
    wait."""
    yield_to_unmanaged: bool = False
    """A device takes no new job while unmanaged processes use more than `idle_unmanaged_mib` of
    it."""
    unused_report_s: float = 600.0
    """Report a job that has had a device for this long without using its memory."""
    unused_reclaim_s: float = 0.0
    """Cancel such a job after this time; 0: never."""
    grace_s: float = 30.0
    """Time from TERM to KILL."""
    unkillable_s: float = 300.0
    """Time from the first KILL until radrm gives up a job whose processes do not end."""
    action_limit_s: float = 300.0
    """Time for a launch or a change of caps. Then a launch is lost, and a change has failed."""
    resize_limit_s: float = 600.0
    """Time for a resize, in which new tasks start beside the old ones. Then it is withdrawn; if the
    job does not answer that either, it is stopped and goes on from its saved work."""
    checkpoint_limit_s: float = 300.0
    """`checkpoint.patience_s`; at least three times its cost, if the job states that."""
    estimate_limit_s: float = 3600.0
    """Time for the estimators of a job."""
    think_s: float = 60.0
    """Limit for one plan of a slow planner."""
    gpuless_at_once: int = 16
    """Limit of running jobs without GPUs. A user who runs none may start one beyond it; with 0 none
    runs. Simulations have 16."""
    launch_retry_s: float = 5.0
    """Pause after the server could not start a job; doubles up to a minute."""
    retry_s: float = 10.0
    """Pause before a job's first retry (`--retries`); doubles up to `retry_most_s`."""
    retry_most_s: float = 600.0
    """The longest of these pauses."""
    passing_retries: int = 2
    """A job runs again by itself this often after failures that lie with a GPU's MPS server or
    driver. They do not count as its `--retries`."""
    use_half_life_s: float = 604_800.0
    """GPU time that a user has had this long ago counts half (`radrm limits`, order `fair`)."""
    whole_devices: bool = False
    """Every job gets idle devices. `wiring` sets this for such a policy."""
    overcommit: bool = False
    """Let a policy place a job where its need does not fit. `wiring` sets this for published
    policies that ignore memory (round-robin)."""
    honours_slowdown: bool = False
    """The policy keeps to a job's `--max-slowdown`; else such a job gets idle devices. `wiring`
    sets this."""
    clients_alone: bool = False
    """A GPU with MPS clients takes no other process. `wiring` sets this from
    `mps.set_compute_mode`."""
    gpu_order: tuple[str, ...] = ()
    """GPUs that jobs use rather than others, best first. `wiring` sets this from `[gpus]`."""
    reservation_unused_s: float = 1800.0
    """A reservation that a user has made for itself ends if none of its jobs runs there or waits
    for so long; 0: never."""
    user_running_jobs: int = 0
    """The most jobs that a user may run at a time; 0: any number. `wiring` sets these four from
    `[limits]`."""
    user_gpus: int = 0
    """The most GPUs that the running jobs of a user may have together; 0: any number."""
    user_reserved_gpu_hours: float = 0.0
    """The most GPU-hours that a user may have reserved for itself at a time; 0: none."""
    exempt_users: tuple[int, ...] = ()
    """The users (uids) without limits."""
    collocation: Collocation = Collocation.AUTO
    """How jobs share a device if they do not say. AUTO is MPS where it is enabled, else time-
    slicing."""

    def most_gpus(self, uid: int) -> float:
        """Return how many GPUs a user may have at a time; infinity: any number."""
        return inf if uid in self.exempt_users or not self.user_gpus else self.user_gpus

    def with_real_limits(self, scale: float) -> CoreSettings:
        """Return the settings for a clock that runs `scale` times as fast.

        Plans, launches and kills take real time, so their limits are longer on that clock.
        """
        return replace(
            self,
            think_s=self.think_s * scale,
            unkillable_s=self.unkillable_s * scale,
            action_limit_s=self.action_limit_s * scale,
            resize_limit_s=self.resize_limit_s * scale,
            checkpoint_limit_s=self.checkpoint_limit_s * scale,
            estimate_limit_s=self.estimate_limit_s * scale,
        )

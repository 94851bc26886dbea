"""The values that the core takes, with their units and meanings.

A site sets those of `[core]`. All others are `fixed`: they are constants, which tests vary, or
follow from other tables.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import Field, dataclass, field, fields, is_dataclass, replace
from math import inf
from typing import Any

from radrm.core.words import Collocation

_FIXED = "fixed"


def fixed(default: Any, **more: Any) -> Any:
    """Return a field that no configuration file sets: tests and benchmarks vary it."""
    return field(default=default, metadata={_FIXED: True}, **more)


def settings_of(owner: Callable[..., Any]) -> dict[str, Field[Any]]:
    """Return the fields of a dataclass that are not fixed, by name."""
    found = fields(owner) if is_dataclass(owner) else ()
    return {each.name: each for each in found if each.init and not each.metadata.get(_FIXED)}


@dataclass(frozen=True, slots=True)
class CoreSettings:
    """The settings of the table `[core]` of the configuration file, and fixed values."""

    grace_s: float = 30.0
    """Time from TERM to KILL.

    A site whose jobs take longer to save and leave."""
    settle_s: float = 120.0
    """A job's memory is settled if it grew by at most 64 MiB for this long. Then the job reserves
    its peak and 1 GiB.

    A site whose jobs grow late, as in their first validation."""
    stretch: float = 3.0
    """Until it is settled, an MPS client with an estimated need reserves up to this multiple of it
    (or `floor_mib`). 1: none.

    A site that trusts its estimates, or that repeats the thesis, where an estimate is the cap."""
    smact_warm_s: float = 60.0
    """Delay after a job starts before a device's mean SM activity is used again.

    A site whose jobs load data for longer before they compute."""
    idle_unmanaged_mib: int = 256
    """A device with at most this much unmanaged memory counts as idle.

    A site with a desktop or a service on its GPUs, which holds more all the time."""
    gpuless_at_once: int = 16
    """Limit of running jobs without GPUs. A user who runs none may start one beyond it; with 0 none
    runs. Simulations have 16.

    A site that wants its CPUs for other work, or has light jobs only."""
    use_half_life_s: float = 604_800.0
    """GPU time that a user has had this long ago counts half (`radrm limits`, order `fair`).

    A site that agreed with its users how long past use counts."""
    reservation_unused_s: float = 1800.0
    """A reservation that a user has made for itself ends if none of its jobs runs there or waits
    for so long; 0: never.

    A site that lets users reserve (`limits.reserved_gpu_hours`) for work by hand."""

    # ------------------------------------------------------- constants

    smact_window_s: float = fixed(90.0)
    """SM activity is a mean over at most this time (RAD-RM thesis, section 6.2.1)."""
    smact_after_exit_s: float = fixed(10.0)
    """The delay of `smact_warm_s` after a job leaves: a process stops computing at once, but the
    sources of readings average over seconds."""
    headroom_mib: int = fixed(1024)
    """A settled job reserves its peak plus this: what CUDA's libraries still load later."""
    mps_cohort_s: float = fixed(1800.0)
    """After this time without a gap, no more jobs of an MPS server's user join while other users
    wait. It bounds their wait, and is long beside the start of a server."""
    settle_steps: int = fixed(10)
    """A job that has done so many optimizer steps has settled if its memory does not grow for
    `settle_steps_s` after that: the first steps of a training reach nearly all that it needs."""
    settle_steps_s: float = fixed(3.0)
    """Some readings after these steps."""
    idle_trial_s: float = fixed(300.0)
    """A trial ends if the job has used no more than a context for so long; else `settle_s` after
    it began to."""
    action_limit_s: float = fixed(300.0)
    """Time for a launch or a change of caps. Then a launch is lost, and a change has failed. A slow
    file server may hold up a launch for minutes."""
    unkillable_s: float = fixed(300.0)
    """Time from the first KILL until radrm gives up a job whose processes do not end: a driver
    that writes a core dump of a GPU needs minutes."""
    resize_limit_s: float = fixed(600.0)
    """Time for a resize, in which new tasks start beside the old ones. Then it is withdrawn; if the
    job does not answer that either, it is stopped and goes on from its saved work."""
    think_s: float = fixed(60.0)
    """Limit for one plan of a slow planner: the queue waits for it meanwhile."""
    retry_s: float = fixed(10.0)
    """Pause before a job's first retry (`--retries`); doubles up to `retry_most_s`."""
    retry_most_s: float = fixed(600.0)
    """The longest of these pauses."""
    passing_retries: int = fixed(2)
    """A job runs again by itself this often after failures that lie with a GPU's MPS server or
    driver. They do not count as its `--retries`. A fault that lasts shows in two."""

    # ------------------------------------------------------- what follows from other tables

    stale_after_s: float = fixed(5.0)
    """A device whose last reading is older takes no new job. `wiring` makes it five rounds of
    readings at least."""
    yield_to_unmanaged: bool = fixed(False)
    """A device takes no new job while unmanaged processes use more than `idle_unmanaged_mib` of
    it: `unmanaged.action = "drain"`."""
    stops_misplaced: bool = fixed(False)
    """Jobs that use a GPU which they were not given are cancelled: `gpus.misplaced = "cancel"`."""
    estimate_limit_s: float = fixed(600.0)
    """Time for the estimators of a job. They have limits of their own; this one is for a process
    that never answers. `wiring` makes it ten times `estimation.trace_limit_s`: a job waits at most
    five times that for other traces of its user."""
    checkpoint_limit_s: float = fixed(300.0)
    """`checkpoint.patience_s`; at least three times its cost, if the job states that."""
    whole_devices: bool = fixed(False)
    """Every job gets idle devices. `wiring` sets this for such a policy."""
    overcommit: bool = fixed(False)
    """Let a policy place a job where its need does not fit. `wiring` sets this for published
    policies that ignore memory (round-robin)."""
    honours_slowdown: bool = fixed(False)
    """The policy keeps to a job's `--max-slowdown`; else such a job gets idle devices. `wiring`
    sets this."""
    trial_floor_mib: int | None = fixed(None)
    """A job of unknown need has all free memory of its GPU until it has settled (its *trial*);
    if it does not settle in time, it keeps at least this. Growth beyond a reservation enlarges
    that. None: neither. `wiring` sets this for policies with `trials`: to their `floor_mib`."""
    gpu_order: tuple[str, ...] = fixed(())
    """GPUs that jobs use rather than others, best first. `wiring` sets this from `[gpus]`."""
    user_running_jobs: int = fixed(0)
    """The most jobs that a user may run at a time; 0: any number. `wiring` sets these four from
    `[limits]`."""
    user_gpus: int = fixed(0)
    """The most GPUs that the running jobs of a user may have together; 0: any number."""
    user_reserved_gpu_hours: float = fixed(0.0)
    """The most GPU-hours that a user may have reserved for itself at a time; 0: none."""
    exempt_users: tuple[int, ...] = fixed(())
    """The users (uids) without limits."""
    collocation: Collocation = fixed(Collocation.AUTO)
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

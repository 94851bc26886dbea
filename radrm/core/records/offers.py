"""One device as one job would find it, and the jobs that are on it."""

from __future__ import annotations

from dataclasses import dataclass

from radrm.core.records.attempts import Attempt
from radrm.core.records.devices import Device
from radrm.core.records.jobs import Job
from radrm.core.records.placement import Refusal
from radrm.core.words import Collocation


@dataclass(frozen=True, slots=True)
class Holder:
    """A live job on a device. `since_s`: the boot time at which it came there.

    `alone_smact` is the mean SM activity (0..1) of the readings while it was alone there; None:
    it never was, or they do not show it yet. It is too low for an attempt that is `slowed`.
    `device`: where it is; None: a prediction is not scaled to it.
    """

    job: Job
    attempt: Attempt
    since_s: float
    settled: bool
    alone_smact: float | None
    device: Device | None = None

    @property
    def smact(self) -> float | None:
        """The SM activity that it would show alone: as measured, else as predicted."""
        if self.alone_smact is not None and not self.attempt.slowed:
            return self.alone_smact
        return self.job.smact_in(self.attempt.placement.collocation, self.device)


@dataclass(frozen=True, slots=True)
class Offer:
    """One device as one job would find it, until its time limit.

    `refusal` is why the core refuses the device; a policy can skip such an offer. `smact` is
    the SM activity, 0..1; if it is None, `smact_refusal` says why. `coarse`: it is only estimated
    from utilization. `warm`, if it is None: waiting brings no figure, since none is read, or its
    source has failed. `occupants` are job ids; `holders` has these jobs. `loss`: what sharing in
    this mode costs on such devices, as learned here (`radrm.interference.model`); None: not known.
    """

    device: Device
    mode: Collocation
    idle: bool
    free_mib: int | None
    smact: float | None
    smact_refusal: str | None
    occupants: tuple[int, ...]
    refusal: Refusal | None
    holders: tuple[Holder, ...] = ()
    coarse: bool = False
    warm: bool = False
    loss: float | None = None

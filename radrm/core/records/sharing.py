"""What times in which jobs share a device show, and what was learned from them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sharer:
    """A job in a shared period: the SM activity (0..1) that it shows alone, None if unknown.

    `measured`: it was read, not predicted. `speed`: its steps per second in the period as a part
    of those alone on the same device; None: it was never alone there, or reports no steps.
    """

    smact: float | None
    measured: bool = False
    speed: float | None = None


@dataclass(frozen=True, slots=True)
class SharedPeriod:
    """A time in which the same jobs were at work on a device, each on this device only.

    `kind`: the device's name. `mps`: all are clients of MPS. `smact`: the device's mean SM activity
    (0..1); None: not read.
    """

    kind: str
    mps: bool
    seconds: float
    jobs: tuple[Sharer, ...]
    smact: float | None = None


@dataclass(frozen=True, slots=True)
class LearnedLoss:
    """What sharing costs on a kind of device in a mode, as its shared periods show.

    `loss`: see `radrm.interference.model`. `periods`: their number.
    """

    kind: str
    mps: bool
    loss: float
    periods: int

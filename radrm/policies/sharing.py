"""The sharing policies of the literature: the same conditions, each with its own preference.

`Sharing` has the conditions. A published policy is a row at the end of this file: its name, its
preference among the devices that meet the conditions, and the conditions that it has otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

from radrm.core.records import Refusal
from radrm.core.rules import Ask
from radrm.core.units import show_mib
from radrm.core.view import Offer
from radrm.core.words import Collocation

Choice: TypeAlias = tuple[Sequence[Offer], Any]
"""The chosen offers, and what the policy keeps."""
Preference: TypeAlias = Callable[[Sequence[Offer], int, Any], Choice]
"""Chooses so many of the eligible devices, given what the policy has kept."""


@dataclass(frozen=True, slots=True)
class Sharing:
    """A busy device must have free memory and SM activity within limits.

    On an idle device the need only has to fit, which the core checks.

    RAD-RM thesis, section 6.2.2: 5 GiB (the smallest MIG slice) and at most 80 %. The margin of
    2 GiB is the oracle's (6.3.3), for the fragmentation of a GPU's memory; that it is added to
    estimates is ours. So is the limit for time-slicing: such a GPU never shows its full demand, and
    with 80 % sharing costs more there than it gains (docs/lab/reproduction.md).

    Raises ValueError for an SM activity outside 0..1.
    """

    min_free_mib: int = 5120
    """A busy device must have this much free memory, and at least need + `margin_mib`. An idle
    device only needs room for the job. `first-fit` and `best-fit`: 0.

    A site with small GPUs: 5 GiB are much of 16."""
    margin_mib: int = 2048
    """The margin for fragmentation; see `min_free_mib`.

    A site whose jobs leave fragments, or none."""
    max_smact: float = 0.80
    """A busy device above this SM activity is refused.

    A site that wants fewer or more jobs on a GPU, or repeats the thesis, which varies it."""
    timeslice_max_smact: float = 0.50
    """The same limit on a device where jobs would be time-sliced.

    A site without MPS; to repeat the thesis: 0.8."""
    floor_mib: int = 5120
    """A job of unknown need reserves this much, and needs this much free memory.

    A site with small GPUs, or with jobs that are usually larger."""
    conditions: bool = True
    """`false`: memory and SM activity refuse no device (thesis, Table 6.3). `rr`: false.

    Who repeats the thesis, which compares all policies with and without them."""
    whole_device: bool = False
    name: str = "sharing"
    version: int = 1
    steady_refusals: ClassVar[frozenset[str]] = frozenset({"memory"})
    table: ClassVar[str] = "sharing"
    """The table of the settings of all these policies."""
    prefer: ClassVar[Preference]
    adds_margin: ClassVar[bool] = False
    """An unknown need is `floor_mib` and the margin, as a known one is; else `floor_mib` alone."""

    def __post_init__(self) -> None:
        for name in ("max_smact", "timeslice_max_smact"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} = {getattr(self, name)} is not a fraction from 0 to 1")

    @property
    def overcommits(self) -> bool:
        """Return whether a job may be placed where its need does not fit."""
        return not self.conditions

    def wanted_mib(self, ask: Ask) -> int:
        """Return the free memory that a busy device must have."""
        if ask.need_mib is not None:
            return max(self.min_free_mib, ask.need_mib + ask.margin_mib(self.margin_mib))
        return max(self.min_free_mib, self.floor_mib + self.margin_mib * self.adds_margin)

    def refuse(self, ask: Ask, offer: Offer) -> Refusal | None:
        if offer.idle or not self.conditions:
            return None
        return self._refuse_memory(ask, offer) or self._refuse_smact(offer)

    def _refuse_memory(self, ask: Ask, offer: Offer) -> Refusal | None:
        uuid, free, wanted = offer.device.uuid, offer.free_mib, self.wanted_mib(ask)
        if free is None:
            return Refusal("memory", "its free memory is unknown", uuid, wanted)
        if free < wanted:
            why = f"needs {show_mib(wanted)} (margin included), {show_mib(free)} free"
            return Refusal("memory", why, uuid, wanted, free)
        return None

    def _refuse_smact(self, offer: Offer) -> Refusal | None:
        uuid, smact, most = offer.device.uuid, offer.smact, self.max_smact
        if offer.mode is Collocation.TIMESLICE:
            most = min(most, self.timeslice_max_smact)
        if smact is None:
            return Refusal("smact", offer.smact_refusal or "its SM activity is unknown", uuid, most)
        if smact > most:
            why = f"needs SM activity of at most {most:.2f}, it is {smact:.2f}"
            return Refusal("smact", why, uuid, most, smact)
        return None

    def choose(self, ask: Ask, eligible: Sequence[Offer], state: Any) -> Choice:
        return type(self).prefer(eligible, ask.gpus, state)


# ------------------------------------------------------------------ preferences


def _least(merit: Callable[[Offer], Any]) -> Preference:
    """Return the preference for the devices of the least merit. Ties go by index."""

    def prefer(eligible: Sequence[Offer], gpus: int, state: Any) -> Choice:
        return sorted(eligible, key=lambda o: (merit(o), o.device.index))[:gpus], state

    return prefer


def _in_turn(eligible: Sequence[Offer], gpus: int, state: Any) -> Choice:
    """Choose the next devices in a fixed cycle.

    The state is the device that was chosen last, not a position: so the cycle continues after a
    restart, and a device that vanishes or returns moves no other turn.
    """
    last = None if state is None else tuple(state)
    cycle = sorted(eligible, key=_place)
    after = [offer for offer in cycle if last is None or _place(offer) > last]
    chosen = (after + cycle[: len(cycle) - len(after)])[:gpus]
    return chosen, list(_place(chosen[-1])) if chosen else state


def _place(offer: Offer) -> tuple[str, int, str]:
    """Return a device's place in the cycle."""
    return offer.device.node, offer.device.index, offer.device.uuid


# ------------------------------------------------------------------ the published policies


def _published(name: str, prefer: Preference, **other: Any) -> type[Sharing]:
    """Return the policy of this name: `Sharing` with a preference, and with `other` defaults."""
    kinds = Sharing.__annotations__
    defaults = {"name": name, **other}
    body = {
        "__module__": __name__,
        "__annotations__": {key: kinds[key] for key in defaults if "ClassVar" not in kinds[key]},
        "prefer": staticmethod(prefer),
        **defaults,
    }
    return dataclass(frozen=True)(type(f"Sharing[{name}]", (Sharing,), body))


# Most Available GPU Memory, RAD-RM's *MAGM*: argmax of free memory.
#
# Thesis, section 6.2.2; with known needs it is the oracle's worst fit (section 6.3.3).
Magm = _published(
    "magm",
    _least(lambda o: -(o.free_mib or 0)),
)
# Least Utilized GPU, RAD-RM's *LUG*: argmin of SMACT.
#
# Thesis, section 6.2.2; with known needs it is the oracle's OLUG (section 6.3.3). An idle device
# without a measurement counts as 0, since no job is on it. A busy device of unknown activity
# (eligible only without conditions) comes last.
Lug = _published(
    "lug",
    _least(lambda o: (o.smact is None and not o.idle, o.smact or 0.0)),
)
# Most Utilized GPU, RAD-RM's *MUG*: argmax of SMACT, idle devices last.
#
# Thesis, section 6.2.2 and Figure 6.4. A busy device of unknown activity (eligible only without
# conditions) comes after the measured ones and before the idle ones.
Mug = _published(
    "mug",
    _least(lambda o: (o.idle, o.smact is None, -(o.smact or 0.0))),
)
# Round-robin, RAD-RM's *RR*: the next eligible devices in a fixed cycle, by index.
#
# Thesis, section 6.2.2. As published neither memory nor SM activity counts.
RoundRobin = _published(
    "rr",
    _in_turn,
    conditions=False,
)
# RAD-RM's *Oracle First Fit*: the first device, by index, of those that fit.
#
# Thesis, section 6.3.3: free >= need + 2 GiB and SMACT below 80 % (here: at most).
FirstFit = _published(
    "first-fit",
    _least(lambda o: 0),
    min_free_mib=0,
    adds_margin=True,
)
# RAD-RM's *Oracle Best Fit*: argmin of free memory over the devices that fit.
#
# Thesis, section 6.3.3: free >= need + 2 GiB and SMACT below 80 % (here: at most). A device whose
# free memory is unknown (eligible only without conditions) comes last.
BestFit = _published(
    "best-fit",
    _least(lambda o: (o.free_mib is None, o.free_mib or 0)),
    min_free_mib=0,
    adds_margin=True,
)

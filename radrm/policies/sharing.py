"""The condition that the sharing policies of the literature have in common."""

from __future__ import annotations

from radrm.core.records import Refusal
from radrm.core.rules import Ask
from radrm.core.units import show_mib
from radrm.core.view import Offer


def refuse_crowded(
    ask: Ask, offer: Offer, *, min_free_mib: int, margin_mib: int, max_smact: float
) -> Refusal | None:
    """Free memory of at least max(`min_free_mib`, need + `margin_mib`), SMACT of at most
    `max_smact`; on an idle device it suffices that the need fits.

    RAD-RM thesis, section 6.2.2: 5 GiB (the smallest MIG slice) and 80 %; the
    margin of 2 GiB is section 6.4's allowance for what an estimate leaves out.
    """
    if offer.idle:
        return None
    uuid, free = offer.device.uuid, offer.free_mib
    wanted = min_free_mib if ask.need_mib is None else max(min_free_mib, ask.need_mib + margin_mib)
    if free is None:
        return Refusal("memory", "its free memory is unknown", uuid, wanted)
    if free < wanted:
        why = f"{show_mib(wanted)} free wanted (margin included), {show_mib(free)} there"
        return Refusal("memory", why, uuid, wanted, free)
    if offer.smact is None:
        return Refusal("smact", offer.smact_doubt or "its SM activity is unknown", uuid, max_smact)
    if offer.smact > max_smact:
        why = f"SM activity of at most {max_smact:.2f} wanted, it is {offer.smact:.2f}"
        return Refusal("smact", why, uuid, max_smact, offer.smact)
    return None

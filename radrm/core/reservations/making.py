"""What may be reserved, and by whom. Every refusal is one line with both numbers."""

from __future__ import annotations

from math import isfinite

from radrm.core.records import UserReservation
from radrm.core.state.state import State
from radrm.core.units import show_seconds

MOST = 200
"""Reservations on a server at a time."""
MOST_OWN = 8
"""Reservations at a time that a user has made for itself."""
SHORTEST_S = 60.0
LONGEST_AHEAD_S = 366 * 86_400.0
"""A reservation ends within this time."""
OWN_AHEAD_S = 30 * 86_400.0
"""The same for one that a user makes for itself."""
_LATE_S = 60.0
"""A start may be so long ago: the request has taken its time."""


def refuse(state: State, wanted: UserReservation) -> str | None:
    """Return why this cannot be reserved; None if it can."""
    counted = [each for each in state.for_users.every.values() if not _is_over(state, each)]
    return (
        _refuse_times(state, wanted)
        or _refuse_devices(state, wanted)
        or _refuse_number(counted)
        or (_refuse_own(state, wanted, counted) if wanted.own else None)
        or _refuse_overlap(state, wanted, counted)
    )


def _is_over(state: State, each: UserReservation) -> bool:
    return each.end_s <= state.step.now.wall_s


def _refuse_times(state: State, wanted: UserReservation) -> str | None:
    start_s, end_s, now_s = wanted.start_s, wanted.end_s, state.step.now.wall_s
    if not isfinite(start_s) or not isfinite(end_s):
        return "a reservation has a start and an end"
    if start_s < now_s - _LATE_S:
        return f"it would begin {show_seconds(now_s - start_s)} ago; begin it now or later"
    if end_s - start_s < SHORTEST_S:
        if end_s <= start_s:
            return "it would end before it begins; give an --until after its start, or --for 4h"
        lasts = show_seconds(end_s - start_s)
        return f"it would last {lasts}, the shortest is {show_seconds(SHORTEST_S)}"
    most_s = OWN_AHEAD_S if wanted.own else LONGEST_AHEAD_S
    if end_s > now_s + most_s:
        ends = show_seconds(end_s - now_s)
        return f"it would end in {ends}, at most {show_seconds(most_s)} ahead can be reserved"
    return None


def _refuse_devices(state: State, wanted: UserReservation) -> str | None:
    if not wanted.devices or len(set(wanted.devices)) != len(wanted.devices):
        return "a reservation names different GPUs, at least one"
    for uuid in wanted.devices:
        if uuid not in state.ledgers or state.ledgers[uuid].vanished:
            return f"there is no GPU {uuid[:80]}"
    return None


def _refuse_number(counted: list[UserReservation]) -> str | None:
    if len(counted) >= MOST:
        return f"there are {len(counted)} reservations, at most {MOST} at a time; cancel some first"
    return None


def _refuse_own(
    state: State, wanted: UserReservation, counted: list[UserReservation]
) -> str | None:
    """Return which limit a user's reservation for itself would exceed; None if none."""
    most_hours = state.settings.user_reserved_gpu_hours
    if not most_hours:
        return (
            "only root may reserve GPUs here (limits.reserved_gpu_hours is 0); ask an administrator"
        )
    mine = [each for each in counted if each.own and each.by_uid == wanted.by_uid]
    if len(mine) >= MOST_OWN:
        return f"you have {len(mine)} reservations, at most {MOST_OWN} at a time; cancel one first"
    hours, has = wanted.gpu_hours, sum(each.gpu_hours for each in mine)
    if hours + has > most_hours + 1e-6:
        more = f" and you have reserved {has:.3g}" if has else ""
        return (
            f"it needs {hours:.3g} GPU-hours{more}, the limit is {most_hours:g} "
            "(limits.reserved_gpu_hours); make it shorter, or reserve fewer GPUs"
        )
    most_gpus = state.settings.most_gpus(wanted.by_uid)
    meanwhile = [each for each in mine if each.meets(wanted.start_s, wanted.end_s)]
    together = len(wanted.devices) + sum(len(each.devices) for each in meanwhile)
    if together > most_gpus:
        return f"you would have {together} GPUs reserved, the limit is {most_gpus} (limits.gpus)"
    return None


def _refuse_overlap(
    state: State, wanted: UserReservation, counted: list[UserReservation]
) -> str | None:
    now_s = state.step.now.wall_s
    for each in counted:
        both = [uuid for uuid in wanted.devices if uuid in each.devices]
        if both and each.meets(wanted.start_s, wanted.end_s):
            gpu = state.ledgers[both[0]].device.index
            ends = f"for {show_seconds(each.end_s - now_s)} more"
            if each.start_s > now_s:
                starts = f"in {show_seconds(each.start_s - now_s)}"
                ends = f"{starts}, for {show_seconds(each.end_s - each.start_s)}"
            return f"GPU {gpu} is reserved for {each.label} {ends}"
    return None

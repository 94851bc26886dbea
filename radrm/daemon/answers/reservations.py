"""Who has reserved GPUs, and the commands that reserve and cancel.

Root and the daemon's user reserve for others and for maintenance. Any other user reserves for
itself, within the limits of `[limits]`.
"""

from __future__ import annotations

import grp
import pwd
from collections.abc import Sequence
from math import isfinite

from msgspec import Struct

from radrm.core import events as ev
from radrm.core.records import Instant, UserReservation
from radrm.core.snapshot import DeviceSnapshot, Snapshot
from radrm.core.words import DeviceKind
from radrm.daemon.answers.device_commands import find_device
from radrm.daemon.answers.selection import is_administrator
from radrm.daemon.intake.envelopes import user_name
from radrm.daemon.loop import Loop
from radrm.daemon.serving.server import Request
from radrm.daemon.views.arguments import Words, device_words, is_text, reason_word
from radrm.daemon.views.reservations import for_users
from radrm.documents.server import UserReservation as UserReservationDocument
from radrm.errors import Refused, UsageError

MOST_MEMBERS = 1000
"""Members of a group that are looked up."""
_ENDED = 50
_DAY_S = 86_400.0


def reservations(loop: Loop, words: Words, uid: int) -> list[UserReservationDocument]:
    """The reservations for users that are not over, the earliest first.

    With them those of the client that were released in the last day.
    """
    now = loop.clock.now()
    snapshot = loop.scheduler.snapshot
    shown = [each for each in snapshot.for_users if each.end_s > now.wall_s]
    for each in loop.store.ended_reservations(_ENDED):
        mine = each.own and each.by_uid == uid and each.end_s > now.wall_s
        if mine and each.ended_s is not None and now.wall_s - each.ended_s < _DAY_S:
            shown.append(each)
    return for_users(snapshot, shown, now)


# ------------------------------------------------------------------ reserve


def reserve(loop: Loop, request: Request) -> list[UserReservationDocument]:
    """Reserve GPUs. Returns the reservation."""
    words, uid, now = request.words, request.client.uid, loop.clock.now()
    administrator = is_administrator(uid)
    whom = _whom(words, uid, administrator)
    start_s, end_s = _interval(words, now)
    snapshot = loop.scheduler.snapshot
    wanted = UserReservation(
        id=0,
        devices=_devices(snapshot, words, start_s, end_s),
        start_s=start_s,
        end_s=end_s,
        whom=whom.name,
        uids=whom.uids,
        group=whom.group,
        by=user_name(uid),
        by_uid=uid,
        own=not administrator,
        preempt=words.get("preempt") is True,
        reason=reason_word(words),
    )
    if (why := loop.scheduler.refuse_reservation(wanted, now)) is not None:
        raise Refused(why)
    before = {each.id for each in snapshot.for_users}
    loop.process([ev.ReserveRequested(at=now, reservation=wanted)])
    after = loop.scheduler.snapshot
    made = [each for each in after.for_users if each.id not in before]
    if not made:
        raise Refused("the store cannot be written now; see radrm reserve whether it was made")
    return for_users(after, made, now)


class _Whom(Struct, frozen=True):
    name: str
    uids: tuple[int, ...] = ()
    group: str | None = None


def _whom(words: Words, uid: int, administrator: bool) -> _Whom:
    """Whom GPUs are reserved for. Only an administrator names others: names are looked up."""
    user, group = words.get("user"), words.get("group")
    maintenance, preempt = words.get("maintenance") is True, words.get("preempt") is True
    if sum((user is not None, group is not None, maintenance)) > 1:
        raise UsageError("a reservation is for a user, for a group, or for maintenance")
    if not administrator and (group is not None or maintenance or preempt):
        what = "for groups" if group is not None else "for maintenance"
        what = "with --preempt" if preempt else what
        raise Refused(f"only root and the daemon's user reserve {what}; you reserve for yourself")
    mine = user_name(uid)
    if user is None and group is None:
        return _Whom("maintenance") if maintenance else _Whom(mine, (uid,))
    name = user if group is None else group
    if not is_text(name):
        raise UsageError("the request takes a user or a group by name")
    if not administrator and name not in (mine, str(uid)):
        raise Refused("only root and the daemon's user reserve for others; leave out --user")
    try:
        if group is not None:
            return _Whom(f"group {name}", _members(grp.getgrnam(name).gr_mem, name), name)
        return _Whom(name, (pwd.getpwnam(name).pw_uid,)) if administrator else _Whom(mine, (uid,))
    except (KeyError, ValueError):
        what = "user" if group is None else "group"
        raise Refused(f"there is no {what} {name[:40]!r}") from None


def _members(names: Sequence[str], group: str) -> tuple[int, ...]:
    if len(names) > MOST_MEMBERS:
        raise Refused(f"group {group} has {len(names)} members, at most {MOST_MEMBERS} can be")
    found = set()
    for name in names:
        try:
            found.add(pwd.getpwnam(name).pw_uid)
        except KeyError:
            continue  # a member that has no account has no jobs
    return tuple(sorted(found))


def _interval(words: Words, now: Instant) -> tuple[float, float]:
    """From when until when, in epoch seconds."""
    start_s, end_s, for_s = (_seconds(words, name) for name in ("from", "until", "for"))
    if (end_s is None) is (for_s is None):
        raise UsageError("a reservation has either an end or a length; give --until or --for")
    start_s = now.wall_s if start_s is None else max(start_s, min(now.wall_s, start_s + 60.0))
    return start_s, start_s + (for_s or 0.0) if end_s is None else end_s


def _seconds(words: Words, name: str) -> float | None:
    found = words.get(name)
    if found is None:
        return None
    if isinstance(found, bool) or not isinstance(found, (int, float)) or abs(found) > 1e15:
        raise UsageError(f"{name!r} is not a number of seconds")
    if not isfinite(found):
        raise UsageError(f"{name!r} is not a number of seconds")
    return float(found)


def _devices(snapshot: Snapshot, words: Words, start_s: float, end_s: float) -> tuple[str, ...]:
    """The devices that the request names, or as many as it asks for: those that are least used."""
    count, named = words.get("gpus"), device_words(words)
    listed = [each for each in snapshot.devices if not each.vanished]
    if words.get("all") is True:
        if named or count is not None:
            raise UsageError("--all goes neither with named GPUs nor with --gpus")
        return tuple(each.device.uuid for each in listed)
    if named:
        if count is not None:
            raise UsageError("name GPUs, or say how many with --gpus")
        return tuple(find_device(listed, word).device.uuid for word in named)
    wanted = 1 if count is None else count
    if type(wanted) is not int or not 1 <= wanted <= 10_000:
        raise UsageError("--gpus is a number of GPUs from 1")
    free = [each for each in listed if not _is_reserved(snapshot, each, start_s, end_s)]
    if len(free) < wanted:
        raise Refused(
            f"{wanted} GPU{'s' * (wanted != 1)} cannot be reserved then: {len(free)} of "
            f"{len(listed)} are not reserved for others; see radrm reserve"
        )
    free.sort(key=_rank)
    return tuple(each.device.uuid for each in free[:wanted])


def _is_reserved(snapshot: Snapshot, found: DeviceSnapshot, start_s: float, end_s: float) -> bool:
    uuid = found.device.uuid
    return any(uuid in r.devices and r.meets(start_s, end_s) for r in snapshot.for_users)


def _rank(found: DeviceSnapshot) -> tuple[bool, bool, int, int]:
    """A sort key: devices that take jobs first, whole ones, and those with the fewest jobs."""
    unusable = found.drained is not None or found.reading is None or bool(found.reading.error)
    parts = found.device.kind is not DeviceKind.GPU
    return unusable, parts, len(found.occupants), found.device.index


# ------------------------------------------------------------------ cancel


def unreserve(loop: Loop, request: Request) -> list[UserReservationDocument]:
    """End a reservation. Returns it as it was."""
    number, uid, now = request.words.get("id"), request.client.uid, loop.clock.now()
    if type(number) is not int:
        raise UsageError("the request takes the id of a reservation")
    snapshot = loop.scheduler.snapshot
    for each in snapshot.for_users:
        if each.id == number and each.end_s > now.wall_s:
            mine = each.by_uid == uid or each.uids == (uid,)
            if not mine and not is_administrator(uid):
                raise Refused(
                    f"reservation {number} is for {each.whom}, made by {each.by}; only they and "
                    "root cancel it"
                )
            by = user_name(uid)
            loop.process([ev.UnreserveRequested(at=now, reservation_id=number, by=by)])
            return for_users(snapshot, [each], now)
    raise Refused(f"there is no reservation {str(number)[:20]}; radrm reserve lists them")

"""The occupants and reservations of a device, and the user whose clients are on its MPS server.

Theory of operation
-------------------
    free = capacity - unmanaged - sum over attempts of max(reserved, observed)
         - what planners have reserved meanwhile (`core/state/reserved.py`)

A new job's need is reserved at once, in the step that places it. So two jobs of the same
second can both be placed before either shows up in a reading. Readings then correct the
reservation (`corrected`). Once a job's memory has settled, it shrinks to the peak plus headroom.

Under a policy with trials (`CoreSettings.trial_floor_mib`)
- a job that reports its steps has settled after the first of them, others after `settle_s` without
  growth;
- a job of unknown need is *on trial*: it has all free memory until it settles. A trial also ends
  `settle_s` after the job began to use more than a context, and after `idle_trial_s` if it never
  does. Then it keeps twice its peak;
- a job that grows beyond its reservation gets as much again, as far as that is unreserved:
  memory grows in steps, and a job that exceeds its estimate will exceed it by more. So the next
  job is placed beside what it will need. What was reserved before is remembered for blame
  (`OccupantUse.promised_mib`).

Invariants:
- Each live attempt has one *occupant* and one reservation of kind RUNNING on each of its
  devices. `admit` and `reserve` are called together, `release` and `unreserve` too.
- Unknown figures are None, never zero: a device without a sound and recent reading takes no
  job.
- When a job leaves, the device takes no job until it has been read again. A process that is
  still dying is then neither counted as free memory nor counted twice.

What may interleave: a reading may be older than the last change here, or show an attempt
that has ended. Memory of attempts that do not hold the device counts as unmanaged; a
reading from before the last leave is ignored.

`core/constraints/fit.py` has the theory of turns on an MPS server.

What a restart sees: reservations and the attempts' usage are stored; occupants are made again
from them (`core/adoption.py`), and their memory counts as still growing. Readings, the
load and the times of turns are not stored; until the first reading the device takes no job.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct

from radrm.core.records import (
    Attempt,
    Device,
    Instant,
    Job,
    Reading,
    Reservation,
    ReservationKey,
    SharedPeriod,
    Usage,
)
from radrm.core.settings import CoreSettings
from radrm.core.state.energy import EnergyMeter
from radrm.core.state.load import SmactLoad, SmactWindow, Window
from radrm.core.state.readings import (
    OccupantUse,
    SharedTime,
    attribute,
    believable,
    who_uses,
    why_unreadable,
)
from radrm.core.state.reserved import Reserved
from radrm.core.state.sharing import SharedPeriods
from radrm.core.words import Collocation
from radrm.structs import replace


class CohortData(Struct, frozen=True):
    """A `Cohort` as plain data, without the clients themselves."""

    since_s: float
    last_turn_s: dict[int, float]
    had_turn: int | None


class Cohort:
    """The clients on one MPS server: at most one user's at a time."""

    __slots__ = ("_had_turn", "_occupants", "last_turn_s", "since_s", "uid")

    def __init__(self, occupants: Mapping[int, OccupantUse]) -> None:
        self._occupants = occupants
        self.uid: int | None = None
        """The user whose clients are there; None if there are none."""
        self.since_s = 0.0
        """Boot time since which the present user's clients are there without a gap."""
        self.last_turn_s: dict[int, float] = {}
        """Boot time when each user's last client left, by uid."""
        self._had_turn: int | None = None
        """The user whose turn has ended, until another client comes."""

    def after_join(self, since_s: float) -> None:
        """Note that a client has joined the occupants."""
        # A restart adopts clients in any order: the oldest one counts.
        self.since_s = since_s if self.uid is None else min(self.since_s, since_s)
        self._had_turn = None
        self._find_user()

    def after_leave(self, uid: int, now_s: float, turn_s: float) -> None:
        """Note that a client left, after it left the occupants. `turn_s`: a turn's length."""
        self._find_user()
        if self.uid is not None:
            return
        self.last_turn_s[uid] = now_s
        if now_s - self.since_s >= turn_s:
            self._had_turn = uid

    def _find_user(self) -> None:
        clients = (h.uid for h in self._occupants.values() if h.collocation is Collocation.MPS)
        self.uid = next(clients, None)

    def turn_over(self, now_s: float, turn_s: float) -> int | None:
        """Return the user who has had a turn, until the next client joins; else None."""
        uid = self.uid
        if uid is None:
            return self._had_turn
        return uid if now_s - self.since_s >= turn_s else None

    def data(self) -> CohortData:
        """Return the cohort as plain data, for another process."""
        return CohortData(self.since_s, self.last_turn_s.copy(), self._had_turn)

    def recall(self, data: CohortData) -> None:
        """Take over what `data` says, after its clients have been entered."""
        self._find_user()
        self.since_s, self._had_turn = data.since_s, data.had_turn
        self.last_turn_s = data.last_turn_s.copy()


OUT_OF_SERVICE_S = 60.0
"""A device that is unreadable, faulty or left to unmanaged processes for this long is out of
service: one failed reading moves no job."""
SETTLE_GROWTH_MIB = 64
"""Growth by less is noise: the allocator of CUDA takes and gives back 2 MiB and 20 MiB blocks."""
NOTED_EVERY_S = 30.0
"""How often usage is written to the attempt's record while its memory stays the same.

A killed daemon loses at most this much of the attempt's energy, and what the host has not saved
yet: usage is volatile."""


class DeviceLedger:
    """One device: its record, its occupants, its reservations and its last reading."""

    def __init__(
        self,
        device: Device,
        settings: CoreSettings,
        window: Window | None = None,
        clock: Callable[[], Instant] = lambda: Instant(0.0, 0.0),
        learn: Callable[[SharedPeriod], None] = lambda period: None,
    ) -> None:
        """`clock` returns the time of the current step. `learn` gets the shared periods."""
        self.device = device
        self.version = 0
        """Grows with every change here, so that what was concluded from it can be kept. Only the
        ledger counts."""
        self._clock = clock
        self.drained: str | None = None
        self.vanished = False
        self.occupants: dict[int, OccupantUse] = {}
        """By job id."""
        self.reserved = Reserved(self.occupants, clock)
        self.reserved.see(device)
        self.reading: Reading | None = None
        self.unmanaged_mib: int | None = None
        # Not `window or ...`: an empty window is false.
        window = SmactWindow(settings.smact_window_s) if window is None else window
        self.cohort = Cohort(self.occupants)
        self.load = SmactLoad(settings, window)
        self._settings = settings
        self.energy = EnergyMeter(self.occupants)
        self._shared = SharedTime(self.occupants)
        self._periods = SharedPeriods(self.occupants, learn)
        self.fresh_from_s = float("-inf")
        """Boot time of the last leave. Earlier readings may still count the job that left."""
        self._unusable_since_s: float | None = None
        self._in_use_since_s: float | None = None

    def see(self, device: Device) -> None:
        """Take in the device's present record."""
        self.version += 1
        self.device = device
        self.reserved.see(device)

    def drain(self, reason: str | None) -> None:
        """Let no further job come, for this reason; None: let them."""
        self.version += 1
        self.drained = reason

    def vanish(self) -> None:
        """Note that the device is not listed any more, so nothing is known of it now."""
        self.version += 1
        self.vanished = True
        self.reading = self.unmanaged_mib = None
        self.energy.interrupt()

    def reserved_for_others(self) -> None:
        """Note that other reservations for users count now: jobs find another device here."""
        self.version += 1

    # ------------------------------------------------------------- memory

    @property
    def reservations(self) -> dict[ReservationKey, Reservation]:
        return {**self.reserved.held, **self.reserved.planned}

    @property
    def reserved_mib(self) -> int:
        """MiB that all reservations take together now."""
        now_s = self._clock().boot_s
        return self.reserved.taken_mib(self.device, None, now_s, now_s)

    @property
    def free_now_mib(self) -> int | None:
        """MiB that are not reserved at this moment; None while unmanaged memory is unknown."""
        now_s = self._clock().boot_s
        return self.free_mib(None, now_s, now_s)

    def free_mib(
        self,
        for_owner: str | None = None,
        start_s: float | None = None,
        end_s: float | None = None,
    ) -> int | None:
        """Return the MiB that can be reserved from `start_s` to `end_s`: the least at any moment.

        Boot-time seconds; None: from now, and without an end. The owner's own reservations do not
        count. None while unmanaged memory is unknown.
        """
        if self.unmanaged_mib is None:
            return None
        taken = self.reserved.taken_mib(self.device, for_owner, start_s, end_s)
        return max(0, self.device.capacity_mib - self.unmanaged_mib - taken)

    def idle_for(
        self,
        owner: str | None = None,
        start_s: float | None = None,
        end_s: float | None = None,
    ) -> bool:
        """Return whether no other owner has a reservation from `start_s` to `end_s`, and unmanaged
        memory is small enough. The limit is `core.idle_unmanaged_mib`.
        """
        return self.is_quiet and not self.reserved.others(self.device, owner, start_s, end_s)

    @property
    def is_quiet(self) -> bool:
        """True if unmanaged memory is known, and at most `core.idle_unmanaged_mib`."""
        unmanaged = self.unmanaged_mib
        return unmanaged is not None and unmanaged <= self._settings.idle_unmanaged_mib

    def reserve(self, reservation: Reservation) -> None:
        """Enter a reservation in place of the one with the same key."""
        self.version += 1
        self.reserved.put(reservation)

    def unreserve(self, key: ReservationKey) -> None:
        self.version += 1
        self.reserved.drop(key)

    def corrected(self, occupant: OccupantUse) -> Reservation | None:
        """Return a job's reservation as its readings correct it; None if it stays.

        A smaller one of a job that has settled, or whose trial has ended; a larger one of a job
        that has grown beyond it.
        """
        mine = self.reserved.running(occupant.job_id)
        if mine is None or mine.mib is None:
            return None
        peak = occupant.peak_mib or 0
        if occupant.settled and peak:
            enough = max(peak + self._settings.headroom_mib, occupant.floor_mib)
            if enough < mine.mib:
                occupant.promised_mib = None
                return replace(mine, mib=enough)
        least = self._settings.trial_floor_mib
        if least is None:
            return None
        if occupant.unknown and not occupant.on_trial and not occupant.settled:
            enough = max(2 * peak, least)
            if occupant.promised_mib is None and enough < mine.mib:
                return replace(mine, mib=enough)
        return self._enlarged(occupant, mine, mine.mib)

    def _enlarged(
        self, occupant: OccupantUse, mine: Reservation, reserved: int
    ) -> Reservation | None:
        """Return the larger reservation of a job that has grown beyond its own; None if it has not,
        or if all is reserved.

        It is as much again beyond what it uses, and at least the headroom.
        """
        used = occupant.observed_mib or 0
        if used - reserved <= SETTLE_GROWTH_MIB or self.unmanaged_mib is None:
            return None
        more = max(used - reserved, self._settings.headroom_mib)
        room = self.free_mib(mine.owner) or 0
        enough = max(used, min(used + more, room))
        if occupant.promised_mib is None:
            occupant.promised_mib = reserved
        return replace(mine, mib=enough)

    def promised_mib(self, job_id: int) -> int | None:
        """Return what was reserved for a job before its own growth enlarged that; None: the whole
        device, or nothing."""
        mine, occupant = self.reserved.running(job_id), self.occupants.get(job_id)
        if mine is None or occupant is None or occupant.promised_mib is None:
            return None if mine is None else mine.mib
        return occupant.promised_mib

    def _reserved_for(self, job_id: int) -> int:
        mine = self.reserved.running(job_id)
        return 0 if mine is None else self.reserved.size_mib(self.device, mine)

    # ------------------------------------------------------------- condition

    def unreadable(self, now_s: float) -> str | None:
        """Return why the device's memory is not known now; None if it is."""
        stale_after_s = self._settings.stale_after_s
        return why_unreadable(self.reading, self.fresh_from_s, stale_after_s, now_s)

    def is_closed(self, now_s: float) -> bool:
        """Return whether the device takes no job now that waits, whatever that needs."""
        if self.unreadable(now_s) is not None:
            return True
        return any(each.collocation.whole_device for each in self.occupants.values())

    def is_stale(self, now_s: float) -> bool:
        """Return whether the last reading is older than `CoreSettings.stale_after_s`."""
        reading = self.reading
        return reading is not None and now_s - reading.at.boot_s > self._settings.stale_after_s

    def yields(self) -> str | None:
        """Return why the device is left to unmanaged processes; None if it is not."""
        return self.in_use() if self._settings.yield_to_unmanaged else None

    def in_use(self) -> str | None:
        """Return who uses more than `core.idle_unmanaged_mib` without holding it, else None."""
        unmanaged, most = self.unmanaged_mib or 0, self._settings.idle_unmanaged_mib
        if unmanaged <= most:
            return None
        who = who_uses(self.reading, self.occupants, unmanaged)
        return f"{who}, more than core.idle_unmanaged_mib = {most}"

    def is_sound(self, now: Instant) -> bool:
        """Return whether `never_idle` and `out_of_service` have nothing to say or to remember."""
        if self.vanished or self.drained is not None or self.device.available_until is not None:
            return False
        if self._unusable_since_s is not None or self._in_use_since_s is not None:
            return False
        return self.is_quiet and self.unreadable(now.boot_s) is None

    def never_idle(self, now: Instant) -> str | None:
        """Return why the device would not be idle without radrm's jobs; None if it would.

        The use must last for `OUT_OF_SERVICE_S`, counted from the first call that saw it.
        So `service.update` calls this regularly, and `out_of_service` too.
        """
        why = self.in_use()
        if why is None:
            self._in_use_since_s = None
        elif self._in_use_since_s is None:
            self._in_use_since_s = now.boot_s
        since_s = self._in_use_since_s
        lasting = since_s is not None and now.boot_s - since_s >= OUT_OF_SERVICE_S
        return why if lasting else None

    def out_of_service(self, now: Instant) -> str | None:
        """Return why the device is out of service; None while it is in service."""
        why = self.unreadable(now.boot_s) or self.yields()
        if why is None:
            self._unusable_since_s = None
        elif self._unusable_since_s is None:
            self._unusable_since_s = now.boot_s
        if self.vanished:
            return "it has vanished"
        if self.drained is not None:
            return f"drained: {self.drained}"
        until = self.device.available_until
        if until is not None and until <= now.wall_s:
            return "its availability has ended"
        since_s = self._unusable_since_s
        lasting = since_s is not None and now.boot_s - since_s >= OUT_OF_SERVICE_S
        return why if lasting else None

    # ------------------------------------------------------------- readings

    def take(self, reading: Reading) -> list[OccupantUse]:
        """Take in a reading. Returns the occupants whose usage must be saved now.

        Their peak rose, they settled, or they were last saved `NOTED_EVERY_S` ago.
        """
        shown = self._shown()
        changed = self._take(reading)
        if self._shown() != shown:
            self.version += 1
        return changed

    def _shown(self) -> tuple[object, ...]:
        """Return all of a reading's effects that a job which could come here depends on.

        The age of the reading and the SM activity are compared at each use (`offers.py`).
        """
        reading = self.reading
        # Why the SM activity is unknown tells a time that each reading changes, until it is warm.
        unknown = (self.smact_refusal, self.warm) if self.smact is None else self.load.coarse
        late = reading is not None and reading.at.boot_s < self.fresh_from_s
        failed = reading and (reading.error, reading.fault, reading.used_mib is None, late)
        shown = [
            (h.observed_mib, h.settled, h.on_trial, h.began_s is None, h.alone_smact)
            for h in self.occupants.values()
        ]
        return unknown, failed, self.unmanaged_mib, shown

    def _take(self, reading: Reading) -> list[OccupantUse]:
        self.reading, self.load.error = believable(reading)
        reading = self.reading
        boot_s = reading.at.boot_s
        if reading.error:
            self.energy.interrupt()
            return []
        if boot_s < self.fresh_from_s:
            # It may count the memory of a job that has left.
            return []
        self._shared.count(boot_s)
        rose = self._take_memory(reading)
        self.energy.take(reading, self.is_quiet)
        self.load.take(reading)
        smact, alone = reading.smact, len(self.occupants) == 1
        counts = smact is not None and self.is_quiet and self.load.counts(reading)
        if smact is not None and counts:
            self._shared.see(smact)
        if self.is_quiet and boot_s >= self.load.warm_from_s:
            self._periods.take(self.device.name, boot_s, smact if counts else None)
        changed = []
        for occupant in self.occupants.values():
            occupant.shared |= not alone
            if smact is not None:
                occupant.see_smact(smact, alone and counts)
            settings = self._settings
            settles = occupant.is_quiet(boot_s, settings.settle_s, settings.settle_steps_s)
            settles = settles and not occupant.settled
            occupant.settled |= settles
            ends = occupant.on_trial and (occupant.settled or boot_s >= self._trial_end_s(occupant))
            occupant.on_trial &= not ends
            due = boot_s - occupant.noted_s >= NOTED_EVERY_S
            if due or occupant.job_id in rose or settles or ends:
                occupant.noted_s = boot_s
                changed.append(occupant)
        return changed

    def _trial_end_s(self, occupant: OccupantUse) -> float:
        """Return the boot time at which a trial ends, settled or not."""
        if occupant.began_s is None:
            return occupant.since_s + self._settings.idle_trial_s
        return occupant.began_s + self._settings.settle_s

    def step(self, job_id: int, steps: float, boot_s: float) -> None:
        """Take in how many optimizer steps a job on this device says it has done."""
        occupant, settings = self.occupants.get(job_id), self._settings
        if settings.trial_floor_mib is None or steps < settings.settle_steps:
            return
        if occupant is not None:
            occupant.step(boot_s)

    def trial(self, uid: int | None = None) -> OccupantUse | None:
        """Return a job that is on trial here; None if none is. `uid`: a job of this user."""
        for occupant in self.occupants.values():
            if occupant.on_trial and uid in (None, occupant.uid):
                return occupant
        return None

    def _take_memory(self, reading: Reading) -> set[int]:
        """Note the memory of each job. Returns the jobs whose peak rose noticeably."""
        self.unmanaged_mib, seen = attribute(reading, self.occupants, self._reserved_for)
        rose, boot_s, growth_mib = set(), reading.at.boot_s, SETTLE_GROWTH_MIB
        for job_id, used_mib in seen.items():
            occupant = self.occupants[job_id]
            if used_mib is not None and used_mib != occupant.observed_mib:
                self.reserved.outdated()
            if used_mib is not None and occupant.see(used_mib, boot_s, growth_mib):
                rose.add(job_id)
        return rose

    # ------------------------------------------------------------- SM activity

    @property
    def smact(self) -> float | None:
        """The SM activity that a policy uses, 0..1; None while it is unknown."""
        return self.load.smact

    @property
    def smact_refusal(self) -> str | None:
        """Why `smact` is None; None if it is known."""
        return self.load.doubt(self.reading)

    @property
    def warm(self) -> bool:
        """True if the last reading shows the jobs that are here now: if it tells no SM activity, no
        later one will."""
        return self.load.is_warm(self.reading)

    @property
    def warm_from_s(self) -> float:
        """Boot time from which readings describe the jobs that are here now."""
        return self.load.warm_from_s

    # ------------------------------------------------------------- jobs come and go

    def admit(self, job: Job, attempt: Attempt, since_s: float, now_s: float) -> None:
        """Enter an attempt that is here since `since_s`: a new one, or one that is adopted after a
        restart. `reserve` enters its reservation."""
        self.version += 1
        self._count_before(now_s)
        smact = job.smact_in(attempt.placement.collocation, self.device)
        self.load.before_join(not self.occupants, smact)
        self.occupants[job.id] = OccupantUse(
            job_id=job.id,
            serial=attempt.serial,
            uid=job.spec.uid,
            collocation=attempt.placement.collocation,
            since_s=since_s,
            grew_s=since_s,
            noted_s=now_s,
            floor_mib=job.memory_floor_mib or 0,
            recovering=job.recovers_idle,
            predicted_smact=smact,
            wide=len(attempt.devices) > 1,
            unknown=job.needs_trial,
        )
        self.occupants[job.id].on_trial = (
            job.needs_trial
            and self._settings.trial_floor_mib is not None
            and not attempt.placement.collocation.whole_device
        )
        self._shared.after_change()
        if attempt.placement.collocation is Collocation.MPS:
            self.cohort.after_join(since_s)
        self.load.warm_up(self._latest_s())
        known = attempt.used.get(self.device.uuid)
        if known is not None:
            self.occupants[job.id].recall(known, now_s)

    def release(self, job_id: int, now_s: float, left_s: float | None = None) -> Usage | None:
        """Remove an attempt that left at `left_s` (now, if None), and return its usage. None if it
        is not here. The device takes no job until it has been read after that."""
        if job_id not in self.occupants:
            return None
        self.version += 1
        left_s = now_s if left_s is None else left_s
        self._count_before(left_s)
        occupant = self.occupants.pop(job_id)
        self._shared.after_change()
        self.reserved.outdated()
        if occupant.collocation is Collocation.MPS:
            self.cohort.after_leave(occupant.uid, now_s, self._settings.mps_cohort_s)
        self.load.after_leave(not self.occupants)
        self.load.warm_up(self._latest_s(), left_s)
        self.fresh_from_s = max(self.fresh_from_s, left_s)
        return occupant.usage(self.device.uuid)

    def turn_over(self, now_s: float) -> int | None:
        """Return the user who has had a turn on the MPS server. None if no user has, or if it takes
        several users at once."""
        if not self.device.mps or self.device.mps_multiuser:
            return None
        return self.cohort.turn_over(now_s, self._settings.mps_cohort_s)

    def report(self, job_id: int, boot_s: float, step: float) -> None:
        """Take in the steps that a job on this device says it has done."""
        self._periods.report(job_id, boot_s, step)

    def _count_before(self, at_s: float) -> None:
        """Divide the energy, and count the shared time, among the attempts before a change."""
        self._shared.count(at_s)
        self._periods.close(self.device.name, at_s)
        self.energy.count(at_s)

    def _latest_s(self) -> float:
        """Return the boot time at which the latest of the present jobs came."""
        return max((h.since_s for h in self.occupants.values()), default=float("-inf"))

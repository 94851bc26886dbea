"""Who holds how much of one device: bookkeeping before monitoring.

    free = total - overhead - unmanaged - sum over reservations of max(promised, observed)

A newcomer is promised its need at once, so two jobs of the same second can both
be placed. Once its memory has settled, the promise shrinks to what it was seen
to need. What is not known is None, and None never reads as zero.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from radrm.core.records import Attempt, Device, Instant, Job, Reading, Reservation, Usage
from radrm.core.settings import CoreSettings
from radrm.core.state.window import SmactWindow
from radrm.core.units import show_mib, show_seconds
from radrm.core.words import Collocation, Quantity, Queue

NOTED_EVERY_S = 60.0
"""So often what a holder was seen to use is news even where its memory stays the same: more of
its energy is not lost with a daemon that is killed."""


def merged(usage: Iterable[Usage], newer: Iterable[Usage]) -> tuple[Usage, ...]:
    """One entry per device: the newer where there are two, for it goes on from the older."""
    return tuple({u.device: u for u in (*usage, *newer)}.values())


@dataclass(slots=True)
class Holding:
    """What one live attempt was seen to do on one device."""

    job_id: int
    attempt: int
    uid: int
    collocation: Collocation
    since_s: float
    observed_mib: int | None = None
    peak_mib: int | None = None
    grew_s: float = 0.0
    settled: bool = False
    smact_sum: float = 0.0
    smact_count: int = 0
    energy_j: float | None = None
    shared: bool = False
    """Another attempt was here at some time."""
    noted_s: float = 0.0
    """When what was seen of it was last news."""
    floor_mib: int = 0
    """What the job's deaths have proven: never less than this is reserved for it."""
    recovering: bool = False
    """It died of GPU out-of-memory before."""

    def see(self, used_mib: int, boot_s: float, growth_mib: int) -> bool:
        """Take in a memory reading. True when the peak has risen noticeably."""
        self.observed_mib = used_mib
        if self.peak_mib is None or used_mib > self.peak_mib:
            rise = used_mib - (self.peak_mib or 0)
            self.peak_mib = used_mib
            if rise > growth_mib:
                self.grew_s = boot_s
                self.settled = False
                return True
        return False

    def recall(self, usage: Usage, now_s: float) -> None:
        """Go on from what an earlier daemon had recorded. When its memory last grew that does
        not tell: it may be now."""
        self.peak_mib = usage.peak_mib
        self.energy_j = usage.energy_j
        self.shared = usage.shared
        self.grew_s = now_s
        if usage.smact_mean is not None:
            self.smact_count = max(1, usage.smact_count)
            self.smact_sum = usage.smact_mean * self.smact_count

    def unused_for(self, now_s: float) -> float | None:
        """Seconds since it came, if it has used nothing of the device; None where it has, or
        where that cannot be told."""
        return now_s - self.since_s if self.peak_mib == 0 else None

    def usage(self, device: str) -> Usage:
        mean = self.smact_sum / self.smact_count if self.smact_count else None
        return Usage(
            device=device,
            peak_mib=self.peak_mib,
            smact_mean=mean,
            energy_j=self.energy_j,
            shared=self.shared,
            smact_count=self.smact_count,
        )


class DeviceLedger:
    """One device: its record, its holders, its reservations and its last reading."""

    def __init__(self, device: Device, settings: CoreSettings) -> None:
        self.device = device
        self.drained: str | None = None
        self.vanished = False
        self.holdings: dict[int, Holding] = {}
        self.reservations: dict[str, Reservation] = {}
        self.reading: Reading | None = None
        self.unmanaged_mib: int | None = None
        self.cohort_since_s = 0.0
        """Since when (boot-time seconds) one user's clients have been on its MPS server."""
        self.last_turn_s: dict[int, float] = {}
        """When each user's last client left its MPS server: whose turn is next."""
        self._had_turn: int | None = None
        self._settings = settings
        self.window = SmactWindow(settings.smact_window_s)
        self._fresh_from_s = float("-inf")
        self.warm_from_s = float("-inf")
        """When what is read again tells of the jobs that are here (boot-time seconds)."""
        self._expected_smact: float | None = None
        self._smact_trouble: str | None = None
        self._metered_s: float | None = None
        """Until when its energy is divided among its holders; None where that is not known."""
        self._trouble_since_s: float | None = None
        self._in_use_since_s: float | None = None

    # ------------------------------------------------------------- memory

    def promised_mib(self, reservation: Reservation) -> int:
        """What a reservation takes: the promise, or more if its owner uses more."""
        if reservation.mib is None:
            return self.device.capacity_mib
        holding = self.holdings.get(reservation.job_id) if reservation.job_id else None
        observed = holding.observed_mib if holding else None
        return max(reservation.mib, observed or 0)

    @property
    def reserved_mib(self) -> int:
        return sum(self.promised_mib(r) for r in self.reservations.values())

    def free_mib(self, for_owner: str | None = None) -> int | None:
        """MiB that can still be promised; an owner's own reservation does not count against it.

        None while unmanaged use is unknown.
        """
        if self.unmanaged_mib is None:
            return None
        taken = sum(
            self.promised_mib(r) for r in self.reservations.values() if r.owner != for_owner
        )
        return max(0, self.device.capacity_mib - self.unmanaged_mib - taken)

    def idle_for(self, owner: str | None = None) -> bool:
        """Nobody else holds or has reserved anything, and strangers use next to nothing."""
        others = any(r.owner != owner for r in self.reservations.values())
        unmanaged = self.unmanaged_mib
        return (
            not others and unmanaged is not None and unmanaged <= self._settings.idle_unmanaged_mib
        )

    # ------------------------------------------------------------- readings

    def unreadable(self, now_s: float) -> str | None:
        """Why nothing certain is known of this device at this moment; None when it is."""
        if self.reading is None:
            return "it has not been read yet"
        if self.reading.error:
            return self.reading.error
        if self.reading.fault:
            return self.reading.fault
        if self.reading.used_mib is None:
            return "its memory in use cannot be read"
        age_s = now_s - self.reading.at.boot_s
        if age_s > self._settings.stale_after_s:
            return f"its last reading is {age_s:.0f} s old"
        if self.reading.at.boot_s < self._fresh_from_s:
            return "a job has just left it and it has not been read since"
        return None

    def yields(self) -> str | None:
        """That it is left to unmanaged processes, where the site wants that."""
        return self._in_use() if self._settings.yield_to_unmanaged else None

    def _in_use(self) -> str | None:
        """That unmanaged processes use more of it than of an idle device."""
        unmanaged = self.unmanaged_mib or 0
        if unmanaged <= self._settings.idle_unmanaged_mib:
            return None
        return f"processes that radrm did not start use {show_mib(unmanaged)} of it"

    def never_idle(self, now: Instant) -> str | None:
        """Why it has not been idle, and would not be without radrm's jobs, for longer than a
        moment; None where it would. To be asked again and again, as `out_of_service` is."""
        why = self._in_use()
        if why is None:
            self._in_use_since_s = None
        elif self._in_use_since_s is None:
            self._in_use_since_s = now.boot_s
        since_s = self._in_use_since_s
        lasting = since_s is not None and now.boot_s - since_s >= self._settings.out_of_service_s
        return why if lasting else None

    def out_of_service(self, now: Instant) -> str | None:
        """Why it takes no job for longer than a moment; None while it is in service.

        It is to be asked again and again: trouble counts from when it was first seen here.
        """
        why = self.unreadable(now.boot_s) or self.yields()
        if why is None:
            self._trouble_since_s = None
        elif self._trouble_since_s is None:
            self._trouble_since_s = now.boot_s
        if self.vanished:
            return "it has vanished"
        if self.drained is not None:
            return f"drained: {self.drained}"
        until = self.device.available_until
        if until is not None and until <= now.wall_s:
            return "its time of availability is over"
        since_s = self._trouble_since_s
        lasting = since_s is not None and now.boot_s - since_s >= self._settings.out_of_service_s
        return why if lasting else None

    def take(self, reading: Reading) -> list[Holding]:
        """Take in a reading. Returns the holdings of which something is to be noted: their peak
        rose, they have now settled, or it is time to."""
        reading = self._believable(reading)
        self.reading = reading
        boot_s = reading.at.boot_s
        if reading.error:
            self._metered_s = None
            return []
        if boot_s < self._fresh_from_s:
            return []
        self._divide_energy(boot_s, reading.power_w)
        rose = self._take_memory(reading)
        self.window.forget(boot_s)
        if reading.smact is not None:
            usable = not reading.smact_coarse or self._settings.use_coarse_smact
            if usable:
                self.window.add(boot_s, reading.smact)
        changed = []
        for holding in self.holdings.values():
            holding.shared |= len(self.holdings) > 1
            if reading.smact is not None:
                holding.smact_sum += reading.smact
                holding.smact_count += 1
            quiet_s = boot_s - max(holding.grew_s, holding.since_s)
            settles = quiet_s >= self._settings.settle_s and bool(holding.peak_mib)
            due = boot_s - holding.noted_s >= NOTED_EVERY_S
            if due or holding.job_id in rose or (settles and not holding.settled):
                holding.noted_s = boot_s
                changed.append(holding)
            holding.settled = holding.settled or settles
        return changed

    def _divide_energy(self, until_s: float, power_w: float | None) -> None:
        """Give those who are here equal parts of what the device took since the last time.

        Whenever somebody comes or goes, and at each reading: what lies between two of these
        belongs to the same holders. Of the time before a first reading nothing is known.
        """
        since_s, self._metered_s = self._metered_s, until_s
        if since_s is not None and since_s > until_s:
            self._metered_s = since_s
        elif since_s is not None and power_w is not None:
            for holding in self.holdings.values():
                part_j = power_w * (until_s - since_s) / len(self.holdings)
                holding.energy_j = (holding.energy_j or 0.0) + part_j

    def _holders_change(self, at_s: float) -> None:
        """Somebody comes or goes: what the device has taken until then is of those before."""
        if self._metered_s is not None and at_s > self._metered_s:
            self._divide_energy(at_s, self.reading.power_w if self.reading else None)

    def _believable(self, reading: Reading) -> Reading:
        """What cannot be true is not known. A number that is none compares as false with
        every threshold, so that a broken monitor would make a full device look free."""
        self._smact_trouble = reading.smact_trouble
        figures = (reading.used_mib, *(m.used_mib for m in reading.attempts))
        if any(mib is not None and not 0 <= mib < math.inf for mib in figures):
            return replace(reading, used_mib=None, attempts=())
        if reading.power_w is not None and not 0 <= reading.power_w < math.inf:
            reading = replace(reading, power_w=None)
        if self._smact_trouble is not None:
            return replace(reading, smact=None)
        if reading.smact is not None and not 0 <= reading.smact < math.inf:
            self._smact_trouble = f"its SM activity reads {reading.smact}"
            return replace(reading, smact=None)
        return reading

    def _take_memory(self, reading: Reading) -> set[int]:
        """The jobs whose peak has risen noticeably."""
        if reading.used_mib is None:
            self.unmanaged_mib = None
            return set()
        seen = {m.job_id: m.used_mib for m in reading.attempts if self._holds(m.job_id, m.attempt)}
        unknown = [h for h in self.holdings.values() if seen.get(h.job_id, 0) is None]
        rest = reading.used_mib - sum(mib for mib in seen.values() if mib is not None)
        if len(unknown) == 1:
            # A driver that attributes nothing: all that is unexplained is taken to be its.
            seen[unknown[0].job_id] = max(0, rest)
            rest = 0
        elif unknown:
            rest -= sum(
                self.promised_mib(r)
                for r in self.reservations.values()
                if any(h.job_id == r.job_id for h in unknown)
            )
        self.unmanaged_mib = max(0, rest)
        rose = set()
        for holding in self.holdings.values():
            used_mib = seen.get(holding.job_id, 0)
            if used_mib is not None and holding.see(
                used_mib, reading.at.boot_s, self._settings.settle_growth_mib
            ):
                rose.add(holding.job_id)
        return rose

    def _holds(self, job_id: int, attempt: int) -> bool:
        holding = self.holdings.get(job_id)
        return holding is not None and holding.attempt == attempt

    # ------------------------------------------------------------- SM activity

    @property
    def smact(self) -> float | None:
        """The load to reckon with, 0..1; None while the device is not *warm*.

        The mean since the last change once that is long enough ago; until then what the
        load was before the change plus what the newcomer is predicted to add.
        """
        if self._smact_trouble is not None:
            return None
        if self.window.last_s >= self.warm_from_s:
            return self.window.mean
        return self._expected_smact

    @property
    def smact_doubt(self) -> str | None:
        """Why `smact` is None, in words."""
        if self._smact_trouble is not None:
            return self._smact_trouble
        if self.smact is not None:
            return None
        reading = self.reading
        if reading is not None and reading.smact_coarse and not self._settings.use_coarse_smact:
            return "only coarse utilization is read here, and core.use_coarse_smact is off"
        if reading is not None and reading.smact is None:
            return "its SM activity is not measured"
        left_s = 1.0 if reading is None else max(1.0, self.warm_from_s - reading.at.boot_s)
        return f"not warm: its jobs changed, its load is known in {show_seconds(math.ceil(left_s))}"

    # ------------------------------------------------------------- holders

    def admit(self, job: Job, attempt: Attempt, since_s: float, now_s: float) -> None:
        """A new holder, or one that comes back, after a restart say, with what was seen of it.

        Its reservation is put beside by `reserve`.
        """
        self._holders_change(now_s)
        if attempt.placement.collocation is Collocation.MPS:
            first = self._cohort() is None
            self.cohort_since_s = since_s if first else min(self.cohort_since_s, since_s)
            self._had_turn = None
        before = self.smact if self.holdings else 0.0
        predicted = job.estimate(Quantity.SMACT)
        self._expected_smact = None
        if before is not None and predicted is not None:
            self._expected_smact = min(1.0, before + predicted.value)
        self.window.restart()
        self.holdings[job.id] = Holding(
            job_id=job.id,
            attempt=attempt.number,
            uid=job.spec.uid,
            collocation=attempt.placement.collocation,
            since_s=since_s,
            grew_s=since_s,
            noted_s=now_s,
            floor_mib=job.memory_floor_mib or 0,
            recovering=job.queue is Queue.RECOVERY,
        )
        self.warm_from_s = self._warm_from_s()
        known = attempt.used.get(self.device.uuid)
        if known is not None:
            self.holdings[job.id].recall(known, now_s)

    def release(self, job_id: int, now_s: float, left_s: float | None = None) -> Usage | None:
        """A holder has left, at `left_s` where we hear of it later only. Until a reading that
        is taken from now on, what is left is not known."""
        if job_id not in self.holdings:
            return None
        left_s = now_s if left_s is None else left_s
        self._holders_change(left_s)
        holding = self.holdings.pop(job_id)
        if holding.collocation is Collocation.MPS and self._cohort() is None:
            self.last_turn_s[holding.uid] = now_s
            if now_s - self.cohort_since_s >= self._settings.mps_cohort_s:
                self._had_turn = holding.uid
        # What the others do alone is at most what all did together.
        self._expected_smact = self.smact if self.holdings else None
        self.window.restart()
        self.warm_from_s = max(self._warm_from_s(), left_s + self._settings.smact_after_exit_s)
        self._fresh_from_s = now_s
        return holding.usage(self.device.uuid)

    def turn_over(self, now_s: float) -> int | None:
        """The user who has had its turn on the MPS server, while its clients are there and
        until others have come; None where nobody has, or where users take no turns."""
        if not self.device.mps or self.device.mps_multiuser:
            return None
        uid = self._cohort()
        if uid is None:
            return self._had_turn
        return uid if now_s - self.cohort_since_s >= self._settings.mps_cohort_s else None

    def _cohort(self) -> int | None:
        """The user whose clients are on the MPS server."""
        clients = (h.uid for h in self.holdings.values() if h.collocation is Collocation.MPS)
        return next(clients, None)

    def _warm_from_s(self) -> float:
        latest_s = max((h.since_s for h in self.holdings.values()), default=float("-inf"))
        return latest_s + self._settings.smact_warm_s

    def reserve(self, reservation: Reservation) -> None:
        self.reservations[reservation.owner] = reservation

    def unreserve(self, owner: str) -> None:
        self.reservations.pop(owner, None)

    def shrunk(self, holding: Holding) -> Reservation | None:
        """The smaller promise that a settled holder gets; None when it stays."""
        mine = next((r for r in self.reservations.values() if r.job_id == holding.job_id), None)
        if mine is None or mine.mib is None or not holding.settled or not holding.peak_mib:
            return None
        enough = max(holding.peak_mib + self._settings.headroom_mib, holding.floor_mib)
        return replace(mine, mib=enough) if enough < mine.mib else None

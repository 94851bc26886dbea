"""Sweeps: once an hour, what is old goes, in pieces of a few milliseconds.

Theory of operation
-------------------
A sweep is a generator that yields between pieces. The loop does one piece, then waits ten times
as long. No piece begins while a decision is not on disk. A piece that fails (a full disk) ends
its sweep; the next one begins anew, since a sweep remembers nothing.

A sweep begins only after the spool was empty once, because an envelope of before the daemon's
start may follow a job (`--after`) that would go. But a user with too many envelopes must not keep
all old jobs in the store, so it waits for an hour at most. Before a sweep the spool's folder is
synced: an envelope whose job goes cannot return after a power failure, so no job is made twice.

By age nothing goes unless the clock is trusted (`rows.py`). By number the oldest go,
but none that ended in the last hour, whose user may still wait for the result. A job that ended
while the clock was ahead stays until then.
"""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Callable, Generator

from radrm.config import RetentionConfig
from radrm.core.records import Instant
from radrm.errors import StoreError
from radrm.host.storage.energy import HOUR_S, EnergyBook
from radrm.host.storage.files import fsync_folder
from radrm.host.storage.paths import Paths
from radrm.host.storage.retention.refused import remove_old
from radrm.host.storage.retention.rows import Place, Rows, Steady

log = logging.getLogger("radrm")

FIRST_AFTER_S = 10.0
"""Real seconds from the start to the first sweep."""
EVERY_S = 3600.0
"""Seconds between two sweeps, of the same clock as all ages."""
PIECE_S = 0.004
"""Real seconds of a piece. What has begun is finished."""
_REST = 10
"""A rest is so many times as long as the piece before it."""
_SHORTEST_REST_S = 0.02
PATIENCE_S = 3600.0
"""Real seconds that a sweep waits for an empty spool."""
LEAST_AGE_S = 3600.0
"""No job goes sooner after its end, whatever the limits."""
_DAY_S = 86400.0
_MIB = 2**20
_ENERGY_S = 1100 * _DAY_S
"""The hours of the energy book stay for three years: reports compare one with the last."""
_REFUSED_S = 30 * _DAY_S
"""Files that lay in the spool and were no envelopes stay so long, for who looks for one."""
_PAGES = 50
"""Pages that one piece gives back to the disk."""
_FREE_PAGES = 1024
"""Pages that stay free for new rows: 4 MiB."""
_HOURS = 200
"""Rows of the energy book that one piece removes."""


class Retention:
    """Used by the loop's thread. `tick` is a monotonic clock in real seconds, `every_s` the real
    seconds between two sweeps."""

    def __init__(
        self,
        config: RetentionConfig,
        rows: Rows,
        energy: EnergyBook,
        paths: Paths,
        tick: Callable[[], float] = time.monotonic,
        every_s: float = EVERY_S,
    ) -> None:
        self._config = config
        self._rows = rows
        self._energy = energy
        self._paths = paths
        self._tick = tick
        self._every_s = every_s
        self._sweep: Generator[None, None, None] | None = None
        self._due_s = tick() + FIRST_AFTER_S
        self._patient_s = tick() + PATIENCE_S
        self._began_s = 0.0
        self._removed = 0
        rows.kept_for = config.words

    @property
    def due_in_s(self) -> float:
        """Real seconds until the next piece."""
        return max(0.0, self._due_s - self._tick())

    def work(self, now: Instant, ready: bool) -> None:
        """Do a piece if one is due. `ready`: the spool has been empty since the start."""
        self._began_s = self._tick()
        if self._began_s < self._due_s:
            return
        if self._sweep is None:
            if not ready and self._began_s < self._patient_s:
                self._due_s = self._began_s + 1.0
                return
            self._sweep = self._pieces(now)
        try:
            next(self._sweep)
            took_s = self._tick() - self._began_s
            self._due_s = self._tick() + max(_SHORTEST_REST_S, _REST * took_s)
            return
        except StopIteration:
            pass
        except (StoreError, sqlite3.Error, OSError) as error:
            log.error("old records are not removed now: %s", error)
        self._sweep = None
        self._due_s = self._tick() + self._every_s

    def _spent(self) -> bool:
        return self._tick() - self._began_s >= PIECE_S

    # ------------------------------------------------------------- a sweep

    def _pieces(self, now: Instant) -> Generator[None, None, None]:
        fsync_folder(self._paths.spool)
        trusted = self._note_clock(now)
        self._removed = 0
        yield
        for uid in list(self._rows.users()):
            before_s = self._before(uid, now, trusted)
            yield from self._remove(uid, before_s)
            yield
        if self._removed:
            kept = self._config.words
            log.info("%d finished job(s) are removed; kept: %s", self._removed, kept)
        while self._rows.forget_learned():
            yield
        if trusted:
            before = int(now.wall_s - _ENERGY_S) - HOUR_S
            while self._energy.drop_before(before, _HOURS):
                yield
        yield from self._remove_refused(now, trusted)
        yield
        while self._rows.give_back(_PAGES, _FREE_PAGES):
            yield

    def _note_clock(self, now: Instant) -> bool:
        """Note the time of this sweep; return whether the date can be believed."""
        before = self._rows.steady()
        steady = Steady(now.wall_s, now) if before is None else before.seen(now)
        if before is not None and steady.since_s != before.since_s:
            log.warning(
                "the clock was set, or the server was off for more than a week: "
                "for a day nothing is removed by its age"
            )
        self._rows.note_steady(steady)
        return steady.trusted

    def _before(self, uid: int, now: Instant, trusted: bool) -> float:
        """The time (epoch seconds) before which the ended jobs of a user go."""
        config, ages = self._config, [float("-inf")]
        if trusted and config.finished_days:
            ages.append(now.wall_s - config.finished_days * _DAY_S)
        if config.finished_jobs:
            # What ended together goes together, so a few more than that may stay.
            found = self._rows.end_of_newest(uid, config.finished_jobs - 1)
            ages.append(float("-inf") if found is None else found)
        return min(max(ages), now.wall_s - LEAST_AGE_S)

    def _remove(self, uid: int, before_s: float) -> Generator[None, None, None]:
        place: Place | None = Place()
        while place is not None:
            count, place = self._rows.remove(uid, before_s, place, self._spent)
            self._removed += count
            if place is not None:
                yield

    def _remove_refused(self, now: Instant, trusted: bool) -> Generator[None, None, None]:
        before_s = now.wall_s - _REFUSED_S if trusted else float("-inf")
        most_bytes = self._config.refused_mib * _MIB
        count = yield from remove_old(self._paths.refused, before_s, most_bytes, self._spent)
        if count:
            log.info("%d old file(s) are removed from %s", count, self._paths.refused)

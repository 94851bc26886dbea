"""Which watched folders are looked into, and when.

inotify says that something has happened in a folder; a look is then started, a few at a time,
the folder that has waited longest first. When nothing happens nothing runs: once a minute the
time of each folder's last change is compared, for what inotify may have missed.

A folder that keeps changing, and one whose looks come to nothing, waits longer each time. So
its user can have a share of one processor, and others are served meanwhile.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import selectors
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import inotify_simple
from inotify_simple import flags

from radrm.errors import RadrmError, StoreError
from radrm.host.watched.looking import Running
from radrm.host.watched.names import claimed, is_job_file
from radrm.host.watched.start_look import Wanted
from radrm.host.watched.taking import Report
from radrm.host.watched.users import Owned

log = logging.getLogger("radrm")

AT_ONCE = 8
"""Looks, that is. They mostly wait for files to settle."""
RESCAN_S = 60.0
SHORTEST_PAUSE_S = 1.0
"""Between two looks into one folder."""
LONGEST_PAUSE_S = 60.0
"""After looks that come to nothing."""
LONGEST_CHANGE_S = 8.0
"""After looks that find a file still being written."""
MOST_MOVED = 100
"""Names that are remembered as renamed into place; others are watched until they are settled."""
MOST_NAMES = 5000
"""Names that are read to find out whether there is anything to look at."""
_AFTER_TROUBLE_S = 5.0

_EVENTS = flags.CREATE | flags.CLOSE_WRITE | flags.MOVED_TO | flags.ONLYDIR | flags.DONT_FOLLOW

Tell = Callable[[Owned, Report], None]
"""What is done with the report of each look."""


@dataclass(slots=True)
class _Kept:
    """What is known of one folder. Times are of the monotonic clock."""

    owned: Owned
    descriptor: int | None = None
    due: float | None = 0.0
    not_before: float = 0.0
    pause_s: float = SHORTEST_PAUSE_S
    changed_ns: int | None = None
    moved: set[str] = field(default_factory=set)
    running: Running | None = None


class Keeper:
    """Looks into `folders()` until it is stopped. `above` is a folder in which new ones appear.
    `drop`: looks are made as the owners of the folders; else as this process's user. `extra`:
    variables that jobs get beside those of their users' logins."""

    def __init__(
        self,
        folders: Callable[[], Iterable[Owned]],
        spool: str,
        tell: Tell,
        drop: bool,
        above: str | None = None,
        extra: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._folders = folders
        self._spool = spool
        self._tell = tell
        self._drop = drop
        self._above = above
        self._extra = dict(extra or {})
        self._clock = clock
        self._kept: dict[str, _Kept] = {}
        self._rescan_at = 0.0
        self._said = ""
        self._stopping = False
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        try:
            self._inotify = inotify_simple.INotify()
        except OSError as error:
            os.close(self._wake)
            raise StoreError(
                f"folders cannot be watched: {error.strerror}; end other programs that watch "
                "files, or raise the sysctl fs.inotify.max_user_instances"
            ) from error
        self._selector = selectors.DefaultSelector()
        for source in (self._wake, self._inotify.fileno()):
            self._selector.register(source, selectors.EVENT_READ)

    def stop(self) -> None:
        """Have `run` return. Safe in a signal handler and from another thread."""
        self._stopping = True
        with contextlib.suppress(OSError):  # it has returned already
            os.eventfd_write(self._wake, 1)

    def run(self) -> None:
        """Until `stop`. What a look has begun and not ended is gone on with by a later one."""
        try:
            while not self._stopping:
                try:
                    self.turn()
                except Exception:  # one folder's trouble, or the server's, must not end it all
                    log.exception("the watched folders cannot be looked into; trying again")
                    select.select([self._wake], [], [], _AFTER_TROUBLE_S)
        finally:
            for kept in self._kept.values():
                self._end(kept)
            self._selector.close()
            self._inotify.close()
            os.close(self._wake)

    def turn(self) -> None:
        """Wait until something is to be done, and do it. Never raises for what is in a folder."""
        self._selector.select(self._patience())
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._wake)
        self._notice()
        for kept in list(self._kept.values()):
            if kept.running is not None and kept.running.ended():
                self._end(kept)
        if self._clock() >= self._rescan_at:
            self._rescan()
        self._start()

    def idle(self) -> bool:
        """True when no look is under way or wanted."""
        return all(k.running is None and k.due is None for k in self._kept.values())

    # ------------------------------------------------------------- when

    def _patience(self) -> float:
        moments = [self._rescan_at]
        free = sum(k.running is not None for k in self._kept.values()) < AT_ONCE
        for kept in self._kept.values():
            if kept.running is not None:
                moments.append(kept.running.until)
            elif kept.due is not None and free:
                moments.append(max(kept.due, kept.not_before))
        return max(0.0, min(moments) - self._clock())

    def _notice(self) -> None:
        """What inotify has to say. Its queue is bounded, and so is what is kept of it."""
        by_descriptor = {kept.descriptor: kept for kept in self._kept.values()}
        for event in self._inotify.read(timeout=0):
            kept = by_descriptor.get(event.wd)
            if kept is None:
                self._rescan_at = 0.0  # a new folder, or the queue has overflowed
            elif event.mask & flags.IGNORED:
                kept.descriptor = None  # the folder is gone
                self._rescan_at = 0.0
            elif is_job_file(event.name):
                kept.due = kept.due or self._clock()
                if event.mask & flags.MOVED_TO and len(kept.moved) < MOST_MOVED:
                    kept.moved.add(event.name)
                elif not event.mask & flags.MOVED_TO:
                    kept.moved.discard(event.name)  # it is written again

    def _rescan(self) -> None:
        """Find folders that are new or gone, and those that have changed unnoticed."""
        self._rescan_at = self._clock() + RESCAN_S
        try:
            found = {owned.path: owned for owned in self._folders()}
            if self._above is not None:
                self._inotify.add_watch(self._above, flags.CREATE | flags.MOVED_TO | flags.ONLYDIR)
            self._said = ""
        except (RadrmError, OSError) as error:
            found = {}
            if str(error) != self._said:
                self._said = str(error)
                log.error("%s", error)
        for path in self._kept.keys() - found.keys():
            kept = self._kept.pop(path)
            self._end(kept)
            if kept.descriptor is not None:
                with contextlib.suppress(OSError):
                    self._inotify.rm_watch(kept.descriptor)
        for path, owned in found.items():
            kept = self._kept.setdefault(path, _Kept(owned))
            if kept.owned != owned:
                self._kept[path] = kept = _Kept(owned, descriptor=kept.descriptor)
            with contextlib.suppress(OSError):  # no more watches: it is seen once a minute
                kept.descriptor = self._inotify.add_watch(path, _EVENTS)
            changed_ns = _changed_ns(path)
            if changed_ns != kept.changed_ns:
                kept.changed_ns = changed_ns
                kept.due = kept.due or self._clock()

    # ------------------------------------------------------------- looks

    def _start(self) -> None:
        """Start looks that are due, those first that have waited longest."""
        now = self._clock()
        waiting = [k for k in self._kept.values() if k.due is not None and k.running is None]
        free = AT_ONCE - sum(k.running is not None for k in self._kept.values())
        for kept in sorted(waiting, key=lambda k: k.due or 0.0):
            if free <= 0 or kept.due is None or max(kept.due, kept.not_before) > now:
                continue
            kept.due = None
            # Before the look: what it misses and inotify too is seen by the next rescan.
            kept.changed_ns = _changed_ns(kept.owned.path)
            if not _anything(kept.owned):
                kept.moved.clear()
                continue
            try:
                kept.running = Running(self._wanted(kept))
            except OSError as error:
                self._put_off(kept, LONGEST_PAUSE_S)
                self._tell(kept.owned, Report([], [], trouble=f"no look can be started: {error}"))
                continue
            kept.moved.clear()
            self._selector.register(kept.running, selectors.EVENT_READ)
            free -= 1

    def _wanted(self, kept: _Kept) -> Wanted:
        return Wanted(
            folder=kept.owned.path,
            spool=self._spool,
            uid=kept.owned.uid if self._drop else None,
            gid=kept.owned.gid if self._drop else None,
            moved=sorted(kept.moved),
            extra=self._extra,
        )

    def _end(self, kept: _Kept) -> None:
        """Hear what a look came to, and decide when the next is due."""
        running, kept.running = kept.running, None
        if running is None:
            return
        self._selector.unregister(running)
        report = running.close()
        if report.trouble is not None:
            self._put_off(kept, LONGEST_PAUSE_S)
        elif report.unsettled:
            kept.moved.clear()  # a look that gives a file back moves it into place itself
            self._put_off(kept, LONGEST_CHANGE_S)
        else:
            kept.pause_s = SHORTEST_PAUSE_S
            kept.not_before = self._clock() + SHORTEST_PAUSE_S
            if report.more:
                kept.due = kept.not_before
        self._tell(kept.owned, report)

    def _put_off(self, kept: _Kept, longest_s: float) -> None:
        """Look again, later each time."""
        kept.pause_s = min(kept.pause_s, longest_s)
        kept.due = kept.not_before = self._clock() + kept.pause_s
        kept.pause_s *= 2


def _changed_ns(path: str) -> int | None:
    try:
        return os.stat(path, follow_symlinks=False).st_mtime_ns
    except OSError:
        return None


def _anything(owned: Owned) -> bool:
    """True where a look may find something. Names are read, no file is opened; what is mounted
    over the folder is its user's affair, and only a look goes there."""
    try:
        above = os.stat(os.path.dirname(owned.path), follow_symlinks=False)
        fd = os.open(owned.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return True  # the look says what is wrong
    try:
        if os.fstat(fd).st_dev != above.st_dev:
            return True
        with os.scandir(fd) as entries:
            for number, entry in enumerate(entries):
                if is_job_file(entry.name) or claimed(entry.name) or number > MOST_NAMES:
                    return True
        return False
    finally:
        os.close(fd)

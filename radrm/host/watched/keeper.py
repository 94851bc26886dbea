"""Decides which watched folders get a look, and when.

Theory of operation:

- inotify reports a change in a folder, and the keeper starts a look. A few looks run at the same
  time, one per folder; the folder that has waited longest comes first.
- inotify may lose events. So the keeper compares the time of each folder's last change once a
  minute, and notes that time before each look.
- A folder that keeps changing, and one whose looks fail, waits longer each time. So one user gets
  at most a part of one processor, and the others are served meanwhile.
- One thread runs all of it; only `stop` may come from another thread. A restart begins with a look
  into every folder that has a file; such a look continues the claims of an earlier one.
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
from radrm.host.folders import OpenFolder
from radrm.host.watched.looking import Running
from radrm.host.watched.names import claimed, is_job_file
from radrm.host.watched.start_look import Wanted
from radrm.host.watched.taking import Report
from radrm.host.watched.users import Owned

log = logging.getLogger("radrm")

AT_ONCE = 8
"""Looks that run at the same time. They mostly wait until files are complete."""
RESCAN_S = 60.0
SHORTEST_PAUSE_S = 1.0
"""The shortest pause between two looks into one folder."""
LONGEST_PAUSE_S = 60.0
"""The longest pause after looks that fail."""
LONGEST_CHANGE_S = 8.0
"""The longest pause after looks that find a file that still changes."""
MOST_MOVED = 100
"""Names per folder that are kept as renamed into place. A look waits until the others settle."""
MOST_NAMES = 5000
"""Names that are read to find out whether a look is needed; with more, a look is started."""
_AFTER_ERROR_S = 5.0

_EVENTS = flags.CREATE | flags.CLOSE_WRITE | flags.MOVED_TO | flags.ONLYDIR | flags.DONT_FOLLOW

OnReport = Callable[[Owned, Report], None]
"""A function that receives the report of each look."""


@dataclass(slots=True)
class _Watched:
    """The state of one folder. Times are of the monotonic clock; `due` is None for no look."""

    owned: Owned
    descriptor: int | None = None
    due: float | None = 0.0
    not_before: float = 0.0
    pause_s: float = SHORTEST_PAUSE_S
    changed_ns: int | None = None
    moved: set[str] = field(default_factory=set)
    running: Running | None = None


class Keeper:
    """Starts looks into `folders()` until it is stopped.

    `above` is the folder in which new ones appear. With `drop` each look runs as the folder's
    owner, else as this process's user. `extra` are variables that jobs get in addition to those of
    their users' logins.
    """

    def __init__(
        self,
        folders: Callable[[], Iterable[Owned]],
        spool: str,
        on_report: OnReport,
        drop: bool,
        above: str | None = None,
        extra: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._folders = folders
        self._spool = spool
        self._on_report = on_report
        self._drop = drop
        self._above = above
        self._extra = dict(extra or {})
        self._clock = clock
        self._kept: dict[str, _Watched] = {}
        self._rescan_at = 0.0
        self._last_error = ""
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
        """Make `run` return. Safe in a signal handler and from another thread."""
        self._stopping = True
        with contextlib.suppress(OSError):  # `run` has already returned
            os.eventfd_write(self._wake, 1)

    def run(self) -> None:
        """Run until `stop`. A later look continues what an ended one has not finished."""
        try:
            while not self._stopping:
                try:
                    self.turn()
                except Exception:  # a failure of one folder or of the server must not end the loop
                    log.exception(
                        "cannot look into the watched folders; trying again in %g s",
                        _AFTER_ERROR_S,
                    )
                    select.select([self._wake], [], [], _AFTER_ERROR_S)
        finally:
            for kept in self._kept.values():
                self._end(kept)
            self._selector.close()
            self._inotify.close()
            os.close(self._wake)

    def turn(self) -> None:
        """Wait until something is due, and do it. No content of a folder makes it raise."""
        self._selector.select(self._wait_s())
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._wake)
        self._read_events()
        for kept in list(self._kept.values()):
            if kept.running is not None and kept.running.ended():
                self._end(kept)
        if self._clock() >= self._rescan_at:
            self._rescan()
        self._start()

    def idle(self) -> bool:
        """True if no look runs and none is due."""
        return all(k.running is None and k.due is None for k in self._kept.values())

    # ------------------------------------------------------------- when

    def _wait_s(self) -> float:
        """Seconds until the next look or rescan is due."""
        moments = [self._rescan_at]
        free = sum(k.running is not None for k in self._kept.values()) < AT_ONCE
        for kept in self._kept.values():
            if kept.running is not None:
                moments.append(kept.running.until)
            elif kept.due is not None and free:
                moments.append(max(kept.due, kept.not_before))
        return max(0.0, min(moments) - self._clock())

    def _read_events(self) -> None:
        """Note the events of inotify. Its queue is limited, and so are the names kept from it."""
        by_descriptor = {kept.descriptor: kept for kept in self._kept.values()}
        for event in self._inotify.read(timeout=0):
            kept = by_descriptor.get(event.wd)
            if kept is None:
                self._rescan_at = 0.0  # there is a new folder, or the queue has overflowed
            elif event.mask & flags.IGNORED:
                kept.descriptor = None  # the folder was removed
                self._rescan_at = 0.0
            elif is_job_file(event.name):
                kept.due = kept.due or self._clock()
                if event.mask & flags.MOVED_TO and len(kept.moved) < MOST_MOVED:
                    kept.moved.add(event.name)
                elif not event.mask & flags.MOVED_TO:
                    kept.moved.discard(event.name)  # a program writes it again

    def _rescan(self) -> None:
        """Find new and removed folders, and changes that inotify has missed."""
        self._rescan_at = self._clock() + RESCAN_S
        try:
            found = {owned.path: owned for owned in self._folders()}
            if self._above is not None:
                self._inotify.add_watch(self._above, flags.CREATE | flags.MOVED_TO | flags.ONLYDIR)
            self._last_error = ""
        except (RadrmError, OSError) as error:
            found = {}
            if str(error) != self._last_error:
                self._last_error = str(error)
                log.error("%s", error)
        for path in self._kept.keys() - found.keys():
            kept = self._kept.pop(path)
            self._end(kept)
            if kept.descriptor is not None:
                with contextlib.suppress(OSError):
                    self._inotify.rm_watch(kept.descriptor)
        for path, owned in found.items():
            kept = self._kept.setdefault(path, _Watched(owned))
            if kept.owned != owned:
                self._kept[path] = kept = _Watched(owned, descriptor=kept.descriptor)
            # Without a watch a rescan finds its changes.
            with contextlib.suppress(OSError), self._open(owned) as folder:
                path_of_open = f"/proc/self/fd/{folder.fd}/."
                kept.descriptor = self._inotify.add_watch(path_of_open, _EVENTS)
            changed_ns = self._changed_ns(owned)
            if changed_ns != kept.changed_ns:
                kept.changed_ns = changed_ns
                kept.due = kept.due or self._clock()

    # ------------------------------------------------------------- looks

    def _start(self) -> None:
        """Start the looks that are due; the folder that has waited longest comes first."""
        now = self._clock()
        waiting = [k for k in self._kept.values() if k.due is not None and k.running is None]
        free = AT_ONCE - sum(k.running is not None for k in self._kept.values())
        for kept in sorted(waiting, key=lambda k: k.due or 0.0):
            if free <= 0 or kept.due is None or max(kept.due, kept.not_before) > now:
                continue
            kept.due = None
            # Note the time before the look. The next rescan then finds a change that both the look
            # and inotify have missed.
            kept.changed_ns = self._changed_ns(kept.owned)
            if not self._may_have_files(kept.owned):
                kept.moved.clear()
                continue
            try:
                kept.running = Running(self._wanted(kept))
            except OSError as error:
                self._postpone(kept, LONGEST_PAUSE_S)
                self._on_report(
                    kept.owned, Report([], [], error=f"no look can be started: {error}")
                )
                continue
            kept.moved.clear()
            self._selector.register(kept.running, selectors.EVENT_READ)
            free -= 1

    def _open(self, owned: Owned) -> OpenFolder:
        """A watched folder. What another user has mounted over it is not entered: only a look,
        which has limited time, enters that. Raises `OSError`."""
        if not self._drop:
            return OpenFolder(owned.path)
        with OpenFolder(os.path.dirname(owned.path)) as above:
            return above.below(os.path.basename(owned.path))

    def _changed_ns(self, owned: Owned) -> int | None:
        try:
            with self._open(owned) as folder:
                return os.fstat(folder.fd).st_mtime_ns
        except OSError:
            return None

    def _may_have_files(self, owned: Owned) -> bool:
        """True if a look may find a file. Reads names and opens no file."""
        try:
            with self._open(owned) as folder, os.scandir(folder.fd) as entries:
                for number, entry in enumerate(entries):
                    if is_job_file(entry.name) or claimed(entry.name) or number > MOST_NAMES:
                        return True
            return False
        except OSError:
            return True  # the look reports the error

    def _wanted(self, kept: _Watched) -> Wanted:
        return Wanted(
            folder=kept.owned.path,
            spool=self._spool,
            uid=kept.owned.uid if self._drop else None,
            gid=kept.owned.gid if self._drop else None,
            moved=sorted(kept.moved),
            extra=self._extra,
        )

    def _end(self, kept: _Watched) -> None:
        """Read a look's report, and decide when the next look is due."""
        running, kept.running = kept.running, None
        if running is None:
            return
        self._selector.unregister(running)
        report = running.close()
        if report.error is not None:
            self._postpone(kept, LONGEST_PAUSE_S)
        elif report.unsettled:
            # A look that undoes a claim renames the file itself, which must not make it complete.
            kept.moved.clear()
            self._postpone(kept, LONGEST_CHANGE_S)
        else:
            kept.pause_s = SHORTEST_PAUSE_S
            kept.not_before = self._clock() + SHORTEST_PAUSE_S
            if report.more:
                kept.due = kept.not_before
        self._on_report(kept.owned, report)

    def _postpone(self, kept: _Watched, longest_s: float) -> None:
        """Make the next look due after a pause that doubles each time, up to `longest_s`."""
        kept.pause_s = min(kept.pause_s, longest_s)
        kept.due = kept.not_before = self._clock() + kept.pause_s
        kept.pause_s *= 2

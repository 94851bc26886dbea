"""What wakes the loop's thread: other threads, ends of processes, new files in the spool.

Theory of operation. Any thread and any signal handler may call `wake`. The call is kept until
`clear`, so one that comes before the wait ends that wait at once. Nothing here says what has
happened: the loop looks at everything after each wait, and a lost notice only delays it.
"""

from __future__ import annotations

import os
import selectors
from collections.abc import Iterable

import inotify_simple

from radrm.errors import Refused


class Wakeups:
    """Used by the loop's thread, except `wake`."""

    def __init__(self) -> None:
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        try:
            self._inotify = inotify_simple.INotify()
        except OSError as error:
            raise Refused(
                f"no inotify instance can be made: {error.strerror}; raise the limit of this user: "
                "sysctl fs.inotify.max_user_instances=512"
            ) from None
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._wake, selectors.EVENT_READ)
        self._selector.register(self._inotify.fileno(), selectors.EVENT_READ)
        self._processes: set[int] = set()

    def wake(self) -> None:
        """End the wait under way, or the next one. Safe in any thread and in a signal handler."""
        os.eventfd_write(self._wake, 1)

    def watch_folder(self, path: str) -> None:
        """Wake the thread when a file is renamed into this folder."""
        self._inotify.add_watch(path, inotify_simple.flags.MOVED_TO)

    def wait(self, seconds: float, processes: Iterable[int]) -> None:
        """Wait until something happens. A descriptor of `processes` is readable at an end."""
        wanted = set(processes)
        for fd in self._processes - wanted:
            self._selector.unregister(fd)
        for fd in wanted - self._processes:
            self._selector.register(fd, selectors.EVENT_READ)
        self._processes = wanted
        self._selector.select(seconds)

    def clear(self) -> None:
        """Forget the calls of `wake` so far. Clear first, then look: the other order could lose
        a call in between."""
        try:
            os.eventfd_read(self._wake)
        except BlockingIOError:
            pass

    def arrived(self) -> tuple[list[str], bool]:
        """The names of new files, and whether the kernel has dropped some."""
        events = self._inotify.read(timeout=0)
        dropped = any(event.mask & inotify_simple.flags.Q_OVERFLOW for event in events)
        return [event.name for event in events], dropped

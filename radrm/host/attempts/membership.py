"""Keep the runner in its job's control group while it forks the job.

The kernel needs some 10 ms to move a process into a group, and nothing to fork a process inside
one. So the runner enters the group in a thread, while Python imports; forks the job; and leaves
while the job already runs.
"""

from __future__ import annotations

import _thread
import os

from radrm.host.processes import cgroups


class Membership:
    """Makes the group `path` and has this process join it, beginning now."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._inside = False
        self._settled = _thread.allocate_lock()
        self._settled.acquire()
        _thread.start_new_thread(self._enter, ())

    def _enter(self) -> None:
        try:
            self._inside = cgroups.make(self.path) and cgroups.join(self.path, os.getpid())
        finally:
            self._settled.release()

    def inside(self) -> bool:
        """True when this process is in the group. Waits until that is settled."""
        with self._settled:
            return self._inside

    def leave(self) -> bool:
        """Go back to the daemon's group; False when this process has to stay."""
        if self.inside() and cgroups.leave(self.path):
            self._inside = False
        return not self._inside

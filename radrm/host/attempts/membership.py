"""The runner's own stay in its job's control group, so that the job is born into it.

The kernel takes some 10 ms to move a process into a group, and no time at all to fork
one inside. So the runner moves itself, in a thread, while Python imports what it needs;
forks the job; and moves out again while the job runs already.
"""

from __future__ import annotations

import _thread
import os

from radrm.host.attempts import cgroups


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
        """Whether this process is in the group, as soon as that is settled."""
        with self._settled:
            return self._inside

    def leave(self) -> bool:
        """Go back to the group above; False when this process has to stay."""
        if self.inside() and cgroups.join(os.path.dirname(self.path), os.getpid()):
            self._inside = False
        return not self._inside

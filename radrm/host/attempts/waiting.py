"""Attempts whose runner waits for them: the batch step of a Slurm job, a process of the job's user.

Theory of operation. Such an attempt has a second folder inside the daemon's, `step`, which belongs
to the job's user. The launch record in the daemon's folder stays the truth for the daemon. The
step gets a copy, and writes lock, claim, start and end as every runner does, and at last `over`:

    over.json   the step's: nothing follows from this attempt any more; and why its Slurm job ends,
                and since when, if it does

So the daemon does not look at an end before the step has said whether Slurm caused it. A user can
write anything there. So the daemon follows no link, reads little, waits for nothing, and believes
that a process is the runner only if it is the step's child and the job's user's.
"""

from __future__ import annotations

import contextlib
import errno
import os

from radrm.errors import StoreError, plain
from radrm.host.attempts import folder as attempts
from radrm.host.attempts.elastic.folders import clear
from radrm.host.attempts.evidence import Ended, Evidence, Lost, OuterEnd, Void
from radrm.host.clock import Clock
from radrm.host.crossings import crossed
from radrm.host.folders import OpenFolder
from radrm.host.processes.identity import Identity, alive, boot_id, identify
from radrm.host.processes.procfs import read_stat, uid_of
from radrm.host.storage.files import fsync_folder
from radrm.structs import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from radrm.host.attempts.folder import Fields


# ------------------------------------------------------------------
# The folder that an attempt's step runs it from: made by the daemon, its user's to write.


def make(folder: str, record: Fields) -> None:
    """Make the step's folder in that of the attempt, with a copy of its launch record. OSError."""
    uid, gid = record["uid"], record["gid"]
    path = os.path.join(folder, attempts.STEP)
    os.mkdir(path, 0o700)
    # The step is the user, and in Slurm's groups: nothing of that is changed or left.
    attempts.write_record(path, attempts.LAUNCH, {**record, "uid": None, "gid": None})
    if uid is not None:
        os.chown(os.path.join(path, attempts.LAUNCH), uid, gid, follow_symlinks=False)
        os.chown(path, uid, gid, follow_symlinks=False)
    fsync_folder(folder)
    crossed("attempt handed over")


def exists(folder: str) -> bool:
    """Whether a step's folder is in that of the attempt. It may be covered by a mount."""
    try:
        with OpenFolder(folder) as above:
            above.stat(attempts.STEP)
    except OSError as error:
        return error.errno == errno.EXDEV
    return True


def remove(folder: str) -> None:
    """Remove the step's folder from that of the attempt, as far as radrm has written it.

    It belongs to a user, so no name in it is listed and no link followed. Raises OSError: with
    ENOTEMPTY or EBUSY where its user has put something there.
    """
    with OpenFolder(folder) as above:
        try:
            own = above.below(attempts.STEP)
        except FileNotFoundError:
            return
        with own:
            for name in (*attempts.RECORDS, attempts.OVER):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=own.fd)
        os.rmdir(attempts.STEP, dir_fd=above.fd)


def clear_rest(folder: str) -> None:
    """Remove what its user has put into the step's folder, as that user. That takes some seconds
    at most, so a thread does it. What is left then stays."""
    clear(os.path.join(folder, attempts.STEP))


# ------------------------------------------------------------------
# What the records of a step prove. They lie in a folder that belongs to a user.


_MOST_READ = 2 << 20
"""Bytes of one record: the ends of two logs, with every character escaped."""
GONE = ("cancelled", "timeout", "preempted")
"""Why a step may say that its Slurm job ends."""
_LONGEST_WHY = 200


class StepEvidence(Evidence):
    """The records of an attempt whose runner is the child of `step`, a process of user `uid`."""

    def __init__(self, folder: str, clock: Clock, uid: int, step: Identity) -> None:
        super().__init__(os.path.join(folder, attempts.STEP), clock)
        self.launch_folder = folder
        self._uid = uid
        self._step = step
        self._stood_down = False

    def _opened(self) -> OpenFolder:
        """The step's folder itself: its user may have mounted something over it, or in it."""
        with OpenFolder(self.launch_folder) as above:
            return above.below(attempts.STEP)

    def _read(self, name: str) -> tuple[attempts.Fields | None, str | None]:
        def opened() -> int:
            with self._opened() as folder:
                return folder.open(name, attempts.READING)

        return attempts.read_opened(opened, name, _MOST_READ)

    @property
    def is_there(self) -> bool:
        return exists(self.launch_folder)

    @property
    def is_over(self) -> bool:
        """True once the step has said its last word, has ended, or never runs the attempt."""
        return self._stood_down or not alive(self._step) or self._has_said_so()

    def _has_said_so(self) -> bool:
        with contextlib.suppress(OSError), self._opened() as folder:
            folder.stat(attempts.OVER)
            return True
        return False

    def stand_down(self) -> bool:
        """Have the step never run the attempt; False if it has begun to. Raises OSError."""
        self._stood_down = self._stood_down or self._take_claim()
        return self._stood_down

    def _take_claim(self) -> bool:
        me = identify(os.getpid())
        assert me is not None
        with self._opened() as folder:
            return attempts.Claim.take(folder.path, attempts.DAEMON, me)

    def _outer_end(self) -> OuterEnd | None:
        """Why the step's Slurm job ends, as the step has said; None: it has not."""
        record, _ = self._read(attempts.OVER)
        if record is None or record["gone"] not in GONE:
            return None
        why = plain((record["why"] or "")[:_LONGEST_WHY])
        return OuterEnd(record["gone"], why, self._instant(record))

    def ended(self) -> Ended | None:
        found = super().ended() if self.is_over else None
        return None if found is None else replace(found, outer=self._outer_end())

    def lost(self, event: str) -> Lost:
        return replace(super().lost(event), outer=self._outer_end())

    def job(self) -> Identity | None:
        job = super().job()
        return job if job is not None and uid_of(job.pid) == self._uid else None

    def runner(self) -> Identity | Void | None:
        """The attempt's runner, if that lives; Void when there is none and never will be.

        None for one that does not prove that it is the step's child.
        """
        try:
            if self._read(attempts.START) == (None, None) and self._take_claim():
                return Void()
        except FileNotFoundError:
            return Void()
        except OSError as error:
            raise StoreError(
                f"what became of the attempt in {self.folder} cannot be told: {error.strerror}; "
                "fix that and start the daemon again"
            ) from error
        return self.runner_now()

    def runner_now(self) -> Identity | None:
        """The attempt's runner, if there is one and it lives."""
        start, _ = self._read(attempts.START)
        if start is not None:
            who = Identity(start["runner_pid"], start["runner_start_ticks"], start["boot_id"])
        else:
            claim, _ = self._read(attempts.CLAIM)
            if claim is None or claim["by"] != attempts.RUNNER:
                return None
            who = Identity(claim["pid"], claim["start_ticks"], claim["boot_id"])
        return who if self._is_child(who) else None

    def _is_child(self, who: Identity) -> bool:
        """Whether a process is a child of the step, and of the job's user."""
        stat = read_stat(who.pid)
        return (
            stat is not None
            and not stat.dead
            and (stat.start_ticks, who.boot_id) == (who.start_ticks, boot_id())
            and stat.parent == self._step.pid
            and uid_of(who.pid) == self._uid
        )

"""One look into a watched folder: the main program of a process that becomes the folder's owner.

    python -I -S look.py       (`Wanted` as JSON on standard input)

Each complete file is claimed (a rename to a name that holds a ticket), the folder is synced, an
envelope is put under that ticket, and the file is moved to `done/`. After a kill the next look goes
on with the claim. It may put the envelope again, under the same ticket: that replaces the first in
the spool, or the store knows the ticket and drops the second. So no file becomes two jobs, and none
is lost.

The process opens the folder without following links, checks what it has opened, and reaches all
files through these descriptors. All imports come before the change of user, because that user may
have no right to read this Python installation. The process ends itself at its time limit.
"""

from __future__ import annotations

import contextlib
import fcntl
import io
import json
import os
import pwd
import stat
import sys
import time
from importlib import import_module
from itertools import islice

if not __package__:
    # With `-I` Python adds no folder of ours to `sys.path`; the package is three folders up.
    sys.path.append(os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 3)))

from radrm.errors import BadFile, RadrmError, Refused, StoreError, plain
from radrm.host.attempts.job_process import CannotStart, drop_rights
from radrm.host.mistakes import look_over
from radrm.host.processes.errand import confine
from radrm.host.storage.spool import Spool
from radrm.host.storage.submission import envelope_of, here, with_table
from radrm.host.storage.tickets import new_ticket
from radrm.host.transient import is_transient
from radrm.host.watched.folders import DONE, REASON, REFUSED, claim_of, claimed, is_job_file
from radrm.host.watched.login import Login, User, log_in
from radrm.jobfile.radfile import MAX_BYTES, JobFile, read_job_file
from radrm.jobfile.record import Record
from radrm.jobfile.relations import ONLY_IDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

for _name in ("datetime", "difflib", "shlex"):
    import_module(_name)  # the parser of job files imports these only when it needs them

LIMIT_S = 60
"""Seconds after which a look's process is ended."""
SETTLE_S = 2.0
"""Seconds without a change after which a file counts as complete."""
MOST_FILES = 200
"""Files that one look takes; the others wait for the next look."""
MOST_NAMES = 100_000
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# O_NONBLOCK: a file may have become a FIFO since it was seen, and that would block.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class Wanted(Record):
    """What to look into, and as which user. With `uid` and `gid` None it is this process's user."""

    folder: str
    spool: str
    uid: int | None = None
    gid: int | None = None
    extra: dict[str, str] = {}
    """Variables that the jobs get in addition to those of the login."""
    cgroup: str | None = None


class Changed(Exception):
    """A file has changed since it was seen, or another look has the folder: look again."""


def main() -> None:
    with open(0, "rb", closefd=False) as source:
        wanted = Wanted(**json.loads(source.read()))
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    report: dict[str, Any] = {}
    try:
        confine(LIMIT_S, wanted.cgroup)
        user = user_of(os.getuid() if wanted.uid is None else wanted.uid)
        drop_rights({"uid": wanted.uid, "gid": wanted.gid, "user": user.name})
        os.umask(0o077)
        with contextlib.ExitStack() as opened:
            look = Look(wanted.folder, Spool(wanted.spool), user, opened, wanted.extra)
            report = look.run()
    except (CannotStart, RadrmError, OSError, ValueError) as error:
        report = {"error": str(error)}
    with open(1, "wb", closefd=False) as out:
        # `plain`, because a name may hold bytes that are not UTF-8.
        out.write(plain(json.dumps(report, ensure_ascii=False)).encode())


def user_of(uid: int) -> User:
    """The entry of a user; a user without one gets a number as name and no home folder."""
    try:
        found = pwd.getpwuid(uid)
    except KeyError:
        return User(str(uid), "/nonexistent", "/bin/sh")
    return User(found.pw_name, found.pw_dir or "/nonexistent", found.pw_shell or "/bin/sh")


class Look:
    """A look into `folder`, which it opens for as long as `opened` is. Raises `StoreError` if other
    users can write to the folder."""

    def __init__(
        self,
        folder: str,
        spool: Spool,
        user: User,
        opened: contextlib.ExitStack,
        extra: dict[str, str] | None = None,
        pause: Callable[[float], None] = time.sleep,
        log_in: Callable[[User], Login] = log_in,
    ) -> None:
        self._path, self._spool, self._user, self._extra = folder, spool, user, extra or {}
        self._pause, self._log_in = pause, log_in
        self._login: Login | None = None
        self._fd = _open(folder, folder, None, opened)
        self._below = {}
        for name in (REFUSED, DONE):
            path = os.path.join(folder, name)
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, 0o700, dir_fd=self._fd)
            self._below[name] = _open(path, name, self._fd, opened)
        self._taken: list[tuple[str, str, str]] = []
        self._refused: list[tuple[str, str]] = []
        self._notes: list[str] = []

    def run(self) -> dict[str, Any]:
        """Submit all complete files. Returns a report: names, tickets and names of jobs `taken`,
        names and reasons `refused`, `notes`, whether to look `again`, and an `error`."""
        again, error = True, None
        printed = io.StringIO()  # the warnings that `radrm submit` prints for its user
        try:
            with contextlib.suppress(BlockingIOError), contextlib.redirect_stderr(printed):
                fcntl.flock(self._below[DONE], fcntl.LOCK_EX | fcntl.LOCK_NB)
                again = self._run()
        except (OSError, StoreError, MemoryError) as wrong:
            words = wrong.strerror if isinstance(wrong, OSError) else str(wrong)
            error = f"{self._path}: {words or type(wrong).__name__}; its files wait"
        self._notes += printed.getvalue().splitlines()[:MOST_FILES]
        found = {"taken": self._taken, "refused": self._refused, "notes": self._notes}
        return {**found, "again": again, "error": error}

    def _run(self) -> bool:
        """Take the files that are complete. True if others are left."""
        with os.scandir(self._fd) as entries:
            listed = [entry.name for entry in islice(entries, MOST_NAMES)]
        names = sorted(name for name in listed if is_job_file(name) or claimed(name))
        again, names = len(names) > MOST_FILES, names[:MOST_FILES]
        seen = {name: self._seen(name) for name in names}
        if names:
            self._pause(SETTLE_S)
        for name in names:
            try:
                if self._seen(name) != seen[name]:
                    raise Changed
                self._take(name, seen[name])
            except (Changed, FileNotFoundError):
                again = True
            except OSError as error:
                if is_transient(error):
                    raise
                self._notes.append(f"{name!a} cannot be moved: {error.strerror}")
                again = True
        return again

    def _seen(self, name: str) -> tuple[int, ...] | None:
        try:
            return _seen(os.stat(name, dir_fd=self._fd, follow_symlinks=False))
        except OSError:
            return None

    def _take(self, name: str, seen: tuple[int, ...] | None) -> None:
        """Submit a file, or refuse it. Raises `OSError` and `StoreError`, which no file causes: it
        stays claimed, and a later look goes on."""
        found, claim = claimed(name), name
        if found is None:
            found = new_ticket(), name
            claim = claim_of(*found)
            os.rename(name, claim, src_dir_fd=self._fd, dst_dir_fd=self._fd)
        ticket, own = found
        try:
            if "\ufffd" in plain(own):
                raise BadFile("its name holds characters that cannot be shown; rename it")
            job = self._put(ticket, own, self._read(claim, seen))
        except (StoreError, MemoryError):
            raise
        except RadrmError as error:
            self._refuse(claim, str(error))
            self._refused.append((plain(own), str(error)))
        else:
            self._taken.append((own, ticket, job))
            os.rename(claim, claim[1:], src_dir_fd=self._fd, dst_dir_fd=self._below[DONE])

    def _read(self, claim: str, seen: tuple[int, ...] | None) -> bytes:
        """The content of a claimed file. Raises `BadFile` with the reason why it cannot be a job,
        `Changed` if it differs from `seen`, and `OSError` for a failure that may pass."""
        _check(os.stat(claim, dir_fd=self._fd, follow_symlinks=False))
        try:
            with open(os.open(claim, _FILE, dir_fd=self._fd), "rb") as file:
                _check(os.fstat(file.fileno()))
                data = file.read(MAX_BYTES + 1)
                if _seen(os.fstat(file.fileno())) != seen:
                    raise Changed
                return data
        except OSError as error:
            if is_transient(error):
                raise
            raise BadFile(f"it cannot be opened: {error.strerror}") from None

    def _put(self, ticket: str, name: str, data: bytes) -> str:
        """Submit a file; return the job's name. Raises `RadrmError` for a wrong file."""
        try:
            job_file = read_job_file(data, name, {}).dated(here(), name)
        except (RadrmError, MemoryError):
            raise
        except Exception as error:  # an error that one file causes must not stop the others
            raise BadFile(f"it cannot be read: {type(error).__name__}: {error}") from error
        self._enter_home(job_file.options.chdir)
        if job_file.options.snapshot is not None:
            raise BadFile("--snapshot is for the command line of radrm submit; leave it out")
        named = next((each.job for each in job_file.options.after if each.looked_up), None)
        if named is not None:
            raise BadFile(f"--after={named}: {ONLY_IDS}")
        job_file = with_table(job_file)
        if self._login is None:
            self._login = self._log_in(self._user)
            self._notes += [self._login.note] if self._login.note else []
        envelope = envelope_of(
            job_file,
            os.path.join(self._path, name),
            data,
            {},
            ticket=ticket,
            environment={**self._login.environment, **self._extra},
            umask=self._login.umask,
        )
        seen_to: JobFile = look_over(job_file, envelope.cwd, envelope.environment, name)
        self._notes += [f"{name}: {note}" for note in seen_to.notes]
        # A claim that a power failure undoes would get another ticket: one file, two jobs.
        os.fsync(self._fd)
        self._spool.drop_draft(ticket)  # a killed look may have left one
        try:
            self._spool.put([envelope])
        except Refused as error:  # too many envelopes of the user, which is not this file's fault
            raise StoreError(str(error)) from None
        return job_file.name

    def _enter_home(self, chdir: str | None) -> None:
        """Enter the folder in which the job runs; relative paths of the file start there."""
        try:
            os.chdir(self._user.home)
        except OSError as error:
            if chdir is None or not chdir.startswith("/"):
                raise BadFile(
                    f"your home folder {self._user.home} cannot be entered: {error.strerror}; name "
                    "another folder with a line: #RAD --chdir=/FOLDER"
                ) from None
            os.chdir("/")

    def _refuse(self, claim: str, reason: str) -> None:
        """Write the reason to `refused/`, then move the file there. Raises `OSError`."""
        name, below = claim[1:], self._below[REFUSED]
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK
        with open(os.open(name + REASON, flags, 0o600, dir_fd=below), "wb") as file:
            file.write(f"{reason}\n".encode("utf-8", "replace"))
        try:
            os.rename(claim, name, src_dir_fd=self._fd, dst_dir_fd=below)
        except OSError as error:
            if is_transient(error):
                raise
            # Its owner may not move a folder without write permission on it. Renamed here, it is
            # no job file any more.
            os.rename(claim, name + ".refused", src_dir_fd=self._fd, dst_dir_fd=self._fd)


def _open(path: str, name: str, above: int | None, opened: contextlib.ExitStack) -> int:
    """Open a folder of this user's own, to which no other user can write. Raises `StoreError`."""
    try:
        fd = os.open(name, _FOLDER, dir_fd=above)
    except OSError as error:
        raise StoreError(f"{path} is no folder ({error.strerror}); move it away") from error
    opened.callback(os.close, fd)
    found, me = os.fstat(fd), os.geteuid()
    if found.st_uid != me:
        raise StoreError(f"{path} belongs to user {found.st_uid}, not to user {me}; move it away")
    if found.st_mode & 0o022:
        raise StoreError(
            f"others may write to {path} (mode {stat.S_IMODE(found.st_mode):04o}), so its files "
            f"may be theirs; run: chmod go-w {path}"
        )
    return fd


def _seen(found: os.stat_result) -> tuple[int, ...]:
    """A file at one moment: equal to the same file later if its content has not changed."""
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _check(found: os.stat_result) -> None:
    """Raise `BadFile` for anything but a regular file of this user with one name."""
    if not stat.S_ISREG(found.st_mode):
        kinds = {stat.S_IFLNK: "a symbolic link", stat.S_IFDIR: "a folder", stat.S_IFIFO: "a FIFO"}
        kind = kinds.get(stat.S_IFMT(found.st_mode), "a device or a socket")
        raise BadFile(f"it is {kind}, not a regular file; put a copy of the file here")
    if found.st_uid != os.geteuid():
        raise BadFile(
            f"it belongs to user {found.st_uid}, not to user {os.geteuid()}; put a copy of it here"
        )
    if found.st_nlink != 1:
        raise BadFile(f"it has {found.st_nlink} names (hard links); put a copy of it here")
    if found.st_size > MAX_BYTES:
        raise BadFile(
            f"it has {found.st_size} bytes, and a job file has {MAX_BYTES} at most; "
            "put a script here that starts your program"
        )


if __name__ == "__main__":
    main()

"""The folders of a daemon, their disk, the store."""

from __future__ import annotations

import os
import re
import sqlite3
import stat
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from urllib.parse import quote

from radrm.host.health.finding import Finding, fail, ok, warn
from radrm.host.processes.procfs import mounts_of
from radrm.host.storage.paths import Paths
from radrm.host.storage.schema import SCHEMA_VERSION
from radrm.host.wall import wall_s
from radrm.host.watched.folders import REASON, REFUSED, SUFFIX, claimed, is_job_file

_GIB = 1 << 30
_FEW_INODES = 10_000
# Names of file systems in /proc/self/mountinfo.
# fmt: off
_NETWORK = {
    "nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "beegfs", "ceph", "fuse.ceph",
    "fuse.glusterfs", "fuse.s3fs", "fuse.sshfs", "gfs2", "gpfs", "lustre", "ocfs2", "panfs",
    "pvfs2", "virtiofs",
}
# fmt: on
_IN_MEMORY = {"tmpfs", "ramfs"}
_OCTAL = re.compile(r"\\([0-7]{3})")


# ------------------------------------------------------------------ folders


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder as `radrm.host.storage.paths.prepare` makes it."""

    name: str
    path: str
    mode: int
    may_be_link: bool = True
    """False for a folder in which the daemon removes files; it refuses a link there."""


def folders(paths: Paths, system: bool) -> tuple[Folder, ...]:
    open_mode = 0o711 if system else 0o700
    return (
        Folder("state folder", paths.state, open_mode),
        Folder("spool folder", paths.spool, 0o1777 if system else 0o700, may_be_link=False),
        Folder("store folder", paths.store, 0o700, may_be_link=False),
        Folder("attempts folder", paths.attempts, open_mode, may_be_link=False),
        Folder("checkpoints folder", paths.checkpoints, open_mode),
        Folder("run folder", paths.run, 0o755 if system else 0o700),
    )


def folder(wanted: Folder, owner: int, served: bool) -> Finding:
    """Whether a folder has the right owner and mode. `owner`: the daemon's user; `served`: it
    runs now."""
    name, path = wanted.name, wanted.path
    if not wanted.may_be_link and os.path.islink(path):
        leads = f"{path} is a symbolic link: the daemon does not start with it"
        return fail(name, leads, "remove the link; the daemon makes a folder there")
    try:
        found = os.stat(path)
    except FileNotFoundError:
        if served:
            gone = f"{path} does not exist, and a daemon runs"
            return fail(name, gone, "restart the daemon, which makes it; running jobs continue")
        return ok(name, f"{path} does not exist yet; the daemon makes it when it starts")
    except PermissionError:
        return ok(name, f"{path} cannot be seen by this user")
    except OSError as error:
        again = "see what is there; the daemon makes the folder when it starts"
        return fail(name, f"{path}: {error.strerror}", again)
    mode = stat.S_IMODE(found.st_mode)
    if not stat.S_ISDIR(found.st_mode):
        return fail(name, f"{path} is not a folder", "move it away; the daemon makes a new one")
    if found.st_uid != owner:
        whose = f"{path} belongs to user {found.st_uid}, not {owner}"
        return fail(name, whose, "correct it with chown, or set RADRM_HOME to another folder")
    if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
        return fail(
            name,
            f"{path} can be written by everybody (mode {mode:04o})",
            f"check that its files are yours, then run: chmod {wanted.mode:o} {path}",
        )
    next_step = f"chmod {wanted.mode:o} {path}"
    if wanted.mode & 0o700 & ~mode:
        return fail(name, f"{path} is closed to its owner (mode {mode:04o})", next_step)
    if wanted.mode & ~mode:
        closed = f"{path} is more closed than radrm makes it (mode {mode:04o})"
        return warn(name, closed, f"so that all users can use radrm: {next_step}")
    if mode & ~wanted.mode & 0o077:
        loose = f"{path} is more open than radrm makes it (mode {mode:04o})"
        return warn(name, loose, next_step)
    return ok(name, f"{path}, mode {mode:04o}")


# ------------------------------------------------------------------ disk


def space(path: str, statvfs: Callable[[str], os.statvfs_result] = os.statvfs) -> Finding:
    """Whether the disk of `path` has free space. The path need not exist yet."""
    name = "free space"
    found = statvfs(_existing(path))
    free, inodes = found.f_bavail * found.f_frsize, found.f_favail
    if found.f_flag & os.ST_RDONLY:
        return fail(name, f"the disk of {path} cannot be written", "mount it read-write")
    if free == 0 or (found.f_files and inodes == 0):
        full = f"the disk of {path} is full"
        return fail(name, full, "free some space: radrm accepts no job until then")
    if free < _GIB:
        little = f"{free // (1 << 20)} MiB on the disk of {path}"
        return warn(name, little, "free some space: radrm accepts no job on a full disk")
    if found.f_files and inodes < _FEW_INODES:  # some file systems count no inodes
        few = f"room for only {inodes} more files on the disk of {path}"
        return warn(name, few, "remove files that are not needed")
    return ok(name, f"{free / _GIB:.1f} GiB")


def file_system(path: str, proc: Path = Path("/proc")) -> Finding:
    """Whether the file system of `path` is safe for the store. Raises OSError without a list of
    mounts."""
    name = "file system"
    kind = _kind_of(os.path.realpath(_existing(path)), mounts_of(f"{proc}/self"))
    elsewhere = "set RADRM_HOME to a folder on a local disk"
    if kind is None:
        return warn(name, f"unknown for {path}", elsewhere)
    if kind in _NETWORK:
        return warn(
            name,
            f"{path} lies on {kind}, over a network: the store is not safe there, and the daemon "
            "finds jobs that other machines submit only once a minute",
            elsewhere,
        )
    if kind in _IN_MEMORY:
        return warn(name, f"{path} lies on {kind}: a reboot deletes every job", elsewhere)
    return ok(name, kind)


def network_of(path: str) -> str | None:
    """Return the network file system that holds `path`; None if it is on this machine. OSError."""
    kind = _kind_of(os.path.realpath(_existing(path)), mounts_of())
    return kind if kind in _NETWORK else None


def _existing(path: str) -> str:
    """The path itself, or the nearest existing folder above it."""
    while not os.path.exists(path) and path != os.path.dirname(path):
        path = os.path.dirname(path)
    return path


def _kind_of(path: str, mounts: Iterable[tuple[str, str, str, str]]) -> str | None:
    """The kind of the file system that holds `path`; of two mounts at one place, the later one."""
    best, kind = "", None
    for _, place, named, _ in mounts:
        point = _OCTAL.sub(lambda m: chr(int(m[1], 8)), place)
        inside = path == point or path.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            best, kind = point, named
    return kind


# ------------------------------------------------------------------ store


def store(database: str, uid: int) -> Finding:
    """Whether the store is intact. Only its owner reads it, because SQLite may make files of the
    reader beside it."""
    name = "store"
    try:
        found = os.stat(database)
    except FileNotFoundError:
        return ok(name, f"{database} does not exist yet")
    except PermissionError:
        return ok(name, f"only the daemon's user can read {database}")
    if found.st_uid != uid:
        return ok(name, f"{database} belongs to user {found.st_uid}, who can check it")
    # Without a log beside it no process has it open for writing. `immutable` then makes SQLite read
    # it without making a file.
    how = "mode=ro" if os.path.exists(f"{database}-wal") else "mode=ro&immutable=1"
    aside = "stop the daemon, then restore a copy, or move it aside to start with an empty one"
    try:
        connection = sqlite3.connect(f"file:{quote(database)}?{how}", uri=True, timeout=1.0)
        try:
            (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
            (version,) = connection.execute("PRAGMA user_version").fetchone()
        finally:
            connection.close()
    except sqlite3.OperationalError as error:
        return warn(name, f"{database} cannot be read now: {error}", "try again")
    except sqlite3.DatabaseError as error:
        return fail(name, f"{database} is damaged: {error}", aside)
    if verdict != "ok":
        return fail(name, f"{database} is damaged: {verdict}", aside)
    if version not in (0, SCHEMA_VERSION):
        return fail(
            name,
            f"{database} has version {version} and this radrm reads version {SCHEMA_VERSION}",
            "run the radrm that wrote it",
        )
    return ok(name, f"{database}, {found.st_size / (1 << 20):.1f} MiB, intact")


# ------------------------------------------------------------------
# The folder whose `.rad` files become jobs, and its refused files.


_NAME = "job files"
_MOST = 10_000
_LONG_S = 60.0
_REASON_BYTES = 500


def job_files(paths: Paths, system: bool, uid: int, now_s: float | None = None) -> Finding:
    """Whether the job files of user `uid` become jobs. `now_s` is the date in seconds."""
    if system and (wrong := _wrong_users_folder(paths.users)) is not None:
        return wrong
    folder = f"{paths.users}/{uid}" if system else paths.spool
    try:
        found = os.lstat(folder)
    except OSError:
        return ok(_NAME, f"{folder} does not exist yet; `radrm spool` makes it, for .rad files")
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != uid:
        whose = f"{folder} belongs to user {found.st_uid} and should be user {uid}'s folder"
        return fail(_NAME, whose, "ask the administrator to move it away, then run: radrm spool")
    refused = f"{folder}/{REFUSED}"
    reasons = [name for name in _names(refused) if name.endswith(SUFFIX + REASON)]
    if reasons:
        last = max(reasons)  # a name begins with a ticket, and tickets sort by time
        words = f"{len(reasons)} refused in {refused}, the last: {last[: -len(REASON)]}: "
        step = f"correct the files and put them into {folder} again; remove those in refused"
        return warn(_NAME, words + _first_line(f"{refused}/{last}"), step)
    now_s = wall_s() if now_s is None else now_s
    waiting = [name for name in _names(folder) if is_job_file(name) or claimed(name)]
    late = [name for name in waiting if _age_s(f"{folder}/{name}", now_s) > _LONG_S]
    if late:
        words = f"{len(late)} in {folder} have waited for more than {_LONG_S:g} s"
        return warn(_NAME, words, "start the daemon, or see its log for the reason")
    return ok(_NAME, f"a .rad file in {folder} becomes a job")


def _wrong_users_folder(users: str) -> Finding | None:
    """The finding if the folder of all users' folders was not made by root; else None."""
    try:
        found = os.lstat(users)
    except OSError:
        return None
    if stat.S_ISDIR(found.st_mode) and found.st_uid == 0 and not found.st_mode & 0o022:
        return None
    words = f"{users} was not made by radrm (user {found.st_uid}); no .rad file becomes a job"
    return fail(_NAME, words, "as root, move it away: the daemon makes its own within a minute")


def _names(folder: str) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry in islice(entries, _MOST)]
    except OSError:
        return []


def _age_s(path: str, now_s: float) -> float:
    try:
        return now_s - os.lstat(path).st_ctime
    except OSError:
        return 0.0


def _first_line(path: str) -> str:
    try:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with open(os.open(path, flags), "rb") as file:
            return file.read(_REASON_BYTES).decode("utf-8", "replace").partition("\n")[0]
    except OSError as error:
        return f"the reason cannot be read: {error.strerror}"

"""The disk of a daemon's state: free space, and whether the store is safe on it."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
from collections.abc import Callable, Iterable
from pathlib import Path

from radrm.errors import StoreError
from radrm.host.health.finding import Finding, fail, ok, warn
from radrm.host.processes.procfs import mounts_of
from radrm.host.storage.database import damage_told
from radrm.host.storage.store import Store

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


def space(path: str, statvfs: Callable[[str], os.statvfs_result] = os.statvfs) -> Finding:
    """Whether the disk of `path` has free space. The path need not exist yet."""
    name = "free space"
    found = statvfs(_existing(path))
    free, inodes = found.f_bavail * found.f_frsize, found.f_favail
    if found.f_flag & os.ST_RDONLY:
        return fail(name, f"the disk of {path} cannot be written", "mount it read-write")
    if found.f_files and inodes == 0:  # some file systems count no inodes
        return fail(name, f"the disk of {path} has no room for more files", _taken(path, True))
    if free == 0:
        return fail(name, f"the disk of {path} is full", _taken(path))
    if free < _GIB:
        return warn(name, f"{free // (1 << 20)} MiB on the disk of {path}", _taken(path))
    if found.f_files and inodes < _FEW_INODES:
        few = f"room for only {inodes} more files on the disk of {path}"
        return warn(name, few, _taken(path, True))
    return ok(name, f"{free / _GIB:.1f} GiB")


def _taken(path: str, files: bool = False) -> str:
    """What shows an administrator what takes the space of a disk, or its room for `files`."""
    counted, order = ("--inodes -x", "-n") if files else ("-xh", "-h")
    return (
        f"see what takes it: sudo du {counted} -d2 {_mounted_at(path)} | sort {order} | tail -20; "
        "radrm accepts no job on a full disk"
    )


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


def store(path: str) -> Finding:
    """Whether a daemon that starts could read the records of unfinished jobs. For while none runs:
    the store is only read."""
    name = "store"
    try:
        with damage_told(path), contextlib.closing(Store(path, read_only=True)) as opened:
            opened.kept()
    except StoreError as error:
        what, _, step = str(error).rpartition("; ")
        return fail(name, what, step)
    return ok(name, "its records can be read")


def network_of(path: str) -> str | None:
    """Return the network file system that holds `path`; None if it is on this machine. OSError."""
    kind = _kind_of(os.path.realpath(_existing(path)), mounts_of())
    return kind if kind in _NETWORK else None


def _mounted_at(path: str) -> str:
    """Return the folder at which the file system of a path is mounted."""
    found = os.path.realpath(_existing(path))
    while not os.path.ismount(found):
        found = os.path.dirname(found)
    return shlex.quote(found)


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

"""Calls of the kernel that Python has no words for: namespaces, mounts, rights.

Each raises `OSError` when the kernel refuses.
"""

from __future__ import annotations

import ctypes
import os
import struct

NEW_MOUNTS, NEW_NET, NEW_USER = 0x00020000, 0x40000000, 0x10000000
NEW_PIDS, NEW_IPC, NEW_UTS = 0x20000000, 0x08000000, 0x04000000
NAMESPACES = 0x7E020000
"""All that a process can be given anew by `clone` or `unshare`."""

CHOWN, DAC_OVERRIDE, DAC_READ_SEARCH, FOWNER, FSETID = 0, 1, 2, 3, 4
KILL, SETGID, SETUID, SYS_ADMIN = 5, 6, 7, 21
_LAST_CAPABILITY = 63

BIND, RECURSIVE, READ_ONLY, NO_SUID, NO_DEV, NO_EXEC = 4096, 16384, 1, 2, 4, 8

_OPEN_TREE, _MOVE_MOUNT, _MOUNT_SETATTR = 428, 429, 442
"""New calls have the same numbers on all processors."""
_AT_FDCWD, _AT_RECURSIVE, _NO_FOLLOW, _EMPTY_PATH = -100, 0x8000, 0x100, 0x1000
_CLONE, _CLOEXEC, _FROM_EMPTY_PATH = 1, os.O_CLOEXEC, 4
_PRIVATE = 1 << 18
_SET_DUMPABLE, _SET_KEEPCAPS, _DROP_BOUNDING = 4, 8, 24
_NO_NEW_PRIVS, _AMBIENT, _CLEAR_ALL = 38, 47, 4
_CAPABILITIES_3 = 0x20080522

libc = ctypes.CDLL(None, use_errno=True)


def done(result: int) -> int:
    """The result of a call of the C library. Raises `OSError` for its error."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def unshare(flags: int) -> None:
    """Move this process, or with `NEW_PIDS` its children, into namespaces of their own."""
    done(libc.unshare(ctypes.c_int(flags)))


# ------------------------------------------------------------------ mounts


def mount(source: str, target: str, kind: str | None, flags: int, options: str = "") -> None:
    """Mount a file system, or with `BIND` a folder of another one."""
    words = [os.fsencode(source), os.fsencode(target), None if kind is None else kind.encode()]
    done(libc.mount(*words, ctypes.c_ulong(flags), os.fsencode(options) or None))


def make_read_only() -> None:
    """Make all that is mounted here private and read-only, without devices (Linux 5.12)."""
    _set_attributes(_AT_FDCWD, b"/", _AT_RECURSIVE, READ_ONLY | NO_SUID | NO_DEV)


def device(path: str) -> int:
    """A copy, as of `copy_of`, of a device's file: it can be used, and not be changed."""
    copy = copy_of(path)
    _set_attributes(copy, b"", _EMPTY_PATH, READ_ONLY | NO_SUID | NO_EXEC)
    return copy


def _set_attributes(folder: int, path: bytes, flags: int, attributes: int) -> None:
    wanted = struct.pack("QQQQ", attributes, 0, _PRIVATE, 0)
    size = ctypes.c_size_t(len(wanted))
    done(libc.syscall(_MOUNT_SETATTR, folder, path, ctypes.c_uint(flags), wanted, size))


def copy_of(what: str | int, recursive: bool = False) -> int:
    """A descriptor of a copy of what is mounted at a path, or at an open folder, with or without
    what is mounted below. `attach` puts it elsewhere."""
    flags = _CLONE | _CLOEXEC | (_AT_RECURSIVE if recursive else 0)
    if isinstance(what, int):
        return done(libc.syscall(_OPEN_TREE, what, b"", ctypes.c_uint(flags | _EMPTY_PATH)))
    flags |= _NO_FOLLOW
    return done(libc.syscall(_OPEN_TREE, _AT_FDCWD, os.fsencode(what), ctypes.c_uint(flags)))


def attach(copy: int, target: str) -> None:
    """Put a copy of a mount at `target`, which must be there: a folder, or a file."""
    flags = ctypes.c_uint(_FROM_EMPTY_PATH)
    done(libc.syscall(_MOVE_MOUNT, copy, b"", _AT_FDCWD, os.fsencode(target), flags))


# ------------------------------------------------------------------ rights


def keep_capabilities() -> None:
    """Keep the permitted capabilities in the change from root to a user."""
    done(libc.prctl(_SET_KEEPCAPS, 1, 0, 0, 0))


def hide() -> None:
    """Keep processes of the same user from this one's memory and open files."""
    done(libc.prctl(_SET_DUMPABLE, 0, 0, 0, 0))


def set_effective(wanted: int | None, permitted: int | None = None) -> None:
    """Use these capabilities (bits; None: all that are permitted), and permit none but these."""
    header = ctypes.create_string_buffer(struct.pack("Ii", _CAPABILITIES_3, 0))
    data = ctypes.create_string_buffer(24)
    done(libc.capget(header, data))
    low = struct.unpack("6I", data.raw)
    have = low[1] | low[4] << 32
    allowed = have if permitted is None else have & permitted
    use = allowed if wanted is None else allowed & wanted
    half = 0xFFFFFFFF
    words = (use & half, allowed & half, 0, use >> 32, allowed >> 32, 0)
    done(libc.capset(header, struct.pack("6I", *words)))


def give_up(capabilities: int) -> None:
    """Give up all capabilities but these, for ever, and any that a program could bring."""
    set_effective(None)
    for number in range(_LAST_CAPABILITY + 1):
        if not capabilities >> number & 1:
            libc.prctl(_DROP_BOUNDING, number, 0, 0, 0)  # the kernel may not know the number
    set_effective(capabilities, capabilities)
    libc.prctl(_AMBIENT, _CLEAR_ALL, 0, 0, 0)
    done(libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0))

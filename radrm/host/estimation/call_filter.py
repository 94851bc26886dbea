"""A filter of the calls of the kernel that a traced program makes.

What the kernel has no namespace for, or what would give a program new rights, is refused:

- Sockets with a name in the file system. A read-only mount does not keep a program from connecting
  to one: a daemon's, an agent's, a container engine's. So no such socket can be made, only pairs.
- Networks that do not belong to a network namespace, such as that of a virtual machine to its
  host.
- The keys of a user, which all its processes share.
- New namespaces, mounts, and interfaces by which a program could go round this filter (`io_uring`,
  another processor's calls).

The filter is a program of BPF that the kernel runs at each call (seccomp(2)). It looks at registers
alone: what lies in memory may change after the look.
"""

from __future__ import annotations

import ctypes
import os
import struct

from radrm.host.estimation.kernel import NAMESPACES, done, libc

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NamedTuple

    class Calls(NamedTuple):
        """The numbers of calls on one processor."""

        audit: int
        clone: int
        socket: int
        socketpair: int
        refused: tuple[int, ...]
        missing: tuple[int, ...]

else:
    from collections import namedtuple

    Calls = namedtuple("Calls", "audit clone socket socketpair refused missing")

_EVERYWHERE = (428, 429, 430, 431, 432, 433, 440, 442, 443, 467)
"""open_tree, move_mount, fsopen, fsconfig, fsmount, fspick, process_madvise, mount_setattr,
quotactl_fd, open_tree_attr: new calls have the same number on all processors."""
_MISSING = (425, 426, 427, 435)
"""io_uring_setup, io_uring_enter, io_uring_register, clone3. Libraries have another way where a
kernel does not know them."""
CALLS = {
    # Sources: unistd_64.h, asm-generic/unistd.h and audit.h of Linux. `refused`, in this order:
    # unshare, setns, mount, umount2, pivot_root, chroot, swapon, acct, quotactl, syslog, add_key,
    # request_key, keyctl, bpf, perf_event_open, userfaultfd, fanotify_init, name_to_handle_at,
    # open_by_handle_at, kexec_load.
    "x86_64": Calls(
        0xC000003E, 56, 41, 53,
        (272, 308, 165, 166, 155, 161, 167, 163, 179, 103, 248, 249, 250, 321, 298, 323, 300, 303,
         304, 246, *_EVERYWHERE),
        _MISSING,
    ),
    "aarch64": Calls(
        0xC00000B7, 220, 198, 199,
        (97, 268, 40, 39, 41, 51, 224, 89, 60, 116, 217, 218, 219, 280, 241, 282, 262, 264,
         265, 104, *_EVERYWHERE),
        _MISSING,
    ),
}  # fmt: skip

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_NUMBER, _PROCESSOR, _ARGUMENTS = 0, 4, 16
_ALLOW, _FAIL = 0x7FFF0000, 0x00050000
_EPERM, _ENOSYS, _EAFNOSUPPORT = 1, 38, 97
_X32 = 0x40000000
_INET, _INET6, _NETLINK = 2, 10, 16
_STREAM, _PACKETS, _KINDS = 1, 5, 15
_SECCOMP, _FILTER = 22, 2

Step = tuple[int, int, int, int]


def _step(code: int, value: int, yes: int = 0, no: int = 0) -> Step:
    return code, yes, no, value


def _argument(number: int) -> Step:
    """Load the lower half of an argument; all that are looked at are ints."""
    return _step(_LOAD, _ARGUMENTS + 8 * number)


def _fail(error: int) -> Step:
    return _step(_RETURN, _FAIL | error)


def filter_of(machine: str) -> list[Step]:
    """The filter for a processor. Raises `OSError` for one whose calls are not known."""
    if machine not in CALLS:
        raise OSError(_ENOSYS, f"the calls of the kernel are not known for {machine}")
    calls, allow = CALLS[machine], _step(_RETURN, _ALLOW)
    steps = [
        _step(_LOAD, _PROCESSOR),
        _step(_EQUAL, calls.audit, 1, 0),
        _fail(_ENOSYS),
        _step(_LOAD, _NUMBER),
        _step(_AT_LEAST, _X32, 0, 1),
        _fail(_ENOSYS),
    ]
    for number in calls.refused:
        steps += [_step(_EQUAL, number, 0, 1), _fail(_EPERM)]
    for number in calls.missing:
        steps += [_step(_EQUAL, number, 0, 1), _fail(_ENOSYS)]
    special = {
        calls.clone: [
            _argument(0),
            _step(_ANY_BIT, NAMESPACES, 0, 1),
            _fail(_EPERM),
            allow,
        ],
        calls.socket: [
            _argument(0),
            _step(_EQUAL, _INET, 4, 0),
            _step(_EQUAL, _INET6, 3, 0),
            _step(_EQUAL, _NETLINK, 0, 3),
            _argument(2),
            _step(_EQUAL, 0, 0, 1),  # its protocol for addresses and routes alone
            allow,
            _fail(_EAFNOSUPPORT),
        ],
        calls.socketpair: [
            # One without a connection could send to any other.
            _argument(1),
            _step(_AND, _KINDS),
            _step(_EQUAL, _STREAM, 1, 0),
            _step(_EQUAL, _PACKETS, 0, 1),
            allow,
            _fail(_EAFNOSUPPORT),
        ],
    }
    for number, rest in special.items():
        steps += [_step(_EQUAL, number, 0, len(rest)), *rest]
    return [*steps, allow]


def install() -> None:
    """Refuse what a traced program must not ask of the kernel, from now on and for its children."""
    steps = filter_of(os.uname().machine)
    program = b"".join(struct.pack("HBBI", *step) for step in steps)
    code = ctypes.create_string_buffer(program, len(program))
    wanted = struct.pack("HxxxxxxQ", len(steps), ctypes.addressof(code))
    done(libc.prctl(_SECCOMP, _FILTER, ctypes.c_char_p(wanted), 0, 0))

"""Load device programs into the kernel, and attach them to control groups of version 2.

Theory of operation. An attached program belongs to its group: it needs no open file and no
process, and goes when the group is removed. So a restart of the daemon changes nothing.

Programs are attached with `BPF_F_ALLOW_MULTI`: a group may have several, and those of the groups
above apply too (systemd's DevicePolicy=, a container's). A device is allowed if all of them allow
it. So `replace` attaches the new program first, and then detaches the old ones: meanwhile only
devices that both allow can be opened, and never one that neither allows.

The bpf(2) system call is made by `ctypes`, which is imported at the first call. Sources: bpf(2) and
the kernel's include/uapi/linux/bpf.h (`union bpf_attr`, `struct bpf_prog_info`).
"""

from __future__ import annotations

import contextlib
import errno
import os
import struct
import sys
from typing import Any

from radrm.host.isolation.program import Rules, instructions

NAME = b"radrm_devices"
"""The name by which our programs are known (at most 15 bytes)."""

_SYSTEM_CALL = {"x86_64": 321, "aarch64": 280, "ppc64le": 361}
_PROG_LOAD, _PROG_ATTACH, _PROG_DETACH = 5, 8, 9
_PROG_GET_FD_BY_ID, _OBJ_GET_INFO_BY_FD, _PROG_QUERY = 13, 15, 16
_TYPE_CGROUP_DEVICE, _CGROUP_DEVICE, _ALLOW_MULTI = 15, 6, 2
_MOST_ATTACHED = 64
"""Programs that one group has at most (the kernel's BPF_CGROUP_MAX_PROGS)."""
_TRIES = 5
"""A signal interrupts the kernel's check of a program (EAGAIN); libbpf tries as often."""
_INFO_BYTES, _NAME_AT, _NAME_BYTES = 80, 64, 16


def attach(group: str, rules: Rules) -> None:
    """Let processes in the group, and in those below it, open only what the rules allow.

    It needs root's rights (CAP_BPF and CAP_NET_ADMIN) and Linux 4.15. Raises OSError; ValueError
    for too many rules.
    """
    program = _load(instructions(rules))
    try:
        with _opened(group) as folder:
            _call(_PROG_ATTACH, struct.pack("=IIII", folder, program, _CGROUP_DEVICE, _ALLOW_MULTI))
    finally:
        os.close(program)


def replace(group: str, rules: Rules) -> bool:
    """Attach a program of these rules in place of ours; False if the group has none of ours.

    Raises OSError and ValueError as `attach` does.
    """
    old = _ours(group)
    try:
        if old:
            attach(group, rules)
            with _opened(group) as folder:
                for program in old:
                    _call(_PROG_DETACH, struct.pack("=IIII", folder, program, _CGROUP_DEVICE, 0))
    finally:
        for program in old:
            os.close(program)
    return bool(old)


def has_one(group: str) -> bool:
    """Return whether a program of ours is attached to the group. Raises OSError."""
    found = _ours(group)
    for program in found:
        os.close(program)
    return bool(found)


def _load(program: bytes) -> int:
    """Return a descriptor of the loaded program."""
    import ctypes

    code = ctypes.create_string_buffer(program, len(program))
    licence = ctypes.create_string_buffer(b"Apache-2.0")
    places = ctypes.addressof(code), ctypes.addressof(licence)
    # prog_type, insn_cnt, insns, license, log_level, log_size, log_buf, kern_version, prog_flags
    fields = _TYPE_CGROUP_DEVICE, len(program) // 8, *places, 0, 0, 0, 0, 0
    for _ in range(_TRIES - 1):
        with contextlib.suppress(BlockingIOError):
            return _call(_PROG_LOAD, struct.pack("=IIQQIIQII16s", *fields, NAME))
    return _call(_PROG_LOAD, struct.pack("=IIQQIIQII16s", *fields, NAME))


def _ours(group: str) -> list[int]:
    """Return descriptors of our programs that are attached to the group itself."""
    import ctypes

    found = []
    ids = (ctypes.c_uint32 * _MOST_ATTACHED)()
    with _opened(group) as folder:
        # target_fd, attach_type, query_flags, attach_flags, prog_ids, prog_cnt
        fields = folder, _CGROUP_DEVICE, 0, 0, ctypes.addressof(ids), _MOST_ATTACHED, 0
        answer = ctypes.create_string_buffer(struct.pack("=IIIIQII", *fields))
        _call(_PROG_QUERY, answer)
    (count,) = struct.unpack_from("=I", answer, 24)
    for number in ids[:count]:
        with contextlib.suppress(FileNotFoundError):  # it was detached meanwhile
            program = _call(_PROG_GET_FD_BY_ID, struct.pack("=III", number, 0, 0))
            if _name(program) == NAME:
                found.append(program)
            else:
                os.close(program)
    return found


def _name(program: int) -> bytes:
    import ctypes

    info = ctypes.create_string_buffer(_INFO_BYTES)
    _call(_OBJ_GET_INFO_BY_FD, struct.pack("=IIQ", program, _INFO_BYTES, ctypes.addressof(info)))
    return info.raw[_NAME_AT : _NAME_AT + _NAME_BYTES].rstrip(b"\0")


def _call(command: int, attributes: Any) -> int:
    """Make the system call with the bytes, or the buffer, of its attributes. Raises OSError."""
    import ctypes

    number = _SYSTEM_CALL.get(os.uname().machine)
    if number is None or sys.byteorder != "little":
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    if isinstance(attributes, bytes):
        attributes = ctypes.create_string_buffer(attributes, len(attributes))
    library = ctypes.CDLL(None, use_errno=True)
    size = len(attributes)
    result: int = library.syscall(number, command, attributes, size)
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return result


@contextlib.contextmanager
def _opened(group: str) -> Any:
    folder = os.open(group, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield folder
    finally:
        os.close(folder)

"""Jobs can open no GPU that they were not given."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import struct
import sys
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from radrm.core.records import Device
from radrm.core.units import gpus_named
from radrm.core.words import DeviceKind
from radrm.errors import Refused
from radrm.host.processes import cgroups
from radrm.host.processes.procfs import start_of

# ------------------------------------------------------------------
# The numbers of NVIDIA's device files.
#
# /dev/nvidiaN has the major number 195 and the minor number N, which is no index of NVML and no
# order of the PCI bus. /dev/nvidiactl, nvidia-modeset and nvidia-uvm belong to no GPU. A MIG
# instance is used through its GPU's file and two files /dev/nvidia-caps/nvidia-capN, one for the
# GPU instance and one for the compute instance. Their major number is in /proc/devices; their minor
# numbers are a table of the driver, which is fixed while it is loaded.
#
# Sources: nv-caps.c and nv-chardev-numbers.h of NVIDIA/open-gpu-kernel-modules; MIG User Guide,
# "Device Nodes and Capabilities".


GPU_MAJOR = 195
SHARED_MINORS = frozenset({254, 255})
"""nvidia-modeset and nvidiactl."""

_TABLES = ("mig-minors", "nvlink-minors", "sys-minors")
_MOST_BYTES = 1 << 20
"""The table of 32 GPUs with 15 GPU instances of 8 compute instances each has about 110 kB."""
_LINE = re.compile(r"([\w/-]{1,127}) (\d{1,7})")
_OF_AN_INSTANCE = re.compile(r"gpu\d+/gi\d+/")


class Numbers(Struct, frozen=True):
    """`shared` are the minor numbers of `gpu_major` that every job may open.

    `caps_major` is that of nvidia-caps, None if the driver has none; `caps_shared` are its minor
    numbers that belong to no instance. `caps` has the others, by names as `gpu0/gi1/ci0/access`.
    """

    gpu_major: int = GPU_MAJOR
    shared: frozenset[int] = SHARED_MINORS
    caps_major: int | None = None
    caps_shared: frozenset[int] = frozenset()
    caps: Mapping[str, int] = field(default_factory=dict)


def read(proc: str = "/proc") -> Numbers:
    """Return the numbers of this machine."""
    major = _caps_major(start_of(f"{proc}/devices", _MOST_BYTES).decode("ascii", "replace"))
    if major is None:
        return Numbers()
    found: dict[str, int] = {}
    for table in _TABLES:
        text = start_of(f"{proc}/driver/nvidia-caps/{table}", _MOST_BYTES).decode(
            "ascii", "replace"
        )
        for line in text.splitlines():
            if (pair := _LINE.fullmatch(line.strip())) is not None:
                found[pair[1]] = int(pair[2])
    caps = {name: minor for name, minor in found.items() if _OF_AN_INSTANCE.match(name)}
    shared = frozenset(minor for name, minor in found.items() if name not in caps)
    return Numbers(caps_major=major, caps_shared=shared, caps=caps)


def _caps_major(devices: str) -> int | None:
    """Return the major number of nvidia-caps in the text of /proc/devices."""
    characters = devices.partition("Block devices:")[0]
    found = re.search(r"^\s*(\d{1,5}) nvidia-caps$", characters, re.MULTILINE)
    return int(found[1]) if found else None


# ------------------------------------------------------------------
# The instructions of an eBPF program that allows or denies a device file. Pure.
#
# The kernel runs the program when a process of the control group opens or makes a device file, and
# gives it a `struct bpf_cgroup_dev_ctx`: three words of 32 bits, whose first has the type of the
# device in its low half. The program returns 1 to allow and 0 to deny. In words:
#
#     if it is no character device: allow
#     for each major number of the rules:
#         if the device has it: allow the minor numbers that are listed, and deny all others
#     allow
#
# So all that no rule names is allowed, also device types that a later kernel or driver adds.
#
# Sources: the kernel's include/uapi/linux/bpf.h and Documentation/bpf/standardization/
# instruction-set.rst.


Rules = Mapping[int, Collection[int]]
"""The minor numbers that are allowed of each major number of character devices; others of these
majors are denied."""

MOST_MINORS = 1024
"""Minor numbers in all rules: a program of the oldest kernels has at most 4096 instructions."""

_CHARACTER_DEVICE = 2  # BPF_DEVCG_DEV_CHAR
_LOAD_WORD = 0x61  # BPF_LDX | BPF_MEM | BPF_W: dst = *(u32 *)(src + offset)
_AND = 0x57  # BPF_ALU64 | BPF_AND | BPF_K
_MOVE = 0xB7  # BPF_ALU64 | BPF_MOV | BPF_K
_JUMP_IF_EQUAL = 0x15  # BPF_JMP | BPF_JEQ | BPF_K
_JUMP_UNLESS_EQUAL = 0x55  # BPF_JMP | BPF_JNE | BPF_K
_EXIT = 0x95  # BPF_JMP | BPF_EXIT
_RESULT, _CONTEXT, _TYPE, _MAJOR, _MINOR = range(5)  # registers r0 to r4


def instructions(rules: Rules) -> bytes:
    """Return the program of these rules, for a little-endian machine. Raises ValueError if they
    are too many."""
    if sum(map(len, rules.values())) > MOST_MINORS:
        raise ValueError(f"more than {MOST_MINORS} minor numbers")
    program = [
        _one(_LOAD_WORD, _TYPE, _CONTEXT, offset=0),
        _one(_AND, _TYPE, value=0xFFFF),  # the high half says how it is accessed
        _one(_LOAD_WORD, _MAJOR, _CONTEXT, offset=4),
        _one(_LOAD_WORD, _MINOR, _CONTEXT, offset=8),
        _one(_JUMP_IF_EQUAL, _TYPE, offset=2, value=_CHARACTER_DEVICE),
        *_allow_and_exit(),
    ]
    for major, minors in sorted(rules.items()):
        allowed = sorted(set(minors))
        # Past the comparisons lie the two instructions that deny, and the two that allow.
        program.append(_one(_JUMP_UNLESS_EQUAL, _MAJOR, offset=len(allowed) + 4, value=major))
        for place, minor in enumerate(allowed):
            to_allow = len(allowed) - place - 1 + 2
            program.append(_one(_JUMP_IF_EQUAL, _MINOR, offset=to_allow, value=minor))
        program += [_one(_MOVE, _RESULT, value=0), _one(_EXIT), *_allow_and_exit()]
    return b"".join([*program, *_allow_and_exit()])


def _allow_and_exit() -> list[bytes]:
    return [_one(_MOVE, _RESULT, value=1), _one(_EXIT)]


def _one(code: int, to: int = 0, source: int = 0, offset: int = 0, value: int = 0) -> bytes:
    """One instruction (`struct bpf_insn`). Offsets of jumps count from the next instruction."""
    return struct.pack("<BBhi", code, to | source << 4, offset, value)


# ------------------------------------------------------------------
# Load device programs into the kernel, and attach them to control groups of version 2.
#
# Theory of operation. An attached program belongs to its group: it needs no open file and no
# process, and goes when the group is removed. So a restart of the daemon changes nothing.
#
# Programs are attached with `BPF_F_ALLOW_MULTI`: a group may have several, and those of the groups
# above apply too (systemd's DevicePolicy=, a container's). A device is allowed if all of them allow
# it. So `replace` attaches the new program first, and then detaches the old ones: meanwhile only
# devices that both allow can be opened, and never one that neither allows.
#
# The bpf(2) system call is made by `ctypes`, which is imported at the first call. Sources: bpf(2)
# and the kernel's include/uapi/linux/bpf.h (`union bpf_attr`, `struct bpf_prog_info`).


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


# ------------------------------------------------------------------
# Which device files a job may open, and where that can be enforced.
#
# A job may open the files of its own GPUs and MIG instances, those that belong to no GPU, and all
# files of other makers. It cannot open other GPUs, whatever it sets in its environment. The kernel
# checks each `open`, by a program that is attached to the attempt's control group (`py`).
#
# NVIDIA's driver lets a process use a GPU only if the process holds its file open. So CUDA and NVML
# number only the GPUs that a job may open, from 0 on.


_OFF = "gpus.isolate = false"


class Isolation(Struct, frozen=True):
    """`reason` says why new jobs are not isolated; None: they are.

    `numbers` None: no group of this daemon has a program, and none can get one.
    """

    reason: str | None = "the GPUs are simulated"
    numbers: Numbers | None = None

    def rules(self, devices: Sequence[Device]) -> Rules | None:
        """Return the rules of a new job with these devices; None: it is not isolated."""
        return None if self.reason is not None else self._rules(devices)

    def change(self, group: str, devices: Sequence[Device]) -> None:
        """Have a running job that is isolated open these devices, and no others.

        Raises `Refused` if that is impossible; then it keeps those that it has.
        """
        if self.numbers is None:
            return
        rules = self._rules(devices)
        try:
            if rules is not None:
                replace(group, rules)
            elif has_one(group):
                raise Refused(f"{self.why_not(devices)}, so the job could not open it")
        except OSError as error:
            raise Refused(
                f"the kernel does not change which GPUs the job may open: {_why(error)}"
            ) from error

    def _rules(self, devices: Sequence[Device]) -> Rules | None:
        """Return the rules; None if a file is unknown: a job must be able to open its own GPUs."""
        known = self.numbers
        if known is None or any(self._lacks(device) for device in devices):
            return None
        own = {device.minor for device in devices if device.minor is not None}
        rules: dict[int, frozenset[int]] = {known.gpu_major: known.shared | own}
        if known.caps_major is not None:
            caps = {known.caps[name] for device in devices for name in _caps_of(device)}
            rules[known.caps_major] = known.caps_shared | caps
        return rules

    def why_not(self, devices: Sequence[Device]) -> str | None:
        """Return why jobs on some of these devices are not isolated; None: they are."""
        if self.reason is not None:
            return self.reason
        lacking = [device.index for device in devices if self._lacks(device)]
        if not lacking:
            return None
        return f"the driver does not name the device files of {gpus_named(lacking)}"

    def _lacks(self, device: Device) -> bool:
        """Return whether the numbers of a device's files are not known."""
        if device.minor is None or (device.kind is DeviceKind.MIG and device.instance is None):
            return True
        caps = {} if self.numbers is None else self.numbers.caps
        return any(name not in caps for name in _caps_of(device))


def find(wanted: bool, uid: int, proc: str = "/proc") -> Isolation:
    """Return how jobs of this daemon are isolated. `wanted` is `gpus.isolate`, `uid` its user.

    It attaches a program to a control group that it makes and removes.
    """
    if uid != 0:
        return Isolation("the daemon does not run as root" if wanted else _OFF)
    known = read(proc)
    if not wanted:
        return Isolation(_OFF, known)  # jobs that were started before may be isolated
    trial = cgroups.place(f"radrm-trial-{os.getpid()}")
    if trial is None:
        return Isolation("there is no cgroup v2")
    try:
        os.mkdir(trial)
    except OSError as error:
        return Isolation(f"no control group can be made in {os.path.dirname(trial)}: {_why(error)}")
    try:
        attach(trial, {known.gpu_major: known.shared})
    except OSError as error:
        return Isolation(f"the kernel attaches no device program (eBPF): {_why(error)}")
    finally:
        cgroups.remove(trial)
    return Isolation(None, known)


def _caps_of(device: Device) -> tuple[str, ...]:
    """Return the names of the capabilities that a MIG instance is used by."""
    if device.instance is None:
        return ()
    gpu_instance, compute_instance = device.instance
    place = f"gpu{device.minor}/gi{gpu_instance}"
    return f"{place}/access", f"{place}/ci{compute_instance}/access"


def _why(error: OSError) -> str:
    if error.errno in (errno.ENOSYS, errno.EINVAL):
        return "it needs Linux 4.15 or newer, with CONFIG_CGROUP_BPF"
    return error.strerror or str(error)

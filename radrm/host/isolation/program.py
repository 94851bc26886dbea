"""The instructions of an eBPF program that allows or denies a device file. Pure.

The kernel runs the program when a process of the control group opens or makes a device file, and
gives it a `struct bpf_cgroup_dev_ctx`: three words of 32 bits, whose first has the type of the
device in its low half. The program returns 1 to allow and 0 to deny. In words:

    if it is no character device: allow
    for each major number of the rules:
        if the device has it: allow the minor numbers that are listed, and deny all others
    allow

So all that no rule names is allowed, also device types that a later kernel or driver adds.

Sources: the kernel's include/uapi/linux/bpf.h and Documentation/bpf/standardization/
instruction-set.rst.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping

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

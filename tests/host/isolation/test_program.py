"""The instructions of a device program decide as its rules say."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radrm.host.isolation import MOST_MINORS, instructions

BLOCK, CHARACTER = 1, 2
READ = 2 << 16

numbers = st.integers(0, 6)
rules = st.dictionaries(numbers, st.sets(numbers, max_size=4), max_size=3)


def verdict(program: bytes, kind: int, major: int, minor: int) -> int:
    """What the program returns: a small machine for the instructions that it may use."""
    context = struct.pack("<III", READ | kind, major, minor)
    registers = [None, *[None] * 10]
    code = [struct.unpack_from("<BBhi", program, at) for at in range(0, len(program), 8)]
    at = 0
    while True:
        operation, register, offset, value = code[at]
        to, source = register & 15, register >> 4
        at += 1
        if operation == 0x61:
            assert source == 1, "it reads only what the kernel gives it"
            (registers[to],) = struct.unpack_from("<I", context, offset)
        elif operation == 0x57:
            registers[to] &= value
        elif operation == 0xB7:
            registers[to] = value
        elif operation == 0x15:
            at += offset if registers[to] == value else 0
        elif operation == 0x55:
            at += offset if registers[to] != value else 0
        else:
            assert operation == 0x95, hex(operation)
            assert registers[0] is not None
            return registers[0]


@given(rules, st.sampled_from((BLOCK, CHARACTER)), numbers, numbers)
def test_only_listed_minors_of_a_named_major_are_allowed(
    rules: dict[int, set[int]], kind: int, major: int, minor: int
) -> None:
    denied = kind == CHARACTER and major in rules and minor not in rules[major]
    assert verdict(instructions(rules), kind, major, minor) == (0 if denied else 1)


def test_a_program_fits_the_oldest_kernels() -> None:
    assert len(instructions({195: range(MOST_MINORS)})) // 8 <= 4096
    with pytest.raises(ValueError, match="1024"):
        instructions({195: range(MOST_MINORS), 508: [1]})

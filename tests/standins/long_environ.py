"""A process with an environment of any length, as every user can make one.

    python -I -S long_environ.py BYTES [TOKEN [AT [USER]]]

It moves its environment to memory of that many bytes that it never touches, but for
`RADRM_TOKEN=TOKEN` at the offset AT, as the user of that number. A line on standard output
says when that is done; then it waits to be killed. Exit status 3: this kernel cannot do that.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
import sys
import time

_PR_SET_MM = 35
_PR_SET_MM_MAP = 14


def move_environ(size: int, token: str = "", at: int = 0) -> bool:
    """Make our own environment `size` bytes long; False where the kernel refuses."""
    memory = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if token:
        said = b"RADRM_TOKEN=" + token.encode()
        memory[at : at + len(said)] = said
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    with open("/proc/self/stat") as file:
        words = file.read().rpartition(")")[2].split()

    def field(number: int) -> int:
        """As proc(5) counts them."""
        return int(words[number - 3])

    libc = ctypes.CDLL(None, use_errno=True)
    libc.sbrk.restype = ctypes.c_void_p
    code_data_heap = *map(field, (26, 27, 45, 46, 47)), libc.sbrk(0)
    stack_arguments = map(field, (28, 48, 49))
    environ = start, start + size
    record = struct.pack("<11QQIi", *code_data_heap, *stack_arguments, *environ, 0, 0, -1)
    buffer = ctypes.create_string_buffer(record, len(record))
    args = _PR_SET_MM, _PR_SET_MM_MAP, ctypes.addressof(buffer), len(record), 0
    kept.append(memory)
    return bool(libc.prctl(*map(ctypes.c_ulong, args)) == 0)


kept: list[mmap.mmap] = []
"""So that the memory stays."""

if __name__ == "__main__":
    if len(sys.argv) > 4:
        os.setuid(int(sys.argv[4]))
    if not move_environ(int(sys.argv[1]), *sys.argv[2:3], *map(int, sys.argv[3:4])):
        sys.exit(3)
    os.write(1, b"moved\n")
    time.sleep(1000)

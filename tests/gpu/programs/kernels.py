"""Two CUDA kernels in PTX, launched through libcuda: what PyTorch cannot launch by itself.

Each thread of `square` squares one number again and again. `bad` writes to an address that no
process may write, as a broken kernel does.
"""

from __future__ import annotations

import ctypes
from typing import Any

PTX = b"""
.version 7.0
.target sm_70
.address_size 64

.visible .entry square(.param .u64 data, .param .u64 rounds)
{
    .reg .pred %p;
    .reg .f32 %f<2>;
    .reg .b32 %r<5>;
    .reg .b64 %rd<7>;
    ld.param.u64 %rd1, [data];
    ld.param.u64 %rd2, [rounds];
    cvta.to.global.u64 %rd3, %rd1;
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ntid.x;
    mov.u32 %r3, %tid.x;
    mad.lo.s32 %r4, %r1, %r2, %r3;
    mul.wide.u32 %rd4, %r4, 4;
    add.u64 %rd5, %rd3, %rd4;
    mov.u64 %rd6, 0;
AGAIN:
    ld.volatile.global.f32 %f1, [%rd5];
    mul.f32 %f1, %f1, %f1;
    st.volatile.global.f32 [%rd5], %f1;
    add.u64 %rd6, %rd6, 1;
    setp.lt.u64 %p, %rd6, %rd2;
    @%p bra AGAIN;
    ret;
}

.visible .entry bad()
{
    .reg .b32 %r<2>;
    .reg .b64 %rd<2>;
    mov.u64 %rd1, 16;
    mov.u32 %r1, 7;
    st.global.u32 [%rd1], %r1;
    ret;
}
"""


class CudaError(Exception):
    """A function of libcuda has failed."""


class Kernels:
    """The kernels, in the CUDA context of this thread: make one with PyTorch before."""

    def __init__(self) -> None:
        self._cuda: Any = ctypes.CDLL("libcuda.so.1")
        self._module = ctypes.c_void_p()
        self._call("cuModuleLoadData", ctypes.byref(self._module), PTX + b"\0")

    def square(self, blocks: int, threads: int, address: int, rounds: int) -> None:
        """Launch `square` on `blocks * threads` floats at `address`; returns at once."""
        data, count = ctypes.c_uint64(address), ctypes.c_uint64(rounds)
        given = (ctypes.c_void_p * 2)(ctypes.addressof(data), ctypes.addressof(count))
        self._launch(b"square", blocks, threads, given)

    def bad(self) -> None:
        """Launch `bad`; the context is lost once it runs."""
        self._launch(b"bad", 1, 1, None)

    def _launch(self, name: bytes, blocks: int, threads: int, given: Any) -> None:
        function = ctypes.c_void_p()
        self._call("cuModuleGetFunction", ctypes.byref(function), self._module, name)
        grid = (blocks, 1, 1, threads, 1, 1)
        self._call("cuLaunchKernel", function, *grid, 0, None, given, None)

    def _call(self, name: str, *given: Any) -> None:
        code = getattr(self._cuda, name)(*given)
        if code != 0:
            raise CudaError(f"{name} has failed with CUDA error {code}")

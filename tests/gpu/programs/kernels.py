"""CUDA kernels in PTX, launched through libcuda: what PyTorch cannot launch by itself.

`bad` writes to an address that no process may write, as a broken kernel does. In `square` each
thread fetches its item and calculates the square, so many rounds: the micro-benchmark of the
thesis of RAD-RM (section 3.3.2). The rounds keep the GPU from waiting for the next launch.
"""

from __future__ import annotations

import ctypes
from typing import Any

PTX = b"""
.version 7.0
.target sm_70
.address_size 64

.visible .entry bad()
{
    .reg .b32 %r<2>;
    .reg .b64 %rd<2>;
    mov.u64 %rd1, 16;
    mov.u32 %r1, 7;
    st.global.u32 [%rd1], %r1;
    ret;
}

.visible .entry square(.param .u64 items, .param .u32 rounds)
{
    .reg .pred %p<2>;
    .reg .f32 %f<3>;
    .reg .b32 %r<6>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [items];
    ld.param.u32 %r1, [rounds];
    cvta.to.global.u64 %rd1, %rd1;
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.u32 %r5, %r2, %r3, %r4;
    mul.wide.u32 %rd2, %r5, 4;
    add.u64 %rd3, %rd1, %rd2;
again:
    ld.volatile.global.f32 %f1, [%rd3];
    mul.f32 %f2, %f1, %f1;
    st.volatile.global.f32 [%rd3], %f2;
    sub.u32 %r1, %r1, 1;
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra again;
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

    def bad(self) -> None:
        """Launch it; the context is lost once it runs."""
        self._launch(b"bad", 1, 1)

    def square(self, blocks: int, threads: int, items: int, rounds: int) -> None:
        """Launch it. `items`: the address of as many 32-bit floats as there are threads."""
        self._launch(b"square", blocks, threads, ctypes.c_uint64(items), ctypes.c_uint32(rounds))

    def _launch(self, name: bytes, blocks: int, threads: int, *given: Any) -> None:
        """Launch a kernel on the legacy default stream, which is PyTorch's, too."""
        function = ctypes.c_void_p()
        self._call("cuModuleGetFunction", ctypes.byref(function), self._module, name)
        places = (ctypes.c_void_p * len(given))(*(ctypes.addressof(each) for each in given))
        grid = (blocks, 1, 1, threads, 1, 1)
        self._call("cuLaunchKernel", function, *grid, 0, None, places if given else None, None)

    def _call(self, name: str, *given: Any) -> None:
        code = getattr(self._cuda, name)(*given)
        if code != 0:
            raise CudaError(f"{name} has failed with CUDA error {code}")

"""A CUDA kernel in PTX, launched through libcuda: what PyTorch cannot launch by itself.

`bad` writes to an address that no process may write, as a broken kernel does.
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
"""


class CudaError(Exception):
    """A function of libcuda has failed."""


class Kernels:
    """The kernel, in the CUDA context of this thread: make one with PyTorch before."""

    def __init__(self) -> None:
        self._cuda: Any = ctypes.CDLL("libcuda.so.1")
        self._module = ctypes.c_void_p()
        self._call("cuModuleLoadData", ctypes.byref(self._module), PTX + b"\0")

    def bad(self) -> None:
        """Launch it; the context is lost once it runs."""
        function, one = ctypes.c_void_p(), (1,) * 6
        self._call("cuModuleGetFunction", ctypes.byref(function), self._module, b"bad")
        self._call("cuLaunchKernel", function, *one, 0, None, None, None)

    def _call(self, name: str, *given: Any) -> None:
        code = getattr(self._cuda, name)(*given)
        if code != 0:
            raise CudaError(f"{name} has failed with CUDA error {code}")

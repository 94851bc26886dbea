"""What a training process takes on a GPU beside its tensors: context and library workspaces.

Pure figures by kind of GPU. A kind is the name that the driver gives, such as
`NVIDIA A100-SXM4-40GB`; None, or a name not known here, counts as an A100, the kind on
which the figures were fitted (docs/tracing.md says on which measurements). A context depends
on the driver and on PyTorch's build as well: measured on the machine itself it is better.
"""

from __future__ import annotations

from dataclasses import dataclass

CONTEXT_MIB = 1716.0
"""A100, CUDA 12.2, PyTorch 2.4: fitted on published jobs that need next to nothing else."""

CUDNN_MIB = 277.0
"""More of it, once convolutions have loaded cuDNN's kernels. On the same GPUs."""

GROWTH = 0.02
"""What long runs take beyond the replay of two steps, as a share of what is alive at the
most: kernels that are loaded late, batches prepared ahead, fragments. Fitted."""


@dataclass(frozen=True, slots=True)
class Overheads:
    """Of one kind of GPU.

    `context_mib`: the CUDA context with PyTorch's kernels, cuBLAS and cuDNN loaded, as
    `nvidia-smi` counts it. `cublas_bytes`: what PyTorch sets aside for each cuBLAS handle
    (one per thread: forward and backward have one each). `cublaslt_bytes`: a matrix
    product with a bias takes this for as long as it runs. `tensor_cores`: convolutions in
    32-bit floats go through TF32 kernels by default, whose workspaces are known here.
    """

    context_mib: float = CONTEXT_MIB
    cublas_bytes: int = 2 * (4096 << 10) + 8 * (16 << 10)
    cublaslt_bytes: int = 1 << 20
    tensor_cores: bool = True


_HOPPER = Overheads(cublas_bytes=32 << 20, cublaslt_bytes=32 << 20)
_BEFORE_AMPERE = Overheads(tensor_cores=False)
_KINDS = (
    *((mark, _HOPPER) for mark in ("H100", "H200", "H800", "H20", "GH200")),
    *((mark, _BEFORE_AMPERE) for mark in ("V100", "P100", "TESLA T4", "RTX 20", "TITAN")),
)


def overheads(device_kind: str | None = None) -> Overheads:
    """The figures for a GPU of this name."""
    words = (device_kind or "").upper()[:200]
    return next((found for mark, found in _KINDS if mark in words), Overheads())


def context_mib(device_kind: str | None = None) -> float:
    """MiB that a process takes on such a GPU before its first tensor."""
    return overheads(device_kind).context_mib

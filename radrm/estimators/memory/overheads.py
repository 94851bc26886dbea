"""The memory of a training process on a GPU without its tensors: context and workspaces.

The figures are by kind of GPU. A kind is the driver's name for it, such as
`NVIDIA A100-SXM4-40GB`. None or an unknown name counts as an A100, for which the figures
were fitted (docs/tracing.md names the measurements). The context also depends on the driver
and on PyTorch's build, so a measurement on the machine is better.
"""

from __future__ import annotations

from dataclasses import dataclass

CONTEXT_MIB = 1716.0
"""A100, CUDA 12.2, PyTorch 2.4. Fitted on published jobs that need almost nothing else."""

CUDNN_MIB = 277.0
"""The memory that cuDNN's kernels add once a convolution has loaded them, on the same GPUs."""

GROWTH = 0.02
"""The growth of long runs after two steps, as a share of the allocated peak: kernels that are
loaded late, batches that are prepared ahead, fragments. Fitted."""


@dataclass(frozen=True, slots=True)
class Overheads:
    """The figures of one kind of GPU.

    `context_mib` is the CUDA context with PyTorch's kernels, cuBLAS and cuDNN, as `nvidia-smi`
    shows it. `cublas_bytes` is what PyTorch allocates for each cuBLAS handle; the threads of
    the forward and of the backward pass have one each. `cublaslt_bytes` is the workspace of a
    matrix product with a bias, while it runs. `tensor_cores` says whether convolutions in
    32-bit floats use TF32 kernels, whose workspaces are known.
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
    """Return the figures for a GPU of this name."""
    words = (device_kind or "").upper()[:200]
    return next((found for mark, found in _KINDS if mark in words), Overheads())


def context_mib(device_kind: str | None = None) -> float:
    """Return the MiB that a process takes on such a GPU before its first tensor."""
    return overheads(device_kind).context_mib

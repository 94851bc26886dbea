"""Judge whether an attempt ran out of GPU memory. The daemon asks after its exit.

Two things must agree: a failed exit, and a fatal signature where the program ended
(`last_words.py`).
"""

from __future__ import annotations

import math
import re

from radrm.core.records import Exit, OutOfMemory
from radrm.last_words import HOST_MEMORY, lines_of, search

# An abort, fault, trap or illegal instruction can follow an uncaught error. Other signals come
# from outside; the host's own OOM killer uses SIGKILL.
_CRASH_SIGNALS = frozenset({4, 5, 6, 11})

_SIGNATURES: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (name, re.compile(pattern))
    for name, pattern in (
        (
            "CUDA out of memory",
            r"(?:Error: |Error\(['\"])CUDA out of memory|CUDA out of memory\. Tried to allocate",
        ),
        (
            "OutOfMemoryError",
            r"(?<!except )\b(?:torch|torch\.cuda|cupy\.cuda\.memory)\.OutOfMemoryError:?(?: |$)",
        ),
        ("CUDA error: out of memory", r"CUDA (?:driver )?error: out of memory"),
        ("cudaErrorMemoryAllocation", r"\bcudaErrorMemoryAllocation\b"),
        (
            "cudaMalloc out of memory",
            r"\bcu(?:da)?(?:Mem)?(?:Alloc|Malloc) (?:retry )?failed: out of memory",
        ),
        (
            "CUDA_ERROR_OUT_OF_MEMORY",
            r"(?:results in |[Ee]rror\b.{0,80}|[Ff]ailed\b.{0,80})\bCUDA_ERROR_OUT_OF_MEMORY\b"
            r"|\bCUDA_ERROR_OUT_OF_MEMORY: out of memory|^\s{0,20}CUDA_ERROR_OUT_OF_MEMORY$",
        ),
        ("cuDNN allocation failed", r"CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED"),
        ("CUDA library allocation failed", r"\bCU(?:FFT|SOLVER_STATUS|SPARSE_STATUS)_ALLOC_FAILED"),
        (
            "ResourceExhaustedError",
            r"\bOOM when allocating tensor with shape\[|\bfailed to allocate memory \[Op:"
            r"|\bOut of memory error on GPU \d",
        ),
        ("Dst tensor is not initialized", r"\bDst tensor is not initialized"),
        (
            "RESOURCE_EXHAUSTED",
            r"(?:RESOURCE_EXHAUSTED|Resource exhausted): (?:Out of memory (?:while trying to "
            r"allocate|allocating)|Failed to allocate request for|CUDA_ERROR_OUT_OF_MEMORY)",
        ),
        ("NCCL out of memory", r"Cuda failure (?:\d{1,4} )?'out of memory'|Failed to CUDA calloc"),
        ("CUBLAS_STATUS_ALLOC_FAILED", r"CUBLAS_STATUS_ALLOC_FAILED when calling"),
        # Before PyTorch reports that memory ran out, it asks NVML which processes have it. On a MIG
        # instance NVML refuses that, and an assertion fails.
        (
            "NVML assertion",
            r"NVML_SUCCESS == .{1,80} INTERNAL ASSERT FAILED at .{1,200}CUDACachingAllocator",
        ),
        (
            "vLLM: free memory",
            r"Free memory on device .{1,60} on startup is less than desired GPU memory utilization",
        ),
        ("vLLM: cache blocks", r"No available memory for the cache blocks"),
        (
            "SGLang: memory pool",
            r"Not enough memory\. Please try to increase --mem-fraction-static",
        ),
        ("ONNX Runtime: CUDA", r"CUDA failure 2: out of memory"),
        ("ONNX Runtime: arena", r"Failed to allocate memory for requested buffer of size \d"),
        (
            "TensorRT",
            r"Cuda Runtime \(out of memory\)"
            r"|Requested amount of GPU memory \(\d{1,20} bytes\) could not be allocated",
        ),
        ("RMM", r"out_of_memory: RMM failure"),
        ("CUDA.jl", r"ERROR: (?:LoadError: )?Out of GPU memory trying to allocate"),
    )
)
_OPTIONS = {
    "vLLM: free memory": "--gpu-memory-utilization",
    "vLLM: cache blocks": "--gpu-memory-utilization",
    "SGLang: memory pool": "--mem-fraction-static",
}
"""Of programs that take a fraction of the GPU's total memory: the option that sets it."""

_BAD_INDEX = re.compile(
    r"device-side assert|Assertion `[^`]{0,200}` failed|index out of (?:range|bounds)|IndexError:"
    r"|indexSelect(?:Large|Small)Index"
)
_ON_THE_CPU = re.compile(
    r"CUDAExecutionProvider' is not in available|Failed to create CUDAExecutionProvider"
)
# A weak signature has a more common cause, which other lines show: an index outside its table, or
# a session that uses the host's memory.
_WEAK = {"CUBLAS_STATUS_ALLOC_FAILED": _BAD_INDEX, "ONNX Runtime: arena": _ON_THE_CPU}

_REQUEST = re.compile(
    r"(?:allocat(?:e|ing) |calloc |calloc async |request for |GPU memory \()"
    r"([\d,]{1,24}(?:\.\d{1,6})?) ?(bytes|[KMGT]i?B|B)\b|buffer of size (\d{1,24})",
    re.IGNORECASE,
)
_MIB_PER = {"b": 2.0**-20, "k": 2.0**-10, "m": 1.0, "g": 2.0**10, "t": 2.0**20}
_MAX_REQUEST_MIB = 2**30


def classify(exit: Exit, tail: str) -> OutOfMemory | None:
    """Return the evidence that GPU memory ran out. None: success, or no such evidence.

    Only the last `TAIL_BYTES` characters of `tail` count. This function never raises, and
    its time is linear in these characters: the output may come from any program.
    """
    if exit.ok or not ended_by_itself(exit):
        return None
    lines = lines_of(tail)
    found = search(lines, _signature)
    if found is None:
        return None
    likelier = _WEAK.get(found.signature)
    return None if likelier is not None and any(map(likelier.search, lines)) else found


def ended_by_itself(exit: Exit) -> bool:
    """Return whether its last words can explain the exit: no signal, or a crash.

    A shell reports signal n as 128 + n.
    """
    code = exit.shell_code
    if code is None:
        return False
    return code - 128 in _CRASH_SIGNALS or not 128 < code <= 128 + 64


def _signature(line: str) -> OutOfMemory | None:
    if HOST_MEMORY.search(line):
        return None
    for name, pattern in _SIGNATURES:
        if pattern.search(line):
            return OutOfMemory(name, _requested_mib(line), fraction=_OPTIONS.get(name))
    return None


def _requested_mib(line: str) -> int | None:
    """Return the size of the request that failed, rounded up. None: the line has no size."""
    found = _REQUEST.search(line)
    if found is None:
        return None
    try:
        amount = float((found[1] or found[3]).replace(",", ""))
    except ValueError:
        return None
    mib = math.ceil(amount * _MIB_PER[(found[2] or "b")[0].lower()])
    return mib if 0 < mib <= _MAX_REQUEST_MIB else None

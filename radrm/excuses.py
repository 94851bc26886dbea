"""Judge whether a failure lies with others than the job, and may pass: with the GPU's MPS server
or driver, or with a process beside it on the GPU.

CUDA gives such failures errors of their own (CUDA driver API, `CUresult`): 805 to 807 and 810 for
MPS, 802 for a driver or NVLink fabric that is not ready yet, 214 and 220 for errors of the GPU's
memory and links, after which another process may work. As for out-of-memory two things must
agree: a failed exit, and the error where the program ended (`last_words.py`).

Some programs fail when the memory of their GPU becomes free, or is taken, while they start, or when
another one has the GPU for itself. On a shared GPU that passes. A job that fails so again alone
fails by itself: `BESIDE` has these reasons (`core/lifecycle/leaving.py`).

PyTorch only warns when it finds no GPU, and the program fails later because it has none. So its
warning near the end counts, too.
"""

from __future__ import annotations

import re

from radrm.core.records import Exit
from radrm.last_words import AFTERMATH_LINES, lines_of, search
from radrm.oom import ended_by_itself

_ERRORS = (
    (805, "it could not connect to its MPS server", "MPS_CONNECTION_FAILED", "MpsConnectionFailed"),
    (806, "it has lost its MPS server", "MPS_RPC_FAILURE", "MpsRpcFailure"),
    (807, "its MPS server took no new client", "MPS_SERVER_NOT_READY", "MpsServerNotReady"),
    (810, "its MPS server has ended its work", "MPS_CLIENT_TERMINATED", "MpsClientTerminated"),
    (802, "the GPU's driver was not ready", "SYSTEM_NOT_READY", "SystemNotReady"),
    (214, "its GPU's memory had an error", "ECC_UNCORRECTABLE", "ECCUncorrectable"),
    (220, "its GPU's NVLink had an error", "NVLINK_UNCORRECTABLE", "NvlinkUncorrectable"),
)
"""Number, meaning, and the names of the driver's and of the runtime's interface."""
_TEXTS = {
    214: "uncorrectable ECC error encountered",
    220: "uncorrectable NVLink error detected during the execution",
    802: "system not yet initialized",
    805: "MPS client failed to connect to the MPS control daemon or the MPS server",
    806: "the remote procedural call between the MPS server and the MPS client failed",
    807: "MPS server is not ready to accept new MPS client requests",
    810: "the MPS client has been terminated by the server",
}
"""What `cuGetErrorString` says."""


def _pattern(number: int, driver: str, runtime: str) -> re.Pattern[str]:
    names = rf"\bCUDA_ERROR_{driver}\b|\bcudaError{runtime}\b"
    # Other programs have such systems, too, so this text needs CUDA's number or name.
    before = r"(?:[Ee]rror 802: |\bCUDA\b.{0,40})" if number == 802 else ""
    return re.compile(rf"{names}|\bCUDA error:? {number}\b|{before}{re.escape(_TEXTS[number])}")


_SIGNATURES = tuple(
    (_pattern(number, driver, runtime), f"{meaning} (CUDA error {number})")
    for number, meaning, driver, runtime in _ERRORS
)
_BESIDE = (
    # vLLM, `determine_available_memory`.
    (
        re.compile(r"Error in memory profiling\. Initial free memory"),
        "the free memory of its GPU changed while vLLM measured it",
    ),
    # SGLang, `init_torch_distributed`.
    (
        re.compile(r"memory capacity is unbalanced\. Some GPUs may be occupied by other processes"),
        "other processes use memory of its GPUs",
    ),
    (
        re.compile(
            r"(?:all CUDA-capable devices are|CUDA-capable device\(s\) is/are) busy or unavailable"
            r"|\bcudaErrorDevices?Unavailable\b|\bCUDA_ERROR_DEVICE_UNAVAILABLE\b"
        ),
        "its GPU was busy or unavailable (CUDA error 46)",
    ),
    (
        re.compile(r"\bCUDA error: initialization error|\bcudaErrorInitializationError\b"),
        "CUDA could not be initialized (CUDA error 3)",
    ),
)
BESIDE = frozenset(meaning for _, meaning in _BESIDE)
"""The reasons that another process on the GPU may cause, and else the job itself."""
_NO_GPU = re.compile(r"CUDA initialization: .{0,300}Error \d{3}: ")


def excuse_of(exit: Exit, tail: str) -> str | None:
    """Return why a failure may pass, for users. None: success, or no such error.

    Only the last `last_words.TAIL_BYTES` characters of `tail` count. This function never raises,
    and its time is linear in these characters: the output may come from any program.
    """
    if exit.ok or not ended_by_itself(exit):
        return None
    lines = lines_of(tail)
    found = search(lines, _meaning)
    if found is not None:
        return found
    warned = filter(_NO_GPU.search, lines[-AFTERMATH_LINES:])
    return next(filter(None, map(_meaning, warned)), None)


def _meaning(line: str) -> str | None:
    for pattern, meaning in (*_SIGNATURES, *_BESIDE):
        if pattern.search(line):
            return meaning
    return None

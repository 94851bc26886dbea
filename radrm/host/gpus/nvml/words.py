"""NVML's error numbers, and what people are told about them.

Every text names the cause and, where there is one, the next step; who calls puts the
thing before it.
"""

from __future__ import annotations

# As NVML's header numbers them.
UNINITIALIZED, INVALID_ARGUMENT, NOT_SUPPORTED, NO_PERMISSION = 1, 2, 3, 4
NOT_FOUND, DRIVER_NOT_LOADED, TIMEOUT, LIBRARY_NOT_FOUND = 6, 9, 10, 12
FUNCTION_NOT_FOUND, GPU_IS_LOST, RESET_REQUIRED = 13, 15, 16
LIBRARY_MISMATCH, ARGUMENT_VERSION, GPU_NOT_FOUND = 18, 25, 28

NOT_OFFERED = frozenset({NOT_SUPPORTED, NO_PERMISSION, FUNCTION_NOT_FOUND, ARGUMENT_VERSION})
"""The quantity is not there; the device is."""
GONE = frozenset({INVALID_ARGUMENT, NOT_FOUND, GPU_NOT_FOUND})
"""The device is not there, or its handle is stale."""
BROKEN = frozenset({GPU_IS_LOST, RESET_REQUIRED})
"""Whoever can be read again after these has been reset."""

# A GPU in use cannot be reset, and radrm, as it reads the GPU, uses it.
RESET = (
    "when its jobs have ended, stop radrm, run nvidia-smi --gpu-reset as root, start radrm; "
    "or reboot the server"
)
REBOOT = "reboot the server"

LIBRARY_TROUBLE = {
    UNINITIALIZED: "the NVIDIA driver has closed the connection; it is opened anew by itself",
    DRIVER_NOT_LOADED: "the NVIDIA driver is not loaded; load it with: modprobe nvidia",
    LIBRARY_NOT_FOUND: "the NVIDIA driver's library libnvidia-ml.so.1 is not installed; "
    "install the NVIDIA driver",
    LIBRARY_MISMATCH: f"the NVIDIA driver was upgraded while its old version is loaded; {REBOOT}",
}
"""Errors of the library as a whole: no device can be read."""

_UNKNOWN = "the driver does not know it any more; see nvidia-smi -L for what is there"
_DEVICE_TROUBLE = {
    INVALID_ARGUMENT: _UNKNOWN,
    NOT_FOUND: _UNKNOWN,
    GPU_NOT_FOUND: _UNKNOWN,
    NO_PERMISSION: "the driver does not let this user read it",
    NOT_SUPPORTED: "the driver cannot read it",
    TIMEOUT: "the driver did not answer in time",
    GPU_IS_LOST: f"the GPU is lost: it has fallen off the bus; {REBOOT}",
    RESET_REQUIRED: f"the GPU must be reset; {RESET}",
}


def of_device(number: int, otherwise: object) -> str:
    """An error of one device; `otherwise` is said of one that is not known here."""
    return f"{_DEVICE_TROUBLE.get(number, otherwise)} (NVML error {number})"


def of_library(number: int, otherwise: object) -> str:
    """An error of the driver as a whole."""
    unknown = f"the NVIDIA driver does not answer: {otherwise}; look at nvidia-smi"
    return f"{LIBRARY_TROUBLE.get(number, unknown)} (NVML error {number})"

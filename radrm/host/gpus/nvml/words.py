"""NVML's error numbers and their messages.

Every message names the cause and, if there is one, the remedy. The caller puts the name of the
device before it.
"""

from __future__ import annotations

# Numbers of nvmlReturn_t in nvml.h.
UNINITIALIZED, INVALID_ARGUMENT, NOT_SUPPORTED, NO_PERMISSION = 1, 2, 3, 4
NOT_FOUND, DRIVER_NOT_LOADED, TIMEOUT, LIBRARY_NOT_FOUND = 6, 9, 10, 12
FUNCTION_NOT_FOUND, GPU_IS_LOST, RESET_REQUIRED = 13, 15, 16
LIBRARY_MISMATCH, ARGUMENT_VERSION, GPU_NOT_FOUND = 18, 25, 28

NOT_OFFERED = frozenset({NOT_SUPPORTED, NO_PERMISSION, FUNCTION_NOT_FOUND, ARGUMENT_VERSION})
"""The device does not offer the quantity."""
NOT_OFFERED_BY_INSTANCE = NOT_OFFERED | {INVALID_ARGUMENT}
"""The same for a MIG instance whose handle was valid in another call just before."""
GONE = frozenset({INVALID_ARGUMENT, NOT_FOUND, GPU_NOT_FOUND})
"""The device does not exist, or its handle is stale."""
BROKEN = frozenset({GPU_IS_LOST, RESET_REQUIRED})
"""A GPU that can be read again after these was reset."""

# A GPU in use cannot be reset. Reading it is a use, and MPS control daemons outlive radrm.
RESET = (
    "when its jobs have ended, run radrm mps stop --all, stop radrm, run nvidia-smi --gpu-reset "
    "as root, start radrm; or reboot the server"
)
REBOOT = "reboot the server"

LIBRARY_ERRORS = {
    UNINITIALIZED: "the NVIDIA driver has closed the connection; radrm opens it again",
    DRIVER_NOT_LOADED: "the NVIDIA driver is not loaded; load it with: modprobe nvidia",
    LIBRARY_NOT_FOUND: "the NVIDIA driver is not installed (no libnvidia-ml.so.1)",
    LIBRARY_MISMATCH: f"the NVIDIA driver was upgraded while its old version is loaded; {REBOOT}",
}
"""Errors of the library as a whole: no device can be read."""

_UNKNOWN = "the driver no longer knows it; nvidia-smi -L lists all devices"
_DEVICE_ERRORS = {
    INVALID_ARGUMENT: _UNKNOWN,
    NOT_FOUND: _UNKNOWN,
    GPU_NOT_FOUND: _UNKNOWN,
    NO_PERMISSION: "the driver does not let this user read it",
    NOT_SUPPORTED: "the driver cannot read it",
    TIMEOUT: "the driver did not answer in time",
    GPU_IS_LOST: f"the GPU is lost: it has fallen off the bus; {REBOOT}",
    RESET_REQUIRED: f"the GPU must be reset; {RESET}",
}


def device_message(number: int, otherwise: object) -> str:
    """Return the message of an error of one device; `otherwise` is for an unknown number."""
    return f"{_DEVICE_ERRORS.get(number, otherwise)} (NVML error {number})"


def library_message(number: int, otherwise: object) -> str:
    """Return the message of an error of the driver as a whole."""
    if number == LIBRARY_NOT_FOUND:
        return LIBRARY_ERRORS[number]  # without a driver nobody needs a number
    unknown = f"the NVIDIA driver does not answer: {otherwise}; check nvidia-smi"
    return f"{LIBRARY_ERRORS.get(number, unknown)} (NVML error {number})"

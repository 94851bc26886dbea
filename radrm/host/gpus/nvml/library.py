"""The connection to the driver: which library, its calls by name, errors, numbers, processes."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NoReturn

from radrm.errors import DeviceError

# ------------------------------------------------------------------
# NVML's error numbers and their messages.
#
# Every message names the cause and, if there is one, the remedy. The caller puts the name of the
# device before it.


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


# ------------------------------------------------------------------
# Check the numbers of the driver: an impossible number becomes None (unknown).


MIB = 1024 * 1024


def mib(count: int | None, total: int) -> int | None:
    """Return bytes as MiB, rounded up; None if they exceed the `total` bytes of the device."""
    if count is None or not 0 <= count <= total:
        return None
    return -(-count // MIB)


# ------------------------------------------------------------------
# Which library `pynvml` loads: the driver's, or the one that RADRM_NVML_LIBRARY names.
#
# `pynvml` looks up all functions in its `nvmlLib`, and loads libnvidia-ml.so.1 only while that is
# None. So a library of another place, such as NVIDIA's mock, is put there before the first call.
#
# A library runs with the rights of its process. So root's processes load only a file that nobody
# but root can change. The variable counts in the environment of the reading process alone: that
# of a job or of a client never reaches the daemon.


VARIABLE = "RADRM_NVML_LIBRARY"

Fault = Callable[[str], "str | None"]
"""Returns who besides root can change a file, as a message; None if nobody can."""


def chosen(environ: Mapping[str, str] = os.environ) -> str | None:
    """Return the path of the library that the environment names; None for the driver's."""
    return environ.get(VARIABLE) or None


def load() -> Any:
    """Return `pynvml`, with the chosen library in it.

    Raises what the import raises, and `DeviceError` if that library cannot be used.
    """
    import pynvml  # imported here: machines without GPUs may lack it

    path = chosen()
    if path is not None and pynvml.nvmlLib is None:
        why = refusal(path, os.geteuid())
        if why is not None:
            raise DeviceError(f"{VARIABLE}={path}: {why}")
        pynvml.nvmlLib = _library(path)
    return pynvml


def refusal(path: str, uid: int, fault: Fault | None = None) -> str | None:
    """Return why a process of user `uid` does not load this file; None if it does."""
    if not os.path.isabs(path):
        return "not an absolute path; name the whole path of libnvidia-ml.so.1"
    try:
        mode = os.stat(path).st_mode
        changed_by = (fault or _fault)(path) if uid == 0 else None
    except OSError as error:
        return f"{error.strerror}; correct it or unset it"
    if not stat.S_ISREG(mode):
        return "not a file; name the file libnvidia-ml.so.1 itself"
    if changed_by is not None:
        move = "move the library to a folder that only root can write"
        return f"{changed_by}, so others could replace what root would run; {move}"
    return None


def _fault(path: str) -> str | None:
    from radrm.host.service.ownership import Ownership  # only root's processes need it

    found = Ownership(lasting=True).way(path)
    return str(found) if found is not None else None


def _library(path: str) -> Any:
    from ctypes import CDLL

    try:
        library = CDLL(path)
    except OSError as error:
        raise DeviceError(f"{VARIABLE}={path}: it cannot be loaded: {error}") from None
    if not hasattr(library, "nvmlInit_v2"):
        raise DeviceError(f"{VARIABLE}={path}: it is no NVML library (it has no nvmlInit_v2)")
    return library


# ------------------------------------------------------------------
# The connection to the driver: calls by name, and the meaning of their errors.
#
# Theory of operation. A call may hang for ever in the driver, and `close` must not hang with it.
# So nothing here waits for another thread: `close` shuts NVML down only if no other thread is
# inside a call. NVML's state belongs to the process, so `_inside` does too. Handles and event sets
# belong to one connection; `generation` changes whenever it closes, and their owners then drop
# them. A restart begins with a new connection.


_inside: set[int] = set()
"""The threads of this process that are inside a call. A thread that hangs keeps its old
connection; closing a newer connection must not wait for that thread."""


class Library:
    """The connection, over `pynvml` or a stand-in.

    Handles and event sets are valid in one `generation` only.
    """

    def __init__(self, pynvml: Any) -> None:
        self.pynvml = pynvml
        self.Error: type[Any] = pynvml.NVMLError
        """The class that calls raise; its `value` is NVML's error number."""
        self.generation = 0
        self.unloaded = 0
        """Number of times the driver was not loaded. All that was known of its GPUs ends then."""
        self.before_shutdown: list[Callable[[], None]] = []
        """Functions that free the driver's objects; `close` calls them before it disconnects."""
        self._ready = False

    # -------------------------------------------------------------- open and closed

    def connect(self) -> None:
        """Connect, unless connected. Raises `DeviceError`."""
        if not self._ready:
            self.call_driver("nvmlInit")
            self._ready = True

    def close(self) -> None:
        """Release the driver, so that an administrator can reset a GPU.

        While another thread is inside a call, NVML stays open until this process ends, because
        a shutdown would wait for that call. The shutdown itself may hang as well: then only the
        first thread that closes hangs in it.
        """
        ready, self._ready = self._ready, False
        if ready and not self.in_use_elsewhere:
            with self.inside():
                for free in self.before_shutdown:
                    free()
                try:
                    self.call("nvmlShutdown")
                except self.Error:
                    pass  # a driver that is gone holds nothing to release
        self.generation += 1

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Mark this thread as inside a call: `close` in another thread then does not shut down."""
        me = threading.get_ident()
        outermost = me not in _inside
        _inside.add(me)
        try:
            yield
        finally:
            if outermost:
                _inside.discard(me)

    @property
    def in_use_elsewhere(self) -> bool:
        """Whether another thread is inside a call."""
        return bool(_inside - {threading.get_ident()})

    # -------------------------------------------------------------- calls

    def call(self, name: str, *given: Any, **named: Any) -> Any:
        """Call a function. Raises `Error`, also if `pynvml` or the driver does not have it."""
        function = getattr(self.pynvml, name, None)
        if function is None:
            raise self.Error(FUNCTION_NOT_FOUND)
        try:
            return function(*given, **named)
        except getattr(self.pynvml, "NVMLLibraryMismatchError", ()):
            raise self.Error(FUNCTION_NOT_FOUND) from None

    def offered(self, name: str, *given: Any, **named: Any) -> Any:
        """Call a function; return None if the device does not offer it."""
        try:
            return self.call(name, *given, **named)
        except self.Error as error:
            if error.value in NOT_OFFERED:
                return None
            raise

    def call_or_none(self, name: str, *given: Any) -> Any:
        """Call a function that no reading depends on; return None after any error."""
        try:
            return self.call(name, *given)
        except self.Error:
            return None

    def text(self, name: str, *given: Any) -> str:
        """Call a function that returns text. Some versions of `pynvml` return bytes."""
        value = self.call(name, *given)
        return value.decode(errors="replace") if isinstance(value, bytes) else str(value)

    def call_driver(self, name: str) -> Any:
        """Call a function of the driver as a whole. Raises `DeviceError`."""
        try:
            return self.call(name)
        except self.Error as error:
            self._give_up(error)

    def error(self, error: Any) -> str:
        """Return the message of an error of one device. Raises `DeviceError` for the driver's."""
        if error.value in LIBRARY_ERRORS:
            self._give_up(error)
        return device_message(error.value, error)

    def _give_up(self, error: Any) -> NoReturn:
        self.close()
        self.unloaded += error.value == DRIVER_NOT_LOADED
        raise DeviceError(library_message(error.value, error)) from error


def query(what: Callable[[Any, Any], Any], uuid: str) -> Any:
    """Return the result of `what`, called with `pynvml` and the handle of the GPU.

    It opens and closes a connection of its own, so any thread may call it. Raises what the
    import, NVML and `what` raise.
    """
    pynvml = load()
    pynvml.nvmlInit()
    try:
        return what(pynvml, pynvml.nvmlDeviceGetHandleByUUID(uuid))
    finally:
        pynvml.nvmlShutdown()


# ------------------------------------------------------------------
# The driver's lists of the processes on one device.


def processes_of_kind(
    library: Library, handle: Any, kind: str, refusals: Collection[int] = NOT_OFFERED
) -> list[Any] | None:
    """Return the processes of a kind (Compute, MPSCompute, Graphics); None if there is no list.

    `refusals` are the errors that mean this.
    """
    try:
        found: list[Any] = library.call(f"nvmlDeviceGet{kind}RunningProcesses_v3", handle)
    except library.Error as error:
        if error.value in refusals:
            return None
        raise
    return found


def held_by_all(library: Library, handle: Any) -> int:
    """Return the bytes that the listed processes on a GPU use, as far as they are known."""
    held: dict[int, int] = {}
    for kind in ("Compute", "MPSCompute", "Graphics"):
        for process in processes_of_kind(library, handle, kind) or ():
            held[process.pid] = max(held.get(process.pid, 0), process.usedGpuMemory or 0)
    return sum(held.values())

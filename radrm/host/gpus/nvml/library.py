"""The connection to the driver: calls by name, and the meaning of their errors.

Theory of operation. A call may hang for ever in the driver, and `close` must not hang with it.
So nothing here waits for another thread: `close` shuts NVML down only if no other thread is
inside a call. NVML's state belongs to the process, so `_inside` does too. Handles and event sets
belong to one connection; `generation` changes whenever it closes, and their owners then drop
them. A restart begins with a new connection.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from radrm.errors import DeviceError
from radrm.host.gpus.nvml import loading, words

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
            raise self.Error(words.FUNCTION_NOT_FOUND)
        try:
            return function(*given, **named)
        except getattr(self.pynvml, "NVMLLibraryMismatchError", ()):
            raise self.Error(words.FUNCTION_NOT_FOUND) from None

    def offered(self, name: str, *given: Any, **named: Any) -> Any:
        """Call a function; return None if the device does not offer it."""
        try:
            return self.call(name, *given, **named)
        except self.Error as error:
            if error.value in words.NOT_OFFERED:
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
        if error.value in words.LIBRARY_ERRORS:
            self._give_up(error)
        return words.device_message(error.value, error)

    def _give_up(self, error: Any) -> NoReturn:
        self.close()
        self.unloaded += error.value == words.DRIVER_NOT_LOADED
        raise DeviceError(words.library_message(error.value, error)) from error


def query(what: Callable[[Any, Any], Any], uuid: str) -> Any:
    """Return the result of `what`, called with `pynvml` and the handle of the GPU.

    It opens and closes a connection of its own, so any thread may call it. Raises what the
    import, NVML and `what` raise.
    """
    pynvml = loading.load()
    pynvml.nvmlInit()
    try:
        return what(pynvml, pynvml.nvmlDeviceGetHandleByUUID(uuid))
    finally:
        pynvml.nvmlShutdown()

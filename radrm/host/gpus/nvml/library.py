"""The connection to the driver: calls by name, and which of their errors mean what.

Nothing here waits for another thread. A call may hang for ever inside a driver that is
stuck, and whoever wants to close must not hang with it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from radrm.errors import DeviceError
from radrm.host.gpus.nvml import words

_inside: set[int] = set()
"""The threads that are inside a call. Of the whole process, as NVML's state is: a connection
may be given up with its thread and another one opened, and then closing that must not wait."""


class Library:
    """`pynvml`, or what stands in for it.

    Handles and event sets are good for one `generation` only: it changes whenever the
    connection is closed.
    """

    def __init__(self, pynvml: Any) -> None:
        self.pynvml = pynvml
        self.Error: type[Any] = pynvml.NVMLError
        """What calls raise; its `value` is NVML's number of the error."""
        self.generation = 0
        self.unloaded = 0
        """How often the driver was found not to be loaded: then every GPU begins anew."""
        self.before_shutdown: list[Callable[[], None]] = []
        """Called while the driver can still be asked: to free what only it can free."""
        self._ready = False

    # -------------------------------------------------------------- open and closed

    def connect(self) -> None:
        """Raises `DeviceError`."""
        if not self._ready:
            self.of_all("nvmlInit")
            self._ready = True

    def close(self) -> None:
        """Let go of the driver, so that an administrator can reset a GPU.

        While another thread is inside a call, the driver is left to the end of this
        process: shutting down would wait for that call, which may hang.
        """
        if self._ready and not self.in_use_elsewhere:
            for free in self.before_shutdown:
                free()
            try:
                self.call("nvmlShutdown")
            except self.Error:
                pass  # a driver that is gone holds nothing of ours
        self._ready = False
        self.generation += 1

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Around all that calls the driver: another thread's `close` then leaves it alone."""
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
        return bool(_inside - {threading.get_ident()})

    # -------------------------------------------------------------- calls

    def call(self, name: str, *given: Any, **named: Any) -> Any:
        """Raises `Error`, also for what this version of `pynvml` or of the driver lacks."""
        function = getattr(self.pynvml, name, None)
        if function is None:
            raise self.Error(words.FUNCTION_NOT_FOUND)
        try:
            return function(*given, **named)
        except getattr(self.pynvml, "NVMLLibraryMismatchError", ()):
            raise self.Error(words.FUNCTION_NOT_FOUND) from None

    def offered(self, name: str, *given: Any, **named: Any) -> Any:
        """As `call`; None for what a device does not offer."""
        try:
            return self.call(name, *given, **named)
        except self.Error as error:
            if error.value in words.NOT_OFFERED:
                return None
            raise

    def perhaps(self, name: str, *given: Any) -> Any:
        """As `call`; None after any error. For what no reading depends on."""
        try:
            return self.call(name, *given)
        except self.Error:
            return None

    def text(self, name: str, *given: Any) -> str:
        """As `call`. Some versions of `pynvml` return bytes."""
        value = self.call(name, *given)
        return value.decode(errors="replace") if isinstance(value, bytes) else str(value)

    def of_all(self, name: str) -> Any:
        """Call what concerns no single device. Raises `DeviceError`."""
        try:
            return self.call(name)
        except self.Error as error:
            self._give_up(error)

    def trouble(self, error: Any) -> str:
        """An error of one device in words. Raises `DeviceError` for the driver's own."""
        if error.value in words.LIBRARY_TROUBLE:
            self._give_up(error)
        return words.of_device(error.value, error)

    def _give_up(self, error: Any) -> NoReturn:
        self.close()
        self.unloaded += error.value == words.DRIVER_NOT_LOADED
        raise DeviceError(words.of_library(error.value, error)) from error

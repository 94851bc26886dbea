"""A receiver of reports: a bound socket, and the datagrams it has received."""

from __future__ import annotations

import socket
from pathlib import Path


class Listener:
    """Binds the socket that `RADRM_PROGRESS` names."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(self.path)
        self._socket.setblocking(False)

    def taken(self) -> list[dict[str, float]]:
        """The datagrams that have come since the last call."""
        found = []
        while True:
            try:
                data = self._socket.recv(4096)
            except BlockingIOError:
                return found
            assert len(data) <= 512
            pairs = (line.split("=") for line in data.decode().splitlines())
            found.append({key: float(value) for key, value in pairs})

    def close(self) -> None:
        self._socket.close()

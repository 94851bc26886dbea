"""A running `radrm serve`, and requests to it as a browser or an attacker sends them."""

from __future__ import annotations

import http.client
import json
import re
import signal
import subprocess
import sys
from dataclasses import dataclass
from types import TracebackType
from urllib.parse import urlencode

from tests.daemon.harness import DaemonHome
from tests.waiting import PATIENCE_S, wait_until

HOSTILE = '<script>alert(1)<script>"><img src=x onerror=alert(2)>'


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    text: str


class Served:
    """One server on a free port. `cookie` is that of an open session."""

    def __init__(self, home: DaemonHome, *words: str) -> None:
        self._said = (home.folder / f"served{'-'.join(words)}.out").resolve()
        with self._said.open("wb") as out:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "radrm.cli.main", "serve", "--listen", "0", *words],
                env=home.environment,
                cwd=home.work,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
            )
        self.cookie = ""
        wait_until(self._links, "the link of radrm serve")
        self.port = int(self._links()[0].rpartition(":")[2].partition("/")[0])

    def __enter__(self) -> Served:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.end()

    def end(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(PATIENCE_S)

    def said(self) -> str:
        return self._said.read_text()

    def _links(self) -> list[str]:
        assert self._process.poll() is None, self.said()
        return re.findall(r"Open, once: (http\S+)\n", self.said())

    def new_link(self) -> str:
        """Have it print another link; returns that."""
        before = len(self._links())
        self._process.send_signal(signal.SIGUSR1)
        wait_until(lambda: len(self._links()) > before, "another link")
        return self._links()[-1]

    def open(self) -> Answer:
        """Begin a session."""
        link = self.new_link()
        answer = self.get(f"/open?{link.partition('?')[2]}")
        self.cookie = answer.headers["set-cookie"].partition(";")[0]
        return answer

    # ------------------------------------------------------------- requests

    def get(self, path: str, **headers: str) -> Answer:
        return self.ask("GET", path, headers)

    def post(self, path: str, fields: dict[str, str], **headers: str) -> Answer:
        kind = {"Content-Type": "application/x-www-form-urlencoded"}
        return self.ask("POST", path, {**kind, **headers}, urlencode(fields))

    def ask(self, method: str, path: str, headers: dict[str, str], body: str = "") -> Answer:
        """Send one request, with the session's cookie unless it has another."""
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        try:
            connection.request(method, path, body or None, {"Cookie": self.cookie, **given})
            found = connection.getresponse()
            kept = {name.lower(): value for name, value in found.getheaders()}
            return Answer(found.status, kept, found.read().decode())
        finally:
            connection.close()

    def events(self, path: str) -> Events:
        return Events(self, path)


class Events:
    """An open stream of server-sent events."""

    def __init__(self, served: Served, path: str) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=PATIENCE_S)
        self._connection.request("GET", path, headers={"Cookie": served.cookie})
        self._answer = self._connection.getresponse()
        self.status = self._answer.status

    def next(self) -> dict[str, str]:
        """Wait for the next fragments."""
        while True:
            line = self._answer.readline()
            assert line, "the stream has ended"
            if line.startswith(b"data: "):
                found: dict[str, str] = json.loads(line[6:])
                return found

    def close(self) -> None:
        self._answer.close()  # it holds the socket, too
        self._connection.close()

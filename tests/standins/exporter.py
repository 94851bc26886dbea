"""Stands in for dcgm-exporter: a page of metrics on a port of this machine.

Set `page` to what it serves and `status` to how it answers; with `renewing` every request gets
a page with another energy counter, as where numbers are collected every second.
"""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Exporter:
    """Serves from its making to `close`."""

    def __init__(self, page: str, renewing: bool = False) -> None:
        self.page = page
        self.renewing = renewing
        self.status = 200
        self.asked: list[str] = []
        exporter = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                exporter.asked.append(self.path)
                self.send_response(exporter.status)
                self.send_header("Location", "http://192.0.2.1/")
                self.end_headers()
                self.wfile.write(exporter.answer().encode())

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = int(self._server.server_address[1])
        self.url = f"http://127.0.0.1:{self.port}/metrics"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def answer(self) -> str:
        if not self.renewing:
            return self.page
        counter = f"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION {len(self.asked)}\n"
        return self.page + counter

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

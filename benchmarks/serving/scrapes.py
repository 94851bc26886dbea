"""What it costs to look at a daemon: a scrape of /metrics, and the decisions beside all who look.

A scrape is asked over HTTP after a job has changed, so that nothing of the answer is kept. Then a
job changes again and again, in turns alone and beside those who look: a scraper each second,
`radrm status --follow`, a coding agent that asks `queue_pressure` each second, and the web page.
The daemon's own histogram tells the time of its decisions; how long a command takes until it is
answered is measured here.

    python -m benchmarks.serving.scrapes
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from statistics import median
from typing import Any

import psutil

from benchmarks.real import cpu_s, occupy, running_daemon, submit, waiting
from benchmarks.table import Row, median_ms, p95_ms, percentile, shown
from tests.daemon.harness import DaemonHome
from tests.waiting import wait_until

LIMIT_MS = 20.0
MOST_SLOWER = 2.0
GPUS = 8
EVERY_S = 1.0
_PATIENCE_S = 1200.0
_NOWHERE = subprocess.DEVNULL
_FRESH_S = 1.05
"""The server of /metrics gives an answer to others for a second."""


def measure(
    jobs: int = 10_000,
    scrapes: int = 40,
    rounds: int = 12,
    seconds: float = 2.0,
    fresh_s: float = _FRESH_S,
    every_look: bool = True,
) -> list[Row]:
    with running_daemon(devices=GPUS) as home, served(home) as (url, server):
        occupy(home, GPUS, duration="1h")
        tickets, _ = submit(home, ("true",), jobs, gpus="2", duration="10m")
        wait_until(lambda: waiting(home) >= jobs, "all to be taken in", patience_s=_PATIENCE_S)
        changed = tickets[len(tickets) // 2]
        used_s = cpu_s(server)
        times = _scrapes(home, url, changed, scrapes, fresh_s)
        used_s = (cpu_s(server) - used_s) / scrapes
        alone, beside = _Decided(), _Decided()
        with looked_at(home, url, every_look) as pause:
            for _ in range(rounds):
                with pause():
                    _decide(home, changed, seconds, alone)
                _decide(home, changed, seconds, beside)
        home.ask("cancel", state="pending")
    slower = beside.p99_s / alone.p99_s
    of_all = f"median {median_ms(times):.1f} ms, of {len(times)}; its server takes "
    of_all += f"{used_s * 1e3:.1f} ms of CPU time for each"
    of_both = f"{beside.p99_s * 1e3:.1f} ms beside {alone.p99_s * 1e3:.1f} ms; until a command is "
    of_both += f"answered {_shown(beside.commands_s)} beside {_shown(alone.commands_s)}"
    return [
        Row(f"/metrics, {jobs:,} jobs, {GPUS} GPUs: p95", p95_ms(times), LIMIT_MS, "ms", of_all),
        Row("p99 of decisions, beside without those who look", slower, MOST_SLOWER, "x", of_both),
    ]


def _shown(seconds: list[float]) -> str:
    return f"median {median(seconds) * 1e3:.1f} ms, p99 {percentile(seconds, 0.99) * 1e3:.1f} ms"


class _Decided:
    """The decisions and commands of one side."""

    def __init__(self) -> None:
        self.commands_s: list[float] = []
        self._bounds: list[float] = []
        self._counts: list[int] = []

    def add(self, before: dict[str, Any], after: dict[str, Any]) -> None:
        """Add what the daemon's histogram has got."""
        self._bounds = after["bounds"]
        more = [b - a for a, b in zip(before["counts"], after["counts"], strict=True)]
        self._counts = [a + b for a, b in zip(self._counts or [0] * len(more), more, strict=True)]

    @property
    def p99_s(self) -> float:
        """As `histogram_quantile` of Prometheus: evenly within a bucket."""
        wanted, seen, low = 0.99 * sum(self._counts), 0, 0.0
        for bound, count in zip(self._bounds, self._counts, strict=False):
            if seen + count >= wanted:
                return low + (bound - low) * (wanted - seen) / count
            seen, low = seen + count, bound
        return low


def _fetch(url: str) -> float:
    """Seconds of a scrape. A bare connection: what Python's client does is no part of it."""
    host, port = url.split("/")[2].split(":")
    began = time.perf_counter()
    with socket.create_connection((host, int(port)), timeout=30) as server:
        server.sendall(b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n")
        text = b"".join(iter(lambda: server.recv(1 << 16), b""))
    took = time.perf_counter() - began
    if b"\nradrm_up 1.0\n" not in text:
        raise AssertionError(f"no metrics: {text[:200]!r}")
    return took


def _scrapes(home: DaemonHome, url: str, changed: str, count: int, fresh_s: float) -> list[float]:
    """Seconds of each scrape, over HTTP, each after a job has changed."""
    found = []
    for number in range(count):
        home.ask("release" if number % 2 else "hold", jobs=[changed])
        time.sleep(fresh_s)
        found.append(_fetch(url))
    return found


def _decide(home: DaemonHome, changed: str, seconds: float, into: _Decided) -> None:
    """Change a waiting job again and again for this time."""
    home.ask("release", jobs=[changed])  # so that the first change is one, and is decided
    before = home.ask("metrics")["decision_s"]
    until, held = time.perf_counter() + seconds, False
    while (began := time.perf_counter()) < until:
        held = not held
        home.ask("hold" if held else "release", jobs=[changed])
        into.commands_s.append(time.perf_counter() - began)
    into.add(before, home.ask("metrics")["decision_s"])


# ------------------------------------------------------------------ those who look


@contextmanager
def served(home: DaemonHome) -> Iterator[tuple[str, int]]:
    """`radrm metrics --listen` on a free port: its address, and its pid."""
    with _process(home, "metrics", "--listen", "0", stderr=subprocess.PIPE) as server:
        assert server.stderr is not None
        yield server.stderr.readline().decode().split()[1].rstrip(";"), server.pid


Pause = Callable[[], AbstractContextManager[None]]


@contextmanager
def looked_at(home: DaemonHome, url: str, every_look: bool) -> Iterator[Pause]:
    """Let all kinds of clients look while the block runs, but for the blocks of a pause: their
    processes are stopped there, and go on with what is overdue."""
    with ExitStack() as stack:
        stack.enter_context(_process(home, "status", "--follow", stdout=_NOWHERE))
        looks: list[Looking] = [lambda over, once: _scrape(url, over, once)]
        if every_look:  # these take long to start
            page = f"{home.folder}/page"
            stack.enter_context(
                _process(
                    home, "serve", "--socket", page, "--no-token", stdout=_NOWHERE, stderr=_NOWHERE
                )
            )
            looks += [_agent_of(home), lambda over, once: _live(page, over, once)]
        seen = [stack.enter_context(_thread(each)) for each in looks]
        for each in seen:
            wait_until(each.is_set, "the first answer of those who look")

        @contextmanager
        def pause() -> Iterator[None]:
            assert home.process is not None
            children = psutil.Process().children()
            looking = [each for each in children if each.pid != home.process.pid]
            for each in looking:
                each.suspend()
            try:
                yield
            finally:
                for each in looking:
                    each.resume()

        yield pause


@contextmanager
def _process(
    home: DaemonHome, *words: str, stdout: int | None = None, stderr: int | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "radrm.cli.main", *words]
    process = subprocess.Popen(command, env=home.environment, stdout=stdout, stderr=stderr)
    try:
        yield process
    finally:
        process.terminate()
        process.communicate()


Looking = Callable[[threading.Event, threading.Event], None]
"""Looks again and again until the first event; sets the second one after the first answer."""


@contextmanager
def _thread(look: Looking) -> Iterator[threading.Event]:
    over, once = threading.Event(), threading.Event()
    thread = threading.Thread(target=look, args=(over, once))
    thread.start()
    try:
        yield once
    finally:
        over.set()
        thread.join()


def _scrape(url: str, over: threading.Event, once: threading.Event) -> None:
    while not over.is_set():
        _fetch(url)
        once.set()
        over.wait(EVERY_S)


def _live(page: str, over: threading.Event, once: threading.Event) -> None:
    """Read the changes of the first page, as a browser does."""
    wait_until(lambda: os.path.exists(page), "the page")
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(page)
        server.settimeout(EVERY_S)
        server.sendall(b"GET /events?view=overview HTTP/1.1\r\nHost: localhost\r\n\r\n")
        while not over.is_set():
            with suppress(TimeoutError):
                text = server.recv(1 << 16)
                if not text or text.startswith(b"HTTP/1.1 4"):
                    raise AssertionError(f"the page is not live: {text[:200]!r}")
                if b"data: " in text:
                    once.set()


def _agent_of(home: DaemonHome) -> Looking:
    from mcp.client.client import Client
    from mcp.client.stdio import StdioServerParameters, stdio_client

    server = StdioServerParameters(
        command=sys.executable, args=["-m", "radrm.cli.main", "mcp"], env=home.environment
    )

    async def ask(over: threading.Event, once: threading.Event) -> None:
        async with Client(stdio_client(server)) as client:
            while not over.is_set():
                answer = await client.call_tool("queue_pressure", {})
                if answer.is_error:
                    raise AssertionError(f"no answer of radrm mcp: {answer}")
                once.set()
                await asyncio.to_thread(over.wait, EVERY_S)

    return lambda over, once: asyncio.run(ask(over, once))


def main() -> int:
    return shown(measure())


if __name__ == "__main__":
    sys.exit(main())

"""/metrics over HTTP, with clients that are slow, many, or no HTTP clients at all."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest

from radrm.metrics import serving
from radrm.metrics.serving import MetricsServer
from tests.waiting import PATIENCE_S

TEXT = b"radrm_up 1.0\n"
GET = b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n"


def serve(
    talk: Callable[[MetricsServer, int], Awaitable[None]],
    make: Callable[[], bytes] = lambda: TEXT,
    limit_s: float = PATIENCE_S,
) -> None:
    """Run a server on a free port while `talk` talks to it."""

    async def both() -> None:
        server, ready = MetricsServer(make, limit_s), asyncio.Event()
        port = 0

        def begin(_: str, number: int) -> None:
            nonlocal port
            port = number
            ready.set()

        serves = asyncio.create_task(server.serve("127.0.0.1", 0, begin))
        await ready.wait()
        try:
            await talk(server, port)
        finally:
            serves.cancel()
            with suppress(asyncio.CancelledError):
                await serves

    asyncio.run(asyncio.wait_for(both(), PATIENCE_S))


async def answer(port: int, request: bytes) -> bytes:
    """What the server sends for a request, until it closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(request)
        return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.001)


def test_a_scrape_gets_the_text_and_its_type() -> None:
    async def talk(server: MetricsServer, port: int) -> None:
        head, _, body = (await answer(port, GET)).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 OK\r\n") and body == TEXT
        assert b"\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n" in head
        assert b"\r\nContent-Length: %d\r\n" % len(TEXT) in head
        await until(lambda: len(server.connections) == 0)

    serve(talk)


@pytest.mark.parametrize(
    ("request_", "status", "has_body"),
    [
        (GET.replace(b"GET", b"HEAD"), b"200", False),
        (GET.replace(b"/metrics", b"/metrics?name[]=radrm_up"), b"200", True),
        (GET.replace(b"/metrics", b"/"), b"404", True),
        (GET.replace(b"/metrics", b"/../metrics"), b"404", True),
        (GET.replace(b"GET", b"POST"), b"405", True),
        (b"\r\n\r\n", b"405", True),
        (b"GET \x00\xff\r\n\r\n", b"404", True),
    ],
)
def test_only_metrics_is_served(request_: bytes, status: bytes, has_body: bool) -> None:
    async def talk(server: MetricsServer, port: int) -> None:
        head, _, body = (await answer(port, request_)).partition(b"\r\n\r\n")
        assert head.split(b" ")[1] == status and bool(body) is has_body

    serve(talk)


@pytest.mark.parametrize("request_", [b"A" * 100_000, b"GET /metrics", b""])
def test_a_request_is_bounded_in_size_and_in_time(request_: bytes) -> None:
    async def talk(server: MetricsServer, port: int) -> None:
        assert await answer(port, request_) == b""
        await until(lambda: len(server.connections) == 0)

    serve(talk, limit_s=0.2)


def test_a_reader_that_never_reads_is_given_up() -> None:
    async def talk(server: MetricsServer, port: int) -> None:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(GET)
        await until(lambda: len(server.connections) == 1)
        await until(lambda: len(server.connections) == 0)
        writer.close()

    serve(talk, make=lambda: b"x" * 50_000_000, limit_s=0.2)


def test_silent_connections_give_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "MOST", 5)

    async def talk(server: MetricsServer, port: int) -> None:
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(20)]
        await until(lambda: len(server.connections) == 5)
        assert (await answer(port, GET)).endswith(TEXT)
        assert len(server.connections) <= 5
        for reader, _ in silent[:15]:
            with suppress(ConnectionError):
                assert await reader.read() == b""
        for _, writer in silent:
            writer.close()

    serve(talk)


def test_many_scrapes_at_once_are_one_question(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "GOOD_S", PATIENCE_S)
    asked, go = [], threading.Event()

    def make() -> bytes:
        asked.append(1)
        go.wait(PATIENCE_S)
        return TEXT

    async def talk(server: MetricsServer, port: int) -> None:
        scrapes = [asyncio.create_task(answer(port, GET)) for _ in range(40)]
        leaves = asyncio.create_task(answer(port, GET))
        await until(lambda: len(server.connections) == 41)
        leaves.cancel()
        go.set()
        assert all(each.endswith(TEXT) for each in await asyncio.gather(*scrapes))
        assert (await answer(port, GET)).endswith(TEXT)
        assert len(asked) == 1

    serve(talk, make)


def test_beyond_the_most_that_wait_for_an_answer_new_ones_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(serving, "MOST", 3)
    go = threading.Event()

    def make() -> bytes:
        go.wait(PATIENCE_S)
        return TEXT

    async def talk(server: MetricsServer, port: int) -> None:
        scrapes = [asyncio.create_task(answer(port, GET)) for _ in range(3)]
        await until(lambda: len(server.connections) == 3 and not server.connections.waiting)
        assert await answer(port, GET) == b""
        go.set()
        assert all(each.endswith(TEXT) for each in await asyncio.gather(*scrapes))

    serve(talk, make)

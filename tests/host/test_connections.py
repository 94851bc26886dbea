"""Who keeps a place at a server, and for how long. Connections are pairs of sockets."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest

from radrm.host.connections import Connections
from tests.waiting import PATIENCE_S

MUCH = b"x" * 2**24


class Guest(asyncio.Protocol):
    """One connection of the server: a line is a request."""

    transport: asyncio.Transport

    def __init__(self, places: Connections) -> None:
        self.places = places
        self.lost = asyncio.Event()

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.places.opened(transport)

    def data_received(self, data: bytes) -> None:
        if data.endswith(b"\n"):
            self.places.arrived(self.transport)

    def pause_writing(self) -> None:
        self.places.blocked(self.transport)

    def resume_writing(self) -> None:
        self.places.unblocked(self.transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self.places.lost(self.transport)
        self.lost.set()


class Table:
    """A server of `most` places and its clients."""

    def __init__(self, most: int = 9, limit_s: float = PATIENCE_S) -> None:
        self.places = Connections(most, limit_s)
        self.clients: dict[Guest, socket.socket] = {}

    async def comes(self) -> Guest:
        ours, theirs = socket.socketpair()
        _, guest = await asyncio.get_running_loop().create_connection(
            lambda: Guest(self.places), sock=ours
        )
        self.clients[guest] = theirs
        return guest

    async def asks(self, guest: Guest, words: bytes = b"?\n") -> None:
        waiting = self.places.waiting
        with suppress(OSError):  # its time was over before
            self.clients[guest].sendall(words)
        if words.endswith(b"\n"):
            await until(lambda: self.places.waiting < waiting)

    def close(self) -> None:
        for guest, client in self.clients.items():
            client.close()
            guest.transport.abort()


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0)


def play(talk: Callable[[Table], Awaitable[None]], table: Callable[[], Table]) -> None:
    async def run() -> None:
        here = table()
        try:
            await talk(here)
        finally:
            here.close()

    asyncio.run(asyncio.wait_for(run(), PATIENCE_S))


async def silent(table: Table, guest: Guest) -> None:
    """It asks nothing."""


async def half(table: Table, guest: Guest) -> None:
    """It never ends its request."""
    await table.asks(guest, b"?")


async def deaf(table: Table, guest: Guest) -> None:
    """It asks and does not read."""
    await table.asks(guest)
    guest.transport.write(MUCH)


async def stops(table: Table, guest: Guest) -> None:
    """It reads the beginning of an answer that has been ended, and then nothing more."""
    await deaf(table, guest)
    guest.transport.close()
    with suppress(OSError):
        await asyncio.get_running_loop().run_in_executor(None, table.clients[guest].recv, 1000)


@pytest.mark.parametrize("bad", [silent, half, deaf, stops])
def test_a_client_that_keeps_the_server_waiting_is_disconnected(bad: Any) -> None:
    async def talk(table: Table) -> None:
        guest = await table.comes()
        await bad(table, guest)
        await guest.lost.wait()
        assert len(table.places) == table.places.waiting == 0

    play(talk, lambda: Table(limit_s=0.05))


@pytest.mark.parametrize("bad", [silent, half, deaf, stops])
def test_the_one_that_keeps_the_server_waiting_longest_gives_way(bad: Any) -> None:
    async def talk(table: Table) -> None:
        first, second, third = [await table.comes() for _ in range(3)]
        await table.asks(second)  # it waits for the server
        await bad(table, first)
        await bad(table, third)
        fourth = await table.comes()
        await first.lost.wait()
        assert not any(each.lost.is_set() for each in (second, third, fourth))
        assert len(table.places) == 3

    play(talk, lambda: Table(most=3))


def test_no_one_who_waits_for_the_server_gives_way() -> None:
    async def talk(table: Table) -> None:
        guests = [await table.comes() for _ in range(3)]
        for each in guests:
            await table.asks(each)
        refused = await table.comes()
        await refused.lost.wait()
        assert len(table.places) == 3 and not any(each.lost.is_set() for each in guests)

    play(talk, lambda: Table(most=3))


def test_one_who_has_read_all_waits_for_the_server_again() -> None:
    """A stream: its connection lasts as long as its client reads what comes."""

    async def talk(table: Table) -> None:
        loop, guest = asyncio.get_running_loop(), await table.comes()
        await deaf(table, guest)
        assert table.places.waiting == 1
        client, left = table.clients[guest], len(MUCH)
        while left:
            left -= len(await loop.run_in_executor(None, client.recv, left))
        await until(lambda: table.places.waiting == 0)
        assert len(table.places) == 1

    play(talk, Table)

"""Requests in pieces: fair over users, and given up where nobody waits for them any more."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from radrm.daemon.serving.server import Request
from radrm.daemon.serving.turns import (
    AT_ONCE,
    OF_SUBMISSIONS,
    OF_THE_PAST,
    OTHERS,
    ROUND_S,
    Turns,
    kind_of,
)
from radrm.host.sockets import Peer


class Bench:
    """Requests whose work is counted; each piece takes a third of a round."""

    def __init__(self) -> None:
        self.now = 0.0
        self.worked: list[str] = []
        self.turns = Turns(self.answer, lambda: self.now)

    def add(self, name: str, uid: int, pieces: int = 1) -> Request:
        request = Request(f"{name} {pieces}".encode(), Peer(1, uid, uid))
        self.turns.add(request)
        return request

    def answer(self, request: Request) -> Iterator[None]:
        name, pieces = request.line.decode().split()
        request.total = int(pieces)
        for _ in range(int(pieces)):
            self.now += ROUND_S / 3
            self.worked.append(name)
            request.done += 1
            yield
        request.answer(name)


def error(request: Request) -> str:
    answer: dict[str, Any] | None = request.wait(0)
    assert not answer["ok"]
    return str(answer["error"])


def test_a_round_is_short_and_users_take_turns() -> None:
    bench = Bench()
    for n in range(50):
        bench.add(f"flood{n}", 1, 1000)
    quick = bench.add("quick", 2)
    bench.turns.run()
    assert len(bench.worked) == 3 and "quick" in bench.worked
    bench.turns.run()
    assert quick.wait(0) == {"ok": True, "result": "quick"}


def test_only_a_few_of_one_user_are_under_way_and_a_quick_one_passes_long_ones() -> None:
    bench = Bench()
    for n in range(AT_ONCE - 1):
        bench.add(f"long{n}", 1, 10_000)
    quick = bench.add("quick", 1)
    late = [bench.add(f"late{n}", 1, 10_000) for n in range(10)]
    for _ in range(20):
        bench.turns.run()
    assert quick.wait(0) is not None
    begun = set(bench.worked) - {"quick"}
    assert len(begun) == AT_ONCE, begun
    assert late[-1].withdraw(), "nobody has begun with it"


def test_quick_requests_that_never_end_do_not_starve_a_long_one_of_their_user() -> None:
    class Asking(Bench):
        def answer(self, request: Request) -> Iterator[None]:
            if not request.line.startswith(b"again"):
                return (yield from super().answer(request))
            self.now += ROUND_S / 3
            self.add("again", 1)

    bench = Asking()
    long = bench.add("long", 1, 3)
    for _ in range(AT_ONCE):
        bench.add("again", 1)
    for _ in range(4):
        bench.turns.run()
    assert long.wait(0) is not None, bench.worked


@pytest.mark.parametrize(
    ("slow", "quick"),
    [
        ('{"op":"report"}', '{"op":"intake"}'),
        ('{"op":"report"}', '{"op":"status"}'),
        ('{"op":"cancel"}', '{"op":"check"}'),
        ('{"op":"history"}', '{"op":"cancel"}'),
    ],
)
def test_slow_requests_of_one_kind_do_not_delay_those_of_another(slow: str, quick: str) -> None:
    bench = Bench()
    for _ in range(2 * AT_ONCE):
        bench.add(slow, 1, 10_000)
    for _ in range(AT_ONCE):
        bench.turns.run()
    asked = bench.add(quick, 1)
    for _ in range(AT_ONCE):
        bench.turns.run()
    assert asked.wait(0) is not None, "it began at once, although all other places are taken"


def test_the_kinds_of_one_user_take_turns() -> None:
    bench = Bench()
    for _ in range(1000):
        bench.add('{"op":"ping"}', 1)
    command = bench.add('{"op":"cancel"}', 1)
    for _ in range(4):
        bench.turns.run()
    assert command.wait(0) is not None


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        (b'{"op": "intake", "jobs": []}', OF_SUBMISSIONS),
        (b'{"op":"check"}', OF_SUBMISSIONS),
        (b' { "op" : "report" }', OF_THE_PAST),
        (b'{"op": "cancel"}', OTHERS),
        (b'{"jobs": [], "op": "intake"}', OTHERS),
        (b"", OTHERS),
        (b"\xff", OTHERS),
    ],
)
def test_the_kind_of_a_request(line: bytes, kind: str) -> None:
    assert kind_of(line) == kind


def test_what_was_not_begun_is_withdrawn_and_never_happens() -> None:
    bench = Bench()
    request = bench.add("order", 1)
    assert request.withdraw()
    bench.turns.run()
    assert bench.worked == [] and request.wait(0) is None and not bench.turns.pending


def test_those_whose_clients_have_gone_do_not_pile_up() -> None:
    bench = Bench()
    for n in range(AT_ONCE):
        bench.add(f"long{n}", 1, 10_000)
    for _ in range(2 * AT_ONCE):
        bench.turns.run()
    requests = [bench.add(f"gone{n}", 1) for n in range(1)]
    for n in range(1000):
        requests.append(bench.add(f"gone{n}", 1))
        requests[-1].give_up()
    assert sum(map(len, bench.turns._users[1].waiting.values())) <= 101
    assert not any(request.line for request in requests[1:])


def test_what_is_half_done_stops_and_says_how_far_it_has_come() -> None:
    bench = Bench()
    request = bench.add("order", 1, 100)
    bench.turns.run()
    assert not request.withdraw(), "it has begun"
    bench.turns.run()
    request.give_up()
    done = len(bench.worked)
    bench.turns.run()
    assert len(bench.worked) == done and not bench.turns.pending
    assert f"after {done} of 100 jobs" in error(request)

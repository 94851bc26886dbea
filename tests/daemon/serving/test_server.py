"""The socket: who is let in, what is held for those who do not read, and for how long."""

from __future__ import annotations

import json
import os
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from radrm.client.connection import every_job
from radrm.config import NO_LIMITS, NOBODY, UserLimits
from radrm.daemon.serving import server as serving
from radrm.daemon.serving.replies import Held, encoded, refusal, weight
from radrm.daemon.serving.server import Request, Server
from radrm.daemon.serving.slots import Slots
from radrm.host.sockets import Peer
from tests.waiting import wait_until


@dataclass(eq=False)
class Guest:
    """A connection, as slots and answers see it."""

    uid: int
    since: float = 0.0
    silent: bool = True
    ended: bool = False
    client: Peer = field(init=False)

    def __post_init__(self) -> None:
        self.client = Peer(1, self.uid, self.uid)

    def end(self) -> None:
        self.ended = True


# ------------------------------------------------------------------ slots


class Door:
    """Slots for ten, four of one user, two more kept."""

    def __init__(self) -> None:
        self.now = 100.0
        self.slots = Slots(10, lambda uid: 4, 2, lambda: self.now)

    def come(self, uid: int, silent: bool = True) -> tuple[Guest, str | None]:
        guest = Guest(uid, self.now, silent)
        return guest, self.slots.admit(guest)

    def fill(self, silent: bool = True) -> list[Guest]:
        found = [self.come(uid, silent) for uid in (7, 8, 9) for _ in range(3 + (uid == 7))]
        assert not any(why for _, why in found)
        return [guest for guest, _ in found]


def test_one_user_has_so_many_and_his_silent_ones_give_way() -> None:
    door = Door()
    first, *_ = [door.come(7)[0] for _ in range(4)]
    _, why = door.come(7)
    assert why == ("you have 4 connections to the daemon, the limit is 4; close some")
    door.now += 2
    assert door.come(7)[1] is None and first.ended
    assert door.come(8)[1] is None


@pytest.mark.parametrize("silent", [True, False])
def test_when_all_are_taken_who_has_most_gives_one_up(silent: bool) -> None:
    door = Door()
    there = door.fill(silent)
    door.now += 2
    assert door.come(4711)[1] is None
    assert [guest.ended for guest in there] == [True] + [False] * 9
    _, why = door.come(8)
    assert "all 10 connections to the daemon are in use" in why


def test_some_are_kept_for_root() -> None:
    door = Door()
    there = door.fill(silent=False)
    assert door.come(0)[1] is None and door.come(0)[1] is None
    assert not any(guest.ended for guest in there)


def test_who_leaves_makes_room() -> None:
    door = Door()
    there = [door.come(7, silent=False)[0] for _ in range(4)]
    assert door.come(7)[1] is not None
    door.slots.leave(there[0])
    door.slots.leave(there[0])
    assert door.come(7)[1] is None and door.come(7)[1] is not None


# ------------------------------------------------------------------ answers


def test_of_those_who_do_not_read_the_slowest_is_ended() -> None:
    held = Held(most=100, of_one_user=50)
    mine = [Guest(7, since) for since in (2.0, 1.0, 3.0)]
    other, third = Guest(8), Guest(9)
    with ExitStack() as stack:
        for guest in mine:
            stack.enter_context(held.while_sent(guest, 20))
        assert [guest.ended for guest in mine] == [False, True, False]
        stack.enter_context(held.while_sent(other, 50))
        assert not other.ended
        stack.enter_context(held.while_sent(third, 15))
        assert other.ended and not third.ended, "it had the most"
    with ExitStack() as stack:
        for n in range(100):
            last = Guest(7, since=-n)
            stack.enter_context(held.while_sent(last, 50))
            assert not last.ended


@pytest.mark.parametrize("count", [0, 1, 500, 501, 1700])
def test_a_long_list_is_sent_in_pieces(count: int) -> None:
    result = [{"id": n, "name": "\ud800" if n == 600 else "net"} for n in range(count)]
    pieces = list(encoded({"ok": True, "result": result}))
    assert json.loads(b"".join(pieces)) == {"ok": True, "result": result}
    assert b"".join(pieces).count(b"\n") == 1
    assert max(map(len, pieces)) < 20_000
    assert weight({"ok": True, "result": result}) >= 100 * count


class Told(msgspec.Struct):
    name: str


def test_what_json_cannot_say_is_spelled_out() -> None:
    (line,) = encoded({"ok": True, "result": [Told("\udcff")]})
    assert json.loads(line)["result"] == [{"name": "\udcff"}]


# ------------------------------------------------------------------ the socket


class Place:
    """A server in this process; what it is asked stands in `asked` until a test answers it."""

    def __init__(self, path: Path, users: UserLimits = NOBODY) -> None:
        self.path = str(path / "s")
        self.asked: list[Request] = []
        self.server = Server(self.path, False, self.asked.append, users)
        self.server.start()

    def connect(self) -> socket.socket:
        made = socket.socket(socket.AF_UNIX)
        made.settimeout(30)
        made.connect(self.path)
        return made

    def request(self, made: socket.socket, **words: Any) -> Request:
        before = len(self.asked)
        made.sendall(json.dumps(words).encode() + b"\n")
        wait_until(lambda: len(self.asked) > before, "the request")
        return self.asked[-1]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    found = Place(tmp_path)
    yield found
    found.server.close()


def line(made: socket.socket) -> Any:
    with made.makefile("rb") as lines:
        return json.loads(lines.readline())


def test_idle_connections_give_way_and_what_is_too_much_is_told_so(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("radrm.daemon.serving.slots._GRACE_S", 0.0)
    with ExitStack() as stack:
        idle = [stack.enter_context(place.connect()) for _ in range(300)]
        late = stack.enter_context(place.connect())
        request = place.request(late, op="ping")
        assert request.client.uid == os.getuid()
        request.answer("pong")
        assert line(late) == {"ok": True, "result": "pong"}
        assert idle[0].recv(1) == b"", "it was closed"


def test_a_client_that_is_turned_away_hears_why(place: Place) -> None:
    with ExitStack() as stack:
        made = [stack.enter_context(place.connect()) for _ in range(64)]
        for each in made:
            place.request(each, op="ping")
        answer = line(stack.enter_context(place.connect()))
        assert answer == refusal(
            "you have 64 connections to the daemon, the limit is 64; close some",
            3,
        )


def test_a_client_that_asks_too_often_hears_when_to_try_again(tmp_path: Path) -> None:
    rare = UserLimits(replace(NO_LIMITS, requests_per_s=0.05))
    place = Place(tmp_path, rare)
    with closing(place.server), place.connect() as made:
        for _ in range(9):
            place.request(made, op="ping").answer("pong")
            assert line(made)["ok"]
        made.sendall(b"{}\n")
        said = line(made)["error"]
        assert said.startswith("you send more than 0.05 requests a second")
        assert re.search(r"try again in \d+ s$", said)
        with place.connect() as other:
            assert line(other)["error"].split(";")[0] == said.split(";")[0]


def test_a_client_that_has_gone_gives_its_request_up(place: Place) -> None:
    made = place.connect()
    request = place.request(made, op="cancel", jobs=["1"])
    made.close()
    wait_until(lambda: request.given_up, "it to be given up")
    assert not request.begin(), "nothing is done behind the client's back"


def test_a_request_whose_turn_does_not_come_is_withdrawn(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "PATIENCE_S", 0.0)
    with place.connect() as made:
        request = place.request(made, op="cancel", jobs=["1"])
        answer = line(made)
        assert answer == refusal("the daemon is too busy to answer; nothing was done", 3)
        assert not request.begin()


def test_one_that_takes_too_long_is_stopped_and_says_how_far_it_came(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "PATIENCE_S", 0.0)
    monkeypatch.setattr(serving, "LONGEST_S", 0.0)
    monkeypatch.setattr(serving, "_SIGN_OF_LIFE_S", 0.0)
    monkeypatch.setattr(serving, "_LOOK_S", 0.01)

    def submit(request: Request) -> None:
        assert request.begin()
        request.done, request.total = 3, 9
        threading.Thread(target=stop, args=(request,), daemon=True).start()

    def stop(request: Request) -> None:
        wait_until(lambda: request.given_up, "it to be given up")
        request.stopped()

    place.server._submit = submit
    with place.connect() as made:
        made.sendall(b'{"op":"cancel"}\n')
        assert "after 3 of 9 jobs" in line(made)["error"]


def test_a_request_has_a_longest_length(place: Place) -> None:
    with place.connect() as made:
        made.sendall(b"x" * (serving.MAX_REQUEST + 1))
        assert line(made)["error"] == "the request is longer than 512 KiB"


# ------------------------------------------------------------------ its clients


def document(number: int, state: str, position: int | None, gpus: int = 1) -> dict[str, Any]:
    return {"id": number, "state": state, "position": position, "gpus": gpus}


def test_a_client_puts_the_pages_together_in_order_of_service() -> None:
    jobs = [
        document(1, "PENDING", 2),
        document(2, "PENDING", None),
        document(3, "RUNNING", None),
        document(4, "PENDING", 1, gpus=0),
        document(5, "RECOVERING", 1),
    ]

    def ask(op: str, after: int, **words: Any) -> Any:
        assert op == "status"
        left = [job for job in jobs if job["id"] > after]
        return {"jobs": left[:2], "next": left[1]["id"] if len(left) > 2 else None}

    assert [job["id"] for job in every_job(ask, all=False)] == [3, 5, 1, 4, 2]
    assert [job["id"] for job in every_job(ask, all=True)] == [1, 2, 3, 4, 5]

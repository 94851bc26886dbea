"""Who may reserve and cancel, and what hostile requests are told; without a daemon's process."""

from __future__ import annotations

import grp
import os
import pwd
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from radrm.core import events as ev
from radrm.core.settings import CoreSettings
from radrm.daemon.answers.reservations import MOST_MEMBERS, reservations, reserve, unreserve
from radrm.errors import RadrmError, Refused, UsageError
from tests.world import GIB, World, gpus

CORE = CoreSettings(
    smact_warm_s=0, smact_after_exit_s=0, stale_after_s=1e9, user_reserved_gpu_hours=8.0
)
ADA, BOB = 424_242, 424_243
"""Users without accounts; the one who runs the tests is an administrator."""
ME = os.getuid()
HOUR_S = 3600.0


class Server:
    """The part of a daemon's loop that these answers use, around a scheduler."""

    def __init__(self, count: int = 3) -> None:
        self.world = World(gpus(count), settings=CORE)
        self.scheduler = self.world.scheduler
        self.clock = SimpleNamespace(now=lambda: self.world.now)
        self.store = self

    def process(self, events: list[ev.Event]) -> None:
        for event in events:
            self.world.step(event)

    def ended_reservations(self, limit: int) -> list[Any]:
        ended = [r for r in self.world.for_users.values() if r.ended_s is not None]
        return ended[::-1][:limit]

    def reserve(self, uid: int = ME, **words: Any) -> Any:
        asked: Any = SimpleNamespace(words=words, client=SimpleNamespace(uid=uid))
        loop: Any = self
        (made,) = reserve(loop, asked)
        return msgspec.json.decode(msgspec.json.encode(made))

    def unreserve(self, number: Any, uid: int = ME) -> Any:
        asked: Any = SimpleNamespace(words={"id": number}, client=SimpleNamespace(uid=uid))
        loop: Any = self
        (ended,) = unreserve(loop, asked)
        return msgspec.json.decode(msgspec.json.encode(ended))

    def listed(self, uid: int = ME) -> list[Any]:
        loop: Any = self
        return msgspec.json.decode(msgspec.json.encode(reservations(loop, {}, uid)))


def test_a_user_reserves_for_itself_within_its_limit() -> None:
    server, words = Server(), {"for": HOUR_S}
    made = server.reserve(ADA, **words)
    assert (made["for"], made["by"], made["own"]) == (str(ADA), str(ADA), True)
    assert (made["gpus"], made["state"]) == ([0], "active")
    assert server.reserve(ADA, **words, user=str(ADA))["gpus"] == [1]
    with pytest.raises(Refused, match="it needs 9 GPU-hours and you have reserved 2"):
        server.reserve(ADA, **{"for": 9 * HOUR_S})
    assert server.reserve(ME, **words)["own"] is False


@pytest.mark.parametrize(
    "words", [{"user": "root"}, {"group": "root"}, {"maintenance": True}, {"preempt": True}]
)
def test_a_user_reserves_for_nobody_else(words: dict[str, Any]) -> None:
    server = Server()
    with pytest.raises(Refused, match="only root and the daemon's user reserve"):
        server.reserve(ADA, **words, **{"for": HOUR_S})
    assert server.listed() == []


def test_an_administrator_reserves_for_users_groups_and_maintenance() -> None:
    server = Server(1)
    now_s, user, group = server.world.now.wall_s, pwd.getpwuid(0).pw_name, grp.getgrgid(0).gr_name
    for number, words in enumerate(
        ({"user": user}, {"group": group}, {"maintenance": True, "reason": "new driver"})
    ):
        start_s = now_s + HOUR_S * number
        server.reserve(**words, **{"from": start_s, "until": start_s + HOUR_S})
    found = server.listed(BOB)
    assert [each["for"] for each in found] == [user, f"group {group}", "maintenance"]
    assert [each["reason"] for each in found] == [None, None, "new driver"]
    by_id = server.world.for_users
    assert (by_id[1].uids, by_id[2].group, by_id[3].maintenance) == ((0,), group, True)


def test_a_large_group_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    many = SimpleNamespace(gr_mem=["x"] * (MOST_MEMBERS + 1))
    monkeypatch.setattr(grp, "getgrnam", lambda name: many)
    with pytest.raises(Refused, match="group all has 1001 members, at most 1000 can be"):
        Server().reserve(group="all", **{"for": HOUR_S})


def test_the_least_used_devices_are_chosen() -> None:
    server = Server(4)
    world = server.world
    for device in (3, 1):
        world.step(ev.DrainRequested(at=world.now, device=f"GPU-{device}", reason="x"))
    busy = world.submit(GIB, smact=0.1)
    (at,) = world.where(busy)
    first = server.reserve(gpus=1, **{"for": HOUR_S})
    assert first["uuids"] == [next(u for u in ("GPU-0", "GPU-2") if u != at)]
    second = server.reserve(gpus=2, **{"for": HOUR_S})
    assert second["uuids"] == [at, "GPU-1"] and second["others"] == ["1"]
    with pytest.raises(Refused, match="2 GPUs cannot be reserved then: 1 of 4 are not reserved"):
        server.reserve(gpus=2, **{"for": HOUR_S})
    assert server.reserve(all=True, **{"from": world.now.wall_s + 2 * HOUR_S, "for": 60.0})


def test_who_may_cancel() -> None:
    server = Server()
    mine = server.reserve(ADA, **{"for": HOUR_S})["id"]
    roots = server.reserve(**{"for": HOUR_S}, maintenance=True)["id"]
    for number, uid in ((mine, BOB), (roots, ADA)):
        with pytest.raises(Refused, match="only they and root cancel it"):
            server.unreserve(number, uid)
    assert server.unreserve(mine, ADA)["id"] == mine
    server.unreserve(roots)
    for wrong in (mine, 99, -1, 10**30):
        with pytest.raises(Refused, match="there is no reservation"):
            server.unreserve(wrong)
    assert server.listed() == [] and server.listed(BOB) == []
    assert [each["state"] for each in server.listed(ADA)] == ["ended"], "its owner is told"
    assert server.listed(ADA)[0]["reason"] == f"cancelled by {ADA}"


WRONG: list[dict[str, Any]] = [
    {},
    {"for": HOUR_S, "until": 1e10},
    {"for": "4h"},
    {"for": True},
    {"for": float("nan")},
    {"for": 1e300},
    {"until": float("inf")},
    {"from": 10**400, "for": HOUR_S},
    {"for": -5.0},
    {"for": HOUR_S, "gpus": 0},
    {"for": HOUR_S, "gpus": 10**9},
    {"for": HOUR_S, "gpus": "2"},
    {"for": HOUR_S, "gpus": 1, "devices": ["0"]},
    {"for": HOUR_S, "all": True, "devices": ["0"]},
    {"for": HOUR_S, "devices": ["7"]},
    {"for": HOUR_S, "devices": ["0", "GPU-0"]},
    {"for": HOUR_S, "devices": "0"},
    {"for": HOUR_S, "user": 5},
    {"for": HOUR_S, "user": "no\x00body"},
    {"for": HOUR_S, "user": "x" * 100_000},
    {"for": HOUR_S, "group": "\ud800"},
    {"for": HOUR_S, "user": "root", "group": "root"},
    {"for": HOUR_S, "user": "root", "maintenance": True},
    {"for": HOUR_S, "reason": "two\nlines"},
    {"for": HOUR_S, "reason": ["x"]},
]


@pytest.mark.parametrize("words", WRONG)
@pytest.mark.parametrize("uid", [ME, ADA])
def test_a_wrong_request_is_refused_in_one_line(words: dict[str, Any], uid: int) -> None:
    server = Server()
    with pytest.raises((Refused, UsageError)) as caught:
        server.reserve(uid, **words)
    said = str(caught.value)
    assert isinstance(caught.value, RadrmError) and "\n" not in said and len(said) < 250
    assert server.listed() == []


def test_a_wrong_id_is_refused() -> None:
    for wrong in ("1", None, 1.0, True):
        with pytest.raises(UsageError):
            Server().unreserve(wrong)

"""A server is started before its first client, and launches wait for it: not for ever."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

from radrm.host.mps import launches as module
from radrm.host.mps.control import ACTIVE, FAULT, INITIALIZING, UNKNOWN, NoAnswer, Server
from radrm.host.mps.keeper import PROBE_S, SOON_S, Keeper
from radrm.host.mps.launches import APPEARS_S, LIMIT_S, Phase
from tests.host.mps.controls import Fake, Place
from tests.waiting import wait_until

ANN, BOB = 1000, 1001
OWNERS = {11: ANN, 12: BOB, 10: 0}
"""The users of the servers with these pids."""


class Waiting:
    """A keeper of a control daemon that works, and a launch of Ann's job."""

    def __init__(self) -> None:
        self.fake = Fake()
        self.keeper = Keeper("GPU 0", self.fake, True)
        self.keeper.round(0.0)
        self.keeper.round(0.0)
        self.fake.did.clear()
        self.went = 0
        self.waits = False

    def launch(self, uid: int = ANN) -> bool:
        return self.keeper.wait_for_server(uid, self.go)

    def go(self) -> None:
        self.went += 1

    def look(self, now: float, *servers: Server) -> float:
        self.fake.found = servers
        return self.keeper.round(now)


@pytest.fixture
def waiting(mocker: Any) -> Waiting:
    mocker.patch.object(module, "user_of", OWNERS.get)
    return Waiting()


def test_the_first_client_waits_until_its_server_takes_clients(waiting: Waiting) -> None:
    assert waiting.launch() and waiting.launch()
    assert waiting.keeper.hold == "its MPS server is starting"
    assert waiting.look(1.0) == SOON_S
    for now in (1.1, 1.2):
        assert waiting.look(now, Server(11, INITIALIZING)) == SOON_S
    assert waiting.went == 0 and waiting.fake.did == [f"start server of {ANN}"], "once for both"
    assert waiting.look(1.3, Server(11, ACTIVE)) == PROBE_S
    assert waiting.went == 2 and waiting.keeper.hold is None
    assert not waiting.launch(), "it is there now"


def test_a_server_of_another_user_is_none(waiting: Waiting) -> None:
    waiting.look(1.0, Server(12, ACTIVE))
    assert not waiting.launch(BOB) and waiting.launch()


@pytest.mark.parametrize(("reason", "owner"), [(None, 0), ("an old driver", ANN)])
def test_a_server_for_all_users_is_roots(
    waiting: Waiting, monkeypatch: pytest.MonkeyPatch, reason: str | None, owner: int
) -> None:
    waiting.fake.multiuser = True
    waiting.keeper.single_user_reason = reason
    monkeypatch.setattr(waiting.fake, "has_multiuser_option", lambda: True)
    assert waiting.launch()
    waiting.look(1.0)
    assert waiting.fake.did == [f"start server of {owner}"]
    waiting.look(1.1, Server(10, ACTIVE))
    assert waiting.went == (owner == 0)


def test_an_old_control_daemon_starts_it_with_the_client_as_before(waiting: Waiting) -> None:
    waiting.launch()
    waiting.look(1.0)
    waiting.look(1.0 + APPEARS_S / 2)
    assert waiting.went == 0
    waiting.look(1.0 + APPEARS_S)
    assert waiting.went == 1


def test_one_that_does_not_tell_its_servers_state_is_believed(waiting: Waiting) -> None:
    waiting.launch()
    waiting.look(1.0)
    waiting.look(1.1, Server(11, UNKNOWN))
    assert waiting.went == 1


def test_a_server_that_never_begins_is_not_waited_for_for_ever(waiting: Waiting) -> None:
    waiting.launch()
    waiting.look(1.0, Server(11, INITIALIZING))
    waiting.look(LIMIT_S, Server(11, INITIALIZING))
    assert waiting.went == 0
    waiting.look(1.0 + LIMIT_S, Server(11, INITIALIZING))
    assert waiting.went == 1


def refuse(waiting: Waiting) -> None:
    def start_server(uid: int) -> None:
        raise NoAnswer("no")

    waiting.fake.start_server = start_server


def fault(waiting: Waiting) -> None:
    waiting.fake.found = (Server(11, FAULT, (os.getpid(),)),)


def turn_off(waiting: Waiting) -> None:
    waiting.keeper.turn_off(force=False)


@pytest.mark.parametrize("happens", [refuse, fault, turn_off])
def test_whatever_happens_meanwhile_a_launch_goes_on(
    waiting: Waiting, happens: Callable[[Waiting], None]
) -> None:
    waiting.launch()
    happens(waiting)
    waiting.keeper.round(1.0)
    assert waiting.went == 1, "and finds out itself what is wrong"


def test_a_control_daemon_that_takes_no_client_is_not_waited_for(waiting: Waiting) -> None:
    fault(waiting)
    waiting.keeper.round(1.0)
    assert waiting.keeper.seen.phase is Phase.FAULT and not waiting.launch()


def test_a_real_command_starts_it(place: Place) -> None:
    """A first client was refused while its server initialised (error 807)."""
    control = place.control()
    place.wrong(begins=0.3)
    keeper = Keeper("GPU 0", control, True)
    keeper.begin(lambda pid: None, lambda: None, 30.0)
    try:
        wait_until(lambda: keeper.ready)
        went: list[bool] = []
        assert keeper.wait_for_server(os.geteuid(), lambda: went.append(True))
        wait_until(lambda: went, "the launch")
        assert [s.status for s in control.probe()] == [ACTIVE]
        place.client(control)
    finally:
        keeper.close()
        keeper.join()

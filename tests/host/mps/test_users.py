"""Several users on one MPS server: asked for, seen to be so, or not to be had and said so.

`nvidia-cuda-mps-control` is the stand-in of tests/standins/bin. With clients of two users it
needs root, as the real one does.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from radrm.config import MpsConfig
from radrm.core.records import Device
from radrm.host.mps import control as module
from radrm.host.mps.control import MULTIUSER, Control, Server
from radrm.host.mps.interface import DaemonHooks
from radrm.host.mps.keeper import PROBE_S, Keeper
from radrm.host.mps.service import MpsService, SimulatedMps
from radrm.host.processes.identity import Identity
from tests.host.mps.controls import ONE, TWO, Fake, end
from tests.paths import STANDINS
from tests.waiting import wait_until

NOBODY = 65534
ALONE = DaemonHooks(lambda pid: None, lambda: None, 30.0)
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root starts servers for all users")


# ------------------------------------------------------------------ what processes show


@pytest.mark.parametrize(
    ("server", "clients", "expected"),
    [
        (0, (), None),
        (0, (0,), None),  # root's own clients are on root's server whatever is so
        (0, (0, 1000), True),
        (0, (1000, 1001), True),
        (1000, (1000,), False),
        (1000, (None,), None),
        (None, (1000,), None),
    ],
)
def test_a_clients_user_beside_the_servers_shows_what_it_is(
    server: int | None, clients: tuple[int | None, ...], expected: bool | None, mocker: Any
) -> None:
    users = dict(enumerate((server, *clients)))
    mocker.patch.object(module, "user_of", users.get)
    assert module.takes_several(0, range(1, len(users))) is expected


def test_whose_rights_a_process_has() -> None:
    assert module.user_of(os.getpid()) == os.geteuid()
    assert module.user_of(2**22 + 7) is None


# ------------------------------------------------------------------ the stand-in


class Place:
    """A folder that every user may enter, and what was started in it."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        folder.chmod(0o777)
        self.children: list[subprocess.Popen[bytes]] = []
        self.control = Control(str(folder / "m"), str(folder / "l"), ONE, multiuser=True)
        search = f"{STANDINS / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        monkeypatch.setenv("PATH", search)
        monkeypatch.setenv("MPS_STANDIN_STATE", str(folder / "state.json"))

    def knows(self, how: str | None) -> None:
        (self.folder / "state.json").write_text(json.dumps({"multiuser": how} if how else {}))

    def client(self, uid: int) -> int:
        """The process of a client of this user, once its server has it."""
        return self.start(uid, "ready")

    def start(self, uid: int, line: str = "pid=") -> int:
        notes = self.folder / f"client-{len(self.children)}"
        child = subprocess.Popen(
            [sys.executable, str(STANDINS / "mps_client.py"), str(notes), f"as={uid}"],
            env={**os.environ, "CUDA_MPS_PIPE_DIRECTORY": self.control.pipes},
        )
        self.children.append(child)
        wait_until(lambda: notes.exists() and line in notes.read_text(), f"a client of user {uid}")
        return child.pid

    def close(self) -> None:
        for child in self.children:
            child.kill()
            child.wait()
        end(self.control)


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    with tempfile.TemporaryDirectory(prefix="mps-") as folder:
        made = Place(Path(folder), monkeypatch)
        yield made
        made.close()


@as_root
def test_a_server_for_all_users_is_seen_to_be_one(place: Place) -> None:
    place.control.start()
    assert place.control.has_multiuser_option()
    root = place.client(0)
    (server,) = place.control.probe()
    assert (server.clients, server.multiuser) == ((root,), None), "root's own prove nothing"
    other = place.client(NOBODY)
    (server,) = place.control.probe()
    assert (set(server.clients), server.multiuser) == ({root, other}, True)


@as_root
@pytest.mark.parametrize("how", ["unknown", "ignored"])
def test_a_server_of_one_user_is_seen_to_be_that(place: Place, how: str) -> None:
    place.knows(how)
    place.control.start()
    assert place.control.has_multiuser_option() is (how == "ignored")
    other = place.client(NOBODY)
    place.start(1)  # waits
    (server,) = place.control.probe()
    assert (server.clients, server.multiuser) == ((other,), False)


@pytest.mark.parametrize(("how", "option"), [(None, MULTIUSER[0]), ("short", "-M")])
def test_the_option_that_it_knows_is_used(place: Place, how: str | None, option: str) -> None:
    place.knows(how)
    who = place.control.start()
    assert option in Path(f"/proc/{who.pid}/cmdline").read_text().split("\0")


def test_one_that_is_not_to_take_several_is_not_told_to(place: Place) -> None:
    place.control.multiuser = False
    place.control.start()
    assert not place.control.has_multiuser_option()


# ------------------------------------------------------------------ what a keeper makes of it


class Told(Fake):
    """A control daemon of words that knows the option, or does not."""

    def __init__(self, knows: bool = True, multiuser: bool = True) -> None:
        super().__init__()
        self.knows = knows
        self.multiuser = multiuser
        self.told = False

    def start(self) -> Identity:
        self.told = self.multiuser and self.knows
        self.who = Identity(super().start().pid, len(self.did), "boot")  # another each time
        return self.who

    def has_multiuser_option(self) -> bool:
        return self.told

    def has(self, multiuser: bool | None, client: int | None = None) -> None:
        self.found = (Server(6, "ACTIVE", (client or os.getpid(),), multiuser),)


def kept(fake: Told) -> Keeper:
    keeper = Keeper("GPU 0", fake, True)
    keeper.round(0.0)
    keeper.round(0.0)
    assert keeper.ready
    return keeper


def test_several_users_only_once_that_was_seen_and_while_it_lives() -> None:
    fake = Told()
    keeper = kept(fake)
    changes: list[bool] = []
    keeper._changed = lambda: changes.append(keeper.seen.multiuser)
    for found, expected in ((None, False), (True, True), (None, True)):
        fake.has(found)
        keeper.round(PROBE_S)
        assert keeper.seen.multiuser is expected
    assert True in changes, "others are told, so that jobs that wait can come"
    fake.who = None  # it crashes; of the next one nothing is known
    for _ in range(3):
        keeper.round(100.0)
    keeper.round(102.0)
    keeper.round(102.0)
    assert keeper.ready and not keeper.seen.multiuser


@pytest.mark.parametrize("knows", [True, False])
def test_what_cannot_be_had_is_said_once_and_tried_once(
    knows: bool, caplog: pytest.LogCaptureFixture
) -> None:
    fake = Told(knows)
    keeper = Keeper("GPU 0", fake, True)
    for _ in range(4):
        fake.has(False if knows else None)
        keeper.round(0.0)
    assert keeper.ready and not keeper.seen.multiuser
    assert fake.did == ["start"], "it is not started again and again"
    assert "mps.multiuser has no effect" in (keeper.single_user_reason or "")
    assert caplog.text.count("mps.multiuser has no effect") == 1


@pytest.mark.parametrize(("told", "wanted"), [(False, True), (True, False)])
@pytest.mark.parametrize("client", [True, False])
def test_an_earlier_daemons_is_replaced_when_nobody_is_on_it(
    told: bool, wanted: bool, client: bool
) -> None:
    fake = Told(multiuser=wanted)
    fake.who, fake.told = Identity(5, 1, "boot"), told
    if client:
        fake.has(told)
    keeper = Keeper("GPU 0", fake, True)
    keeper.round(0.0)
    assert fake.did == ([] if client else ["quit", "kill []"])
    assert not keeper.seen.multiuser, "until it is as it should be users take turns"
    if not client:
        keeper.round(0.0)
        keeper.round(0.0)
        assert keeper.ready and fake.told is wanted


# ------------------------------------------------------------------ the service


def service(mocker: Any, root: bool) -> tuple[MpsService, list[Told]]:
    made: list[Told] = []

    def control(pipes: str, logs: str, uuid: str, multiuser: bool) -> Told:
        made.append(Told(multiuser=multiuser))
        made[-1].pipes = pipes
        return made[-1]

    mocker.patch("radrm.host.mps.service.Control", side_effect=control)
    mocker.patch("radrm.host.mps.service.Keeper.begin")
    return MpsService(MpsConfig(enabled=True, multiuser=True), "/run/radrm", root), made


def gpus() -> tuple[Device, ...]:
    return tuple(Device(uuid, n, "A100", 40960) for n, uuid in enumerate((ONE, TWO)))


def test_a_device_says_so_once_its_own_server_was_seen(mocker: Any) -> None:
    mps, made = service(mocker, root=True)
    mps.listed(gpus())
    one = made[0]
    for uuid in (ONE, TWO):
        keeper = mps.keeper_of(uuid)
        keeper.round(0.0)
        if uuid == ONE:
            one.has(True)
        keeper.round(0.0)
    assert mps.changed
    devices = mps.listed(gpus())
    assert [(d.mps, d.mps_multiuser) for d in devices] == [(True, True), (True, False)]
    assert [row["multiuser"] for row in mps.rows()] == [True, False] and not mps.changed


def test_without_root_nothing_is_told_to_the_control_daemon(
    mocker: Any, caplog: pytest.LogCaptureFixture
) -> None:
    mps, made = service(mocker, root=False)
    mps.listed(gpus())
    assert [fake.multiuser for fake in made] == [False, False]
    why = "this daemon does not run as root"
    assert why in caplog.text and all(why in row["fault"] for row in mps.rows())


def test_simulated_gpus_say_that_they_do_not(caplog: pytest.LogCaptureFixture) -> None:
    SimulatedMps("/run", MpsConfig(True, multiuser=True)).begin(ALONE)
    assert "mps.multiuser has no effect" in caplog.text

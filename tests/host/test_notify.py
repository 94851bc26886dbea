"""What systemd hears of the daemon: messages on a socket of ours, in the place of systemd's."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from radrm.host.notify import LONGEST_S, ServiceManager

PID = 4321


class Systemd:
    """The other end: reads all messages, with a clock that tests set."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.now_s = 1000.0
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind("\0" + address[1:] if address[0] == "@" else address)
        self.socket.setblocking(False)

    def manager(self, **variables: str) -> ServiceManager:
        environ = {"NOTIFY_SOCKET": self.address, **variables}
        return ServiceManager(environ, PID, lambda: self.now_s)

    def fill(self) -> None:
        """Send until the queue takes nothing more of anybody: one sender may reach its own limit
        before."""
        taken = True
        while taken:
            taken = False
            with closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as sender:
                sender.setblocking(False)
                with contextlib.suppress(BlockingIOError):
                    while sender.sendto(b"X=1", self.socket.getsockname()):
                        taken = True

    def heard(self) -> list[dict[str, str]]:
        found = []
        while True:
            try:
                text = self.socket.recv(4096).decode()
            except BlockingIOError:
                return found
            pairs = (line.split("=", 1) for line in text.split("\n"))
            found.append(dict(pairs))


@pytest.fixture(params=["path", "abstract"])
def systemd(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Systemd]:
    abstract = request.param == "abstract"
    address = f"@radrm-test-{os.getpid()}-{tmp_path.name}" if abstract else f"{tmp_path}/notify"
    found = Systemd(address)
    with closing(found.socket):
        yield found


def test_a_whole_life(systemd: Systemd) -> None:
    manager = systemd.manager(WATCHDOG_USEC="9000000", WATCHDOG_PID=str(PID))
    manager.begins("opens the store")
    assert systemd.heard() == [
        {"STATUS": "opens the store", "EXTEND_TIMEOUT_USEC": "300000000"},
    ]
    manager.alive()
    assert systemd.heard() == []
    systemd.now_s += 3.0
    manager.alive()
    assert systemd.heard() == [{"EXTEND_TIMEOUT_USEC": "300000000"}]
    manager.ready()
    assert systemd.heard() == [{"READY": "1", "WATCHDOG_USEC": "9000000", "WATCHDOG": "1"}]
    manager.alive(lambda: "too early")
    assert (systemd.heard(), manager.wait_s()) == ([], 3.0)
    systemd.now_s += 3.0
    assert manager.wait_s() == 0.0
    manager.alive(lambda: "2 jobs run")
    assert systemd.heard() == [{"STATUS": "2 jobs run", "WATCHDOG": "1"}]
    systemd.now_s += 3.0
    manager.alive(lambda: "2 jobs run")
    assert systemd.heard() == [{"WATCHDOG": "1"}]
    manager.stopping()
    assert systemd.heard() == [{"STOPPING": "1", "STATUS": "ends; running jobs run on"}]
    manager.alive()
    manager.stopping()
    assert systemd.heard() == []


def test_the_status_is_one_line(systemd: Systemd) -> None:
    manager = systemd.manager()
    manager.alive(lambda: "a\nREADY=0\x1b" + "x" * 1000)
    (said,) = systemd.heard()
    assert set(said) == {"EXTEND_TIMEOUT_USEC", "STATUS"}
    assert said["STATUS"].startswith("a\ufffdREADY=0\ufffdxx")
    assert len(said["STATUS"]) == 200


@pytest.mark.parametrize(
    ("usec", "pid", "every_s"),
    [
        ("1500000", "", 0.5),
        ("1500000", str(PID), 0.5),
        ("300000000", "", LONGEST_S),
        ("1500000", str(PID + 1), None),  # the watchdog of another process
        ("", "", None),
        ("0", "", None),
        ("-1", "", None),
        ("1e6", "", None),
        ("\u0661", "", None),
        ("9" * 400, "", None),
    ],
)
def test_a_watchdog_is_fed_in_each_third_of_its_time(
    systemd: Systemd, usec: str, pid: str, every_s: float | None
) -> None:
    manager = systemd.manager(WATCHDOG_USEC=usec, WATCHDOG_PID=pid)
    manager.ready()
    (first,) = systemd.heard()
    assert ("WATCHDOG" in first) == (every_s is not None)
    assert manager.wait_s() == (every_s or LONGEST_S)
    systemd.now_s += LONGEST_S
    manager.alive()
    assert systemd.heard() == ([] if every_s is None else [{"WATCHDOG": "1"}])


def test_what_systemd_does_not_take_now_it_gets_later(
    systemd: Systemd, caplog: pytest.LogCaptureFixture
) -> None:
    """Its queue is full: nothing waits for it, and READY is not lost."""
    systemd.fill()
    manager = systemd.manager(WATCHDOG_USEC="9000000")
    manager.begins("starts")
    manager.ready()
    assert {name for said in systemd.heard() for name in said} == {"X"}
    systemd.now_s += 3.0
    manager.alive()
    assert systemd.heard() == [
        {"STATUS": "starts", "READY": "1", "WATCHDOG_USEC": "9000000", "WATCHDOG": "1"}
    ]
    assert not caplog.records


def test_a_systemd_that_is_gone_is_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    manager = ServiceManager({"NOTIFY_SOCKET": f"{tmp_path}/none"}, PID)
    with caplog.at_level(logging.WARNING):
        manager.begins("starts")
        manager.ready()
        manager.stopping()
    assert [record.getMessage() for record in caplog.records] == [
        "systemd cannot be told how radrm is doing: No such file or directory"
    ]


@pytest.mark.parametrize("address", ["", "relative", "vsock:2:1234", "\0x"])
def test_without_systemd_nothing_is_said(address: str) -> None:
    def never() -> str:
        raise AssertionError("no status is needed")

    manager = ServiceManager({"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "1"}, PID)
    calls: tuple[Callable[[], object], ...] = (
        lambda: manager.begins("starts"),
        manager.ready,
        lambda: manager.alive(never),
        manager.stopping,
    )
    for call in calls:
        call()
    assert manager.wait_s() == float("inf")


def test_no_child_inherits_the_variables() -> None:
    environ = {"NOTIFY_SOCKET": "", "WATCHDOG_USEC": "1", "WATCHDOG_PID": "2", "HOME": "/root"}
    ServiceManager(environ, PID)
    assert environ == {"HOME": "/root"}


def test_a_reload_is_told_with_its_time_and_ends_with_ready(systemd: Systemd) -> None:
    manager = systemd.manager()
    manager.ready()
    manager.reloading()
    manager.ready()
    _, begins, ends = systemd.heard()
    assert begins["RELOADING"] == "1" and int(begins["MONOTONIC_USEC"]) > 0
    assert ends["READY"] == "1" and "RELOADING" not in ends


def test_the_watchdog_has_the_time_of_a_start_while_a_daemon_starts_anew(systemd: Systemd) -> None:
    manager = systemd.manager(WATCHDOG_USEC="3000000")
    manager.reloading()
    manager.ready()
    begins, ends = systemd.heard()
    assert begins["WATCHDOG_USEC"] == "300000000" and ends["WATCHDOG_USEC"] == "3000000"

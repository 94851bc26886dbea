"""A keeper starts its MPS control daemon, looks after it and ends it."""

from __future__ import annotations

import math
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from radrm.host.clock import boot_id
from radrm.host.mps import launches
from radrm.host.mps.control import FAULT, Server
from radrm.host.mps.keeper import FAILURES, PROBE_S, SILENCES, Keeper
from radrm.host.mps.launches import Phase, Seen
from radrm.host.processes.identity import Identity
from tests.host.mps.controls import Fake


def kept(wanted: bool = True) -> tuple[Keeper, Fake]:
    fake = Fake()
    return Keeper("GPU 0", fake, wanted), fake


def up() -> tuple[Keeper, Fake]:
    keeper, fake = kept()
    assert keeper.round(0.0) == 0.0
    assert keeper.round(0.0) == PROBE_S
    assert keeper.ready
    return keeper, fake


def test_jobs_wait_while_it_starts() -> None:
    keeper, fake = kept()
    assert keeper.serving and not keeper.ready
    assert "is starting" in (keeper.hold or "")
    keeper.round(0.0)
    keeper.round(0.0)
    assert keeper.ready and keeper.hold is None and fake.did == ["start"]


def test_a_living_one_is_taken_over() -> None:
    keeper, fake = kept()
    fake.who, fake.found = Identity(5, 1, "boot"), (Server(6, "ACTIVE", (os.getpid(),)),)
    keeper.round(0.0)
    assert (keeper.ready, keeper.seen.pid, keeper.seen.clients) == (True, 5, (os.getpid(),))
    assert fake.did == []


def test_a_crash_is_mended_and_said_once(caplog: pytest.LogCaptureFixture) -> None:
    keeper, fake = up()
    fake.who = None
    caplog.clear()
    delay = keeper.round(100.0)
    assert 0 < delay <= 1.0 and "has ended" in (keeper.hold or "")
    assert keeper.serving, "jobs wait the moment, rather than go on without MPS"
    keeper.round(100.0 + delay / 2)
    keeper.round(100.0 + delay)
    keeper.round(100.0 + delay)
    assert keeper.ready and fake.did.count("start") == 2
    assert [r.levelname for r in caplog.records if r.levelname == "ERROR"] == ["ERROR"]


def test_one_that_never_starts_is_tried_ever_later_and_its_gpus_go_on_without(
    caplog: pytest.LogCaptureFixture,
) -> None:
    keeper, fake = kept()
    fake.refuses = "no"
    now, delays = 0.0, []
    for _ in range(12):
        delays.append(keeper.round(now))
        now += delays[-1]
        assert keeper.serving == (len(delays) < FAILURES)
    assert delays == sorted(delays) and delays[0] <= 1.0 and delays[-1] == delays[-2] <= 60.0
    assert (keeper.seen.phase, keeper.hold, keeper.seen.fault) == (Phase.DOWN, None, "no")
    assert len(caplog.records) == 1
    fake.refuses = None
    keeper.round(now)
    keeper.round(now)
    assert keeper.ready


def test_without_the_program_jobs_go_on_without_mps_at_once() -> None:
    fake = Fake()
    fake.absent = "not on PATH"
    keeper = Keeper("GPU 0", fake, True)
    assert not keeper.serving and keeper.hold is None
    keeper.round(0.0)
    assert (keeper.seen.phase, keeper.seen.fault) == (Phase.DOWN, "not on PATH")
    fake.absent = None
    keeper.round(60.0)
    keeper.round(60.0)
    assert keeper.ready, "it is there now"


def test_a_silent_one_takes_nobody_and_is_replaced_once_that_hurts_nobody() -> None:
    keeper, fake = up()
    fake.found = (Server(6, "ACTIVE", (os.getpid(),)),)
    keeper.round(5.0)
    fake.silent = True
    for i in range(SILENCES + 2):
        keeper.round(10.0 + i)
        assert keeper.serving and "no answer" in (keeper.hold or "")
    assert "kill []" not in fake.did, "its client lives"
    keeper._known = set()
    keeper.round(30.0)
    assert fake.did[-1] == "kill []"


def test_a_fault_takes_nobody_until_its_clients_have_gone() -> None:
    keeper, fake = up()
    fake.found = (Server(6, FAULT, (os.getpid(),)),)
    keeper.round(10.0)
    assert keeper.serving and "fault" in (keeper.hold or "")
    fake.found = (Server(6, "ACTIVE", ()),)
    keeper.round(15.0)
    assert keeper.ready and fake.did == ["start"]
    assert keeper.faulted_within(60.0) and not keeper.faulted_within(-1.0), "it is remembered"
    assert not up()[0].faulted_within(60.0)


def test_after_a_clients_failure_nobody_new_comes_before_its_server_was_looked_at() -> None:
    keeper, _ = up()
    keeper.suspect()
    assert keeper.serving and "has failed" in (keeper.hold or "") and keeper.suspected
    keeper.round(1.0)
    assert keeper.hold is None and not keeper.suspected


def test_a_failure_during_a_look_is_looked_into_by_the_next(mocker: Any) -> None:
    keeper, fake = up()
    mocker.patch.object(fake, "probe", lambda: keeper.suspect() or ())
    keeper.round(1.0)
    assert keeper.hold is not None
    mocker.patch.object(fake, "probe", lambda: ())
    keeper.round(2.0)
    assert keeper.hold is None


def test_those_who_stay_after_a_fault_are_ended_by_and_by(mocker: Any) -> None:
    sent = mocker.patch("radrm.host.mps.keeper.send_signal")
    mocker.patch("radrm.host.mps.keeper.dies_of", lambda pid, number: pid == os.getppid())
    keeper, fake = up()
    keeper._grace_s = 30.0
    keeper._owner_of = {os.getpid(): (7, 1)}.get
    # The second is nobody's process that radrm started: its work ends, it is not signalled.
    fake.found = (Server(6, FAULT, (os.getpid(), os.getppid())),)
    stages = []
    for now in (100.0, 129.0, 130.5, 131.0, 160.5, 189.0, 190.5):
        keeper.round(now)
        stages.append(([c.args[2] for c in sent.call_args_list], list(fake.did)))
    term, kill = signal.SIGTERM, signal.SIGKILL
    # TERM would end the second only: the first keeps its work until KILL.
    soft = ["start", f"terminate 6 {os.getppid()}"]
    ended = [*soft, f"terminate 6 {os.getpid()}", f"terminate 6 {os.getppid()}"]
    assert stages == [
        *[([], ["start"])] * 2,
        *[([term], soft)] * 2,
        *[([term, kill], ended)] * 2,
        ([term, kill], [*ended, "quit", "kill [6]"]),
    ]
    assert {c.args[0] for c in sent.call_args_list} == {os.getpid()}
    keeper.round(191.0)
    keeper.round(191.0)
    assert keeper.ready, "started anew"


def test_stopped_it_waits_for_its_clients_and_forced_it_does_not() -> None:
    keeper, fake = up()
    fake.found = (Server(6, "ACTIVE", (os.getpid(),)),)
    keeper.turn_off(force=False)
    assert not keeper.serving and keeper.hold is None
    keeper.round(10.0)
    assert keeper.seen.phase is Phase.STOPPING and "1 client" in (keeper.seen.fault or "")
    keeper.turn_off(force=True)
    keeper.round(11.0)
    keeper.round(11.0)
    assert keeper.seen.phase is Phase.OFF
    assert fake.did == ["start", f"terminate 6 {os.getpid()}", "quit", "kill [6]"]
    keeper.turn_on()
    assert keeper.serving
    keeper.round(12.0)
    keeper.round(12.0)
    assert keeper.ready


def test_one_that_is_not_wanted_is_not_started() -> None:
    keeper, fake = kept(wanted=False)
    keeper.round(0.0)
    assert (keeper.seen, fake.did) == (Seen(Phase.OFF), [])


def test_a_fault_of_this_moment_is_known_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launches.time, "monotonic", lambda: 7.0009)
    launches.note_fault(str(tmp_path))
    assert launches.last_fault(str(tmp_path)) == 7.0


def test_the_next_daemon_knows_a_fault_of_this_boot(tmp_path: Path) -> None:
    """An attempt that ended while no daemon ran was judged by its last words alone."""
    first, fake = kept()
    fake.logs = str(tmp_path)
    assert not Keeper("GPU 0", fake, True).faulted_within(math.inf)
    fake.found = (Server(5, FAULT, (6,)),)
    fake.who = Identity(2**22 + 7, 1, "boot")
    first.round(0.0)
    next_one = Keeper("GPU 0", fake, True)
    assert next_one.faulted_within(60.0) and not next_one.faulted_within(-1.0)
    (file,) = tmp_path.iterdir()
    whole = file.read_text()
    for text in ("", "\xff", whole.replace(whole[:8], "00000000"), f"{boot_id()} nan", "1 2 3"):
        file.write_text(text)
        assert not Keeper("GPU 0", fake, True).faulted_within(math.inf), text

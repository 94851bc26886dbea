"""MPS control daemons: the commands, what a keeper does when, compute modes, whose device is whose.

`nvidia-cuda-mps-control` is the stand-in of tests/standins/bin, a process as the real one is.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from radrm.config import Config, MpsConfig, parse_config
from radrm.core.records import Device, Instant, Reading, Stranger
from radrm.core.words import DeviceKind
from radrm.errors import DeviceError, Refused
from radrm.host.attempts.processes import Identity, alive
from radrm.host.mps import service as module
from radrm.host.mps.clients import end_clients
from radrm.host.mps.compute_mode import EXCLUSIVE_PROCESS, ComputeModes
from radrm.host.mps.control import FAULT, UNKNOWN, Control, Missing, NoAnswer, Server
from radrm.host.mps.keeper import FAILURES, PROBE_S, SILENCES, Keeper, Phase, Seen
from radrm.host.mps.modelled import ModelledMps
from radrm.host.mps.service import Around, MpsService
from radrm.host.mps.source import MpsGpus, OnlySome
from tests.daemon.harness import wait_until

STANDINS = Path(__file__).parents[1] / "standins"
ONE = "GPU-11111111-0000-0000-0000-000000000000"
TWO = "GPU-22222222-0000-0000-0000-000000000000"


# ------------------------------------------------------------------ the stand-in


class Place:
    """A folder for control daemons, and all processes that were started in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.state = folder / "state.json"
        self.children: list[subprocess.Popen[bytes]] = []
        self.controls: list[Control] = []

    def control(self, *uuids: str, name: str = "m") -> Control:
        pipes = str(self.folder / name)
        made = Control(pipes, f"{pipes}.log", uuids or (ONE,))
        self.controls.append(made)
        return made

    def wrong(self, **how: Any) -> None:
        beside = self.state.with_suffix(".new")
        beside.write_text(json.dumps(how))
        beside.rename(self.state)

    def client(self, control: Control, *words: str) -> tuple[int, Path]:
        """A client process, once its server has it."""
        notes = self.folder / f"client-{len(self.children)}"
        child = subprocess.Popen(
            [sys.executable, str(STANDINS / "mps_client.py"), str(notes), *words],
            env={**os.environ, "CUDA_MPS_PIPE_DIRECTORY": control.pipes},
        )
        self.children.append(child)
        wait_until(lambda: notes.exists() and "ready" in notes.read_text(), "the client")
        return child.pid, notes

    def close(self) -> None:
        for child in self.children:
            child.kill()
            child.wait()
        for control in self.controls:
            end(control)


def end(control: Control) -> None:
    who = control.process()
    if who is not None:
        os.kill(who.pid, signal.SIGKILL)
        wait_until(lambda: not alive(who), "the end of a control daemon")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    made = Place(tmp_path)
    search = f"{STANDINS / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    monkeypatch.setenv("PATH", search)
    monkeypatch.setenv("MPS_STANDIN_STATE", str(made.state))
    yield made
    made.close()


# ------------------------------------------------------------------ one control daemon


def test_it_starts_answers_and_ends(place: Place) -> None:
    control = place.control(ONE, TWO)
    assert control.process() is None
    who = control.start()
    assert control.process() == who
    assert control.serves() == (ONE, TWO)
    assert control.probe() == ()
    client, _ = place.client(control)
    (server,) = control.probe()
    assert (server.status, server.clients) == ("ACTIVE", (client,))
    place.children[0].kill()
    wait_until(lambda: control.probe()[0].clients == ())
    control.quit()
    wait_until(lambda: not alive(who))
    assert control.process() is None


def test_a_dead_ones_leftovers_are_removed_and_its_log_is_kept(place: Place) -> None:
    control = place.control()
    first = control.start()
    end(control)
    assert "control" in os.listdir(control.pipes), "a stale socket"
    second = control.start()
    assert second != first
    log = Path(control.logs, "control.log").read_text()
    assert log.count("start, devices") == 2


@pytest.mark.parametrize("pid", ["", "x", "1", "0", "-1", "99999999999999999999", "{me}"])
def test_a_pid_file_that_names_another_process_proves_nothing(place: Place, pid: str) -> None:
    control = place.control()
    Path(control.pipes).mkdir()
    Path(control.pipes, "nvidia-cuda-mps-control.pid").write_text(pid.format(me=os.getpid()))
    assert control.process() is None


def test_one_that_does_not_start_says_why(place: Place) -> None:
    place.wrong(refuse="Failed to initialize: insufficient permissions\nmore")
    with pytest.raises(NoAnswer, match=r"did not start: Failed .* permissions; see .*\.log"):
        place.control().start()


def test_where_the_program_is_missing(tmp_path: Path) -> None:
    control = Control(str(tmp_path / "m"), str(tmp_path / "l"), [ONE], program="no-such-program")
    with pytest.raises(Missing, match="no-such-program is not on PATH; install"):
        control.start()


def test_a_path_that_no_socket_fits_in_is_refused_before_anything_is_started(place: Place) -> None:
    with pytest.raises(NoAnswer, match="too long"):
        place.control(name="x" * 100).start()


def test_one_that_hangs_is_not_waited_for(place: Place) -> None:
    control = place.control()
    control.start()
    place.wrong(hang=True)
    with pytest.raises(NoAnswer, match="does not answer within"):
        control.ask("get_server_list", timeout_s=0.2)


def test_without_a_daemon_the_programs_own_words_are_told(place: Place) -> None:
    with pytest.raises(NoAnswer, match="Cannot find MPS control daemon process"):
        place.control().ask("get_server_list")


def test_an_old_one_cannot_tell_its_servers_state(place: Place) -> None:
    control = place.control()
    control.start()
    place.client(control)
    place.wrong(old=True)
    assert [s.status for s in control.probe()] == [UNKNOWN]


def test_clients_of_the_attempt_alone_are_terminated_before_a_kill(place: Place) -> None:
    control = place.control()
    control.start()
    mine, notes = place.client(control)
    _, others = place.client(control)
    done: list[str] = []
    end_clients([control], (7, 1), {mine: (7, 1)}.get, lambda: done.append(notes.read_text()))
    wait_until(lambda: done)
    wait_until(lambda: "terminate" in notes.read_text())
    assert "terminate" not in others.read_text()


def test_a_kill_goes_on_when_the_control_daemon_does_not_answer(place: Place, mocker: Any) -> None:
    mocker.patch("radrm.host.mps.clients.LIMIT_S", 0.2)
    control = place.control()
    control.start()
    place.wrong(hang=True)
    done: list[bool] = []
    end_clients([control], (7, 1), lambda pid: (7, 1), lambda: done.append(True))
    wait_until(lambda: done, "the kill")


# ------------------------------------------------------------------ what a keeper does when


class Fake(Control):
    """A control daemon that is nothing but words."""

    def __init__(self) -> None:
        super().__init__("/pipes", "/logs", [ONE])
        self.who: Identity | None = None
        self.found: tuple[Server, ...] = ()
        self.silent = False
        self.refuses: str | None = None
        self.absent: str | None = None
        self.had: tuple[str, ...] = (ONE,)
        self.did: list[str] = []

    def process(self) -> Identity | None:
        return self.who

    def serves(self) -> tuple[str, ...]:
        return self.had

    def missing(self) -> str | None:
        return self.absent

    def start(self) -> Identity:
        self.did.append("start")
        if (absent := self.missing()) is not None:
            raise Missing(absent)
        if self.refuses:
            raise NoAnswer(self.refuses)
        self.who, self.had, self.found = Identity(2**22 + 7, 1, "boot"), self.uuids, ()
        return self.who

    def probe(self) -> tuple[Server, ...]:
        if self.silent:
            raise NoAnswer("no answer")
        return self.found

    def terminate_client(self, server: int, client: int, timeout_s: float = 2.0) -> None:
        self.did.append(f"terminate {server} {client}")

    def quit(self) -> None:
        self.did.append("quit")

    def kill(self, servers: Any = ()) -> None:
        self.did.append(f"kill {sorted(servers)}")
        self.who, self.found = None, ()


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
    assert "being started" in (keeper.hold or "")
    keeper.round(0.0)
    keeper.round(0.0)
    assert keeper.ready and keeper.hold is None and fake.did == ["start"]


def test_a_living_one_is_taken_over() -> None:
    keeper, fake = kept()
    fake.who, fake.found = Identity(5, 1, "boot"), (Server(6, "ACTIVE", (os.getpid(),)),)
    keeper.round(0.0)
    assert (keeper.ready, keeper.seen.pid, keeper.seen.clients) == (True, 5, (os.getpid(),))
    assert fake.did == []


@pytest.mark.parametrize("client", [True, False])
def test_one_with_other_gpus_is_replaced_when_nobody_is_on_it(client: bool) -> None:
    keeper, fake = kept()
    clients = (os.getpid(),) if client else ()
    fake.who, fake.had = Identity(5, 1, "boot"), (TWO,)
    fake.found = (Server(6, "ACTIVE", clients),)
    keeper.round(0.0)
    assert fake.did == ([] if client else ["quit", "kill [6]"])
    assert keeper.seen.serves == ((TWO,) if client else ())


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
    assert (keeper.seen.phase, keeper.hold, keeper.seen.trouble) == (Phase.DOWN, None, "no")
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
    assert (keeper.seen.phase, keeper.seen.trouble) == (Phase.DOWN, "not on PATH")
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


def test_after_a_clients_failure_nobody_new_comes_before_its_server_was_looked_at() -> None:
    keeper, _ = up()
    keeper.suspect()
    assert keeper.serving and "has failed" in (keeper.hold or "")
    keeper.round(1.0)
    assert keeper.hold is None


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
    keeper, fake = up()
    keeper._grace_s = 30.0
    keeper._owner_of = {os.getpid(): (7, 1)}.get
    # The second is nobody's process that radrm started: its work ends, it is not signalled.
    fake.found = (Server(6, FAULT, (os.getpid(), os.getppid())),)
    seen = []
    for now in (100.0, 129.0, 130.5, 131.0, 160.5, 189.0, 190.5):
        keeper.round(now)
        seen.append(([c.args[2] for c in sent.call_args_list], list(fake.did)))
    term, kill = signal.SIGTERM, signal.SIGKILL
    ended = ["start", f"terminate 6 {os.getpid()}", f"terminate 6 {os.getppid()}"]
    assert seen == [
        *[([], ["start"])] * 2,
        *[([term], ["start"])] * 2,
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
    assert keeper.seen.phase is Phase.STOPPING and "1 client" in (keeper.seen.trouble or "")
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


# ------------------------------------------------------------------ compute modes


class Driver:
    def __init__(self) -> None:
        self.modes = {ONE: 0, TWO: 1}
        self.broken = False

    def put(self, uuid: str, mode: int) -> None:
        if self.broken:
            raise PermissionError("insufficient permissions")
        self.modes[uuid] = mode


def modes_in(folder: Path, driver: Driver) -> ComputeModes:
    return ComputeModes(str(folder / "modes.json"), driver.modes.__getitem__, driver.put)


def test_modes_are_set_for_clients_and_given_back_before_others(tmp_path: Path) -> None:
    driver = Driver()
    modes = modes_in(tmp_path, driver)
    modes.exclusive([ONE, TWO])
    modes.exclusive([ONE])
    assert set(driver.modes.values()) == {EXCLUSIVE_PROCESS}
    modes.give_back([TWO])
    assert driver.modes == {ONE: EXCLUSIVE_PROCESS, TWO: 1}
    modes.give_back()
    assert driver.modes == {ONE: 0, TWO: 1}
    assert list(tmp_path.iterdir()) == []


def test_modes_are_given_back_by_the_next_daemon_after_a_kill(tmp_path: Path) -> None:
    driver = Driver()
    modes_in(tmp_path, driver).exclusive([ONE])
    modes_in(tmp_path, driver).give_back()
    assert driver.modes == {ONE: 0, TWO: 1}


def test_a_mode_that_cannot_be_set_is_said_once_and_stops_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    driver = Driver()
    driver.broken = True
    modes = modes_in(tmp_path, driver)
    modes.exclusive([ONE])
    modes.exclusive([ONE])
    assert len(caplog.records) == 1 and "nvidia-smi -c" in caplog.text
    modes.give_back()
    assert driver.modes[ONE] == 0


@pytest.mark.parametrize("text", ["", "{", "[]", '{"a": "b"}', "3"])
def test_a_damaged_memory_of_modes_is_said(
    tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "modes.json").write_text(text)
    modes_in(tmp_path, Driver()).give_back()
    assert "cannot be read" in caplog.text


# ------------------------------------------------------------------ whose device is whose


def gpu(uuid: str, index: int, **more: Any) -> Device:
    return Device(uuid=uuid, index=index, name="A100", total_mib=40960, **more)


GPUS = (gpu(ONE, 0), gpu(TWO, 1))
MIG = gpu("MIG-1", 2, kind=DeviceKind.MIG)


class Source:
    name = "fake"

    def __init__(self, *devices: Device) -> None:
        self.there = devices
        self.strangers: tuple[Stranger, ...] = ()

    def devices(self) -> tuple[Device, ...]:
        return self.there

    def read(self, uuids: Any, at: Instant, owner_of: Any) -> tuple[Reading, ...]:
        return tuple(Reading(device=u, at=at, used_mib=0, strangers=self.strangers) for u in uuids)

    def close(self) -> None:
        pass


@pytest.fixture
def faked(mocker: Any) -> None:
    """Control daemons that are words, kept by nobody but the test."""
    mocker.patch.object(module, "Control", side_effect=named)
    mocker.patch.object(module.Keeper, "begin")


def named(pipes: str, logs: str, uuids: list[str], multiuser: bool = False) -> Fake:
    fake = Fake()
    fake.multiuser = multiuser
    fake.pipes, fake.logs, fake.uuids, fake.had = pipes, logs, tuple(uuids), tuple(uuids)
    return fake


def served(*words: Any, **settings: Any) -> tuple[MpsService, MpsGpus, Source]:
    config = MpsConfig(enabled=True, only=tuple(map(str, words)), **settings)
    source = Source(*GPUS, MIG)
    service = MpsService(config, "/run/radrm")
    return service, MpsGpus(source, service), source


def rounds(service: MpsService, uuid: str) -> Keeper:
    keeper = service.keeper_of(uuid)
    assert keeper is not None
    keeper.round(0.0)
    keeper.round(0.0)
    return keeper


@pytest.mark.usefixtures("faked")
@pytest.mark.parametrize(
    "words, meant",
    [((), (0, 1)), ((0,), (0,)), ((TWO,), (1,)), (("GPU-2222",), (1,)), ((0, 1, 2), (0, 1))],
)
def test_the_gpus_that_are_meant_are_under_mps_and_no_instance_is(
    words: tuple[Any, ...], meant: tuple[int, ...]
) -> None:
    _, source, _ = served(*words)
    devices = source.devices()
    assert tuple(d.index for d in devices if d.mps) == meant
    assert not any(d.mps_spans for d in devices)
    only = OnlySome(
        Source(*(replace(d, mps=True, mps_spans=True) for d in GPUS)),
        MpsConfig(True, tuple(map(str, words))),
    )
    assert tuple(d.index for d in only.devices() if d.mps) == meant


@pytest.mark.usefixtures("faked")
def test_each_gpu_has_its_own_pipes_and_counts_as_the_first() -> None:
    service, source, _ = served(active_thread_percentage=40)
    source.devices()
    for uuid, name in ((ONE, "11111111"), (TWO, "22222222")):
        rounds(service, uuid)
        access = service.access([uuid])
        assert (access.pipes, access.logs) == (
            f"/run/radrm/mps/{name}",
            f"/run/radrm/mps/{name}.log",
        )
        assert (access.ordinals, access.thread_percentage) == ({uuid: 0}, 40)
    with pytest.raises(DeviceError):
        service.access([ONE, TWO])


@pytest.mark.usefixtures("faked")
def test_uuids_that_begin_alike_do_not_share_pipes() -> None:
    service = MpsService(MpsConfig(True), "/run/radrm")
    service.know((gpu("GPU-11111111-a", 0), gpu("GPU-11111111-b", 1)))
    assert len({row["pipes"] for row in service.rows()}) == 2


@pytest.mark.usefixtures("faked")
def test_one_for_all_numbers_them_by_its_own_list() -> None:
    service, source, _ = served(scope="server")
    assert [d.mps_spans for d in source.devices()] == [True, True, False]
    rounds(service, ONE)
    assert service.access([TWO]).ordinals == {TWO: 1}
    assert service.access([TWO, ONE]).ordinals == {ONE: 0, TWO: 1}
    with pytest.raises(Refused, match="one MPS control daemon serves all GPUs"):
        service.turn_off([ONE], force=False)
    service.turn_off([ONE, TWO], force=False)


@pytest.mark.usefixtures("faked")
def test_a_job_is_no_client_of_a_server_that_is_not_ready() -> None:
    service, source, _ = served()
    source.devices()
    with pytest.raises(DeviceError, match="being started"):
        service.access([ONE])


@pytest.mark.usefixtures("faked")
def test_the_daemon_is_told_at_once_what_has_changed() -> None:
    service, source, base = served()
    told: list[list[bool]] = []

    def listed(devices: tuple[Device, ...]) -> None:
        told.append([d.mps for d in devices])

    devices = source.devices()
    service.begin(Around(lambda pid: None, lambda: None, listed, 30.0))
    at, uuids = Instant(1.0, 1.0), [d.uuid for d in devices]
    starting = source.read(uuids, at, lambda pid: None)
    assert ["started" in (r.fault or "") for r in starting] == [True, True, False]
    keepers = [rounds(service, u) for u in (ONE, TWO)]
    assert [r.fault for r in source.read(uuids, at, lambda pid: None)] == [None] * 3
    assert told == []
    keepers[0].turn_off(force=False)
    source.read(uuids, at, lambda pid: None)
    source.read(uuids, at, lambda pid: None)
    assert told == [[False, True, False]]
    # The processes of MPS itself are nobody's secret use of the device.
    base.strangers = (Stranger(pid=keepers[1].seen.pid or 0), Stranger(pid=1))
    (reading,) = source.read([TWO], at, lambda pid: None)
    assert [s.pid for s in reading.strangers] == [1]


@pytest.mark.usefixtures("faked")
def test_names_of_gpus_that_are_not_there_are_told(caplog: pytest.LogCaptureFixture) -> None:
    service, source, _ = served(0, 7)
    source.devices()
    service.begin(Around(lambda pid: None, lambda: None, lambda devices: None, 30.0))
    assert "names GPU 7" in caplog.text and "names GPU 0" not in caplog.text


@pytest.mark.usefixtures("faked")
def test_a_missing_program_is_told_once_for_all_gpus(
    caplog: pytest.LogCaptureFixture, mocker: Any
) -> None:
    mocker.patch.object(Fake, "missing", lambda self: "it is not on PATH")
    service, source, _ = served()
    assert not any(d.mps for d in source.devices())
    service.begin(Around(lambda pid: None, lambda: None, lambda devices: None, 30.0))
    for uuid in (ONE, TWO):
        rounds(service, uuid)
    assert caplog.text.count("not on PATH") == 1 and "time-slicing" in caplog.text
    assert {row["trouble"] for row in service.rows()} == {"it is not on PATH"}
    with pytest.raises(Refused, match="not on PATH"):
        service.turn_on([ONE])


@pytest.mark.usefixtures("faked")
def test_modes_go_with_the_jobs(tmp_path: Path) -> None:
    driver = Driver()
    service = MpsService(
        MpsConfig(True, set_compute_mode=True), "/run/radrm", modes_in(tmp_path, driver)
    )
    service.know(GPUS)
    service.prepare([ONE], client=True)
    service.prepare([TWO], client=False)
    assert driver.modes == {ONE: EXCLUSIVE_PROCESS, TWO: 1}
    service.prepare([ONE], client=False)
    assert driver.modes[ONE] == 0
    service.prepare([ONE], client=True)
    service.close()
    assert driver.modes[ONE] == 0


def test_software_gpus_need_no_control_daemon() -> None:
    modelled = ModelledMps("/run", MpsConfig(True))
    assert modelled.access([TWO, ONE]).ordinals == {TWO: 0, ONE: 1}
    assert modelled.rows() == [] and modelled.apart is None
    with pytest.raises(Refused, match="without a control daemon"):
        modelled.turn_on([ONE])
    with pytest.raises(Refused, match="without a control daemon"):
        modelled.turn_off([ONE], force=True)


# ------------------------------------------------------------------ the settings


@pytest.mark.parametrize(
    "text, expected",
    [
        ("enabled = true", MpsConfig(True)),
        ("enabled = []", MpsConfig()),
        ('enabled = [0, 3, "GPU-1a2b3c4d"]', MpsConfig(True, ("0", "3", "GPU-1a2b3c4d"))),
        ('scope = "server"', MpsConfig(scope="server")),
        ("active_thread_percentage = 50", MpsConfig(active_thread_percentage=50)),
        ("set_compute_mode = true", MpsConfig(set_compute_mode=True)),
        ("multiuser = true", MpsConfig(multiuser=True)),
    ],
)
def test_settings_and_their_way_back(text: str, expected: MpsConfig) -> None:
    config = parse_config(f"[mps]\n{text}", "x")
    assert config.mps == expected
    again = config.with_set("policy=lug")
    assert again.mps == expected
    assert set(config.to_table()["mps"]) == set(Config().to_table()["mps"])

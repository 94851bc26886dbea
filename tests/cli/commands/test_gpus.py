"""`radrm gpus`: below its table stands what people should know of a device besides."""

from __future__ import annotations

import json
from time import localtime, strftime
from typing import Any

import pytest

import radrm.cli.commands.gpus
import radrm.cli.commands.mps
from radrm.cli.show.devices import devices_page, remarks
from tests.cli.fakes import ESC, Script, gpu, shown
from tests.cli.runner import invoke

ECC = "uncorrected memory errors (ECC): 3 since the driver was loaded; see nvidia-smi -q -d ECC"
HOT = "slowed down by heat (91 C); check the cooling"


def unmanaged(pid: int = 4711, **changed: Any) -> dict[str, Any]:
    usual = {"pid": pid, "used_mib": 20_000, "user": "bob", "command": "python train.py"}
    return {**usual, **changed}


def test_nothing_to_say_is_no_line() -> None:
    assert remarks([gpu(), gpu(1, notes=[], unmanaged=[])]) == []
    assert len(shown(devices_page([gpu()]))) == 2


def test_simulated_gpus_are_named_as_such() -> None:
    devices = [gpu(simulated=True), gpu(1, simulated=True)]
    assert shown(devices_page(devices), terminal=False)[0] == "2 simulated GPUs"


def test_near_gpus_are_shown_if_there_are_several_groups() -> None:
    def lines(*near: dict[str, int | None]) -> list[str]:
        devices = [gpu(index, near=each) for index, each in enumerate(near)]
        return shown(devices_page(devices), terminal=False)

    none: dict[str, int | None] = {"nvlink_group": None, "numa_node": None}
    first, second = {**none, "nvlink_group": 0, "numa_node": 3}, {**none, "numa_node": 1}
    assert not any("NEAR" in lines(*each)[0] for each in ((none, none), (first, first), (first,)))
    title, *rows = lines(first, second, none)
    assert "NEAR" in title
    assert ["NVLink 0, NUMA 3" in rows[0], "  NUMA 1 " in rows[1]] == [True, True]
    mesh: Any = {**none, "nvlinks": {"1": 1, "3": 2}, "pcie_switch": 0}
    _, *rows = lines({**none, "pcie_switch": 2}, mesh)
    assert ["PCIe 2" in rows[0], "NVLink to 1 3x2 " in rows[1]] == [True, True]


def test_what_jobs_have_booked_of_the_server_stands_first_below() -> None:
    cpus: dict[str, Any] = {"node_cpus": 32.0, "node_cpus_booked": 12.5}
    memory: dict[str, Any] = {"node_memory_mib": 128 * 1024, "node_memory_booked_mib": 1024}
    devices = [gpu(**cpus, **memory), gpu(1, **cpus, **memory, notes=[HOT])]
    assert shown(devices_page(devices), terminal=False)[3:] == [
        "",
        "  server  12.5 of 32 CPUs and 1.0G of 128.0G host memory booked",
        f"  GPU 1   {HOT}",
    ]


def test_what_planners_have_reserved_stands_below() -> None:
    later: dict[str, Any] = {"kind": "backfill", "owner": "job 12", "reserved_mib": 38 * 1024}
    later |= {"start_at": 1.7e9, "end_at": 1.7e9 + 3600}
    start, end = (strftime("%Y-%m-%d %H:%M:%S", localtime(1.7e9 + s)) for s in (0, 3600))
    running = {**later, "kind": "running", "end_at": None}
    (line,) = remarks([gpu(reservations=[running, later])])
    assert line == ("GPU 0", f"reserved: 38.0G for job 12, {start} to {end} (backfill)")


def test_health_and_unmanaged_stand_below() -> None:
    devices = [gpu(), gpu(1, notes=[ECC, HOT], unmanaged=[unmanaged()])]
    lines = shown(devices_page(devices), terminal=False)
    assert lines[3:] == [
        "",
        f"  GPU 1   {ECC}",
        f"  GPU 1   {HOT}",
        "  GPU 1   unmanaged: process 4711 of bob, 19.5G, python train.py",
    ]


def test_a_note_on_several_gpus_appears_once() -> None:
    devices = [gpu(n, notes=[HOT] if n != 2 else [ECC]) for n in range(8)]
    lines = shown(devices_page(devices), terminal=False)
    assert lines[-2:] == [f"  GPU 0, 1, 3-7  {HOT}", f"  GPU 2          {ECC}"]


def test_unified_memory_is_said() -> None:
    assert remarks([gpu(unified=True), gpu(1, unified=False)]) == [
        ("GPU 0", "unified memory: the server's, which all its programs share")
    ]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({}, "process 4711 of bob, 19.5G, python train.py"),
        ({"used_mib": None, "user": None, "command": None}, "process 4711"),
        ({"used_mib": 0}, "process 4711 of bob, 0M, python train.py"),
        (
            {"step": "warned", "seen_s": 300, "left": None},
            "process 4711 of bob, 19.5G, seen for 5m00s, python train.py",
        ),
        (
            {"step": "TERM", "seen_s": 61, "left": None},
            "process 4711 of bob, 19.5G, TERM sent after 1m01s, python train.py",
        ),
        (
            {"step": "warned", "seen_s": 61, "left": "it belongs to a job"},
            "process 4711 of bob, 19.5G, seen for 1m01s, left alone because it belongs to a job, "
            "python train.py",
        ),
    ],
)
def test_what_is_known_of_an_unmanaged_process(changed: dict[str, Any], said: str) -> None:
    assert remarks([gpu(unmanaged=[unmanaged(**changed)])]) == [("GPU 0", f"unmanaged: {said}")]


def test_many_are_not_all_told() -> None:
    found = remarks(
        [gpu(notes=[f"note {n}" for n in range(9)], unmanaged=[unmanaged(n) for n in range(32)])]
    )
    assert len(found) == 12
    assert found[5] == ("GPU 0", "... and 4 more notes (--json has all)")
    assert found[-1] == ("GPU 0", "... and 27 more unmanaged processes (--json has more)")


def test_what_holds_for_all_instances_of_a_gpu_is_said_once() -> None:
    instances = [gpu(2, uuid=f"MIG-{n}", kind="mig", notes=[HOT]) for n in range(3)]
    assert remarks(instances) == [("GPU 2", HOT)]


def test_it_fits_eighty_columns() -> None:
    long = unmanaged(command="/opt/conda/bin/python train.py " + "--learning-rate=0.001 " * 6)
    lines = shown(devices_page([gpu(notes=[ECC, HOT], unmanaged=[long])]))
    assert all(len(line) <= 80 for line in lines)
    below = lines[3:]
    assert [line[:10] for line in below if line[:10].strip()] == ["  GPU 0   "] * 3
    assert len(below) > 4, "the long ones go on below their beginning"


def process(pid: int, **changed: Any) -> dict[str, Any]:
    usual = {"pid": pid, "kind": "job", "job": "12_3", "user": "ann", "used_mib": 1024}
    command = f"/opt/conda/bin/python /home/ann/{ESC}/train.py --data /data/x"
    return {**usual, "smact": 0.5, "command": command, **changed}


def test_a_row_for_each_process() -> None:
    unknown = dict.fromkeys(("job", "user", "used_mib", "smact", "command"))
    others = [process(2, kind="mps", job=None), process(3, **unknown, kind="unmanaged")]
    devices = [
        gpu(processes=[process(1), *others], unmanaged=[unmanaged(3)]),
        gpu(1, processes=None),
        gpu(2, processes=[]),
    ]
    lines = shown(devices_page(devices), terminal=False)
    rows = [line.split() for line in lines[5:]]
    assert [row[:6] for row in rows[1:4]] == [
        ["0", "1", "ann", "12_3", "1.0G", "0.50"],
        ["0", "2", "ann", "MPS", "1.0G", "0.50"],
        ["0", "3", "-", "unmanaged", "-", "-"],
    ]
    assert lines[6].endswith(" python train.py --data /data/x")
    assert len(rows) == 5 and rows[4][:2] == ["GPU", "1:"], "each process has one line"
    assert all(line.isprintable() for line in lines)
    assert all(len(line) <= 80 for line in shown(devices_page(devices)))


def test_no_process_is_not_the_same_as_unknown() -> None:
    def below(**changed: Any) -> list[str]:
        return shown(devices_page([gpu(**changed)], "of ann"), terminal=False)[3:]

    assert below(processes=[]) == ["No process of ann uses a GPU."]
    (line,) = below(processes=None)
    assert line.startswith("GPU 0: ")


def test_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    devices = [gpu(unmanaged=[unmanaged()])]
    monkeypatch.setattr(radrm.cli.commands.gpus, "Client", lambda: Script(gpus=[devices]))
    done = invoke("gpus")
    assert done.exit_code == 0 and "process 4711 of bob" in done.stdout
    as_json = invoke("gpus", "--json")
    assert json.loads(as_json.stdout) == devices


def test_mps_stop_says_what_it_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    row = {"uuids": ["GPU-0"], "gpus": [0], "state": "stopping", "fault": "it ends after 1 client"}
    off = {**row, "state": "off", "fault": None}
    stopped = [{"index": 0, "uuid": "GPU-0", "error": None}]
    client = Script(**{"mps-stop": [stopped], "mps": [[row], [row], [row], [off]]})
    monkeypatch.setattr(radrm.cli.commands.mps, "Client", lambda: client)
    monkeypatch.setattr(radrm.cli.commands.mps, "_PAUSE_S", 0.0)
    monkeypatch.setattr(radrm.cli.commands.mps, "_QUIET_S", -1.0)
    result = invoke("mps", "stop", "0")
    assert result.stderr == "Waiting for GPU 0, which is stopping: it ends after 1 client\n"
    assert (result.exit_code, result.stdout) == (0, "Stopped MPS on GPU 0\n")

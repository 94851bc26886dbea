"""The parts of a pilot that need no Slurm: what goes back, which GPUs are its own, its folder."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given as over
from hypothesis import strategies as st

from radrm.core.records import Device
from radrm.core.words import DeviceKind
from radrm.errors import Refused, StoreError, UsageError
from radrm.host.storage.spool import Envelope, Spool
from radrm.host.storage.submission import job_file_in
from radrm.host.storage.tickets import new_ticket
from radrm.slurm.pilot.main import given, host_words, script_of, until_of, words_of
from radrm.slurm.pilot.running import Pilot
from radrm.slurm.pilot.server import Server
from radrm.slurm.pilot.shared import Shared, rest_of, shared_root, take_over

# ------------------------------------------------------------------ what goes back


def envelope(**options: Any) -> Envelope:
    words = ("echo", "hi")
    return Envelope(new_ticket(), None, None, words, options, "/", 0o22, {}, 0.0)


def row(state: str, attempts: int = 0, index: int | None = None) -> dict[str, Any]:
    row = dict.fromkeys(("started_at", "ended_at", "exit_code", "reason"))
    row |= {"id": 1, "label": "1", "name": "a"}
    return {**row, "state": state, "attempts": attempts, "index": index}


REMAINS = [  # its rows; whether it may run again; whether it goes back
    ([], False, True),  # the daemon has not seen it
    ([row("PENDING")], False, True),
    ([row("RUNNING", 1)], False, False),
    ([row("RUNNING", 1)], True, True),
    ([row("RECOVERING", 1)], False, False),
    ([row("RECOVERING", 1)], True, True),
    ([row("COMPLETED", 1)], True, False),
    ([row("FAILED", 1)], True, False),
    ([row("CANCELLED")], True, False),
]


@pytest.mark.parametrize("rows, again, back", REMAINS)
def test_what_has_not_started_goes_back(
    rows: list[dict[str, Any]], again: bool, back: bool
) -> None:
    assert rest_of(envelope(requeue=True) if again else envelope(), rows) == (None, back)


STATES = st.sampled_from(["PENDING", "RUNNING", "COMPLETED", "FAILED", "CANCELLED"])


@over(
    states=st.dictionaries(st.integers(0, 40), STATES, min_size=1),
    again=st.booleans(),
    at_once=st.none() | st.integers(1, 5),
)
def test_of_an_array_the_elements_go_back_that_are_left(
    states: dict[int, str], again: bool, at_once: int | None
) -> None:
    text = ",".join(map(str, states)) + (f"%{at_once}" if at_once else "")
    options = {"array": text, **({"requeue": True} if again else {})}
    rows = [row(state, int(state != "PENDING"), index) for index, state in states.items()]
    rest, any_left = rest_of(envelope(**options), rows)
    goes = {"PENDING", "RUNNING"} if again else {"PENDING"}
    left = {index for index, state in states.items() if state in goes}
    assert any_left == bool(left)
    if left and left != states.keys():
        assert rest is not None
        array = job_file_in(rest).options.array
        assert (set(array.indices), array.at_once) == (left, at_once)
        assert Envelope.from_bytes(rest.to_bytes()) == rest
    else:
        assert rest is None


# ------------------------------------------------------------------ its GPUs


def device(number: int, parent: str | None = None, minor: int | None = None) -> Device:
    kind = DeviceKind.GPU if parent is None else DeviceKind.MIG
    name = f"GPU-{number}" if parent is None else f"MIG-{number}"
    return Device(name, number, "A100", 40960, kind=kind, parent=parent, minor=minor)


FOUR = [device(n) for n in range(4)]
TURNED = [device(n, minor=3 - n) for n in range(4)]
SPLIT = [device(0, "GPU-a"), device(1, "GPU-a"), device(2, "GPU-b")]
GIVEN = [  # what the driver shows, CUDA_VISIBLE_DEVICES, SLURM_JOB_GPUS, the job's own
    (FOUR[:2], "0,1", "2,3", ["GPU-0", "GPU-1"]),  # ConstrainDevices: all that is shown
    (FOUR, "0,1,2,3", "", ["GPU-0", "GPU-1", "GPU-2", "GPU-3"]),
    (FOUR, "2,3", "2,3", ["GPU-2", "GPU-3"]),
    (FOUR, "1", "", ["GPU-1"]),
    (TURNED, "0", "0", ["GPU-3"]),  # Slurm's numbers are those of the files
    (FOUR, "GPU-3,GPU-1", "", ["GPU-3", "GPU-1"]),
    (SPLIT, "MIG-1", "", ["MIG-1"]),
    (SPLIT, "0,1", "4,5", ["MIG-0", "MIG-1", "MIG-2"]),
]


@pytest.mark.parametrize("devices, visible, numbers, own", GIVEN)
def test_the_gpus_that_slurm_has_given(
    devices: list[Device], visible: str, numbers: str, own: list[str]
) -> None:
    environ = {"CUDA_VISIBLE_DEVICES": visible, "SLURM_JOB_GPUS": numbers}
    assert list(given(devices, environ)) == own


@pytest.mark.parametrize("visible", ["", "NoDevFiles", "7", "GPU-9", "0,9", "-1", "1;2"])
def test_without_known_gpus_there_is_no_pilot(visible: str) -> None:
    with pytest.raises(Refused) as caught:
        given(FOUR, {"CUDA_VISIBLE_DEVICES": visible})
    assert "\n" not in str(caught.value)


def test_jobs_end_before_slurm_ends_the_pilot() -> None:
    assert until_of(None, 1000.0) is None
    assert until_of(101_000.0, 1000.0) == 101_000.0 - 120
    assert until_of(1100.0, 1000.0) == 1090.0
    assert until_of(900.0, 1000.0) == 900.0


@pytest.mark.parametrize(
    ("environ", "settings"),
    [
        ({}, []),
        ({"SLURM_CPUS_ON_NODE": "8"}, ["node.cpus=8"]),
        (
            {"SLURM_CPUS_ON_NODE": "8", "SLURM_MEM_PER_CPU": "100"},
            ["node.cpus=8", "node.memory=800"],
        ),
        (
            {"SLURM_CPUS_ON_NODE": "8", "SLURM_MEM_PER_NODE": "900"},
            ["node.cpus=8", "node.memory=900"],
        ),
        ({"SLURM_CPUS_ON_NODE": "x", "SLURM_MEM_PER_NODE": "0"}, []),
    ],
)
def test_cpus_and_host_memory_are_those_of_the_slurm_job(
    environ: dict[str, str], settings: list[str]
) -> None:
    words = host_words(environ)
    assert words[1::2] == settings and set(words[::2]) <= {"--set"}


# ------------------------------------------------------------------ the shared folder


@pytest.fixture
def shared(tmp_path: Path) -> Shared:
    place = Shared(shared_root({"HOME": str(tmp_path)}))
    place.make()
    for pilot in ("1", "2"):
        place.make_pilot(pilot)
    return place


def put(shared: Shared, **options: Any) -> str:
    each = envelope(**options)
    Spool(shared.spool).put([each])
    return each.ticket


def test_one_of_two_pilots_gets_a_job(shared: Shared) -> None:
    ticket = put(shared)
    assert [shared.claim(ticket, "1"), shared.claim(ticket, "2")] == [True, False]
    assert shared.claim(ticket, "1"), "the answer to its rename was lost"
    assert (shared.waiting(), shared.claimed("1"), shared.claimed("2")) == ([], [ticket], [])
    shared.give_back(ticket, "1")
    shared.give_back(ticket, "1")
    assert (shared.waiting(), shared.claimed("1")) == ([ticket], [])
    assert [shared.forget(ticket), shared.forget(ticket)] == [True, False]


def test_a_pilot_takes_over_what_another_had_not_started(shared: Shared) -> None:
    runs, waits, again, unseen = put(shared), put(shared), put(shared, requeue=True), put(shared)
    some = put(shared, array="1-3")
    for ticket in (runs, waits, again, unseen, some):
        assert shared.claim(ticket, "1")
    jobs = {
        runs: [row("RUNNING", 1)],
        waits: [row("PENDING")],
        again: [row("RUNNING", 1)],
        some: [row("COMPLETED", 1, 1), row("RUNNING", 1, 2), row("PENDING", 0, 3)],
    }
    shared.write_state("1", {"jobs": jobs})
    assert set(take_over(shared, ["1"], rest_of)) == {waits, again, unseen, some}
    assert (set(shared.waiting()), shared.claimed("1")) == ({waits, again, unseen, some}, [])
    assert shared.read(some).options["array"] == "3"


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b'{"jobs": 3}', b"\xff", b"null"])
def test_a_broken_note_counts_as_none(shared: Shared, text: bytes) -> None:
    ticket = put(shared)
    shared.claim(ticket, "1")
    (Path(shared.of("1")) / "state.json").write_bytes(text)
    assert take_over(shared, ["1"], rest_of) == [ticket]


def test_what_is_no_envelope_is_left_alone(shared: Shared) -> None:
    names = [new_ticket() for _ in range(3)]
    os.mkfifo(f"{shared.spool}/{names[0]}.job")
    Path(shared.spool, f"{names[1]}.job").write_text("{}")
    os.symlink("/etc/passwd", f"{shared.spool}/{names[2]}.job")
    Path(shared.spool, "notes.txt").write_text("mine")
    assert [shared.read(ticket) for ticket in shared.waiting()] == [None] * 3


def test_the_folder_of_a_pilot_goes_a_week_after_its_end(shared: Shared) -> None:
    place = Path(shared.of("1"))
    shared.write_state("1", {"jobs": {}})
    shared.tidy("1")
    assert shared.pilots() == ["1", "2"]
    os.utime(place / "state.json", (time.time() - 8 * 86400,) * 2)
    saved = place / "checkpoints" / "3"
    saved.mkdir()
    shared.tidy("1")
    assert saved.is_dir(), "what a job has saved stays"
    saved.rmdir()
    shared.tidy("1")
    assert shared.pilots() == ["2"]


def test_without_a_home_there_is_no_folder(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="set HOME"):
        shared_root({})
    assert shared_root({"XDG_DATA_HOME": "/data", "HOME": "/h"}) == "/data/radrm/pilots"
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot make the folder"):
        Shared(str(tmp_path / "file" / "x")).make()


# ------------------------------------------------------------------ its turns


class Daemon(Server):
    """Stands for the daemon: jobs are in the state that a test gives them."""

    def __init__(self) -> None:
        super().__init__("/nowhere", ())
        self.states: dict[str, dict[str, Any]] = {}
        self.asked: list[tuple[str, Any]] = []
        self.hopeless: str | None = None

    def put(self, envelope: Envelope) -> None:
        limit_s = job_file_in(envelope).options.time_s
        number = len(self.states) + 1
        self.states[envelope.ticket] = {
            **dict.fromkeys(("started_at", "ended_at", "exit_code", "reason", "array_index")),
            "id": number,
            "label": str(number),
            "name": "echo",
            "ticket": envelope.ticket,
            "state": "PENDING",
            "attempts": 0,
            "time_limit_s": limit_s,
        }

    def jobs(self, ticket: str) -> list[dict[str, Any]]:
        if ticket not in self.states:
            raise Refused("no such job")
        return [dict(self.states[ticket])]

    def ask(self, op: str, **words: Any) -> Any:
        self.asked.append((op, words))
        if op == "cancel":
            for each in self.states.values():
                if str(each["id"]) in words["jobs"]:
                    each["state"] = "CANCELLED"
        return [[self.hopeless, []]]


def pilot_of(shared: Shared, daemon: Daemon, left_s: float | None = 3600.0) -> Pilot:
    until_s = None if left_s is None else time.time() + left_s
    return Pilot(shared, "1", "g1", daemon, until_s, None, lambda: {"1"})


def test_a_pilot_claims_what_can_end_in_its_time(shared: Shared) -> None:
    daemon = Daemon()
    short, long, endless = put(shared, time="50m"), put(shared, time="2h"), put(shared)
    pilot = pilot_of(shared, daemon)
    pilot.turn()
    assert (shared.claimed("1"), shared.waiting()) == ([short], [long, endless])
    left = shared.state("1")["left"]
    assert left[long].startswith("its time limit is 2h00m, and the pilot has ")
    assert left[endless] == "it has no time limit; cancel it, and submit it with --time"
    daemon.hopeless = "it needs 9 GPUs"
    big = put(shared, time="1m")
    pilot.turn()
    assert shared.state("1")["left"][big] == "it needs 9 GPUs"
    daemon.states[short]["state"] = "COMPLETED"
    pilot.turn()
    assert shared.claimed("1") == []
    assert shared.state("1")["jobs"][short][0]["state"] == "COMPLETED"


def test_what_can_no_more_end_in_time_goes_back_for_good(shared: Shared) -> None:
    daemon = Daemon()
    runs, waits, retries = (put(shared, time="50m") for _ in range(3))
    pilot = pilot_of(shared, daemon)
    pilot.turn()
    daemon.states[runs]["state"] = "RUNNING"
    daemon.states[retries] |= {"state": "RECOVERING", "attempts": 1}
    for ticket in (runs, waits, retries):
        daemon.states[ticket]["time_limit_s"] = 7200.0
    pilot.turn()
    assert (shared.claimed("1"), shared.waiting()) == ([runs], [waits, retries])
    assert daemon.states[waits]["state"] == daemon.states[retries]["state"] == "CANCELLED"
    assert daemon.states[runs]["state"] == "RUNNING"
    pilot.turn()
    assert shared.waiting() == [waits, retries], "the daemon knows these tickets"


def test_a_user_cancels_from_another_machine(shared: Shared) -> None:
    daemon = Daemon()
    ticket = put(shared, time="1m")
    pilot = pilot_of(shared, daemon, None)
    shared.ask_cancel(ticket, "1")
    pilot.turn()
    assert shared.asked_cancels("1") == [], "it was not claimed at that time"
    shared.ask_cancel(ticket, "1")
    pilot.turn()
    pilot.turn()
    assert (daemon.states[ticket]["state"], shared.claimed("1")) == ("CANCELLED", [])
    assert shared.asked_cancels("1") == []


def test_a_pilot_leaves_most_of_the_line_to_others(shared: Shared) -> None:
    for _ in range(20):
        put(shared, time="1m")
    pilot = pilot_of(shared, Daemon())
    pilot.turn()
    pilot.turn()
    assert (len(shared.claimed("1")), len(shared.waiting())) == (8, 12)


def test_a_pilot_is_not_idle_with_a_job_that_it_has_just_claimed(shared: Shared) -> None:
    """A turn may take longer than a pilot may be idle."""
    pilot = Pilot(shared, "1", "g1", Daemon(), None, 0.0, lambda: {"1"})
    assert pilot.is_idle
    put(shared, time="1m")
    pilot.turn()
    assert not pilot.is_idle
    shared.forget(shared.claimed("1")[0], "1")
    assert pilot.is_idle


def test_only_pilots_that_have_ended_are_taken_over(shared: Shared) -> None:
    ticket = put(shared, time="1m")
    shared.claim(ticket, "2")
    living = {"1", "2"}
    Pilot(shared, "1", "g1", Daemon(), None, None, lambda: living).turn()
    assert shared.claimed("2") == [ticket]

    def silent() -> set[str]:
        raise Refused("squeue has not answered")

    Pilot(shared, "1", "g1", Daemon(), None, None, silent).turn()
    assert shared.claimed("2") == [ticket]
    Pilot(shared, "1", "g1", Daemon(), None, None, lambda: {"1"}).turn()
    assert (shared.claimed("1"), shared.claimed("2")) == ([ticket], [])


# ------------------------------------------------------------------ its Slurm job


def test_the_words_of_sbatch(shared: Shared) -> None:
    words = words_of(shared, 2, 3601.0, "gpu", ("--account=vision",))
    assert words == [
        *("--parsable", "--job-name=radrm-pilot", "--nodes=1", "--ntasks=1", "--no-requeue"),
        *("--time=61", "--gres=gpu:2", "--partition=gpu", f"--output={shared.logs}/%j.out"),
        "--account=vision",
    ]
    assert not [word for word in words_of(shared, None, 60.0) if "gres" in word]
    with pytest.raises(UsageError, match="no option of sbatch"):
        words_of(shared, 1, 60.0, None, ("job.sh",))
    assert script_of(["--idle", "a b"]).endswith("pilot --here --idle 'a b'\n")

"""What commands print and return: the contract, and one clear line for whatever goes wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from radrm.client.connection import every_job
from radrm.host.sockets import connect
from radrm.host.storage.tickets import new_ticket
from tests.daemon.harness import DaemonHome
from tests.waiting import wait_until

pytestmark = pytest.mark.daemon

STATUS_FIELDS = [
    "id",
    "ticket",
    "name",
    "user",
    "state",
    "outcome",
    "queue",
    "position",
    "devices",
    "collocation",
    "attempts",
    "exit_code",
    "reason",
    "submitted_at",
    "started_at",
    "ended_at",
    "waited_s",
    "ran_s",
    "gpus",
    "estimate_mib",
    "estimate_source",
    "reserved_mib",
    "peak_mib",
    "energy_j",
    "oom_count",
]
GPU_FIELDS = [
    "uuid",
    "index",
    "name",
    "kind",
    "node",
    "total_mib",
    "used_mib",
    "free_mib",
    "reserved_mib",
    "unmanaged_mib",
    "smact",
    "smact_source",
    "power_w",
    "jobs",
    "state",
]


def one_line(done: subprocess.CompletedProcess[str], code: int, *words: str) -> None:
    """The command failed with this code and one line that holds these words."""
    assert done.returncode == code, done
    assert done.stderr.startswith("radrm: ") and done.stderr.count("\n") == 1, done.stderr
    assert "Traceback" not in done.stderr
    for word in words:
        assert word in done.stderr, done.stderr


def test_json_has_what_the_contract_names(guest: DaemonHome) -> None:
    done = guest.radrm("submit", "--json", "--gpu-memory=2G", "--name=a", "--", "sleep", "1000")
    (submitted,) = json.loads(done.stdout)
    assert set(submitted) == {"ticket", "id", "name", "file", "error"}
    guest.wait_state(submitted["ticket"], "RUNNING")
    (job,) = guest.json("status")
    assert set(STATUS_FIELDS) <= set(job)
    assert (job["id"], job["ticket"]) == (submitted["id"], submitted["ticket"])
    assert (job["gpus"], job["oom_count"], job["estimate_mib"]) == (1, 0, 2048)
    gpus = guest.json("gpus")
    assert all(set(GPU_FIELDS) <= set(gpu) for gpu in gpus)
    assert [g["jobs"] for g in gpus if g["uuid"] in job["devices"]] == [[job["id"]]]
    assert sum(len(g["jobs"]) for g in gpus) == 1
    assert guest.json("status", submitted["ticket"])[0]["id"] == job["id"]


def test_status_shows_what_is_asked_for(guest: DaemonHome) -> None:
    done = guest.submit("--name=done", "--", "true")
    guest.wait_end(done)
    guest.wait_state(guest.submit("--name=busy", "--", "sleep", "1000"), "RUNNING")
    held_up = guest.submit("--name=large", "--gpus=2", "--collocation=exclusive", "--", "true")
    assert [j["name"] for j in guest.json("status")] == ["busy", "large"]
    assert [j["name"] for j in guest.json("status", "--all")[-3:]] == ["done", "busy", "large"]
    assert [j["name"] for j in guest.json("status", "--state", "pending")] == ["large"]
    assert guest.json("status", "--user", "nobody-of-that-name") == []
    wait_until(lambda: "1 can take it now" in guest.job(held_up)["reason"], "a reading")
    (waiting,) = guest.json("status", str(held_up))
    assert waiting["position"] == 1
    page = guest.radrm("status").stdout
    assert "busy" in page and "Needs 2 GPUs" in page
    assert "PENDING" in guest.radrm("status", str(held_up)).stdout
    one_line(guest.radrm("status", "--state", "asleep"), 2, "asleep", "RUNNING")


def test_what_an_earlier_job_left_in_a_log_is_not_shown_as_the_output(guest: DaemonHome) -> None:
    for command in (["submit", "--wait"], ["run"]):
        (guest.work / "log.txt").write_text("earlier\n")
        done = guest.radrm(*command, "--gpus=0", "--output=log.txt", "--", "echo", "mine")
        assert done.stdout.splitlines()[-1] == "mine" and "earlier" not in done.stdout
        assert (guest.work / "log.txt").read_text() == "earlier\nmine\n"


def test_wait_gives_the_highest_code(guest: DaemonHome) -> None:
    codes = [0, 3, 7]
    jobs = [guest.submit("--", sys.executable, "-c", f"raise SystemExit({c})") for c in codes]
    assert guest.radrm("wait", *map(str, jobs)).returncode == 7
    assert guest.radrm("wait", str(jobs[0])).returncode == 0
    done = guest.radrm("submit", "--wait", "--", "sh", "-c", "kill -9 $$")
    assert done.returncode == 137


def test_a_thousand_files_are_one_call(guest: DaemonHome) -> None:
    names = [f"j{i:03}.rad" for i in range(200)]
    for name in names:
        guest.file(name, "#!/bin/sh\n#RAD --collocation=exclusive --gpus=2\nsleep 1000\n")
    done = guest.radrm("submit", "--json", *names)
    results = json.loads(done.stdout)
    assert [Path(r["file"]).name for r in results] == names
    ids = [r["id"] for r in results]
    assert ids == list(range(ids[0], ids[0] + 200)), "in the order they were given"
    page = guest.radrm("status").stdout
    assert "more" in page and page.count("\n") < 60
    tickets = guest.radrm("submit", "--parsable", *names[:3]).stdout.split()
    assert [len(t) for t in tickets] == [26] * 3


BAD_FILES = {
    "empty": (b"", "empty"),
    "program": (b"\x7fELF\0\0\1", "a program"),
    "binary": (b"#!/bin/sh\n\0\0\1", "NUL"),
    "huge": (b"#!/bin/sh\n" + b"x" * 10 * 1024 * 1024, "larger than"),
    "latin": ("#!/bin/sh\necho \xe9\n".encode("latin-1"), "UTF-8"),
    "unknown option": (b"#!/bin/sh\n#RAD --gpsu=1\ntrue\n", "--gpus"),
    "impossible": (b"#!/bin/sh\n#RAD --gpu-memory=999G\ntrue\n", "largest here"),
    "too many": (b"#!/bin/sh\n#RAD --gpus=3\ntrue\n", "at most 2"),
    "no target": (b"#!/bin/sh\n#RAD --notify=me\ntrue\n", "not a mail address"),
    "too large at the start": (b"#!/bin/sh\n#RAD --gpus=3-4\nradrun x.py\n", "--gpus=3-4 (line 2)"),
    "no launcher": (b"#!/bin/sh\n#RAD --gpus=1-2\npython x.py\n", "line 2: --gpus=1-2 is a range"),
}


@pytest.mark.parametrize("kind", BAD_FILES)
def test_a_bad_file_is_one_clear_line_and_queues_nothing(
    shared_daemon: DaemonHome, kind: str
) -> None:
    content, words = BAD_FILES[kind]
    before = len(every_job(shared_daemon.ask, all=True))
    (shared_daemon.work / "bad.rad").write_bytes(content)
    code = 2 if kind in ("unknown option", "no target", "no launcher") else 1
    one_line(shared_daemon.radrm("submit", "bad.rad"), code, "bad.rad", words)
    assert len(every_job(shared_daemon.ask, all=True)) == before


def test_good_files_beside_a_bad_one_are_submitted(guest: DaemonHome) -> None:
    guest.file("good.rad", "#!/bin/sh\ntrue\n")
    done = guest.radrm("submit", "--json", "missing.rad", "good.rad")
    assert done.returncode == 1
    missing, good = json.loads(done.stdout)
    assert "missing.rad" in missing["error"] and missing["ticket"] is None
    assert good["error"] is None and guest.wait_end(good["id"])["state"] == "COMPLETED"


@pytest.mark.parametrize(
    "words, code, said",
    [
        (["cancel", "9999"], 1, "no job 9999"),
        (["logs", "9999"], 1, "no job 9999"),
        (["wait", "nonsense"], 1, "no job nonsense"),
        (["daemon", "--set", "policy=nice", "--gpus", "sim:1xA100-40GB"], 2, "nice"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    shared_daemon: DaemonHome, words: list[str], code: int, said: str
) -> None:
    one_line(shared_daemon.radrm(*words), code, said)


def test_without_a_daemon(home: DaemonHome) -> None:
    for words in (["status"], ["gpus"], ["cancel", "1"], ["wait", "1"], ["logs", "1"]):
        one_line(home.radrm(*words), 3, "radrm daemon")


def test_a_daemon_without_gpus_says_so(home: DaemonHome) -> None:
    done = home.radrm("daemon")
    one_line(done, 1, "no NVIDIA GPU", "--gpus sim:4xA100-40GB")
    one_line(home.radrm("daemon", "--time-scale", "10"), 2, "--time-scale")


def test_a_log_is_followed_to_its_end(guest: DaemonHome) -> None:
    guest.file(
        "count.rad", "#!/bin/bash\necho one\nuntil [ -e go ]; do sleep 0.05; done\necho two\n"
    )
    job = guest.submit("count.rad")
    follower = subprocess.Popen(
        [sys.executable, "-m", "radrm.cli.main", "logs", "-f", str(job)],
        env=guest.environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert follower.stdout.readline() == "one\n"
    (guest.work / "go").touch()
    assert follower.stdout.read() == "two\n"
    assert follower.wait() == 0


@pytest.mark.parametrize(
    "data",
    [
        b"\n",
        b"not json\n",
        b"[1, 2]\n",
        b'{"op": 5}\n',
        b'{"op": "explode"}\n',
        b'{"op": "status", "jobs": 7}\n',
        b'{"op": "check", "needs": [{"gpus": "many"}]}\n',
        b'{"op": "cancel", "jobs": [1, null]}\n',
        b'{"op": "logs", "jobs": ["1", "2"]}\n',
        b"[" * 200_000 + b"\n",
    ],
)
def test_a_hostile_client_is_answered_and_harms_nobody(
    shared_daemon: DaemonHome, data: bytes
) -> None:
    hostile = connect(shared_daemon.folder / "home" / "run" / "radrm.sock", 30.0)
    hostile.sendall(data)
    with hostile.makefile("rb") as lines:
        answer = json.loads(lines.readline())
    hostile.close()
    assert answer["ok"] is False and answer["error"]
    shared_daemon.ask("ping")


def test_clients_that_say_nothing_do_not_keep_others_out(guest: DaemonHome) -> None:
    socket = guest.folder / "home" / "run" / "radrm.sock"
    assert os.stat(socket).st_mode & 0o777 == 0o600, "a private daemon is for its user alone"
    silent = [connect(socket, 30.0) for _ in range(50)]
    assert guest.json("status") == []
    for client in silent:
        client.close()


def test_what_lies_in_the_spool_and_is_no_envelope_is_told_and_left(home: DaemonHome) -> None:
    spool = home.folder / "home" / "spool"
    spool.mkdir(parents=True, mode=0o700)
    for number in range(3):
        (spool / f"{new_ticket()}.job").symlink_to(f"/nowhere/{number}")
    home.start()
    wait_until(lambda: "3 name(s) in the spool" in home.said(), "the daemon to tell")
    assert home.json("status", "--all") == []
    assert len(os.listdir(spool)) == 3


def test_a_reader_that_has_had_enough_ends_it_quietly(guest: DaemonHome) -> None:
    guest.submit("--", "sleep", "1000")
    read_end, write_end = os.pipe()
    os.close(read_end)
    done = subprocess.run(
        [sys.executable, "-m", "radrm.cli.main", "status", "--json"],
        env=guest.environment,
        stdout=write_end,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(write_end)
    assert done.stderr == ""

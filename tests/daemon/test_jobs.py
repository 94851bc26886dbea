"""Jobs through a real daemon, as their users see them."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from radrm.client.connection import every_job
from tests.daemon.harness import DaemonHome
from tests.waiting import wait_text, wait_until

pytestmark = pytest.mark.daemon


def simjob(memory: str, smact: float, seconds: float, *more: str) -> list[str]:
    words = ["radrm-simjob", "--gpu-memory", memory, "--smact", str(smact)]
    return ["--", *words, "--seconds", str(seconds), *more]


def test_a_job_waits_for_a_home_that_is_not_mounted(home: DaemonHome) -> None:
    users, away = home.work / "ada", home.work / "away"
    users.mkdir()
    home.start()
    job = home.submit("--hold", "--chdir", str(users), f"--env=HOME={users}", "--", "touch", "ran")
    users.rename(away)
    home.radrm("release", str(job))
    wait_until(
        lambda: (
            (found := home.job(job))["state"] == "PENDING"
            and "is mounted" in (found["reason"] or "")
        )
    )
    away.rename(users)
    home.radrm("release", str(job))
    assert home.wait_end(job)["state"] == "COMPLETED"
    assert (users / "ran").exists()


def test_a_job_runs_and_leaves_its_output(guest: DaemonHome) -> None:
    job = guest.submit("--", sys.executable, "-c", "print('hello'); import sys; sys.exit(7)")
    done = guest.wait_end(job)
    assert (done["state"], done["outcome"], done["exit_code"]) == ("FAILED", "failed", 7)
    assert guest.output(job) == "hello\n"
    assert guest.radrm("logs", str(job)).stdout == "hello\n"


def test_a_job_file_runs_by_its_first_line_where_it_was_submitted(guest: DaemonHome) -> None:
    guest.file(
        "where.rad",
        f"#!{sys.executable}\n#RAD --name=where\nimport os, sys\n"
        "print(os.getcwd(), os.environ['RADRM_JOB_NAME'], os.environ['MINE'], sys.argv[1:])\n",
    )
    guest.environment["MINE"] = "as submitted"
    job = guest.submit("where.rad")
    guest.wait_state(job, "COMPLETED")
    assert guest.output(job) == f"{guest.work} where as submitted []\n"


def test_arguments_of_a_bare_command_are_untouched(guest: DaemonHome) -> None:
    words = ["a b", "$HOME", "`x`", "*", "", "ü", "--gpus=9"]
    code = "import sys, json; print(json.dumps(sys.argv[1:]))"
    job = guest.submit("--", sys.executable, "-c", code, *words)
    guest.wait_state(job, "COMPLETED")
    assert json.loads(guest.output(job)) == words


def test_what_a_job_is_told(guest: DaemonHome) -> None:
    code = "import os, json; print(json.dumps(dict(os.environ)))"
    words = ["--gpus=2", "--gpu-memory=4G", "--name=told", "--env=A=b"]
    guest.environment["CUDA_VISIBLE_DEVICES"] = "7"
    job = guest.submit(*words, "--", sys.executable, "-c", code)
    guest.wait_state(job, "COMPLETED")
    told = json.loads(guest.output(job))
    uuids = [g["uuid"] for g in guest.ask("gpus")]
    assert sorted(told["CUDA_VISIBLE_DEVICES"].split(",")) == sorted(uuids)
    assert told["NVIDIA_VISIBLE_DEVICES"] == told["CUDA_VISIBLE_DEVICES"]
    assert told["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    assert told["RADRM_JOB_ID"] == str(job)
    assert (told["RADRM_JOB_NAME"], told["RADRM_ATTEMPT"]) == ("told", "1")
    assert told["RADRM_GPU_MEMORY_MIB"] == "4096"
    assert told["TF_FORCE_GPU_ALLOW_GROWTH"] == "true"
    assert told["XLA_PYTHON_CLIENT_PREALLOCATE"] == "false"
    assert 1024 < int(told["MASTER_PORT"]) < 65536
    assert told["A"] == "b"


@pytest.mark.parametrize(
    ("own", "takes"),
    [
        ({}, None),
        ({"XLA_PYTHON_CLIENT_PREALLOCATE": "true"}, "what is reserved"),
        ({"XLA_PYTHON_CLIENT_PREALLOCATE": "1", "XLA_CLIENT_MEM_FRACTION": ".3"}, None),
    ],
)
def test_jax_that_takes_memory_at_its_start_takes_what_is_reserved(
    guest: DaemonHome, own: dict[str, str], takes: str | None
) -> None:
    code = "import os; print(os.environ.get('XLA_PYTHON_CLIENT_MEM_FRACTION'))"
    words = [f"--env={name}={value}" for name, value in own.items()]
    job = guest.submit("--gpu-memory=4G", *words, "--", sys.executable, "-c", code)
    guest.wait_state(job, "COMPLETED")
    told = guest.output(job).strip()
    if takes is None:
        assert told == "None"
        return
    total = guest.ask("gpus")[0]["total_mib"]
    assert 3 * 1024 < float(told) * total < 5 * 1024


def test_device_indices_for_those_who_cannot_read_uuids(guest: DaemonHome) -> None:
    code = "import os; print([int(gpu) for gpu in os.environ['CUDA_VISIBLE_DEVICES'].split(',')])"
    failed = guest.submit("--", sys.executable, "-c", code)
    assert guest.wait_state(failed, "FAILED")["reason"].endswith("--device-ids=index")
    job = guest.submit("--device-ids=index", "--gpus=2", "--", sys.executable, "-c", code)
    guest.wait_state(job, "COMPLETED")
    assert guest.output(job) == "[0, 1]\n"


def test_two_jobs_share_a_gpu_and_their_peaks_are_recorded(home: DaemonHome) -> None:
    home.gpus = "sim:1xA100-40GB"
    home.start()
    first = home.submit("--gpu-memory=8G", "--smact=0.2", *simjob("8G", 0.2, 99_999))
    second = home.submit("--gpu-memory=6G", "--smact=0.2", *simjob("5G", 0.2, 99_999))
    both = wait_until(
        lambda: [g for g in home.ask("gpus") if g["jobs"] == [first, second]], "sharing"
    )
    # The margin of the first one shrinks once it has shown what it uses.
    assert 15 * 1024 <= both[0]["reserved_mib"] <= 14 * 1024 * 1.15 + 2
    peaks = [8 * 1024, 5 * 1024]
    wait_until(lambda: [home.job(n)["peak_mib"] for n in (first, second)] == peaks, "their peaks")
    home.radrm("cancel", str(first), str(second))
    ends = [home.wait_end(job) for job in (first, second)]
    assert [d["peak_mib"] for d in ends] == peaks
    assert all(d["energy_j"] > 0 for d in ends)


def test_out_of_memory_is_recovered_on_an_idle_device(home: DaemonHome) -> None:
    home.gpus = "sim:1xA100-40GB"
    home.start()
    large = home.submit("--gpu-memory=30G", "--smact=0.2", *simjob("30G", 0.2, 99_999))
    wait_until(lambda: home.job(large)["peak_mib"], "its memory")
    liar = home.submit("--gpu-memory=4G", "--smact=0.2", *simjob("20G", 0.2, 100))
    assert home.wait_state(liar, "RECOVERING")["queue"] == "recovery"
    assert home.job(large)["state"] == "RUNNING"
    home.radrm("cancel", str(large))
    done = home.wait_end(liar)
    assert (done["state"], done["attempts"], done["oom_count"]) == ("COMPLETED", 2, 1)
    assert done["collocation"] == "timeslice", "others could join it later"
    assert "torch.OutOfMemoryError" in home.output(liar)
    assert "CUDA out of memory" not in (home.work / f"radrm-{liar}.attempt2.out").read_text()


def test_a_memory_cap_makes_a_wrong_estimate_hurt_its_own_job_only(home: DaemonHome) -> None:
    home.gpus, home.settings = "sim:1xA100-40GB", ["mps.enabled=true"]
    home.start()
    job = home.submit("--gpu-memory=4G:4G", *simjob("8G", 0.2, 100))
    done = home.wait_end(job)
    assert (done["state"], done["oom_count"]) == ("COMPLETED", 1)


def test_cancel_ends_the_whole_tree(guest: DaemonHome) -> None:
    guest.file(
        "tree.rad",
        "#!/bin/bash\nsleep 1000 & echo $! > child\nsetsid sleep 1000 & echo $! > stray\nwait\n",
    )
    job = guest.submit("tree.rad")
    pids = [int(wait_text(guest.work / name)) for name in ("child", "stray")]
    done = guest.radrm("cancel", str(job))
    assert done.returncode == 0, done.stderr
    ended = guest.wait_end(job)
    assert (ended["state"], ended["outcome"]) == ("CANCELLED", "cancelled")
    for pid in pids:
        wait_until(lambda p=pid: not Path(f"/proc/{p}").exists(), f"the end of {pid}")


def test_a_time_limit_ends_a_job(guest: DaemonHome) -> None:
    job = guest.submit("--time=100", "--", "sleep", "1000")
    done = guest.wait_end(job)
    assert (done["state"], done["outcome"]) == ("TIMEOUT", "timeout")
    assert guest.radrm("wait", str(job)).returncode == 124


def test_one_that_ignores_term_is_killed(home: DaemonHome) -> None:
    home.settings = ["core.grace_s=20"]
    home.start()
    ignore = "import signal, time; signal.signal(15, signal.SIG_IGN)"
    code = f"{ignore}; print('up', flush=True); time.sleep(999)"
    job = home.submit("--", sys.executable, "-c", code)
    wait_until(lambda: (home.work / f"radrm-{job}.out").exists() and home.output(job))
    home.radrm("cancel", str(job))
    assert home.wait_end(job)["exit_code"] == 137


@pytest.mark.parametrize(
    "text, words, code",
    [
        ("#!/no/such/interpreter\necho hi\n", "interpreter /no/such/interpreter", 127),
        ("#!/bin/sh\n#RAD --output=/no/such/folder/log\necho hi\n", "/no/such/folder", None),
        ("#!/bin/sh\n#RAD --chdir=/no/such/folder\necho hi\n", "/no/such/folder", None),
        ("#!/bin/sh\n#RAD --error=/dev/full/x\necho hi\n", "/dev/full", None),
    ],
)
def test_what_cannot_start_says_why(
    guest: DaemonHome, text: str, words: str, code: int | None
) -> None:
    guest.file("bad.rad", text)
    job = guest.submit("--hold", "bad.rad")  # one that starts later may find all that it needs
    guest.radrm("release", str(job))
    done = guest.wait_end(job)
    assert (done["state"], done["started_at"], done["exit_code"]) == ("FAILED", None, code)
    assert words in done["reason"] and "\n" not in done["reason"]
    assert guest.radrm("wait", str(done["id"])).returncode == (code or 125)


def test_a_missing_program_has_the_code_of_shells(guest: DaemonHome) -> None:
    for words in (["submit", "--wait"], ["run"], ["submit"], ["submit", "--dry-run"]):
        done = guest.radrm(*words, "--", "no-such-program")
        assert done.returncode == 127, done.stderr
        assert "cannot run no-such-program" in done.stderr
    assert "no-such-program" not in {job["name"] for job in every_job(guest.ask, all=True)}
    later = guest.radrm("submit", "--wait", "--begin=+1s", "--", "no-such-program")
    assert later.returncode == 127, later.stderr


def test_a_job_that_never_was_and_notices_that_cannot_be_sent(guest: DaemonHome) -> None:
    for words in ([], ["--dry-run"]):
        done = guest.radrm("submit", *words, "--after=99999", "--", "true")
        assert done.returncode == 1 and "--after=99999: there is no job 99999" in done.stderr
    failed = guest.submit("--", "false")
    guest.wait_end(failed)
    done = guest.radrm("submit", "--dry-run", f"--after={failed}", "--", "true")
    assert done.returncode == 0 and "had to complete and is FAILED" in done.stdout
    guest.submit(f"--after={failed}:any", f"--after={failed}:failed", "--", "true")
    done = guest.radrm("submit", "--notify=mail", "--hold", "--", "true")
    if not os.access("/usr/sbin/sendmail", os.X_OK):
        assert done.returncode == 0 and "this server cannot send mail" in done.stderr


def test_retries_and_a_log_for_each_attempt(guest: DaemonHome) -> None:
    code = "import os, sys; print(os.environ['RADRM_ATTEMPT']); sys.exit(3)"
    job = guest.submit("--retries=1", "--", sys.executable, "-c", code)
    done = guest.wait_end(job)
    assert (done["state"], done["attempts"]) == ("FAILED", 2)
    assert guest.radrm("logs", str(job), "--attempt", "1").stdout == "1\n"
    assert guest.radrm("logs", str(job)).stdout == "2\n"


def test_an_old_log_of_the_same_name_does_not_count(guest: DaemonHome) -> None:
    (guest.work / "mine.log").write_text("torch.OutOfMemoryError: CUDA out of memory.\n")
    job = guest.submit("--output=mine.log", "--", "false")
    done = guest.wait_end(job)
    assert (done["outcome"], done["oom_count"]) == ("failed", 0)


def test_exclusive_policy_and_priorities(home: DaemonHome) -> None:
    home.gpus, home.settings = "sim:1xA100-40GB", ["policy=exclusive"]
    home.start()
    first = home.submit(*simjob("1G", 0.1, 99_999))
    low = home.submit("--", "true")
    high = home.submit("--priority=5", "--", "true")
    assert home.radrm("cancel", str(first)).returncode == 0
    ends = [home.wait_end(job) for job in (first, low, high)]
    assert ends[2]["started_at"] < ends[1]["started_at"]
    assert ends[0]["collocation"] == "exclusive"


def test_what_a_user_has_and_needs_next(home: DaemonHome) -> None:
    home.settings = ["policy=exclusive"]
    home.start()
    for name, code in (("again", 3), ("again", 0), ("bad", 4)):
        home.wait_end(home.submit(f"--name={name}", "--gpus=0", "--", "sh", "-c", f"exit {code}"))
    running = [home.submit("--gpus=1", *simjob("4G", 0.5, 99_999)) for _ in range(2)]
    waiting = [home.submit("--name=large", *simjob("4G", 0.5, 99_999)) for _ in range(2)]
    for job in running:
        home.wait_state(job, "RUNNING")
    own = home.ask("page", own=True, limit=1)["own"]
    assert own["ended"] == {"FAILED": 2, "COMPLETED": 1} and own["queued"] == 2 and own["hints"]
    found = [own[kind]["id"] for kind in ("failed", "waiting", "running")]
    assert found == [3, waiting[0], running[0]] and own["waiting"]["position"] == 1
    home.ask("cancel", jobs=[*map(str, running + waiting)])
    assert "radrm logs 3" in on_terminal(home, "status")
    day = on_terminal(home).splitlines()
    assert len(day) <= 10 and "1 completed" in day[0]
    home.stop()
    assert "radrm doctor" in on_terminal(home)


def on_terminal(home: DaemonHome, *words: str) -> str:
    """What `radrm` prints on a terminal."""
    ours, theirs = os.openpty()
    command, streams = [sys.executable, "-m", "radrm", *words], (theirs, theirs, theirs)
    with subprocess.Popen(command, -1, None, *streams, env=home.environment, cwd=home.work):
        os.close(theirs)
        said = b""
        with suppress(OSError):  # the end of a terminal that nobody writes to any more
            while part := os.read(ours, 4096):
                said += part
    os.close(ours)
    return said.decode()


def test_mig_instances_are_devices_of_their_own(home: DaemonHome) -> None:
    home.gpus = "sim:1xA100-40GB:3g.20gb+2g.10gb+2g.10gb"
    home.start()
    kinds = [(g["kind"], g["profile"]) for g in home.json("gpus")]
    assert kinds == [("mig", "3g.20gb"), ("mig", "2g.10gb"), ("mig", "2g.10gb")]
    job = home.submit("--mig-profile=2g.10gb", *simjob("8G", 0.5, 50))
    done = home.wait_end(job)
    assert (done["state"], done["collocation"]) == ("COMPLETED", "mig")
    refused = home.radrm("submit", "--gpu-memory=30G", "--", "true")
    assert refused.returncode == 1 and "largest here" in refused.stderr


def test_unmanaged_memory_is_counted(home: DaemonHome) -> None:
    home.gpus = "sim:2xA100-40GB,unmanaged@0=30000"
    home.start()
    gpus = home.ask("gpus")
    wait_until(lambda: home.ask("gpus")[0]["unmanaged_mib"] == 30000, "the first reading")
    assert [gpu["state"] for gpu in home.ask("gpus")] == ["others", "idle"]
    assert "in use by others" in home.radrm("gpus").stdout
    job = home.submit("--gpu-memory=20G", *simjob("20G", 0.2, 50))
    assert home.wait_end(job)["devices"] == [gpus[1]["uuid"]]


def test_prototype_files_run_unchanged(guest: DaemonHome) -> None:
    # `conda` and the training script are stand-ins; the login shell would reset the PATH.
    profile = guest.folder / "profile"
    profile.mkdir()
    (profile / ".bash_profile").write_text(
        f"export PATH={os.environ['PATH']}:{Path(sys.executable).parent}\n"
        "conda() { echo activated $2; }\n"
    )
    guest.environment["HOME"] = str(profile)
    guest.file(
        "proto.rad",
        "# assumption is that model.txt file is in this directory\nconda activate tf\n"
        "radrm-simjob --gpu-memory 5262 --smact 0.3 --seconds 20\nresnet50_32.model\n"
        "/raid/datasets/imagenet\n32\nexclusive\n1\n5262\n7903.9316\n2672.516029\n16000",
    )
    done = guest.wait_end(guest.submit("proto.rad"))
    assert (done["state"], done["name"], done["estimate_mib"]) == ("COMPLETED", "proto", 5262)
    assert "activated tf" in guest.output(done["id"])


def test_names_of_gpus_that_are_not_here_are_shown_and_refuse_nothing(daemon: DaemonHome) -> None:
    wish = ["--prefer-gpus=h200,a100", "--avoid-gpus=9"]
    done = daemon.radrm("submit", *wish, "--hold", "--name=wishes", "--", "true")
    assert done.returncode == 0
    assert done.stderr.startswith("radrm: note: wishes: ") and "h200, 9" in done.stderr
    assert "not here    h200, 9" in daemon.radrm("status", "wishes").stdout
    daemon.radrm("release", "wishes")
    assert daemon.wait_end("wishes")["state"] == "COMPLETED"
    assert not daemon.radrm("submit", "--prefer-gpus=a100", "--", "true").stderr
    daemon.stop()
    daemon.settings = ['gpus.order=["h200", 0]', "gpus.only=[0, 9]"]
    daemon.start()
    (line,) = [x for x in daemon.radrm("doctor").stdout.splitlines() if "(gpus.order)" in x]
    assert "'h200'" in line and "'9' (gpus.only)" in line


def test_a_job_has_the_limits_of_where_it_was_submitted(guest: DaemonHome) -> None:
    """As under Slurm, but for those that a shell has by default, which are never lowered."""
    files = str(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    inner = "radrm submit --gpus=0 --name=inner -- sh -c 'ulimit -f; ulimit -n; umask'"
    guest.wait_end(
        guest.submit(
            "--gpus=0", "--", "sh", "-c", f"umask 027; ulimit -Sf 99999; ulimit -Sn 123; {inner}"
        )
    )
    guest.wait_end("inner")
    assert guest.output(guest.job("inner")["id"]).split() == ["99999", files, "0027"]


def test_a_job_that_begins_anew_finds_no_checkpoint(guest: DaemonHome) -> None:
    code = "cd $RADRM_CHECKPOINT_DIR && ls && touch model.pt; exit 3"
    job = guest.submit("--checkpoint=signal", "--", "sh", "-c", code)
    guest.wait_state(job, "FAILED")
    for words, found in (((), "model.pt\n"), (("--from-start",), ""), ((), "model.pt\n")):
        guest.radrm("requeue", str(job), *words)
        guest.wait_state(job, "FAILED")
        assert guest.radrm("logs", str(job)).stdout == found

"""What a killed daemon or runner leaves, one case at a time (`proofs/crash`: all)."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import sys
from pathlib import Path

import pytest

from radrm.errors import Unreachable
from tests.daemon.harness import DaemonHome, simjob
from tests.host.processes.programs import TRAINER
from tests.waiting import wait_text, wait_until

pytestmark = pytest.mark.daemon


def test_jobs_run_on_without_their_daemon_and_keep_their_exits(daemon: DaemonHome) -> None:
    jobs = {}
    for code in (13, 14):
        loop = f"until [ -e go{code} ]; do sleep 0.05; done"
        daemon.file(f"wait{code}.rad", f"#!/bin/bash\n{loop}\nexit {code}\n")
        jobs[code] = daemon.submit("--gpus=0", f"wait{code}.rad")
        daemon.wait_state(jobs[code], "RUNNING")
    second = daemon.radrm("daemon", "--gpus", "sim:2xA100-40GB")
    assert second.returncode == 1 and second.stderr.count("\n") == 1
    assert "another radrm daemon already serves" in second.stderr
    assert daemon.stop() == 0
    with pytest.raises(Unreachable):
        daemon.ask("ping")
    daemon.start()
    daemon.kill()
    assert (daemon.folder / "home" / "run" / "radrm.sock").exists(), "which is replaced"
    assert daemon.radrm("gpus").returncode == 3
    (daemon.work / "go14").touch()
    folder = daemon.folder / "home" / "attempts"
    wait_until(lambda: list(folder.glob("*/exit.json")), "the exit record")
    daemon.start()
    assert daemon.job(jobs[13])["state"] == "RUNNING"
    (daemon.work / "go13").touch()
    for code, job in jobs.items():
        done = daemon.wait_end(job)
        assert (done["exit_code"], done["attempts"]) == (code, 1)


def test_a_job_that_ends_past_its_limit_while_no_daemon_runs_has_not_run_out_of_time(
    daemon: DaemonHome,
) -> None:
    daemon.file("wait.rad", "#!/bin/bash\nuntil [ -e go ]; do sleep 0.05; done\n")
    job = daemon.submit("--time=1-00:00:00", "wait.rad")
    follower = daemon.submit(f"--after={job}:ok", "--", "true")
    daemon.wait_state(job, "RUNNING")
    driver = daemon.driver()
    clock = driver.hello()
    driver.close()
    daemon.kill()
    store = sqlite3.connect(daemon.folder / "home" / "store" / "radrm.sqlite")
    shorter = "json_set(record, '$.spec.time_limit_s', 0.001)"
    store.execute(f"UPDATE jobs SET record = {shorter} WHERE id = ?", (job,))
    store.commit()
    store.close()
    (daemon.work / "go").touch()
    folder = daemon.folder / "home" / "attempts"
    (path,) = wait_until(lambda: list(folder.glob("*/exit.json")), "the exit record")
    exit_s = json.loads(path.read_text())["boot_s"]
    daemon.start()
    done = daemon.wait_end(job)
    assert (done["state"], done["exit_code"], done["time_limit_s"]) == ("COMPLETED", 0, 0.001)
    since_s = (exit_s - clock.anchor_boot_s) * clock.scale
    assert done["ended_at"] == pytest.approx(clock.anchor_wall_s + since_s, abs=1e-3)
    assert done["ran_s"] == pytest.approx(done["ended_at"] - done["started_at"], abs=1e-3)
    assert daemon.wait_end(follower)["state"] == "COMPLETED"


def test_a_killed_runner_makes_the_attempt_lost(daemon: DaemonHome) -> None:
    daemon.file(
        "tree.rad",
        "#!/bin/bash\n[ $RADRM_ATTEMPT = 2 ] && exit 0\necho $PPID > runner-$RADRM_JOB_ID\n"
        "setsid sleep 1000 &\necho $! > child-$RADRM_JOB_ID\nwait\n",
    )
    lost, again = daemon.submit("tree.rad"), daemon.submit("--requeue", "tree.rad")
    children = []
    for job in (lost, again):
        child = wait_text(daemon.work / f"child-{job}").strip()
        children.append(Path(f"/proc/{child}"))
        os.kill(int(read(daemon.work / f"runner-{job}")), signal.SIGKILL)
    done = daemon.wait_end(lost)
    assert (done["state"], done["outcome"], done["attempts"]) == ("FAILED", "lost", 1)
    assert daemon.radrm("wait", str(lost)).returncode == 125
    done = daemon.wait_end(again)
    assert (done["state"], done["attempts"]) == ("COMPLETED", 2)
    wait_until(lambda: not any(child.exists() for child in children), "the end of the trees")


def read(path: Path) -> str:
    return path.read_text().strip() if path.exists() else ""


def test_a_daemon_killed_in_the_middle_of_a_stop_leaves_the_trainer_its_time(
    home: DaemonHome,
) -> None:
    """The runner goes on with the order of TERM; the next daemon knows the reason."""
    home.settings.append("core.grace_s=100000")
    home.start()
    home.file("trainer.py", TRAINER)
    home.file("slow", "")
    home.file("job.rad", f"#!/bin/bash\n{sys.executable} trainer.py\necho next >>notes\n")
    job = home.submit("--gpus=0", "job.rad")
    wait_until(lambda: len(list(home.work.glob("ready-*"))) == 3)
    assert home.radrm("cancel", str(job)).returncode == 0
    notes = home.work / "notes"
    wait_text(notes)
    home.kill()
    home.start()
    assert home.job(job)["state"] == "STOPPING"
    home.file("saved", "")
    done = home.wait_end(job)
    assert (done["state"], done["outcome"], done["attempts"]) == ("CANCELLED", "cancelled", 1)
    found = notes.read_text().split("\n")
    assert found[:2] == ["save with 2", "saved"] and "next" not in found
    assert found.count("save with 2") == 1, "the next daemon has sent TERM again"


def test_a_clean_end_keeps_the_figures(home: DaemonHome) -> None:
    """Usage is volatile: it waits in memory for the next decision, and there is none."""
    home.scale = 1.0
    home.start()
    job = home.submit("--gpu-memory=3G", "--", *simjob(3, 0.1, 1000))
    peak = wait_until(lambda: home.job(job)["peak_mib"])
    assert home.stop() == 0
    with sqlite3.connect(home.folder / "home" / "store" / "radrm.sqlite") as store:
        ((usage,),) = store.execute("SELECT json_extract(record, '$.usage') FROM attempts")
    assert json.loads(usage)[0]["peak_mib"] >= peak


def test_submit_works_before_there_was_ever_a_daemon(home: DaemonHome) -> None:
    done = home.radrm("submit", "--json", "--", "echo", "early")
    assert done.returncode == 0, done.stderr
    refused = home.radrm("submit", "--gpu-memory=999G", "--", "true")
    assert refused.returncode == 0, "nobody can tell yet"
    home.start()
    wait_until(lambda: len(home.ask("status", all=True)) == 2 and not home.ask("status"))
    first, second = home.ask("status", all=True)
    assert (first["state"], second["state"]) == ("COMPLETED", "FAILED")
    assert "largest here" in second["reason"]


def test_a_home_however_deep(tmp_path: Path) -> None:
    deep = tmp_path.joinpath(*["a-folder-with-quite-a-long-name"] * 6)
    place = DaemonHome(deep)
    try:
        place.start()
        job = place.submit("--", "radrm-simjob", "--gpu-memory", "1G", "--seconds", "5")
        assert place.wait_end(job)["state"] == "COMPLETED"
    finally:
        place.close()


def test_a_failed_gpu_harms_nobody_else(daemon: DaemonHome) -> None:
    first, second = daemon.ask("gpus")
    with_driver = daemon.driver()
    with_driver.ask("fail", uuid=first["uuid"], message="GPU is lost")
    wait_until(lambda: daemon.ask("gpus")[0]["state"] == "unreadable")
    job = daemon.submit("--", "true")
    assert daemon.wait_end(job)["devices"] == [second["uuid"]]
    pair = daemon.submit("--gpus=2", "--", "true")
    assert "GPU is lost" in daemon.job(pair)["reason"]
    with_driver.ask("heal", uuid=first["uuid"])
    with_driver.close()
    assert daemon.wait_end(pair)["state"] == "COMPLETED"


def test_while_the_store_cannot_be_written_nothing_is_lost(daemon: DaemonHome) -> None:
    blocker = sqlite3.connect(
        daemon.folder / "home" / "store" / "radrm.sqlite", isolation_level=None
    )
    blocker.execute("BEGIN IMMEDIATE")
    done = daemon.radrm("submit", "--json", "--", "echo", "kept")
    (submitted,) = json.loads(done.stdout)
    assert submitted["ticket"] and submitted["id"] is None, "acknowledged, and not taken in yet"
    wait_until(lambda: "cannot write the store" in daemon.said(), "the daemon to say so")
    assert [g["used_mib"] for g in daemon.ask("gpus")] == [0, 0], "questions are answered"
    assert os.listdir(daemon.folder / "home" / "attempts") == [], "nothing is done meanwhile"
    blocker.execute("ROLLBACK")
    blocker.close()
    job = daemon.wait_end(wait_until(lambda: daemon.ask("status", all=True))[0]["id"])
    assert (job["state"], job["ticket"]) == ("COMPLETED", submitted["ticket"])
    assert daemon.said().count("cannot write the store") == 1, "once, not at every try"


def test_of_what_a_killed_daemon_left_only_radrms_own_is_removed(home: DaemonHome) -> None:
    home.start()
    first = home.submit("--gpus=0", "--", "true")
    home.wait_end(first)
    home.kill()
    state = home.folder / "home"
    (state / "attempts" / "1").mkdir(exist_ok=True)
    (state / "checkpoints" / str(first)).mkdir()  # killed between storing its end and this
    (state / "checkpoints" / "notes").mkdir()
    (state / "attempts" / "999" / "thesis").mkdir(parents=True)
    # A power failure came before its launch was on disk; the folder was there by chance.
    (state / "attempts" / "998").mkdir()
    (state / "attempts" / "998" / "launch.json").touch()
    os.utime(state / "attempts" / "998", (1, 1))
    home.start()
    wait_until(lambda: not (state / "attempts" / "1").exists(), "the folder to go")
    assert [p.name for p in (state / "checkpoints").iterdir()] == ["notes"]
    assert (state / "attempts" / "999" / "thesis").is_dir()
    assert not (state / "attempts" / "998").exists()
    assert "attempt 999 is not of this store and is left" in home.said()


def test_a_spool_that_leads_elsewhere_is_refused_at_the_start(home: DaemonHome) -> None:
    shared = home.folder / "shared"
    (shared / "of ann").mkdir(parents=True)
    (home.folder / "home").mkdir(mode=0o700)
    (home.folder / "home" / "spool").symlink_to(shared)
    done = home.radrm("daemon", "--gpus", "sim:1xA100-40GB")
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert "spool is a symbolic link" in line and "RADRM_HOME" in line
    assert [p.name for p in shared.iterdir()] == ["of ann"]

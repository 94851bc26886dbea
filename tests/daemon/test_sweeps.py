"""Arrays, dependencies and what people change afterwards, on a real daemon."""

from __future__ import annotations

import json
import os

import pytest

from radrm.host.storage.spool import Envelope, Spool
from radrm.host.storage.tickets import new_ticket
from tests.daemon.harness import DaemonHome
from tests.waiting import wait_until

SWEEP = """#!/bin/bash
#RAD --name=sweep --gpus=0 --array=3-7%2
echo "$RADRM_ARRAY_TASK_ID of $RADRM_JOB_ID" >> ran
"""


def test_an_array_runs_each_element_with_its_number_and_log(guest: DaemonHome) -> None:
    guest.file("sweep.rad", SWEEP)
    first = guest.submit("sweep.rad")
    documents = guest.ask("status", jobs=[str(first)])
    assert [d["label"] for d in documents] == [f"{first}_{i}" for i in range(3, 8)]
    for document in documents:
        assert guest.wait_end(document["label"])["state"] == "COMPLETED"
    lines = sorted((guest.work / "ran").read_text().splitlines())
    assert lines == [f"{i} of {first + i - 3}" for i in range(3, 8)]
    assert (guest.work / f"radrm-{first}_5.out").exists()
    assert len({d["ticket"] for d in documents}) == 1


PARAMETERS = """#!/bin/bash
#RAD --name=t-{lr} --gpus=0 --params=grid.csv --output={lr}-%a.log --max-fails=2 --at-once=1
echo "$RADRM_PARAM_lr $RADRM_PARAM_opt $RADRM_PARAM_seed {lr}"
test "$RADRM_PARAM_opt" != bad
"""


def test_the_values_of_a_sweep_reach_its_elements_and_failures_hold_the_rest(
    home: DaemonHome,
) -> None:
    home.start()
    home.file("grid.csv", 'lr,opt\n1/2,"a; $x"\n0.1,bad\n0.2,sgd\n')
    home.file("train.rad", PARAMETERS)
    dry = home.radrm("submit", "--dry-run", "--param", "seed=1:2", "train.rad")
    assert "an array of 6, 1 at once" in dry.stdout and home.ask("status", all=True) == []
    array = home.submit("--param", "seed=1:2", "train.rad")
    held = wait_until(
        lambda: (j := home.ask("status", jobs=[f"{array}_4"])[0]).get("held") and j,
        "a held element",
    )
    assert held["reason"].startswith(f"Array {array} is held: 2 elements failed (--max-fails=2)")
    home.kill()
    home.start()
    (row,) = home.ask("page", offset=0, limit=5)["jobs"]
    assert (row["label"], row["reason"]) == (f"{array}_[4-5]", held["reason"])
    assert (row["name"], row["params"]["seed"], row["params_last"]["seed"]) == ("t-0.2", "1", "2")
    done = home.radrm("release", str(array))
    assert done.stdout.count("Released job") == 2, done.stdout
    documents = [home.wait_end(f"{array}_{number}") for number in range(6)]
    assert [d["state"] for d in documents] == [*["COMPLETED"] * 2, *["FAILED"] * 2] + [
        "COMPLETED"
    ] * 2
    assert documents[1]["params"] == {"lr": "1/2", "opt": "a; $x", "seed": "2"}
    assert documents[1]["name"] == "t-1_2"
    assert (home.work / "1_2-1.log").read_text() == "1/2 a; $x 2 {lr}\n"


@pytest.mark.parametrize("count", [2000, pytest.param(8000, marks=pytest.mark.nightly)])
def test_a_very_long_array_keeps_nobody_waiting(home: DaemonHome, count: int) -> None:
    home.start()
    done = home.radrm("submit", "--gpus=0", f"--array=0-{count - 1}%1", "--", "sleep", "9999")
    assert done.returncode == 0, done.stderr
    quick = home.submit("--gpus=0", "--priority=5", "--", "true")
    assert home.wait_end(quick)["state"] == "COMPLETED"
    page = wait_until(
        lambda: (
            (p := home.ask("page", offset=0, limit=5))["counts"].get("PENDING") == count - 1 and p
        ),
        "all elements to be taken in",
    )
    assert page["total"] == 2 and page["jobs"][1]["label"] == f"1_[1-{count - 1}]"
    home.kill()
    home.start()
    assert home.ask("page", offset=0, limit=5)["counts"] == {"RUNNING": 1, "PENDING": count - 1}
    assert len(home.ask("cancel", jobs=["1"])) == count
    wait_until(lambda: not home.ask("status"), "their end")


@pytest.mark.parametrize("array", ["5-4", "0-", "", "0-100000", "0-3%0", "-1-3", "x"])
def test_what_is_no_array_is_refused(home: DaemonHome, array: str) -> None:
    done = home.radrm("submit", f"--array={array}", "--", "true")
    assert done.returncode == 2 and "array" in done.stderr and "Traceback" not in done.stderr


def test_dependencies_hold_with_the_daemon_down_and_by_ticket(home: DaemonHome) -> None:
    home.start()
    home.stop()

    def ticket(*words: str) -> str:
        done = home.radrm("submit", "--parsable", "--gpus=0", *words)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    first = ticket("--", "sh", "-c", "echo first >> order")
    second = ticket(f"--after={first}", "--", "sh", "-c", "echo second >> order; exit 3")
    third = ticket(f"--after={second}:failed", "--", "sh", "-c", "echo third >> order")
    never = ticket(f"--after={second}", "--", "true")
    home.start()
    wait_until(lambda: home.radrm("status", never).returncode == 0, "the last to be taken in")
    assert home.wait_end(third)["state"] == "COMPLETED"
    assert (home.work / "order").read_text().split() == ["first", "second", "third"]
    job = home.wait_end(never)
    assert job["state"] == "FAILED" and "had to complete and is FAILED" in job["reason"]
    assert home.radrm("wait", never).returncode == 125


def test_what_it_follows_has_ended_long_ago(guest: DaemonHome) -> None:
    first = guest.submit("--gpus=0", "--", "false")
    guest.wait_end(first)
    late = guest.submit("--gpus=0", f"--after={first}:any", "--", "true")
    assert guest.wait_end(late)["state"] == "COMPLETED"
    done = guest.radrm("submit", "--gpus=0", f"--after={first}", "--", "true")
    assert done.returncode == 1 and "had to complete and is FAILED" in done.stderr
    done = guest.radrm("submit", "--gpus=0", "--after=999", "--", "true")
    assert done.returncode == 1 and "no job 999" in done.stderr


def test_envelopes_that_name_each_other_wait_for_nobody(guest: DaemonHome) -> None:
    """Nobody can do that with `radrm submit`: a ticket is known only once it is given."""
    one, other = new_ticket(), new_ticket()
    for mine, theirs in ((one, other), (other, one)):
        envelope = Envelope(
            ticket=mine,
            file=None,
            script=None,
            command=("true",),
            options={"gpus": "0", "after": [theirs]},
            cwd=str(guest.work),
            umask=0o022,
            environment={"PATH": os.environ["PATH"]},
            submitted_s=0.0,
        )
        Spool(str(guest.folder / "home" / "spool")).put([envelope])
    ended = [wait_until(lambda t=t: _known(guest, t), t) for t in (one, other)]
    assert [guest.wait_end(d["id"])["state"] for d in ended] == ["FAILED", "FAILED"]


def _known(daemon: DaemonHome, ticket: str) -> dict[str, object]:
    (found,) = daemon.ask("intake", jobs=[ticket])
    return found or {}


def test_orders_by_name_glob_array_and_element(guest: DaemonHome) -> None:
    for name in ("net-a", "net-b", "other", "net[1]"):
        guest.submit(f"--name={name}", "--gpus=0", "--", "sleep", "9999")
    array = guest.submit("--name=arr", "--gpus=0", "--array=0-3%1", "--", "sleep", "9999")
    told = guest.ask("cancel", jobs=["net-*"])
    assert [(t["name"], t["error"]) for t in told] == [("net-a", None), ("net-b", None)]
    (told,) = guest.ask("hold", jobs=[f"{array}_2"])
    assert told["label"] == f"{array}_2" and guest.job(f"{array}_2")["held"]
    assert {t["label"] for t in guest.ask("cancel", jobs=[str(array)])} == {
        f"{array}_{i}" for i in range(4)
    }
    (told,) = guest.ask("cancel", jobs=["nobody-*"])
    assert "no job nobody-*" in told["error"]
    told = guest.ask("cancel", jobs=["other", "net[1]"])
    assert [(each["name"], each["error"]) for each in told] == [("other", None), ("net[1]", None)]
    guest.wait_end("net[1]")
    ids = [job["id"] for job in guest.ask("status", jobs=["net-a", "net-b"])]
    span, both = f"{ids[0]}-{ids[-1]}", ",".join(map(str, ids))
    assert [d["id"] for d in guest.ask("status", jobs=[span, both])][:2] == ids
    (told,) = guest.ask("requeue", jobs=["net[1]"])
    assert told["error"] is None, "a name of the past, too"
    guest.ask("cancel", jobs=["net[1]"])


def test_hold_release_edit_requeue(guest: DaemonHome) -> None:
    blocker = guest.submit("--gpu-memory=30G", "--gpus=2", "--", "sleep", "9999")
    guest.wait_state(blocker, "RUNNING")
    job = guest.submit(
        "--gpu-memory=35G", "--env=WHAT=old", "--", "sh", "-c", "echo $WHAT $CUDA_VISIBLE_DEVICES"
    )
    assert guest.ask("hold", jobs=[str(job)])[0]["error"] is None
    (told,) = guest.ask("edit", jobs=[str(job)], options={"gpu-memory": "99G"})
    assert "largest here" in told["error"]
    (told,) = guest.ask("edit", jobs=[str(job)], options={"gpus": "0", "env": ["WHAT=new"]})
    assert told["error"] is None
    assert guest.job(job)["state"] == "PENDING" and guest.job(job)["reason"]
    guest.ask("release", jobs=[str(job)])
    assert guest.wait_end(job)["state"] == "COMPLETED"
    assert guest.output(job).split() == ["new"]
    (told,) = guest.ask("requeue", jobs=[str(job)])
    assert told["error"] is None and told["state"] == "COMPLETED"
    assert guest.wait_end(job)["attempts"] == 2
    (told,) = guest.ask("edit", jobs=[str(blocker)], options={"gpus": "1"})
    assert "only while it waits" in told["error"]
    assert guest.ask("requeue", jobs=[str(blocker)])[0]["error"] is None
    again = wait_until(lambda: (d := guest.job(blocker))["attempts"] == 2 and d, "its next attempt")
    assert again["state"] in ("LAUNCHING", "RUNNING")
    attempts = guest.ask("explain", jobs=[str(blocker)])["attempts"]
    assert attempts[0]["outcome"] == "preempted"


def test_edits_survive_the_daemon(daemon: DaemonHome) -> None:
    job = daemon.submit("--gpus=0", "--env=WHAT=old", "--", "sh", "-c", "echo $WHAT; exit 1")
    daemon.wait_end(job)
    daemon.ask("requeue", jobs=[str(job)])
    daemon.wait_end(job)
    held = daemon.submit("--gpus=0", "--after=none", "--", "sh", "-c", "echo $WHAT")
    daemon.wait_end(held)
    long = daemon.submit("--gpus=0", "--", "sleep", "9999")
    waiting = daemon.submit("--gpus=0", f"--after={long}:any", "--", "sh", "-c", "echo $WHAT")
    options = {"env": ["WHAT=new"], "name": "renamed", "priority": "7"}
    assert daemon.ask("edit", jobs=[str(waiting)], options=options)[0]["error"] is None
    daemon.kill()
    daemon.start()
    document = daemon.job("renamed")
    assert (document["id"], document["priority"]) == (waiting, 7)
    daemon.ask("cancel", jobs=[str(long)])
    daemon.wait_end(waiting)
    assert daemon.output(waiting).split() == ["new"]


def test_a_signal_reaches_the_program_that_catches_it_and_not_its_shell(home: DaemonHome) -> None:
    home.start()
    home.file(
        "save.py",
        "import signal, sys, time\n"
        "def save(*_):\n"
        "    print('saved', flush=True)\n"
        "    sys.exit(7)\n"
        "signal.signal(signal.SIGUSR1, save)\n"
        "print('ready', flush=True)\n"
        "while True: time.sleep(0.05)\n",
    )
    home.file(
        "job.rad",
        "#!/bin/bash\n#RAD --gpus=0 --time=20000 --signal=USR1@9999\npython save.py\n"
        'code=$?\necho "shell saw $code"; exit $code\n',
    )
    job = home.submit("job.rad")
    log = home.work / f"radrm-{job}.out"
    wait_until(lambda: log.exists() and log.read_text() == "ready\n", "it to handle the signal")
    assert home.radrm("edit", str(job), "--time=10000").returncode == 0
    ended = home.wait_end(job)
    assert home.output(job).split("\n")[:3] == ["ready", "saved", "shell saw 7"]
    assert (ended["state"], ended["exit_code"]) == ("FAILED", 7)


def test_only_root_and_the_daemons_user_drain_devices(daemon: DaemonHome) -> None:
    (told,) = daemon.ask("drain", devices=["1"], reason="new fan")
    assert (told["index"], told["error"]) == (1, None)
    states = [d["state"] for d in daemon.ask("gpus")]
    assert states == ["idle", "drained"]
    jobs = [daemon.submit("--gpu-memory=30G", "--", "sleep", "9999") for _ in range(2)]
    waiting = daemon.ask("explain", jobs=[str(jobs[1])])
    assert [d["rule"] for d in waiting["devices"]] == ["memory", "drained"]
    assert "new fan" in waiting["devices"][1]["message"]
    assert waiting["devices"][0]["needed"] > waiting["devices"][0]["available"]
    daemon.kill()
    daemon.start()
    assert daemon.ask("gpus")[1]["reason"] == "new fan", "it is remembered"
    daemon.ask("resume", devices=[])
    daemon.wait_state(jobs[1], "RUNNING")
    (told,) = daemon.ask("drain", devices=["7"])
    assert "no GPU '7'" in told["error"]
    told = daemon.ask("drain", devices=["0-2", "1,GPU-"])
    assert [(each["index"], bool(each["error"])) for each in told] == [
        *((0, False), (1, False), (None, True), (None, True))
    ]
    assert [each["index"] for each in daemon.ask("resume", devices=["0-1"])] == [0, 1]
    daemon.ask("cancel", jobs=[str(j) for j in jobs])


def test_resume_ends_the_doubt_of_a_gpu_on_which_jobs_fail(home: DaemonHome) -> None:
    home.scale = 1  # the doubt lasts a minute
    home.start()
    alone = "--collocation=exclusive"
    works = home.submit(alone, "--", "sleep", "9999")
    home.wait_state(works, "RUNNING")
    last = home.submit(alone, "--array=0-99", "--", "false") + 99
    wait_until(lambda: "drained" in str(home.ask("explain", jobs=[str(last)])), "a doubt")
    (told,) = home.ask("resume", devices=["1"])
    assert (told["index"], told["error"]) == (1, None)
    home.ask("cancel", jobs=[str(works)])


def test_the_tail_of_json_is_one_document(guest: DaemonHome) -> None:
    guest.file("sweep.rad", SWEEP)
    done = guest.radrm("submit", "--json", "sweep.rad")
    (result,) = json.loads(done.stdout)
    assert set(result) >= {"ticket", "id", "name", "file", "error"}
    wait_until(lambda: not guest.ask("status"), "its end")

"""Estimates in a real daemon: asked elsewhere, learned from, and in nobody's way."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from radrm.host.estimation.probe import SIMULATED_MIB
from tests.daemon.harness import DaemonHome
from tests.waiting import wait_until

TABLE = """\
----------------------------------------------------------------
        Layer (type)               Output Shape         Param #
================================================================
            Linear-1                 [-1, 4096]      16,781,312
              ReLU-2                 [-1, 4096]               0
            Linear-3                 [-1, 4096]      16,781,312
================================================================
Total params: 33,562,624
Trainable params: 33,562,624
Non-trainable params: 0
----------------------------------------------------------------
"""
SIMJOB = "#!/bin/bash\n{options}\nexec radrm-simjob --gpu-memory {mib} --seconds 120 --ramp 1\n"
TRACER = """#!{python}
import json, os, sys, time
def say(document):
    path = sys.argv[2].removeprefix("--output=")
    with open(path + ".part", "w") as file:
        json.dump(document, file)
    os.rename(path + ".part", path)
{text}
"""


def simjob(daemon: DaemonHome, name: str, options: str = "", mib: int = 4000) -> Path:
    return daemon.file(name, SIMJOB.format(options=options, mib=mib))


def their_python(daemon: DaemonHome, text: str) -> None:
    """Have the submitter's `python3` be this program."""
    folder = daemon.folder / "bin"
    folder.mkdir(exist_ok=True)
    program = folder / "python3"
    program.write_text(TRACER.format(python=sys.executable, text=text))
    program.chmod(0o755)
    daemon.environment["PATH"] = f"{folder}:{daemon.environment['PATH']}"


def test_a_job_with_a_summary_is_estimated_by_the_best_that_can(daemon: DaemonHome) -> None:
    daemon.file("net.model", TABLE)
    options = "#RAD --model-summary=net.model --batch-size=64"
    simjob(daemon, "a.rad", options)
    (before,) = daemon.json("estimate", "a.rad")
    assert before["source"] == "summary" and before["upper_mib"] >= before["memory_mib"]
    job = daemon.wait_state(daemon.submit("a.rad"), "RUNNING", "COMPLETED")
    assert (job["estimate_source"], job["estimate_mib"]) == ("summary", int(before["memory_mib"]))
    if job["state"] == "RUNNING":
        assert job["reserved_mib"] >= job["estimate_mib"]


def test_what_ran_before_is_known_the_next_time(daemon: DaemonHome) -> None:
    simjob(daemon, "a.rad", mib=3000)
    simjob(daemon, "b.rad", "#RAD --name=another", mib=3000)
    first = daemon.submit("a.rad")
    assert daemon.job(first)["estimate_mib"] is None
    assert daemon.wait_end(first)["state"] == "COMPLETED"
    (told,) = daemon.json("estimate", "b.rad", "--estimator", "history")
    peak = daemon.job(first)["peak_mib"]
    assert (told["source"], told["memory_mib"]) == ("history", peak)
    second = daemon.job(daemon.submit("b.rad"))
    assert (second["estimate_source"], second["estimate_mib"]) == ("history", peak)
    for source, duration_s, upper_s in (
        [told[f"duration_{key}"] for key in ("source", "s", "upper_s")],
        [second[f"estimate_duration_{key}"] for key in ("source", "s", "upper_s")],
    ):
        assert source == "history" and 115 < duration_s <= upper_s
    simjob(daemon, "c.rad", mib=3001)
    assert daemon.job(daemon.submit("c.rad"))["estimate_mib"] is None, "it is another command"
    simjob(daemon, "d.rad", "#RAD --name=a", mib=3002)
    (told_of_name,) = daemon.json("estimate", "d.rad", "--estimator", "history")
    named = daemon.job(daemon.submit("d.rad"))
    assert (named["estimate_mib"], named["estimate_duration_source"]) == (
        None,
        "history, same name",
    )
    assert told_of_name["memory_mib"] is None
    assert told_of_name["duration_source"] == "history, same name"
    said = daemon.radrm("estimate", "b.rad", "--explain").stdout
    assert "of the same job" in said
    daemon.wait_end(second["id"])  # a kill loses what was measured of a job that still runs
    daemon.kill()
    daemon.start()
    (told,) = daemon.json("estimate", "b.rad", "--estimator", "history")
    assert told["memory_mib"] == peak, "the store remembers"
    (row,) = (
        r
        for r in daemon.json("estimators", "--evaluate", "history", "--estimator", "auto")
        if r["estimator"].startswith("history")
    )
    assert row["jobs"] == 1 and row["mape"] < 0.5


def test_a_factory_is_traced_in_the_users_python_and_others_do_not_wait(
    daemon: DaemonHome,
) -> None:
    # What comes later is not seen in a sandbox, but what is in a file is.
    go = daemon.file("go", "")
    their_python(
        daemon,
        f"while not open({str(go)!r}).read(): time.sleep(0.01)\n"
        "say({'error': f'no torch in {sys.argv[-1]}'})",
    )
    daemon.file("net.model", TABLE)
    options = "#RAD --model-factory=nets:make --batch-size=64 --model-summary=net.model"
    simjob(daemon, "slow.rad", options)
    slow = daemon.submit("slow.rad")
    assert "estimated" in daemon.job(slow)["reason"]
    simjob(daemon, "quick.rad", "#RAD --gpu-memory=4000")
    daemon.wait_state(daemon.submit("quick.rad"), "RUNNING", "COMPLETED")
    assert daemon.job(slow)["state"] == "PENDING"
    daemon.kill()
    daemon.start()
    go.write_text("go")
    job = daemon.wait_state(slow, "RUNNING", "COMPLETED")
    assert job["estimate_source"] == "summary", "the next route took over"
    (note,) = job["estimate_notes"]
    assert note.startswith("trace: ") and "no torch in nets:make" in note
    assert "no torch" in daemon.radrm("status", str(slow)).stdout


def test_a_held_up_job_can_be_edited_to_say_what_it_needs(daemon: DaemonHome) -> None:
    their_python(daemon, "time.sleep(600)")
    simjob(daemon, "slow.rad", "#RAD --model-factory=nets:make")
    slow = daemon.submit("slow.rad")
    assert "estimated" in daemon.job(slow)["reason"]
    daemon.radrm("edit", str(slow), "--gpu-memory=4G")
    job = daemon.wait_state(slow, "RUNNING", "COMPLETED")
    assert (job["estimate_source"], job["estimate_mib"]) == ("declared", 4096)


def test_waiting_elements_learn_from_those_that_have_ended(daemon: DaemonHome) -> None:
    # The last of them does not start for half a minute.
    simjob(daemon, "sweep.rad", "#RAD --array=1-40 --collocation=exclusive --hold")
    first = daemon.submit("sweep.rad")
    last = f"{first}_40"
    assert daemon.job(last)["estimate_duration_source"] is None
    daemon.ask("release", jobs=[str(first)])
    daemon.wait_end(f"{first}_1")
    wait_until(
        lambda: daemon.job(last)["estimate_duration_source"] == "history", "a prediction of it"
    )
    waiting = daemon.job(last)
    # Two minutes, and what the busy machine takes for each start: a second is 100 of its clock.
    assert waiting["state"] == "PENDING" and waiting["estimate_duration_s"] > 115
    assert waiting["estimate_mib"] is None, "its memory stays what it was"


def test_an_array_shares_one_answer(daemon: DaemonHome) -> None:
    their_python(
        daemon,
        "say({'error': f'no torch: {os.urandom(8).hex()}'})",
    )
    simjob(daemon, "sweep.rad", "#RAD --model-factory=nets:make --array=1-8 --hold")
    ticket = daemon.radrm("submit", "--parsable", "sweep.rad").stdout.strip()

    def notes() -> list[list[str]]:
        return [job.get("estimate_notes") or [] for job in daemon.ask("status", jobs=[ticket])]

    wait_until(lambda: all(notes()), "the estimates of all elements")
    assert len({note for of_one in notes() for note in of_one if "no torch" in note}) == 1
    assert len(json.loads(daemon.radrm("status", "--json", ticket).stdout)) == 8


TRACED = {
    "version": 1, "events": [1 << 30], "calls": [], "marks": [], "convolutions": [],
    "parameter_bytes": 1 << 29, "gradient_bytes": 0, "optimizer_bytes": 0, "faketensor_bytes": 0,
    "batch_size": 256, "optimizer": "adam", "precision": "fp32", "gpus": 1, "parallel": "none",
    "torch": "2.0.1", "cuda": "11.8", "seconds": 1.0,
    "guesses": ["batch size: 256, the factory's own default"],
}  # fmt: skip
FACTORY = "#RAD --model-factory=nets:make --name={}"


def probes(daemon: DaemonHome) -> list[dict[str, Any]]:
    jobs = daemon.json("status", "--all")
    return [job for job in jobs if job["name"] == "radrm-context"]


def test_the_cuda_context_is_measured_once_and_counts_from_then_on(daemon: DaemonHome) -> None:
    their_python(daemon, f"say({TRACED!r})")
    simjob(daemon, "first.rad", FACTORY.format("first"), mib=1500)
    first = daemon.job(daemon.submit("first.rad"))
    first = daemon.wait_end(first["id"])
    assert first["estimate_source"] == "trace"
    assert first["estimate_guesses"][0] == TRACED["guesses"][0]
    assert "assumed" in first["estimate_guesses"][-1]
    card = daemon.radrm("status", str(first["id"])).stdout
    assert "256, the factory's own default" in card
    (probe,) = wait_until(lambda: probes(daemon), "the probe")
    probe = daemon.wait_end(probe["id"])
    assert (probe["state"], probe["collocation"], probe["user"]) == (
        "COMPLETED", "exclusive", first["user"],
    )  # fmt: skip
    assert probe["attempts"] == 1 and probe["peak_mib"] == SIMULATED_MIB
    assert not list(daemon.work.glob(f"radrm-{probe['id']}.*")), "no log of it lies about"
    daemon.kill()
    daemon.start()
    simjob(daemon, "second.rad", FACTORY.format("second"), mib=1600)
    second = daemon.wait_end(daemon.submit("second.rad"))
    assert second["estimate_guesses"][-1] == "CUDA context: 524 MiB, measured on this machine"
    assert first["estimate_mib"] - second["estimate_mib"] > 700
    (told,) = daemon.json("estimate", "second.rad", "--estimator", "auto", "--batch-size=128")
    assert told["guesses"][-1] == "CUDA context: 524 MiB, measured on this machine"
    assert len(probes(daemon)) == 1, "it is known now"
    kept = daemon.json("estimators", "--evaluate", "history", "--estimator", "auto")
    assert kept[0]["jobs"] == 2, "the probe is no job to judge estimators by"

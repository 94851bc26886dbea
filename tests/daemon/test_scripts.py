"""Jobs that declare nothing: a real daemon traces their own command, on simulated GPUs.

Most programs here write the tracer's document themselves, so no PyTorch is needed.
"""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from tests.daemon.harness import DaemonHome
from tests.waiting import wait_until

DOCUMENT = {
    "version": 1, "events": [], "calls": [], "marks": [], "convolutions": [],
    "parameter_bytes": 1 << 29, "gradient_bytes": 1 << 29, "optimizer_bytes": 1 << 30,
    "optimizer": "AdamW", "precision": "fp32", "gpus": 1, "parallel": "none", "torch": "2.13.0",
    "cuda": "12.6", "seconds": 4.6, "guesses": [], "benchmark": False,
    "script": {"program": "train.py", "steps": [3], "backward": 3, "reason": "steps",
               "skipped": ["torch.compile", "evaluation"]},
}  # fmt: skip
TRAIN = """
import json, os, sys
mib, folder = int(sys.argv[1]), os.environ.get("RADRM_TRACE_FOLDER")
if folder:
    open("traced", "a").write("x")  # thrown away
    document = json.loads({document!r})
    document["events"] = [mib << 20]
    {fault}
    path = os.path.join(folder, f"{{os.getpid()}}.json")
    with open(path + ".part", "w") as file:
        json.dump(document, file)
    os.rename(path + ".part", path)
    sys.exit()
words = ["--gpu-memory", f"{{mib + 600}}M", "--seconds", sys.argv[2], "--ramp", "5"]
os.execvp("radrm-simjob", ["radrm-simjob", *words])
"""


@pytest.fixture
def home(home: DaemonHome) -> DaemonHome:
    home.scripts = True
    return home


def train(daemon: DaemonHome, fault: str = "") -> Path:
    return daemon.file("train.py", TRAIN.format(document=json.dumps(DOCUMENT), fault=fault))


def estimated(daemon: DaemonHome, *words: str) -> Any:
    done = daemon.radrm("estimate", "--json", *words)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_job_that_declares_nothing_is_estimated_by_its_own_command(daemon: DaemonHome) -> None:
    train(daemon)
    job = daemon.wait_state(daemon.submit("--", "python3", "train.py", "9000", "60"), "RUNNING")
    assert job["estimate_source"] == "script"
    assert 9000 < job["estimate_mib"] < 12000 and job["reserved_mib"] > job["estimate_mib"]
    assert "3 steps of train.py" in job["estimate_basis"] and "skipped" in job["estimate_basis"]
    assert job["estimate_basis"] in daemon.radrm("status", str(job["id"])).stdout
    assert not (daemon.work / "traced").exists(), "what a trace writes is thrown away"


def test_six_plain_jobs_share_two_gpus_without_a_death(daemon: DaemonHome) -> None:
    train(daemon)
    ids = [daemon.submit("--", "python3", "train.py", "12000", "99999") for _ in range(6)]

    def at_work() -> list[int]:
        """Those that run and have all their memory."""
        jobs = map(daemon.job, ids)
        return [j["id"] for j in jobs if j["state"] == "RUNNING" and (j["peak_mib"] or 0) > 12000]

    wait_until(lambda: len(at_work()) == 4, "two on each GPU")
    daemon.radrm("cancel", *map(str, at_work()))
    wait_until(lambda: len(at_work()) == 2, "the others")
    jobs = [daemon.job(job) for job in ids]
    assert sum(job["oom_count"] for job in jobs) == 0 and {job["attempts"] for job in jobs} == {1}
    assert {job["estimate_source"] for job in jobs[:2]} == {"script"}


def test_a_job_waits_for_its_trace_and_a_failed_one_says_where_and_what_to_do(
    daemon: DaemonHome,
) -> None:
    go = daemon.folder / "go"
    fault = f"while not os.path.exists({str(go)!r}): __import__('time').sleep(0.01)\n    "
    train(
        daemon, fault + "document = {'version': 1, 'error': 'KeyError: 1', 'line': 'train.py:41'}"
    )
    number = daemon.submit("--", "python3", "train.py", "4000", "60")
    assert "estimated" in daemon.job(number)["reason"]
    go.touch()
    job = daemon.wait_state(number, "RUNNING", "COMPLETED")
    assert job["estimate_source"] is None and job["estimate_mib"] is None
    (note,) = job["estimate_notes"]
    assert note.startswith("script: train.py:41: KeyError") and "--gpu-memory" in note
    assert "train.py:41" in daemon.radrm("status", str(number)).stdout


@pytest.mark.parametrize(
    "words",
    [
        ("--no-trace", "--", "python3", "train.py", "4000", "60"),
        ("--gpu-memory=5G", "--", "python3", "train.py", "4000", "60"),
        ("--", "radrm-simjob", "--gpu-memory=4G", "--seconds=5"),
    ],
)
def test_who_says_what_it_needs_asks_for_none_or_cannot_train_is_not_traced(
    daemon: DaemonHome, words: tuple[str, ...]
) -> None:
    train(daemon)
    job = daemon.job(daemon.submit(*words))
    assert "estimated" not in (job["reason"] or "")
    assert job["estimate_source"] in (None, "declared") and not job["estimate_notes"]


def test_a_site_can_forbid_it(home: DaemonHome) -> None:
    home.settings = ["estimation.script=false"]
    home.start()
    train(home)
    job = home.job(home.submit("--", "python3", "train.py", "4000", "60"))
    assert "estimated" not in (job["reason"] or "") and job["estimate_source"] is None


def test_a_command_is_estimated_before_it_is_submitted(daemon: DaemonHome) -> None:
    train(daemon)
    (told,) = estimated(daemon, "--", "python3", "train.py", "9000", "60")
    assert told["source"] == "script" and "train.py" in told["basis"]
    assert told["fits"] is None and told["notes"] == []
    daemon.file("job.rad", "#!/bin/bash\npython3 train.py 7000 60\n")
    (smaller,) = estimated(daemon, "job.rad")
    assert smaller["source"] == "script" and smaller["memory_mib"] < told["memory_mib"]
    shown = daemon.radrm("estimate", "--", "python3", "train.py", "9000", "60").stdout
    assert told["basis"] in shown
    for words in (("--no-trace", "--", "python3", "train.py", "9000", "60"), ("--", "sleep", "3")):
        done = daemon.radrm("estimate", *words)
        assert "9000" not in done.stdout and "--gpu-memory" in done.stderr


SIZED = "document['events'] = [int(sys.argv[sys.argv.index('--batch-size') + 1]) * 100 << 20]\n    "


def test_of_a_batch_beyond_every_gpu_the_largest_that_fits_is_named(daemon: DaemonHome) -> None:
    fault = SIZED + "document['events'][0] //= 1 + ('--amp' in sys.argv)"
    train(daemon, fault)
    command = ["--", "python3", "train.py", "0", "60", "--batch-size", "1024"]
    (told,) = estimated(daemon, *command)
    fits: dict[str, Any] = told["fits"]
    assert (
        told["memory_mib"] > fits["room_mib"] >= fits["upper_mib"] and fits["batch_size"] % 8 == 0
    )
    assert 200 <= fits["batch_size"] < 400
    (change,) = told["changes"]
    assert change["option"] == "--amp" and change["upper_mib"] < 0.7 * told["memory_mib"]
    shown = daemon.radrm("estimate", *command).stdout
    assert f"--batch-size {fits['batch_size']} fits" in shown and "with --amp" in shown


def test_an_array_has_one_trace(daemon: DaemonHome) -> None:
    train(daemon)
    daemon.file("job.rad", "#!/bin/bash\n#RAD --array=1-4 --hold\npython3 train.py 7000 60\n")
    ticket = daemon.radrm("submit", "--parsable", "job.rad").stdout.strip()

    def told() -> list[Any] | None:
        jobs = daemon.ask("status", jobs=[ticket])
        return jobs if all(job.get("estimate_basis") for job in jobs) else None

    assert len({job["estimate_mib"] for job in wait_until(told, "the estimates")}) == 1


PLAIN = """
import os, sys
if "RADRM_SIMULATED_GPUS" in os.environ:  # there is no GPU that PyTorch could use
    words = ["--gpu-memory", "8500M", "--seconds", "500", "--ramp", "5"]
    os.execvp("radrm-simjob", ["radrm-simjob", *words])
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
layers = [m for _ in range(24) for m in (nn.Linear(4096, 4096), nn.GELU())]
model = nn.Sequential(*layers, nn.Linear(4096, 10)).to(device)
optimizer = torch.optim.AdamW(model.parameters())
data = torch.randn(640, 4096), torch.randint(0, 10, (640,))
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(*data), batch_size=64)
for epoch in range(1000):
    for step, (x, y) in enumerate(loader):
        loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"epoch {epoch} step {step} loss {loss.item():.3f}")
    torch.save(model.state_dict(), "model.pt")
"""
"""It needs 24 * 4096 * 4096 * 4 bytes for weights, for gradients, and twice for AdamW: 6 GiB."""


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
def test_a_plain_training_script_says_itself_what_it_needs(daemon: DaemonHome) -> None:
    daemon.file("train.py", PLAIN)
    (told,) = estimated(daemon, "--", "python3", "train.py")
    assert told["source"] == "script" and 6144 < told["memory_mib"] < 10_000, told
    ids = [daemon.submit("--", "python3", "train.py") for _ in range(6)]
    wait_until(lambda: daemon.job(ids[0])["state"] != "PENDING", "its trace", patience_s=240)
    (document,) = daemon.json("status", str(ids[0]))
    assert document["estimate_source"] == "script"
    assert "steps of train.py" in document["estimate_basis"]
    jobs = [daemon.wait_end(job) for job in ids]
    assert [job["state"] for job in jobs] == ["COMPLETED"] * 6
    assert sum(job["oom_count"] for job in jobs) == 0
    assert not (daemon.work / "model.pt").exists()

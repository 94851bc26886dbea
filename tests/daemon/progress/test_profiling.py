"""`radrm profile` through a daemon: probes are ordinary jobs, and later jobs know their times."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from radrm.host.storage.store import Store
from tests.daemon.harness import DaemonHome
from tests.waiting import PATIENCE_S, wait_until

TRAIN = "#!/bin/bash\nexec radrm-simjob --gpu-memory 4000 --seconds 3000 --ramp 1{more}\n"


@pytest.fixture
def mixed(home: DaemonHome) -> DaemonHome:
    """A server with two kinds of GPU."""
    home.gpus, home.scale = "sim:1xA100-40GB,1xV100-32GB", 50.0
    home.start()
    return home


def test_what_probes_show_is_known_of_later_jobs(mixed: DaemonHome) -> None:
    mixed.file("a.rad", TRAIN.format(more=" --loss-k 3"))
    found = mixed.json("profile", "a.rad", "--limit=1d")
    assert [(each["kind"], each["gpus"]) for each in found] == [("A100-40GB", 1), ("V100-32GB", 1)]
    assert all(each["why"] is None and 2000 < each["whole_s"] < 30_000 for each in found)
    probes = [mixed.job(number) for number in (1, 2)]
    assert [job["state"] for job in probes] == ["CANCELLED", "CANCELLED"]
    later = mixed.submit("a.rad")
    assert mixed.job(later)["estimate_duration_source"] == "profile"
    mixed.stop()
    store = Store(str(mixed.folder / "home" / "store" / "radrm.sqlite"))
    (job,) = [job for job in store.kept().jobs if job.id == later]
    store.close()
    assert [each.kind for each in job.profile] == ["A100-40GB", "V100-32GB"]
    assert all(2000 < each.duration_s < 30_000 for each in job.profile)


def test_a_job_with_a_range_knows_the_times_of_each_of_its_sizes(home: DaemonHome) -> None:
    home.gpus, home.scale = "sim:2xV100-32GB", 50.0
    home.start()
    range_, more = "#RAD --gpus=1-2 --checkpoint=signal\n", " --loss-k 3"
    home.file("a.rad", TRAIN.format(more=more).replace("exec", range_ + "exec"))
    found = home.json("profile", "a.rad", "--limit=1d")
    assert [(each["gpus"], each["why"]) for each in found] == [(1, None), (2, None)]
    later = home.submit("a.rad", "--hold")
    home.stop()
    store = Store(str(home.folder / "home" / "store" / "radrm.sqlite"))
    (job,) = [job for job in store.kept().jobs if job.id == later]
    store.close()
    assert [each.gpus for each in job.profile] == [1, 2]


def test_a_probe_yields_to_a_job_that_waits(mixed: DaemonHome) -> None:
    mixed.file("a.rad", TRAIN.format(more=" --loss-k 3").replace("3000", "900000"))
    words = ("profile", "a.rad", "--gpu-type=v100", "--probe-steps=999999", "--limit=1d", "--json")
    command = [sys.executable, "-m", "radrm.cli.main", *words]
    with subprocess.Popen(
        command,
        env=mixed.environment,
        cwd=mixed.work,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as probing:
        wait_until(
            lambda: any(job["state"] == "RUNNING" for job in mixed.ask("page")["jobs"]), "the probe"
        )
        other = mixed.submit(
            *("--gpu-type=v100", "--", "radrm-simjob", "--gpu-memory", "1000", "--seconds", "9")
        )
        shown, _ = probing.communicate(timeout=PATIENCE_S)
    (found,) = json.loads(shown)
    assert found["why"] == f"it was stopped: job {other} waits for GPUs; try again when none waits"
    assert mixed.wait_end(other)["state"] == "COMPLETED"


def test_a_job_that_cannot_be_probed_says_why(mixed: DaemonHome) -> None:
    mixed.file("bad.rad", "#!/bin/bash\necho no module named torch\nexit 3\n")
    done = mixed.radrm("profile", "bad.rad", "--gpu-type=v100")
    assert done.returncode == 1
    assert "exit code 3: no module named torch" in " ".join(done.stdout.split())
    mixed.file("many.rad", "#!/bin/bash\n#RAD --array=0-3\ntrue\n")
    done = mixed.radrm("profile", "many.rad")
    assert done.returncode != 0
    assert done.stderr == "radrm: many.rad: a probe takes no --array; profile a copy without it\n"
    mixed.file("roles.rad", "#!/bin/bash\n#RAD --role=ps:1,gpus=1 --role=worker:1\nradrun x\n")
    assert "a probe takes no --role" in mixed.radrm("profile", "roles.rad").stderr


def test_a_job_with_ranges_is_probed_at_a_fixed_size(mixed: DaemonHome) -> None:
    ranges = "--gpus=1-2 --cpus=0.5-1 --memory=100M-1G --checkpoint=signal"
    text = TRAIN.format(more=" --loss-k 3").replace("exec", f"#RAD {ranges}\nexec")
    mixed.file("a.rad", text)
    (found,) = mixed.json("profile", "a.rad", "--gpu-type=v100", "--limit=1d")
    assert found["why"] is None and found["gpus"] == 1
    probe = mixed.job(1)
    assert (probe["roles"], probe["cpus"], probe["memory_mib"]) == ([], 0.5, 100)

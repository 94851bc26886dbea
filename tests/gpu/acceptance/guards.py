"""Steps for what keeps jobs apart: devices, memory caps of the driver, faults of neighbours.

Isolation needs root and cgroup v2, driver caps a driver from R615 on. Where they are not there,
the step says so and settles nothing (`NotHere`).
"""

from __future__ import annotations

import json
import subprocess

from tests.gpu.acceptance.daemon import running, with_mps
from tests.gpu.acceptance.step import NotHere, Step, said
from tests.gpu.server import PROGRAMS

_CLOSED = r"""
nvidia-smi -L; echo "nvidia-smi ends with $?"
unset CUDA_VISIBLE_DEVICES
{python} -c 'import torch; print("cuda", torch.cuda.is_available(), torch.cuda.device_count())'
if (exec 3< /dev/nvidia0) 2>/dev/null; then echo opened; else echo refused; fi
grep Cpus_allowed_list /proc/self/status
"""
_OWN = "nvidia-smi -L; echo own $CUDA_VISIBLE_DEVICES; (exec 3< /dev/nvidia0) && echo opened"
_CAP_MIB = 4096


def devices(step: Step) -> str:
    """A job without a GPU opens none; a job with one opens its own."""
    checks = step.command(step.radrm("doctor", "--json")).stdout
    rows = json.loads(checks)
    found = [row for row in rows if row["check"] == "isolation"]
    step.record(isolation=found)
    if not found or found[0]["level"] != "ok":
        raise NotHere(f"no isolation of devices: {found[0]['finding'] if found else 'no check'}")
    with running(step) as server:
        script = _CLOSED.format(python=server.python)
        closed = server.submit("--gpus=0", "--", "bash", "-c", script)
        own = server.submit("--gpus=1", "--gpu-memory=2G", "--", "bash", "-c", _OWN)
        numbered = server.run("matmul.py", "--seconds", 2, options=("--device-ids=index",))
        for job in (closed, own, numbered):
            server.wait_end(job)
        texts = {name: server.output(job) for name, job in (("none", closed), ("own", own))}
        step.record(
            **texts, errors=server.output(closed, "err"), numbered=_ended(server.job(numbered))
        )
        step.check("refused" in texts["none"], "a job without a GPU has opened /dev/nvidia0")
        step.check("cuda False 0" in texts["none"], f"CUDA in a job without a GPU: {texts['none']}")
        step.check("opened" in texts["own"], "a job has not opened its own GPU")
        step.check(server.job(numbered)["state"] == "COMPLETED", "a job with an index has failed")
        index = server.report(numbered)["devices"]
        return f"a job without a GPU is refused, one with a GPU is not; by index it gets {index}"


def driver_caps(step: Step) -> str:
    """The driver's own cap on the memory of a time-sliced job (R615)."""
    with running(step, "policy=first-fit", "policies.first-fit.conditions=false") as server:
        step.record(caps=server.device()["caps"])
        if "driver" not in server.device()["caps"]:
            lines = [line for line in server.said().splitlines() if "caps no GPU memory" in line]
            raise NotHere(lines[0][24:200] if lines else "the driver caps no memory")
        options = ("--collocation=timeslice", f"--gpu-memory={_CAP_MIB}M")
        within = server.run("hold.py", "--memory", _CAP_MIB // 2, options=options)
        step.check(server.wait_end(within)["state"] == "COMPLETED", "a job within its cap failed")
        beyond = server.run("client.py", "--until-oom", options=options)
        server.wait_end(beyond)
        held = server.report(beyond)
        step.record(beyond=held, explained=server.json("explain", str(beyond)))
        step.check(held["held_mib"] <= _CAP_MIB, f"a cap of {_CAP_MIB} MiB let a job hold {held}")
        return f"capped at {_CAP_MIB} MiB, a job holds {held['held_mib']} MiB"


def fault_jobs(step: Step) -> str:
    """Jobs beside one whose kernel is bad: they run again by themselves, and it fails."""
    options = ("--collocation=mps", "--gpu-memory=4G")
    with with_mps(step) as server:
        server.until(lambda: server.device()["mps"], "the GPU to be served by MPS")
        others = [server.run("matmul.py", "--seconds", 15, options=options) for _ in range(2)]
        for job in others:
            server.until(lambda job=job: "step" in server.output(job), "a bystander's work")
        bad = server.submit(
            *options, "--", server.python, str(PROGRAMS / "client.py"), "--fault", "2"
        )
        ends = {job: server.wait_end(job) for job in (*others, bad)}
        step.record(
            ends={job: _ended(end) for job, end in ends.items()},
            explained={job: server.json("explain", str(job)) for job in ends},
            rows=server.ask("mps"),
        )
        for job in (*others, bad):
            step.keep(f"fault-job-{job}.err", server.output(job, "err")[-4000:])
        states = [ends[job]["state"] for job in others]
        step.check(states == ["COMPLETED"] * 2, f"the bystanders ended {states}")
        step.check(ends[bad]["state"] == "FAILED", f"the bad one ended {ends[bad]['state']}")
        attempts = [ends[job]["attempts"] for job in others]
        return f"bystanders completed at attempts {attempts}; the bad one FAILED"


def adopt(step: Step) -> str:
    """A process that was started by hand becomes a job, and is left alone when its time is over."""
    with running(step) as server:
        stray = subprocess.Popen(
            [server.python, str(PROGRAMS / "matmul.py"), "--seconds", "45", "--memory", "2048"],
            env={**server.environment, "CUDA_VISIBLE_DEVICES": step.uuid},
            stdout=subprocess.DEVNULL,
        )
        try:
            seen = server.until(
                lambda: stray.pid in [each["pid"] for each in server.device()["unmanaged"]],
                "the process among the unmanaged ones",
            )
            step.record(seen=seen, before=server.device())
            done = server.radrm("adopt", str(stray.pid), "--for", "10s", "--gpu-memory=8G")
            step.check(done.returncode == 0, said(done))
            server.until(lambda: server.device()["jobs"], "the job on the GPU")
            server.until(lambda: not server.device()["unmanaged"], "its memory to be the job's")
            step.record(adopted=server.device())
            server.until(lambda: server.device()["unmanaged"], "the end of its time")
            step.check(stray.poll() is None, "the process ended with its time as a job")
        finally:
            stray.terminate()
            stray.wait()
        return "an adopted process counts as a job, and is unmanaged again after --for"


def _ended(document: dict[str, object]) -> dict[str, object]:
    return {key: document.get(key) for key in ("state", "attempts", "reason", "exit_code")}

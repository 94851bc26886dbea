"""Steps for what keeps jobs apart: devices, memory caps of the driver, faults of neighbours.

Isolation needs root and cgroup v2, driver caps a driver from R615 on. Where they are not there,
the step says so and settles nothing (`NotHere`).
"""

from __future__ import annotations

import os

from proofs.acceptance.daemon import running, with_mps
from proofs.acceptance.step import NotHere, Step
from radrm.host import isolation
from tests.gpu.server import PROGRAMS, RealServer

_CLOSED = r"""
nvidia-smi -L; echo "nvidia-smi ends with $?"
unset CUDA_VISIBLE_DEVICES
{python} -c 'import torch; print("cuda", torch.cuda.is_available(), torch.cuda.device_count())'
if (exec 3< /dev/nvidia0) 2>/dev/null; then echo opened; else echo refused; fi
grep Cpus_allowed_list /proc/self/status
"""
_OWN = "nvidia-smi -L; echo own $CUDA_VISIBLE_DEVICES; (exec 3< /dev/nvidia0) && echo opened"
_CAP_MIB = 4096
_FIRST_CAP_MIB = 5120
"""So much is left for a job's cap at first. It fills nine tenths, its CUDA context included."""
_FILLS_MIB, _GROWS_MIB = 4352, 3072
_MOMENTS = ("begun", "dead", "restarted")
_LOOKS = f"""
for moment in {" ".join(_MOMENTS)}; do
    until [ -e $moment ]; do sleep 0.1; done
    answer=absent
    for file in /dev/nvidia[0-9]*; do
        if (exec 3< $file) 2>/dev/null; then answer=opened; break; fi
        [ ! -e $file ] || answer=refused
    done
    echo $moment: $answer
done
"""


def devices(step: Step) -> str:
    """A job without a GPU opens none; a job with one opens its own."""
    _need_isolation(step)
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


def isolation_kill(step: Step) -> str:
    """A running job stays isolated while the daemon is dead, and after its restart."""
    _need_isolation(step)
    with running(step) as server:
        job = server.submit("--gpus=0", "--", "bash", "-c", _LOOKS)
        seen = []
        for moment in _MOMENTS:
            if moment == "dead":
                server.kill()
            elif moment == "restarted":
                server.start()
            (server.work / moment).touch()
            server.until(lambda moment=moment: f"{moment}:" in server.output(job), "an answer")
            seen.append(server.output(job).splitlines()[-1])
        step.record(seen=seen)
        done = server.wait_end(job)
        step.check(done["state"] == "COMPLETED", f"the job ended {done['state']}")
        if seen == [f"{each}: absent" for each in _MOMENTS]:
            raise NotHere("there is no /dev/nvidia0 to open")
        step.check(seen == [f"{each}: refused" for each in _MOMENTS], f"the job says {seen}")
        return "a job without a GPU is refused before, between and after two daemons"


def driver_caps(step: Step) -> str:
    """The driver's own cap on the memory of a time-sliced job (R615)."""
    with running(step, "policy=first-fit", "policies.sharing.conditions=false") as server:
        _need_driver_caps(step, server)
        options = ("--collocation=timeslice", f"--gpu-memory={_CAP_MIB}M:{_CAP_MIB}M")
        within = server.run("hold.py", "--memory", _CAP_MIB // 2, options=options)
        step.check(server.wait_end(within)["state"] == "COMPLETED", "a job within its cap failed")
        beyond = server.run("client.py", "--until-oom", options=options)
        server.wait_end(beyond)
        held = server.report(beyond)
        step.record(beyond=held, explained=server.json("explain", str(beyond)))
        step.check(held["held_mib"] <= _CAP_MIB, f"a cap of {_CAP_MIB} MiB let a job hold {held}")
        return f"capped at {_CAP_MIB} MiB, a job holds {held['held_mib']} MiB"


def cap_raise(step: Step) -> str:
    """A running job's cap of the driver grows when memory becomes free, and the job notices."""
    with running(step, "policy=first-fit", "policies.sharing.conditions=false") as server:
        _need_driver_caps(step, server)
        free_mib = server.device()["free_mib"]
        slices = "--collocation=timeslice"
        options = (slices, f"--gpu-memory={free_mib - _FIRST_CAP_MIB}M")
        other = server.run("hold.py", "--memory", 1024, "--until", "others-go", options=options)
        server.until(lambda: "holding" in server.output(other), "the other job's memory")
        words = ("--memory", _FILLS_MIB, "--until", "grow", "--more", _GROWS_MIB)
        options = (slices, f"--gpu-memory={_CAP_MIB}M:{5 * _CAP_MIB}M")
        job = server.run("hold.py", *words, options=options)
        server.until(lambda: "holding" in server.output(job), "the job's memory")
        first = server.job(job).get("cap_mib")
        (server.work / "others-go").touch()
        server.until(lambda: server.job(other)["state"] == "COMPLETED", "the other job's end")
        raised = server.until(lambda: _more(server.job(job).get("cap_mib"), first), "a larger cap")
        step.record(first_mib=first, raised_mib=raised, explained=server.json("explain", str(job)))
        (server.work / "grow").touch()
        done = server.wait_end(job)
        step.record(ended=_ended(done), output=server.output(job))
        step.check(done["state"] == "COMPLETED" and done["attempts"] == 1, f"it ended {done}")
        return f"its cap grew from {first} to {raised} MiB, and the job used it"


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


def _need_isolation(step: Step) -> None:
    why_not = isolation.find(True, os.geteuid()).reason
    step.record(isolation=why_not)
    if why_not is not None:
        raise NotHere(f"no isolation of devices: {why_not}")
    if not os.path.exists("/dev/nvidia0"):  # as in a rehearsal
        raise NotHere("there is no file of a GPU to be kept from")


def _need_driver_caps(step: Step, server: RealServer) -> None:
    caps = server.device()["caps"]
    step.record(caps=caps)
    if "driver" not in caps:
        raise NotHere("the driver caps no GPU memory; the daemon's log says why")


def _more(cap_mib: int | None, than_mib: int) -> int | None:
    return cap_mib if cap_mib is not None and cap_mib > than_mib else None


def _ended(document: dict[str, object]) -> dict[str, object]:
    return {key: document.get(key) for key in ("state", "attempts", "reason", "exit_code")}

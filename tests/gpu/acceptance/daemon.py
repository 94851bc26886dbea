"""Steps with a daemon of radrm: what it does to jobs on a real GPU, and through a kill."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterator
from typing import Any

from tests.gpu.acceptance.step import Step, said
from tests.gpu.server import PROGRAMS, RealServer, short_folder
from tests.paths import REPOSITORY

PACKING = ("policy=first-fit", "policies.first-fit.conditions=false", "mps.set_compute_mode=false")
_AS_CLIENT = ("--collocation=mps", "--gpu-memory=4G")


@contextlib.contextmanager
def running(step: Step, *settings: str) -> Iterator[RealServer]:
    """A daemon on the GPU; it and its MPS servers end with the step."""
    folder = short_folder()
    server = RealServer(folder / "0", step.uuid, step.python())
    server.settings = list(settings)
    try:
        server.start()
        yield server
    finally:
        server.radrm("mps", "stop", "--all", "--force")
        server.close()
        step.keep(f"{step.name}-daemon.log", server.said())
        shutil.rmtree(folder, ignore_errors=True)


def with_mps(step: Step, *settings: str) -> contextlib.AbstractContextManager[RealServer]:
    return running(step, *PACKING, f"mps.enabled={json.dumps([step.uuid])}", *settings)


def term(step: Step) -> str:
    """Jobs that are cancelled while their kernels run, beside one that must live."""
    with with_mps(step) as server:
        server.until(lambda: server.device()["mps"], "the GPU to be served by MPS")
        survivor = server.run("matmul.py", "--seconds", 35, "--size", 2048, options=_AS_CLIENT)
        server.until(lambda: "step" in server.output(survivor), "the survivor's work")
        ends = []
        for _ in range(3):
            victim = server.run("matmul.py", "--seconds", 90, "--size", 8192, options=_AS_CLIENT)
            server.until(lambda victim=victim: "step" in server.output(victim), "a victim's work")
            server.radrm("cancel", str(victim))
            ends.append(server.wait_end(victim)["state"])
            step.check(server.job(survivor)["state"] == "RUNNING", "the survivor died with one")
        done = server.wait_end(survivor)
        step.record(victims=ends, survivor=done["state"], rows=server.ask("mps"))
        step.check(ends == ["CANCELLED"] * 3, f"the victims ended {ends}")
        step.check(done["state"] == "COMPLETED", f"the survivor ended {done['state']}")
        steps = server.report(survivor)["steps"]
        return f"three clients were cancelled at work, the fourth completed {steps} steps"


def restart(step: Step) -> str:
    """An MPS client lives through kill -9 of the daemon, and the next one knows it again."""
    with with_mps(step) as server:
        server.until(lambda: server.device()["mps"], "the GPU to be served by MPS")
        job = server.run("matmul.py", "--seconds", 25, options=_AS_CLIENT)
        server.until(lambda: "step" in server.output(job), "the job's work")
        before = _rows(server)
        server.kill()
        server.start()
        after = server.until(lambda: _rows(server), "a control daemon that is up")
        step.record(before=before, after=after)
        step.check(server.device()["jobs"] == [job], "the new daemon does not know the job")
        step.check(after == before, f"another control daemon: {before}, then {after}")
        done = server.wait_end(job)
        step.check(done["state"] == "COMPLETED", f"the job ended {done['state']}")
        return "the job and its control daemon were adopted; COMPLETED"


def near(step: Step) -> str:
    """What radrm says of the CPUs and GPUs near this one, beside what nvidia-smi says."""
    with running(step) as server:
        device = server.device()
        job = server.run("matmul.py", "--seconds", 2)
        done = server.wait_end(job)
        topology = step.command(["nvidia-smi", "topo", "-m"], timeout_s=20).stdout
        step.record(
            near=device.get("near"), job_cpus=done.get("cpu_list"), minor=device.get("minor")
        )
        step.check(done["state"] == "COMPLETED", f"the job ended {done['state']}")
        seen = f"{device['state']}: {device['reason']}"
        step.check(device["state"] != "unhealthy", f"CUDA works, and radrm says {seen}")
        told = next((line for line in topology.splitlines() if line.startswith("GPU0")), "nothing")
        return f"radrm: {json.dumps(device.get('near'))}; topo: {' '.join(told.split())[:90]}"


def bench(mode: str) -> Any:
    """A step that measures one and two copies with `radrm bench collocate`."""

    def run(step: Step) -> str:
        command = step.radrm("bench", "collocate", "--json")
        command += ["--gpu", step.uuid, "--copies", "1,2", "--modes", mode, "--seconds", "8"]
        command += ["--step-pattern", r"step (\d+)", "--", step.python()]
        command += [str(PROGRAMS / "matmul.py"), "--size", "1024", "--memory", "1024"]
        folder = short_folder()
        environment = {**os.environ, "PYTHONPATH": _path(), "RADRM_CONFIG": "/dev/null"}
        environment["RADRM_HOME"] = str(folder)
        done = step.command(command, timeout_s=58, env=environment, cwd=folder)
        shutil.rmtree(folder, ignore_errors=True)
        step.check(done.returncode == 0, said(done))
        step.keep(f"bench-{mode}.json", done.stdout)
        document = json.loads(done.stdout)
        rounds = document["rounds"]
        step.record(rounds=rounds)
        copies = [each["copies"] for each in rounds]
        step.check(set(copies) >= {1, 2}, f"rounds of {copies} copies")
        two = next(each for each in rounds if each["copies"] == 2)
        for name in ("smact", "memory_mib", "throughput"):
            step.check(two[name] is not None, f"{name} was not measured")
        return (
            f"two copies: {two['throughput']:.2f} times the work of one, SMACT {two['smact']:.2f}, "
            f"{two['memory_mib']} MiB"
        )

    return run


# ------------------------------------------------------------------ helpers


def _rows(server: RealServer) -> list[tuple[str, Any]]:
    """The control daemons: pipes and pids."""
    return [(row["pipes"], row.get("pid")) for row in server.ask("mps") if row["state"] == "up"]


def _path() -> str:
    return os.pathsep.join(filter(None, [str(REPOSITORY), os.environ.get("PYTHONPATH", "")]))

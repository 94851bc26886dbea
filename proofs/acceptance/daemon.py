"""Steps with a daemon of radrm: what it does to jobs on a real GPU, and through a kill."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
from collections.abc import Iterator
from typing import Any

from proofs.acceptance.step import Step, lines_of, said
from tests.gpu.server import PROGRAMS, RealServer, short_folder
from tests.paths import REPOSITORY

PACKING = ("policy=first-fit", "policies.sharing.conditions=false")
_AS_CLIENT = ("--collocation=mps", "--gpu-memory=4G")


@contextlib.contextmanager
def running(step: Step, *settings: str, uuid: str | None = None) -> Iterator[RealServer]:
    """A daemon on the GPU, or on another; it and its MPS servers end with the step."""
    folder = short_folder()
    server = RealServer(folder / "0", uuid or step.uuid, step.python())
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


def term_handler(step: Step) -> str:
    """A client that handles TERM is told before its work is removed, so it can save."""
    with with_mps(step) as server:
        server.until(lambda: server.device()["mps"], "the GPU to be served by MPS")
        survivor = server.run("matmul.py", "--seconds", 25, options=_AS_CLIENT)
        saver = server.run("client.py", "--saves", "--seconds", 60, options=_AS_CLIENT)
        for job in (survivor, saver):
            server.until(lambda job=job: "step" in server.output(job), "a client's work")
        server.radrm("cancel", str(saver))
        ended = server.wait_end(saver)
        last = lines_of(server.output(saver))[-1]
        done = server.wait_end(survivor)
        step.record(saver=ended["state"], last=last, survivor=done["state"])
        step.check(last.get("saved"), f"its work was removed before it could save: {last}")
        step.check(ended["state"] == "CANCELLED", f"it ended {ended['state']}")
        step.check(done["state"] == "COMPLETED", f"the survivor ended {done['state']}")
        return f"a client with a handler saved after {last['steps']} steps; the other completed"


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
        matmul = [step.python(), str(PROGRAMS / "matmul.py"), "--size", "1024", "--memory", "1024"]
        rounds = _rounds(step, mode, ["--copies", "1,2"], matmul)
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


def bench_with(step: Step) -> str:
    """`radrm bench collocate --with`: two different programs, alone and together."""
    matmul = [step.python(), str(PROGRAMS / "matmul.py")]
    other = shlex.join([*matmul, "--busy", "0.3", "--size", "2048"])
    command = [*matmul, "--size", "1024", "--memory", "1024"]
    rounds = _rounds(step, "timeslice", ["--with", other], command)
    step.check(len(rounds) == 3, f"{len(rounds)} rounds, where each alone and both make 3")
    for each in rounds:
        for name in ("smact", "memory_mib"):
            step.check(each[name] is not None, f"{name} of programs {each['programs']} is missing")
    both = rounds[-1]
    step.check(both["throughput"] is not None, "the work of both together was not measured")
    slower = " and ".join(f"{each or 0:.2f}" for each in both["slowdowns"])
    return f"together {both['throughput']:.2f} times the work; the programs take {slower} times"


# ------------------------------------------------------------------ helpers


def _rounds(step: Step, mode: str, words: list[str], program: list[str]) -> list[dict[str, Any]]:
    """The rounds that `radrm bench collocate` measures, of 8 s each."""
    command = step.radrm("bench", "collocate", "--json", "--gpu", step.uuid)
    command += ["--modes", mode, "--seconds", "8", "--step-pattern", r"step (\d+)"]
    folder = short_folder()
    environment = {**os.environ, "PYTHONPATH": _path(), "RADRM_CONFIG": "/dev/null"}
    environment["RADRM_HOME"] = str(folder)
    command += [*words, "--", *program]
    done = step.command(command, timeout_s=100, env=environment, cwd=folder)
    shutil.rmtree(folder, ignore_errors=True)
    step.check(done.returncode == 0, said(done))
    step.keep(f"{step.name}.json", done.stdout)
    rounds: list[dict[str, Any]] = json.loads(done.stdout)["rounds"]
    step.record(rounds=rounds)
    return rounds


def _rows(server: RealServer) -> list[tuple[str, Any]]:
    """The control daemons: pipes and pids."""
    return [(row["pipes"], row.get("pid")) for row in server.ask("mps") if row["state"] == "up"]


def _path() -> str:
    return os.pathsep.join(filter(None, [str(REPOSITORY), os.environ.get("PYTHONPATH", "")]))

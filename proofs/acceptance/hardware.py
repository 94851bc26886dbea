"""Steps of part 4 for what only some machines have: MIG, several GPUs, containers, few CPUs."""

from __future__ import annotations

import json
import os
import re
import shutil
from typing import Any

from proofs.acceptance.daemon import PACKING, running, with_mps
from proofs.acceptance.first import masked, recorded
from proofs.acceptance.step import NotHere, Step, lines_of
from tests.gpu.server import PROGRAMS, RealServer
from tests.paths import REPOSITORY

IMAGE = "RADRM_ACCEPT_IMAGE"
"""Names a local container image whose `python3` has PyTorch: none is pulled."""
_ENGINES = ("docker", "podman")
_CAP_MIB = 2048
_HARD_CAP = f"--gpu-memory={_CAP_MIB}M:{_CAP_MIB}M"
"""A declared size alone lets a job grow into what is free."""
_FINAL = ("COMPLETED", "FAILED", "CANCELLED")
_RUN = "docker run --rm $RADRM_CONTAINER_ARGS --volume={tests}:{tests}:ro {image} python3 {client}"


def mig(step: Step) -> str:
    """MIG instances: what the driver answers of each, and a job on one."""
    listed = step.smi("-L")
    uuids = re.findall(r"MIG-[0-9a-f-]+", listed)
    if not uuids:
        raise NotHere("no GPU is cut into MIG instances")
    step.keep("nvidia-smi-L-mig.txt", listed)
    step.keep("nvidia-smi-mig.xml", masked(step.smi("-q", "-x")))
    step.keep("nvml-mig.json", recorded(step))
    with running(step, uuid=uuids[0]) as server:
        rows = {row["uuid"]: row for row in server.ask("gpus") if row["kind"] == "mig"}
        step.record(instances=rows)
        step.check(set(rows) == set(uuids), f"nvidia-smi lists {uuids}, radrm {sorted(rows)}")
        job = server.run("matmul.py", "--seconds", 8, "--memory", 512)
        server.until(lambda: "step" in server.output(job), "the job's work")
        held = server.until(lambda: _held(server, job, 512), "its memory")
        others = [row for row in server.ask("gpus") if row["kind"] == "mig"]
        step.record(during=others)
        taken = [each["uuid"] for each in others if each["unmanaged"]]
        done = server.wait_end(job)
        step.record(probe=server.report(job))
        step.check(done["state"] == "COMPLETED", f"the job ended {done['state']}")
        step.check(held == "held", "its memory does not show on its instance")
        step.check(not taken, f"{taken} look as if others used them")
    sizes = sorted({row["total_mib"] for row in rows.values()})
    return f"{len(rows)} instances of {sizes} MiB; a job on one shows on no other"


def several(step: Step) -> str:
    """Several GPUs: what connects them, numbers of GPUs, and caps by number."""
    uuids = re.findall(r"^GPU \d+.*UUID: (GPU-[0-9a-f-]+)", step.smi("-L"), re.M)
    if len(uuids) < 2:
        raise NotHere("there is one GPU")
    topology = step.command(["nvidia-smi", "topo", "-m"], timeout_s=20).stdout
    step.keep("nvidia-smi-topo.txt", topology)
    step.keep("nvidia-smi-nvlink.txt", step.command(["nvidia-smi", "nvlink", "-s"]).stdout)
    step.keep("nvml-several.json", recorded(step))
    second = uuids[1]
    # Isolation gives a job numbers of its own, from 0: `devices` tries that.
    settings = ("gpus.isolate=false", "mps.enabled=true")
    with running(step, *PACKING, *settings, uuid=second) as server:
        near = {row["index"]: row["near"] for row in server.ask("gpus")}
        step.record(near=near, topology=topology.splitlines())
        options = ("--device-ids=index", "--gpu-memory=4G", "--collocation=timeslice")
        job = server.run("matmul.py", "--seconds", 6, "--memory", 1024, options=options)
        held = server.until(lambda: _held(server, job, 1024), "its memory on the second GPU")
        numbered = server.wait_end(job)
        number = server.report(job)["devices"]
        step.record(index=number, held=held)
        step.check(held == "held", f"the number {number} is not the second GPU: no memory there")
        step.check(numbered["state"] == "COMPLETED", f"by index it ended {numbered['state']}")
        server.until(lambda: server.device()["mps"], "the GPU to be served by MPS")
        options = ("--collocation=mps", _HARD_CAP)
        capped = server.run("client.py", "--until-oom", options=options)
        server.wait_end(capped)
        told = lines_of(server.output(capped))
        step.record(capped=told, rows=server.ask("mps"))
        step.check(told and "held_mib" in told[-1], f"the client of the second GPU said {told}")
        least, most = _CAP_MIB // 2, _CAP_MIB
        step.check(least < told[-1]["held_mib"] <= most, f"its cap does not bind: {told}")
    wrong = unlike(topology, near)
    step.check(not wrong, f"nvidia-smi topo and radrm differ on NVLink: {wrong}")
    return f"{len(uuids)} GPUs; a job on the second has the number {number}, and its cap binds"


def unlike(topology: str, near: dict[int, dict[str, Any]]) -> list[str]:
    """The pairs of GPUs with NVLink for `nvidia-smi topo -m` (NV#) alone, or for radrm alone."""
    rows = [line.split() for line in topology.splitlines() if re.match(r"GPU\d+\s", line)]
    found = []
    for one, cells in enumerate(rows):
        for two in range(one + 1, len(rows)):
            word = cells[two + 1] if two + 1 < len(cells) else "nothing"
            mine = near.get(one, {})
            group = mine.get("nvlink_group")
            linked = group is not None and group == near.get(two, {}).get("nvlink_group")
            linked = linked or str(two) in (mine.get("nvlinks") or {})
            if word.startswith("NV") != linked:
                found.append(f"GPU {one} and {two}: {word}, radrm {mine}")
    return found


def containers(step: Step) -> str:
    """A container as a client of MPS: whose it is, and its cap."""
    engine = next(filter(shutil.which, _ENGINES), None)
    if engine is None:
        raise NotHere("there is neither Docker nor Podman")
    image = os.environ.get(IMAGE)
    if image is None:
        raise NotHere(f"{IMAGE} names no local image with PyTorch")
    client = f"{PROGRAMS}/client.py --seconds 12"
    command = _RUN.format(tests=REPOSITORY / "tests", image=image, client=client)
    with with_mps(step) as server:
        server.until(lambda: server.device()["mps"], "the GPU to be served by MPS")
        script = server.file("job.sh", f"#!/bin/sh\n{command.replace('docker', engine, 1)}\n")
        options = ("--collocation=mps", _HARD_CAP)
        options += (f"--env=RADRM_CONTAINER_ENGINE={engine}",)
        job = server.submit(*options, "--", "sh", str(script))
        server.until(
            lambda: _clients(server.ask("mps")) or server.job(job)["state"] in _FINAL, "a client"
        )
        clients = _clients(server.ask("mps"))
        step.record(rows=server.ask("mps"), device=server.device(), begun=server.output(job))
        owners = {pid: _owner(pid) for pid, _ in clients}
        done = server.wait_end(job)
        step.record(owners=owners, ended=done["state"], errors=server.output(job, "err")[-2000:])
        step.check(done["state"] == "COMPLETED", f"the job ended {done['state']}")
        step.check(job in [each for _, each in clients], f"MPS has the clients {clients}")
        first = lines_of(server.output(job))[0]
        step.check(first["limit"], "the container has no cap")
        return f"a container of {engine} is the job's MPS client, its cap {first['limit']}"


def one_cpu(step: Step) -> str:
    """What the driver says of CPUs near the GPU to a process that may use one CPU only."""
    whole = _affinities(step)
    may = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, may[:1])
    alone = _affinities(step)
    step.record(cpus=may, whole=whole, alone=alone)
    with running(step) as server:
        near = server.device()["near"]
        job = server.submit("--gpus=1", "--", "grep", "Cpus_allowed_list", "/proc/self/status")
        done = server.wait_end(job)
        allowed = server.output(job).split()[-1:]
        step.record(near=near, allowed=allowed, cpu_list=done.get("cpu_list"))
    step.check(near["numa_cpus"] in (None, str(may[0])), f"radrm says {near['numa_cpus']}")
    step.check(allowed == [str(may[0])], f"a job may use {allowed}")
    same = "the same" if whole == alone else "something else"
    return f"on one CPU the driver says {same}; radrm keeps to CPU {may[0]}"


# ------------------------------------------------------------------ helpers


def _affinities(step: Step) -> dict[str, Any]:
    """What the driver says of CPUs and memory near each GPU."""
    document = json.loads(recorded(step))
    answers = enumerate([document["every"], *document["gpus"]])
    return {
        f"{at} {call}": a for at, each in answers for call, a in each.items() if "Affinity" in call
    }


def _held(server: RealServer, job: int, mib: int) -> str | None:
    """`held` once the GPU has so much in use, `ended` after the job, None before."""
    if (server.device()["used_mib"] or 0) > mib:
        return "held"
    return "ended" if server.job(job)["state"] in _FINAL else None


def _clients(rows: list[dict[str, Any]]) -> list[tuple[int, int | None]]:
    """The clients of all control daemons: pid and job."""
    servers = [server for row in rows for server in row["servers"]]
    return [(each["pid"], each["job"]) for server in servers for each in server["clients"]]


def _owner(pid: int) -> int | None:
    try:
        return os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return None

"""`radrm pilot --here`: the batch process of a pilot's Slurm job."""

from __future__ import annotations

import json
import math
import os
import shlex
import sys
from collections.abc import Mapping, Sequence

from radrm.core.records import Device
from radrm.errors import Refused, UsageError, plain
from radrm.host.gpus.readings import open_gpus
from radrm.host.wall import wall_s
from radrm.slurm.asking import run
from radrm.slurm.outer import cluster_config, moment, shown, this_job
from radrm.slurm.pilot.running import Pilot
from radrm.slurm.pilot.server import Server, make_home
from radrm.slurm.pilot.shared import Shared, shared_root

# ------------------------------------------------------------------
# Which GPUs Slurm has given to the job of a pilot.
#
# Theory of operation. Slurm numbers GPUs as the files of the driver are (/dev/nvidia0...), and puts
# the numbers of a job's into CUDA_VISIBLE_DEVICES and SLURM_JOB_GPUS. With `ConstrainDevices` of
# cgroup.conf the driver shows a job its own GPUs alone, and CUDA_VISIBLE_DEVICES counts from 0:
# then all that it shows are the job's. Else it shows all GPUs of the node, and the numbers choose.
#
# Source: https://slurm.schedmd.com/gres.html, "GPU Management", and sbatch(1), SLURM_JOB_GPUS.


_MOST = 1024


def given(devices: Sequence[Device], environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the UUIDs of the devices of a Slurm job among all that the driver shows.

    Raises `Refused` if there are none, or which they are is unknown.
    """
    visible = _words(environ.get("CUDA_VISIBLE_DEVICES", ""))
    if not visible or visible == ["NoDevFiles"]:
        raise Refused("this Slurm job has no GPU; ask for some: radrm pilot --gpus 2")
    if not all(word.isdecimal() for word in visible):
        return tuple(_named(word, devices) for word in visible)
    roots = sorted({device.parent or device.uuid for device in devices})
    if len(visible) in (len(devices), len(roots)):
        return tuple(device.uuid for device in devices)
    numbers = _words(environ.get("SLURM_JOB_GPUS", "")) or visible
    return tuple(_numbered(word, devices) for word in numbers)


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",")[:_MOST] if word.strip()]


def _named(word: str, devices: Sequence[Device]) -> str:
    for device in devices:
        if device.uuid.startswith(word):
            return device.uuid
    raise Refused(f"Slurm has given GPU {plain(word[:60])}, which the driver does not show here")


def _numbered(word: str, devices: Sequence[Device]) -> str:
    for device in devices:
        number = device.index if device.minor is None else device.minor
        if device.parent is None and word == str(number):
            return device.uuid
    raise Refused(
        f"Slurm has given GPU {plain(word[:20])}, and the driver shows none of this number here"
    )


# ------------------------------------------------------------------
# The Slurm job of a pilot: an ordinary one, with whole GPUs.


NAME = "radrm-pilot"
_SBATCH_S = 60.0


def words_of(
    shared: Shared,
    gpus: int | None,
    time_s: float,
    partition: str | None = None,
    more: Sequence[str] = (),
) -> list[str]:
    """Return the options of sbatch for a pilot. `gpus` None: none, for simulated ones. `more` are
    other options of sbatch. Raises `UsageError`."""
    if any(not word.startswith("-") for word in more[:1]):
        raise UsageError(f"{more[0][:40]!r} is no option of sbatch, as --account=NAME")
    words = ["--parsable", f"--job-name={NAME}", "--nodes=1", "--ntasks=1", "--no-requeue"]
    words.append(f"--time={max(1, math.ceil(time_s / 60))}")
    if gpus is not None:
        words.append(f"--gres=gpu:{gpus}")
    if partition:
        words.append(f"--partition={partition}")
    return [*words, f"--output={shared.logs}/%j.out", *more]


def script_of(words: Sequence[str]) -> str:
    """Return the batch script. `words` are options of `radrm pilot --here`."""
    command = [sys.executable, "-m", "radrm.cli.main", "pilot", "--here", *words]
    return f"#!/bin/sh\nexec {shlex.join(command)}\n"


def submit(words: Sequence[str], script: str) -> str:
    """Submit a pilot; return Slurm's id for it. Raises what Slurm says, word for word."""
    printed = run("sbatch", *words, timeout_s=_SBATCH_S, input_text=script)
    return printed.strip().partition(";")[0]


def own_jobs() -> dict[str, dict[str, str]]:
    """Return this user's Slurm jobs that have not ended, by their number: name, state, node, end.

    Raises `RadrmError`.
    """
    printed = run("squeue", "--noheader", "--me", "--format=%A\x1f%T\x1f%N\x1f%e\x1f%j")
    rows = (line.split("\x1f", 4) for line in printed.splitlines())
    keys = ("state", "node", "end", "name")
    return {row[0]: dict(zip(keys, row[1:], strict=True)) for row in rows if len(row) == 5}


_OUTSIDE = (
    "radrm pilot --here runs inside a job of Slurm, and this is none; start one: "
    "radrm pilot --gpus 2 --time 8h"
)
_LONGEST_MARGIN_S, _MARGIN = 120.0, 0.1


def until_of(end_s: float | None, now_s: float) -> float | None:
    """Return until when jobs may run in a Slurm job that ends at `end_s`: two minutes before that,
    or a tenth of a short one."""
    if end_s is None:
        return None
    return end_s - min(_LONGEST_MARGIN_S, max(0.0, _MARGIN * (end_s - now_s)))


def main(simulated: str | None, idle_s: float | None) -> int:
    """Run the pilot in the Slurm job of this process. `simulated`: GPUs in place of real ones.
    Returns the exit code. Raises `RadrmError`."""
    job = this_job(os.environ, _OUTSIDE)
    end_s = moment(shown(job.id).get("EndTime", ""))
    shared = Shared(shared_root(os.environ))
    shared.make()
    words = ["--set", "slurm.enabled=false", *host_words(os.environ)]
    if simulated is not None:
        words += ["--gpus", simulated]
    else:
        source = open_gpus(cluster_config(os.environ).readings)
        try:
            own = given(source.devices(), os.environ)
        finally:
            source.close()
        words += ["--set", f"gpus.only={json.dumps(own)}"]
    shared.make_pilot(job.id)
    home = make_home(job.id, f"{shared.of(job.id)}/checkpoints")
    server = Server(home, words)
    until_s = until_of(end_s, wall_s())
    return Pilot(shared, job.id, job.node, server, until_s, idle_s, own_ids).run()


def host_words(environ: Mapping[str, str]) -> list[str]:
    """Return the settings of the CPUs and the host memory that Slurm has given."""
    cpus, per_node, per_cpu = (
        int(text) if (text := environ.get(name, "")).isascii() and text.isdigit() else 0
        for name in ("SLURM_CPUS_ON_NODE", "SLURM_MEM_PER_NODE", "SLURM_MEM_PER_CPU")
    )
    mib = per_node or per_cpu * cpus
    words = ["--set", f"node.cpus={cpus}"] if cpus else []
    return [*words, "--set", f"node.memory={mib}"] if mib else words


def own_ids() -> set[str]:
    """Return the numbers of this user's Slurm jobs that have not ended. Raises `RadrmError`."""
    return set(own_jobs())

"""Steps of part 1: the driver, its programs, and what radrm reads of them."""

from __future__ import annotations

import itertools
import json
import os
import re
import selectors
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from proofs.acceptance.step import NO_HOME, Step, lines_of, said
from tests.gpu import smi

COMMANDS = ("nvidia-cuda-mps-control", "nvidia-cuda-mps-server", "dcgmi", "systemctl", "docker")
NOBODY = 65534
_NEEDED = (
    "nvmlDeviceGetUUID",
    "nvmlDeviceGetName",
    "nvmlDeviceGetMemoryInfo",
    "nvmlDeviceGetUtilizationRates",
)
_SMACT = "nvmlGpmMetricsGet 2"
_TORCH = """
import json, torch
print(json.dumps({"version": str(getattr(torch, "__version__", None)),
    "cuda": torch.cuda.is_available(), "built_for": getattr(torch, "version", None)
    and torch.version.cuda}))
"""
_MAY_LACK = re.compile(r"systemd|cgroup|time service|lingering|MPS|DCGM|memory limits", re.I)
"""Checks of `doctor` that may fail in a container without systemd."""


def facts(step: Step) -> str:
    """What machine this is; the outputs of nvidia-smi as fixtures."""
    listed = step.smi("-L")
    step.check("GPU 0" in listed, "nvidia-smi lists no GPU")
    step.keep("nvidia-smi.txt", step.smi())
    step.keep("nvidia-smi-L.txt", listed)
    step.keep("nvidia-smi.xml", masked(step.smi("-q", "-x")))
    step.keep("nvidia-smi.csv", step.smi(f"--query-gpu={smi.QUERY}", "--format=csv"))
    topology = step.command(["nvidia-smi", "topo", "-m"], timeout_s=20)
    step.keep("nvidia-smi-topo.txt", topology.stdout)
    step.record(
        python=sys.version.split()[0],
        torch=_torch(step),
        kernel=os.uname().release,
        uid=os.geteuid(),
        cpus=len(os.sched_getaffinity(0)),
        host_memory_mib=_host_memory_mib(),
        cgroup=step.command(["stat", "-fc", "%T", "/sys/fs/cgroup"]).stdout.strip(),
        own_cgroup=_read("/proc/self/cgroup"),
        profiling=_line("/proc/driver/nvidia/params", "RmProfilingAdminOnly"),
        driver=_read("/proc/driver/nvidia/version").splitlines()[:1],
        dmem=_read("/sys/fs/cgroup/dmem.capacity"),
        devices=sorted(str(path) for path in Path("/dev").glob("nvidia*")),
        found={name: shutil.which(name) for name in COMMANDS},
        fields=step.smi(
            "--query-gpu=driver_version,name,compute_mode,persistence_mode,mig.mode.current,"
            "power.limit,clocks.max.sm",
            "--format=csv",
        ),
    )
    mps = "with MPS" if shutil.which(COMMANDS[0]) else "without MPS: part 2 cannot run"
    return f"{listed.splitlines()[0]}, {mps}"


def nvml_root(step: Step) -> str:
    """Every call of NVML that radrm leans on, recorded while radrm makes them."""
    found = _asked(step, "nvml-root.json")
    for name in _NEEDED:
        answers = [answer for call, answer in found.items() if call.split()[0] == name]
        step.check(any("is" in answer for answer in answers), f"{name}: {answers}")
    errors = {call: answer["error"] for call, answer in found.items() if "error" in answer}
    step.record(errors=errors)
    code, value = found.get(_SMACT, {}).get("is", (None, None))
    step.check(code == 0, f"GPM gives no SM activity: {found.get(_SMACT)}")
    return f"{len(found) - len(errors)} calls answer, {len(errors)} do not; GPM reads {value} %"


def nvml_nobody(step: Step) -> str:
    """The same without rights: whether GPM needs them."""
    step.check(os.geteuid() == 0, "only root can become another user")
    found = _asked(step, "nvml-nobody.json", str(NOBODY))
    gpm = {call: answer for call, answer in found.items() if call.startswith("nvmlGpm")}
    step.record(gpm=gpm)
    errors = [answer["error"] for answer in gpm.values() if "error" in answer]
    if errors:
        return f"a user without rights cannot read GPM: error {errors[0]}"
    step.check(_SMACT in gpm, f"no answer of GPM: {gpm}")
    code, value = gpm[_SMACT]["is"]
    return f"a user without rights reads GPM: return code {code}, {value} %"


def doctor(step: Step) -> str:
    """`radrm doctor` fails for nothing but what a virtual machine lacks."""
    done = step.command(step.radrm("doctor", "--json"))
    step.check(done.stdout.startswith(("[", "{")), f"radrm doctor: {said(done)}")
    step.keep("doctor.json", done.stdout)
    document = json.loads(done.stdout)
    rows = document if isinstance(document, list) else document["checks"]
    (gpus,) = [row for row in rows if row["check"] == "GPUs"]
    step.check(gpus["level"] == "ok", f"GPUs: {gpus['finding']}")
    failed = [f"{row['check']}: {row['finding']}" for row in rows if row["level"] == "fail"]
    wrong = [each for each in failed if not _MAY_LACK.search(each)]
    step.check(not wrong, "; ".join(wrong))
    warned = sum(row["level"] == "warn" for row in rows)
    return f"{len(rows)} checks, {warned} warnings, {len(failed)} failures that may be"


def smi_streams(step: Step) -> str:
    """nvidia-smi prints line by line into a pipe, as radrm reads it."""
    query = ["--query-gpu=uuid,memory.used", "--format=csv,noheader,nounits", "-lms", "1000"]
    times = _times_of(["nvidia-smi", *query], 5.0, b"")
    step.record(line_times=times)
    apart = [b - a for a, b in itertools.pairwise(times)]
    spread = [each for each in apart if each > 0.5]
    step.check(len(spread) >= 2, f"the lines come in one piece: {times}")
    rounds = _times_of(["nvidia-smi", "-q", "-x", "-l", "2"], 7.0, b"</nvidia_smi_log>")
    step.record(xml_times=rounds)
    step.check(len(rounds) > 1, f"XML rounds in 7 s: {len(rounds)}")
    return f"{len(times)} lines in 5 s, {len(rounds)} rounds of XML in 7 s"


# ------------------------------------------------------------------ helpers


def masked(xml: str) -> str:
    """Without the numbers that tell whose GPU it is."""
    return re.sub(r"(<(?:serial|board_id|gpu_part_number)>)[^<]*", r"\g<1>0", xml)


def _torch(step: Step) -> dict[str, Any]:
    """What PyTorch says of itself and the GPU."""
    done = step.command([step.python(), "-c", _TORCH], timeout_s=80)
    step.check(done.returncode == 0, f"PyTorch: {said(done)}")
    found: dict[str, Any] = lines_of(done.stdout)[-1]
    step.check(found["cuda"], f"the PyTorch of {step.python()} sees no CUDA device")
    return found


def recorded(step: Step, *user: str) -> str:
    """What radrm asks of NVML and gets, as the stand-ins of tests/standins play it."""
    words = [sys.executable, "-m", "tests.standins.layouts.record", "--here", *user]
    done = step.command(words, timeout_s=20, env={**os.environ, "HOME": NO_HOME})
    step.check(done.returncode == 0, f"the recording of NVML: {said(done)}")
    return done.stdout


def _asked(step: Step, name: str, *user: str) -> dict[str, Any]:
    """The answers of the driver and of the first GPU, by call."""
    text = recorded(step, *user)
    step.keep(name, text)
    document = json.loads(text)
    return {**document["system"], **document["every"], **document["gpus"][0]}


def _times_of(command: list[str], seconds: float, ending: bytes) -> list[float]:
    """When each line that has `ending` came through a pipe, in seconds after the start."""
    began, found = time.monotonic(), []
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    os.set_blocking(process.stdout.fileno(), False)
    with selectors.DefaultSelector() as selector, process:
        selector.register(process.stdout, selectors.EVENT_READ)
        while (left := began + seconds - time.monotonic()) > 0:
            if not selector.select(left):
                break
            data = os.read(process.stdout.fileno(), 1 << 20)
            if not data:
                break
            now = round(time.monotonic() - began, 2)
            found += [now for line in data.splitlines() if ending in line]
        process.kill()
    return found


def _read(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace").strip()[:2000]
    except OSError as error:
        return f"cannot be read: {error.strerror}"


def _line(path: str, word: str) -> str:
    return next((line for line in _read(path).splitlines() if word in line), "not told")


def _host_memory_mib() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20

"""`radrm demo`: real processes queue, share, crash and recover on software GPUs.

A private daemon in a folder of its own, four modelled A100s, a clock that runs
fast, and a dozen jobs with the memory, SM activity and relative length of those
in RAD-RM's evaluation (thesis, Table 6.2). It succeeds only if every job did, and
one of them by recovery from an out-of-memory crash.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from radrm.cli.client import Client
from radrm.cli.exits import FINAL
from radrm.cli.render import devices_table, jobs_table, out
from radrm.core.units import show_mib, show_seconds
from radrm.errors import DeviceError, Unreachable
from radrm.host.paths import Paths, paths_for
from radrm.host.software.client import DriverClient
from radrm.host.software.source import SOCKET_NAME

GPUS = "sim:4xA100-40GB"
TIME_SCALE = 60.0
LIMIT_S = 85.0
_REFRESH_S = 0.25


@dataclass(frozen=True)
class Model:
    """A training job: peak MiB per GPU, SM activity alone, modelled seconds alone.

    `declared_mib` is what its file says, where that is not the truth.
    """

    name: str
    memory_mib: int
    smact: float
    seconds: float
    batch_size: int = 32
    family: str = "cnn"
    gpus: int = 1
    declared_mib: int | None = None


MODELS = (
    Model("inception", 19018, 0.62, 900, 128),
    Model("xlnet-large", 14546, 0.60, 1000, 8, "transformer", gpus=2),
    Model("vgg16", 24408, 0.45, 800, 128, "vgg", declared_mib=6000),
    Model("efficientnet", 7844, 0.45, 700, 64),
    Model("mobilenet", 4544, 0.34, 700, 32),
    Model("bert-base", 20774, 0.91, 400, 32, "transformer"),
    Model("resnet50", 5262, 0.62, 700, 32),
    Model("resnet18-cifar100", 1960, 0.30, 500, 32, "light"),
    Model("mnist", 1776, 0.07, 120, 32, "tiny"),
    Model("resnet34-cifar100", 2190, 0.35, 500, 128, "light"),
    Model("xception", 11520, 0.60, 700, 64),
    Model("mobilenet-cifar100", 1824, 0.20, 400, 128, "light"),
)
LIAR = "vgg16"
"""The one that declares far too little memory."""


def demo() -> None:
    """Show it all once on software GPUs, in half a minute."""
    console = out()
    console.print(
        f"Four modelled GPUs ({GPUS}), {len(MODELS)} jobs, a clock at {TIME_SCALE:.0f}x. "
        f"Job {LIAR} declares too little memory: it will crash and be recovered.\n"
    )
    with _private_home() as home, _private_daemon(home) as client:
        began = time.monotonic()
        _submit_all(home)
        documents, sharers = _watch(client, console, began)
        seconds = time.monotonic() - began
        good = _tell(client, console, documents, sharers, seconds)
    raise typer.Exit(0 if good else 1)


# ------------------------------------------------------------------ setting up


@contextlib.contextmanager
def _private_home() -> Iterator[Path]:
    """A folder for this demo's daemon and jobs; the environment leads there meanwhile."""
    home = Path(tempfile.mkdtemp(prefix="radrm-demo-"))
    (home / "work").mkdir()
    bin_folder = Path(sys.executable).parent
    before = {name: os.environ.get(name) for name in ("RADRM_HOME", "RADRM_CONFIG", "PATH")}
    os.environ["RADRM_HOME"] = str(home / "state")
    os.environ.pop("RADRM_CONFIG", None)
    os.environ["PATH"] = f"{bin_folder}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    try:
        yield home
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        shutil.rmtree(home, ignore_errors=True)


@contextlib.contextmanager
def _private_daemon(home: Path) -> Iterator[Client]:
    command = [sys.executable, "-m", "radrm.cli.main", "daemon"]
    command += ["--gpus", GPUS, "--time-scale", str(TIME_SCALE), "--set", "mps.enabled=true"]
    paths = paths_for(os.environ, os.getuid())
    log = home / "daemon.log"
    with log.open("wb") as file:
        daemon = subprocess.Popen(command, stdout=file, stderr=file, stdin=subprocess.DEVNULL)
    client = Client((paths,))
    try:
        _await_daemon(client, daemon, log)
        yield client
    except Unreachable:
        print(log.read_text(errors="replace"), file=sys.stderr)
        raise
    finally:
        client.close()
        daemon.send_signal(signal.SIGTERM)
        daemon.wait()
        _end_driver(paths)


def _await_daemon(client: Client, daemon: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 20.0
    while True:
        try:
            client.connect()
            return
        except Unreachable:
            if daemon.poll() is not None or time.monotonic() > deadline:
                lines = log.read_text(errors="replace").splitlines()
                raise DeviceError(
                    f"the demo's daemon did not start: {lines[-1] if lines else 'it said nothing'}"
                ) from None
            time.sleep(0.05)


def _end_driver(paths: Paths) -> None:
    """It would end by itself after a minute; a demo leaves nothing behind."""
    with contextlib.suppress(DeviceError, Unreachable, OSError):
        driver = DriverClient(Path(paths.run) / SOCKET_NAME, 5.0)
        try:
            driver.ask("quit")
        finally:
            driver.close()


def _submit_all(home: Path) -> None:
    """As a user would: job files, one `radrm submit`."""
    for model in MODELS:
        declared = model.memory_mib if model.declared_mib is None else model.declared_mib
        (home / "work" / f"{model.name}.rad").write_text(
            "#!/usr/bin/env bash\n"
            f"#RAD --gpus={model.gpus} --gpu-memory={declared} --smact={model.smact}\n"
            f"exec radrm-simjob --gpu-memory {model.memory_mib} --smact {model.smact} "
            f"--seconds {model.seconds:g} --ramp 30 --gpus {model.gpus} "
            f"--family {model.family} --batch-size {model.batch_size}\n"
        )
    files = [f"{model.name}.rad" for model in MODELS]
    subprocess.run(
        [sys.executable, "-m", "radrm.cli.main", "submit", *files],
        cwd=home / "work",
        check=True,
        stdout=subprocess.DEVNULL,
    )


# ------------------------------------------------------------------ watching


def _watch(
    client: Client, console: Console, began: float
) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """Until all have ended: their documents, and the most jobs seen on each device."""
    sharers: dict[str, int] = {}
    seen: dict[int, str] = {}
    live = Live(console=console, auto_refresh=False) if console.is_terminal else None
    with live or contextlib.nullcontext():
        while True:
            jobs = client.ask("status", all=True)
            devices = client.ask("gpus")
            now = client.ask("ping")["now"]
            for device in devices:
                uuid, count = device["uuid"], len(device["jobs"])
                sharers[uuid] = max(sharers.get(uuid, 0), count)
            if live is not None:
                view = Group(devices_table(devices), Text(""), jobs_table(jobs, devices, now))
                live.update(view, refresh=True)
            else:
                _say_changes(console, jobs, devices, seen, began)
            over = len(jobs) == len(MODELS) and all(j["state"] in FINAL for j in jobs)
            if over or time.monotonic() - began > LIMIT_S:
                return jobs, sharers
            time.sleep(_REFRESH_S)


def _say_changes(
    console: Console,
    jobs: list[dict[str, Any]],
    devices: list[dict[str, Any]],
    seen: dict[int, str],
    began: float,
) -> None:
    """Where there is no terminal to draw on: a line for each change."""
    index = {d["uuid"]: str(d["index"]) for d in devices}
    for job in jobs:
        said = f"{job['state']}.{job['attempts']}"
        if seen.get(job["id"]) != said:
            seen[job["id"]] = said
            where = ",".join(index[uuid] for uuid in job["devices"])
            running = job["state"] in ("LAUNCHING", "RUNNING")
            what = f"on GPU {where}" if running else job["reason"] or ""
            console.print(
                f"{time.monotonic() - began:5.1f}s  job {job['id']:>2} "
                f"{job['name']:<20} {job['state']:<10} {what}"
            )


# ------------------------------------------------------------------ telling


def _tell(
    client: Client,
    console: Console,
    jobs: list[dict[str, Any]],
    sharers: dict[str, int],
    seconds: float,
) -> bool:
    """What happened, and what to type next. True if all went as it should."""
    if not console.is_terminal:
        console.print()
        console.print(jobs_table(jobs, client.ask("gpus"), client.ask("ping")["now"]))
    done = [j for j in jobs if j["state"] == "COMPLETED"]
    recovered = [j for j in done if j["oom_count"]]
    modelled = seconds * TIME_SCALE
    console.print(
        f"\n{len(done)} of {len(MODELS)} jobs completed in {seconds:.0f} s "
        f"({show_seconds(modelled)} of modelled time); "
        f"at most {max(sharers.values(), default=0)} jobs shared a GPU."
    )
    for job in recovered:
        console.print(
            f"{job['name']} declared {show_mib(job['estimate_mib'])} and needed "
            f"{show_mib(job['peak_mib'])}: it died of GPU out-of-memory, went first in line, "
            "got a GPU of its own, and completed."
        )
    good = len(done) == len(MODELS) and bool(recovered)
    if not good:
        for job in jobs:
            if job["state"] != "COMPLETED":
                console.print(f"job {job['id']} {job['name']}: {job['state']}: {job['reason']}")
        console.print("[bold red]The demo failed.[/] Please report what you see above.")
        return False
    console.print(
        "\nNext, with a daemon of your own:\n"
        f"  radrm daemon --gpus {GPUS} --time-scale 60   (on a GPU server: radrm daemon)\n"
        "  radrm submit --gpu-memory=8G -- radrm-simjob --gpu-memory 8G --seconds 300\n"
        "  radrm status      radrm gpus      radrm logs 1\n"
        "A job file's options: radrm submit --help"
    )
    return True

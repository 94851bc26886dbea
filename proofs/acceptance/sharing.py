"""Steps of part 2: CUDA's MPS without radrm, on a control daemon of the step's own.

They settle what NVIDIA's documents leave open and radrm is built on. The compute mode stays as
it is.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from proofs.acceptance.first import NOBODY, recorded
from proofs.acceptance.step import NO_HOME, Failed, Step, lines_of
from radrm.host.mps.control import MULTIUSER
from radrm.host.mps.service import LIMIT_S
from radrm.oom import Exit, classify
from tests.gpu.server import short_folder

CONTROL = "nvidia-cuda-mps-control"
IDLE_MIB = 256
"""`core.idle_unmanaged_mib`: an idle server must hold less."""
_PAIRS = 25
_OTHERS = ("expandable_segments:True", "backend:cudaMallocAsync")
"""Settings of PyTorch's allocator that a cap must bind, too."""


class Mps:
    """A control daemon in a short folder; ended with its servers when the step ends."""

    def __init__(self, step: Step, options: tuple[str, ...] = ()) -> None:
        self.step = step
        self.folder = short_folder()
        self.folder.chmod(0o755)  # clients of other users must reach it
        for name in ("p", "l"):
            (self.folder / name).mkdir(mode=0o755)
        self.environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith("CUDA_")},
            "CUDA_MPS_PIPE_DIRECTORY": str(self.folder / "p"),
            "CUDA_MPS_LOG_DIRECTORY": str(self.folder / "l"),
            "CUDA_VISIBLE_DEVICES": step.uuid,
        }
        done = step.command([CONTROL, "-d", *options], env=self.environment, timeout_s=20)
        self.refused = done.stderr.strip() or done.stdout.strip() if done.returncode else None

    def ask(self, command: str, timeout_s: float = 30.0) -> str:
        return self.step.command(
            [CONTROL], input=f"{command}\n", env=self.environment, timeout_s=timeout_s
        ).stdout

    def servers(self) -> list[str]:
        return [word for word in self.ask("get_server_list").split() if word.isdecimal()]

    def status(self) -> str:
        """Of the first server."""
        found = self.servers()
        return self.ask(f"get_server_status {found[0]}").strip() if found else "none"

    def pid(self) -> int | None:
        with contextlib.suppress(OSError, ValueError):
            return int((self.folder / "p" / f"{CONTROL}.pid").read_text())
        return None

    def close(self) -> float:
        """End it; how long `quit` took, in seconds."""
        pid, began = self.pid(), time.monotonic()
        if pid is not None:
            self.ask("quit")
            self.step.until(lambda: not os.path.exists(f"/proc/{pid}"), "the control daemon's end")
        took = time.monotonic() - began
        for log in (self.folder / "l").glob("*.log"):
            text = log.read_text(errors="replace")
            self.step.keep(f"{self.step.name}-{log.name}", text[-20_000:])
        shutil.rmtree(self.folder, ignore_errors=True)
        return took


@contextlib.contextmanager
def served(step: Step, *options: str) -> Iterator[Mps]:
    step.check(shutil.which(CONTROL), f"no {CONTROL} here")
    mps = Mps(step, options)
    try:
        step.check(mps.refused is None, f"{CONTROL} does not start: {mps.refused}")
        yield mps
    finally:
        mps.close()


class Client:
    """A running `client.py`, and what it has said."""

    def __init__(self, mps: Mps, *words: object, user: int | None = None, **variables: str) -> None:
        self.step = mps.step
        self.log = mps.step.folder / "logs" / f"{mps.step.name}-client-{time.monotonic_ns()}.log"
        environment = {**mps.environment, **variables}
        if user is not None:
            words = (*words, "--user", user)
            environment["HOME"] = NO_HOME
        with self.log.open("wb") as out:
            self.process = subprocess.Popen(
                self.step.program("client.py", *words),
                stdout=out,
                stderr=out,
                env=environment,
                cwd="/",
            )

    @property
    def pid(self) -> int:
        return self.process.pid

    def text(self) -> str:
        return self.log.read_text(errors="replace")

    def facts(self) -> dict[str, Any]:
        """All that it has said, a later line over an earlier one."""
        found: dict[str, Any] = {}
        for line in lines_of(self.text()):
            found.update(line)
        return found

    def begun(self) -> dict[str, Any]:
        """Its first line: its context, or why it has none."""
        self.step.until(
            lambda: "init_s" in self.text() or self.process.poll() is not None, "a client to begin"
        )
        return self.facts()

    def at_work(self) -> None:
        self.step.until(
            lambda: "step 1" in self.text() or self.process.poll() is not None, "a client's work"
        )

    def end(self, patience_s: float = 55.0) -> dict[str, Any]:
        try:
            self.process.wait(patience_s)
        except subprocess.TimeoutExpired:
            raise Failed(f"a client did not end within {patience_s:g} s") from None
        return {**self.facts(), "code": self.process.returncode}


def well(found: Mapping[str, Any]) -> bool:
    return found.get("ended") == "well" and found.get("code") == 0


# ------------------------------------------------------------------ steps


def race(step: Step) -> str:
    """Four clients begin at once, where there is no server yet."""
    with served(step) as mps:
        before_mib = _used_mib(step)
        clients = [Client(mps, "--seconds", 12) for _ in range(4)]
        for client in clients:
            client.begun()
        (server,) = mps.servers() or ["0"]
        step.record(
            status=mps.status(),
            client_list=mps.ask(f"get_client_list {server}").split(),
            pids=[client.pid for client in clients],
            server=server,
            threads=mps.ask("get_default_active_thread_percentage").strip(),
        )
        apps = step.smi("--query-compute-apps=gpu_uuid,pid,used_memory", "--format=csv")
        step.keep("mps-compute-apps.csv", apps)
        step.keep("nvml-under-mps.json", recorded(step))
        step.keep("nvidia-smi-mps.txt", step.smi())
        ends = [client.end() for client in clients]
        step.record(ends=ends)
        for found in ends:
            step.check(well(found), f"a client ended so: {json.dumps(found)[:160]}")
        step.until(lambda: _used_mib(step) - before_mib < IDLE_MIB, "an idle server's memory", 10)
        idle_mib = _used_mib(step) - before_mib
        step.record(idle_server_mib=idle_mib, before_mib=before_mib)
        return f"four clients of server {server} ended well; idle, it holds {idle_mib} MiB"


def commands(step: Step) -> str:
    """What the control daemon answers: a server that is started first, and two commands at once."""
    with served(step) as mps:
        began = time.monotonic()
        answer = mps.ask(f"start_server -uid {os.geteuid()}")
        words: list[str] = []

        def active() -> bool:
            words.append(mps.status())
            return "ACTIVE" in words[-1]

        step.until(active, "the server to be ACTIVE", 15)
        step.record(start_answer=answer, active_s=time.monotonic() - began, words=words)
        wrong = [text for _ in range(_PAIRS) for text in _two_at_once(mps) if text is not None]
        step.record(pairs=_PAIRS, wrong=wrong[:5])
        client = Client(mps, "--seconds", 1).end()
        step.check(well(client), f"a client of the server that was started first: {client}")
        return (
            f"start_server: ACTIVE after {step.facts['active_s']:.1f} s; of {2 * _PAIRS} commands, "
            f"two at once, {len(wrong)} got no answer"
        )


def index(step: Step) -> str:
    """A client that names its GPU by number, as vLLM demands."""
    with served(step) as mps:
        client = Client(mps, "--seconds", 3, CUDA_VISIBLE_DEVICES="0")
        client.begun()
        apps = step.smi("--query-compute-apps=gpu_uuid,pid,used_memory", "--format=csv,noheader")
        found = client.end()
        step.record(end=found, apps=apps)
        step.check(well(found), f"CUDA_VISIBLE_DEVICES=0: {found}")
        step.check(step.uuid in apps, f"its memory is on another GPU: {apps}")
        capped = Client(
            mps, "--until-oom", CUDA_VISIBLE_DEVICES="0", CUDA_MPS_PINNED_DEVICE_MEM_LIMIT="0=2G"
        ).end()
        step.record(capped=capped)
        step.check(capped.get("held_mib", 1 << 30) <= 2048, f"the cap does not bind: {capped}")
        return "CUDA_VISIBLE_DEVICES=0 works for a client, and so does its cap"


def caps(step: Step) -> str:
    """What a cap charges and says, and that it binds whatever allocator PyTorch uses."""
    texts = []
    with served(step) as mps:
        for cap_mib in (512, 2048):
            found = _capped(mps, f"0={cap_mib}M")
            step.record(**{f"cap_{cap_mib}": found})
            held, free = found.get("held_mib", 1 << 30), found.get("free_mib", 0)
            step.check(held <= cap_mib, f"a cap of {cap_mib} MiB lets a client hold {held} MiB")
            step.record(
                **{
                    f"context_of_{cap_mib}": cap_mib - free,
                    f"total_of_{cap_mib}": found.get("total_mib"),
                }
            )
            texts.append(found.get("text", ""))
        small = _capped(mps, "0=64M")
        step.record(cap_64=small)
        for setting in _OTHERS:
            found = _capped(mps, "0=2048M", PYTORCH_CUDA_ALLOC_CONF=setting)
            step.record(**{setting: found})
            held = found.get("held_mib", 1 << 30)
            step.check(held <= 2048, f"{setting}: the cap does not bind ({held} MiB)")
        by_uuid = _capped(mps, f"{step.uuid}=2048M", seconds=2)
        step.record(by_uuid=by_uuid)
    step.keep("oom-under-mps.txt", "\n\n".join(texts))
    for text in texts:
        line = f"torch.OutOfMemoryError: {text}"
        step.check(classify(Exit(code=1), line), f"not known as out-of-memory: {text[:120]}")
    return f"caps bind; of 2048 MiB a client's context takes {step.facts['context_of_2048']} MiB"


def terminate(step: Step) -> str:
    """`terminate_client` on a client with work in flight; another one lives."""
    with served(step) as mps:
        survivor = Client(mps, "--seconds", 25)
        victim = Client(mps, "--seconds", 50, "--size", 8192)
        survivor.begun()
        victim.at_work()
        (server,) = mps.servers()
        began = time.monotonic()
        answer = mps.ask(f"terminate_client {server} {victim.pid}")
        took_s = time.monotonic() - began
        step.record(answer=answer, terminate_s=took_s, limit_s=LIMIT_S)
        with contextlib.suppress(subprocess.TimeoutExpired):
            victim.process.wait(5)
        victim.process.kill()
        step.record(victim=victim.end(), status=mps.status())
        found = survivor.end()
        step.record(survivor=found)
        step.check(well(found), f"the survivor ended so: {found}")
        step.check(
            took_s < LIMIT_S, f"it took {took_s:.1f} s, more than radrm waits ({LIMIT_S:g} s)"
        )
        return f"the survivor lives; terminate_client took {took_s:.2f} s"


def users(step: Step) -> str:
    """A change of users, and which option makes a server take several."""
    step.check(os.geteuid() == 0, "only root can become another user")
    with served(step) as mps:
        first = Client(mps, "--seconds", 3).end()
        began = time.monotonic()
        other = Client(mps, "--seconds", 2, user=NOBODY).end()
        step.record(first=first, other=other, other_user_s=time.monotonic() - began)
        step.check(well(other), f"a client of another user, after the first: {other}")
        quit_s = mps.close()
    step.record(quit_s=quit_s)
    for option in MULTIUSER:
        mps = Mps(step, (option,))
        try:
            if mps.refused is not None:
                step.record(**{option: mps.refused})
                continue
            one = Client(mps, "--seconds", 15)
            one.begun()
            began = time.monotonic()
            beside = Client(mps, "--seconds", 2, user=NOBODY)
            beside.begun()
            at_once = one.process.poll() is None and "init_s" in beside.text()
            step.record(
                **{
                    option: {
                        "beside": at_once,
                        "begun_after_s": time.monotonic() - began,
                        "servers": _owners(mps.servers()),
                        "ends": [beside.end(), one.end()],
                    }
                }
            )
            step.check(at_once, f"{option} is taken, and users still wait for one another")
            return f"users take turns; {option} lets them share; quit took {quit_s:.1f} s"
        finally:
            mps.close()
    return f"users take turns; no option lets them share; quit took {quit_s:.1f} s"


def fault(step: Step) -> str:
    """One client's bad kernel: the others die of it, and the server comes back."""
    with served(step) as mps:
        bystander = Client(mps, "--seconds", 30)
        bystander.at_work()
        broken = Client(mps, "--fault", 2)
        seen: list[tuple[float, str]] = []
        began = time.monotonic()

        def look() -> bool:
            seen.append((round(time.monotonic() - began, 1), mps.status()))
            return bystander.process.poll() is not None

        step.until(look, "the bystander's end", 30)
        step.record(status=seen, bystander=bystander.end(), broken=broken.end())
        step.check(not well(bystander.facts()), "the bystander ended well: no fault was shared")
        step.keep("mps-fault.txt", f"{broken.text()}\n{bystander.text()}")
        began = time.monotonic()
        after = Client(mps, "--seconds", 1).end()
        step.record(after=after, after_s=time.monotonic() - began, at_end=mps.status())
        step.check(well(after), f"a new client after the fault: {after}")
        times = [second for second, status in seen if "FAULT" in status]
        states = f"FAULT seen at {times} s" if times else "FAULT was never seen"
        return f"{states}; the bystander died, a new client ran"


# ------------------------------------------------------------------ helpers


def _capped(mps: Mps, limit: str, seconds: float = 0, **variables: str) -> dict[str, Any]:
    words = ("--seconds", seconds) if seconds else ("--until-oom",)
    return Client(mps, *words, CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=limit, **variables).end()


def _used_mib(step: Step) -> int:
    found = step.smi("--query-gpu=memory.used", "--format=csv,noheader,nounits", "-i", step.uuid)
    return int(re.findall(r"\d+", found)[0])


def _two_at_once(mps: Mps) -> list[str | None]:
    """Two commands at the same time: for each None, or what it got in place of an answer."""
    pair = [
        subprocess.Popen(
            [CONTROL],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=mps.environment,
            text=True,
        )
        for _ in range(2)
    ]
    said = [each.communicate("get_server_list\n", timeout=20)[0].strip() for each in pair]
    return [None if re.search(r"^\s*\d+\s*$", text, re.M) else text[:200] for text in said]


def _owners(pids: list[str]) -> dict[str, int | None]:
    """The user of each process."""
    found: dict[str, int | None] = {}
    for pid in pids:
        try:
            found[pid] = Path(f"/proc/{pid}").stat().st_uid
        except OSError:
            found[pid] = None
    return found

"""Makes a store with all kinds of records, by a real daemon of a release.

    unshare -m sh tests/data/make_stores.sh        # as root; makes both stores

It works in /home/ann with nothing of the caller's environment. The daemon is killed while jobs
run, so the store has live attempts, as after `kill -9`. The dump is SQL text, so that everybody
sees that it names no machine. Beside it are the records as that release reads them.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

HOME = Path("/home/ann")
STATE = HOME / "radrm"
STORE = STATE / "store/radrm.sqlite"
ENV = {
    "HOME": str(HOME),
    "PATH": "/opt/radrm/bin:/usr/bin:/bin",
    "RADRM_HOME": str(STATE),
    "LANG": "C.UTF-8",
}
PYTHON = "/opt/radrm/bin/python"
DAEMON = [
    *("daemon", "--gpus", "sim:4xA100-40GB", "--time-scale", "20"),
    *("--set", "order=fair", "--set", "planner=backfill+elastic"),
]
READ = """
import msgspec, sys
from radrm.host.storage.store import Store
store = Store(sys.argv[1])
kept = msgspec.to_builtins(store.kept())
ended = [msgspec.to_builtins(store.job(i)) for i in store.finished(100)]
print(msgspec.json.encode({"kept": kept, "ended": ended}).decode())
"""
TRAIN = "import time\ntime.sleep(3600)\n"


class Maker:
    def __init__(self, tree: str) -> None:
        self.env = {**ENV, "PYTHONPATH": tree}

    def start(self) -> subprocess.Popen[bytes]:
        log = (HOME / "daemon.log").open("ab")
        command = [PYTHON, "-m", "radrm.cli.main", *DAEMON]
        daemon = subprocess.Popen(command, env=self.env, cwd=HOME, stdout=log, stderr=log)
        wait(lambda: self.radrm("status", check=False).returncode == 0)
        return daemon

    def radrm(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        command = [PYTHON, "-m", "radrm.cli.main", *words]
        return subprocess.run(
            command, env=self.env, cwd=HOME, capture_output=True, text=True, check=check
        )

    def submit(self, *words: str) -> str:
        found = json.loads(self.radrm("submit", "--json", *words).stdout)
        return str(found[0]["id"])

    def wait_state(self, job: str, *states: str) -> None:
        def reached() -> bool:
            found = json.loads(self.radrm("status", job, "--json").stdout)
            return bool(found[0]["state"] in states)

        wait(reached)


def wait(reached: Callable[[], bool]) -> None:
    until_s = time.monotonic() + 60
    while not reached():
        assert time.monotonic() < until_s, (HOME / "daemon.log").read_text()
        time.sleep(0.1)


def main(tree: str, target: Path) -> None:
    maker = Maker(tree)
    (HOME / "train.py").write_text(TRAIN)
    daemon = maker.start()
    sim = ("radrm-simjob", "--gpu-memory", "8G", "--smact", "0.3", "--ramp", "1")
    done = maker.submit("--name=done", "--gpu-memory=10G", "--", *sim, "--seconds", "60")
    maker.wait_state(done, "COMPLETED")
    failed = maker.submit("--name=failed", "--", "false")
    maker.wait_state(failed, "FAILED")
    cancelled = maker.submit("--name=cancelled", "--hold", "--", "true")
    maker.radrm("cancel", cancelled)
    maker.submit("--name=running", "--gpu-memory=30G", "--time=8h", "--", "sleep", "3600")
    elastic = maker.submit(
        "--name=elastic", "--gpus=1-2", "--gpu-memory=5G", "--", "radrun", "train.py"
    )
    maker.wait_state(elastic, "RUNNING")
    lines = [
        "#!/bin/sh",
        "#RAD --array=0-5%2 --gpus=0",
        'test "$RADRM_ARRAY_TASK_ID" -lt 3 || sleep 3600',
    ]
    (HOME / "sweep.rad").write_text("\n".join(lines) + "\n")
    sweep = maker.submit("sweep.rad")
    maker.wait_state(f"{sweep}_2", "COMPLETED")
    maker.wait_state(f"{sweep}_4", "RUNNING")
    maker.submit("--name=follows", f"--after={done}", "--gpus=0", "--", "true")
    last = maker.submit("--name=after", f"--after={sweep}:any", "--gpus=0", "--", "true")
    maker.radrm("edit", last, "--comment=edited")
    maker.submit("--name=large", "--gpus=4", "--gpu-memory=38G", "--time=1h", "--", "true")
    maker.submit(
        "--name=held", "--hold", "--gpus=1-2", "--gpu-memory=5G", "--", "radrun", "train.py"
    )
    maker.radrm("drain", "3", "--reason=fan")
    time.sleep(32)  # volatile records and energy are saved every 30 s
    daemon.send_signal(signal.SIGKILL)
    daemon.wait()
    dump(tree, target)
    daemon = maker.start()
    maker.radrm("cancel", "--user=root")
    wait(lambda: "No unfinished" in maker.radrm("status").stdout)
    daemon.terminate()
    daemon.wait()


def dump(tree: str, target: Path) -> None:
    """Write the store as SQL, and the records as the release reads them."""
    copy = HOME / "copy.sqlite"
    for end in ("", "-wal"):
        Path(f"{copy}{end}").write_bytes(Path(f"{STORE}{end}").read_bytes())
    db = sqlite3.connect(copy)
    (version,) = db.execute("PRAGMA user_version").fetchone()
    (identity,) = db.execute("PRAGMA application_id").fetchone()
    lines = [f"PRAGMA user_version = {version};", f"PRAGMA application_id = {identity};"]
    text = neutral("\n".join([*lines, *db.iterdump()]) + "\n")
    db.close()
    target.write_text(text)
    again = HOME / "again.sqlite"
    db = sqlite3.connect(again)
    db.executescript(text)
    db.close()
    read = [sys.executable, "-c", READ, str(again)]
    found = subprocess.run(
        read, env={**ENV, "PYTHONPATH": tree}, cwd=HOME, capture_output=True, check=True
    )
    document = json.loads(found.stdout)
    target.with_suffix(".json").write_text(json.dumps(document, indent=1) + "\n")
    print(f"{target}: version {version}, {len(text)} characters")


def neutral(text: str) -> str:
    """The text with another name of this machine's boot."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text()[:8]
    text = re.sub(boot, "b0070000", text)
    name = os.uname().nodename
    assert len(name) < 4 or name not in text, "the store names this machine"
    return text


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))

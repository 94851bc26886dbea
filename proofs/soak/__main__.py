"""The command `python -m proofs.soak`: its process collects what the soak leaves.

Theory of operation. As root the command runs itself again in a mount namespace of its own. Then it
becomes the reaper of all orphans, and forks the soak proper. So every process that any job, runner
or daemon leaves is found below this one, whatever it did to hide, and is killed at the end.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import traceback
from pathlib import Path

from proofs.processes import end_all
from proofs.soak import ground as grounds
from proofs.soak.ground import Ground
from proofs.soak.report import report
from proofs.soak.run import Soak
from radrm.host.processes.tree import become_subreaper

_INSIDE = "RADRM_SOAK_INSIDE"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m proofs.soak", description=__doc__)
    parser.add_argument("--hours", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=None, help="default: drawn and shown")
    parser.add_argument("--json", type=Path, default=Path("soak.json"), help="file of all samples")
    options = parser.parse_args()
    if os.getuid() == 0 and _INSIDE not in os.environ:
        tried = subprocess.run(["unshare", "--mount", "true"], capture_output=True, text=True)
        if tried.returncode:
            print(
                f"soak: root needs a mount namespace of its own ({tried.stderr.strip()}); run it "
                "as an ordinary user, or where root may mount",
                file=sys.stderr,
            )
            return 2
        words = [sys.executable, "-m", "proofs.soak", *sys.argv[1:]]
        os.execvpe("unshare", ["unshare", "--mount", *words], {**os.environ, _INSIDE: "1"})
    seed = random.randrange(2**32) if options.seed is None else options.seed
    if not become_subreaper():
        print("soak: this kernel lets no process collect orphans", file=sys.stderr)
        return 2
    ground = grounds.prepare()
    try:
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                code = soak(ground, options.hours * 3600.0, seed, options.json)
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                os._exit(code)
        return collect(pid)
    finally:
        grounds.clear(ground)


def soak(ground: Ground, seconds: float, seed: int, results: Path) -> int:
    """Run a soak and print its report. Returns 0 if nothing was found, else 1."""
    print(f"soak of {seconds:.0f} s, seed {seed}", flush=True)
    findings = ["it did not end"]
    try:
        seen = Soak(ground, seconds, seed, lambda line: print(line, flush=True)).run()
        findings = report(seen, grounds.groups_left(ground), seed, seconds, results, print)
    finally:
        if findings:
            kept = results.with_suffix(".log")
            kept.write_bytes((ground.folder / "daemon.log").read_bytes())
            print(f"the daemon's log is kept: {kept}")
    return 1 if findings else 0


def collect(child: int) -> int:
    """Reap every orphan until the soak ends, then kill what is left. Returns its exit code."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: os.kill(child, signal.SIGKILL))
    pid = status = 0
    while pid != child:
        pid, status = os.wait()
    end_all()
    return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    sys.exit(main())

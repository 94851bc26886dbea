"""What happens in the machine: install, a job, a daemon that hangs, a restart, uninstall.

Run by systemd's unit, with a Python that has no packages: steps.py REPOSITORY. Each step is a line
of the report. It ends with the first that fails.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

HOME = Path("/opt/radrm")
RADRM = f"{HOME}/bin/radrm"
DROP_IN = Path("/etc/systemd/system/radrmd.service.d/try.conf")
SETTINGS = Path("/etc/radrm/radrm.toml")
PATIENCE_S = 60.0
_SCRIPT = "#!{python}\nimport sys\nfrom radrm.cli.main import {name}\nsys.exit({name}())\n"
# The daemon of the try: it adopts slowly once, and hangs once a file is there.
_SLOW = """
import os, time
from radrm.daemon import main
from radrm.daemon.attempts import Attempts
from radrm.daemon.loop import Loop
adopt, gather = Attempts.adopt, Loop._gather
def slowly(self, alive):
    for _ in range(8):
        time.sleep(1)
        alive()
    return adopt(self, alive)
def hanging(self):
    if os.path.exists("/run/hang"):
        os.unlink("/run/hang")
        time.sleep(1e6)
    gather(self)
Attempts.adopt, Loop._gather = slowly, hanging
main.set_up_logging()
main.run("sim:2xA100-40GB", 20, [])
"""


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, check=False
    )


def step(what: str, passed: object, said: str = "") -> None:
    """Report a step; end if it has not passed."""
    print(f"{'ok' if passed else 'FAILED':8}{what}", flush=True)
    if not passed:
        print(said or run("journalctl", "-n", "60", "--no-pager").stdout)
        raise SystemExit(1)


def soon(condition: Callable[[], object]) -> bool:
    until = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.2)
    return True


def fact(name: str) -> str:
    return run("systemctl", "show", "radrmd", "-p", name, "--value").stdout.strip()


def log_of_daemon() -> str:
    return run("journalctl", "-u", "radrmd", "-o", "cat", "--no-pager").stdout


def job_process() -> str:
    """The pid of the job's program; empty if it does not run."""
    return run("pgrep", "-x", "sleep").stdout.strip()


def install(repository: Path) -> None:
    """A copy of radrm and its packages that only root can change."""
    python, site = HOME / "bin/python3", None
    run(sys.executable, "-m", "venv", "--without-pip", str(HOME))
    site = next((HOME / "lib").glob("python3*")) / "site-packages"
    packages = next((repository / ".venv/lib").glob("python3*")) / "site-packages"
    ignored = shutil.ignore_patterns("*radrm*", "__pycache__")
    shutil.copytree(packages, site, dirs_exist_ok=True, ignore=ignored)
    shutil.copytree(repository / "radrm", site / "radrm")
    (about,) = packages.glob("radrm-*.dist-info")  # it names the wings
    shutil.copytree(about, site / about.name)
    for script, name in (("radrm", "main"), ("radrmd", "daemon")):
        path = HOME / "bin" / script
        path.write_text(_SCRIPT.format(python=python, name=name))
        path.chmod(0o755)
    for path in (HOME, *HOME.rglob("*")):
        os.chown(path, 0, 0, follow_symlinks=False)
        if not path.is_symlink():
            path.chmod(path.stat().st_mode & 0o755)
    (HOME / "slow.py").write_text(_SLOW)


def main(repository: Path) -> None:
    install(repository)
    DROP_IN.parent.mkdir()
    DROP_IN.write_text(
        f"[Service]\nExecStart=\nExecStart={HOME}/bin/python3 {HOME}/slow.py\n"
        "WatchdogSec=3s\nTimeoutStartSec=4s\n"
    )
    done = typed("\n" * 5, RADRM, "service", "install")
    step("service install starts a daemon that takes 8 s, with 4 s to start", not done.returncode,
         done.stdout)  # fmt: skip
    asked = done.stdout.count("] ")
    step("it asks at most five questions, and writes the configuration",
         0 < asked < 6 and "[mps]" in SETTINGS.read_text(), done.stdout)  # fmt: skip
    step("Type=notify, and it serves", (fact("Type"), fact("ActiveState")) == ("notify", "active"))
    step("systemctl status shows the jobs", soon(lambda: "0 running" in fact("StatusText")))
    again = run(RADRM, "service", "install").stdout
    step("a second run changes nothing", again.count("same  ") == 3, again)
    submitted = run(RADRM, "submit", "--gpus=1", "--name=one", "--", "sleep", "1000")
    step("a job is submitted", not submitted.returncode, submitted.stdout)
    step("it runs", soon(lambda: job_process() and "1 running" in fact("StatusText")))
    job = job_process()
    variables = Path(f"/proc/{job}/environ").read_bytes()
    named = b"NOTIFY_SOCKET" in variables or b"WATCHDOG" in variables
    step("it has none of systemd's variables", not named)
    Path("/run/hang").touch()
    step("the watchdog restarts a loop that hangs", soon(lambda: fact("NRestarts") == "1"))
    step("it re-adopts the job", soon(lambda: "1 running" in fact("StatusText")))
    log = log_of_daemon()
    step("the log shows where it hung", "in hanging" in log, log)
    os.kill(int(fact("MainPID")), signal.SIGKILL)
    step("systemd restarts a killed daemon", soon(lambda: fact("NRestarts") == "2"))
    step("it re-adopts the job", soon(lambda: "1 running" in fact("StatusText")))
    step("systemctl restart works", not run("systemctl", "restart", "radrmd").returncode)
    before = fact("MainPID"), fact("NRestarts"), job_process()
    ups = log_of_daemon().count(" is up: ")
    step("systemctl reload works", not run("systemctl", "reload", "radrmd").returncode)
    step("a reload starts the daemon anew, and it serves", soon(
        lambda: log_of_daemon().count(" is up: ") > ups and fact("ActiveState") == "active"
        and "1 running" in fact("StatusText")))  # fmt: skip
    after = fact("MainPID"), fact("NRestarts"), job_process()
    step("as the same process, and the job goes on", after == before, f"{before} {after}")
    found = run(RADRM, "doctor", "--all").stdout
    for check in ("systemd", "service code"):
        step(f"radrm doctor: {check}", f"ok    {check}: " in found, found)
    set_up()
    removed = run(RADRM, "service", "remove")
    units = "/etc/systemd/system"
    left = [p for p in (f"{units}/radrm-page.service", f"{units}/radrmd.service",
                        "/usr/local/bin/radrm", "/etc/tmpfiles.d/radrm.conf")
            if os.path.lexists(p)]  # fmt: skip
    step("service remove removes its files", not removed.returncode and not left,
         removed.stdout)  # fmt: skip
    step("the job runs on", job and job_process() == job)
    os.kill(int(job), signal.SIGKILL)
    own_service()
    print("all steps passed", flush=True)


def typed(answers: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command on a terminal, where somebody types these answers."""
    ours, theirs = os.openpty()
    os.write(ours, answers.encode())
    with subprocess.Popen(words, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        said = b""
        with contextlib.suppress(OSError):  # the end of a terminal that nobody writes to any more
            while part := os.read(ours, 4096):
                said += part
    os.close(ours)
    return subprocess.CompletedProcess(words, process.returncode, said.decode())


def set_up() -> None:
    """Only a group submits; the page runs for a web server; the configuration stays."""
    run("groupadd", "--gid=4567", "gpu")
    run("useradd", "--create-home", f"--uid={_UID}", "--user-group", _USER)
    run("chmod", "--recursive", "a+rX", str(HOME))
    for folder in Path(os.path.realpath(sys.executable)).parents:
        folder.chmod(folder.stat().st_mode | 0o011)  # a Python below root's home; on the overlay
    before = SETTINGS.read_text()
    refused = run(RADRM, "service", "install", "--mps")
    step("a configuration that is there stays", refused.returncode
         and SETTINGS.read_text() == before, refused.stdout)  # fmt: skip
    done = run(RADRM, "service", "install", "--users", "gpu", "--page", "gpu.example.org")
    step("--users and --page", not done.returncode and "usermod -aG gpu" in done.stdout,
         done.stdout)  # fmt: skip
    page = Path("/run/radrm-page/socket")
    step("the page serves", soon(page.exists), run("journalctl", "-u", "radrm-page").stdout)
    refused = as_user(RADRM, "submit", "--", "true")
    step("others may not submit", "only members of the group gpu" in refused.stdout, refused.stdout)
    allowed = as_user(RADRM, "submit", "--", "true", groups="--groups=4567")
    step("members may", not allowed.returncode, allowed.stdout)
    step("others may look", not as_user(RADRM, "status").returncode)
    done = run("systemctl", "restart", "radrmd")
    refused = as_user(RADRM, "submit", "--", "true")
    step("after a restart, too", not done.returncode and refused.returncode, refused.stdout)


# ------------------------------------------------------------------ a service of one user's own

_USER, _UID = "ada", 2345
_RUNTIME = f"/run/user/{_UID}"
_MANAGER = f"""[Service]
User={_USER}
Delegate=yes
Environment=XDG_RUNTIME_DIR={_RUNTIME}
ExecStart=/lib/systemd/systemd --user
"""


def as_user(*words: str, groups: str = "--clear-groups") -> subprocess.CompletedProcess[str]:
    """Run a command as the user, in the environment of a login."""
    become = [
        "setpriv",
        f"--reuid={_UID}",
        f"--regid={_UID}",
        groups,
        "env",
        "-C",
        f"/home/{_USER}",
    ]
    named = [f"HOME=/home/{_USER}", f"XDG_RUNTIME_DIR={_RUNTIME}", f"PATH={os.environ['PATH']}"]
    return run(*become, *named, *words)


def own_service() -> None:
    """A user's systemd, without login and D-Bus, and radrm in it."""
    Path(_RUNTIME).mkdir(parents=True)
    os.chown(_RUNTIME, _UID, _UID)
    Path("/run/systemd/system/own.service").write_text(_MANAGER)
    refused = as_user(RADRM, "service", "install", "--user").stdout
    step("--user without a systemd of the user says so", "no systemd runs for you" in refused,
         refused)  # fmt: skip
    run("systemctl", "start", "own")
    step("a user's systemd starts", soon(lambda: os.path.exists(f"{_RUNTIME}/systemd/private")))
    done = as_user(RADRM, "service", "install", "--user", "--gpus", "sim:1xA100-40GB")
    step("service install --user starts a daemon", not done.returncode, done.stdout)
    again = as_user(RADRM, "service", "install", "--user", "--gpus", "sim:1xA100-40GB").stdout
    step("a second run changes nothing", again.count("same  ") == 1, again)
    submitted = as_user(RADRM, "submit", "--", "sleep", "1000")
    step("a job is submitted", not submitted.returncode, submitted.stdout)
    step("it runs", soon(job_process))
    job = job_process()
    restarted = as_user("systemctl", "--user", "restart", "radrmd")
    step("systemctl --user restart works", not restarted.returncode, restarted.stdout)
    step("it re-adopts the job", "1 running" in as_user(RADRM, "status").stdout)
    removed = as_user(RADRM, "service", "remove", "--user")
    unit = f"/home/{_USER}/.config/systemd/user/radrmd.service"
    step("service remove --user removes its unit",
         not removed.returncode and not os.path.exists(unit), removed.stdout)  # fmt: skip
    step("the job runs on", job and job_process() == job)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

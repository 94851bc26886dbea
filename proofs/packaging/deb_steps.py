"""What happens to the Debian package in the machine: deb_steps.py REPOSITORY, run by systemd."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

sys.path.insert(0, sys.argv[1])

from proofs.systemd.steps import DROP_IN, fact, job_process, run, soon, step

PLACES = (
    *("/usr/lib/radrm/bin/python3", "/usr/bin/radrun", "/usr/share/man/man1/radrm.1.gz"),
    *("/usr/share/bash-completion/completions/radrm", "/usr/share/doc/radrm/copyright"),
)
_STATE = Path("/var/lib/radrm")


def main() -> None:
    # Images of containers forbid packages to start services.
    Path("/usr/sbin/policy-rc.d").unlink(missing_ok=True)
    (package,) = map(str, Path("/report").glob("*.deb"))
    done = run("dpkg", "-i", package)
    step("dpkg -i installs it", not done.returncode, done.stdout)
    step("it says that there is no GPU", "radrm: no GPU found" in done.stdout, done.stdout)
    DROP_IN.parent.mkdir(parents=True)
    DROP_IN.write_text("[Service]\nExecStart=\nExecStart=/usr/bin/radrmd --gpus sim:2xA100-40GB\n")
    run("systemctl", "daemon-reload")
    run("systemctl", "restart", "radrmd")
    active = soon(lambda: fact("ActiveState") == "active")
    step("the daemon serves", active, done.stdout + run("systemctl", "status", "radrmd").stdout)
    step("it starts at boot", run("systemctl", "is-enabled", "radrmd").stdout == "enabled\n")
    step("its files are there", all(map(os.path.exists, PLACES)))
    submitted = run("radrm", "submit", "--name=one", "--", "sleep", "1000")
    step("a job is submitted", not submitted.returncode, submitted.stdout)
    step("it runs", soon(lambda: job_process() and "1 running" in fact("StatusText")))
    job, daemon = job_process(), fact("MainPID")
    simulated = run(
        "radrm", "submit", "--wait", "--", "radrm-simjob", "--gpu-memory=2G", "--seconds=1"
    )
    step("so does a simulated one", not simulated.returncode, simulated.stdout)

    words = ("submit", "--slurm", "--wait", "--wrap", "squeue && srun true")
    named = run("radrm", *words)
    step("a job finds Slurm's commands", not named.returncode, named.stdout)

    found = run("radrm", "doctor", "--all").stdout
    step("radrm doctor: systemd", "ok    systemd: " in found, found)
    refused = run("radrm", "service", "install").stdout
    step("service install writes no second unit", "from a package" in refused, refused)

    run("systemctl", "disable", "radrmd")
    again = run("dpkg", "-i", package)
    step("dpkg -i upgrades it", not again.returncode, again.stdout)
    step("the daemon starts again", fact("MainPID") not in ("0", daemon))
    step("it re-adopts the job", soon(lambda: "1 running" in fact("StatusText")))
    step("the job runs on", job_process() == job)
    step("what was disabled stays so",
         run("systemctl", "is-enabled", "radrmd").stdout == "disabled\n")  # fmt: skip

    daemon, settings = fact("MainPID"), Path("/etc/radrm/radrm.toml")
    settings.write_text('polcy = "magm"\n')
    again = run("dpkg", "-i", package)
    step(
        "an upgrade names what is wrong in the configuration", "polcy" in again.stdout, again.stdout
    )
    step("the daemon from before it runs on", fact("MainPID") == daemon, again.stdout)
    settings.unlink()

    run("systemctl", "enable", "radrmd")
    removed = run("dpkg", "-r", "radrm")
    step("dpkg -r removes it", not removed.returncode, removed.stdout)
    gone = not os.path.lexists("/usr/bin/radrm") and not os.path.exists("/usr/lib/radrm")
    step("its files are gone", gone, run("find", "/usr/lib/radrm").stdout)
    step("the daemon has stopped", fact("ActiveState") != "active")
    step("the job runs on without it", job_process() == job)
    step("queue and history stay", any(_STATE.iterdir()))
    os.kill(int(job), signal.SIGTERM)
    step("the job ends", soon(lambda: not job_process()))

    back = run("dpkg", "-i", package)
    step("it can be installed again", not back.returncode, back.stdout)
    active = soon(lambda: fact("ActiveState") == "active")
    step("the daemon serves", active, back.stdout + run("systemctl", "status", "radrmd").stdout)
    found = run("radrm", "status", "1").stdout
    step("it knows how the job ended meanwhile", "signal" in found.lower(), found)

    purged = run("dpkg", "-P", "radrm")
    step("dpkg -P purges it", not purged.returncode, purged.stdout)
    left = [p for p in ("/var/lib/radrm", "/run/radrm", "/usr/lib/radrm") if os.path.exists(p)]
    step("nothing of it is left", not left, "\n".join(left))
    print("all steps passed", flush=True)


if __name__ == "__main__":
    main()

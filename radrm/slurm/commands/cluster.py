"""`--cluster`: submit to Slurm, and look at the jobs of its partition that shares GPUs."""

from __future__ import annotations

import os
import shlex
import time

from radrm.cli.show.columns import Column, Rows
from radrm.cli.show.log import log_writer
from radrm.cli.show.styled import Styled, show
from radrm.client.tail import Tail
from radrm.client.text import print_json, say, warn
from radrm.core.units import show_mib, show_seconds
from radrm.errors import EXIT_NEVER_RAN, RadrmError, Refused, UsageError
from radrm.host.wall import wall_s
from radrm.slurm import accounts
from radrm.slurm import jobs as of_slurm
from radrm.slurm.outer import cluster_config
from radrm.slurm.submitting import ClusterJob, not_a_sweep, prepare
from radrm.slurm.submitting import submit as submit_job

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from radrm.jobfile.command_line import SubmitRequest

_POLL_S = 2.0


def is_configured() -> bool:
    """Return whether radrm is under Slurm here. Raises `BadConfig`."""
    return cluster_config(os.environ).slurm.enabled


def submit(request: SubmitRequest) -> int:
    """Submit job files to Slurm. Returns the exit code."""
    config = cluster_config(os.environ)
    results: list[dict[str, Any]] = []
    for file in not_a_sweep(request):
        found: dict[str, Any] = {"ticket": None, "id": None, "name": None, "file": file}
        found |= {"error": None, "code": 0}
        try:
            job = prepare(request, file, config)
            found["name"] = job.name
            if not request.dry_run:
                found["id"] = submit_job(job)
            found["job"] = job
        except RadrmError as error:
            found["error"], found["code"] = str(error), error.exit_code
        results.append(found)
        _tell(request, found)
    if request.json:
        wanted = ("ticket", "id", "name", "file", "error")
        print_json([{key: each[key] for key in wanted} for each in results])
    code = max((each["code"] for each in results), default=0)
    if request.wait:
        ids = [str(each["id"]) for each in results if each["id"] is not None]
        code = max([code, *(wait_for(job_id) for job_id in ids)])
    return code


def _tell(request: SubmitRequest, found: dict[str, Any]) -> None:
    """Print what became of one job."""
    if found["error"] is not None:
        for line in found["error"].splitlines():
            warn(line)
        return
    if request.json:
        return
    job: ClusterJob = found["job"]
    if request.dry_run:
        say(f"sbatch {shlex.join(job.words)}")
    elif request.parsable:
        say(str(found["id"]))
    else:
        memory = f", asks for {show_mib(job.gpumem_mib)} of GPU memory ({job.source})"
        asked = memory if job.gpumem_mib else ""
        say(f"Submitted Slurm job {found['id']} ({found['name']}){asked}")


def wait_for(job_id: str) -> int:
    """Wait for the end of a Slurm job. Returns its exit code: 128+n for a signal."""
    while True:
        found = of_slurm.the_job(job_id)
        state = found.get("JobState", "")
        if state not in of_slurm.UNFINISHED:
            break
        time.sleep(_POLL_S)
    code, _, number = found.get("ExitCode", "").partition(":")
    if not (code.isdigit() and number.isdigit()):
        return EXIT_NEVER_RAN
    if state != "COMPLETED":
        warn(f"Slurm job {job_id} {state}")
    return 128 + int(number) if int(number) else int(code) or int(state != "COMPLETED")


def show_status(user: str, as_json: bool) -> None:
    """Show the jobs of the partition."""
    config = cluster_config(os.environ).slurm
    rows = of_slurm.listed(config, user or None)
    if as_json:
        print_json([row.document for row in rows])
        return
    if not rows:
        show(Styled(f"No jobs in partition {config.partition}."))
        return
    table = Rows(
        (
            Column("JOB", right=True),
            *(Column(name) for name in ("NAME", "USER", "STATE", "NODE")),
            Column("GPUMEM", right=True),
            Column("TIME", right=True),
            Column("WHY"),
        )
    )
    for row in rows:
        mib = "-" if row.gpumem_mib is None else show_mib(row.gpumem_mib)
        cells = row.id, row.name, row.user, row.state, row.node or "-", mib, row.time
        table.add(*cells, row.reason or "")
    show(table)


def show_report(by: str, times: Callable[[float], tuple[float, float]], as_json: bool) -> None:
    """Show what the ended jobs of the partition have used."""
    if by not in accounts.BY:
        raise UsageError(f"--by: {by[:40]!r} is none of {', '.join(accounts.BY)}")
    config = cluster_config(os.environ).slurm
    begin_s, end_s = times(wall_s())
    runs, source = accounts.ended_runs(config, begin_s, end_s)
    rows = accounts.sums(runs, by)
    if as_json:
        found = [row.document for row in rows]
        print_json({"since": begin_s, "until": end_s, "source": source, "by": by, "rows": found})
        return
    if not rows:
        show(Styled(f"No job of partition {config.partition} ended in that time ({source})."))
        return
    names = ("RUNS", "COMPLETED", "ELAPSED", "GIB-HOURS", "GPU-HOURS", "SMACT", "PEAK", "ENERGY")
    table = Rows((Column(by.upper()), *(Column(name, right=True) for name in names)))
    for row in rows:
        gpu_h = "-" if row.gpu_s is None else f"{row.gpu_s / 3600:.1f}"
        smact = "-" if row.smact is None else f"{row.smact:.2f}"
        peak = "-" if row.peak_mib is None else show_mib(row.peak_mib)
        energy = "-" if row.energy_j is None else f"{row.energy_j / 3.6e6:.2f} kWh"
        counts = str(row.runs), str(row.completed), show_seconds(row.elapsed_s)
        gib_h = "-" if row.gpumem_gib_h is None else f"{row.gpumem_gib_h:.1f}"
        figures = gib_h, gpu_h, smact, peak, energy
        table.add(row.name, *counts, *figures)
    show(table)
    measured = sum(row.measured for row in rows)
    if measured < len(runs):
        warn(f"{len(runs) - measured} of {len(runs)} runs say nothing of their GPUs ({source})")


def show_explanation(job_id: str, as_json: bool) -> None:
    """Show why a Slurm job waits, or where it runs."""
    lines = of_slurm.explained(job_id, cluster_config(os.environ).slurm)
    if as_json:
        print_json({name.replace(" ", "_"): text for name, text in lines.items()})
        return
    width = max(map(len, lines))
    for name, text in lines.items():
        say(f"{name:>{width}}  {text}")


def show_log(job_id: str, stderr: bool, lines: int | None) -> None:
    """Print the log of a Slurm job, with this user's own rights."""
    path, uid = of_slurm.log_of(job_id, stderr)
    tail = Tail(path, uid, warn)
    if lines is not None:
        tail.skip_to_last(lines)
    if not tail.copy_new(log_writer(None)):
        raise Refused(f"the log {path} does not exist here; it is written on the job's node")

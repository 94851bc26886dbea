"""`sacct` and `seff`: what jobs were and used.

radrm keeps no accounts of steps: each job is one row. What it does not measure is shown empty.
Source: sacct(1) of Slurm 25.11.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable

from radrm.client.text import FINAL, say
from radrm.core.units import show_mib
from radrm.daemon.slurm_variables import PARTITION
from radrm.errors import UsageError
from radrm.host.wall import wall_s
from radrm.jobfile.values import shown
from radrm.slurm.commands import shown as of_job
from radrm.slurm.commands.names import elements, read_words, states

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from radrm.slurm.commands.shown import Job

_NOT_MEASURED = (
    *("AveCPU", "AveRSS", "AveVMSize", "MaxRSS", "MaxVMSize", "TotalCPU", "UserCPU"),
    *("SystemCPU", "CPUTime", "CPUTimeRAW", "Account", "QOS", "WCKey", "Associd", "UID", "GID"),
    *("Group", "Cluster", "Comment", "AdminComment", "SystemComment", "MaxDiskRead"),
    *("MaxDiskWrite", "AveDiskRead", "AveDiskWrite", "ConsumedEnergy", "ConsumedEnergyRaw"),
    *("Layout", "MinCPU", "NTasks", "Planned", "Reservation", "Suspended", "TRESUsageInAve"),
    *("TRESUsageInMax", "TRESUsageInTot", "WorkDir", "SubmitLine", "Flags", "Constraints"),
    *("Container", "Eligible", "Extra", "FailedNode", "McsLabel", "Licenses", "BlockID"),
    *("DBIndex", "Reserved"),
)


def _seconds(job: Job) -> str:
    return str(int(job.get("ran_s") or 0) if job["started_at"] is not None else 0)


def _energy(job: Job) -> str:
    return "" if job["energy_j"] is None else str(int(job["energy_j"]))


_FIELDS: dict[str, tuple[int, Callable[[Job], str]]] = {
    **dict.fromkeys(_NOT_MEASURED, (10, lambda job: "")),
    "JobID": (12, of_job.number),
    "JobIDRaw": (12, lambda job: str(job["id"])),
    "JobName": (10, lambda job: job["name"]),
    "Partition": (10, lambda job: PARTITION),
    "State": (10, of_job.state),
    "ExitCode": (8, of_job.exit_code),
    "DerivedExitCode": (15, of_job.exit_code),
    "User": (9, lambda job: job["user"]),
    "Submit": (19, of_job.submitted),
    "Start": (19, of_job.started),
    "End": (19, of_job.ended),
    "Elapsed": (10, of_job.elapsed),
    "ElapsedRaw": (10, _seconds),
    "Timelimit": (10, of_job.limit),
    "NodeList": (15, of_job.nodes),
    "NNodes": (8, lambda job: "1"),
    "AllocNodes": (10, lambda job: "1"),
    "AllocCPUS": (10, of_job.cpus),
    "NCPUS": (10, of_job.cpus),
    "ReqCPUS": (8, of_job.cpus),
    "ReqMem": (10, lambda job: f"{job['memory_mib']}M" if job.get("memory_mib") else "0"),
    "AllocTRES": (10, of_job.tres),
    "ReqTRES": (10, of_job.tres),
    "ReqNodes": (8, lambda job: "1"),
    "Priority": (10, lambda job: str(job["priority"])),
    "Restarts": (8, lambda job: str(max(0, job["attempts"] - 1))),
    "Reason": (22, lambda job: job["reason"] or "None"),
    "Comment": (14, lambda job: job.get("comment") or ""),
    "ConsumedEnergyRaw": (17, _energy),
    "ConsumedEnergy": (14, _energy),
}
_BY_NAME = {name.lower(): name for name in _FIELDS}
_DEFAULT = "JobID,JobName,Partition,Account,AllocCPUS,State,ExitCode"
_BRIEF = "JobID,State,ExitCode"
_LONG = "JobID,JobIDRaw,JobName,Partition,User,AllocCPUS,Elapsed,State,ExitCode,ReqMem,AllocTRES"
_SHORT = {
    "j": "jobs", "u": "user", "o": "format", "n": "noheader", "P": "parsable2", "p": "parsable",
    "X": "allocations", "s": "state", "S": "starttime", "E": "endtime", "a": "allusers",
    "b": "brief", "l": "long", "D": "duplicates", "A": "accounts", "M": "clusters",
    "N": "nodelist", "L": "allclusters", "e": "helpformat", "T": "truncate", "q": "qos",
    "k": "timelimit-min", "x": "associations", "W": "wckeys", "g": "gid", "V": "version",
    "r": "partition",
}  # fmt: skip
_FLAGS = (
    *("noheader", "parsable", "parsable2", "allocations", "allusers", "brief", "long", "me"),
    *("duplicates", "allclusters", "helpformat", "truncate", "units", "version", "array"),
)
_TAKEN = frozenset(
    {*_SHORT.values(), *_FLAGS, "job", "name", "delimiter", "uid", "fields", "federation", "local"}
)
_REFUSED = frozenset({"gid", "timelimit-min", "nodelist", "uid"})
_CLOCK = ("%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%d", "%m/%d/%y")
_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def sacct(words: Sequence[str], me: str) -> int:
    """Print rows of jobs. Raises `RadrmError`."""
    options, rest = read_words(words, _SHORT, _FLAGS)
    if rest:
        raise UsageError(f"sacct: {shown(rest[0])} is not an option")
    given = dict(options)
    for name in given:
        if name not in _TAKEN or name in _REFUSED:
            raise UsageError(f"sacct: {shown('--' + name)} is not known here; see radrm history")
    if "helpformat" in given:
        say(*sorted(_FIELDS))
        return 0
    layout = given.get("format") or (
        _BRIEF if "brief" in given else _LONG if "long" in given else _DEFAULT
    )
    columns = [_column(word) for word in layout.split(",") if word]
    wanted = states(given["state"]) if given.get("state") else None
    jobs = [job for value in (given.get("jobs") or given.get("job") or "").split() for job in
            elements(re.sub(r"\.(batch|extern|[0-9]+)\b", "", value))]  # fmt: skip
    user = None if "allusers" in given or jobs else given.get("user", me)
    try:
        found = of_job.asked(jobs, user=user, state=wanted)
    except of_job.NoJob:
        found = []  # as sacct: no rows
    since_s = None if jobs and "starttime" not in given else given.get("starttime", "today")
    found = _within(found, since_s, given.get("endtime"), wall_s())
    if "name" in given:
        found = [job for job in found if job["name"] in given["name"].split(",")]
    separator = "|" if {"parsable", "parsable2"} & given.keys() else None
    separator = given.get("delimiter", separator) if separator else None
    ends = "|" if "parsable" in given else ""
    rows = [[field(job) for _, _, field in columns] for job in found]
    if separator is not None:
        if "noheader" not in given:
            say(separator.join(name for name, _, _ in columns) + ends)
        for row in rows:
            say(separator.join(row) + ends)
        return 0
    if "noheader" not in given:
        say(" ".join(f"{name[: abs(width)]:>{abs(width)}}" for name, width, _ in columns) + " ")
        say(" ".join("-" * abs(width) for _, width, _ in columns) + " ")
    for row in rows:
        cells = (_cell(text, width) for text, (_, width, _) in zip(row, columns, strict=True))
        say(" ".join(cells) + " ")
    return 0


def _within(jobs: list[Job], since: str | None, until: str | None, now_s: float) -> list[Job]:
    """The jobs that were there between two moments."""
    first = float("-inf") if since is None else _moment(since, now_s)
    last = float("inf") if until is None else _moment(until, now_s)
    return [
        job for job in jobs
        if (job["ended_at"] or now_s) >= first and job["submitted_at"] <= last
    ]  # fmt: skip


def _moment(text: str, now_s: float) -> float:
    """A moment as sacct takes it, in seconds since the epoch. Raises `UsageError`."""
    at = re.fullmatch(r"now(?:([+-])([0-9]{1,9})([a-z]*))?", text)
    if at is not None:
        unit = _UNITS_S.get((at[3] or "s")[0])
        if unit is not None:
            return now_s + int(f"{at[1] or ''}{at[2] or 0}") * unit
    today = time.localtime(now_s)
    if text in ("today", "midnight"):
        return time.mktime((*today[:3], 0, 0, 0, 0, 0, -1))
    of_this_year = (f"{text} {today[0]}", "%m/%d %Y")  # without a year, 29 February is no date
    for whole, pattern in (*((text, each) for each in _CLOCK), of_this_year):
        try:
            return time.mktime((*time.strptime(whole, pattern)[:6], 0, 0, -1))
        except (ValueError, OverflowError):
            continue
    raise UsageError(f"sacct: {shown(text)} is no time, as 2026-11-29, or now-1days")


def _column(word: str) -> tuple[str, int, Callable[[Job], str]]:
    name, _, width = word.strip().partition("%")
    known = _BY_NAME.get(name.lower())
    if known is None:
        raise UsageError(f"sacct: invalid field requested: {shown(name)}; see sacct --helpformat")
    usual, field = _FIELDS[known]
    number = int(width) if re.fullmatch(r"-?[0-9]{1,3}", width) else 0
    return known, number or usual, field


def _cell(text: str, width: int) -> str:
    """A value in its column; a negative width is to the left. A `+` marks what is cut."""
    most = abs(width)
    text = text if len(text) <= most else text[: most - 1] + "+"
    return f"{text:<{most}}" if width < 0 else f"{text:>{most}}"


def seff(words: Sequence[str]) -> int:
    """Print what a job has used, as far as radrm knows it."""
    names = [word for word in words if not word.startswith("-")]
    if not names:
        raise UsageError("seff needs a job, as: seff 12")
    for job in of_job.asked(elements(names[0])):
        say(f"Job ID: {of_job.number(job)}")
        say(f"User: {job['user']}")
        say(f"State: {of_job.state(job)} (exit code {job['exit_code'] or 0})")
        say(f"Cores: {of_job.cpus(job)}")
        say(f"Job Wall-clock time: {of_job.elapsed(job)}")
        if job["peak_mib"] is not None:
            reserved = job["reserved_mib"] or job["estimate_mib"]
            part = f" of {show_mib(reserved)} reserved" if reserved else ""
            say(f"GPU memory: {show_mib(job['peak_mib'])} at most on one GPU{part}")
        if job["energy_j"] is not None:
            say(f"Energy: {job['energy_j'] / 3.6e6:.3f} kWh")
        if job["state"] not in FINAL:
            say("WARNING: Efficiency statistics may be misleading for RUNNING jobs.")
        say("CPU and memory efficiency are not measured; see: radrm report, radrm status JOB")
    return 0

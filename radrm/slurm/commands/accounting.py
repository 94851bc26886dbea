"""`sacct` and `seff`: what jobs were and used.

radrm keeps no accounts of steps: each job is one row. What it does not measure is shown empty.
Source: sacct(1) of Slurm 25.11.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from radrm.client.states import FINAL
from radrm.core.units import show_mib
from radrm.daemon.slurm_variables import PARTITION
from radrm.errors import UsageError, plain
from radrm.jobfile.values import shown
from radrm.slurm.commands import shown as of_job
from radrm.slurm.commands.names import elements, read_words, states

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from radrm.slurm.commands.shown import Job

_NOT_MEASURED = [
    "AveCPU",
    "AveRSS",
    "AveVMSize",
    "MaxRSS",
    "MaxVMSize",
    "TotalCPU",
    "UserCPU",
    "SystemCPU",
    "CPUTime",
    "CPUTimeRAW",
    "Account",
    "QOS",
    "WCKey",
    "Associd",
    "UID",
    "GID",
    "Group",
    "Cluster",
    "Comment",
    "AdminComment",
    "SystemComment",
    "MaxDiskRead",
    "MaxDiskWrite",
    "AveDiskRead",
    "AveDiskWrite",
    "ConsumedEnergy",
    "ConsumedEnergyRaw",
    "Layout",
    "MinCPU",
    "NTasks",
    "Planned",
    "Reservation",
    "Suspended",
    "TRESUsageInAve",
    "TRESUsageInMax",
    "TRESUsageInTot",
    "WorkDir",
    "SubmitLine",
    "Flags",
    "Constraints",
    "Container",
    "Eligible",
    "Extra",
    "FailedNode",
    "McsLabel",
    "Licenses",
    "BlockID",
    "DBIndex",
    "Reserved",
]


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
_TIMES = re.compile(r"now|today|midnight|[0-9]|-")


def sacct(words: Sequence[str], me: str) -> int:
    """Print rows of jobs. Raises `RadrmError`."""
    options, rest = read_words(words, _SHORT, _FLAGS)
    if rest:
        raise UsageError(f"sacct: {shown(rest[0])} is not an option")
    given = dict(options)
    if "helpformat" in given:
        print("\n".join(sorted(_FIELDS)))
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
    separator = "|" if {"parsable", "parsable2"} & given.keys() else None
    separator = given.get("delimiter", separator) if separator else None
    ends = "|" if "parsable" in given else ""
    rows = [[plain(field(job)) for _, _, field in columns] for job in found]
    if separator is not None:
        if "noheader" not in given:
            print(separator.join(name for name, _, _ in columns) + ends)
        for row in rows:
            print(separator.join(row) + ends)
        return 0
    if "noheader" not in given:
        print(" ".join(f"{name[: abs(width)]:>{abs(width)}}" for name, width, _ in columns), "")
        print(" ".join("-" * abs(width) for _, width, _ in columns), "")
    for row in rows:
        print(
            " ".join(_cell(text, width) for text, (_, width, _) in zip(row, columns, strict=True)),
            "",
        )
    return 0


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
        print(f"Job ID: {of_job.number(job)}")
        print(f"User: {plain(job['user'])}")
        print(f"State: {of_job.state(job)} (exit code {job['exit_code'] or 0})")
        print(f"Cores: {of_job.cpus(job)}")
        print(f"Job Wall-clock time: {of_job.elapsed(job)}")
        if job["peak_mib"] is not None:
            reserved = job["reserved_mib"] or job["estimate_mib"]
            part = f" of {show_mib(reserved)} reserved" if reserved else ""
            print(f"GPU memory: {show_mib(job['peak_mib'])} at most on one GPU{part}")
        if job["energy_j"] is not None:
            print(f"Energy: {job['energy_j'] / 3.6e6:.3f} kWh")
        if job["state"] not in FINAL:
            print("WARNING: Efficiency statistics may be misleading for RUNNING jobs.")
        print("CPU and memory efficiency are not measured; see: radrm report, radrm status JOB")
    return 0

"""What the jobs of the partition have used: `radrm report --cluster`.

With slurmdbd `sacct` has the runs, and in their comments what the steps have measured. Without it
there is the completion log (jobcomp/filetxt), which has no comments: then only the times and what
was asked for are known. Unknown is None, never zero.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from radrm.config import SlurmConfig
from radrm.errors import Refused
from radrm.slurm.asking import SlurmRefused, run
from radrm.slurm.comment import Use, use_of
from radrm.slurm.outer import count_in, moment

BY = ("user", "account", "node", "day")
_SACCT_S = 120.0
_BETWEEN = "\x1f"
_LONGEST = 12
"""Digits of a number of seconds, at most."""
_FIELDS = (
    *("JobID", "User", "Account", "NodeList", "State", "ElapsedRaw", "End", "ReqTRES"),
    "AdminComment",
)
_MOST_READ = 64 << 20
"""Bytes of the completion log: the last ones, some 200,000 runs."""
_NO_DATABASE = "accounting storage is disabled"


@dataclass(frozen=True, slots=True)
class ClusterRun:
    """One run of a job that has ended. `elapsed_s` on its node, waiting there included."""

    user: str
    account: str
    node: str
    state: str
    elapsed_s: float
    ended_s: float
    gpumem_mib: int | None
    use: Use | None


@dataclass(slots=True)
class Sums:
    """The sums of some runs. `measured`: runs of which the use is known."""

    name: str
    runs: int = 0
    completed: int = 0
    elapsed_s: float = 0.0
    gpumem_gib_h: float | None = None
    measured: int = 0
    gpu_s: float | None = None
    smact: float | None = None
    peak_mib: int | None = None
    energy_j: float | None = None
    _smact_s: float = field(default=0.0, repr=False)
    _weight_s: float = field(default=0.0, repr=False)

    def add(self, each: ClusterRun) -> None:
        """Add one run."""
        self.runs += 1
        self.completed += each.state == "COMPLETED"
        self.elapsed_s += each.elapsed_s
        if each.gpumem_mib is not None:
            gib_h = each.gpumem_mib / 1024 * each.elapsed_s / 3600
            self.gpumem_gib_h = (self.gpumem_gib_h or 0.0) + gib_h
        if each.use is None:
            return
        self.measured += 1
        use = each.use
        if use.gpu_s is not None:
            self.gpu_s = (self.gpu_s or 0.0) + use.gpu_s
        if use.energy_j is not None:
            self.energy_j = (self.energy_j or 0.0) + use.energy_j
        if use.peak_mib is not None:
            self.peak_mib = max(self.peak_mib or 0, use.peak_mib)
        if use.smact is not None and use.gpu_s:
            self._smact_s += use.smact * use.gpu_s
            self._weight_s += use.gpu_s
            self.smact = self._smact_s / self._weight_s

    def document(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return {key: value for key, value in asdict(self).items() if not key.startswith("_")}


def sums(runs: Iterable[ClusterRun], by: str) -> list[Sums]:
    """Return the sums by `user`, `account`, `node` or `day`, the most GPU time first."""
    name_of: dict[str, Callable[[ClusterRun], str]] = {
        "user": lambda each: each.user,
        "account": lambda each: each.account or "-",
        "node": lambda each: each.node or "-",
        "day": lambda each: time.strftime("%Y-%m-%d", time.localtime(each.ended_s)),
    }
    found: dict[str, Sums] = {}
    for each in runs:
        name = name_of[by](each)
        found.setdefault(name, Sums(name)).add(each)
    if by == "day":
        return [found[name] for name in sorted(found)]
    return sorted(found.values(), key=lambda row: (-(row.gpu_s or 0.0), -row.elapsed_s, row.name))


def ended_runs(config: SlurmConfig, begin_s: float, end_s: float) -> tuple[list[ClusterRun], str]:
    """Return the runs of the partition that ended in this time, and where they are from: `sacct` or
    the path of the completion log. Raises `Refused`."""
    try:
        text = run(
            "sacct",
            *("--allusers", "--allocations", "--noheader", "--parsable2", "--duplicates"),
            *(f"--delimiter={_BETWEEN}", f"--partition={config.partition}"),
            *(f"--starttime={_date(begin_s)}", f"--endtime={_date(end_s)}"),
            f"--format={','.join(_FIELDS)}",
            timeout_s=_SACCT_S,
        )
    except SlurmRefused as error:
        if _NO_DATABASE not in str(error):
            raise
        path = _completion_log()
        found = of_completions(_tail_of(path), config)
        source = path
    else:
        found, source = of_sacct(text, config), "sacct"
    return [each for each in found if begin_s <= each.ended_s < end_s], source


def of_sacct(text: str, config: SlurmConfig) -> list[ClusterRun]:
    """Return the ended runs in the output of sacct."""
    found = []
    for line in text.splitlines():
        words = line.split(_BETWEEN, len(_FIELDS) - 1)
        if len(words) != len(_FIELDS):
            continue
        _, user, account, node, state, elapsed, end, asked, comment = words
        ended_s = moment(end)
        if ended_s is None or not _is_count(elapsed):
            continue
        mib, use = accounted_mib(asked, config.gres), use_of(comment)
        state = state.split(" ")[0]
        found.append(ClusterRun(user, account, node, state, float(elapsed), ended_s, mib, use))
    return found


def accounted_mib(text: str, gres: str) -> int | None:
    """Return the MiB of GRES in what sacct says that a job has asked for; None if it does not say.

    A count is a plain number; from 23.02 on sacct shows one of the name `gpumem` as memory, as
    `9000M` or `8G`.
    """
    found = re.search(rf"(?:^|,)gres/{re.escape(gres)}=([0-9]{{1,15}})([MGTP]?)(?:,|$)", text)
    if found is None:
        return None
    return int(found[1]) * {"": 1, "M": 1, "G": 1 << 10, "T": 1 << 20, "P": 1 << 30}[found[2]]


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < _LONGEST


def of_completions(text: str, config: SlurmConfig) -> list[ClusterRun]:
    """Return the runs of the partition in a completion log of jobcomp/filetxt."""
    found = []
    for line in text.splitlines():
        # Names may hold blanks, and anything else: a field begins at the last place of its name.
        fields = dict(re.findall(r"(?:^|\s)([A-Z][A-Za-z]*)=(\S*)", line))
        start_s, ended_s = moment(fields.get("StartTime", "")), moment(fields.get("EndTime", ""))
        if fields.get("Partition") != config.partition or ended_s is None:
            continue
        elapsed_s = max(0.0, ended_s - start_s) if start_s is not None else 0.0
        account = fields.get("Account", "")
        found.append(
            ClusterRun(
                fields.get("UserId", "").partition("(")[0],
                "" if account == "(null)" else account,
                fields.get("NodeList", "").replace("(null)", ""),
                fields.get("JobState", ""),
                elapsed_s,
                ended_s,
                count_in(fields.get("Tres", ""), config.gres),
                None,
            )
        )
    return found


def _completion_log() -> str:
    """The path of the completion log. Raises `Refused`."""
    settings = {}
    for line in run("scontrol", "show", "config").splitlines():
        name, equals, value = line.partition("=")
        if equals:
            settings[name.strip()] = value.strip()
    if settings.get("JobCompType") != "jobcomp/filetxt":
        raise Refused(
            "this cluster keeps no record of ended jobs: it has neither slurmdbd nor "
            "JobCompType=jobcomp/filetxt; ask its administrator for one of them"
        )
    return settings.get("JobCompLoc", "")


def _tail_of(path: str) -> str:
    """The end of the completion log, from the beginning of a line. Raises `Refused`."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(0, size - _MOST_READ))
            data = file.read(_MOST_READ)
    except OSError as error:
        raise Refused(
            f"the completion log {path} cannot be read here: {error.strerror}; run this where "
            "slurmctld runs, or ask for slurmdbd"
        ) from None
    if size > _MOST_READ:
        data = data.partition(b"\n")[2]
    return data.decode("utf-8", "replace")


def _date(wall_s: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(wall_s))

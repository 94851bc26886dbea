"""What the jobs of the partition have used: `radrm report --cluster`.

With slurmdbd `sacct` has the runs, and in their comments what the steps have measured. Without it
there is the completion log (jobcomp/filetxt), which has no comments: then only the times and what
was asked for are known. Unknown is None, never zero.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from radrm.config import SlurmConfig
from radrm.errors import Refused
from radrm.slurm.asking import SlurmRefused, run
from radrm.slurm.comment import Use, use_of
from radrm.slurm.documents import ClusterUse
from radrm.slurm.facts import fields_of
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


class ClusterRun(Struct, frozen=True):
    """One run of a job that has ended. `elapsed_s` on its node, waiting there included."""

    user: str
    account: str
    node: str
    state: str
    elapsed_s: float
    ended_s: float
    gpumem_mib: int | None
    use: Use | None


def sums(runs: Iterable[ClusterRun], by: str) -> list[ClusterUse]:
    """Return the sums by `user`, `account`, `node` or `day`, the most GPU time first."""
    name_of: dict[str, Callable[[ClusterRun], str]] = {
        "user": lambda each: each.user,
        "account": lambda each: each.account or "-",
        "node": lambda each: each.node or "-",
        "day": lambda each: time.strftime("%Y-%m-%d", time.localtime(each.ended_s)),
    }
    found: dict[str, list[ClusterRun]] = {}
    for each in runs:
        found.setdefault(name_of[by](each), []).append(each)
    rows = [_summed(name, found[name]) for name in sorted(found)]
    if by == "day":
        return rows
    return sorted(rows, key=lambda row: (-(row.gpu_s or 0.0), -row.elapsed_s))


def _summed(name: str, runs: Sequence[ClusterRun]) -> ClusterUse:
    uses = [each.use for each in runs if each.use is not None]
    asked = [(r.gpumem_mib, r.elapsed_s) for r in runs if r.gpumem_mib is not None]
    active = [(u.smact, u.gpu_s) for u in uses if u.smact is not None and u.gpu_s]
    gpu_s = [use.gpu_s for use in uses if use.gpu_s is not None]
    energy_j = [use.energy_j for use in uses if use.energy_j is not None]
    peaks = [use.peak_mib for use in uses if use.peak_mib is not None]
    gib_h = sum(mib / 1024 * seconds / 3600 for mib, seconds in asked)
    smact = sum(part * s for part, s in active) / sum(s for _, s in active) if active else None
    return ClusterUse(
        name=name,
        runs=len(runs),
        completed=sum(each.state == "COMPLETED" for each in runs),
        elapsed_s=sum(each.elapsed_s for each in runs),
        gpumem_gib_h=gib_h if asked else None,
        measured=len(uses),
        gpu_s=sum(gpu_s) if gpu_s else None,
        smact=smact,
        peak_mib=max(peaks, default=None),
        energy_j=sum(energy_j) if energy_j else None,
    )


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
    settings = fields_of(run("scontrol", "show", "config").splitlines())
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

"""Several servers at once: `radrm status --hosts a,b`, `radrm submit --hosts a,b train.rad`.

Theory of operation. Nothing is asked but what each server tells by `--json`. A submission goes to
the server on which it is expected to start first: now, if the server is not busy; else when the
last job starts that waits there. A server that refuses it, or does not answer, is left out.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from math import inf

from radrm.cli.remote.ssh import jobs_of as jobs_of_submission
from radrm.cli.remote.ssh import send, ssh_words
from radrm.client.amounts import clock
from radrm.client.text import warn
from radrm.errors import Refused, UsageError, plain
from radrm.host.wall import wall_s
from radrm.jobfile.command_line import HOSTS
from radrm.jobfile.values import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from radrm.client.text import Document

    Rank = tuple[float, float]

MOST_HOSTS = 64
MOST_BYTES = 64 << 20
PATIENCE_S = 60.0
"""Seconds within which a host answers."""
_SHOWN_ONLY = frozenset({"--wait", "--parsable", "--json", "--dry-run"})
_OPTIONS = ("-o", "BatchMode=yes", "-o", "ConnectTimeout=10")
"""Several at once cannot ask for passwords."""


def hosts_of(text: str) -> list[str]:
    """Return the hosts of a list. Raises `UsageError`."""
    hosts = [each.strip() for each in text.split(",") if each.strip()]
    if not hosts or len(hosts) > MOST_HOSTS:
        raise UsageError(f"--hosts: {shown(text)} is not a list of 1 to {MOST_HOSTS} hosts")
    for host in hosts:
        ssh_words(host, ())
    return list(dict.fromkeys(hosts))


def ask_all(
    hosts: Sequence[str], command: Sequence[str], given: bytes = b""
) -> dict[str, list[Document]]:
    """Run a command with `--json` on all hosts at once; return each host's documents.

    `given`: its standard input. A host that does not answer is named in a line on standard error.
    Raises `Refused` if none answers.
    """
    with ThreadPoolExecutor(len(hosts)) as pool:
        tried = list(pool.map(lambda host: _documents(host, command, given), hosts))
    found: dict[str, list[Document]] = {}
    for host, answer in zip(hosts, tried, strict=True):
        if isinstance(answer, str):
            warn(f"{host}: {answer}")
        else:
            found[host] = answer
    if not found:
        raise Refused(f"no answer of {', '.join(hosts)}")
    return found


def _documents(host: str, command: Sequence[str], given: bytes) -> list[Document] | str:
    """The documents, or in one line why there are none."""
    line = ssh_words(host, [command[0], "--json", *command[1:]])
    line[line.index("--") : line.index("--")] = _OPTIONS
    with tempfile.TemporaryFile() as said, tempfile.TemporaryFile() as errors:
        try:
            done = subprocess.run(
                line, input=given, stdout=said, stderr=errors, timeout=PATIENCE_S, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return f"no answer within {PATIENCE_S:.0f} s"
        except OSError as error:
            return f"cannot run {line[0]}: {error.strerror}"
        said.seek(0)
        errors.seek(0)
        text, wrong = said.read(MOST_BYTES + 1), errors.read(4096).decode("utf-8", "replace")
    if done.returncode:
        last = (wrong.strip().splitlines() or ["it said nothing"])[-1]
        return plain(last[:300]).removeprefix("radrm: ")
    try:
        found = json.loads(text) if len(text) <= MOST_BYTES else None
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        return "it did not answer as radrm does; set RADRM_REMOTE if radrm is elsewhere there"
    return found


def jobs_of(text: str, words: Sequence[str]) -> tuple[list[Document], Mapping[str, int]]:
    """Return the jobs of all hosts, each with its `host`, and the indices of the GPUs there."""
    hosts = hosts_of(text)
    jobs = ask_all(hosts, ["status", *words])
    devices = ask_all(list(jobs), ["gpus"])
    index = {str(each["uuid"]): each["index"] for found in devices.values() for each in found}
    return [{**job, "host": host} for host, found in jobs.items() for job in found], index


def submit_on(words: Sequence[str]) -> int:
    """Submit each job on that one of `--hosts` where it is expected to start first.

    `words`: those of `radrm submit`. Returns the exit code. Raises `Refused` if no host takes it.
    """
    option = f"--{HOSTS}"
    at = next(i for i, word in enumerate(words) if word.partition("=")[0] == option)
    after = at + 1 if "=" in words[at] else at + 2
    text = words[at].partition("=")[2] if "=" in words[at] else "".join(words[at + 1 : after])
    hosts, codes = hosts_of(text), [0]
    jobs = jobs_of_submission([*words[:at], *words[after:]])
    for job in jobs:
        asked = [word for word in job.words[1:] if word not in _SHOWN_ONLY]
        tried = ask_all(hosts, ["submit", "--dry-run", *asked], job.script or b"")
        busy = ask_all(list(tried), ["status", "--state=pending,recovering"])
        devices = ask_all(list(busy), ["gpus"])
        ranks = [(_rank(tried[host][0], busy[host], devices[host]), host) for host in devices]
        (start_s, *_), host = min(ranks, key=lambda each: each[0])
        when = (
            "now"
            if start_s == 0
            else "at an unknown time"
            if start_s == inf
            else clock(start_s, wall_s())
        )
        print(f"radrm: {host}: it is expected to start {when}", file=sys.stderr, flush=True)
        codes.append(send(host, job))
    return max(codes)


def _rank(asked: Document, waiting: Sequence[Document], devices: Sequence[Document]) -> Rank:
    """When a job would start on a server (epoch seconds; 0: now), and how many wait there for each
    GPU."""
    before = [
        job for job in waiting if (job["gpus"] > 0) == (asked["gpus"] > 0) and not job["held"]
    ]
    wanted_mib = asked["estimate_upper_mib"] or inf
    free = sum(
        device["state"] == "idle"
        or (device["state"] == "busy" and (device["free_mib"] or 0) >= wanted_mib)
        for device in devices
    )
    crowd = len(before) / max(1, len(devices))
    if not before and free >= asked["gpus"]:
        return 0.0, crowd
    starts = [job.get("expected_start_at") or job.get("latest_start_at") for job in before]
    known = [start for start in starts if start is not None]
    return (max(known) if known and len(known) == len(starts) else inf), crowd

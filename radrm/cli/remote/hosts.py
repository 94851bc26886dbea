"""The jobs of several servers in one table: `radrm status --hosts a,b`."""

from __future__ import annotations

import json
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor

from radrm.cli.remote.ssh import ssh_words
from radrm.client.text import warn
from radrm.errors import Refused, UsageError, plain
from radrm.jobfile.values import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from radrm.client.text import Document

MOST_HOSTS = 64
MOST_BYTES = 64 << 20
PATIENCE_S = 60.0
"""Seconds within which a host answers."""
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


def ask_all(hosts: Sequence[str], command: Sequence[str]) -> dict[str, list[Document]]:
    """Run a command with `--json` on all hosts at once; return each host's documents.

    A host that does not answer is told in a line on standard error. Raises `Refused` if none does.
    """
    with ThreadPoolExecutor(len(hosts)) as pool:
        tried = list(pool.map(lambda host: _documents(host, command), hosts))
    found: dict[str, list[Document]] = {}
    for host, answer in zip(hosts, tried, strict=True):
        if isinstance(answer, str):
            warn(f"{host}: {answer}")
        else:
            found[host] = answer
    if not found:
        raise Refused(f"no answer of {', '.join(hosts)}")
    return found


def _documents(host: str, command: Sequence[str]) -> list[Document] | str:
    """The documents, or in one line why there are none."""
    line = ssh_words(host, [*command, "--json"])
    line[line.index("--") : line.index("--")] = _OPTIONS
    with tempfile.TemporaryFile() as said, tempfile.TemporaryFile() as errors:
        try:
            done = subprocess.run(
                line, stdin=subprocess.DEVNULL, stdout=said, stderr=errors, timeout=PATIENCE_S,
                check=False,
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

"""A Slurm of three nodes with a radrm daemon on each, on simulated GPUs.

Slurm and daemons are those of the tests (`tests/slurm/cluster.py`), as root. A job is a script
with the first line that job_submit.lua gives those of the partition.
"""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

from radrm.config import SlurmConfig
from radrm.slurm.setup import job_submit_lua
from tests.paths import REPOSITORY
from tests.slurm.cluster import Cluster
from tests.slurm.configuration import NODES

SECTION = """\
[slurm]
enabled = true
partition = "shared"
gres = "gpumem"
home = "{home}"
"""

OF_NODES = ("slurm.enabled=true", "slurm.node=%n")
"""Settings of the daemons: the nodes are one server, so Slurm's names of them are not its own."""


@contextmanager
def running_cluster(
    settings: Sequence[str] = (),
    scale: float = 1.0,
    more: str = "",
    nodes: Sequence[str] = NODES,
) -> Iterator[Cluster]:
    """Slurm with the rules of radrm, and a daemon on each node that answers; all ends with the
    block."""
    cluster = Cluster(more, job_submit_lua(SlurmConfig()), nodes)
    try:
        cluster.start()
        prepare(cluster)
        with ThreadPoolExecutor(4) as pool:
            start = partial(cluster.daemon, settings=(*OF_NODES, *settings), scale=scale)
            list(pool.map(start, cluster.nodes))
        yield cluster
    finally:
        cluster.stop()


def prepare(cluster: Cluster) -> None:
    """Write the configuration that daemons and steps read, and let jobs find radrm."""
    config = cluster.folder / "radrm.toml"
    config.write_text(SECTION.format(home=cluster.home))
    cluster.env["RADRM_CONFIG"] = str(config)
    cluster.env["PYTHONPATH"] = str(REPOSITORY)
    cluster.env["PATH"] = f"{Path(sys.executable).parent}:{cluster.env['PATH']}"
    cluster.env.pop("PYTHONDONTWRITEBYTECODE", None)


def through_radrm(script: str, *options: str) -> str:
    """The batch script that Slurm runs by radrm's step."""
    lines = "".join(f"#RAD {option}\n" for option in options)
    return f"#!/usr/bin/env -S radrm slurm-step\n#!/bin/sh\n{lines}{script}\n"


def codes_of_slurm(cluster: Cluster) -> dict[str, int | None]:
    """Slurm's exit code of each job's last run, by its id. None: it ended by a signal."""
    found = {}
    for line in cluster.completions():
        code, _, number = line["ExitCode"].partition(":")
        found[line["JobId"]] = int(code) if number == "0" else None
    return found


def codes_of_radrm(cluster: Cluster) -> dict[str, int | None]:
    """The daemons' exit code of each Slurm job's last run, by Slurm's id. None: there is none."""
    found: dict[tuple[str, int], int | None] = {}
    for home in cluster.daemons.values():
        codes = {job["id"]: job["exit_code"] for job in home.json("status", "--all")}
        store = f"file:{home.environment['RADRM_HOME']}/store/radrm.sqlite?mode=ro"
        with closing(sqlite3.connect(store, uri=True)) as database:
            for name, job in database.execute("SELECT name, job_id FROM outer_jobs"):
                number, _, restart = name.rpartition(":")[2].partition(".")
                found[number, int(restart)] = codes[job]
    return {number: found[number, restart] for number, restart in sorted(found)}

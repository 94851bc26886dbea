"""`radrm doctor`: check this machine, the configuration and the daemon."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from radrm.cli.options import Json
from radrm.cli.settings import find_errors
from radrm.cli.show.findings import FindingLine, summary
from radrm.cli.show.styled import is_drawn, show
from radrm.client.text import print_json
from radrm.host.health.checks import all_checks
from radrm.host.health.finding import Check, Finding, Level, run_checks
from radrm.host.health.slurm.checks import Asked, slurm_checks
from radrm.host.slurm.programs import run
from radrm.host.storage.paths import Paths
from radrm.slurm.setup import cluster_config, daemon_paths


def doctor(
    slurm: Annotated[
        bool,
        typer.Option("--slurm", help="Check the Slurm cluster in place of this machine."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Check this machine, the configuration and the daemon.

    It needs no daemon and changes nothing. The exit code is 1 if a check fails. `--slurm` checks
    whether Slurm and radrm fit together: the cluster, the partition, its nodes, and, on a node, the
    GPUs of its daemon.

    \b
    Examples:
      radrm doctor
      radrm doctor --json
      radrm doctor --slurm
    """
    # What sources of readings log is for a daemon: here it would stand between the lines.
    logging.getLogger("radrm").addHandler(logging.NullHandler())
    checks = _of_slurm() if slurm else all_checks(os.environ, os.getuid(), find_errors)
    findings: list[Finding] = []
    for finding in run_checks(checks):
        findings.append(finding)
        if not as_json:
            show(FindingLine(finding))
    if as_json:
        print_json([_document(finding) for finding in findings])
    else:
        show(summary(findings, by_name=is_drawn()))
    if any(finding.level is Level.FAIL for finding in findings):
        raise typer.Exit(1)


def _of_slurm() -> Iterator[Check]:
    """The checks of the cluster. Raises `BadConfig`."""
    config = cluster_config(os.environ).slurm

    def places(node: str) -> tuple[Paths, ...]:
        return daemon_paths(config, {**os.environ, "SLURMD_NODENAME": node}, os.getuid())

    return slurm_checks(Asked(config, socket.gethostname(), run, places))


def _document(finding: Finding) -> dict[str, Any]:
    return {
        "check": finding.check,
        "level": finding.level.value,
        "finding": finding.finding,
        "next_step": finding.next_step,
    }

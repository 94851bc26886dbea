"""`radrm doctor`: check this machine, the configuration and the daemon."""

from __future__ import annotations

import logging
import os
from typing import Any

import typer

from radrm.cli.options import Json
from radrm.cli.settings import find_errors
from radrm.cli.show.findings import FindingLine, summary
from radrm.cli.show.styled import is_drawn, show
from radrm.client.text import print_json
from radrm.host.health.checks import all_checks
from radrm.host.health.finding import Finding, Level, run_checks


def doctor(as_json: Json = False) -> None:
    """Check this machine, the configuration and the daemon.

    It needs no daemon and changes nothing. The exit code is 1 if a check fails.

    \b
    Examples:
      radrm doctor
      radrm doctor --json
    """
    # What sources of readings log is for a daemon: here it would stand between the lines.
    logging.getLogger("radrm").addHandler(logging.NullHandler())
    findings: list[Finding] = []
    for finding in run_checks(all_checks(os.environ, os.getuid(), find_errors)):
        findings.append(finding)
        if not as_json:
            show(FindingLine(finding))
    if as_json:
        print_json([_document(finding) for finding in findings])
    else:
        show(summary(findings, by_name=is_drawn()))
    if any(finding.level is Level.FAIL for finding in findings):
        raise typer.Exit(1)


def _document(finding: Finding) -> dict[str, Any]:
    return {
        "check": finding.check,
        "level": finding.level.value,
        "finding": finding.finding,
        "next_step": finding.next_step,
    }

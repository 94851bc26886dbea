"""`radrm doctor`: check this machine, the configuration and the daemon."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import typer
from msgspec import Struct
from rich.console import Console, ConsoleOptions
from rich.text import Text

from radrm.cli.options import Json
from radrm.cli.settings import find_errors
from radrm.cli.show.styled import Styled, is_drawn, show
from radrm.client.text import print_json
from radrm.errors import plain
from radrm.host.health.checks import all_checks
from radrm.host.health.finding import Finding, Level, run_checks
from radrm.wings import check

_INDENT, _STEP = 6, "-> "
_STYLE = {Level.OK: "green", Level.WARN: "yellow", Level.FAIL: "bold red"}


class FindingLine(Struct, frozen=True):
    """A finding: one line in a pipe. On a terminal the next step is below it, and long texts are
    wrapped."""

    finding: Finding

    def plain_lines(self) -> list[str]:
        step = self.finding.next_step
        below = f"; {plain(step)}" if step is not None else ""
        return [f"{self.finding.level.value:<4}  {self._words}{below}"]

    @property
    def _words(self) -> str:
        return plain(f"{self.finding.check}: {self.finding.finding}")

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        if not console.is_terminal:
            yield from map(_whole, map(Text, self.plain_lines()))
            return
        level, step = self.finding.level, self.finding.next_step
        head = Text.assemble((f"{level.value:<4}", _STYLE[level]), "  ")
        words = Text(self._words)
        words.stylize("bold", 0, len(self.finding.check) + 1)
        room = max(20, options.max_width - _INDENT)
        lines = list(words.wrap(console, room))
        if step is not None:
            below = Text(plain(step)).wrap(console, room - len(_STEP))
            marks = [_STEP, *[" " * len(_STEP)] * (len(below) - 1)]
            lines += [Text(mark, "dim") + line for mark, line in zip(marks, below, strict=True)]
        for line in lines:
            line.rstrip()
            yield _whole(head + line)
            head = Text(" " * _INDENT)


def _whole(text: Text) -> Text:
    text.no_wrap, text.overflow = True, "ignore"
    return text


def summary(findings: Sequence[Finding], by_name: bool) -> Styled:
    """The count of each level, as `20 ok, 1 warn, 0 fail`. `by_name` adds the names of warnings
    and failures (`1 warn (MPS)`), because their lines may have scrolled away."""
    parts = []
    for level in Level:
        names = [f.check for f in findings if f.level is level]
        named = f" ({', '.join(names)})" if by_name and names and level is not Level.OK else ""
        parts.append(f"{len(names)} {level.value}{named}")
    return Styled(", ".join(parts))


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
    checks = check("slurm")() if slurm else all_checks(os.environ, os.getuid(), find_errors)
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


def _document(finding: Finding) -> dict[str, Any]:
    return {
        "check": finding.check,
        "level": finding.level.value,
        "finding": finding.finding,
        "next_step": finding.next_step,
    }

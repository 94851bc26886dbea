"""`radrm doctor`: check this machine, the configuration and the daemon."""

from __future__ import annotations

import os

from msgspec import Struct

from radrm.cli.parameters import FLAG, JSON, Parameter
from radrm.cli.show.styled import Styled, show
from radrm.client.text import print_json
from radrm.errors import plain
from radrm.host.health.checks import all_checks
from radrm.host.health.finding import Finding, Level, run_checks
from radrm.wings import check

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from rich.console import Console, ConsoleOptions
    from rich.text import Text

_INDENT, _STEP = 6, "-> "
_STYLE = {Level.OK: "green", Level.WARN: "yellow", Level.FAIL: "bold red"}
_SLURM = "Check the Slurm cluster in place of this machine."
DOCTOR_PARAMETERS = (
    Parameter("every", FLAG, "A line for each check, also for what is fine.", flags=("--all",)),
    Parameter("slurm", FLAG, _SLURM, flags=("--slurm",)),
    JSON,
)


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
        from rich.text import Text

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


def fine(names: Sequence[str]) -> Styled:
    """The one line about all checks that are in order; a narrow terminal shows its beginning."""
    line = Styled(f"{Level.OK.value:<4}", _STYLE[Level.OK], cut=True)
    ending = "" if len(names) == 1 else "s"
    line.append(f"  {len(names)} check{ending} (--all has their lines): {', '.join(names)}")
    return line


def doctor(every: bool, slurm: bool, as_json: bool) -> int:
    """Check this machine, the configuration and the daemon.

    First what is wrong, each with the command that helps, then one line about what is fine.
    It needs no daemon and changes nothing. The exit code is 1 if a check fails. `--slurm` checks
    whether Slurm and radrm fit together: the cluster, the partition, its nodes, and, on a node, the
    GPUs of its daemon.

    \b
    Examples:
      radrm doctor
      radrm doctor --all
      radrm doctor --slurm
    """
    checks = check("slurm")() if slurm else all_checks(os.environ, os.getuid(), _find_errors)
    found: list[Finding] = []
    for each in run_checks(checks):
        found.append(each)
        if not as_json and (every or each.level is not Level.OK):
            show(FindingLine(each))  # at once: the next check may hang for a while
    well = [each.check for each in found if each.level is Level.OK]
    if as_json:
        print_json([_document(each) for each in found])
    elif well and not every:
        show(fine(well))
    return 1 if any(each.level is Level.FAIL for each in found) else 0


def _find_errors(text: str, source: str) -> list[str]:
    from radrm.cli.settings import find_errors  # it imports all rules; many have no configuration

    return find_errors(text, source)


def _document(finding: Finding) -> dict[str, Any]:
    return {
        "check": finding.check,
        "level": finding.level.value,
        "finding": finding.finding,
        "next_step": finding.next_step,
    }

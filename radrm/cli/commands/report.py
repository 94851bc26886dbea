"""`radrm report`: show what was used, and its cost."""

from __future__ import annotations

from radrm.cli.parameters import FLAG, JSON, TEXT, Parameter
from radrm.cli.show.past.energy import energy_page
from radrm.cli.show.past.periods import SINCE, UNTIL, period
from radrm.cli.show.past.report import report_page
from radrm.cli.show.styled import Styled, show
from radrm.client.connection import Client
from radrm.client.text import print_json
from radrm.errors import Refused, UsageError, plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from radrm.cli.show.styled import Part
    from radrm.client.text import Document

BY = ("user", "job", "gpu", "day", "group")

PARAMETERS = (
    Parameter("by", TEXT, f"Sum by {', '.join(BY)}; by user by default.", "WHAT", ("--by",)),
    SINCE,
    UNTIL,
    Parameter("energy", FLAG, "Only energy, with its shares.", flags=("--energy",)),
    Parameter("html", TEXT, "Write the report into an HTML file.", "FILE", ("--html",)),
    JSON,
)


def report(by: str, since: str, until: str, energy: bool, html: str, as_json: bool) -> None:
    """Show what users, jobs or GPUs have used: GPU-hours, energy, cost.

    JOBS: jobs that ended in that time. OOM: out-of-memory deaths. WAITED: the mean. Jobs that share
    a GPU divide its hours. Whole hours count.

    \b
    Examples:
      radrm report
      radrm report --by day --since 2030-01-01 --until 2030-02-01
      radrm report --by job --since 12h --html report.html
      radrm report --energy --by gpu
    """
    what = by or "user"
    if what not in BY:
        raise UsageError(f"--by: {what!r} is none of {', '.join(BY)}; write --by user")
    if html and as_json:
        raise UsageError("--html and --json exclude each other; name one")
    question, page = ("energy", energy_page) if energy else ("report", report_page)
    times = period(since, until)
    with Client() as client:
        begin_s, end_s = times(client.ask("ping")["now"])
        asked = [what] if by or not html else ["user", "gpu", "day"]
        answers = [client.ask(question, by=each, since=begin_s, until=end_s) for each in asked]
    if as_json:
        print_json(answers[0])
    elif html:
        _write(html, "Energy" if energy else "GPU use", answers, page)
    else:
        show(*page(answers[0]))


def _write(
    path: str, title: str, answers: list[Document], page: Callable[[Document], list[Part]]
) -> None:
    import os

    from radrm.cli.show.past.web import web_page

    sections = [(f"By {each['by']}", page(each)) for each in answers]
    try:
        with open(path, "w", encoding="utf-8", errors="replace") as file:
            file.write(web_page(f"{title} of {os.uname().nodename}", sections))
    except OSError as error:
        raise Refused(f"cannot write {plain(path)}: {error.strerror}; name another file") from None
    show(Styled(f"Wrote {plain(path)}"))

"""`radrm report`: show what was used, and its cost."""

from __future__ import annotations

from radrm.cli.parameters import CLUSTER, FLAG, JSON, TEXT, Parameter
from radrm.cli.show.past import SINCE, UNTIL, energy_page, period, report_page
from radrm.cli.show.styled import Styled, show
from radrm.client.connection import Client
from radrm.client.text import print_json
from radrm.core.units import SIMULATED_GPUS
from radrm.errors import Refused, UsageError, plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from radrm.cli.show.styled import Part
    from radrm.client.text import Document

BY = ("user", "job", "gpu", "day", "group")

REPORT_PARAMETERS = (
    Parameter("by", TEXT, f"Sum by {', '.join(BY)}; by user by default.", "WHAT", ("--by",)),
    SINCE,
    UNTIL,
    Parameter("energy", FLAG, "Only energy, with its shares.", flags=("--energy",)),
    Parameter("overview", FLAG, "How the server did: waiting, use, deaths.", flags=("--overview",)),
    CLUSTER,
    Parameter("html", TEXT, "Write it all into an HTML file, with charts.", "FILE", ("--html",)),
    JSON,
)


def report(
    by: str,
    since: str,
    until: str,
    energy: bool,
    overview: bool,
    cluster: bool,
    html: str,
    as_json: bool,
) -> None:
    """Show what users, jobs or GPUs have used: GPU-hours, energy, cost.

    JOBS: jobs that ended in that time. OOM: out-of-memory deaths. WAITED: the mean. Jobs that share
    a GPU divide its hours. Whole hours count. By user, your own row is the first.

    \b
    Examples:
      radrm report
      radrm report --by day --since 2030-01-01 --until 2030-02-01
      radrm report --by job --since 12h --html report.html
      radrm report --html - --since 30d > report.html
      radrm report --overview --since 30d
      radrm report --energy --by gpu
      radrm report --cluster --by account --since 30d
    """
    if cluster:
        if energy or overview or html:
            raise UsageError("--cluster goes with --by, --since, --until and --json")
        from radrm.cli.slurm.cluster import show_report  # few look at a cluster

        show_report(by or "user", period(since, until), as_json)
        return
    what = by or "user"
    if what not in BY:
        raise UsageError(f"--by: {what!r} is none of {', '.join(BY)}; write --by user")
    if html and as_json:
        raise UsageError("--html and --json exclude each other; name one")
    if overview and (by or energy):
        given = "--energy" if energy else "--by"
        raise UsageError(f"--overview and {given} exclude each other; name one")
    question, page = ("energy", energy_page) if energy else ("report", report_page)
    times = period(since, until)
    with Client() as client:
        begin_s, end_s = times(client.ask("ping")["now"])
        asked = [] if overview else [what] if by or not html else ["user", "gpu", "day"]
        answers = [client.ask(question, by=each, since=begin_s, until=end_s) for each in asked]
        looked = None
        if overview or (html and not energy):
            looked = client.ask("overview", since=begin_s, until=end_s)
    if as_json:
        print_json(looked if overview else answers[0])
    elif html:
        sections = [
            (f"By {'GPU' if each['by'] == 'gpu' else each['by']}", page(each)) for each in answers
        ]
        title = "Energy" if energy else "GPU use"
        simulated = any(each.get("simulated") for each in (*answers, looked or {}))
        _write(html, title, sections, looked, simulated)
    elif looked is not None:
        from radrm.pages.summary import incomplete, summary

        show(*[Styled(plain(line)) for line in summary(looked)])
        show(*[Styled(plain(line), "dim") for line in incomplete(looked)])
    else:
        rows = answers[0]["rows"]
        if what == "user":
            me = _my_name()
            rows = sorted(rows, key=lambda row: row["user"] != me)
        show(*page({**answers[0], "rows": rows}))


def _my_name() -> str:
    import os
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def _write(
    path: str,
    title: str,
    sections: list[tuple[str, list[Part]]],
    looked: Document | None,
    simulated: bool,
) -> None:
    import os
    import sys

    from radrm.cli.show.html_page import web_page
    from radrm.pages.overview import overview_parts

    lead = overview_parts(looked) if looked is not None else []
    gpus = f" ({SIMULATED_GPUS})" if simulated else ""
    text = web_page(f"{title} of {os.uname().nodename}{gpus}", sections, lead)
    written = text.encode("utf-8", "replace")
    if path == "-":
        sys.stdout.buffer.write(written)
        sys.stdout.buffer.flush()
        return
    try:
        with open(path, "wb") as file:
            file.write(written)
    except OSError as error:
        raise Refused(f"cannot write {plain(path)}: {error.strerror}; name another file") from None
    show(Styled(f"Wrote {plain(path)}"))

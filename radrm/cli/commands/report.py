"""`radrm report`, `history` and `limits`: what was used, by whom, and what may be."""

from __future__ import annotations

from radrm.cli.parameters import CLUSTER, FLAG, FORMAT, JSON, NO_HEADER, NUMBER, TEXT, Parameter
from radrm.cli.show.columns import Rows
from radrm.cli.show.jobs import PAGE
from radrm.cli.show.past import SINCE, UNTIL, energy_page, history_page, period, report_page
from radrm.cli.show.shares import limits_page, shares_page
from radrm.cli.show.styled import Styled, show
from radrm.client.connection import Client
from radrm.client.last_state import ReadingClient
from radrm.client.text import my_name, print_json, say
from radrm.core.units import SIMULATED_GPUS
from radrm.errors import Refused, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

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
        from radrm.wings import target  # few look at a cluster

        target("cluster").show_report(by or "user", period(since, until), as_json)
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

        show(*[Styled(line) for line in summary(looked)])
        show(*[Styled(line, "dim") for line in incomplete(looked)])
    else:
        rows = answers[0]["rows"]
        if what == "user":
            me = my_name()
            rows = sorted(rows, key=lambda row: row["user"] != me)
        show(*page({**answers[0], "rows": rows}))


def _write(
    path: str,
    title: str,
    sections: list[tuple[str, list[Part]]],
    looked: Document | None,
    simulated: bool,
) -> None:
    import os
    import sys

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
        raise Refused(f"cannot write {path}: {error.strerror}; name another file") from None
    show(Styled(f"Wrote {path}"))


_STATE = "Only jobs that ended so, as failed,timeout."
HISTORY_PARAMETERS = (
    Parameter("user", TEXT, "Only jobs of this user.", "NAME", ("--user",)),
    Parameter("state", TEXT, _STATE, "STATE,...", ("--state",)),
    SINCE,
    UNTIL,
    Parameter("name", TEXT, "Only jobs of this name: 'sweep-*'.", "GLOB", ("--name",)),
    Parameter("gpu", TEXT, "Only jobs that ran on this GPU: its index or UUID.", "GPU", ("--gpu",)),
    Parameter("limit", NUMBER, f"Rows on a page; {PAGE} by default.", "N", ("--limit",), 1, 1000),
    Parameter("page", NUMBER, "Which page; 1 has the newest jobs.", "N", ("--page",), 1),
    FORMAT,
    NO_HEADER,
    JSON,
)


def history(
    user: str,
    state: str,
    since: str,
    until: str,
    name: str,
    gpu: str,
    limit: int | None,
    page: int | None,
    layout: str,
    no_header: bool,
    as_json: bool,
) -> None:
    """List past jobs, with their sums.

    The newest is last. The sums are those of all pages. Jobs that share a GPU divide its hours.

    \b
    Examples:
      radrm history
      radrm history --state failed --since 30d
      radrm history --user ada --name 'sweep-*' --gpu 0
    """
    if (no_header and not layout) or (layout and as_json):
        raise UsageError("--no-header goes with --format, and --format does not go with --json")
    parts = []
    if layout:
        from radrm.cli.show.formats import heading, read_format, row

        parts = read_format(layout)
    times, size = period(since, until), limit or PAGE
    filters = {"user": user, "state": state.replace(" ", ""), "name": name, "gpu": gpu}
    asked = {key: value for key, value in filters.items() if value}
    first = ((page or 1) - 1) * size
    with ReadingClient() as client:
        begin_s, end_s = times(client.ask("ping")["now"])
        answer = client.ask(
            "history", **asked, since=begin_s, until=end_s, offset=first, limit=size
        )
    if as_json:
        print_json(answer)
        return
    if layout:
        head = [] if no_header else [heading(parts)]
        rows = [row(parts, job, answer["devices"], end_s) for job in answer["jobs"]]
        say(*head, *rows)
        return
    total = answer["total"]
    if first >= total > 0:
        raise Refused(f"there is no page {page}; there are {-(-total // size)}")
    more = ""
    if total > first + len(answer["jobs"]):
        import shlex

        command = ["radrm", "history"]
        times_given = {"since": since, "until": until}
        sizes = {"limit": str(limit or ""), "page": str((page or 1) + 1)}
        for key, value in (filters | times_given | sizes).items():
            command += [f"--{key}", value] if value else []
        more = shlex.join(command)
    show(*history_page(answer, more))


LIMITS_PARAMETERS = (
    Parameter("user", TEXT, "This user; only for root.", "NAME", ("--user",)),
    JSON,
)


def limits(user: str, as_json: bool) -> None:
    """Show your limits with their use, and whose job is next.

    The administrator sets the limits in the table [limits] of the configuration. Each job counts
    its GPUs: one that two jobs share counts twice, and a MIG instance counts as one.

    Below the users: their Unix groups, if there are several. GPU time counts half after
    core.use_half_life_s. Jobs that share a GPU share its time. RANK 1: the user whose job is first
    in the queue. Under the orders `smallest-work` and `fair` users take turns by their GPU time.

    \b
    Examples:
      radrm limits
      sudo radrm limits --user ada
    """
    with Client() as client:
        answer = client.ask("limits", **({"user": user} if user else {}))
        shares = client.ask("shares")
    if as_json:
        print_json({**answer, "shares": shares})
    else:
        show(*limits_page(answer), Styled(), *shares_page(shares))


# ------------------------------------------------------------------
# The tables of a terminal as sections of a page.


def web_page(
    title: str, sections: Iterable[tuple[str, Sequence[Part]]], lead: Iterable[str] = ()
) -> str:
    """Return an HTML document: the `lead` (HTML), then a heading for each section. Names of users
    are escaped."""
    from radrm.pages.document import document, heading

    body = list(lead)
    for name, parts in sections:
        body.append(heading(name))
        body += [_part(part) for part in parts]
    return document(title, body)


def _part(part: Part) -> str:
    from radrm.pages.document import paragraph, table

    if isinstance(part, Rows):
        columns = [(column.title, column.right) for column in part.columns]
        cells = ([cell.plain for cell in row] for row in part.rows)
        return table(columns, cells, total=True)
    return "\n".join(paragraph(line, soft=True) for line in part.plain_lines())

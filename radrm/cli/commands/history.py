"""`radrm history`: list past jobs, with their sums."""

from __future__ import annotations

from radrm.cli.parameters import FORMAT, JSON, NO_HEADER, NUMBER, TEXT, Parameter
from radrm.cli.show.jobs import PAGE
from radrm.cli.show.past import SINCE, UNTIL, history_page, period
from radrm.cli.show.styled import show
from radrm.client.connection import Client
from radrm.client.text import print_json
from radrm.errors import Refused, UsageError, plain

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
    with Client() as client:
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
        print("".join(f"{line}\n" for line in (*head, *rows)), end="")
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
        more = plain(shlex.join(command))
    show(*history_page(answer, more))

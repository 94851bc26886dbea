"""`radrm status` and `explain`: jobs, one job, and why it waits."""

from __future__ import annotations

from radrm.cli.parameters import (
    CLUSTER,
    FLAG,
    FORMAT,
    JOB,
    JSON,
    NO_HEADER,
    NUMBER,
    REFERENCES,
    TEXT,
    WORDS,
    Parameter,
)
from radrm.cli.show.jobs import PAGE, counts_line, job_rows, no_jobs
from radrm.cli.show.next import are_wanted, command_lines
from radrm.cli.show.styled import Styled, show
from radrm.client.connection import every_job
from radrm.client.last_state import ReadingClient
from radrm.client.text import label, print_json, say
from radrm.core.units import gpu_count
from radrm.errors import Refused, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from radrm.cli.show.formats import Part
    from radrm.client.connection import Client
    from radrm.client.text import Document

_JOBS = f"{REFERENCES}; all jobs that have not ended by default."
_ALL = "Also jobs that have ended (the latest 10000)."
_STATE = "Only jobs in these states, as running,pending."
_FOLLOW = "Show changes until Ctrl-C; of one job its log too."
_MOST = 1000
"""Rows that one request can ask for."""
_OF_LOG = 1000
"""Lines of a log in which a card looks for the error."""
STATUS_PARAMETERS = (
    Parameter("jobs", WORDS, _JOBS, "JOB..."),
    Parameter("every", FLAG, _ALL, flags=("--all",)),
    Parameter("user", TEXT, "Only jobs of this user.", "NAME", ("--user",)),
    Parameter("state", TEXT, _STATE, "STATE,...", ("--state",)),
    Parameter("page", NUMBER, "Which page of many jobs.", "N", ("--page",), 1),
    Parameter("limit", NUMBER, f"Rows on a page; {PAGE} by default.", "N", ("--limit",), 1, 1000),
    Parameter("follow", FLAG, _FOLLOW, flags=("--follow", "-f")),
    CLUSTER,
    FORMAT,
    NO_HEADER,
    JSON,
)


def status(
    jobs: list[str],
    every: bool,
    user: str,
    state: str,
    page: int | None,
    limit: int | None,
    follow: bool,
    cluster: bool,
    layout: str,
    no_header: bool,
    as_json: bool,
) -> None:
    """Show jobs: where they run, why they wait, how they ended. One job is shown in full.

    --follow prints a line for each change, until all jobs have ended; radrm top is a live view.
    On a terminal it ends with two commands that help next; RADRM_HINTS=0 leaves them out.

    \b
    Examples:
      radrm status                         jobs that have not ended
      radrm status 12                      everything about job 12
      radrm status --all --state failed    jobs that failed
      radrm status 'sweep-*' --follow      live
      radrm status --format '%i %T {reserved_mib}' --no-header
    """
    if cluster:
        if jobs or every or state or page or limit or follow or layout:
            raise UsageError("--cluster goes with --user and --json; of one job: radrm explain")
        from radrm.wings import target  # few look at a cluster

        target("cluster").show_status(user, as_json)
        return
    if no_header and not layout:
        raise UsageError("--no-header goes with --format")
    if layout and (as_json or follow):
        raise UsageError("--format does not go with --json or --follow")
    words: Document = {"jobs": jobs, "all": every}
    words |= {"user": user or None, "state": state.replace(" ", "") or None}
    size = limit or PAGE
    first = ((page or 1) - 1) * size
    parts: list[Part] = []
    if layout:
        from radrm.cli.show.formats import read_format

        parts = read_format(layout)
    with ReadingClient() as client:
        if follow:
            from radrm.cli.show.follow import follow_jobs

            follow_jobs(client, words, as_json)
        elif layout:
            _show_rows(client, words, parts, not no_header, (first, size if limit else None))
        elif as_json:
            found = every_job(client.ask, **words, given=True)
            print_json(found[first : first + size] if page or limit else found)
        else:
            _show(client, words, first, size)


def _show(client: Client, words: Document, first: int, size: int) -> None:
    own = {"own": True} if are_wanted() else {}
    found = client.ask("page", **words, offset=first, limit=size, **own)
    next_ = command_lines(found["own"]) if "own" in found else []  # else an older daemon
    jobs, total = found["jobs"], found["total"]
    if words["jobs"] and total == 1 and jobs and jobs[0].get("count", 1) == 1:
        _show_card(client, jobs[0], found)
        return
    simulated = bool(found.get("simulated"))
    if not total:
        gpus = gpu_count(len(found["devices"]), simulated)
        show(no_jobs(words), *[Styled(gpus, "dim")] * simulated, *next_)
        return
    if not jobs:
        pages = -(-total // size)
        raise Refused(f"there is no page {first // size + 1}; there are {pages}")
    show(
        counts_line(found["counts"], len(found["devices"]), simulated),
        *(Styled(note, "yellow") for note in found.get("notes") or []),
        job_rows(jobs, found["devices"], found.get("now")),
    )
    left = total - first - len(jobs)
    if left > 0:
        show(Styled(f"... {left} more: {_next_page(words, first, size)}"))
    show(*next_)


def _show_rows(
    client: Client, words: Document, parts: list[Part], header: bool, part: tuple[int, int | None]
) -> None:
    """Print a line for each row, laid out as the user asks: all rows, or those of a page."""
    from radrm.cli.show.formats import heading, row

    if header:
        say(heading(parts))
    at, most = part
    while True:
        left = _MOST if most is None else most - (at - part[0])
        found = client.ask("page", **words, offset=at, limit=min(_MOST, left))
        say(*(row(parts, job, found["devices"], found["now"]) for job in found["jobs"]))
        at += len(found["jobs"])
        if not found["jobs"] or at >= found["total"] or (most and at >= part[0] + most):
            return


def _show_card(client: Client, job: Document, page: Document) -> None:
    from radrm.cli.show.card import card

    attempts: list[Document] = []
    logs = None
    try:
        answer = client.ask("explain", jobs=[label(job)])
        job, attempts = answer["job"], answer["attempts"]
        if job["attempts"]:
            logs = client.ask("logs", jobs=[label(job)])
    except Refused:
        pass  # the daemon no longer has the job; the page still describes it
    show(*card(job, page["now"], page["devices"], attempts, logs, _tails(logs) if logs else {}))


def _tails(logs: Document) -> dict[str, list[str]]:
    """The ends of a job's logs that can be read; last that of the one that was written last."""
    from radrm.client.tail import last_lines, owner_of, written_s

    paths = {"stdout": logs["stdout"], "stderr": logs["stderr"]}
    paths = paths if logs["stdout"] != logs["stderr"] else {"log": logs["stdout"]}
    found: dict[str, list[str]] = {}
    for which in sorted(paths, key=lambda which: written_s(paths[which])):
        try:
            found[which] = last_lines(paths[which], owner_of(logs), _OF_LOG) or []
        except Refused:
            pass  # it cannot be read
    return found


def _next_page(words: Document, first: int, size: int) -> str:
    import shlex

    command = ["radrm", "status", *words["jobs"]]
    command += ["--all"] if words["all"] else []
    for option in ("user", "state"):
        command += [f"--{option}", words[option]] if words[option] else []
    command += ["--limit", str(size)] if size != PAGE else []
    return shlex.join([*command, "--page", str(first // size + 2)])


EXPLAIN_PARAMETERS = (JOB, CLUSTER, JSON)


def explain(job: str, cluster: bool, as_json: bool) -> None:
    """Say why a job waits, or where and how it ran.

    For each GPU: the first rule that refuses the job, what the job needs, what is available.

    \b
    Examples:
      radrm explain 12
      radrm explain 12_3 --json
      radrm explain --cluster 4711
    """
    if cluster:
        from radrm.wings import target  # few look at a cluster

        target("cluster").show_explanation(job, as_json)
        return
    with ReadingClient() as client:
        answer = client.ask("explain", jobs=[job])
    if as_json:
        print_json(answer)
        return
    from radrm.cli.show.card import explanation

    show(*explanation(answer))

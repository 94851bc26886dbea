"""`radrm usage`: show what users have used, one's own row first."""

from __future__ import annotations

import os

from radrm.cli.parameters import JSON, WORDS, Parameter
from radrm.cli.show.past.periods import SINCE, UNTIL, period
from radrm.cli.show.past.report import report_page
from radrm.cli.show.styled import show
from radrm.client.connection import Client
from radrm.client.text import print_json
from radrm.errors import Refused, plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from radrm.client.text import Document

PARAMETERS = (
    Parameter("users", WORDS, "Only these users; all users by default.", "USER..."),
    SINCE,
    UNTIL,
    JSON,
)


def usage(users: list[str], since: str, until: str, as_json: bool) -> None:
    """Show what users have used, your own row first.

    The figures are those of radrm report --by user.

    \b
    Examples:
      radrm usage
      radrm usage ada --since 30d
    """
    times = period(since, until)
    with Client() as client:
        begin_s, end_s = times(client.ask("ping")["now"])
        answer = client.ask("report", by="user", since=begin_s, until=end_s)
    rows = answer["rows"]
    if users:
        known = {row["user"] for row in rows}
        missing = [user for user in users if user not in known]
        if missing:
            names = ", ".join(map(plain, missing))
            raise Refused(f"{names} used nothing in that time; try a longer one, as --since 90d")
        answer["more"] = _added(answer["more"], [r for r in rows if r["user"] not in users])
        rows = [row for row in rows if row["user"] in users]
    me = _my_name()
    answer["rows"] = sorted(rows, key=lambda row: row["user"] != me)
    if as_json:
        print_json(answer)
    else:
        show(*report_page(answer))


def _added(more: Document, rows: list[Document]) -> Document:
    """The sum of the rows that are not shown. Its mean waiting time is unknown."""
    found = more | {"rows": more["rows"] + len(rows)}
    for key in found.keys() - {"rows", "waited_s"}:
        found[key] = more[key] + sum(row[key] for row in rows)
    return found | ({"waited_s": None} if rows else {})


def _my_name() -> str:
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())

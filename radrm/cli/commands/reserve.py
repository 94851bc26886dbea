"""`radrm reserve`: reserve GPUs for users, or for maintenance; list and cancel reservations."""

from __future__ import annotations

from radrm.cli.parameters import DEVICES, FLAG, JSON, NUMBER, TEXT, Parameter
from radrm.client.connection import Client
from radrm.client.text import print_json, say
from radrm.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from radrm.client.text import Document

RESERVE_PARAMETERS = (
    Parameter(
        *("devices", DEVICES.kind),
        *("GPU indices (0-3,5) or UUIDs; by default as many as --gpus says.", "DEVICE..."),
    ),
    Parameter(
        "count", NUMBER, "This many GPUs, the least used; 1.", "N", ("--gpus", "-g"), least=1
    ),
    Parameter("every", FLAG, "All GPUs.", flags=("--all",)),
    Parameter(
        "begin", TEXT, "Start: 18:00, 'fri 9:00', +90m; by default now.", "TIME", ("--from",)
    ),
    Parameter("until", TEXT, "End, written in the same way.", "TIME", ("--until",)),
    Parameter("length", TEXT, "Length instead of an end: 4h, 90m.", "SPAN", ("--for",)),
    Parameter("user", TEXT, "For this user; only for root.", "NAME", ("--user",)),
    Parameter("group", TEXT, "For this Unix group; only for root.", "NAME", ("--group",)),
    Parameter("maintenance", FLAG, "For nobody; only for root.", flags=("--maintenance",)),
    Parameter(
        *("preempt", FLAG, "At the start, stop jobs of others that can run again; only for root."),
        flags=("--preempt",),
    ),
    Parameter("reason", TEXT, "Shown to users.", "TEXT", ("--reason",)),
    Parameter("cancel", NUMBER, "Cancel this reservation.", "ID", ("--cancel",)),
    JSON,
)


def reserve(
    devices: list[str],
    count: int | None,
    every: bool,
    begin: str,
    until: str,
    length: str,
    user: str,
    group: str,
    maintenance: bool,
    preempt: bool,
    reason: str,
    cancel: int | None,
    as_json: bool,
) -> None:
    """Reserve GPUs for yourself, for others, or for maintenance.

    Only root and the daemon's user reserve for others and for maintenance. Meanwhile only jobs of
    these users run on the GPUs. Other jobs start there only if they end before: by their time
    limit, or their known run time. Without options: the list.

    \b
    Examples:
      radrm reserve --for 4h
      radrm reserve 2 3 --from 'tomorrow 9:00' --for 2h
      radrm reserve --cancel 3
      sudo radrm reserve --gpus 4 --group students --from 'mon 14:00' --until 'mon 16:00'
      sudo radrm reserve --all --maintenance --from 18:00 --for 1h --reason 'new driver'
    """
    given: Document = {
        "devices": devices,
        "gpus": count,
        "all": every,
        "user": user,
        "group": group,
        "maintenance": maintenance,
        "preempt": preempt,
        "reason": reason,
    }
    words = {name: word for name, word in given.items() if word}
    if cancel is not None:
        if words or begin or until or length:
            raise UsageError(
                "--cancel takes only the id of a reservation: radrm reserve --cancel 3"
            )
        _cancel(cancel, as_json)
    elif words or begin or until or length:
        _reserve(words, begin, until, length, as_json)
    else:
        _list(as_json)


def _list(as_json: bool) -> None:
    with Client() as client:
        found = client.ask("reservations")
        now = client.ask("ping")["now"]
    if as_json:
        print_json(found)
    elif not found:
        say("No GPU is reserved; reserve one for yourself with: radrm reserve --for 4h")
    else:
        from radrm.cli.show.devices import reservations_table
        from radrm.cli.show.styled import show

        show(reservations_table(found, now))


def _cancel(number: int, as_json: bool) -> None:
    with Client() as client:
        (found,) = client.ask("unreserve", id=number)
    if as_json:
        print_json([found])
    else:
        say(f"Cancelled reservation {number} of {_gpus(found)} for {found['for']}.")


def _reserve(words: Document, begin: str, until: str, length: str, as_json: bool) -> None:
    if bool(until) is bool(length):
        raise UsageError("say how long: --until 18:00, or --for 4h")
    with Client() as client:
        now = client.ask("ping")["now"]
        words |= _times(begin, until, length, now)
        (made,) = client.ask("reserve", **words)
    if as_json:
        print_json([made])
        return
    from radrm.client.amounts import clock

    start = clock(made["start_at"], now) if begin else "now"
    what = f"Reserved {_gpus(made)} for {made['for']}"
    say(f"{what} from {start} until {clock(made['end_at'], now)}.")
    if made["others"]:
        are = f"job {', '.join(made['others'])} of others is"
        if len(made["others"]) > 1:
            are = f"jobs {', '.join(made['others'])} of others are"
        then = "preempted at the start, where possible" if made["preempt"] else "run on"
        say(f"There {are} on it now, and will {'be ' * made['preempt']}{then}.")
    say(f"Cancel it with: radrm reserve --cancel {made['id']}")


def _times(begin: str, until: str, length: str, now: float) -> Document:
    """The moments in epoch seconds, by the daemon's clock and the zone here."""
    from radrm.core.units import parse_seconds
    from radrm.host.storage.submission import here
    from radrm.jobfile.moments import read

    found: Document = {}
    try:
        for name, text in (("from", begin), ("until", until)):
            if text:
                option = f"--{name}"
                found[name] = read(text).at(here(now))
        option = "--for"
        if length:
            found["for"] = parse_seconds(length)
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from None
    return found


def _gpus(found: Document) -> str:
    indices = ", ".join(map(str, found["gpus"]))
    return f"GPU{'s' * (len(found['gpus']) != 1)} {indices}"

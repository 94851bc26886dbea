"""Show GPUs to people: a table, and below it the remarks on each GPU; and who has reserved them."""

from __future__ import annotations

from radrm.cli.show.columns import Column, Field, Rows
from radrm.cli.show.styled import Styled
from radrm.client.amounts import clock, local_time, show_smact, show_watts
from radrm.client.words.reasons import reserved
from radrm.core.units import gpu_count, gpus_named, show_booked, show_mib, show_seconds
from radrm.errors import plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from radrm.cli.show.styled import Part
    from radrm.client.text import Document

_MOST_UNMANAGED = 5
"""Unmanaged processes shown for one GPU, the largest; `--json` has more."""
_MOST_NOTES = 5
_INDENT = 10
_DEVICE_STYLE = {
    "busy": "cyan",
    "idle": "green",
    "others": "yellow",
    "drained": "yellow",
    "unreadable": "bold red",
    "vanished": "bold red",
}


def devices_page(devices: Sequence[Document], whose: str = "") -> list[Part]:
    """The table, and the remarks below it. Simulated GPUs are named as such above it.

    Between them stand processes if the devices have them; `whose`: as `of ann`.
    """
    listed = any("processes" in device for device in devices)
    found = [*_nodes(devices), *remarks(devices, not listed)]
    indent = max([_INDENT, *(len(name) + 4 for name, _ in found)])
    below = [Field(name, Styled(text), indent) for name, text in found]
    simulated = any(device.get("simulated") for device in devices)
    head = [Styled(gpu_count(len(devices), simulated))] if simulated else []
    processes = [Styled(), *processes_page(devices, whose)] if listed else []
    return [*head, devices_table(devices), *processes, *([Styled()] if below else []), *below]


def _nodes(devices: Sequence[Document]) -> list[tuple[str, str]]:
    """What jobs have booked of the CPUs and the host memory of each node."""
    found = {d["node"]: d for d in devices if d.get("node_cpus_booked") is not None}
    names = [plain(name) if len(found) > 1 else "server" for name in found]
    return [
        (
            name,
            show_booked(
                node["node_cpus_booked"],
                node["node_cpus"],
                node["node_memory_booked_mib"],
                node["node_memory_mib"],
            ),
        )
        for name, node in zip(names, found.values(), strict=True)
    ]


# ------------------------------------------------------------------ the table


def devices_table(devices: Sequence[Document]) -> Rows:
    """A row for each device: memory, load, jobs, and why it takes no job.

    The column NEAR is shown if the devices are in several groups. CAPS says who enforces memory
    caps of jobs that share a GPU.
    """
    groups = {(device["node"], _near(device)) for device in devices}
    several = len(groups) > 1 and any(near for _, near in groups)
    table = Rows(
        (
            Column("GPU", right=True),
            Column("NAME", least=10),
            Column("STATE"),
            Column("MEMORY", rank=8),
            Column("USED", right=True),
            Column("RESERVED", right=True, rank=7),
            Column("UNMANAGED", right=True, rank=9),
            Column("FREE", right=True),
            Column("SMACT", right=True, rank=3),
            Column("POWER", right=True, rank=4),
            *([Column("NEAR", rank=10)] if several else []),
            Column("CAPS", rank=11),
            Column("JOBS", least=8),
            Column("WHY", least=10, wrap=True),
        )
    )
    for device in devices:
        table.add(
            str(device["index"]),
            device_name(device),
            device_state(device["state"]),
            memory_bar(device["used_mib"], device["total_mib"]),
            show_mib(device["used_mib"]),
            show_mib(device["reserved_mib"]),
            show_mib(device["unmanaged_mib"]),
            show_mib(device["free_mib"]),
            show_smact(device["smact"]),
            show_watts(device["power_w"]),
            *([_near(device) or "-"] if several else []),
            "+".join(map(plain, device.get("caps") or ())) or "-",
            device_jobs(device),
            plain(device["reason"] or ""),
        )
    return table


def device_state(state: str) -> Styled:
    return Styled(
        "in use by others" if state == "others" else plain(state), _DEVICE_STYLE.get(state, "")
    )


def device_name(device: Document) -> str:
    return plain(f"{device['name']} {device['profile'] or ''}".strip())


def _near(device: Document) -> str:
    """The groups of near devices that this one is in; empty if none is known."""
    near = device.get("near") or {}
    links = (near.get("nvlinks") or {}).items()
    mesh = " ".join(peer if count == 1 else f"{peer}x{count}" for peer, count in links)
    linked = near.get("nvlink_group") if not mesh else f"to {mesh}"
    named = [("NVLink", linked), ("NUMA", near.get("numa_node"))]
    if linked is None:
        named.insert(0, ("PCIe", near.get("pcie_switch")))
    return plain(", ".join(f"{name} {group}" for name, group in named if group is not None))


def device_jobs(device: Document) -> str:
    return plain(" ".join(map(str, device.get("labels") or device["jobs"]))) or "-"


def memory_bar(used_mib: int | None, total_mib: int, width: int = 20) -> Styled:
    if used_mib is None:
        return Styled("?" * width, "dim")
    full = min(width, round(width * used_mib / total_mib)) if total_mib else 0
    return Styled("█" * full + "░" * (width - full), "cyan")


# ------------------------------------------------------------------ processes


def processes_page(devices: Sequence[Document], whose: str = "") -> list[Part]:
    """A row for each process on these devices, and a line on devices that list none."""
    table = Rows(
        (
            Column("GPU", right=True),
            Column("PID", right=True),
            Column("USER", least=6),
            Column("JOB", least=9),
            Column("MEMORY", right=True),
            Column("SMACT", right=True, rank=1),
            Column("COMMAND", least=10),
        )
    )
    for device in devices:
        for each in device.get("processes") or ():
            table.add(
                str(device["index"]),
                str(each["pid"]),
                plain(each["user"] or "-"),
                plain(each["job"] or "-") if each["kind"] == "job" else _NO_JOB[each["kind"]],
                show_mib(each["used_mib"]),
                show_smact(each["smact"]),
                _short(plain(each["command"] or "-")),
            )
    unknown = [device["index"] for device in devices if device.get("processes") is None]
    parts: list[Part] = [table] if table.rows else []
    if not parts and len(unknown) < len(devices):
        who = f"No process {whose} uses" if whose else "No process uses"
        parts.append(Styled(plain(f"{who} a GPU.")))
    if unknown:
        parts.append(Styled(f"{gpus_named(unknown)}: the processes are not known", "yellow"))
    return parts


def _short(command: str) -> str:
    """A command line without the folders of its program and script: a narrow terminal has no room
    for them, and `--json` has them."""
    words = command.split(" ")
    for n, word in enumerate(words[:2]):
        if word.startswith("/"):
            words[n] = word.rsplit("/", 1)[-1] or word
    return " ".join(words)


_NO_JOB = {"unmanaged": Styled("unmanaged", "yellow"), "mps": Styled("MPS", "dim")}


# ------------------------------------------------------------------ remarks


def remarks(devices: Sequence[Document], unmanaged: bool = True) -> list[tuple[str, str]]:
    """Pairs of the name of GPUs and a remark on them. A remark that holds for several GPUs, or for
    all MIG instances of a GPU, appears once. `unmanaged`: also a line for each such process."""
    found: dict[tuple[str, str], list[int]] = {}
    for device in devices:
        for line in _remarks_on(device, unmanaged):
            found.setdefault((device["node"], line), []).append(device["index"])
    return [(gpus_named(indices), line) for (_, line), indices in found.items()]


def _remarks_on(device: Document, processes: bool) -> Iterator[str]:
    yield from map(_for_users, device.get("reserved_for") or [])
    yield from map(reserved, _planned(device))
    if device.get("sm_booked"):
        yield f"SM shares: {device['sm_booked']:.0%} booked by MPS clients"
    if device.get("unified"):
        yield "unified memory: the server's, which all its programs share"
    notes = device.get("notes") or []
    unmanaged = (device.get("unmanaged") or []) if processes else []
    yield from map(plain, notes[:_MOST_NOTES])
    if len(notes) > _MOST_NOTES:
        yield f"... and {len(notes) - _MOST_NOTES} more notes (--json has all)"
    yield from map(_misplaced, device.get("misplaced") or [])
    yield from map(_unmanaged, unmanaged[:_MOST_UNMANAGED])
    if len(unmanaged) > _MOST_UNMANAGED:
        left = len(unmanaged) - _MOST_UNMANAGED
        yield f"... and {left} more unmanaged processes (--json has more)"


def _planned(device: Document) -> Sequence[Document]:
    """The reservations that planners made: their ends are known."""
    return [each for each in device.get("reservations") or [] if each["end_at"] is not None]


def _for_users(found: Document) -> str:
    """As `reserved for ada, 2026-11-22 14:30:00 to 2026-11-22 15:30:00 (reservation 3)`."""
    span = f"{local_time(found['start_at'])} to {local_time(found['end_at'])}"
    return plain(f"reserved for {found['for']}, {span} (reservation {found['id']})")


def _misplaced(found: Document) -> str:
    """As `job 12 of bob uses 15.0G of it, and was not given it`."""
    much = "" if found["used_mib"] is None else f"{show_mib(found['used_mib'])} of "
    return plain(f"job {found['job']} of {found['user']} uses {much}it, and was not given it")


def _unmanaged(found: Document) -> str:
    """As `unmanaged: process 4711 of bob, 19.5G, python train.py`."""
    words = [f"process {found['pid']}"]
    if found.get("user"):
        words[0] += f" of {found['user']}"
    if found.get("used_mib") is not None:
        words.append(show_mib(found["used_mib"]))
    if found.get("step"):
        words.append(_step(found))
    if found.get("command"):
        words.append(found["command"])
    return plain(f"unmanaged: {', '.join(words)}")


def _step(found: Document) -> str:
    step, seen = found["step"], show_seconds(found.get("seen_s"))
    done = f"seen for {seen}" if step == "warned" else f"{step} sent after {seen}"
    return f"{done}, left alone because {found['left']}" if found.get("left") else done


# ------------------------------------------------------------------ reservations for users

_RESERVATION_STYLE = {"active": "green", "ended": "yellow"}


def reservations_table(found: Sequence[Document], now: float) -> Rows:
    """A row for each reservation; its users' jobs, and those of others that run on."""
    table = Rows(
        (
            Column("ID", right=True),
            Column("FOR", least=10),
            Column("GPUS", least=4),
            Column("FROM"),
            Column("UNTIL"),
            Column("STATE"),
            Column("JOBS", least=4),
            Column("OTHERS", least=6, rank=2),
            Column("BY", least=6, rank=3),
            Column("WHY", least=8, rank=1),
        )
    )
    for each in found:
        table.add(
            str(each["id"]),
            plain(each["for"]),
            ",".join(map(str, each["gpus"])) or "-",
            clock(each["start_at"], now),
            clock(each["end_at"], now),
            Styled(plain(each["state"]), _RESERVATION_STYLE.get(each["state"], "")),
            plain(" ".join(each["jobs"])) or "-",
            plain(" ".join(each["others"])) or "-",
            plain(each["by"]),
            plain(each["reason"] or ""),
        )
    return table

"""Show GPUs to people: a table, and below it the remarks on each GPU; and who has reserved them."""

from __future__ import annotations

from radrm.cli.show.columns import Column, Field, Rows, table_of
from radrm.cli.show.styled import Styled
from radrm.client.amounts import clock, local_time, show_smact, show_watts
from radrm.client.words.reasons import reserved
from radrm.core.units import gpu_count, gpus_named, show_booked, show_mib, show_seconds

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
    names = [name if len(found) > 1 else "server" for name in found]
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
    return table_of(
        devices,
        Column("GPU", lambda gpu: str(gpu["index"]), right=True),
        Column("NAME", device_name, rank=2, least=10),
        Column("STATE", lambda gpu: device_state(gpu["state"])),
        Column("MEMORY", lambda gpu: memory_bar(gpu["used_mib"], gpu["total_mib"]), rank=8),
        Column("USED", lambda gpu: show_mib(gpu["used_mib"]), right=True),
        Column("RESERVED", lambda gpu: show_mib(gpu["reserved_mib"]), right=True, rank=7),
        Column("UNMANAGED", lambda gpu: show_mib(gpu["unmanaged_mib"]), right=True, rank=9),
        Column("FREE", lambda gpu: show_mib(gpu["free_mib"]), right=True),
        Column("SMACT", lambda gpu: show_smact(gpu["smact"]), right=True, rank=3),
        Column("POWER", lambda gpu: show_watts(gpu["power_w"]), right=True, rank=4),
        *[Column("NEAR", lambda gpu: _near(gpu) or "-", rank=10)] * several,
        Column("CAPS", lambda gpu: "+".join(gpu.get("caps") or ()) or "-", rank=11),
        Column("JOBS", device_jobs, least=8),
        Column("WHY", lambda gpu: gpu["reason"] or "", rank=1, least=10, wrap=True),
    )


def device_state(state: str) -> Styled:
    return Styled("in use by others" if state == "others" else state, _DEVICE_STYLE.get(state, ""))


def device_name(device: Document) -> str:
    """Return the name with the MIG profile, which NVML's names of instances end with."""
    name, profile = str(device["name"]), device["profile"] or ""
    return name if name.endswith(profile) else f"{name} {profile}"


def _near(device: Document) -> str:
    """The groups of near devices that this one is in; empty if none is known."""
    near = device.get("near") or {}
    links = (near.get("nvlinks") or {}).items()
    mesh = " ".join(peer if count == 1 else f"{peer}x{count}" for peer, count in links)
    linked = near.get("nvlink_group") if not mesh else f"to {mesh}"
    named = [("NVLink", linked), ("NUMA", near.get("numa_node"))]
    if linked is None:
        named.insert(0, ("PCIe", near.get("pcie_switch")))
    return ", ".join(f"{name} {group}" for name, group in named if group is not None)


def device_jobs(device: Document) -> str:
    return " ".join(map(str, device.get("labels") or device["jobs"])) or "-"


def memory_bar(used_mib: int | None, total_mib: int, width: int = 20) -> Styled:
    if used_mib is None:
        return Styled("?" * width, "dim")
    full = min(width, round(width * used_mib / total_mib)) if total_mib else 0
    return Styled("█" * full + "░" * (width - full), "cyan")


# ------------------------------------------------------------------ processes


def processes_page(devices: Sequence[Document], whose: str = "") -> list[Part]:
    """A row for each process on these devices, and a line on devices that list none."""
    found = [(gpu["index"], each) for gpu in devices for each in gpu.get("processes") or ()]
    table = table_of(
        found,
        Column("GPU", lambda row: str(row[0]), right=True),
        Column("PID", lambda row: str(row[1]["pid"]), right=True),
        Column("USER", lambda row: row[1]["user"] or "-", least=6),
        Column("JOB", lambda row: _NO_JOB.get(row[1]["kind"]) or row[1]["job"] or "-", least=9),
        Column("MEMORY", lambda row: show_mib(row[1]["used_mib"]), right=True),
        Column("SMACT", lambda row: show_smact(row[1]["smact"]), right=True, rank=1),
        Column("COMMAND", lambda row: _short(row[1]["command"] or "-"), least=10),
    )
    unknown = [device["index"] for device in devices if device.get("processes") is None]
    parts: list[Part] = [table] if table.rows else []
    if not parts and len(unknown) < len(devices):
        who = f"No process {whose} uses" if whose else "No process uses"
        parts.append(Styled(f"{who} a GPU."))
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
    yield from notes[:_MOST_NOTES]
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
    return f"reserved for {found['for']}, {span} (reservation {found['id']})"


def _misplaced(found: Document) -> str:
    """As `job 12 of bob uses 15.0G of it, and was not given it`."""
    much = "" if found["used_mib"] is None else f"{show_mib(found['used_mib'])} of "
    return f"job {found['job']} of {found['user']} uses {much}it, and was not given it"


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
    return f"unmanaged: {', '.join(words)}"


def _step(found: Document) -> str:
    step, seen = found["step"], show_seconds(found.get("seen_s"))
    done = f"seen for {seen}" if step == "warned" else f"{step} sent after {seen}"
    return f"{done}, left alone because {found['left']}" if found.get("left") else done


# ------------------------------------------------------------------ reservations for users

_RESERVATION_STYLE = {"active": "green", "ended": "yellow"}


def reservations_table(found: Sequence[Document], now: float) -> Rows:
    """A row for each reservation; its users' jobs, and those of others that run on."""
    return table_of(
        found,
        Column("ID", lambda row: str(row["id"]), right=True),
        Column("FOR", lambda row: row["for"], least=10),
        Column("GPUS", lambda row: ",".join(map(str, row["gpus"])) or "-", least=4),
        Column("FROM", lambda row: clock(row["start_at"], now)),
        Column("UNTIL", lambda row: clock(row["end_at"], now)),
        Column("STATE", lambda row: Styled(row["state"], _RESERVATION_STYLE.get(row["state"], ""))),
        Column("JOBS", lambda row: " ".join(row["jobs"]) or "-", least=4),
        Column("OTHERS", lambda row: " ".join(row["others"]) or "-", least=6, rank=2),
        Column("BY", lambda row: row["by"], least=6, rank=3),
        Column("WHY", lambda row: row["reason"] or "", least=8, rank=1),
    )

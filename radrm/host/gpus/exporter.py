"""SM activity from dcgm-exporter: its page of metrics on this machine, asked every second.

For servers where dcgm-exporter runs and `dcgmi` is not at hand (DCGM in a container). The
page tells no time, and by default it is renewed every 30 s only: so its numbers are taken
once it was seen to be renewed often enough, and then for as long as it is.

What is not believed: DCGM's blanks, numbers that are no ratio, and in `auto` a page served
by somebody who is neither root nor the daemon's own user: anybody may listen on such a port,
and could pass busy GPUs off as idle.

The page's format: Prometheus, "Exposition formats", text version 0.0.4; what stands in it:
DCGM User Guide, "DCGM Exporter Metrics" (`DCGM_FI_PROF_SM_ACTIVE`, off by default).
"""

from __future__ import annotations

import logging
import math
import os
import re
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from radrm.core.records import Device
from radrm.core.words import DeviceKind
from radrm.errors import DeviceError
from radrm.host.attempts.procfs import start_of
from radrm.host.gpus.dcgm import POWER_MAX_W, ROUNDING, SILENT_S, MigIds
from radrm.host.gpus.source import Sample
from radrm.host.gpus.stream import Backoff, shown

log = logging.getLogger("radrm")

INTERVAL_S = 1.0
TIMEOUT_S = 1.0
"""For each step of a request: to connect, to send, to receive something."""
LONGEST_PAGE = 8 << 20
"""Bytes. Eight GPUs with everything switched on take some 100 KiB."""
_LISTENERS_BYTES = 4 << 20
"""Of each of the kernel's tables of connections."""

_SMACT = re.compile(r"DCGM_FI_PROF_SM_ACTIV(E|ITY)(_RATIO)?")
_POWER = re.compile(r"DCGM_FI_DEV_(POWER_USAGE|POWER_DRAW)(_INSTANT)?(_W(ATTS)?)?")
_LINE = re.compile(r"([A-Za-z_:][A-Za-z0-9_:]*)(?:\{(.*)\})?\s+([^\s{}]+)(?:\s+-?\d+)?\s*")
_LABEL = re.compile(r'\s*([A-Za-z_][A-Za-z0-9_]*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*(?:,|$)')

Place = tuple[str, "int | None"]
"""The UUID of a GPU and, for a MIG instance, the driver's id of it."""


# ------------------------------------------------------------------ what it serves


@dataclass(frozen=True, slots=True)
class Metrics:
    """What a page tells of SM activity (0..1) and power (W), by place."""

    smact: Mapping[Place, float]
    power_w: Mapping[Place, float]
    wrong: Mapping[Place, str]


def parse_metrics(page: str) -> Metrics:
    """Read a page. Lines that say nothing of interest, or make no sense, are passed over.

    Where a place stands there more than once (a pod each), the busiest counts.
    """
    smact: dict[Place, float] = {}
    power_w: dict[Place, float] = {}
    wrong: dict[Place, str] = {}
    for name, labels, value in _samples(page):
        place = _place(labels)
        if place is None:
            continue
        if _SMACT.fullmatch(name):
            if 0 <= value <= 1 + ROUNDING:
                smact[place] = max(smact.get(place, 0.0), min(1.0, value))
            else:
                wrong[place] = f"dcgm-exporter gives its SM activity as {value:g}, which cannot be"
        elif _POWER.fullmatch(name) and 0 <= value <= POWER_MAX_W:
            power_w[place] = value
    return Metrics({p: v for p, v in smact.items() if p not in wrong}, power_w, wrong)


def _samples(page: str) -> Iterator[tuple[str, dict[str, str], float]]:
    for line in page.split("\n")[:-1]:  # the last one is empty, or cut off: 0.5 could read 0
        if not line.startswith("DCGM_"):
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            continue
        try:
            value = float(match[3])
        except ValueError:
            continue
        if math.isfinite(value):
            labels = {m[1].lower(): m[2] for m in _LABEL.finditer(match[2] or "")}
            yield match[1], labels, value


def _place(labels: Mapping[str, str]) -> Place | None:
    """None where the GPU or the instance cannot be told."""
    uuid = labels.get("uuid") or labels.get("gpu_uuid")
    instance = labels.get("gpu_i_id", "")
    if not uuid or not (instance == "" or re.fullmatch(r"[0-9]{1,9}", instance)):
        return None
    return uuid, int(instance) if instance else None


# ------------------------------------------------------------------ the feed


class DcgmExporter:
    """A `SmactFeed` over a page of metrics at `url`, http://HOST:PORT/PATH on this machine.

    `trusting` takes the page from whoever serves it.
    """

    name = "dcgm-exporter"

    def __init__(
        self,
        url: str,
        mig_ids: MigIds,
        *,
        trusting: bool,
        interval_s: float = INTERVAL_S,
        backoff: Backoff | None = None,
    ) -> None:
        self._url = url
        self._mig_ids = mig_ids
        self._trusting = trusting
        self._interval_s = interval_s
        self._backoff = backoff or Backoff()
        self._places: Mapping[str, Place] = {}
        self._pages = Pages()
        self._told: str | None = None
        self._down: str | None = None
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
        self._begun = False

    def start(self, devices: Sequence[Device]) -> None:
        places = {device.uuid: self._place(device) for device in devices}
        self._places = {uuid: place for uuid, place in places.items() if place is not None}
        if not self._begun:
            self._begun = True
            self._thread.start()

    def latest(self, uuid: str) -> Sample | None:
        place = self._places.get(uuid)
        return None if place is None else self._pages.latest(place, time.monotonic())

    def trouble(self, uuid: str) -> str | None:
        place = self._places.get(uuid)
        if place is None:
            return None
        return self._down or self._pages.trouble(place, time.monotonic())

    def close(self) -> None:
        self._closing.set()

    def _place(self, device: Device) -> Place | None:
        if device.kind is not DeviceKind.MIG:
            return device.uuid, None
        ids = self._mig_ids(device.uuid)
        return (device.parent, ids[0]) if ids is not None and device.parent else None

    # ------------------------------------------------------------- the thread

    def _run(self) -> None:
        good_since = time.monotonic()
        while not self._closing.is_set():
            try:
                page = fetch(self._url, trusting=self._trusting)
                self._pages.take(page, time.monotonic())
                self._say(None)
                pause_s = self._interval_s
            except Exception as error:  # whatever a damaged page has led to
                known = isinstance(error, DeviceError)
                self._say(
                    str(error) if known else f"dcgm-exporter: {type(error).__name__}: {error}"
                )
                pause_s = self._backoff.pause_after(time.monotonic() - good_since)
                good_since = time.monotonic() + pause_s
            self._closing.wait(pause_s)

    def _say(self, trouble: str | None) -> None:
        self._down = trouble
        if trouble is not None and trouble != self._told:
            log.info("%s", trouble)
            self._told = trouble


class Pages:
    """The last page, since when it stands, and whether it is renewed often enough.

    Times are real seconds on any one clock.
    """

    def __init__(self) -> None:
        self._text: str | None = None
        self._metrics = Metrics({}, {}, {})
        self._at = 0.0
        self._renewed_s: float | None = None

    def take(self, text: str, now_s: float) -> None:
        """A page was read. One that says what it said before is the old one."""
        if text == self._text:
            return
        if self._text is not None:
            self._renewed_s = now_s - self._at
        self._metrics = parse_metrics(text)
        self._text, self._at = text, now_s

    def latest(self, place: Place, now_s: float) -> Sample | None:
        smact = self._metrics.smact.get(place)
        if smact is None or self._renewed_s is None or self._renewed_s > SILENT_S:
            return None
        power_w = self._metrics.power_w.get(place)
        return Sample(smact=smact, age_s=max(0.0, now_s - self._at), power_w=power_w)

    def trouble(self, place: Place, now_s: float) -> str | None:
        if self._text is None:
            return None
        metrics, age_s = self._metrics, now_s - self._at
        if place in metrics.wrong:
            return metrics.wrong[place]
        if place not in metrics.smact:
            return (
                "dcgm-exporter gives no SM activity for it; "
                "switch DCGM_FI_PROF_SM_ACTIVE on in its list of counters"
            )
        if age_s > SILENT_S or (self._renewed_s or 0.0) > SILENT_S:
            return (
                f"dcgm-exporter does not renew its numbers every {SILENT_S:.0f} s; "
                "start it with --collect-interval=1000"
            )
        return None


# ------------------------------------------------------------------ the request


def fetch(url: str, *, trusting: bool = True) -> str:
    """A page of this machine. No redirect and no proxy is followed. Raises `DeviceError`."""
    # Imported here: it brings `ssl` along, and most servers have no exporter to ask.
    import http.client

    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or 80
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    connection = http.client.HTTPConnection(host, port, timeout=TIMEOUT_S)
    try:
        connection.connect()
        if not trusting:
            _check_server(port)
        connection.request("GET", path, headers={"Accept": "text/plain"})
        answer = connection.getresponse()
        if answer.status != http.client.OK:
            raise DeviceError(
                f"dcgm-exporter at {url} answers {answer.status} {shown(answer.reason)}"
            )
        page = answer.read(LONGEST_PAGE + 1)
    except ConnectionRefusedError:
        raise DeviceError(f"no dcgm-exporter listens at {url}") from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        words = shown(str(error)) or type(error).__name__
        raise DeviceError(f"dcgm-exporter at {url} does not answer: {words}") from error
    finally:
        connection.close()
    if len(page) > LONGEST_PAGE:
        raise DeviceError(f"the page at {url} is too long to be dcgm-exporter's")
    return page.decode(errors="replace")


def _check_server(port: int) -> None:
    """Raises `DeviceError` unless root or our own user listens where we are connected to."""
    owners = listeners(port)
    if not owners or not owners <= {0, os.geteuid()}:
        raise DeviceError(
            f"port {port} is not served by root, so what it says is not believed; "
            'if it is your dcgm-exporter: readings.smact = "dcgm-exporter"'
        )


def listeners(port: int) -> set[int]:
    """The users who listen on a TCP port of this machine, as the kernel tells."""
    found: set[int] = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        # Those who listen come first, whatever other connections there are.
        for row in start_of(table, _LISTENERS_BYTES).decode("ascii", "replace").splitlines()[1:]:
            words = row.split()
            listening = len(words) > 7 and words[3] == "0A"
            if listening and int(words[1].rpartition(":")[2], 16) == port:
                found.add(int(words[7]))
    return found

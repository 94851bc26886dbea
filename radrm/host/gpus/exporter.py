"""SM activity from dcgm-exporter: its page of metrics on this machine, read every second.

Theory of operation. This feed is for servers where dcgm-exporter runs but `dcgmi` is missing
(DCGM in a container). The page has no time, and by default dcgm-exporter renews it every 30 s.
So a sample counts only after two different pages were seen within `SILENT_S`, and its age is
the time since its page first appeared. One thread fetches pages; others read its results, which
it replaces as a whole. A restart must see two different pages again.

These values are rejected: DCGM's blanks and numbers that are no ratio. With `auto`, the page of
a server that runs neither as root nor as the daemon's user is rejected too. Any user may listen
on such a port, and could present busy GPUs as idle.

Prometheus, "Exposition formats", text version 0.0.4, has the format of the page; DCGM User
Guide, "DCGM Exporter Metrics", its fields (`DCGM_FI_PROF_SM_ACTIVE` is off by default).
"""

from __future__ import annotations

import logging
import math
import os
import re
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import urlsplit

from msgspec import Struct

from radrm.core.records import Device
from radrm.core.words import DeviceKind
from radrm.errors import DeviceError
from radrm.host.gpus.source import SILENT_S, Sample, ratio
from radrm.host.gpus.stream import Backoff, shown
from radrm.host.processes.procfs import start_of

log = logging.getLogger("radrm")

INTERVAL_S = 1.0
TIMEOUT_S = 1.0
"""Limit of each step of a request: connect, send, receive a part."""
LONGEST_PAGE = 8 << 20
"""Bytes. Eight GPUs with all counters enabled take some 100 KiB."""
_LISTENERS_BYTES = 4 << 20
"""Bytes read of each of the kernel's tables of connections."""

_LINE = re.compile(
    r"DCGM_FI_PROF_SM_ACTIV(?:E|ITY)(?:_RATIO)?"
    r"(?:\{(.*)\})?\s+([^\s{}]+)(?:\s+-?\d+)?\s*"
)
_LABEL = re.compile(r'\s*([A-Za-z_][A-Za-z0-9_]*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*(?:,|$)')

Place = tuple[str, "int | None"]
"""The UUID of a GPU, and the driver's id of the GPU instance for a MIG instance."""


# ------------------------------------------------------------------ the page


class Metrics(Struct, frozen=True):
    """SM activity (0..1) by place; `wrong` has the messages of rejected values."""

    smact: Mapping[Place, float]
    wrong: Mapping[Place, str]


def parse_metrics(page: str) -> Metrics:
    """Parse a page; skip lines of other metrics and lines that cannot be parsed.

    A place may have several lines, one per pod. The highest SM activity counts.
    """
    found: dict[Place, float] = {}
    wrong: dict[Place, str] = {}
    for labels, value in _samples(page):
        place, smact = _place(labels), ratio(value)
        if place is None:
            continue
        if smact is None:
            cause = f"dcgm-exporter gives its SM activity as {value:g}, which is not in 0..1"
            wrong[place] = cause
        else:
            found[place] = max(found.get(place, 0.0), smact)
    return Metrics({p: v for p, v in found.items() if p not in wrong}, wrong)


def _samples(page: str) -> Iterator[tuple[dict[str, str], float]]:
    for line in page.split("\n")[:-1]:  # the last line may be cut off: 0.5 would read 0
        match = _LINE.fullmatch(line)
        if match is None:
            continue
        try:
            value = float(match[2])
        except ValueError:
            continue
        if math.isfinite(value):
            labels = {m[1].lower(): m[2] for m in _LABEL.finditer(match[1] or "")}
            yield labels, value


def _place(labels: Mapping[str, str]) -> Place | None:
    """Return the place that the labels name; None if they name none."""
    uuid = labels.get("uuid") or labels.get("gpu_uuid")
    instance = labels.get("gpu_i_id", "")
    if not uuid or not (instance == "" or re.fullmatch(r"[0-9]{1,9}", instance)):
        return None
    return uuid, int(instance) if instance else None


# ------------------------------------------------------------------ the feed


class DcgmExporter:
    """A `SmactFeed` from a page of metrics at `url`, http://HOST:PORT/PATH on this machine.

    `trusting`: accept the page of any server process.
    """

    name = "dcgm-exporter"

    def __init__(
        self,
        url: str,
        *,
        trusting: bool,
        interval_s: float = INTERVAL_S,
        backoff: Backoff | None = None,
    ) -> None:
        self._url = url
        self._trusting = trusting
        self._interval_s = interval_s
        self._backoff = backoff or Backoff()
        self._places: Mapping[str, Place] = {}
        self._pages = Pages()
        self._logged: str | None = None
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

    def error(self, uuid: str) -> str | None:
        place = self._places.get(uuid)
        if place is None:
            return None
        return self._down or self._pages.error(place, time.monotonic())

    def close(self) -> None:
        self._closing.set()

    def _place(self, device: Device) -> Place | None:
        if device.kind is not DeviceKind.MIG:
            return device.uuid, None
        if device.instance is None or device.parent is None:
            return None
        return device.parent, device.instance[0]

    # ------------------------------------------------------------- the thread

    def _run(self) -> None:
        good_since = time.monotonic()
        while not self._closing.is_set():
            try:
                page = fetch(self._url, trusting=self._trusting)
                self._pages.take(page, time.monotonic())
                self._set_error(None)
                pause_s = self._interval_s
            except Exception as error:  # a damaged page must not end the thread
                known = isinstance(error, DeviceError)
                self._set_error(
                    str(error) if known else f"dcgm-exporter: {type(error).__name__}: {error}"
                )
                pause_s = self._backoff.pause_after(time.monotonic() - good_since)
                good_since = time.monotonic() + pause_s
            self._closing.wait(pause_s)

    def _set_error(self, cause: str | None) -> None:
        self._down = cause
        if cause is not None and cause != self._logged:
            log.info("%s", cause)
            self._logged = cause


class Pages:
    """The last page, when it first appeared, and how long its renewal took.

    All times are seconds of one monotonic clock.
    """

    def __init__(self) -> None:
        self._text: str | None = None
        self._metrics = Metrics({}, {})
        self._at = 0.0
        self._renewed_s: float | None = None

    def take(self, text: str, now_s: float) -> None:
        """Take a page that was read. A page with the same text is still the old one."""
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
        return Sample(smact, max(0.0, now_s - self._at))

    def error(self, place: Place, now_s: float) -> str | None:
        if self._text is None:
            return None
        metrics, age_s = self._metrics, now_s - self._at
        if place in metrics.wrong:
            return metrics.wrong[place]
        if place not in metrics.smact:
            return (
                "dcgm-exporter gives no SM activity for it; "
                "add DCGM_FI_PROF_SM_ACTIVE to its list of counters"
            )
        if age_s > SILENT_S or (self._renewed_s or 0.0) > SILENT_S:
            interval_s = max(age_s, self._renewed_s or 0.0)
            return (
                f"dcgm-exporter takes {interval_s:.1f} s or more to renew its numbers, "
                f"the limit is {SILENT_S:.0f} s; "
                "start it with --collect-interval=1000"
            )
        return None


# ------------------------------------------------------------------ the request


def fetch(url: str, *, trusting: bool = True) -> str:
    """Fetch a page from this machine, without redirects and proxies. Raises `DeviceError`."""
    # Imported here: it imports `ssl`, and most servers have no exporter.
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
        raise DeviceError(
            f"no dcgm-exporter listens at {url}; start it or correct readings.dcgm_exporter"
        ) from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        words = shown(str(error)) or type(error).__name__
        raise DeviceError(f"dcgm-exporter at {url} does not answer: {words}") from error
    finally:
        connection.close()
    if len(page) > LONGEST_PAGE:
        raise DeviceError(
            f"the page at {url} is longer than {LONGEST_PAGE >> 20} MiB; dcgm-exporter's is not; "
            "correct readings.dcgm_exporter"
        )
    return page.decode(errors="replace")


def _check_server(port: int) -> None:
    """Raise `DeviceError` unless only root or the daemon's user listens on this port."""
    owners = listeners(port)
    if not owners or not owners <= {0, os.geteuid()}:
        raise DeviceError(
            f"port {port} is served neither by root nor by the daemon's user, so radrm ignores it; "
            'if it is your dcgm-exporter, set readings.smact = "dcgm-exporter"'
        )


def listeners(port: int) -> set[int]:
    """Return the user ids that listen on a TCP port of this machine, from the kernel."""
    found: set[int] = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        # The kernel lists listening sockets first, so a bounded read finds them.
        for row in start_of(table, _LISTENERS_BYTES).decode("ascii", "replace").splitlines()[1:]:
            words = row.split()
            listening = len(words) > 7 and words[3] == "0A" and words[7][:11].isdecimal()
            if listening and words[1].rpartition(":")[2].upper() == f"{port:04X}":
                found.add(int(words[7][:11]))
    return found

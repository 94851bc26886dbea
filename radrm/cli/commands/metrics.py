"""`radrm metrics`: figures for Prometheus and Grafana."""

from __future__ import annotations

import signal
import sys
import threading
from typing import Annotated

import typer

from radrm.cli.options import address
from radrm.client.connection import Client
from radrm.errors import RadrmError, Refused, UsageError
from radrm.jobfile.values import seconds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_LEAST_S, _MOST_S = 1.0, 3600.0
_PORT = 9750


def metrics(
    textfile: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="Write a NAME.prom for node_exporter in place of that."),
    ] = None,
    every: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="With --textfile: write it again and again, as 15s."),
    ] = None,
    listen: Annotated[
        str | None,
        typer.Option(
            metavar="[HOST:]PORT", help="Serve /metrics, as on 9750; HOST is 127.0.0.1 by default."
        ),
    ] = None,
    dashboard: Annotated[
        bool, typer.Option("--dashboard", help="Print a dashboard for Grafana (JSON).")
    ] = False,
    alerts: Annotated[
        bool, typer.Option("--alerts", help="Print alert rules for Prometheus (YAML).")
    ] = False,
) -> None:
    """Print or serve figures for Prometheus and Grafana.

    Without a daemon it is radrm_up 0, and the exit code is 0. docs/metrics.md lists the metrics.
    It needs prometheus-client: pip install 'radrm[metrics]'.

    \b
    Examples:
      radrm metrics
      radrm metrics --listen 127.0.0.1:9750
      radrm metrics --textfile /var/lib/prometheus/node-exporter/radrm.prom
      radrm metrics --dashboard > radrm.json
    """
    given = [bool(textfile), bool(listen), dashboard, alerts]
    if sum(given) > 1:
        raise UsageError("take one of --textfile, --listen, --dashboard and --alerts")
    if every is not None and not textfile:
        raise UsageError("--every goes with --textfile only")
    if dashboard or alerts:
        from radrm.metrics.table import ALERTS, DASHBOARD

        print((DASHBOARD if dashboard else ALERTS).read_text("utf-8"), end="")
        return
    every_s = None if every is None else _interval(every)
    where = None if listen is None else address(listen, _PORT)
    make = _maker()
    if textfile is not None:
        _write(textfile, every_s, make)
    elif where is not None:
        _serve(str(where[0]), where[1], make)
    else:
        sys.stdout.buffer.write(make())


def _maker() -> Callable[[], bytes]:
    """Return what makes the text, and says on standard error when that has no figures. Raises
    `RadrmError` without prometheus-client."""
    try:
        from radrm.metrics.exposition import LIMIT_S, exposition, reason_of
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "prometheus_client":
            raise
        raise RadrmError(
            "radrm metrics needs prometheus-client; run: pip install 'radrm[metrics]'"
        ) from None
    said = _Said()

    def make() -> bytes:
        with Client(limit_s=LIMIT_S) as client:
            text = exposition(client)
        said.say(reason_of(text))
        return text

    return make


class _Said:
    """Prints a problem that lasts once."""

    def __init__(self) -> None:
        self._last: str | None = None

    def say(self, problem: str | None) -> None:
        if problem is not None and problem != self._last:
            print(f"radrm: {problem}", file=sys.stderr, flush=True)
        self._last = problem


def _write(path: str, every_s: float | None, make: Callable[[], bytes]) -> None:
    """Write the file once; or again and again until TERM or INT, whatever fails meanwhile."""
    from radrm.metrics.exposition import checked, write_textfile

    path = checked(path)
    write_textfile(path, make())
    if every_s is None:
        return
    over, said = threading.Event(), _Said()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: over.set())
    while not over.wait(every_s):
        try:
            write_textfile(path, make())
        except Refused as error:
            said.say(str(error))
        else:
            said.say(None)


def _serve(host: str, port: int, make: Callable[[], bytes]) -> None:
    import asyncio

    from radrm.metrics.serving import MetricsServer

    def ready(host: str, port: int) -> None:
        shown = f"[{host}]" if ":" in host else host
        print(f"Serving http://{shown}:{port}/metrics; Ctrl-C ends it", file=sys.stderr, flush=True)

    try:
        asyncio.run(MetricsServer(make).serve(host, port, ready))
    except OSError as error:
        raise Refused(f"cannot listen on {host}, port {port}: {error.strerror or error}") from error


def _interval(text: str) -> float:
    try:
        found = seconds(text)
    except ValueError as error:
        raise UsageError(f"--every: {error}") from None
    if not _LEAST_S <= found <= _MOST_S:
        raise UsageError(f"--every={text} is not from 1s to 1h")
    return found

"""`radrm metrics`: figures for Prometheus and Grafana."""

from __future__ import annotations

import sys

from radrm.cli.listening import address
from radrm.cli.parameters import FLAG, TEXT, Parameter
from radrm.client.connection import Client
from radrm.client.text import print_text, say, warn
from radrm.errors import RadrmError, Refused, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_PORT = 9750


_LISTEN = "Serve /metrics, as on 9750; HOST is 127.0.0.1 by default."
METRICS_PARAMETERS = (
    Parameter("listen", TEXT, _LISTEN, "[HOST:]PORT", ("--listen",)),
    Parameter("dashboard", FLAG, "Print a dashboard for Grafana (JSON).", flags=("--dashboard",)),
    Parameter("alerts", FLAG, "Print alert rules for Prometheus (YAML).", flags=("--alerts",)),
)


def metrics(listen: str, dashboard: bool, alerts: bool) -> None:
    """Print or serve figures for Prometheus and Grafana.

    Without a daemon it is radrm_up 0, and the exit code is 0. docs/prometheus.md lists the metrics.
    It needs the extra `metrics`.

    \b
    Examples:
      radrm metrics
      radrm metrics --listen 127.0.0.1:9750
      radrm metrics --dashboard > radrm.json
    """
    if sum([bool(listen), dashboard, alerts]) > 1:
        raise UsageError("take one of --listen, --dashboard and --alerts")
    if dashboard or alerts:
        from radrm.metrics.table import ALERTS, DASHBOARD

        print_text((DASHBOARD if dashboard else ALERTS).read_text("utf-8"))
        return
    where = address(listen, _PORT) if listen else None
    make = _maker()
    if where is not None:
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
        from radrm.extras import lacks

        raise RadrmError(lacks("radrm metrics", "prometheus-client", "metrics")) from None
    last: list[str | None] = [None]

    def make() -> bytes:
        with Client(limit_s=LIMIT_S) as client:
            text = exposition(client)
        problem = reason_of(text)
        if problem is not None and problem != last[0]:  # one that lasts is said once
            warn(problem)
        last[0] = problem
        return text

    return make


def _serve(host: str, port: int, make: Callable[[], bytes]) -> None:
    import asyncio

    from radrm.metrics.serving import MetricsServer

    def ready(host: str, port: int) -> None:
        shown = f"[{host}]" if ":" in host else host
        say(f"Serving http://{shown}:{port}/metrics; Ctrl-C ends it", error=True)

    try:
        asyncio.run(MetricsServer(make).serve(host, port, ready))
    except OSError as error:
        raise Refused(f"cannot listen on {host}, port {port}: {error.strerror or error}") from error

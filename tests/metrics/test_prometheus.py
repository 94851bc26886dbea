"""The command, and Debian's Prometheus on what it serves: each expression of the dashboard and of
the alerts is evaluated over a real daemon's /metrics."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from radrm.errors import RadrmError
from radrm.metrics.command import metrics
from radrm.metrics.table import ALERTS, DASHBOARD, HISTOGRAM, METRICS
from tests.daemon.harness import DaemonHome, simjob
from tests.ports import free_ports
from tests.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.daemon

needs_prometheus = pytest.mark.skipif(
    shutil.which("prometheus") is None or shutil.which("promtool") is None,
    reason="needs prometheus and promtool: apt install prometheus",
)


@contextmanager
def listening(home: DaemonHome) -> Iterator[str]:
    """`radrm metrics --listen` on a free port: its address."""
    server = subprocess.Popen(
        [sys.executable, "-m", "radrm.cli.main", "metrics", "--listen", "0"],
        env=home.environment,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert server.stderr is not None
    try:
        line = server.stderr.readline()
        assert line.startswith("Serving http://127.0.0.1:"), line
        yield line.split()[1].rstrip(";")
    finally:
        server.send_signal(signal.SIGTERM)
        assert server.wait(PATIENCE_S) == 0
        server.stderr.close()


def fetch(url: str, **words: str) -> bytes:
    query = f"?{urllib.parse.urlencode(words)}" if words else ""
    with urllib.request.urlopen(url + query, timeout=PATIENCE_S) as answer:
        found: bytes = answer.read()
        return found


def value_of(text: bytes, name: str) -> float:
    (line,) = [each for each in text.decode().splitlines() if each.startswith(f"{name} ")]
    return float(line.split()[1])


@pytest.fixture(scope="module")
def worked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonHome]:
    """A daemon with a job that has ended, one that died of out-of-memory and recovers, one that
    runs and one that waits."""
    home = DaemonHome(tmp_path_factory.mktemp("metrics"))
    home.start()
    home.wait_end(home.submit("--gpu-memory", "4G", "--", *simjob(3, 0.2, 1)))
    dies = home.submit("--gpu-memory", "4G", "--", *simjob(60, 0.2, 5))
    wait_until(lambda: home.job(dies)["oom_count"], "a death of out-of-memory")
    home.ask("cancel", jobs=[str(dies)])
    home.wait_end(dies)
    runs = home.submit("--gpus", "2", "--gpu-memory", "30G", "--", *simjob(20, 0.5, 100_000))
    home.wait_state(runs, "RUNNING")
    home.submit("--gpu-memory", "30G", "--", "true")
    yield home
    home.close()


def test_it_prints_what_has_happened(worked: DaemonHome) -> None:
    done = worked.radrm("metrics")
    text = done.stdout.encode()
    assert (done.returncode, done.stderr) == (0, "")
    assert value_of(text, "radrm_up") == 1
    assert value_of(text, 'radrm_attempts_total{outcome="completed"}') == 1
    assert value_of(text, "radrm_oom_total") >= 1
    assert value_of(text, "radrm_queue_jobs") == 1
    assert value_of(text, 'radrm_jobs{state="RUNNING"}') == 1
    assert value_of(text, "radrm_queue_wait_seconds_count") == 3
    assert value_of(text, "radrm_jobs_submitted_total") == 4
    assert value_of(text, "radrm_decision_seconds_count") > 10
    assert text.count(b"\nradrm_gpu_energy_joules_total{") == 2


MISTAKES: list[tuple[dict[str, Any], str]] = [
    ({"listen": "example.org:9750"}, "is not an address and a port"),
    ({"listen": "127.0.0.1:99999"}, "is not an address and a port"),
    ({"listen": "127.0.0.1:"}, "is not an address and a port"),
    ({"listen": "[::1:9750"}, "is not an address and a port"),
    ({"listen": "192.0.2.1:9750"}, "cannot listen on 192.0.2.1, port 9750: "),
    ({"listen": "9750", "alerts": True}, "take one of"),
]


@pytest.mark.parametrize(("words", "said"), MISTAKES)
def test_a_mistake_says_what_is_wrong(words: dict[str, Any], said: str) -> None:
    given = {"listen": None, "dashboard": False, "alerts": False}
    with pytest.raises(RadrmError) as caught:
        metrics(**{**given, **words})
    assert said in str(caught.value)


def test_the_dashboard_and_the_alerts_are_printed(worked: DaemonHome) -> None:
    assert worked.radrm("metrics", "--dashboard").stdout == DASHBOARD.read_text()
    assert worked.radrm("metrics", "--alerts").stdout == ALERTS.read_text()


class Prometheus:
    """A server of its own that scrapes one address each 500 ms and evaluates the alerts."""

    def __init__(self, folder: Path, target: str) -> None:
        scraped = {"targets": [target.split("/")[2]]}
        config = {
            "global": {
                "scrape_interval": "500ms",
                "scrape_timeout": "500ms",
                "evaluation_interval": "200ms",
            },
            "rule_files": [str(ALERTS)],
            "scrape_configs": [{"job_name": "radrm", "static_configs": [scraped]}],
        }
        file = folder / "prometheus.yml"
        file.write_text(json.dumps(config))
        (port,) = free_ports(1)
        address = f"127.0.0.1:{port}"
        self._url = f"http://{address}/api/v1"
        self._log = (folder / "log").open("w+")
        self._process = subprocess.Popen(
            [
                "prometheus",
                f"--config.file={file}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address={address}",
            ],
            stdout=self._log,
            stderr=self._log,
        )

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(PATIENCE_S)
        self._log.close()

    def _answer(self, question: str, **words: str) -> Any:
        answer = json.loads(fetch(f"{self._url}/{question}", **words))
        assert answer["status"] == "success"
        return answer["data"]

    def ask(self, expression: str) -> list[dict[str, Any]]:
        """The vector that an expression gives. An error of it is raised."""
        data = self._answer("query", query=expression)
        assert data["resultType"] == "vector"
        found: list[dict[str, Any]] = data["result"]
        return found

    def gives(self, expression: str) -> None:
        """Wait until an expression gives something: nothing does after a scrape that was late."""
        wait_until(lambda: self.ask(expression), expression)

    def rules(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._answer("rules")["groups"][0]["rules"]
        return found

    def has(self, expression: str) -> bool:
        """Whether it answers now, and gives something. False while it starts."""
        if self._process.poll() is not None:
            self._log.seek(0)
            raise AssertionError(f"prometheus has ended: {self._log.read()}")
        try:
            return bool(self.ask(expression))
        except OSError:
            return False


@contextmanager
def prometheus(folder: Path, url: str) -> Iterator[Prometheus]:
    """A Prometheus that has scraped an address at least twice, which rates need."""
    server = Prometheus(folder, url)
    try:
        scraped = "count_over_time(radrm_up[1h]) >= 2"
        wait_until(lambda: server.has(scraped), "two scrapes")
        wait_until(lambda: all(r["health"] != "unknown" for r in server.rules()), "the alerts")
        yield server
    finally:
        server.close()


def dashboard_expressions() -> list[str]:
    panels = json.loads(DASHBOARD.read_text())["panels"]
    return [target["expr"] for panel in panels for target in panel["targets"]]


@needs_prometheus
def test_prometheus_understands_all_of_it(worked: DaemonHome, tmp_path: Path) -> None:
    """One test, because starting it takes seconds: the metrics, each expression of the dashboard
    with something in it, and the alerts."""
    with listening(worked) as url:
        texts = [fetch(url).decode(), worked.radrm("metrics", env={"RADRM_HOME": "/none"}).stdout]
        for text in texts:
            done = subprocess.run(
                ["promtool", "check", "metrics"], input=text, capture_output=True, text=True
            )
            assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        with prometheus(tmp_path, url) as server:
            for expression in dashboard_expressions():
                asked = expression.replace("$instance", ".*").replace("$__rate_interval", "1m")
                assert "$" not in asked
                server.gives(asked)
            for metric in METRICS:
                name = f"{metric.name}_bucket" if metric.kind == HISTOGRAM else metric.name
                server.gives(name)
            for rule in server.rules():
                assert (rule["type"], rule["health"]) == ("alerting", "ok"), rule
                without_limit = re.fullmatch(r"(.*) (==|>) [0-9.]+", rule["query"], re.DOTALL)
                # No limit is reached here, but there is something to compare with it.
                server.gives(without_limit[1])


def test_the_dashboard_asks_only_for_metrics_that_exist() -> None:
    known = {metric.name for metric in METRICS}
    used = set()
    for expression in dashboard_expressions():
        word = expression[expression.index("radrm_") :].partition("{")[0]
        used.add(word.removesuffix("_bucket").removesuffix("_count"))
    assert used <= known
    assert known - used <= {
        *("radrm_build_info", "radrm_start_time_seconds", "radrm_store_writable"),
        *("radrm_rules_resting", "radrm_jobs_ended_total", "radrm_notices_failed_total"),
        "radrm_gpu_memory_free_bytes",
    }

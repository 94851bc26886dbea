"""The page over HTTP: what it shows, to whom, and what it refuses. No browser."""

from __future__ import annotations

import contextlib
import os
import re
import select
import socket
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="the page needs: pip install 'radrm[web]'")
pytest.importorskip("uvicorn", reason="the page needs: pip install 'radrm[web]'")

from radrm.web.guard import POLICY
from tests.daemon.harness import DaemonHome
from tests.waiting import PATIENCE_S, wait_until
from tests.web.served import HOSTILE, Served

LONG = "x" * 2**20
LOG = r"\033[31mred\033[0m <b>bold</b> \u202Eevil\n"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonHome]:
    place = DaemonHome(tmp_path_factory.mktemp("served"))
    yield place
    place.close()


@pytest.fixture(scope="module")
def early(home: DaemonHome) -> Iterator[tuple[Served, int, str]]:
    """A server that is there before its daemon, and the page that it shows until then."""
    with Served(home) as served:
        served.open()
        before = served.get("/")
        home.start()
        home.radrm("submit", "--name", HOSTILE, "--gpu-memory=9G", "--", "radrm-simjob",
                   "--gpu-memory=8G", "--seconds=1000000")  # fmt: skip
        home.radrm("submit", "--name", "log", "--gpus=0", "--", "bash", "-c",
                   f"printf '{LOG}'; head -c {2**20} /dev/zero | tr '\\0' x; exit 3")  # fmt: skip
        home.radrm("submit", "--hold", "--name", "waits", "--gpu-memory=9G", "--", "true")
        wait_until(lambda: home.ask("status", jobs=["2"])[0]["state"] == "FAILED", "the log")
        wait_until(lambda: home.ask("status", jobs=["1"])[0]["state"] == "RUNNING", "the job")
        yield served, before.status, before.text


@pytest.fixture(scope="module")
def served(early: tuple[Served, int, str]) -> Served:
    return early[0]


@pytest.fixture(scope="module")
def commanding(home: DaemonHome, served: Served) -> Iterator[Served]:
    """A server that gives commands."""
    with Served(home, "--allow-commands") as found:
        found.open()
        yield found


def secret_of(page: str) -> str:
    found = re.search(r'name="form" value="([^"]+)"', page)
    assert found
    return found[1]


# ------------------------------------------------------------------ what it shows


def test_a_daemon_that_is_away_is_said_and_comes_back(early: tuple[Served, int, str]) -> None:
    served, status, text = early
    assert status == 503
    assert "The daemon does not answer" in text
    assert served.get("/").status == 200


def test_the_overview_shows_gpus_and_jobs_without_a_script(served: Served) -> None:
    page = served.get("/")
    assert page.status == 200
    assert "<title>1 running, 1 pending, 2 simulated GPUs" in page.text
    assert page.text.count('<article class="gpu') == 2
    assert "waits" in page.text and "held" in page.text
    assert "http-equiv" in page.text  # without a script it loads itself again


def test_names_are_text(served: Served) -> None:
    for path in ("/", "/job?job=1", "/?filter=user=<script>"):
        page = served.get(path).text
        assert "<script>alert" not in page and "<img" not in page
        assert "onerror" not in re.sub(r">[^<]*<", "><", page)  # in no tag
    assert HOSTILE in unescape(served.get("/").text)


def test_a_log_is_text_without_controls_and_bounded(served: Served) -> None:
    page = served.get("/job?job=2&log=stdout").text
    assert "\x1b" not in page and "\u202e" not in page
    assert "x…" in page
    assert len(page) < 64 * 1024


def test_of_a_failed_job_standard_error_is_shown_first(served: Served) -> None:
    assert re.search(r'log=stderr" aria-current', served.get("/job?job=2").text)


def test_a_waiting_job_says_why(served: Served) -> None:
    page = served.get("/job?job=3").text
    assert "held" in page and "The job has not started" in page
    assert "radrm release 3" in page


def test_the_history_and_who_uses_what(served: Served) -> None:
    history = served.get("/history").text
    assert ">log<" in history and "1 failed" in history
    assert "No such job has ended" in served.get("/history?state=COMPLETED").text
    usage = served.get("/usage").text
    assert "Running jobs" in usage and "Share of GPU-hours" in usage


@pytest.mark.parametrize(
    ("path", "status", "says"),
    [
        ("/job?job=99", 404, "No such job"),
        ("/job?job=%00%1b[31m", 404, "No such job"),
        ("/?filter=state=nonsense", 200, "Not understood"),
        ("/?page=999999999999", 200, "1 running"),
        ("/history?since=forever&page=-1", 200, "1 failed"),
        ("/nothing", 404, "Not Found"),
        ("/static/../app.py", 404, ""),
        ("/static/..%2f..%2fapp.py", 404, ""),
        ("/static/page.css", 200, "--panel"),
        ("/events?view=../etc", 404, ""),
    ],
)
def test_whatever_the_address_says(served: Served, path: str, status: int, says: str) -> None:
    answer = served.get(path)
    assert answer.status == status
    assert says in answer.text


# ------------------------------------------------------------------ who may see it


def test_a_link_works_once(served: Served) -> None:
    link = served.new_link()
    path = link[link.index("/open") :]
    assert served.get(path, Sec_Purpose="prefetch").status == 503
    assert served.ask("HEAD", path, {}).status == 503
    first = served.get(path, Cookie="")
    assert first.status == 303
    cookie = first.headers["set-cookie"].lower()
    assert "httponly" in cookie and "samesite=strict" in cookie
    again = served.get(path, Cookie="")
    assert again.status == 401 and "set-cookie" not in again.headers


@pytest.mark.parametrize("other", ['x={"a":1}', "a[b=1", "\xe9=1", "=;;", 'q="'])
def test_cookies_of_other_pages_do_not_matter(served: Served, other: str) -> None:
    for cookie in (f"{other}; {served.cookie}", f"{served.cookie}; {other}"):
        assert served.get("/", Cookie=cookie).status == 200


@pytest.mark.parametrize("path", ["/", "/job?job=1", "/history", "/usage", "/events?view=overview"])
def test_without_a_session_nothing_is_shown(served: Served, path: str) -> None:
    for cookie in ("", f"{served.cookie.partition('=')[0]}=wrong", "a=b; ;=;\x7f"):
        answer = served.get(path, Cookie=cookie)
        assert answer.status == 401
        assert "waits" not in answer.text


def test_every_answer_has_the_policy(served: Served) -> None:
    for path in ("/", "/nothing", "/static/page.js", "/open?token=x"):
        headers = served.get(path).headers
        assert headers["content-security-policy"] == POLICY
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
    assert served.get("/").headers["cache-control"] == "no-store"
    assert "style=" not in served.get("/job?job=1").text


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("evil.example", 421),
        ("localhost.evil.example:80", 421),
        ("localhost:8765", 200),
        ("[::1]:9", 200),
        ("127.0.0.1", 200),
        ("", 421),
    ],
)
def test_an_unknown_host_is_refused(served: Served, host: str, status: int) -> None:
    assert served.get("/", Host=host).status == status


# ------------------------------------------------------------------ commands


def test_read_only_gives_no_command(served: Served, home: DaemonHome) -> None:
    page = served.get("/job?job=3").text
    assert "Commands</h2>" not in page
    fields = {"form": secret_of(page), "job": "3", "command": "release"}
    assert served.post("/command", fields, Sec_Fetch_Site="same-origin").status == 403
    assert home.ask("status", jobs=["3"])[0]["held"]


def test_a_command_needs_this_page(commanding: Served, home: DaemonHome) -> None:
    secret = secret_of(commanding.get("/job?job=3").text)
    fields = {"form": secret, "job": "3", "command": "priority", "value": "7"}
    own = f"http://127.0.0.1:{commanding.port}"
    assert commanding.post("/command", fields).status == 403
    assert commanding.post("/command", fields, Origin="http://evil.example").status == 403
    assert commanding.post("/command", fields, Sec_Fetch_Site="same-site").status == 403
    assert commanding.post("/command", {**fields, "form": "x"}, Origin=own).status == 403
    assert commanding.post("/command", fields, Cookie="", Origin=own).status == 401
    assert commanding.ask("GET", "/command", {}).status == 405
    long = {**fields, "value": "7" * 10_000}
    assert commanding.post("/command", long, Origin=own).status == 403
    assert home.ask("status", jobs=["3"])[0]["priority"] == 0
    done = commanding.post("/command", fields, Origin=own)
    assert (done.status, done.headers["location"]) == (303, "job?job=3")
    assert home.ask("status", jobs=["3"])[0]["priority"] == 7
    assert "Job 3 has priority 7." in commanding.get("/job?job=3").text
    assert "Job 3 has priority 7." not in commanding.get("/job?job=3").text


@pytest.mark.parametrize(
    ("command", "value", "says"),
    [
        ("requeue", "", "nothing to requeue"),
        ("priority", "1e9", "whole number from -1000 to 1000"),
        ("rm -rf", "", "no such command"),
    ],
)
def test_a_wrong_command_is_one_line(
    commanding: Served, command: str, value: str, says: str
) -> None:
    secret = secret_of(commanding.get("/job?job=3").text)
    fields = {"form": secret, "job": "3", "command": command, "value": value}
    commanding.post("/command", fields, Sec_Fetch_Site="same-origin")
    assert says in commanding.get("/job?job=3").text


def test_who_leaves_has_no_session(home: DaemonHome, commanding: Served) -> None:
    kept = commanding.cookie
    commanding.open()
    secret = secret_of(commanding.get("/").text)
    commanding.post("/leave", {"form": secret}, Sec_Fetch_Site="same-origin")
    assert commanding.get("/").status == 401
    commanding.cookie = kept
    assert commanding.get("/").status == 200


# ------------------------------------------------------------------ live


def test_a_change_arrives(served: Served, home: DaemonHome) -> None:
    stream = served.events("/events?view=job&job=3")
    assert stream.status == 200
    while "held" not in stream.next().get("why", ""):
        pass
    home.radrm("edit", "3", "--comment", "a new <b>comment</b>")
    while "a new &lt;b&gt;comment" not in (facts := stream.next().get("facts", "")):
        assert "<b>" not in facts
    stream.close()


def test_streams_are_bounded(served: Served) -> None:
    streams = []
    while (stream := served.events("/events?view=overview")).status == 200:
        streams.append(stream)
        assert len(streams) <= 64
    assert stream.status == 503
    for each in (*streams, stream):
        each.close()
    wait_until(lambda: _is_free(served), "the streams' end")


def _is_free(served: Served) -> bool:
    stream = served.events("/events?view=overview")
    stream.close()
    return stream.status == 200


def test_nonsense_harms_nobody(served: Served) -> None:
    for sent in (b"\x00\xff\n\n", b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 9000, b"GET /\r\n\r\n"):
        with socket.create_connection(("127.0.0.1", served.port)) as raw:
            raw.settimeout(10)
            try:
                raw.sendall(sent)
                raw.recv(4096)
            except OSError:
                pass  # it has closed the connection
    assert served.get("/").status == 200
    assert "Traceback" not in served.said()


def test_silent_connections_give_way(served: Served) -> None:
    silent = [socket.create_connection(("127.0.0.1", served.port)) for _ in range(300)]
    for each in silent[::2]:
        with contextlib.suppress(OSError):  # it had to give way already
            each.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n")
    assert served.get("/").status == 200
    for each in silent:
        each.close()


def test_readers_that_never_read_give_way(served: Served) -> None:
    """They ask for more than the kernel holds for them, so their answers wait for them."""
    asked = b"GET /static/page.js HTTP/1.1\r\nHost: localhost\r\n\r\n" * 100
    slow = []
    for _ in range(256):
        each = socket.socket()
        each.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        each.connect(("127.0.0.1", served.port))
        each.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            each.send(asked)
        slow.append(each)
    for each in slow:  # each has got a first piece
        select.select([each], [], [], PATIENCE_S)
    for _ in range(3):
        assert served.get("/").status == 200
    for each in slow:
        each.close()


# ------------------------------------------------------------------ sockets


def test_a_socket_for_a_proxy(home: DaemonHome, served: Served, tmp_path: Path) -> None:
    done = home.radrm("serve", "--no-token")
    assert "go with --socket" in done.stderr and done.returncode == 2
    done = home.radrm("serve", "--socket", str(tmp_path / "s"), "--no-token", "--allow-commands")
    assert "--allow-commands needs the links" in done.stderr
    (tmp_path / "file").write_text("")
    done = home.radrm("serve", "--socket", str(tmp_path / "file"))
    assert "is no socket" in done.stderr and os.path.isfile(tmp_path / "file")
    done = home.radrm("serve", "--listen", "0.0.0.0:0")
    assert "--public" in done.stderr and done.returncode == 2

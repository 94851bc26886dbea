"""The parts of the page alone: links, curves, logs, hosts, and that viewers share one gathering."""

from __future__ import annotations

import asyncio
import os
import re
import stat
from html import unescape
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="the page needs: pip install 'radrm[web]'")
pytest.importorskip("uvicorn", reason="the page needs: pip install 'radrm[web]'")

from radrm.client.words.facts import GIVEN
from radrm.errors import Refused
from radrm.web.app import Page, Settings
from radrm.web.asking import Asking
from radrm.web.guard import LINK_S, MOST_LINKS, SESSION_S, Sessions, is_known
from radrm.web.live import Live
from radrm.web.logs import Logs, log_end
from radrm.web.memory_curves import MOST, POINTS, Curves
from radrm.web.rendering import bar, draw
from radrm.web.serving import listen_unix
from radrm.web.views import Query, Views, as_readers_see, fragments
from tests.cli.fakes import gpu, job, page

ME = os.geteuid()


def test_links_and_sessions_end() -> None:
    now = 0.0
    sessions = Sessions(lambda: now)
    old = sessions.new_link()
    now = LINK_S + 1
    assert sessions.open(old) is None
    secret = sessions.open(sessions.new_link())
    assert secret is not None
    session = sessions.find(secret)
    assert session is not None and sessions.is_open(session)
    now += SESSION_S + 1
    assert not sessions.is_open(session)
    assert sessions.find(secret) is None
    first = sessions.new_link()
    for _ in range(MOST_LINKS):
        sessions.new_link()
    assert sessions.open(first) is None
    assert sessions.open("\xe9\udcff") is None


def device(mib: int, job: str = "7") -> dict[str, Any]:
    return {"index": 0, "jobs_mib": {job: mib}}


def test_a_curve_of_any_length_keeps_its_whole_time() -> None:
    curves = Curves()
    for second in range(10_000):
        curves.add([device(second)], float(second))
    ((gpu, places),) = curves.of("7")
    times = [second for second, _ in places]
    assert gpu == 0 and len(times) <= POINTS
    assert times[0] == 0.0 and times[-1] > 9900


def test_a_time_without_readings_is_a_gap() -> None:
    curves = Curves()
    for second in (0.0, 5.0, 500.0, 505.0):
        curves.add([device(3)], second)
    ((_, places),) = curves.of("7")
    assert None in [mib for _, mib in places]


def test_curves_are_bounded_and_forgotten() -> None:
    curves = Curves()
    curves.add([device(1, str(number)) for number in range(MOST + 9)], 0.0)
    assert len(curves) == MOST
    curves.add([device(1, "new")], 4000.0)
    assert len(curves) == 1


def test_a_log_is_plain_text(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("a\nprogress 1\rprogress 2\n\x1b[31mred\n" + "x" * 9000)
    assert log_end(str(path), ME) == ["a", "progress 2", "\ufffd[31mred", "x" * 2000 + "…"]
    with pytest.raises(Refused, match="does not exist"):
        log_end(str(tmp_path / "nothing"), ME)


@pytest.mark.parametrize("theirs", [True, False])
def test_a_log_of_somebody_else_is_not_shown(tmp_path: Path, theirs: bool) -> None:
    path = tmp_path / "log"
    path.write_text("secret")
    if theirs and os.geteuid() == 0:
        os.chown(path, ME + 1, -1)
    with pytest.raises(Refused, match=r"leads to a file of|runs as root"):
        log_end(str(path), ME + 1)


def test_roots_page_shows_no_command_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    job = {"id": 3, "user": "ann", **dict.fromkeys(GIVEN, "secret")}
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert as_readers_see(job) == job
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert as_readers_see(job) == {"id": 3, "user": "ann"}
    assert as_readers_see({**job, "user": "root"}) == {**job, "user": "root"}


def test_hosts() -> None:
    names = frozenset({"localhost", "gpu.example.org"})
    for host in ("localhost", "LOCALHOST:1", "gpu.example.org.", "10.0.0.1:80", "[::1]:8765"):
        assert is_known(host, names)
    for host in ("", "evil.example", "127.0.0.1.evil.example", "localhost:x", "[::1].evil"):
        assert not is_known(host, names)


def test_a_bar_is_within_its_bounds() -> None:
    assert "rect" not in bar(None, [("used", 5.0)])
    assert "rect" not in bar(10.0, [("used", None)])
    assert 'width="100.00"' in bar(10.0, [("used", 1e9)])


def test_a_template_makes_text_plain_and_escapes_it() -> None:
    drawn = draw("parts/notice.html", trouble="<b>\x1b[31m\u202e")
    assert "&lt;b&gt;\ufffd[31m\ufffd" in drawn


class Daemon(Asking):
    """Answers of a daemon with one GPU, on which a job runs and for which two wait."""

    async def ask(self, op: str, words: dict[str, Any] | None = None, fresh_s: float = 0.4) -> Any:
        if op == "gpus":
            users = {"users": ["ann"], "labels": ["1"], "jobs": [1], "jobs_mib": {"1": 9000}}
            others = [{"pid": n, "used_mib": 70, "user": "eve", "command": "x<"} for n in range(5)]
            return [gpu(**users, unmanaged=others, notes=[])]
        if op == "page":
            first = [
                job(5, "PENDING", name="<big", position=1),
                job(6, "PENDING", name="held", position=None),
                job(7, "PENDING", name="other", position=2),
            ]
            return page(first, RUNNING=1)
        (name,) = (words or {})["jobs"]
        if name == "7":
            raise Refused("there is no job 7")
        kinds = [("kind", "GPU-a", "wants an H100"), ("memory", "GPU-a", "needs 40G, 3G < free")]
        refused = [{"rule": r, "uuid": u, "message": m} for r, u, m in kinds]
        return {"reasons": [], "devices": refused}


def test_the_card_of_a_gpu_names_its_users_and_who_waits_for_it() -> None:
    views = Views(Daemon(), Curves(), Logs())
    found = asyncio.run(views.overview(Query()))
    drawn = fragments("overview", found)["gpus"]
    text = " ".join(unescape(re.sub(r"<[^>]*>", " ", drawn)).split())
    assert "1 ann 8.8G" in text and "unmanaged eve 70M" in text and "and 2 more" in text
    assert "5 <big waits: needs 40G, 3G < free" in text
    assert text.count("waits:") == 1 and "H100" not in text


def test_a_socket_is_of_this_user_and_is_replaced_if_nobody_serves_it(tmp_path: Path) -> None:
    path = str(tmp_path / "socket")
    listener = listen_unix(path, None)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    with pytest.raises(Refused, match="served already"):
        listen_unix(path, None)
    listener.close()
    listen_unix(path, os.getgid()).close()
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o660
    tmp_path.chmod(0o777)
    with pytest.raises(Refused, match="everybody can write in"):
        listen_unix(path, None)
    tmp_path.chmod(0o1777)
    listen_unix(path, None).close()


def test_equal_questions_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    async def many() -> int:
        asking = Asking()
        monkeypatch.setattr(asking.quick, "call", _answer)
        await asyncio.gather(*(asking.ask("page", {"offset": 0}) for _ in range(50)))
        await asking.ask("page", {"offset": 0})
        await asking.ask("page", {"offset": 50})
        asking.close()
        return asking.asked

    assert asyncio.run(many()) == 2


def test_answers_are_not_kept_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    async def many() -> int:
        asking = Asking()
        monkeypatch.setattr(asking.quick, "call", _answer)
        for offset in range(100):
            await asking.ask("page", {"offset": offset})
        kept = asking.kept
        monkeypatch.setattr("radrm.web.asking.KEEP_S", 0.0)
        await asking.ask("page", {"offset": 100})
        asking.close()
        return kept - asking.kept

    assert asyncio.run(many()) == 99


async def _answer(_: Any) -> dict[str, Any]:
    await asyncio.sleep(0)
    return {}


def test_viewers_of_one_thing_share_what_is_gathered() -> None:
    """And nothing is gathered when the last one has left."""
    gathered = 0

    async def gather() -> dict[str, str]:
        nonlocal gathered
        gathered += 1
        return {"jobs": "<p>"}

    async def watch() -> list[bytes]:
        live = Live(lambda _: True)
        sent: list[bytes] = []
        leave = asyncio.Event()

        async def receive() -> dict[str, Any]:
            await leave.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent.append(message.get("body", b""))
            if sum(b"data:" in each for each in sent) == 20:
                leave.set()
                for viewer in viewers:
                    viewer.cancel()

        viewers = [
            asyncio.create_task(live.stream("overview", gather, None)({}, receive, send))
            for _ in range(20)
        ]
        await asyncio.gather(*viewers, return_exceptions=True)
        assert (live.streams, live.watched) == (0, 0)
        return sent

    sent = asyncio.run(asyncio.wait_for(watch(), 30))
    assert sum(b"data:" in each for each in sent) == 20
    assert gathered == 1


def test_a_defect_in_reading_memory_ends_only_the_curves(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def odd() -> None:
        raise KeyError("jobs_mib")

    page = Page(Settings())
    monkeypatch.setattr(page.views, "gpus", odd)
    asyncio.run(page.sample())
    page.close()
    assert "the memory of jobs is no longer read: " in capsys.readouterr().err

"""One notice is sent: by a program, a fake sendmail, a request on loopback; and as its user."""

from __future__ import annotations

import email
import email.policy
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from radrm.config import NotifyConfig
from radrm.core.words import JobState
from radrm.host.notices import outbox
from radrm.host.notices.outbox import Result, Sender
from radrm.host.storage.notices import Notice, facts_of
from radrm.host.storage.store import Store
from radrm.jobfile.targets import target_of
from radrm.structs import replace
from tests.host.notices.notes import ended, pending
from tests.paths import REPOSITORY

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes somebody else")
NOBODY = 65534


def notice(target: str, uid: int = 0, name: str = "train", **facts: Any) -> Notice:
    job = ended(pending(uid=uid, name=name), JobState.FAILED, exit_code=3, reason="exit code 3")
    found = {**facts_of(job, "end"), **facts}
    return Notice(1, 1, uid, uid, "end", target_of(target), 0, found)


@pytest.fixture
def sender(tmp_path: Path) -> Sender:
    store = Store(str(tmp_path / "radrm.sqlite"))
    return Sender(store.notices, "box", drop=False, extra={"RADRM_HOME": "/home/x"})


def program(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


# ------------------------------------------------------------------ programs


def test_a_program_gets_the_text_and_variables(sender: Sender, tmp_path: Path) -> None:
    tell = program(tmp_path / "tell me", f"env > {tmp_path}/env\ncat > {tmp_path}/text")
    assert sender(notice(tell)) == Result()
    text = (tmp_path / "text").read_text()
    assert text.startswith("job 1 (train) FAILED\n") and "exit code 3" in text
    lines = (tmp_path / "env").read_text().splitlines()
    found = dict(line.partition("=")[::2] for line in lines)
    assert found["RADRM_JOB_ID"] == "1" and found["RADRM_EVENT"] == "end"
    assert found["RADRM_EXIT_CODE"] == "3" and found["RADRM_HOME"] == "/home/x"
    assert json.loads(found["RADRM_NOTICE"])["reason"] == "exit code 3"
    assert "PYTHONPATH" not in found and "TMPDIR" not in found, "the daemon's own stay with it"


@pytest.mark.parametrize(
    ("text", "error", "final"),
    [
        ("echo starting >&2; echo '  no route \x1b[2J ' >&2; exit 4", "tell ends with 4: ", False),
        ("kill -9 $$", "tell ends with signal 9", False),
        ("exec yes >&2", "tell ends with signal 25", False),
        ("exec sleep 1000", "takes longer", False),
        (None, "cannot run ", True),
    ],
)
def test_a_program_that_fails(
    sender: Sender,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    text: str | None,
    error: str,
    final: bool,
) -> None:
    path = tmp_path / "tell"
    if text is not None:
        program(path, text)
    if error == "takes longer":
        monkeypatch.setattr(outbox, "LIMIT_S", 0.2)
        error = "it took longer than 0.2 s"
        monkeypatch.setattr(outbox, "_GRACE_S", 0.2)
    found = sender(notice(str(path)))
    assert found.error.startswith(error) and found.final is final
    assert found.error.isprintable() and ("4: " not in error or "no route" in found.error)


def test_what_a_program_leaves_behind_is_ended(sender: Sender, tmp_path: Path) -> None:
    left = (
        f"setsid sh -c 'echo $$ > {tmp_path}/new; mv {tmp_path}/new {tmp_path}/pid; sleep 1000' &"
    )
    tell = program(tmp_path / "tell", f"{left}\nuntil [ -e {tmp_path}/pid ]; do sleep 0.01; done")
    assert sender(notice(tell)) == Result()
    pid = int((tmp_path / "pid").read_text())
    assert not Path(f"/proc/{pid}").exists() or "zombie" in Path(f"/proc/{pid}/status").read_text()


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that all users reach and write to. Those of pytest are its own user's."""
    with tempfile.TemporaryDirectory(prefix="radrm-notices-", dir="/tmp") as name:
        os.chmod(name, 0o777)
        yield Path(name)


@needs_root
def test_each_user_is_told_as_that_user(sender: Sender, open_folder: Path) -> None:
    tell = program(
        open_folder / "tell", f"id -u; id -G >&2; id -u > {open_folder}/$(id -u); exit 1"
    )
    become = replace(sender, drop=True)
    for uid in (NOBODY, 61001):
        found = become(notice(tell, uid=uid, user=str(uid)))
        assert found.error == f"tell ends with 1: {uid}", "and no group of root's"
        assert os.stat(open_folder / str(uid)).st_uid == uid
    (open_folder / "tell").chmod(0o700)
    refused = become(notice(tell, uid=61001, user="61001"))
    assert refused.final and refused.error == f"cannot run {tell}: Permission denied"


_NO_IMPORT = """
import sys
sys.path.insert(0, {code!r})
from radrm.host.notices import start_notice

class Refuse:
    def find_spec(self, name, *_):
        raise RuntimeError("imports " + name)

start_notice.drop_rights = lambda _: sys.meta_path.insert(0, Refuse())
start_notice.main()
"""


@pytest.mark.parametrize("target", ["mail", "{hook}/404", "{tell}"])
def test_nothing_is_imported_after_the_change_of_user(
    sender: Sender, tmp_path: Path, hook: str, target: str
) -> None:
    """The user may have no right to read this Python installation."""
    fake_sendmail(sender, tmp_path, mail_from="r@x.org")
    tell = program(tmp_path / "tell", "cat > /dev/null")
    wanted = sender.wanted(notice(target.format(hook=hook, tell=tell), name="größe" * 30))
    code = _NO_IMPORT.format(code=str(REPOSITORY))
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code],
        input=json.dumps(wanted.as_dict()).encode(),
        capture_output=True,
        timeout=60,
    )
    answer = json.loads(done.stdout or b"null")
    refused = "it answers 404 Not Found" if "404" in target else None
    assert answer == {"error": refused, "final": refused is not None}, done.stderr.decode()


# ------------------------------------------------------------------ mail


def fake_sendmail(sender: Sender, folder: Path, **settings: str) -> Path:
    path = program(folder / "sendmail", f'printf "%s\\n" "$@" > {folder}/args; cat > {folder}/mail')
    sender.notices.site = NotifyConfig(sendmail=path, **settings)
    return folder


@pytest.mark.parametrize(
    ("target", "settings", "words"),
    [
        ("ada@x.org", {}, ["-i", "ada@x.org"]),
        ("mail", {}, ["-i", "ada"]),
        (
            "mail:fail",
            {"mail_from": "r@x.org", "mail_domain": "x.org"},
            ["-i", "-f", "r@x.org", "ada@x.org"],
        ),
    ],
)
def test_a_mail(
    sender: Sender, tmp_path: Path, target: str, settings: dict[str, str], words: list[str]
) -> None:
    fake_sendmail(sender, tmp_path, **settings)
    assert sender(notice(target, name="größe")) == Result()
    assert (tmp_path / "args").read_text().split() == words
    found = email.message_from_bytes((tmp_path / "mail").read_bytes(), policy=email.policy.default)
    assert found["Subject"] == "radrm on box: job 1 (größe) FAILED" and found["To"] == words[-1]
    assert found["From"] == settings.get("mail_from")
    assert found["Auto-Submitted"] == "auto-generated"
    assert found.get_content().startswith("job 1 (größe) FAILED\n")


def test_no_name_ends_a_header_or_forges_a_line(sender: Sender, tmp_path: Path) -> None:
    fake_sendmail(sender, tmp_path)
    name = "x\r\nBcc: eve@x.org\r\n\r\nforged"
    assert sender(notice("ada@x.org", name=name, reason="a\n.\nb")) == Result()
    mail = (tmp_path / "mail").read_bytes()
    found = email.message_from_bytes(mail, policy=email.policy.default)
    assert sorted(found.keys()) == [
        *("Auto-Submitted", "Content-Transfer-Encoding", "Content-Type", "MIME-Version"),
        *("Subject", "To", "X-Mailer"),
    ]
    lines = found.get_content().splitlines()
    assert not any(line.startswith(("Bcc", "forged", ".")) for line in lines)


# ------------------------------------------------------------------ webhooks


class Hook(BaseHTTPRequestHandler):
    """Answers with the number in the path, and keeps what it got."""

    got: list[tuple[str, Any]] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.got.append((self.path, json.loads(body)))
        self.send_response(int(self.path.rsplit("/", 1)[1]))
        self.send_header("Location", "/200")
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_POST

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def hook() -> Iterator[str]:
    Hook.got = []
    server = HTTPServer(("127.0.0.1", 0), Hook)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_webhook_gets_json(sender: Sender, hook: str) -> None:
    assert sender(notice(f"{hook}/T0/204")) == Result()
    ((path, body),) = Hook.got
    assert path == "/T0/204" and body["text"].startswith("radrm on box: job 1 (train) FAILED\n")
    assert body["state"] == "FAILED" and body["exit_code"] == 3


@pytest.mark.parametrize(("code", "final"), [(404, True), (429, False)])
def test_what_a_webhook_refuses(sender: Sender, hook: str, code: int, final: bool) -> None:
    found = sender(notice(f"{hook}/{code}"))
    assert found.error.startswith(f"it answers {code} ")
    assert found.final is final


@pytest.mark.parametrize("code", [301, 307])
def test_a_redirect_is_not_followed(sender: Sender, hook: str, code: int) -> None:
    found = sender(notice(f"{hook}/{code}"))
    assert found.final and f"answers {code}" in (found.error or "") and len(Hook.got) == 1


def test_nobody_listens(sender: Sender) -> None:
    found = sender(notice("http://127.0.0.1:9/x"))
    assert found == Result("no answer: Connection refused", False)


# ------------------------------------------------------------------ the answer


SAID = [b"", b"[]", b"{", b"[" * 99_999, b'{"error": 5}', b'{"error": ["a"]}', b"\xff"]


@pytest.mark.parametrize("said", SAID)
def test_what_is_no_answer_is_not_believed(said: bytes) -> None:
    assert outbox._checked(said) is None


def test_an_answer_is_made_plain_and_short() -> None:
    said = json.dumps({"error": "x\n\x1b" + "y" * 999, "final": "yes"}).encode()
    found = outbox._checked(said)
    assert found.error is not None and not found.final
    assert found.error.isprintable() and len(found.error) == 300

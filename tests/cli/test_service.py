"""The set-up of `radrm service install`: its questions, the configuration, who may submit."""

from __future__ import annotations

import grp
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from radrm.cli.commands import service
from radrm.cli.commands.service import ask, config_state, write_config
from radrm.cli.settings import find_errors
from radrm.config import parse_config
from radrm.errors import Refused, UsageError
from radrm.host.service import choices
from radrm.host.service.choices import ALL, Choices, check_page, configuration, spool_command
from radrm.host.service.files import State
from radrm.host.storage.spool import Spool

NOTHING = dict.fromkeys(("users", "share", "mps", "mail", "page"))
Asked = list[str]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Asked]:
    """The questions that were asked; without answers each is answered by Enter. The server has MPS,
    mail and a web server, unless told otherwise."""

    def prepare(*answers: Any, mps: bool = True, mail: bool = True, web: bool = True) -> Asked:
        found: Asked = []
        left = list(answers)

        def answer(question: str, default: Any) -> Any:
            found.append(question)
            return left.pop(0) if left else default

        monkeypatch.setattr(service.shutil, "which", lambda name: name if mps else None)
        monkeypatch.setattr(service, "has_mail", lambda: mail)
        monkeypatch.setattr(service, "has_web_server", lambda: web)
        monkeypatch.setattr(service, "web_group", lambda: "www-data")
        monkeypatch.setattr(service, "is_yes", answer)
        monkeypatch.setattr(service, "answer_to", answer)
        return found

    return prepare


def test_at_most_five_questions_and_enter_takes_the_defaults(asked: Callable[..., Asked]) -> None:
    questions = asked()
    assert ask(NOTHING) == Choices(users=ALL)
    assert len(questions) == 5


def test_what_is_not_there_or_was_said_is_not_asked(asked: Callable[..., Asked]) -> None:
    questions = asked(mps=False, mail=False, web=False)
    assert ask(NOTHING) == Choices(users=ALL) and len(questions) == 2
    questions = asked()
    said = {"users": ALL, "share": False, "mps": None, "mail": True, "page": ""}
    assert ask(said) == Choices(ALL, share=False, mail=True)
    assert not questions, "no MPS where no GPU is shared"


def test_the_answers(asked: Callable[..., Asked]) -> None:
    group = grp.getgrgid(os.getgid()).gr_name
    questions = asked("no-such-group", group, True, True, True, "gpu.example.org")
    assert ask(NOTHING) == Choices(group, True, True, True, "gpu.example.org")
    assert len(questions) == 6, "a wrong answer is asked for again"
    asked(*["no-such-group"] * 3)
    with pytest.raises(UsageError, match="groupadd"):
        ask(NOTHING)


@pytest.mark.parametrize("share", [True, False])
@pytest.mark.parametrize("mps", [True, False])
@pytest.mark.parametrize("mail", [True, False])
def test_the_configuration_says_what_was_chosen(share: bool, mps: bool, mail: bool) -> None:
    text = configuration(Choices(None, share, mps, mail))
    config = parse_config(text, "x")
    assert config.policy == ("auto" if share else "exclusive")
    assert config.mps.enabled is mps
    assert config.notify.default == (("mail:fail",) if mail else ())
    assert find_errors(text, "x") == []


def test_who_may_submit() -> None:
    assert spool_command(ALL)[-2:] == ["1777", "/var/lib/radrm/spool"]
    assert {"gpu", "1770"} <= {*spool_command("gpu")}


@pytest.mark.parametrize(
    "host", ["", "a b", "-x", "a\nExecStart=/bin/sh", "%H", "x" * 300, "é.org"]
)
def test_names_that_a_unit_cannot_hold(host: str) -> None:
    with pytest.raises(UsageError):
        check_page(host)


def test_a_configuration_that_is_there_is_never_lost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, text = tmp_path / "etc" / "radrm.toml", configuration(Choices(mps=True))
    assert config_state(str(path), text, ["mps"], False) is State.NEW
    write_config(str(path), text)
    own = text + "\n[limits]\ngpus = 2\n"
    path.write_text(own)
    assert config_state(str(path), text, ["mps", "mail"], False) is State.SAME, "it says the same"
    other = configuration(Choices(mail=True))
    assert config_state(str(path), other, [], True) is State.SAME, "nobody asked for another"
    with pytest.raises(Refused, match="--replace"):
        config_state(str(path), other, ["mail"], False)
    assert "-gpus = 2" in capsys.readouterr().out
    assert config_state(str(path), other, ["mail"], True) is State.NEW
    write_config(str(path), other)
    assert (tmp_path / "etc" / "radrm.toml.before").read_text() == own
    with pytest.raises(Refused):
        write_config(str(tmp_path / "etc"), text)  # nor a device: root could replace /dev/null
    path.write_text("polcy = 3\n")
    with pytest.raises(Refused, match=r"'polcy'.*radrm config check"):
        config_state(str(path), text, [], False)


def test_somebody_outside_the_group_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def closed(path: str) -> None:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr("radrm.host.storage.spool.OpenFolder", closed)
    group = grp.getgrgid(tmp_path.stat().st_gid).gr_name
    with pytest.raises(Refused, match=f"only members of the group {group} may submit"):
        Spool(str(tmp_path)).put([])


def test_the_group_of_the_web_server(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = grp.getgrgid(os.getgid()).gr_name
    monkeypatch.setattr(choices, "WEB_GROUPS", ("no-such-group", mine))
    assert choices.web_group() == mine and choices.has_web_server()
    monkeypatch.setattr(choices, "WEB_GROUPS", ("no-such-group",))
    with pytest.raises(UsageError, match="install one"):
        choices.web_group()

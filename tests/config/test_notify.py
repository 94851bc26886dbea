"""The table `[notify]`: what it refuses, in one line."""

from __future__ import annotations

import pytest

from radrm.config import Config, NotifyConfig, parse_config
from radrm.errors import BadConfig


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('default = "mail"', "a list of at most 8 targets"),
        ('default = ["me"]', "targets as --notify takes them"),
        ('default = ["none"]', "targets as --notify takes them"),
        ("default = [3]", "targets as --notify takes them"),
        (f"default = {['mail'] * 9}", "at most 8"),
        ('kinds = ["mail", "fax"]', "a list of mail, webhook, command"),
        ('mail_from = "mail"', "a mail address"),
        ('mail_from = "a@b:end"', "a mail address"),
        ('mail_from = "-x@b.org"', "a mail address"),
        ('mail_domain = "b.org:end"', "a domain"),
        ('mail_domain = "x y"', "a domain"),
    ],
)
def test_wrong_settings(line: str, why: str) -> None:
    with pytest.raises(BadConfig) as caught:
        parse_config(f"[notify]\n{line}", "x.toml")
    assert why in str(caught.value) and "x.toml" in str(caught.value)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 300


def test_right_settings_read_back() -> None:
    text = (
        '[notify]\ndefault = ["mail:fail"]\nkinds = ["mail", "mail"]\nmail_from = "r@b.org"\n'
        'mail_domain = "b.org"'
    )
    found = parse_config(text, "x")
    assert found.notify == NotifyConfig(
        default=("mail:fail",),
        kinds=("mail",),
        mail_from="r@b.org",
        mail_domain="b.org",
    )
    assert found.to_table()["notify"]["default"] == ["mail:fail"]
    assert Config().notify.default == ()

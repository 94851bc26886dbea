"""Targets of notices: what is read, and what defaults mean."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radrm.errors import UsageError
from radrm.jobfile.parsing import merged, typed
from radrm.jobfile.radfile import read_job_file, wrap_command
from radrm.jobfile.targets import EVENTS, KINDS, Target, target_of

USUAL = ("end", "idle", "silent", "held", "misplaced")


@pytest.mark.parametrize(
    ("given", "target"),
    [
        ("ada@example.org", Target("mail", "ada@example.org", USUAL)),
        ("a.b+c@x:fail", Target("mail", "a.b+c@x", ("fail",))),
        ("mail", Target("mail", "", USUAL)),
        ("mail:end,oom,end", Target("mail", "", ("end", "oom"))),
        ("http://127.0.0.1:8080", Target("webhook", "http://127.0.0.1:8080", USUAL)),
        ("https://x.org/a:b/c?d=1:oom", Target("webhook", "https://x.org/a:b/c?d=1", ("oom",))),
        ("http://[::1]:9/x:start", Target("webhook", "http://[::1]:9/x", ("start",))),
        ("/opt/tell me", Target("command", "/opt/tell me", USUAL)),
        ("~/bin/tell:silent", Target("command", "~/bin/tell", ("silent",))),
        ("exec:/a:1:idle", Target("command", "/a:1", ("idle",))),
    ],
)
def test_targets(given: str, target: Target) -> None:
    assert target_of(given) == target


@pytest.mark.parametrize(
    "given",
    [
        "@example.org",
        "-oQ/tmp@example.org",
        "me@-x.org",
        "a@b.org\nBcc: c@d.org",
        "ftp://example.org/",
        "https://ann:secret@example.org/",
        "https://example.org/a b",
        "https:end",
        "bin/tell",
        "~ann/tell",
        "exec:tell",
        "/bin/",
        "/bin/tell:end,",
        "/" + "x" * 1000,
    ],
)
def test_what_is_no_target(given: str) -> None:
    with pytest.raises(ValueError, match=r"is not|printable"):
        target_of(given)


@given(st.text(max_size=40) | st.from_regex(r"(mail|/x|https?://h|a@b|exec:~?/y):?[a-z,:/@ -]*"))
def test_any_text_is_a_target_or_one_line(given: str) -> None:
    try:
        found = target_of(given)
    except ValueError as error:
        assert str(error).isprintable() and len(str(error)) < 200
        return
    assert found.kind in KINDS and set(found.events) <= set(EVENTS)
    assert found.address.isprintable() and not found.address.startswith("-")
    assert "\n" not in found.place


def test_the_log_does_not_tell_the_path_of_a_url() -> None:
    assert target_of("https://hooks.example.org:8/T0/secret").place == (
        "webhook at hooks.example.org:8"
    )
    assert target_of("https://h?token=secret").place == "webhook at h"
    assert target_of("mail").place == "mail"


def test_none_drops_what_came_before() -> None:
    assert typed({"notify": ["mail", "none", "/a"]}).notify == ("/a",)
    assert typed({"notify": ["none"]}).notify == ()
    assert merged({"notify": ["mail"]}, {"notify": ["none", "/b"]}) == {"notify": ["/b"]}


def test_a_job_has_few_targets() -> None:
    wrap_command(["true"], {"notify": ["mail"] * 8})
    with pytest.raises(UsageError, match="--notify is given 9 times, and 8 is the most"):
        wrap_command(["true"], {"notify": ["mail"] * 9})


def test_the_variable_counts_for_jobs_that_name_no_target() -> None:
    plain = wrap_command(["true"], {})
    assert plain.with_default_targets("") is plain
    assert plain.with_default_targets("mail:fail  /a").options.notify == ("mail:fail", "/a")
    for text in ("#RAD --notify=/own", "#RAD --notify=none"):
        own = read_job_file(f"#!/bin/sh\n{text}\ntrue\n".encode(), "x.rad", {})
        assert own.with_default_targets("mail") is own
    with pytest.raises(UsageError, match="RADRM_NOTIFY: --notify: 'me' is not a mail address"):
        plain.with_default_targets("me")

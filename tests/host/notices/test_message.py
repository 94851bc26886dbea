"""The words of a notice."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radrm.core.records import ArrayElement
from radrm.core.words import JobState
from radrm.host.notices.outbox import message_of
from radrm.host.storage.notices import Facts, _facts_of_array, facts_of
from tests.host.notices.notes import ended, pending, tried


def failed(**changes: Any) -> Facts:
    job = ended(pending(**changes), JobState.FAILED, exit_code=3, reason="exit code 3", attempts=2)
    return facts_of(job, "end", tried(job))


def test_the_usual_text() -> None:
    found = message_of(failed(), "box")
    assert found.subject == "radrm on box: job 1 (train) FAILED"
    lines = found.text.splitlines()
    assert lines[:3] == ["job 1 (train) FAILED", "", "state      FAILED"]
    assert "reason     exit code 3" in lines and "ran        1m03s" in lines
    assert lines[-1] == "More: radrm status 1"
    assert not any("memory" in line or "elements" in line for line in lines), "unknown"


@pytest.mark.parametrize(
    ("facts", "subject"),
    [
        (facts_of(pending(), "oom"), "job 1 (train) hit GPU out-of-memory"),
        (facts_of(pending(), "start"), "job 1 (train) has started"),
        (
            facts_of(pending(), "held", None, "3 of 9 failed"),
            "array 1 (train) is held, because too many",
        ),
        (
            {**failed(), **_facts_of_array(1, {JobState.FAILED: 1, JobState.COMPLETED: 8})},
            "array 1 (train) has ended: 1 FAILED, 8 COMPLETED",
        ),
        ({**failed(), "event": "fail"}, "job 1 (train) FAILED; its array goes on"),
    ],
)
def test_what_has_happened(facts: Facts, subject: str) -> None:
    found = message_of(facts, "box")
    assert found.subject.startswith(f"radrm on box: {subject}")
    assert (facts["text"] or "") in found.text


def test_the_values_of_a_sweep_are_in_the_text() -> None:
    element = ArrayElement(1, 0, params=(("lr", "1e-3"), ("seed", "4")))
    facts = facts_of(ended(pending(array=element), JobState.FAILED), "fail")
    assert "parameters lr=1e-3, seed=4\n" in message_of(facts, "box").text


def test_the_document_is_for_programs() -> None:
    found = message_of({**failed(), "gid": 5, "once": False}, "box")
    chat = json.loads(json.dumps(found.for_chat))
    assert chat["content"] == chat["text"] and found.subject in chat["text"]
    assert (chat["job"], chat["state"], chat["event"], chat["host"]) == (
        "1",
        "FAILED",
        "end",
        "box",
    )
    assert {"gid", "once"}.isdisjoint(chat)


HOSTILE = st.text(max_size=30) | st.just("a\r\nBcc: eve@x.org\n\n.\n{user}\x1b[2J\u2028")


@given(HOSTILE, HOSTILE, HOSTILE)
def test_no_name_makes_a_line(name: str, comment: str, reason: str) -> None:
    facts = {**failed(), "name": name, "comment": comment, "reason": reason}
    found = message_of(facts, "box")
    assert found.subject.isprintable()
    usual = message_of({**failed(), "comment": "c"}, "box")
    assert len(found.text.splitlines()) <= len(usual.text.splitlines())
    assert all(line.isprintable() for line in found.text.split("\n"))


def test_long_texts_are_cut() -> None:
    job = ended(pending(), JobState.FAILED, reason="x" * 100_000)
    found = message_of(facts_of(job, "end"), "box")
    assert len(found.text) <= 8001 and len(found.for_chat["content"]) <= 1900

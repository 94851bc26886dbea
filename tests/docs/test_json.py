"""The JSON Schema: up to date, complete, and true of a real daemon's answers."""

from __future__ import annotations

import pytest

from radrm.core.words import CheckpointKind, DeviceKind, JobState, Outcome, Queue, ReservationKind
from radrm.host.health.finding import Level
from radrm.host.mps.launches import Phase
from tests.daemon.harness import DaemonHome, simjob
from tests.documents import errors_of
from tests.waiting import wait_until
from tools.json_reference import SCHEMA, TABLE, Table, schema_text


def test_the_schema_is_made_from_the_table() -> None:
    assert SCHEMA.read_text() == schema_text(), "run: python -m tools.json_reference"


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        *(("STATE", JobState), ("OUTCOME", Outcome), ("QUEUE", Queue), ("KIND", DeviceKind)),
        *(("CHECKPOINT", CheckpointKind), ("LEVEL", Level), ("MPS_STATE", Phase)),
        ("RESERVED", ReservationKind),
    ],
)
def test_the_words_are_those_of_the_code(word: str, kind: type) -> None:
    assert Table(TABLE.read_text()).words[word] == [each.value for each in kind]  # type: ignore[attr-defined]


@pytest.mark.parametrize("line", ["just words", "strin: a type that is not there"])
def test_a_wrong_line_is_an_error(line: str) -> None:
    table = Table(f'[commands]\n[words]\n[job]\nid = "{line}"')
    with pytest.raises(ValueError, match=line.partition(":")[0]):
        table.schema()


def test_a_field_without_a_line_and_a_missing_one_are_errors() -> None:
    finding = {"check": "a", "level": "ok", "finding": "b", "next_step": None}
    assert errors_of(["doctor"], [finding]) == []
    assert "new" in errors_of(["doctor"], [{**finding, "new": 1}])[0]
    assert "check" in errors_of(["doctor"], [{k: v for k, v in finding.items() if k != "check"}])[0]
    assert errors_of(["doctor"], [{**finding, "level": "good"}])


@pytest.mark.daemon
def test_the_answers_of_a_daemon_are_as_the_schema_says(daemon: DaemonHome) -> None:
    """The harness compares each document; here they are all asked for, with much in them."""
    blocker = daemon.submit("--gpu-memory=8G", "--time=9h", "--due=+90m", "--", *simjob(4, 1, 9999))
    daemon.submit("--array=0-3", "--gpus=2", "--collocation=exclusive", "--after=1:any", "--", "w")
    daemon.wait_state(blocker, "RUNNING")
    wait_until(lambda: daemon.job(blocker)["peak_mib"], "a reading of the job")
    reading = [
        *("gpus", "limits", "mps status", "status", f"status {blocker}", "doctor"),
        *(f"explain {blocker}", "explain 2_0", "hold 2_1", "release 2_1", "cancel 2_3 99"),
        *("drain 1", "resume 1", f"edit {blocker} --priority=5"),
        *(f"report --energy --by {what}" for what in ("user", "job", "gpu", "day", "group")),
        *("history", *(f"report --by {what}" for what in ("job", "gpu", "day", "group"))),
    ]
    for line in reading:
        done = daemon.radrm(*line.split(), "--json")
        assert done.stdout[:1] in ("[", "{"), done.stderr

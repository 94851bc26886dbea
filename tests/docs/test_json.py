"""The JSON documents: declared once, and a real daemon's answers are exactly as declared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args, get_type_hints

import msgspec
import pytest

from radrm.core import records
from radrm.core.records import JobSpec
from radrm.core.words import JobState
from radrm.documents.base import (
    Document,
    Level,
    MpsState,
    Source,
    State,
    Words,
    repeated,
)
from radrm.documents.jobs import Explanation, Job
from radrm.documents.server import Gpu
from radrm.host.health.finding import Level as LevelKind
from radrm.host.mps.launches import Phase
from tests.daemon.harness import DaemonHome, simjob
from tests.documents import errors_of
from tests.waiting import wait_until
from tools.json_reference import Reference, reference

# What scripts may rely on in every row of `status --json`.
ALWAYS = """
id ticket name user state outcome queue position devices collocation attempts exit_code reason
submitted_at started_at ended_at gpus estimate_mib estimate_source reserved_mib peak_mib energy_j
oom_count
"""


@pytest.mark.parametrize(
    ("words", "kind"), [(State, JobState), (Level, LevelKind), (MpsState, Phase)]
)
def test_the_words_are_those_of_the_code(words: object, kind: type) -> None:
    (said,) = (each for each in get_args(words) if isinstance(each, Words))
    assert list(said.values) == [each.value for each in kind]


class Untold(Document):
    """It has a field without a text."""

    id: int


class Strange(Document):
    """It has a field that JSON does not have."""

    id: set[int]
    """Its numbers."""


class Silent(Document):
    id: int
    """Its number."""


@pytest.mark.parametrize(
    ("kind", "said"), [(Untold, "id"), (Strange, "set"), (Silent, "no docstring")]
)
def test_a_wrong_declaration_is_an_error(kind: type[Document], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Reference({"status": tuple[kind, ...]}).schema()


def test_a_field_that_is_not_declared_and_a_missing_one_are_errors() -> None:
    finding = {"check": "a", "level": "ok", "finding": "b", "next_step": None}
    assert errors_of(["doctor"], [finding]) == []
    assert "new" in errors_of(["doctor"], [{**finding, "new": 1}])[0]
    assert "check" in errors_of(["doctor"], [{k: v for k, v in finding.items() if k != "check"}])[0]
    assert errors_of(["doctor"], [{**finding, "level": "good"}])


def test_a_list_of_things_is_a_list_at_the_top() -> None:
    for name, kind in reference().answers.items():
        assert kind in (dict[str, str],) or get_args(kind) or issubclass(kind, Document), name
    assert reference().answers["gpus"] == tuple[Gpu, ...]


@pytest.mark.parametrize(("source", "record"), [(Source.SPEC, JobSpec), (Source.JOB, records.Job)])
def test_what_a_document_repeats_has_the_type_of_the_record(source: Source, record: type) -> None:
    said, own = get_type_hints(Job), get_type_hints(record)
    own |= {n: get_type_hints(p.fget)["return"] for n, p in vars(record).items() if _getter(p)}
    names = repeated(Job, source)
    assert names and {n: said[n] for n in names} == {n: own[n] for n in names}


def _getter(found: object) -> bool:
    return isinstance(found, property) and found.fget is not None


def test_what_scripts_rely_on_is_always_there() -> None:
    fields = msgspec.structs.fields(Job)
    required = {field.name for field in fields if field.default is msgspec.NODEFAULT}
    assert set(ALWAYS.split()) <= required


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
    answers: list[tuple[Any, type[Document]]] = [
        *((job, Job) for job in daemon.ask("status")),
        *((gpu, Gpu) for gpu in daemon.ask("gpus")),
        (daemon.ask("explain", jobs=[str(blocker)]), Explanation),
    ]
    for answer, kind in answers:
        assert _again(answer, kind) == answer, "a field has its default, or is not declared"


def _again(answer: Mapping[str, Any], kind: type[Document]) -> dict[str, Any]:
    """The document, read by its declaration and written again."""
    found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(msgspec.convert(answer, kind)))
    return found

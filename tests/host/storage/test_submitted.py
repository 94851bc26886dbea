"""A submission in the store: the job file is parsed once, and what was parsed rules."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radrm.errors import UsageError
from radrm.host.storage import submitted
from radrm.host.storage.store import Store
from radrm.host.storage.submitted import Submission, parse_envelope
from radrm.jobfile.options import OPTIONS, RawOptions
from radrm.structs import replace
from tests.host.storage.envelopes import envelope
from tests.world import World, gpus

EVERYTHING = """#!/bin/bash
#RAD --gpus=2 --gpu-memory=3G --env=A=B --env=C=D --after=3:ok --array=0-9%3 --time=1h
#RAD --signal=USR1@60 --input-shape=3x4x5 --hold --requeue --priority=5 --smact=0.5
true
"""
POSITIONAL = "conda activate ml\npython train.py\nnet.model\ncifar\n32\nmagm\n1\n5000\n40000\n"
COMMAND = ("python3", "odd \udcff name", "--epochs=3")
FORMS = {
    "directive": envelope(script=EVERYTHING, options={"env": ["C=E"]}, summary="a table"),
    "positional": envelope(script=POSITIONAL, options={"name": "net"}),
    "from Windows": envelope(script="#!/bin/sh\r\ntrue\r\n", file=None),
    "command": envelope(script=None, command=COMMAND, options={"array": "1-3"}),
}


def stored(path: Path, submission: Submission) -> Submission:
    """The submission as a store gives it back."""
    store = Store(str(path / "radrm.sqlite"))
    world = World(gpus(1))
    job = replace(world.submit(1000), ticket=submission.envelope.ticket)
    store.save([replace(world.decisions[-2], changed=(job,))], [submission])
    found = store.submissions.of_job(job.id)
    store.close()
    return found


@pytest.mark.parametrize("form", FORMS)
def test_a_parsed_job_file_comes_back_whole(tmp_path: Path, form: str) -> None:
    sent = FORMS[form]
    submission = Submission(1000, 1000, sent, parse_envelope(sent))
    found = stored(tmp_path, submission)
    assert found == submission
    assert found.job_file() == parse_envelope(sent)


def test_what_was_parsed_rules_and_is_not_parsed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = envelope(script=EVERYTHING)
    parsed = parse_envelope(sent)
    found = stored(tmp_path, Submission(1000, 1000, sent, parsed))

    def never(*_: object) -> None:
        raise AssertionError("it was parsed at intake")

    monkeypatch.setattr(submitted, "job_file_in", never)
    assert found.job_file() == parsed
    edited = replace(found, edits={"gpus": "3", "after": ["none", "7"], "env": ["A=Z"]})
    options = edited.job_file().options
    assert options.gpus == 3 and options.time_s == 3600.0
    assert [each.job for each in options.after] == ["7"]
    assert dict(options.env) == {"A": "Z", "C": "D"}


def test_an_edit_replaces_the_dependencies_of_file_and_command_line() -> None:
    """Those of the file came back where the command line had some, too."""
    sent = envelope(script="#!/bin/sh\n#RAD --after=3\ntrue\n", options={"after": ["4"]})
    edited = parse_envelope(sent).edited({"after": ["none", "7"]})
    assert [each.job for each in edited.options.after] == ["7"]


def test_an_edit_is_checked_with_all_else_that_was_asked_for() -> None:
    parsed = parse_envelope(envelope(script=EVERYTHING))
    with pytest.raises(UsageError, match="--signal comes 60 s before the time limit"):
        parsed.edited({"time": "30"})
    assert parsed.edited({"name": "new"}).name == "new"
    assert parsed.edited({"priority": "1"}).name == parsed.name


def test_the_script_is_stored_once(tmp_path: Path) -> None:
    sent = envelope(script=f"#!/bin/sh\n: {'x' * 9000}\n")
    stored(tmp_path, Submission(1000, 1000, sent, parse_envelope(sent)))
    with sqlite3.connect(tmp_path / "radrm.sqlite") as db:
        ((text,),) = db.execute("SELECT job_file FROM submissions").fetchall()
    assert len(text) < 400


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "gpus": st.integers(0, 8).map(str),
            "time": st.integers(100, 10**6).map(str),
            "smact": st.floats(0, 1).map(lambda x: f"{x:.6f}"),
            "comment": st.text(min_size=1, max_size=50).filter(
                lambda text: text.isprintable() and bool(text.strip())
            ),
            "env": st.lists(st.sampled_from(["A=1", "B=\u00e9", "A=2"]), max_size=3),
            "hold": st.just(True),
        },
    )
)
def test_any_options_come_back_as_they_were_parsed(options: RawOptions) -> None:
    sent = envelope(script="#!/bin/sh\ntrue\n", options=options)
    parsed = parse_envelope(sent)
    text = submitted._encoded(parsed, sent)
    assert text is not None and submitted._decoded(text, sent) == parsed


def test_every_option_of_the_table_can_be_stored() -> None:
    """A kind of value that JSON cannot hold would fail at intake, for the first who uses it."""
    options: RawOptions = {
        "name": "n", "gpus": "0", "gpu-memory": "auto", "smact": "0.5", "duration": "1h",
        "collocation": "mig", "mig-profile": "1g.5gb", "gpu-type": "a100|a6000",
        "prefer-gpus": "0,a100", "avoid-gpus": "GPU-1", "max-slowdown": "1.3", "sm-share": "30",
        "time": "2h", "priority": "-1", "hold": True, "after": ["4:failed", "none", "5:any"],
        "array": "1-2", "output": "a", "error": "b", "chdir": "c", "env": ["A=1"], "retries": "2",
        "requeue": True, "signal": "TERM@5", "checkpoint": "exit", "checkpoint-signal": "TERM",
        "checkpoint-cost": "5", "progress-pattern": "auto", "progress-file": "p",
        "model-summary": "m", "model-factory": "m:f",
        "batch-size": "3", "sequence-length": "4", "input-shape": "3x4", "optimizer": "adam",
        "precision": "amp", "comment": "x", "device-ids": "index", "cpus": "2.5-4",
        "memory": "8G-16G", "role": ["ps:1-2,cpus=4", "worker:1-8,cpus=1-2,gpus=1"],
        "due": "2030-01-31T18:00:00+01:00", "weight": "3", "notify": ["mail"],
        "begin": "2030-01-30T18:00:00+01:00", "retry-on": "1,75-80,KILL", "expect-idle": True,
        "silent-limit": "30m", "interactive": True, "snapshot": ".",
        "max-fails": "3@60s", "cpu-bind": "none", "background": "wait", "no-trace": True,
    }  # fmt: skip
    sweep: RawOptions = {"param": ["lr=1,2"], "params": "-", "at-once": "3"}
    named = {option.name for option in OPTIONS}
    assert options.keys() | sweep.keys() == named, "an array has numbers or values"
    for each in (options, {**options, **sweep}):
        if "param" in each:
            del each["array"]
        sent = envelope(script="#!/bin/sh\nradrun train.py\n", options=each, table="a\n1\n")
        parsed = parse_envelope(sent)
        assert submitted._decoded(submitted._encoded(parsed, sent) or "", sent) == parsed

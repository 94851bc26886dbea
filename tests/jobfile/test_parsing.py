"""Options as words and as stored values: what is accepted, and which source wins."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radrm.errors import UsageError
from radrm.jobfile.options import OPTIONS, Options, RawOptions
from radrm.jobfile.parsing import MAX_REPEATS, edited, merged, parse_words, typed, typed_whole
from radrm.jobfile.relations import AfterOption

# ------------------------------------------------------------------ words


def test_a_job_whose_folder_is_edited_leaves_its_copy() -> None:
    raw: RawOptions = {"gpus": "2", "snapshot": "/copy"}
    assert edited(raw, {"chdir": "/x"}) == {"gpus": "2", "chdir": "/x"}
    assert edited(raw, {"gpus": "3"}) == {"gpus": "3", "snapshot": "/copy"}


def test_both_spellings_and_flags() -> None:
    words = ["--gpus=2", "--name", "a b", "--requeue", "--env", "A=1", "--env=B=2"]
    raw = parse_words(words, "here")
    assert raw == {"gpus": "2", "name": "a b", "requeue": True, "env": ["A=1", "B=2"]}
    assert json.loads(json.dumps(raw)) == raw
    options = typed(raw)
    assert options == Options(name="a b", gpus=2, requeue=True, env=(("A", "1"), ("B", "2")))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--gpsu=2"], "here: unknown option '--gpsu=2'; did you mean --gpus?"),
        (["--batch_size=2"], "here: unknown option '--batch_size=2'; did you mean --batch-size?"),
        (["-gpus"], "here: unknown option '-gpus'; did you mean --gpus?"),
        (["--zzz"], "here: unknown option '--zzz'; see `radrm submit --help`"),
        (["gpus=2"], "here: 'gpus=2' is not an option; options begin with --"),
        (["--wait"], "here: unknown option '--wait'"),
        (["--"], "here: unknown option '--'"),
        (["--gpus"], "here: --gpus needs a value; write --gpus=N"),
        (["--gpus", "--name=x"], "here: --gpus needs a value; write --gpus=N"),
        (["--requeue=yes"], "here: --requeue takes no value; write --requeue alone"),
        (["--gpus=1", "--gpus", "2"], "here: --gpus is given twice; keep one of them"),
        (["--requeue", "--requeue"], "here: --requeue is given twice; keep one of them"),
    ],
)
def test_bad_words(words: list[str], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_words(words, "here")
    assert str(caught.value).startswith(message)


def test_one_source_may_span_several_lines() -> None:
    first = parse_words(["--gpus=1", "--env=A=1"], "line 1")
    second = parse_words(["--env=B=2"], "line 2", first)
    assert second == {"gpus": "1", "env": ["A=1", "B=2"]}
    assert first == {"gpus": "1", "env": ["A=1"]}
    with pytest.raises(UsageError, match="line 2: --gpus is given twice"):
        parse_words(["--gpus=2"], "line 2", first)


def test_repeats_are_bounded() -> None:
    words = [f"--env=A{i}=" for i in range(MAX_REPEATS + 1)]
    with pytest.raises(UsageError, match="more than"):
        parse_words(words, "here")


def test_the_higher_source_wins_and_repeats_add_up() -> None:
    low = {"gpus": "1", "name": "low", "env": ["A=1", "B=1"]}
    high = {"gpus": "2", "env": ["A=2"], "requeue": True}
    both = merged(low, high)
    assert both == {"gpus": "2", "name": "low", "env": ["A=2", "B=1"], "requeue": True}
    assert low["env"] == ["A=1", "B=1"]


@pytest.mark.parametrize(
    ("after", "wanted"),
    [
        (["1", "2:any"], ["1", "2"]),
        (["1", "none"], []),
        (["1", "none", "2"], ["2"]),
        (["none", "1", "none", "2", "3"], ["2", "3"]),
        (["none"], []),
    ],
)
def test_none_takes_back_what_stands_before_it(after: list[str], wanted: list[str]) -> None:
    assert [dependency.job for dependency in typed({"after": after}).after] == wanted


def test_the_command_line_takes_back_what_a_file_waits_for() -> None:
    both = merged({"after": ["1"]}, {"after": ["none", "2"]})
    assert typed(both).after == (AfterOption("2", "ok"),)


@pytest.mark.parametrize("name", ["env", "role", "after"])
def test_values_of_the_wrong_kind_are_refused_also_after_others(name: str) -> None:
    with pytest.raises(UsageError, match=f"--{name} holds a value of the wrong kind"):
        typed(merged({name: ["A=1"]}, {name: [1]}))


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({"signal": "USR1@60"}, "60 s before the time limit, which is none; give a longer --time"),
        ({"signal": "USR1@60", "time": "60"}, "60 s before the time limit, which is 60 s; give"),
        ({"signal": "USR1@60", "time": "0:30"}, "which is 30 s"),
        ({"signal": "USR1@60", "time": "61"}, None),
        ({"time": "60"}, None),
        ({}, None),
    ],
)
def test_a_warning_needs_a_time_limit_after_it(raw: dict[str, str], message: str | None) -> None:
    assert typed(raw)  # one source of several need not say it all
    if message is None:
        assert typed_whole(raw) == typed(raw)
    else:
        with pytest.raises(UsageError) as caught:
            typed_whole(raw, "job.rad")
        assert str(caught.value).startswith("job.rad: --signal comes ")
        assert message in str(caught.value)


# ------------------------------------------------------------------ distrust


@pytest.mark.parametrize(
    "raw",
    [
        None,
        ["--gpus=1"],
        {1: "2"},
        {"gsup": "1"},
        {"gpus": 1},
        {"gpus": True},
        {"gpus": ["1"]},
        {"gpus": "-1"},
        {"requeue": "yes"},
        {"requeue": False},
        {"env": "A=1"},
        {"env": [1]},
        {"env": ["A=1"] * (MAX_REPEATS + 1)},
        {"mig-profile": "1g.5gb", "collocation": "mps"},
    ],
)
def test_raw_options_are_never_trusted(raw: object) -> None:
    with pytest.raises(UsageError):
        typed(raw)


NAMES = sorted(option.name for option in OPTIONS)


option_words = st.builds("--{}={}".format, st.sampled_from(NAMES), st.text(max_size=20)) | st.text(
    max_size=12
)


@given(st.lists(option_words, max_size=5))
def test_what_parses_is_what_the_daemon_accepts(words: list[str]) -> None:
    try:
        raw = parse_words(words, "here")
    except UsageError as error:
        assert "\n" not in str(error)
    else:
        again = json.loads(json.dumps(raw))
        if "mig-profile" not in again:
            typed(again)

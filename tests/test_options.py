"""The option table: every option parses, is bounded, and is refused clearly when it must be."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radrm.core.words import Collocation
from radrm.errors import UsageError
from radrm.jobfile.options import (
    MAX_REPEATS,
    OPTIONS,
    Options,
    merged,
    options_markdown,
    parse_edit,
    parse_submit,
    parse_words,
    submit_help,
    typed,
    typed_whole,
)
from radrm.jobfile.values import Array, Dependency, EarlySignal

ULID = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
BY_NAME = {option.name: option for option in OPTIONS}

AVAILABLE = [
    "name",
    "gpus",
    "gpu-memory",
    "smact",
    "duration",
    "collocation",
    "mig-profile",
    "time",
    "priority",
    "hold",
    "after",
    "array",
    "output",
    "error",
    "chdir",
    "env",
    "retries",
    "requeue",
    "signal",
    "checkpoint",
    "model-summary",
    "model-factory",
    "batch-size",
    "sequence-length",
    "input-shape",
    "optimizer",
    "precision",
    "comment",
    "device-ids",
]
LATER = [
    "cpus",
    "memory",
    "notify",
    "due",
    "weight",
    "elastic",
    "max-slowdown",
]

GOOD = [
    ("name", "resnet 50", "resnet 50"),
    ("gpus", "0", 0),
    ("gpus", "1024", 1024),
    ("gpu-memory", "4G", 4096),
    ("gpu-memory", "4GiB", 4096),
    ("gpu-memory", "4096M", 4096),
    ("gpu-memory", "4096", 4096),
    ("gpu-memory", "auto", None),
    ("smact", "0", 0.0),
    ("smact", ".5", 0.5),
    ("smact", "1.0", 1.0),
    ("duration", "90", 90.0),
    ("collocation", "mps", "mps"),
    ("mig-profile", "1g.5gb", "1g.5gb"),
    ("mig-profile", "1c.3g.20gb+me", "1c.3g.20gb+me"),
    ("time", "4:00:00", 14_400.0),
    ("time", "1-00:00:00", 86_400.0),
    ("priority", "-5", -5),
    ("output", "logs/%x-%j.%a.%t.out", "logs/%x-%j.%a.%t.out"),
    ("error", "100%%", "100%%"),
    ("chdir", "/data/müller", "/data/müller"),
    ("env", "A=b=c d", ("A", "b=c d")),
    ("env", "EMPTY=", ("EMPTY", "")),
    ("retries", "1000", 1000),
    ("checkpoint", "none", "none"),
    ("model-summary", "resnet50_32.model", "resnet50_32.model"),
    ("model-factory", "net.models:build", "net.models:build"),
    ("model-factory", "src/net.py:build", "src/net.py:build"),
    ("batch-size", "32", 32),
    ("sequence-length", "512", 512),
    ("input-shape", "3x224x224", (3, 224, 224)),
    ("input-shape", "3,32", (3, 32)),
    ("optimizer", "AdamW", "AdamW"),
    ("precision", "bf16", "bf16"),
    ("comment", "for the paper", "for the paper"),
    ("device-ids", "index", "index"),
    ("after", "12", Dependency("12", "ok")),
    ("after", "12_3:any", Dependency("12_3", "any")),
    ("after", f"{ULID}:failed", Dependency(ULID, "failed")),
    ("after", "none", None),
    ("array", "0-9", Array(0, 9, None)),
    ("array", "5-5%1", Array(5, 5, 1)),
    ("array", "13", Array(13, 13, None)),
    ("cpus", "2.5", 2.5),
    ("memory", "1T", 1024 * 1024),
    ("signal", "USR1@60", EarlySignal(10, 60.0)),
    ("signal", "SIGTERM@1", EarlySignal(15, 1.0)),
    ("notify", "me@example.org", "me@example.org"),
    ("due", "1970-01-02T00:00:00+00:00", 86_400.0),
    ("weight", "2", 2.0),
    ("elastic", "1-4", (1, 4)),
    ("max-slowdown", "1.5", 1.5),
]

BAD = [
    ("name", ""),
    ("name", "  "),
    ("name", "../x"),
    ("name", ".."),
    ("name", "a\nb"),
    ("name", "x" * 129),
    ("gpus", "-1"),
    ("gpus", "1025"),
    ("gpus", "1.0"),
    ("gpus", "1_0"),
    ("gpus", "٣"),
    ("gpus", "9" * 5000),
    ("gpu-memory", "0"),
    ("gpu-memory", "-4G"),
    ("gpu-memory", "4 apples"),
    ("gpu-memory", "9" * 400),
    ("gpu-memory", "99999999T"),
    ("smact", "1.01"),
    ("smact", "-0.1"),
    ("smact", "nan"),
    ("smact", "80%"),
    ("duration", "0"),
    ("collocation", "MPS"),
    ("mig-profile", "big"),
    ("time", "soon"),
    ("time", "1s  " * 50),
    ("time", "9999-00:00:00"),
    ("priority", "1001"),
    ("output", "%z.out"),
    ("output", "ends%"),
    ("chdir", "a\0b"),
    ("chdir", "\udcff"),
    ("env", "A"),
    ("env", "=b"),
    ("env", "1A=b"),
    ("env", "A=\0"),
    ("env", "A=\udcff"),
    ("env", "CUDA_VISIBLE_DEVICES=0"),
    ("env", "CUDA_MPS_PIPE_DIRECTORY=/tmp"),
    ("env", "A=" + "x" * 70_000),
    ("retries", "1001"),
    ("checkpoint", "api"),
    ("model-factory", "build"),
    ("batch-size", "0"),
    ("sequence-length", "0"),
    ("input-shape", "3x"),
    ("input-shape", "3x0"),
    ("input-shape", "x".join(["2"] * 9)),
    ("optimizer", "a b"),
    ("precision", "int3"),
    ("device-ids", "name"),
    ("after", "12:maybe"),
    ("after", "x"),
    ("after", "none:ok"),
    ("after", "12_"),
    ("after", "9" * 19),
    ("array", "9-0"),
    ("array", "0-9%0"),
    ("array", "0-100000"),
    ("array", "1,2"),
    ("cpus", "0"),
    ("signal", "USR1"),
    ("signal", "NOSUCH@60"),
    ("signal", "KILL@60"),
    ("signal", "@60"),
    ("signal", "USR1@0"),
    ("due", "tomorrow"),
    ("weight", "0"),
    ("elastic", "4-1"),
    ("max-slowdown", "0.5"),
]


def test_the_table_is_the_list_of_fields() -> None:
    assert [option.field for option in OPTIONS] == [field.name for field in fields(Options)]
    assert {o.name for o in OPTIONS if o.available} == set(AVAILABLE)
    assert {o.name for o in OPTIONS if not o.available} == set(LATER)
    assert BY_NAME["collocation"].metavar == "|".join(mode.value for mode in Collocation)


@pytest.mark.parametrize(("name", "text", "value"), GOOD)
def test_good_values(name: str, text: str, value: object) -> None:
    assert BY_NAME[name].parse(text) == value


def test_every_option_with_a_value_has_a_good_example() -> None:
    assert {name for name, _, _ in GOOD} == {o.name for o in OPTIONS if o.metavar is not None}


@pytest.mark.parametrize(("name", "text"), BAD)
def test_bad_values_name_the_option_and_the_place(name: str, text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_words([f"--{name}={text}"], "job.rad line 2")
    message = str(caught.value)
    assert message.startswith(f"job.rad line 2: --{name}: ")
    assert "\n" not in message and len(message) < 250


@pytest.mark.parametrize(("name", "text", "value"), [row for row in GOOD if row[0] in LATER])
def test_what_is_not_available_is_refused(name: str, text: str, value: object) -> None:
    for attempt in (
        lambda: parse_words([f"--{name}={text}"], "here"),
        lambda: typed({name: [text] if BY_NAME[name].repeatable else text}),
    ):
        with pytest.raises(UsageError, match=f"--{name} is not available in this release"):
            attempt()


def test_a_value_that_is_not_available_is_refused() -> None:
    with pytest.raises(UsageError, match="--checkpoint=signal is not available"):
        parse_words(["--checkpoint=signal"], "here")


# --------------------------------------------------------------------------- words


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
    assert typed(both).after == (Dependency("2", "ok"),)


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


# --------------------------------------------------------------------------- distrust


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


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@given(st.dictionaries(st.sampled_from(sorted(BY_NAME)) | st.text(), json_values, max_size=4))
def test_anything_gives_options_or_a_usage_error(raw: dict[str, object]) -> None:
    try:
        typed(raw)
    except UsageError as error:
        assert "\n" not in str(error)


option_words = st.builds(
    "--{}={}".format, st.sampled_from(sorted(BY_NAME)), st.text(max_size=20)
) | st.text(max_size=12)


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


# --------------------------------------------------------------------------- submit


def test_files_options_and_flags_in_any_order() -> None:
    request = parse_submit(["a.rad", "--gpus", "2", "--wait", "b.rad", "--json"])
    assert request.files == ("a.rad", "b.rad")
    assert request.raw_options == {"gpus": "2"}
    assert (request.wait, request.parsable, request.json, request.help) == (
        True,
        False,
        True,
        False,
    )


def test_a_command_is_left_as_it_is() -> None:
    argv = ["python", "train.py", "--gpus=9", "--", "a b", "", "--help", "$HOME;'\""]
    request = parse_submit(["--parsable", "--name=x", "--", *argv])
    assert request.command == tuple(argv)
    assert request.files == () and request.parsable and not request.help


@pytest.mark.parametrize("argv", [["--help"], ["-h"], ["x", "--nonsense", "--help"]])
def test_help_beats_everything(argv: list[str]) -> None:
    assert parse_submit(argv).help


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], "nothing to submit"),
        (["--wait"], "nothing to submit"),
        (["--"], "no command after --"),
        (["a.rad", "--", "python"], "both job files and a command"),
        (["a.rad", "--wiat"], "did you mean --wait?"),
        (["a.rad", "--wait=yes"], "unknown option '--wait=yes'; did you mean --wait?"),
        (["a.rad", "-n", "1"], "unknown option '-n'"),
        (["a.rad", ""], "'' is not an option"),
        (["--dependency=afterok:1", "a.rad"], "here it is --after=ID"),
        (["-"], "not read from standard input"),
        (["a.rad", "--json", "--parsable"], "exclude each other"),
        (["a.rad", "--gpus=x"], "--gpus: 'x' is not a whole number from 0 to 1024"),
        (["a.rad", "--mig-profile=1g.5gb", "--collocation=mps"], "does not go with"),
    ],
)
def test_bad_command_lines(argv: list[str], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_submit(argv)
    assert str(caught.value).startswith("command line: ")
    assert message in str(caught.value)


# --------------------------------------------------------------------------- edit


def test_an_edit_names_jobs_and_what_is_to_be_different() -> None:
    jobs, raw = parse_edit(["12", "--priority", "5", "sweep-*", "--after=none", "--after=7"])
    assert jobs == ["12", "sweep-*"]
    assert raw == {"priority": "5", "after": ["none", "7"]}


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], "no job named"),
        (["--priority=5"], "no job named"),
        (["12"], "nothing to change"),
        (["12", "--array=0-3"], "an array stays as it was submitted"),
        (["12", "--prioritty=5"], "did you mean --priority?"),
        (["12", "--wait"], "unknown option '--wait'"),
        (["12", "-p", "5"], "unknown option '-p'"),
        (["12", "", "--priority=5"], "'' is not an option"),
        (["12", "-J", "name"], "here it is --name=NAME"),
        (["12", "--priority=x"], "--priority: 'x' is not a whole number"),
        (["12", "--priority=1", "--priority=2"], "--priority is given twice"),
        (["12", "--mig-profile=1g.5gb", "--collocation=mps"], "does not go with"),
        (["12", "--cpus=2"], "--cpus is not available in this release"),
    ],
)
def test_bad_edits(argv: list[str], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_edit(argv)
    assert str(caught.value).startswith("command line: ")
    assert message in str(caught.value)


# --------------------------------------------------------------------------- documents


def test_help_and_documents_hold_every_option() -> None:
    markdown = options_markdown()
    for option in OPTIONS:
        assert option.usage in submit_help()
        assert f"`--{option.name}" in markdown
    rows = markdown.replace(r"\|", "").splitlines()
    assert {row.count("|") for row in rows} == {3}
    assert all(len(line) <= 100 for line in submit_help().splitlines())
    assert submit_help().count("not in this release") == len(LATER) + 1


def test_the_table_imports_nothing_heavy() -> None:
    heavy = "typer rich argparse json msgspec logging datetime signal difflib pathlib asyncio"
    code = (
        "import sys; before = set(sys.modules); import radrm.jobfile.options; "
        f"print(*(set({heavy.split()!r}) | {{'radrm.core.records'}}) & (set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""

"""The option table: every option has good and bad values, bounds and help."""

from __future__ import annotations

import re

import pytest

from radrm.cli.help import help_of
from radrm.core.words import Collocation
from radrm.errors import UsageError
from radrm.jobfile.options import OPTIONS, SHOWN
from radrm.jobfile.parsing import parse_words, typed_whole
from radrm.jobfile.relations import AfterOption, ArrayOption, MaxFailsOption
from radrm.jobfile.values import RoleOption, SignalOption, Span, log_path
from tests.imports import imported_by

ULID = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
BY_NAME = {option.name: option for option in OPTIONS}

NAMES = [
    *("name", "gpus", "gpu-memory", "sm-share", "smact", "duration", "collocation"),
    *("mig-profile", "gpu-type", "prefer-gpus", "avoid-gpus", "max-slowdown", "time", "priority"),
    *("hold", "after", "array", "at-once", "max-fails", "param", "params", "output", "error"),
    *("chdir", "env", "retries", "requeue", "interactive", "snapshot", "signal", "checkpoint"),
    *("checkpoint-signal", "checkpoint-cost", "progress-pattern", "progress-file"),
    *("model-summary", "model-factory", "batch-size", "sequence-length", "input-shape"),
    *(
        "optimizer",
        "precision",
        "no-trace",
        "notify",
        "comment",
        "cpus",
        "memory",
        "role",
        "device-ids",
    ),
    *("cpu-bind", "due", "begin", "silent-limit", "expect-idle", "retry-on", "weight"),
    "background",
]

GOOD = [
    ("name", "resnet 50", "resnet 50"),
    ("gpus", "0", 0),
    ("gpus", "1024", 1024),
    ("gpus", "1-4", Span(1, 4)),
    ("gpus", "4-4", Span(4, 4)),
    ("gpu-memory", "4G", 4096),
    ("gpu-memory", "4GiB", 4096),
    ("gpu-memory", "4096M", 4096),
    ("gpu-memory", "4096", 4096),
    ("gpu-memory", "auto", None),
    ("smact", "0", 0.0),
    ("smact", ".5@rtx a6000", 0.5),
    ("smact", "1.0", 1.0),
    ("duration", "90", 90.0),
    ("collocation", "mps", "mps"),
    ("mig-profile", "1g.5gb", "1g.5gb"),
    ("mig-profile", "1c.3g.20gb+me", "1c.3g.20gb+me"),
    ("gpu-type", "a6000|a100", ("a6000", "a100")),
    ("gpu-type", "RTX A6000", ("RTX A6000",)),
    ("gpu-type", "any", ()),
    ("prefer-gpus", "a100, 3,GPU-1a2b,3", ("a100", "3", "GPU-1a2b")),
    ("avoid-gpus", "none", ()),
    ("avoid-gpus", "0-2, 5", ("0", "1", "2", "5")),
    ("time", "4:00:00", 14_400.0),
    ("time", "1-00:00:00", 86_400.0),
    *[(name, "none", None) for name in ("time", "duration", "signal", "max-slowdown")],
    ("priority", "-5", -5),
    ("output", "logs/%x-%j.%a.%t.out", "logs/%x-%j.%a.%t.out"),
    ("error", "100%%", "100%%"),
    ("chdir", "/data/müller", "/data/müller"),
    ("snapshot", "../code", "../code"),
    ("env", "A=b=c d", ("A", "b=c d")),
    ("env", "EMPTY=", ("EMPTY", "")),
    ("retries", "1000", 1000),
    ("checkpoint", "none", "none"),
    ("checkpoint", "exit", "exit"),
    ("checkpoint-signal", "USR2", 12),
    ("checkpoint-signal", "SIGTERM", 15),
    ("checkpoint-cost", "2m", 120.0),
    ("model-summary", "resnet50_32.model", "resnet50_32.model"),
    ("progress-pattern", "auto", "auto"),
    ("progress-pattern", r"step (?P<step>\d+)", r"step (?P<step>\d+)"),
    ("progress-file", "out/steps.txt", "out/steps.txt"),
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
    ("cpu-bind", "numa", "numa"),
    ("after", "12", AfterOption("12", "ok")),
    ("after", "12_3:any", AfterOption("12_3", "any")),
    ("after", f"{ULID}:failed", AfterOption(ULID, "failed")),
    ("after", "none", None),
    ("after", "prep", AfterOption("prep", "ok")),
    ("after", "sweep-*:any", AfterOption("sweep-*", "any")),
    ("after", "@", AfterOption("@", "ok")),
    ("after", "@~1:failed", AfterOption("@~1", "failed")),
    ("array", "0-9", ArrayOption(0, 9, None)),
    ("array", "5-5%1", ArrayOption(5, 5, 1)),
    ("array", "13", ArrayOption(13, 13, None)),
    ("at-once", "4", 4),
    ("max-fails", "3", MaxFailsOption(3)),
    ("max-fails", "3@60s", MaxFailsOption(3, 60.0)),
    ("max-fails", "1@2m", MaxFailsOption(1, 120.0)),
    ("param", "lr=1e-3,1e-4", "lr=1e-3,1e-4"),
    ("params", "grid.csv", "grid.csv"),
    ("array", "5,1,3", ArrayOption(1, 5, None, (1, 3, 5))),
    ("array", "0-9:3%2", ArrayOption(0, 9, 2, (0, 3, 6, 9))),
    ("array", "2,0-1,2", ArrayOption(0, 2, None)),
    ("array", "0-8:2", ArrayOption(0, 8, None, (0, 2, 4, 6, 8))),
    ("array", "0-100:60,7", ArrayOption(0, 60, None, (0, 7, 60))),
    ("cpus", "2.5", 2.5),
    ("cpus", "0.5-16", Span(0.5, 16.0)),
    ("memory", "1T", 1024 * 1024),
    ("memory", "8G-64G", Span(8192, 65_536)),
    ("role", "ps:1", RoleOption("ps", 1)),
    ("role", "worker:1-8,cpus=2", RoleOption("worker", 1, 8, cpus=2.0)),
    ("role", "ps:2,memory=2G,gpus=1,cpus=4-8", RoleOption("ps", 2, None, 4.0, 8.0, 2048, 1)),
    ("signal", "USR1@60", SignalOption(10, 60.0)),
    ("signal", "SIGTERM@1", SignalOption(15, 1.0)),
    ("notify", "me@example.org:end,fail", "me@example.org:end,fail"),
    ("notify", "none", None),
    ("due", "1970-01-02T00:00:00+00:00", 86_400.0),
    ("due", "tomorrow 9:00", None),
    ("due", "none", None),
    ("begin", "1970-01-02T00:00:00Z", 86_400.0),
    ("background", "wait", "wait"),
    ("retry-on", "75-80,1,KILL,2", ((1, 2), (75, 80), (137, 137))),
    ("retry-on", "9,5-8,7", ((5, 9),)),
    ("retry-on", "SIGTERM", ((143, 143),)),
    ("retry-on", "any", None),
    ("silent-limit", "30m", 1800.0),
    ("silent-limit", "none", None),
    ("weight", "2", 2.0),
    ("weight", "0.001", 0.001),
    ("weight", "1000000", 1e6),
    ("max-slowdown", "1.5", 1.5),
    ("sm-share", "30", 30),
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
    *[("smact", text) for text in ("0.5@", "0.5@any", "0.5@a|b", "1.1@a100", "@a100", "0.5@a@b")],
    ("duration", "0"),
    ("collocation", "MPS"),
    ("mig-profile", "big"),
    ("gpu-type", ""),
    ("gpu-type", "a100||a6000"),
    ("gpu-type", "-"),
    ("prefer-gpus", "a/b"),
    ("prefer-gpus", "a\nb"),
    ("avoid-gpus", ",".join(["0"] * 33)),
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
    ("checkpoint-signal", "KILL"),
    ("checkpoint-signal", "STOP"),
    ("checkpoint-signal", "CONT"),
    ("checkpoint-signal", "SIG"),
    ("checkpoint-signal", "10"),
    ("checkpoint-cost", "soon"),
    ("progress-pattern", "(?P<step>"),
    ("progress-pattern", r"step (\d+)"),
    ("progress-pattern", ""),
    ("model-factory", "build"),
    ("batch-size", "0"),
    ("sequence-length", "0"),
    ("input-shape", "3x"),
    ("input-shape", "3x0"),
    ("input-shape", "x".join(["2"] * 9)),
    ("optimizer", "a b"),
    ("precision", "int3"),
    ("device-ids", "name"),
    ("cpu-bind", "near"),
    ("after", "12:maybe"),
    ("after", "@x"),
    ("after", "none:ok"),
    ("after", "a/b"),
    ("after", "9" * 129),
    ("array", "9-0"),
    ("at-once", "0"),
    ("max-fails", "0"),
    ("max-fails", "@60s"),
    ("max-fails", "3@"),
    ("max-fails", "3@0"),
    ("param", "lr"),
    ("param", "lr="),
    ("param", "learning-rate=1"),
    ("param", "1st=1"),
    ("params", ""),
    ("memory", "8-6\x85"),
    ("array", "0-9%0"),
    ("array", "0-100000"),
    ("array", "1,,2"),
    ("array", "0-9:0"),
    ("array", "1:2"),
    ("array", "0-9:2:2"),
    ("array", "0-9%"),
    ("array", "0-60000,0-60000"),
    ("array", "0-999999999,0-999999999:1"),
    ("cpus", "0"),
    ("signal", "USR1"),
    ("signal", "NOSUCH@60"),
    ("signal", "KILL@60"),
    ("signal", "@60"),
    ("signal", "USR1@0"),
    ("due", "tomorrow"),
    ("begin", "later"),
    ("background", "keep"),
    ("retry-on", "0"),
    ("silent-limit", "9"),
    ("silent-limit", "0"),
    ("silent-limit", "off"),
    ("retry-on", "256"),
    ("retry-on", "9-5"),
    ("retry-on", "1,"),
    ("retry-on", "NOSIGNAL"),
    ("retry-on", ",".join(map(str, range(1, 66)))),
    ("weight", "0"),
    ("weight", "-1"),
    ("weight", "nan"),
    ("weight", "inf"),
    ("weight", "1000001"),
    ("weight", "1e3"),
    ("due", "tomorrow 25:00"),
    ("notify", "me"),
    ("notify", "me@example.org:fial"),
    ("notify", ""),
    ("due", "NONE"),
    ("gpus", "4-1"),
    ("gpus", "0-4"),
    ("gpus", "1-257"),
    ("gpus", "1-"),
    ("gpus", "-4"),
    ("gpus", "1-2-3"),
    ("cpus", "8-4"),
    ("cpus", "0-4"),
    ("memory", "8G-4G"),
    ("memory", "8G-"),
    ("role", "ps"),
    ("role", "ps:"),
    ("role", "ps:0"),
    ("role", "ps:4-1"),
    ("role", "ps:1-257"),
    ("role", "1ps:1"),
    ("role", "p s:1"),
    ("role", "ps:1,"),
    ("role", "ps:1,cpus"),
    ("role", "ps:1,cpus=0"),
    ("role", "ps:1,cpus=2,cpus=3"),
    ("role", "ps:1,count=2"),
    ("role", "ps:1,memory=2G-4G"),
    ("role", "ps:1,disk=5"),
    ("role", "x" * 5000 + ":1"),
    ("max-slowdown", "0.5"),
]


def test_each_option_is_in_the_table_of_examples() -> None:
    assert {o.name for o in OPTIONS} == set(NAMES)
    assert BY_NAME["collocation"].metavar == "|".join(mode.value for mode in Collocation)


def test_good_values() -> None:
    found = [(name, text, BY_NAME[name].parse(text)) for name, text, _ in GOOD]
    assert found == GOOD


def test_every_option_with_a_value_has_a_good_example() -> None:
    assert {name for name, _, _ in GOOD} == {o.name for o in OPTIONS if o.metavar is not None}


def test_bad_values_name_the_option_and_the_place() -> None:
    for name, text in BAD:
        with pytest.raises(UsageError) as caught:
            parse_words([f"--{name}={text}"], "job.rad line 2")
        message = str(caught.value)
        assert message.startswith(f"job.rad line 2: --{name}: "), (name, text)
        assert message.isprintable() and len(message) < 250, (name, text)


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        ({"retry-on": "1"}, "add --retries=N"),
        ({"checkpoint-signal": "USR1"}, "add --checkpoint=signal or exit"),
        ({"checkpoint": "none", "checkpoint-cost": "5"}, "add --checkpoint=signal or exit"),
        ({"checkpoint": "signal", "checkpoint-signal": "TERM"}, "TERM ends a job"),
    ],
)
def test_options_about_saving_must_go_together(raw: dict[str, str], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        typed_whole(raw, "here")
    typed_whole({"checkpoint": "exit", "checkpoint-signal": "TERM"}, "here")


# ------------------------------------------------------------------ documents


def test_the_whole_help_holds_every_option() -> None:
    text = help_of("submit", whole=True)
    assert all(option.usage in text for option in SHOWN)
    assert max(map(len, text.splitlines())) <= 100
    assert "--interactive" not in text


@pytest.mark.parametrize(("text", "most"), [(help_of("submit"), 15), (help_of("run"), 15)])
def test_the_first_help_has_what_most_jobs_need(text: str, most: int) -> None:
    assert len(re.findall(r"^  --", text, re.M)) <= most
    assert len(re.findall(r"^    radrm ", text, re.M)) == 3 and len(text.splitlines()) <= 40
    assert re.search(r"radrm (submit|run) --help-all$", text)


def test_the_table_imports_nothing_heavy() -> None:
    heavy = "rich argparse json msgspec logging datetime signal difflib pathlib asyncio"
    found = imported_by("import radrm.jobfile.command_line")
    assert not {*heavy.split(), "radrm.core.records"} & found


@pytest.mark.parametrize("path", ["/dev/stdout", "/dev/stderr", "/dev/fd/1", "/proc/self/fd/2"])
def test_a_log_is_no_stream_of_its_own_process(path: str) -> None:
    with pytest.raises(ValueError, match="radrm logs"):
        log_path(path)
    assert log_path("/dev/null") == "/dev/null"

"""Options and commands of other tools are answered with those of radrm."""

from __future__ import annotations

import re

import pytest

from radrm import spellings
from radrm.cli.commands.edit import EDIT_PARAMETERS
from radrm.cli.listing import commands as listed
from radrm.cli.listing import of_group, parameters_of, unknown
from radrm.elastic.radrun.arguments import parse as parse_radrun
from radrm.errors import UsageError
from radrm.jobfile.arguments import parse as parse_parameters
from radrm.jobfile.command_line import parse_run, parse_submit
from radrm.jobfile.options import BY_NAME
from radrm.jobfile.radfile import read_job_file
from radrm.spellings import command_hint, option_hint

HERE = "here it is --"
SUBMIT = {
    "--mem=4G": "--memory=SIZE for the host's memory, --gpu-memory=SIZE",
    "--ngpus=2": "--gpus=N",
    "--gres=gpu:2": "--gpus=N",
    "--num-gpus=2": "--gpus=N",
    "--num_gpus=2": "--gpus=N",
    "-G": "--gpus=N",
    "--partition=x": "--gpu-type=TYPE",
    "-p": "--gpu-type=TYPE",
    "--walltime=2h": "--time=TIME",
    "--cwd=/": "--chdir=DIR",
    "--log=x": "--output=PATH",
    "--job-name=x": "--name=NAME",
    "--gpu-meory=2G": "--gpu-memory",
    "--gpu_memory=2G": "--gpu-memory",
    "--priorty=2": "--priority",
}


@pytest.mark.parametrize(("word", "ours"), SUBMIT.items())
def test_an_option_of_submit_has_one_answer_everywhere(word: str, ours: str) -> None:
    def of_file() -> None:
        read_job_file(f"#!/bin/sh\n#RAD {word}\ntrue\n".encode(), "job.rad", {})

    for parse in (
        lambda: parse_submit([word, "--", "true"]),
        lambda: parse_run([word, "--", "true"]),
        lambda: parse_parameters(EDIT_PARAMETERS, [word, "3"], "edit"),
        of_file,
    ):
        with pytest.raises(UsageError) as caught:
            parse()
        assert f"unknown option '{word}'" in str(caught.value) and ours in str(caught.value)


@pytest.mark.parametrize(
    ("word", "known", "hint"),
    [
        ("--port", ("listen",), "here it is --listen=[HOST:]PORT"),
        ("-p8080", ("listen",), "here it is --listen=[HOST:]PORT"),
        ("--mem", ("gpu-memory",), "here it is --gpu-memory=SIZE"),
        ("-n", ("lines",), "here it is --lines=N"),
        ("--users", ("user", "state"), "did you mean --user?"),
        ("--STATE", ("user", "state"), "did you mean --state?"),
        ("--port", ("user",), None),
        ("--port", ("priority", "error"), None),
        ("--nice", ("priority",), f"{HERE}priority=N, but a higher priority starts first; nice is"),
        ("--duration", ("from", "until", "for"), f"{HERE}for=SPAN"),
        ("--time", ("from", "until", "for"), f"{HERE}for=SPAN"),
        ("--env-file", tuple(BY_NAME), f"{HERE}env=NAME=VALUE, for each variable"),
        ("--restart", ("user", "state", "from-start"), f"{HERE}from-start, to lose what was saved"),
        ("--memory-gpu", tuple(BY_NAME), f"{HERE}gpu-memory=SIZE"),
        ("--tail", ("follow", "lines"), f"{HERE}lines=N"),
        ("--devices", tuple(BY_NAME), f"{HERE}gpus=N (a number: radrm chooses which"),
        ("--bind-address", ("listen", "public"), f"{HERE}listen=[HOST:]PORT"),
        ("--days", ("by", "since", "until"), f"{HERE}since=7d"),
        ("--last", ("since", "limit"), f"{HERE}since=7d for a time, --limit=N for a number"),
        ("--last", ("since", "until"), f"{HERE}since"),
        ("--hostname", ("name", "public"), None),
        ("--array-tasks", ("array", "name"), "did you mean --array?"),
        ("--xyzzy", tuple(BY_NAME), None),
        ("--", ("user",), None),
    ],
)
def test_what_an_option_is_here(word: str, known: tuple[str, ...], hint: str | None) -> None:
    found = option_hint(word, known)
    assert found is None if hint is None else (found or "").startswith(hint)


@pytest.mark.parametrize(
    ("word", "ours"),
    [
        *(("squeue", "status"), ("qstat", "status"), ("sbatch", "submit"), ("qsub", "submit")),
        *(("scancel", "cancel"), ("sinfo", "gpus"), ("srun", "run"), ("htop", "top")),
        *(("sacct", "history"), ("Squeue", "status"), ("web", "serve"), ("log", "logs")),
    ],
)
def test_what_a_command_is_here(word: str, ours: str) -> None:
    assert command_hint(word, listed()) == f"here it is {ours}"
    assert unknown(word).endswith(f"here it is {ours}")


def test_a_mistyped_command() -> None:
    assert command_hint("sumbit", listed()) == "did you mean submit?"
    assert command_hint("xyzzy", listed()) is None


def test_options_of_radrun() -> None:
    with pytest.raises(UsageError, match=r"did you mean --nproc-per-node\?"):
        parse_radrun(["--nproc_per_nod=2", "a.py"])


def test_the_tables_name_what_there_is() -> None:
    names = [each for name in listed() for each in of_group(name) or (name,)]
    declared = [parameters_of(name) for name in names if name not in ("submit", "run")]
    flags = {flag for each in declared for one in each for flag in one.flags}
    ours = {*flags, *(f"--{name}" for name in (*BY_NAME, "wait"))}
    for texts in spellings._OPTIONS.values():
        for text in texts:
            assert set(re.findall(r"--[a-z-]+", text)) <= ours, text
    assert set(spellings._COMMANDS.values()) <= {*listed(), "--version"}
    assert not set(spellings._COMMANDS) & set(listed())

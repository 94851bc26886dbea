"""The command lines of `radrm submit` and `radrm edit`."""

from __future__ import annotations

import pytest

from radrm.errors import UsageError
from radrm.jobfile.command_line import parse_submit

# ------------------------------------------------------------------ submit


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


def test_a_snapshot_is_of_the_submit_directory_unless_one_is_named() -> None:
    assert parse_submit(["--snapshot", "a.rad"]).raw_options == {"snapshot": "."}
    assert parse_submit(["--snapshot=code", "a.rad"]).raw_options == {"snapshot": "code"}
    with pytest.raises(UsageError, match="given twice"):
        parse_submit(["--snapshot", "--snapshot=code", "a.rad"])


def test_a_command_is_left_as_it_is() -> None:
    argv = ["python", "train.py", "--gpus=9", "--", "a b", "", "--help", "$HOME;'\""]
    request = parse_submit(["--parsable", "--name=x", "--", *argv])
    assert request.command == tuple(argv)
    assert request.files == () and request.parsable and not request.help


def test_what_stands_after_a_job_file_are_its_arguments() -> None:
    request = parse_submit(["--gpus=2", "a.rad", "--", "--gpus=9", ""])
    assert (request.files, request.arguments) == (("a.rad",), ("--gpus=9", ""))
    assert request.command == () and request.raw_options == {"gpus": "2"}


@pytest.mark.parametrize("argv", [["--help"], ["-h"], ["x", "--nonsense", "--help"]])
def test_help_beats_everything(argv: list[str]) -> None:
    assert parse_submit(argv).help


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], "nothing to submit"),
        (["--wait"], "nothing to submit"),
        (["--"], "no command after --"),
        (["a.rad", "b.rad", "--", "python"], "is for one job file, and here are 2"),
        (["a.rad", "--lr=3"], "options of 'a.rad' itself stand after --"),
        (["\u2013\u2013gpus=2", "a.rad"], "write '--gpus=2'"),
        (["a.rad", "--wiat"], "did you mean --wait?"),
        (["a.rad", "--wait=yes"], "--wait takes no value"),
        (["a.rad", "-n", "1"], "unknown option '-n'"),
        (["a.rad", ""], "'' is not an option"),
        (["--dependency=afterok:1", "a.rad"], "here it is --after=JOB"),
        (["-c", "4", "a.rad"], "here it is --cpus=N"),
        (["--cpus-per-task=4", "a.rad"], "here it is --cpus=N"),
        (["--mem=4G", "a.rad"], "here it is --memory=SIZE for the host's memory"),
        (["--mem-per-cpu=4G", "a.rad"], "here it is --memory=SIZE, of the whole job"),
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

"""The command lines of `radrm submit` and `radrm edit`."""

from __future__ import annotations

import pytest

from radrm.errors import UsageError
from radrm.jobfile.command_line import parse_edit, parse_submit

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


# ------------------------------------------------------------------ edit


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
        (["12", "--elastic=1-2"], "unknown option '--elastic=1-2'; here it is --gpus=MIN-MAX"),
        (["12", "--gpus=4-2"], "--gpus: '4-2' has the larger value first; write 2-4"),
        (["12", "--snapshot"], "--snapshot is for jobs that are submitted; leave it out"),
        (["12", "--weight=0"], "--weight: '0' is not a weight"),
        (["12", "--due=fri"], "--due: 'fri' has no time of day; write 2030-01-31T18:00"),
    ],
)
def test_bad_edits(argv: list[str], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_edit(argv)
    assert str(caught.value).startswith("command line: ")
    assert message in str(caught.value)

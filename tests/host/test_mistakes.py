"""What a submission cannot mean is refused; what may come later is noted."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from pwd import getpwuid

import pytest

from radrm.errors import CannotRun, NoProgram, UsageError
from radrm.host.mistakes import look_over, look_over_edit
from radrm.jobfile.options import RawOptions
from radrm.jobfile.parsing import typed
from radrm.jobfile.radfile import read_job_file, wrap_command
from radrm.jobfile.sweeps import with_table


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "sub").mkdir()
    (tmp_path / "plain").write_text("no program\n")
    program = tmp_path / "sub" / "program"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    for name, text in (("bare.py", "x\n"), ("bare", "x\n"), ("windows", "#!/bin/sh\r\nx\r\n")):
        (tmp_path / name).write_bytes(text.encode())
        (tmp_path / name).chmod(0o755)
    (tmp_path / "train.py").write_text("import os\nlr = os.environ['RADRM_PARAM_lr']\n")
    return tmp_path


def notes_of(folder: Path, *command: str, **options: object) -> tuple[str, ...]:
    raw: RawOptions = {name.replace("_", "-"): value for name, value in options.items()}
    job_file = with_table(wrap_command(command, raw), None)
    return look_over(job_file, str(folder), {"PATH": os.environ["PATH"]}, "here").notes


def notes_of_script(folder: Path, script: str) -> tuple[str, ...]:
    job_file = read_job_file(script.encode(), "job.rad", {})
    return look_over(job_file, str(folder), {"PATH": os.environ["PATH"]}, "job.rad").notes


@pytest.mark.parametrize(
    ("command", "options"),
    [
        (["true"], {}),
        (["/bin/sh", "-c", "no-such"], {}),
        (["sub/program"], {}),
        (["./program"], {"chdir": "sub"}),
        (["program"], {"env": ["PATH=sub"]}),
        (["radrm-simjob"], {"env": ["PATH=/bin"]}),
        (["sub/program"], {"snapshot": "."}),
        (["./program"], {"snapshot": "sub"}),
        (["./program"], {"snapshot": ".", "chdir": "sub"}),
        (["./{x}"], {"param": ["x=1,2"]}),
        (["true"], {"output": "sub/%j.out", "error": "/dev/null"}),
        (["true"], {"output": "{d}/%j.out", "param": ["d=sub,sub"]}),
        (["true"], {"output": "sub/%j{x}%%.out", "param": ["x=0:9999"]}),
    ],
)
def test_what_can_work_has_no_note(
    folder: Path, command: list[str], options: dict[str, object]
) -> None:
    assert notes_of(folder, *command, **options) == ()


MISSING = [
    (["no-such"], {}, NoProgram, "cannot run no-such: there is no such program"),
    (["./no-such"], {}, NoProgram, "cannot run ./no-such: there is no such program"),
    (["true"], {"env": ["PATH=/"]}, NoProgram, "or the PATH"),
    (["program"], {}, NoProgram, "cannot run program"),
    (["./plain"], {}, CannotRun, "it is not executable; chmod +x"),
    (["./train.py"], {}, CannotRun, "it is not executable; write python ./train.py"),
    (["train.py"], {}, NoProgram, "for the file in this folder write python ./train.py"),
    (["plain"], {}, NoProgram, "for the file in this folder write ./plain"),
    (["./sub"], {}, CannotRun, "it is a folder"),
    (["./bare.py", "1"], {}, CannotRun, "write: radrm submit -- python ./bare.py 1"),
    (["./bare", "1"], {}, CannotRun, "write: radrm submit -- bash ./bare 1"),
    (["./windows", "1"], {}, CannotRun, "radrm submit ./windows -- 1"),
    (["true"], {"chdir": "nowhere"}, UsageError, "nowhere does not exist; make it"),
    (["true"], {"chdir": "~/data"}, UsageError, "write the path itself"),
    (["true"], {"chdir": "plain"}, UsageError, "plain is not a folder"),
    (["{x}"], {}, NoProgram, "{x} gets its values from --param=x="),
    (["./no-such"], {"snapshot": "sub"}, NoProgram, "cannot run ./no-such: there is no such"),
    (["sub/program"], {"snapshot": "sub"}, NoProgram, "cannot run sub/program: there is no such"),
    (["source", "x"], {}, NoProgram, "it is a word of the shell; write bash -c '...'"),
    ([".", "x"], {}, NoProgram, "it is a word of the shell"),
    (["python3 train.py"], {}, NoProgram, "it is one quoted argument; leave the quotes out"),
    (["cd /tmp && ls"], {}, NoProgram, "it is a line for a shell; write bash -c '...'"),
    (["FOO=1", "python3"], {}, NoProgram, "it sets a variable; use --env=FOO="),
    (["CUDA_VISIBLE_DEVICES=1", "python3"], {}, NoProgram, "radrm sets that variable itself"),
    (["true"], {"output": "sub"}, UsageError, "is a folder; name a file in it, as --output=sub/%j"),
    (["true"], {"error": "new/"}, UsageError, "--error=new/ is a folder"),
]


@pytest.mark.parametrize(("command", "options", "kind", "words"), MISSING)
def test_what_can_never_work_is_refused_unless_the_job_starts_later(
    folder: Path,
    command: list[str],
    options: dict[str, object],
    kind: type[UsageError],
    words: str,
) -> None:
    with pytest.raises(UsageError) as caught:
        notes_of(folder, *command, **options)
    assert type(caught.value) is kind and words in str(caught.value)
    for later in ({"after": ["1"]}, {"hold": True}, {"begin": "2100-01-01T00:00:00+00:00"}):
        (note,) = notes_of(folder, *command, **options, **later)
        assert words in note and "--after=JOB" not in note
    for at_once in ({"after": ["1", "none"]}, {"begin": "none"}):
        with pytest.raises(UsageError):
            notes_of(folder, *command, **options, **at_once)


@pytest.mark.parametrize(
    ("command", "options"), [(["./no-such"], {}), (["/no/such"], {}), (["true"], {"chdir": "new"})]
)
def test_a_refusal_of_what_a_job_may_make_names_the_way_out(
    folder: Path, command: list[str], options: dict[str, object]
) -> None:
    with pytest.raises(UsageError, match="or add --after=JOB if a job makes it"):
        notes_of(folder, *command, **options)


@pytest.mark.parametrize(
    ("command", "absent"),
    [
        (["python3.11", "-u", "trian.py", "x.py"], "trian.py"),
        (["torchrun", "--nproc-per-node", "2", "sub/no.py"], "sub/no.py"),
        (["bash", "no.sh"], "no.sh"),
        (["python", "train.py", "no.py"], None),
        (["python", "-c", "print()", "no.py"], None),
        (["python", "-m", "no.py"], None),
        (["bash", "-lc", "python no.py"], None),
        (["cat", "no.py"], None),
    ],
)
def test_a_script_that_is_not_there_is_named(
    folder: Path, command: list[str], absent: str | None
) -> None:
    (folder / "bin").mkdir()
    (folder / "bin" / command[0]).symlink_to("/bin/true")
    notes = notes_of(folder, *command, env=["PATH=bin"])
    assert [note.split()[0] for note in notes] == ([] if absent is None else [absent])


def test_options_of_a_script_that_a_command_runs_are_named(folder: Path) -> None:
    (folder / "sub" / "program").write_text("#!/bin/sh\n#RAD --gpus=2\n")
    for command in (["sub/program", "0.1"], ["bash", "sub/program", "0.1"]):
        (note,) = notes_of(folder, *command)
        assert note.endswith("radrm submit sub/program -- 0.1")
    (note,) = notes_of(folder, "bash", "windows", "1")
    assert note.endswith("radrm submit windows -- 1")
    assert notes_of(folder, "cat", "sub/program") == ()


def test_each_kind_of_missing_program_has_the_code_of_shells() -> None:
    assert (NoProgram.exit_code, CannotRun.exit_code) == (127, 126)


@pytest.mark.parametrize(
    ("first", "words"),
    [
        ("#!/no/such/sh", "the interpreter /no/such/sh of the script"),
        ("#!/usr/bin/env no-such", "the interpreter no-such of the script"),
        ("#!/bin/sh\r", ""),
        ("#!/usr/bin/env -S no-such -x", "the interpreter no-such of the script"),
        ("#!/usr/bin/env -S A=1 B=2 no-such", "the interpreter no-such of the script"),
        ("#!/usr/bin/env sh -e", "write #!/usr/bin/env -S sh -e"),
        ("#!/usr/bin/env -S A=1 sh -e", ""),
        ("#!/usr/bin/env -S -i no-such", ""),
        ("#!/usr/bin/env sh", ""),
    ],
)
def test_the_interpreter_of_a_script(folder: Path, first: str, words: str) -> None:
    script = f"{first}\ntrue\n".replace("\r\n", "\r\n" if not words else "\n")
    if not words:
        assert "interpreter" not in " ".join(notes_of_script(folder, script))
        return
    with pytest.raises(NoProgram, match=words):
        notes_of_script(folder, script)


def test_a_folder_of_logs_may_be_made_later(folder: Path) -> None:
    (note,) = notes_of(folder, "true", output="logs/%j.out", error="logs/%j.err", chdir="sub")
    assert f"the folder of --output, {folder}/sub/logs, does not exist" in note
    assert notes_of(folder, "true", output="%t/{x}/%j.out") == (), "only the job knows its value"
    (note,) = notes_of(folder, "true", output="plain/x")
    assert f"the folder of --output, {folder}/plain, is not a folder" in note


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("runs/%j/out.log", "runs/%j, is named by the job's id"),
        ("sub/%A/%a.log", "sub/%A, is named by the job's id"),
        ("%x/%j.out", "/mine, does not exist"),
        ("sub/%x-%u/out", f"/sub/mine-{getpwuid(os.getuid()).pw_name}, does not exist"),
        ("sub/%%j/out", "/sub/%j, does not exist"),
        ("logs/%a.out", "/logs, does not exist"),
        ("$HOME/%j.out", "write the path itself"),
        ("sub/%a/out", None),  # they may all be there
        ("sub/%x.out", None),
    ],
)
def test_a_folder_of_logs_that_is_missing_is_told(
    folder: Path, path: str, words: str | None
) -> None:
    notes = notes_of_script(folder, f"#RAD --name=mine --error={path}\ntrue\n")
    assert [words in note for note in notes if words is not None] == [True] * (words is not None)


def test_a_log_that_is_a_link_is_named(folder: Path) -> None:
    (folder / "latest.out").symlink_to(folder / "sub" / "1.out")
    (note,) = notes_of(folder, "true", output="latest.out")
    assert f"--output: {folder}/latest.out is a symbolic link" in note
    assert notes_of(folder, "true", output="latest.out.%j") == ()


@pytest.mark.parametrize(
    "text",
    [
        *(
            "<!DOCTYPE html>\n<html>\n",
            "---\nlr: 1\n",
            "# A title\n\nRun it.\n",
            "numpy\ntorch==2\n",
        ),
        *("FROM python:3\n", "train:\n\tpython x.py\n", "#include <a>\nint main() {}\n"),
        *("%PDF-1.4\n", "version https://x\noid sha256:1\n", "#RAD --gpus=1\nsubmit me\n"),
    ],
)
def test_a_text_that_no_shell_can_run_is_refused(folder: Path, text: str) -> None:
    with pytest.raises(NoProgram, match="does not begin with #!"):
        notes_of_script(folder, text)
    assert notes_of_script(folder, f"#!/bin/sh\n{text}") == ()
    (note,) = notes_of_script(folder, f"#RAD --hold\n{text}")
    assert "does not begin with #!" in note


@pytest.mark.parametrize(
    "text",
    [
        *("A=1 B=2\nno-such\n", "a=(1 2)\n", "[[ -f x ]] && no-such\n", "./no-such\n"),
        *("$PYTHON x\n", "main() {\n no-such\n}\nmain\n", "function f {\n x\n}\n"),
        *("for i in 1 2; do no-such; done\n", "if true; then x; fi\n", "((i=0))\n", "(cd x)\n"),
        *("exec python x\n", "time sh x\n", "A=1 sh x\n", "{ sh x; }\n", "module load x\n"),
    ],
)
def test_a_script_without_a_first_line_may_begin_so(folder: Path, text: str) -> None:
    assert not any("#!" in note for note in notes_of_script(folder, text))


def test_modules_beside_a_python_script_are_not_found_by_its_copy(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    first = f"#!{sys.executable}\n"
    assert notes_of_script(folder, f"{first}import os, sys\nimport torch\n") == ()
    (folder / "sub" / "part.py").touch()
    for line, module in (
        ("from train import main", "train"),
        ("import os, train as t, sys", "train"),
        ("def main():\n    from train import main", "train"),
        ("from sub.part import main", "sub.part"),
        ("from sub import (other, part)", "sub.part"),
        ("import sub.part", "sub.part"),
    ):
        (note,) = notes_of_script(folder, f"{first}import os\n{line}\n")
        assert f"module {module} " in note and "radrm submit -- python job.rad" in note
    assert notes_of_script(folder, f"{first}import sub, os.train\nfrom . import train\n") == ()


def test_the_folders_of_logs_of_a_sweep_are_those_of_its_values(folder: Path) -> None:
    (folder / "logs" / "1").mkdir(parents=True)
    sweep = {"output": "logs/{lr}/x{seed}", "param": ["lr=1,2,3", "seed=0:999"]}
    (note,) = notes_of(folder, "true", **sweep)
    assert f"of --output, {folder}/logs/2 (and 1 more), does not exist" in note
    (folder / "logs" / "2").mkdir()
    (folder / "logs" / "3").mkdir()
    assert notes_of(folder, "true", **sweep) == ()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"output": "sub/{lr}/x", "error": "%x/y"}, ""),
        ({"chdir": "sub", "output": "x"}, ""),
        ({"output": "new/{lr}/x"}, "the folder of --output, {}/new, does not exist"),
        ({"error": "sub"}, "--error=sub is a folder"),
    ],
)
def test_what_an_edit_leads_to(folder: Path, changes: RawOptions, words: str) -> None:
    notes = look_over_edit(typed(changes), str(folder))
    assert len(notes) == bool(words) and all(n.startswith(words.format(folder)) for n in notes)
    (note,) = look_over_edit(typed({"chdir": "new", "output": "x/y"}), f"{folder}/new")
    assert note == f"the folder {folder}/new does not exist; make it, or name another with --chdir"


# ------------------------------------------------------------------ sweeps


@pytest.mark.parametrize(
    ("command", "options"),
    [
        (["echo", "{lr}"], {}),
        (["echo", "${lr}"], {}),
        (["sh", "-c", "echo $RADRM_PARAM_lr"], {}),
        (["sh", "-c", "env | grep RADRM_PARAM_"], {}),
        (["python3", "train.py"], {}),
        (["true"], {"name": "a-{lr}"}),
        (["true"], {"output": "{lr}.out"}),
        (["python3", "-c", "print(f'{x} {lr}')"], {}),
        (["awk", "{print} {lr}"], {}),
    ],
)
def test_a_value_that_is_used(folder: Path, command: list[str], options: dict[str, str]) -> None:
    assert notes_of(folder, *command, param=["lr=1,2"], **options) == ()


def test_a_value_that_nothing_uses(folder: Path) -> None:
    (note,) = notes_of(folder, "echo", "{seed}", param=["lr=1,2", "seed=0:3"])
    assert note.startswith("parameter lr: the command has no {lr}")
    (note,) = notes_of_script(folder, "#!/bin/sh\n#RAD --param=lr=1,2\ntrue\n")
    assert "the script has no $RADRM_PARAM_lr" in note
    (note,) = notes_of_script(folder, "#!/bin/sh\n#RAD --param=lr=1,2\necho {lr}\n")
    assert "{lr} is not replaced; write $RADRM_PARAM_lr" in note
    assert notes_of_script(folder, "#!/bin/sh\n#RAD --param=lr=1,2\npython train.py\n") == ()


def test_a_placeholder_that_no_value_fills(folder: Path) -> None:
    with pytest.raises(UsageError, match=r"{lrr} stays as it is.*write {lr}"):
        notes_of(folder, "echo", "{lrr}", param=["lr=1,2"])
    noted = notes_of(folder, "echo", "{lr}", "a {LR} b", "--x={out}", param=["lr=1,2"])
    assert "did you mean {lr}?" in noted[0] and "{out} stays as it is" in noted[1]


@pytest.mark.parametrize(
    ("value", "better"),
    [
        ("0.1:0.5:0.1", "x=0.1,0.2,0.3,0.4,0.5 "),
        ("1e-3:1e-1", "x=VALUE,VALUE "),
        ("0:1:0.01", "x=0,0.01,0.02,0.03,0.04,0.05,0.06,0.07,0.08,0.09,... "),
        ("9:1:-2", "x=9,7,5,3,1 "),
        ("0.5:0.1", "x=VALUE,VALUE "),
        ("0.5:0.1:0.0", "x=VALUE,VALUE "),
    ],
)
def test_a_range_that_is_none(folder: Path, value: str, better: str) -> None:
    with pytest.raises(UsageError, match="is not a range of whole numbers") as caught:
        notes_of(folder, "echo", "{x}", param=[f"x=7,{value}"])
    assert better in str(caught.value)


def test_times_and_ratios_are_no_ranges(folder: Path) -> None:
    (note,) = notes_of(folder, "echo", "{at}", param=["at=1,12:30,13:45"])
    assert note.startswith("parameter at: 12:30 is the 19 numbers from 12 to 30")
    assert "go into a --params file" in note
    (note,) = notes_of(folder, "echo", "{at}", param=["at=08:10:30"])
    assert note.startswith("parameter at: 08:10:30 is the number 8")
    assert notes_of(folder, "echo", "{x}", param=["x=1:30,100:130"]) == ()
    for value in ("16:9", "00:10:00", "23:10", "0.5:0.1"):
        with pytest.raises(UsageError, match=r"ratios .*go into a --params file") as caught:
            notes_of(folder, "echo", "{x}", param=[f"x={value}"])
        assert "9:16" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "closed"),
    [
        ({}, ["."]),
        ({"output": "sub/%j.out"}, ["sub"]),
        ({"output": "%j.out", "error": "sub/e.log"}, ["sub"]),
        ({"output": "plain"}, ["sub", "."]),
        ({"output": "/dev/null"}, ["."]),
    ],
)
def test_a_folder_in_which_the_user_cannot_write_the_log_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, object], closed: list[str]
) -> None:
    assert notes_of(folder, "true", **options) == ()
    names = {os.path.realpath(folder / each) for each in closed}
    allowed = os.access
    monkeypatch.setattr(
        "os.access",
        lambda path, mode: os.path.realpath(path) not in names and allowed(path, mode),
    )
    found = notes_of(folder, "true", **options)
    elsewhere = options.get("output") in ("plain", "/dev/null")
    assert len(found) == (0 if elsewhere else 1)
    assert all("is not yours to write to" in note for note in found)


def test_a_program_of_notices_that_cannot_run_is_named(folder: Path) -> None:
    targets = [f"{folder}/sub/program:fail", f"{folder}/plain", f"{folder}/none:end", "mail"]
    found = notes_of(folder, "true", notify=targets)
    assert [note.split()[1] for note in found] == [f"{folder}/plain", f"{folder}/none"]

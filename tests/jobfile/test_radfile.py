"""Job files: the three forms, every way a file can be wrong, and the published ones."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from radrm.core.records import JobSpec
from radrm.core.units import WHOLE_DEVICE_MIB
from radrm.core.words import Collocation
from radrm.errors import BadFile, UsageError
from radrm.jobfile.radfile import MAX_BYTES, JobFile, read_job_file, wrap_command
from radrm.jobfile.relations import AfterOption, ArrayOption
from radrm.jobfile.values import SignalOption
from tests.imports import imported_by
from tests.paths import SHARED_DATA

PUBLISHED = SHARED_DATA / "jobs"

SCRIPT = """#!/usr/bin/env bash
# trains a network
#RAD --name=resnet50 --gpus=2
#RAD --model-summary='my model.model' --batch-size=32

#RAD --time=4:00:00 --env A="b c" --env=B=2
cd src
# no option here
python train.py --batch-size 32
"""

POSITIONAL = """# a comment
conda activate tf
python train.py --batch_size 64
net.model
/data/image net
64
exclusive
2
5262
7903.9316
40000
16000
"""


def read(text: str, name: str = "job.rad", **overrides: str) -> JobFile:
    raw = {key.replace("_", "-"): value for key, value in overrides.items()}
    return read_job_file(text.encode(), name, raw)


def refused(data: bytes | str, name: str = "job.rad") -> str:
    with pytest.raises((BadFile, UsageError)) as caught:
        read_job_file(data.encode() if isinstance(data, str) else data, name, {})
    message = str(caught.value)
    assert "\n" not in message and len(message) < 300
    return message


# --------------------------------------------------------------------------- scripts


def test_a_script_with_directives() -> None:
    job = read(SCRIPT, "/home/me/first.rad")
    assert (job.form, job.name, job.interpreter) == ("directive", "resnet50", "/usr/bin/env bash")
    assert job.script == SCRIPT
    assert job.options.gpus == 2
    assert job.options.model_summary == "my model.model"
    assert job.options.env == (("A", "b c"), ("B", "2"))
    assert job.notes == ()
    assert job.interpreter_words() == ("/usr/bin/env", "bash")


def test_the_command_line_beats_the_file() -> None:
    job = read_job_file(SCRIPT.encode(), "x.rad", {"gpus": "4", "name": "mine", "env": ["A=c"]})
    assert (job.options.gpus, job.name) == (4, "mine")
    assert job.options.env == (("A", "c"), ("B", "2"))
    assert job.raw["batch-size"] == "32"


def test_a_warning_and_its_time_limit_may_stand_apart() -> None:
    text = "#RAD --signal=USR1@60 --array=0-3%2 --after=7\ntrue"
    job = read(text, time="90")
    assert (job.options.signal, job.options.time_s) == (SignalOption(10, 60.0), 90.0)
    assert (job.options.array, job.options.after) == (
        ArrayOption(0, 3, 2),
        (AfterOption("7", "ok"),),
    )
    with pytest.raises(UsageError, match="the time limit, which is 30 s"):
        read(text, time="30")
    with pytest.raises(UsageError, match="command line: --signal"):
        wrap_command(["true"], {"signal": "USR1@60"})


@pytest.mark.parametrize(
    ("filename", "name"),
    [
        ("train.rad", "train"),
        ("/a/b/train.v2.rad", "train.v2"),
        ("train", "train"),
        ("job.sh", "job.sh"),
        ("a/train.slurm", "train.slurm"),
        (".rad", "job"),
        ("a\nb\udcff.rad", "a_b_"),
        ("..", "job"),
        ("", "job"),
        ("x" * 300 + ".rad", "x" * 128),
    ],
)
def test_the_name_is_that_of_the_file_without_rad(filename: str, name: str) -> None:
    assert read("true\n", filename).name == name


def test_without_a_shebang_bash_runs_it() -> None:
    job = read("#RAD --gpus=0\necho hello")
    assert job.interpreter == "/bin/bash"
    assert job.interpreter_words() == ("/bin/bash",)
    assert job.options.gpus == 0
    assert read("#!/bin/bash -e -u\ntrue").interpreter_words() == ("/bin/bash", "-e -u")


@pytest.mark.parametrize(
    ("text", "gpus"),
    [
        ("  #RAD --gpus=2\ntrue", 2),
        ("#RAD\t--gpus 2\ntrue", 2),
        ("#RAD\ntrue", None),
        ("#RAD --gpus=2 # it's --gpus=3\ntrue", 2),
        ("#RAD --comment='a # b' --gpus=2 #--gpus=3\ntrue", 2),
        ("#RAD --name=a#b --comment '#' --gpus=2\ntrue", 2),
        ("##RAD --gpus=2\ntrue", None),
        ("#RADICAL --gpus=2\ntrue", None),
        ("true # see #RAD\necho '#RAD --gpus=2'", None),
    ],
)
def test_what_is_a_directive(text: str, gpus: int | None) -> None:
    job = read(text)
    assert job.options.gpus == gpus
    assert job.notes == ()


@pytest.mark.parametrize(
    "line", ["# RAD --gpus=2", "#rad --gpus=2", "#RADRM: --gpus=2", "#RAD--gpus=2"]
)
def test_a_comment_that_looks_like_a_directive_is_pointed_out(line: str) -> None:
    job = read(f"#!/bin/sh\n{line}\ntrue\n")
    assert job.options.gpus is None
    assert job.notes == ("line 2 is only a comment; lines with options begin with #RAD",)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "job.rad: empty"),
        (b" \n\t\r\n", "job.rad: empty"),
        (b"#!/bin/bash\n# nothing\n#RAD --gpus=1\n", "job.rad: holds no command"),
        (b"echo \0 x\n", "job.rad: NUL byte at offset 5"),
        (b"echo \xff\n", "job.rad: not UTF-8 at byte offset 5"),
        (b"#" * (MAX_BYTES + 1), "job.rad: larger than 1 MiB"),
        ("true\n#RAD --gpus=2\n", "job.rad line 2: #RAD after the first command (line 1)"),
        ("#!/bin/sh\ntrue\n\n  #RAD\n", "job.rad line 4: #RAD after the first command (line 2)"),
        (
            "#RAD --gpus=1\n#RAD --gpsu=2\ntrue",
            "job.rad line 2: unknown option '--gpsu=2'; did you mean --gpus",
        ),
        ("#RAD --gpus=1\n#RAD --gpus=2\ntrue", "job.rad line 2: --gpus is given twice"),
        ("#RAD --gpus=x\ntrue", "job.rad line 1: --gpus: 'x' is not a whole number"),
        ("#RAD --name='a b\ntrue", "job.rad line 1: no closing quotation"),
        (
            "#RAD --gpus=1 \\\n#RAD --time=5m\ntrue",
            "job.rad line 1: no escaped character; leave the",
        ),
        ("#RAD --elastic=1-3\ntrue", "job.rad line 1: unknown option '--elastic=1-3'; here it is"),
        ("#RAD --due=tomorrow\ntrue", "job.rad line 1: --due: 'tomorrow' has no time of day"),
        ("#RAD --signal=USR1@60\ntrue", "job.rad: --signal comes 60 s before the time limit"),
        ("#RAD --array=9-0\ntrue", "job.rad line 1: --array: '9-0' is not an array"),
        ("#RAD '" + "x" * 9000 + "\ntrue", "job.rad line 1: longer than 8192 characters"),
        ("#!python\ntrue", "job.rad line 1: interpreter 'python' is not an absolute path"),
        ("#!\ntrue", "job.rad line 1: interpreter '' is not an absolute path"),
        ("#!/usr/bin/ x\ntrue", "job.rad line 1: interpreter '/usr/bin/ x'"),
    ],
)
def test_bad_files(data: bytes | str, message: str) -> None:
    assert refused(data).startswith(message)


def test_a_hostile_file_name_cannot_break_the_message() -> None:
    assert refused(b"", "a\n\x1b[31m.rad").startswith("a??[31m.rad: empty")


def test_windows_files_are_read() -> None:
    job = read_job_file(b"\xef\xbb\xbf" + SCRIPT.replace("\n", "\r\n").encode(), "x.rad", {})
    assert job.script == SCRIPT
    assert job.interpreter == "/usr/bin/env bash"
    assert len(job.notes) == 2 and "CRLF" in job.notes[1]


def test_a_lone_carriage_return_belongs_to_the_script() -> None:
    assert read("printf 'a\rb'\n").script == "printf 'a\rb'\n"


def test_the_spec() -> None:
    text = (
        "#RAD --gpus=2 --gpu-memory=12G --smact=0.5 --time=90s --priority=3 --retries=2 --requeue\n"
        "#RAD --collocation=mig --mig-profile=1g.5gb --retry-on=3-4 --expect-idle --weight=2\n"
        "#RAD --gpu-type=a100 --signal=USR1@60 --silent-limit=1h --avoid-gpus=2\ntrue"
    )
    spec = read(text).spec("ana", 1001)
    assert (spec.name, spec.user, spec.uid, spec.gpus) == ("job", "ana", 1001, 2)
    needs = spec.roles[0].needs
    assert (needs.gpus, needs.gpu_memory_mib, needs.smact) == (2, 12_288, 0.5)
    assert needs.mig_profile == "1g.5gb"
    assert spec.collocation is Collocation.MIG
    assert (spec.time_limit_s, spec.priority, spec.retries, spec.requeue) == (90.0, 3, 2, True)
    assert (spec.retry_on, spec.expect_idle, spec.weight) == (((3, 4),), True, 2.0)
    assert (spec.gpu_types, spec.avoid_gpus, spec.silent_limit_s) == (("a100",), ("2",), 3600.0)
    # Each value has the type of the record's field, as the store reads it.
    assert msgspec.convert(msgspec.to_builtins(spec), JobSpec) == spec


def test_the_plainest_spec() -> None:
    spec = read("true").spec("ana", 1001)
    assert (spec.gpus, spec.roles[0].needs.gpu_memory_mib) == (1, None)
    assert spec.collocation is Collocation.AUTO
    assert (spec.time_limit_s, spec.priority, spec.retries, spec.requeue) == (None, 0, 0, False)
    assert read("#RAD --gpus=0\ntrue").spec("ana", 1001).gpus == 0


# --------------------------------------------------------------------------- commands


def test_a_command_is_kept_word_for_word() -> None:
    argv = ["/opt/bin/python", "-c", "print('a b')", "", "--gpus=9", "$HOME", "\udcff"]
    job = wrap_command(argv, {"gpus": "2"})
    assert (job.form, job.name, job.script, job.interpreter) == ("command", "python", None, None)
    assert (job.argv, job.interpreter_words()) == (tuple(argv), ())
    assert job.spec("ana", 1001).gpus == 2
    assert wrap_command(["./x"], {"name": "y"}).name == "y"


@pytest.mark.parametrize("argv", [[], [""], ["a", "b\0c"]])
def test_bad_commands(argv: list[str]) -> None:
    with pytest.raises(UsageError):
        wrap_command(argv, {})


# --------------------------------------------------------------------------- positional


def test_the_positional_form() -> None:
    job = read(POSITIONAL)
    assert (job.form, job.name) == ("positional", "job")
    assert job.script == ("#!/bin/bash -l\nconda activate tf\npython train.py --batch_size 64\n")
    assert job.interpreter == "/bin/bash -l"
    assert job.raw == {"model-summary": "net.model", "batch-size": "64", "gpus": "2"}
    assert job.dataset == "/data/image net"
    assert (job.measured, job.horus) == (5262.0, 7903.9316)
    assert (job.faketensor, job.gpumemnet) == (float(WHOLE_DEVICE_MIB), 16000.0)
    assert job.options.collocation is None
    assert any("policy 'exclusive' in the file is ignored" in note for note in job.notes)


def test_the_command_line_beats_the_positions() -> None:
    job = read(POSITIONAL, batch_size="8", model_summary="other.model", gpus="1", name="n")
    assert (job.options.batch_size, job.options.model_summary) == (8, "other.model")
    assert (job.options.gpus, job.name) == (1, "n")


@pytest.mark.parametrize("length", range(3, 13))
def test_it_may_stop_anywhere_after_the_command(length: int) -> None:
    lines = POSITIONAL.splitlines()[:length]
    for text in ("\n".join(lines), "\r\n".join(lines), "\n\n".join(["", *lines, "", ""])):
        job = read(text)
        assert job.form == "positional"
        assert job.options.gpus == (2 if length >= 8 else None)
        assert job.spec("ana", 1001).gpus == (2 if length >= 8 else 1)
        assert (job.measured is None) == (length < 9)
        assert (job.gpumemnet is None) == (length < 12)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("\n64\n", "\nmany\n", "job.rad line 6: batch size 'many' is not a whole number from 1"),
        ("\n64\n", "\n0\n", "job.rad line 6: batch size '0'"),
        ("exclusive\n2\n", "exclusive\n-1\n", "job.rad line 8: GPUs '-1'"),
        ("exclusive\n2\n", "exclusive\n1025\n", "job.rad line 8: GPUs '1025'"),
        ("5262", "nan", "job.rad line 9: measured memory 'nan' is not a size in MiB"),
        ("7903.9316", "inf", "job.rad line 10: Horus estimate 'inf'"),
        ("40000", "-5", "job.rad line 11: FakeTensor estimate '-5'"),
        ("16000", "1e99", "job.rad line 12: GPUMemNet estimate '1e99'"),
        ("16000", "0", "job.rad line 12: GPUMemNet estimate '0'"),
        ("16000\n", "16000\n\nmore\n", "job.rad line 14: more lines than the positional form has"),
    ],
)
def test_bad_positions(old: str, new: str, message: str) -> None:
    assert POSITIONAL.count(old) == 1
    assert refused(POSITIONAL.replace(old, new)).startswith(message)


def test_conda_alone_is_not_a_job() -> None:
    assert "no command after 'conda activate tf'" in refused("conda activate tf\n")


@pytest.mark.parametrize(
    "text",
    [
        "#RAD --gpus=1\nconda activate tf\npython a.py\npython b.py\n",
        "#!/bin/bash -l\nconda activate tf\npython a.py\npython b.py\n",
        "conda activate\npython a.py\npython b.py\n",
        "conda activate tf && python a.py\npython b.py\n",
        "echo start\nconda activate tf\npython a.py\n",
        "conda activate tf\ncd /data\npython a.py\n",
        "conda activate tf\npython a.py\n./b.sh\n",
        "conda activate tf\npython a.py\nconda deactivate\n",
        "conda activate tf\npython a.py\nwait\n",
    ],
)
def test_scripts_that_only_resemble_the_positional_form(text: str) -> None:
    assert read(text).form == "directive"
    assert read(text).script == text
    login = text.startswith(("conda activate tf\n", "#!/bin/bash -l"))
    assert (read(text).interpreter == "/bin/bash -l") == (login or "#RAD" in text)


published = sorted(PUBLISHED.glob("*.rad")) if PUBLISHED.is_dir() else []


@pytest.mark.skipif(not published, reason="the published job files are not at hand")
def test_all_published_files_are_there() -> None:
    assert len(published) == 49


@pytest.mark.parametrize("path", published, ids=lambda path: path.stem)
def test_a_published_file(path: Path) -> None:
    lines = path.read_text().splitlines()[1:]  # every one begins with a comment
    numbers = [float(word) for word in lines[7:]]
    wanted = [WHOLE_DEVICE_MIB if n == 40000 else n for n in numbers] + [None] * (4 - len(numbers))

    job = read_job_file(path.read_bytes(), str(path), {})
    assert (job.form, job.name) == ("positional", path.stem)
    assert job.script == "\n".join(["#!/bin/bash -l", lines[0], lines[1], ""])
    assert job.options.model_summary == lines[2]
    assert job.dataset == lines[3]
    assert job.options.batch_size == int(lines[4])
    assert job.spec("ana", 1001).gpus == job.options.gpus == int(lines[6])
    assert [job.measured, job.horus, job.faketensor, job.gpumemnet] == wanted
    assert any(lines[5] in note for note in job.notes)


# --------------------------------------------------------------------------- anything


def test_reading_does_not_import_the_records() -> None:
    assert "radrm.core.records" not in imported_by("import radrm.jobfile.radfile")

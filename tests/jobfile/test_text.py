"""A submitted text: what is taken off it, what is refused, and which lines are only data."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radrm.errors import BadFile
from radrm.jobfile.radfile import read_job_file
from radrm.jobfile.shell import spans_of_data
from radrm.jobfile.text import read_text

PLAIN = {
    b"a\nb\n": ("a\nb\n", 0),
    b"\xef\xbb\xbfa\n": ("a\n", 1),
    b"\xef\xbb\xbf\xef\xbb\xbfa\r\nb": ("a\nb", 2),
    b"a\r\nb\r\n": ("a\nb\n", 1),
    b"a\r\r\nb\r": ("a\nb", 1),
    b"printf 'a\rb'\n": ("printf 'a\rb'\n", 0),
}


@pytest.mark.parametrize("data", PLAIN)
def test_marks_and_line_ends_are_taken_off(data: bytes) -> None:
    found = read_text(data, "job")
    assert (found.text, len(found.notes)) == PLAIN[data]


BAD = {
    b"": "empty",
    b"\xef\xbb\xbf\r\n": "empty",
    b"#!/bin/bash\recho\r": "CR alone",
    "echo hi\n".encode("utf-16"): "UTF-16; save the file as UTF-8",
    "echo hi\n".encode("utf-16-le"): "UTF-16",
    "echo hi\n".encode("utf-16-be"): "UTF-16",
    "echo hi\n".encode("utf-32"): "UTF-32",
    b"echo hi\n\0\0\0": "NUL byte at offset 8",
    b"echo h\xe9\n": "not UTF-8 at byte offset 6",
}


@pytest.mark.parametrize("data", BAD)
def test_what_is_no_text_is_refused_in_one_line(data: bytes) -> None:
    with pytest.raises(BadFile) as error:
        read_text(data, "job")
    assert BAD[data] in str(error.value) and "\n" not in str(error.value)


SHELL = """#!/bin/bash
python - <<'EOF' > conf
#RAD data
EOF
cat <<A; cat <<-B
#RAD data
A
\t#RAD data
\tB
text="#!/bin/bash
#RAD data
"
x=$((1 << 2)) y=${text//\\"/}
say $'it\\'s' # it's
more='
#RAD data'
n=$(cat <<C
#RAD data
C
)
#RAD real
"""
PYTHON = '''#!/usr/bin/env python3
import os  # it's """ no text
quote = '"', "'"
TEMPLATE = """#!/bin/bash
#RAD data
"""
OTHER = '''
PYTHON += "'''\n#RAD data \\'''\n#RAD data'''\n" + "one = 'it\\'s'\n#RAD real\n"
PERL = "#!/usr/bin/perl\nprint <<EOF;\n#RAD real\nEOF\n"


@pytest.mark.parametrize("script", [SHELL, SHELL.partition("\n")[2], PYTHON, PERL])
def test_lines_that_are_data(script: str) -> None:
    text = read_text(script.encode(), "job")
    data = text.data_lines()
    for number, line in enumerate(text.lines, 1):
        if line.strip().startswith("#RAD"):
            assert (number in data) == ("data" in line), line
    with pytest.raises(BadFile, match="#RAD after the first command"):
        read_job_file(script.encode(), "job", {})
    read_job_file(script.replace("#RAD real", "# nothing").encode(), "job", {})


@given(st.text("ab'\"\\\n#<$(` EOF-", max_size=80))
def test_spans_of_data_are_in_order_and_inside(text: str) -> None:
    place = 0
    for start, end in spans_of_data(text):
        assert place <= start < end <= len(text)
        place = end


def notes(script: str, slurm: bool = False) -> list[str]:
    return list(read_job_file(script.encode(), "job", {}, slurm).notes)


def test_lines_of_slurm_and_pbs() -> None:
    script = "#!/bin/bash\n#SBATCH -t 5\n#PBS -q x\nA=1\n#SBATCH -n1\n # SBATCH\n#SBATCH -c2\n"
    late = "lines 5-7 are after the first command (line 4)"
    slurm, pbs = notes(script)
    assert slurm.startswith("lines 2-7 are for Slurm") and "--slurm" in slurm
    assert pbs.startswith("line 3 is for PBS")
    pbs, late_note = sorted(notes(script, slurm=True))
    assert pbs.endswith("write #SBATCH") and late_note.startswith(late)
    written = "#!/bin/bash\ncat > a.sbatch <<EOF\n#SBATCH -n1\nEOF\n"
    assert notes(written, slurm=True) == notes(written) == []


@pytest.mark.parametrize(
    "line", ["#$ -l gpu=1", "#BSUB -W 2:00", "#COBALT -n 1", "#PBS -l select=1"]
)
def test_lines_of_other_queues_are_named(line: str) -> None:
    (note,) = notes(f"#!/bin/bash\n{line}\ntrue\n")
    assert note.startswith("line 2 is for ")
    assert notes(f"#!/bin/bash\n#{line}\n#$HOME\ntrue\n") == []


@pytest.mark.parametrize("line", ["# SBATCH --gres=gpu:1", " #SBATCH -n1", "#sbatch --time=1"])
def test_comments_that_may_be_meant_for_slurm_are_named(line: str) -> None:
    (note,) = notes(f"#!/bin/bash\n{line}\n##SBATCH -c2\n# sbatch this file\ntrue\n", slurm=True)
    assert note.startswith("line 2 is only a comment")


def test_an_interpreter_that_is_not_in_the_first_line() -> None:
    (note,) = notes("\n#!/usr/bin/env python3\nprint(1)\n")
    assert note.startswith("line 2 ('#!/usr/bin/env python3') is not the first one")
    assert notes("#!/bin/sh\n#! not one\ntrue\n") == []


def test_arguments_of_a_script_are_no_command() -> None:
    found = read_job_file(b"echo $1\n", "job", {}, arguments=["a b"])
    assert (found.arguments, found.argv) == (("a b",), ())

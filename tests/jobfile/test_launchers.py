"""Which scripts and commands start their program with `radrun`."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radrm.jobfile import shell
from radrm.jobfile.sizes import runs_radrun

YES = [
    "radrun train.py --global-batch 256",
    "cd src && radrun train.py",
    "cd src; exec radrun train.py",
    "OMP_NUM_THREADS=2 A='b c' radrun train.py",
    "exec env A=1 /opt/venv/bin/radrun train.py",
    '"$VENV/bin/radrun" train.py',
    "'radrun' train.py",
    "timeout -k 5 3600 radrun train.py",
    "uv run radrun train.py",
    "conda run -n torch radrun -m pkg.train",
    "if true; then radrun train.py; fi",
    "for seed in 1 2; do radrun train.py; done",
    "{ radrun train.py; }",
    "(radrun train.py) 2>&1 | tee log",
    "time radrun train.py &",
    "! radrun train.py",
    "python prepare.py \\\n  --all\nradrun \\\n  train.py",
    "cat > conf <<EOF\nradrun is no command here\nEOF\nradrun train.py",
    "cat <<-'END' > conf\n\t# it's text\n\tEND\nradrun train.py",
    "n=$((1 << 3))\nradrun train.py",
    "bash -c 'radrun train.py'",
    "bash -ec 'cd src; radrun train.py'",
    "echo it\\'s here\nradrun train.py",
    "# it's here\nradrun train.py",
    "cmd=(radrun train.py)\n${cmd[@]}",
    "grep x <<< radrun\nradrun train.py",
]

NO = [
    "python train.py",
    "# radrun train.py\npython train.py",
    "# one; radrun train.py\npython train.py",
    "python train.py # then radrun",
    "echo radrun train.py",
    'echo "; radrun train.py"',
    "echo '\nradrun train.py\n'",
    "echo \\; radrun train.py",
    "python radrun.py",
    "./radrun.sh",
    "radrun-old train.py",
    "torchrun --standalone radrun",
    "cat <<EOF\nradrun train.py\nEOF\npython train.py",
    "cat <<A <<'B'\nradrun 1\nA\nradrun 2\nB\npython train.py",
    "LAUNCHER=radrun",
    "pip install radrun",
    "bash radrun",
    "bash --norc -c 'echo radrun'",
]


def test_a_script_that_runs_radrun() -> None:
    shell = ("/usr/bin/env", "bash")
    assert [text for text in YES if not runs_radrun(text + "\n", shell, ())] == []


def test_a_script_that_only_names_it() -> None:
    assert [text for text in NO if runs_radrun(text + "\n", ("/bin/bash",), ())] == []


@pytest.mark.parametrize(
    ("argv", "found"),
    [
        (["radrun", "train.py"], True),
        (["/opt/bin/radrun", "-m", "pkg"], True),
        (["env", "A=1", "radrun", "train.py"], True),
        (["bash", "-lc", "cd src && radrun train.py"], True),
        (["bash", "-c", "echo radrun"], False),
        (["bash", "-c"], False),
        (["python", "radrun"], False),
        (["torchrun", "--standalone", "train.py"], False),
    ],
)
def test_a_command(argv: list[str], found: bool) -> None:
    assert runs_radrun(None, (), argv) is found


@pytest.mark.parametrize(
    ("interpreter", "found"),
    [
        (("/bin/sh",), True),
        (("/bin/bash", "-l"), True),
        (("/usr/bin/env", "bash"), True),
        (("/usr/bin/env", "-S bash -e"), True),
        (("/usr/bin/env", "python3"), False),
    ],
)
def test_only_scripts_of_a_shell_are_read(interpreter: tuple[str, ...], found: bool) -> None:
    assert runs_radrun("radrun train.py", interpreter, ()) is found


pieces = st.sampled_from(
    ["radrun", " ", "\n", "'", '"', "\\", "<<", "E", "$((", ")", "#", ";", "-c"]
)


@given(st.lists(pieces, max_size=30).map("".join))
def test_any_text_has_an_answer(text: str) -> None:
    assert runs_radrun(text, ("/bin/sh",), ()) in (True, False)
    assert runs_radrun(None, (), ["bash", "-c", text]) in (True, False)


def test_a_long_script_is_read_quickly() -> None:
    """Once over the text: none of these doubles its time for each line."""
    for line in (
        "cat <<EOF\n",
        "echo '\n",
        'echo "a\\"\n',
        "x=$((1 << n))\n",
        "bash -c radrun\\ x\n",
    ):
        text = "# radrun\n" + line * (200_000 // len(line))
        assert runs_radrun(text, ("/bin/sh",), ()) in (True, False)
    many = "# radrun\n" + "".join(f"cat <<E{number}\n" for number in range(20_000))
    assert not runs_radrun(many, ("/bin/sh",), ())


def test_a_script_is_read_for_a_bounded_number_of_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any user's script is read in the daemon's loop: a MiB of `\\a` took most of a second."""
    monkeypatch.setattr(shell, "_MOST_PIECES", 100)
    assert runs_radrun("\\a" * 90 + "\nradrun train.py\n", ("/bin/sh",), ())
    assert not runs_radrun("\\a" * 110 + "\nradrun train.py\n", ("/bin/sh",), ())

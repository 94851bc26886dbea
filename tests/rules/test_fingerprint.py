"""When two runs count as the same thing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radrm.estimators.fingerprint import fingerprint

SCRIPT = (
    "#!/bin/bash\n#RAD --name=a\nsource venv/bin/activate\npython train.py --batch 32 --lr 0.1\n"
)


@pytest.mark.parametrize(
    "other",
    [
        SCRIPT.replace("--name=a", "--name=b"),
        SCRIPT.replace("--lr 0.1", "--lr=0.2"),
        SCRIPT.replace("--lr 0.1", "--seed 7 --output-dir out/7 --log_file x --epochs=90"),
        SCRIPT.replace("--batch 32", "--batch=32"),
        SCRIPT.replace("python train", "python   train") + "\n# the end\n",
        SCRIPT.replace("--batch 32", "\\\n    --batch '32'"),
    ],
)
def test_what_cannot_change_the_memory_does_not_count(other: str) -> None:
    assert fingerprint(other) == fingerprint(SCRIPT)


@pytest.mark.parametrize(
    "other",
    [
        SCRIPT.replace("--batch 32", "--batch 64"),
        SCRIPT.replace("train.py", "finetune.py"),
        SCRIPT.replace("--lr 0.1", "--lr 0.1 --amp"),
        SCRIPT.replace("--lr 0.1", "-s 3"),
        SCRIPT + "python second.py\n",
    ],
)
def test_what_may_change_it_does(other: str) -> None:
    assert fingerprint(other) != fingerprint(SCRIPT)


def test_program_files_summary_and_settings_count() -> None:
    known = {
        fingerprint(SCRIPT),
        fingerprint(SCRIPT, sources="train.py 10 abcd"),
        fingerprint(SCRIPT, sources="train.py 10 abce"),
        fingerprint(SCRIPT, summary="Linear"),
        fingerprint(SCRIPT, settings=["gpus=2"]),
    }
    assert len(known) == 5
    assert fingerprint(SCRIPT, settings=["a=1", "b=2"]) == fingerprint(
        SCRIPT, settings=["b=2", "a=1"]
    )


def test_a_bare_command_is_read_by_its_words() -> None:
    assert fingerprint(["python", "a.py", "--seed=1"]) == fingerprint(["python", "a.py"])
    assert fingerprint(["python", "a b.py"]) != fingerprint(["python", "a", "b.py"])
    assert fingerprint(["python", "a.py"]) == fingerprint("python a.py")


@given(st.text(max_size=300))
def test_any_text_has_one(text: str) -> None:
    assert len(fingerprint(text)) == 32
    if not text.endswith("\\"):  # which would join the lines
        assert fingerprint(text) == fingerprint(text + "\n#a comment\n")


def test_a_huge_script_is_taken_without_a_look_at_every_word() -> None:
    words = "x " * 500_000
    assert fingerprint(words) != fingerprint(words + "y")
    assert fingerprint("a b\n" * 100_000) != fingerprint("a b\n" * 100_001)

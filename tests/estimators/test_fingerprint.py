"""When two runs count as the same thing."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from radrm.estimators.learning.fingerprint import (
    NEUTRAL,
    fingerprint,
    parts_of,
    variables_of,
    with_length,
)
from radrm.host.estimation.commands import fingerprint_of
from radrm.host.storage.sources import sources_of
from radrm.host.storage.spool import Envelope
from radrm.jobfile.radfile import read_job_file

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
        SCRIPT.replace("--lr 0.1", "--momentum 0.9"),
        SCRIPT.replace("--batch 32", "--batch 32#64"),
        SCRIPT.replace("python train", "MODEL=gpt2-xl python train"),
        SCRIPT.replace("--lr 0.1", "--verbose second.py"),
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


# ------------------------------------------------------------------ other things


_THEIR_OWN = (
    *("model_name_or_path", "config-name", "out-channels", "exp", "dataset_name", "name"),
    *("experiment", "run", "trial", "tag", "rate", "steps", "momentum", "weight-decay"),
    *("save-activations", "log-softmax", "print", "output", "seed-model", "epochs-model"),
)


def test_an_option_that_only_sounds_neutral_counts() -> None:
    for option, form in product(_THEIR_OWN, ("--{}={}", "--{} {}")):
        scripts = (SCRIPT + f"python b.py {form.format(option, w)}\n" for w in ("bert", "gpt2-xl"))
        one, other = map(fingerprint, scripts)
        assert one != other, option


_NAMES = st.from_regex(r"[a-z][a-z0-9]{0,8}([-_.][a-z0-9]{1,8}){0,3}", fullmatch=True)
_VALUES = st.from_regex(r"[A-Za-z0-9_./:][A-Za-z0-9_./:-]{0,11}", fullmatch=True)
_LISTED = st.sampled_from(sorted(NEUTRAL))


@given(
    st.one_of(
        _NAMES,
        st.tuples(_LISTED, _NAMES).map("-".join),
        st.tuples(_NAMES, _LISTED).map("_".join),
    ).filter(lambda name: name.replace("_", "-") not in NEUTRAL),
    _VALUES,
    _VALUES,
    st.sampled_from("= "),
)
@example("model_name_or_path", "bert-base", "gpt2-xl", " ")
def test_the_value_of_any_option_that_is_not_listed_counts(
    name: str, one: str, other: str, between: str
) -> None:
    first, second = (f"python a.py --{name}{between}{value} b" for value in (one, other))
    assert (fingerprint(first) == fingerprint(second)) == (one == other)


@pytest.mark.parametrize(
    "words", ["--seed=1 {}", "--seed 1 {}", "-xseed {}", "-seed {}", "--seed --model {}"]
)
def test_what_stands_beside_a_neutral_option_counts(words: str) -> None:
    one, other = (fingerprint(f"python a.py {words.format(w)}") for w in ("bert", "gpt2-xl"))
    assert one != other


def submitted(text: str, **environment: str) -> str:
    """The fingerprint of a job file handed in from a shell with these variables."""
    given_in = Envelope(
        ticket="01ARZ3NDEKTSV4RRFFQ69G5FAV",
        file="/w/a.rad",
        script=text,
        command=None,
        options={},
        cwd=environment.pop("cwd", "/w"),
        umask=0o022,
        environment=environment,
        submitted_s=0.0,
    )
    return fingerprint_of(read_job_file(text.encode(), "a.rad", {}), given_in)


def test_variables_given_at_submission_count_where_the_job_names_them() -> None:
    text = "#!/bin/bash\npython train.py --model ${MODEL} --batch $BATCH\n"
    bert = submitted(text, MODEL="bert", BATCH="8", SSH_CLIENT="10.0.0.1 5022")
    assert bert == submitted(text, MODEL="bert", BATCH="8", SSH_CLIENT="10.0.0.9 999")
    assert bert != submitted(text, MODEL="gpt2-xl", BATCH="8")
    assert bert != submitted(text, BATCH="8")
    assert submitted("#RAD --env=M=a\npython a.py\n") != submitted("#RAD --env=M=b\npython a.py\n")
    assert submitted("M=a python a.py\n") != submitted("M=b python a.py\n")
    assert submitted("python -m net\n") != submitted("python -m net\n", cwd="/elsewhere")


def test_the_parameters_of_a_sweep_count_unless_they_cannot_change_the_memory() -> None:
    def of(values: str) -> str:
        name, _, value = values.partition("=")
        return submitted(f"#RAD --env=RADRM_PARAM_{name}={value}\npython a.py\n")

    assert of("lr=1") == of("lr=2") == of("random_seed=3")
    assert of("bs=1") != of("bs=2")


def test_variables_that_a_program_file_names_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "train.py").write_text('import os\nmodel = os.environ["MODEL"]\n')
    seen = set()
    for model in ("bert", "gpt2-xl"):
        for unseen in ("1", "2"):
            monkeypatch.setenv("MODEL", model)
            monkeypatch.setenv("MODELS", unseen)
            seen.add(sources_of(["python", "train.py"], str(tmp_path)))
    assert len(seen) == 2
    assert sources_of(["python", "train.py"], str(tmp_path), {"MODEL": "bert"}) in seen
    (tmp_path / "net.yaml").write_text("layers: 2")
    before = sources_of(["python", "a.py", "--config=net.yaml"], str(tmp_path))
    (tmp_path / "net.yaml").write_text("layers: 9")
    assert before != sources_of(["python", "a.py", "--config=net.yaml"], str(tmp_path))


MODULES = {
    "train.py": "import os, torch\nfrom net import make as m\nimport lib.data as d, sys\n",
    "net.py": "try:\n    from lib import (blocks,\n        heads)\nexcept ImportError: pass\n",
    "lib/__init__.py": "",
    "lib/data.py": "from .. import far\n",
    "lib/blocks.py": "from .deep.more import x\nfrom . import data\nimport train\n",
    "lib/heads.py": "\0\xff",
    "lib/deep/more.py": "",
    "other.py": "",
}


@pytest.mark.parametrize("words", [["python", "train.py"], ["python", "-m", "train"]])
@pytest.mark.parametrize(("name", "counts"), [(name, name != "other.py") for name in MODULES])
def test_modules_that_a_program_imports_from_its_folder_count(
    tmp_path: Path, words: list[str], name: str, counts: bool
) -> None:
    for each, text in MODULES.items():
        (tmp_path / each).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / each).write_text(text)
    before = sources_of(words, str(tmp_path))
    assert before == sources_of(words, str(tmp_path))
    (tmp_path / name).write_text(MODULES[name] + "# changed\n")
    assert (before != sources_of(words, str(tmp_path))) == counts


def test_names_of_variables_are_whole_words() -> None:
    assert variables_of("echo $AB $_ ${B:-1} C", {"A": "1", "AB": "2", "B": "3", "_": "4"}) == [
        "AB=2",
        "B=3",
    ]


# ------------------------------------------------------------------ the length of a training

MARK = "0" * 32


def test_a_length_is_told_apart_from_the_program() -> None:
    short = with_length(MARK, "python a.py --epochs 10 --lr=0.1")
    long = with_length(MARK, "python a.py --epochs=20")
    assert short != long and parts_of(short)[0] == parts_of(long)[0] == MARK
    assert with_length(MARK, ["python", "a.py", "--epochs", "10"]) == short, "in any spelling"
    assert with_length(MARK, ["a.py", "--num_epochs=3"]) == with_length(MARK, "a.py --num-epochs 3")
    assert with_length(MARK, "python a.py --seed 3") == MARK
    assert parts_of(MARK) == (MARK, None) and parts_of(None) == (None, None)


@pytest.mark.parametrize("mark", ["context 550.54 12.1+0123abcd", f"{MARK}+", "f+0123abcd", ""])
def test_other_marks_have_no_length(mark: str) -> None:
    assert parts_of(mark) == (mark, None)


@given(st.text(max_size=60))
def test_any_command_has_a_mark_with_its_program(text: str) -> None:
    assert parts_of(with_length(MARK, text))[0] == MARK

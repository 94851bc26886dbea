"""The tracer in a Python with PyTorch: `RADRM_TEST_TORCH_PYTHON`, default this one.

Without PyTorch there everything here is skipped. Most cases run in one process, since
importing PyTorch takes longer than tracing.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from radrm.estimators.traces import Traced, replayed

HERE = Path(__file__).parent
TRACER = HERE.parents[1] / "radrm" / "tracer"
PYTHON = os.environ.get("RADRM_TEST_TORCH_PYTHON") or sys.executable
LIMIT_S = 300
MIB = 1 << 20

FEW = ["--batch-size", "64"]
CASES = {
    "mlp": ["factories:mlp", "--input-shape", "1024", *FEW],
    "mlp sgd": ["factories:mlp", "--input-shape", "1024", "--optimizer", "sgd", *FEW],
    "mlp momentum": ["factories:mlp", "--input-shape", "1024", "--optimizer", "momentum", *FEW],
    "mlp fp16": ["factories:mlp", "--input-shape", "1024", "--precision", "fp16", *FEW],
    "mlp ddp": ["factories:mlp", "--input-shape", "1024", "--gpus=2", "--parallel=ddp", *FEW],
    "no optimizer": ["factories:mlp", "--input-shape", "1024", "--optimizer", "none", *FEW],
    "deep": ["factories:deep", "--batch-size", "4096"],
    "deep checkpointed": ["factories:deep", "--batch-size", "4096", "--gradient-checkpointing"],
    "deep amp": ["factories:deep", "--batch-size", "4096", "--precision", "amp"],
    "deep dp": ["factories:deep", "--batch-size", "4096", "--gpus", "2", "--parallel", "dp"],
    "deep evaluation": ["factories:deep", "--batch-size", "64", "--evaluation-batch", "16384"],
    "deep no evaluation": ["factories:deep", "--batch-size", "64", "--evaluation-batch", "0"],
    "cnn": ["factories:cnn", *FEW],
    "attention": ["factories:attention", "--sequence-length", "128", *FEW],
    "lstm": ["factories:lstm"],
    "gru": ["factories:gru"],
    "encoder": ["factories:encoder"],
    "reading": ["factories:reading", *FEW],
    "own step": ["factories:own_step"],
    "own optimizer": ["factories:own_optimizer"],
    # what nobody says
    "own batch": ["factories:own_batch"],
    "own batch, asked": ["factories:own_batch", "--batch-size", "16"],
    "own batch, command": ["factories:own_batch", "--command=python a.py --batch-size 64"],
    "both": ["factories:own_batch", "--batch-size=16", "--command=python a.py --batch-size 64"],
    "own sizes": ["factories:own_sizes"],
    "own sizes, command": ["factories:own_sizes", "--command=python a.py --bs=24"],
    "fixed batch": ["factories:fixed_batch"],
    "fixed batch, asked": ["factories:fixed_batch", "--batch-size", "16"],
    "any keywords": ["factories:any_keywords"],
    "any keywords, asked": ["factories:any_keywords", "--batch-size", "16"],
    "no batch": ["factories:mlp", "--input-shape", "1024"],
    "two, launched": [
        *("factories:mlp", "--input-shape=1024", *FEW, "--gpus=2", "--parallel=auto"),
        "--command=torchrun --nproc_per_node=2 train.py",
    ],
    "two, unknown": ["factories:mlp", "--input-shape=1024", *FEW, "--gpus=2", "--parallel=auto"],
    # hostile
    "printing": ["factories:printing", "--input-shape", "1024"],
    "raising": ["factories:raising"],
    "exiting": ["factories:exiting"],
    "leaving": ["factories:leaving"],
    "nothing": ["factories:nothing"],
    "number": ["factories:number"],
    "wrong tuple": ["factories:wrong_tuple"],
    "no weights": ["factories:no_weights"],
    "wants more": ["factories:wants_more"],
    "wrong shapes": ["factories:wrong_shapes"],
    "no shape": ["factories:mlp"],
    "no such function": ["factories:absent"],
    "no such module": ["absent_module:f"],
    "no function": ["factories"],
    "not callable": ["factories:CONSTANT"],
    "no such optimizer": ["factories:deep", "--optimizer", "newton"],
    "bad batch": ["factories:deep", "--batch-size", "many"],
}


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    # Once for all workers, who may have taken tests from one another: it takes 10 s of CPU.
    place = tmp_path_factory.getbasetemp()
    place = place.parent if "PYTEST_XDIST_WORKER" in os.environ else place
    output = place / "tracer-documents.json"
    with (place / "tracer.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not output.exists():
            done = subprocess.run(
                [PYTHON, "-W", "ignore", str(HERE / "many.py"), str(TRACER), str(output)],
                input=json.dumps(CASES), cwd=HERE, capture_output=True, text=True, timeout=LIMIT_S,
                check=False,
            )  # fmt: skip
            assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(output.read_text("utf-8"))
    if "cannot import torch" in found["mlp"].get("error", ""):
        pytest.skip(f"{PYTHON} has no PyTorch; set RADRM_TEST_TORCH_PYTHON to one that has")
    return found


def traced(documents: dict[str, Any], name: str) -> Traced:
    return Traced.from_events(documents[name])


def marks(documents: dict[str, Any], name: str) -> dict[str, int]:
    """Bytes allocated when each mark was passed."""
    return {mark: allocated for mark, allocated, _ in replayed(documents[name]).marks}


MLP = 4 * (1024 * 1024 + 1024 + 1024 * 10 + 10)


def test_weights_gradients_and_optimizer_by_hand(documents: dict[str, Any]) -> None:
    found = traced(documents, "mlp")
    assert found.weights_mib * MIB == found.gradients_mib * MIB == MLP
    assert found.optimizer_mib * MIB == 2 * MLP
    assert (found.batch_size, found.optimizer, found.precision) == (64, "adam", "fp32")


def test_what_is_alive_between_steps(documents: dict[str, Any]) -> None:
    """Weights, then gradients and two states, and little more than the batch."""
    at = marks(documents, "mlp")
    batch = 64 * 1024 * 4
    assert MLP <= at["model"] <= MLP + 4 * 512
    assert at["optimizer 1"] >= 4 * MLP + batch
    assert at["optimizer 2"] == at["optimizer 1"] < 4 * MLP + batch + 18 * MIB


@pytest.mark.parametrize(("name", "states"), [("mlp sgd", 0), ("mlp momentum", 1), ("mlp", 2)])
def test_optimizers_keep_what_they_should(documents: Any, name: str, states: int) -> None:
    assert traced(documents, name).optimizer_mib * MIB == states * MLP


def test_no_optimizer_keeps_gradients(documents: dict[str, Any]) -> None:
    found = traced(documents, "no optimizer")
    assert found.optimizer_mib == 0 and found.gradients_mib * MIB == MLP


def test_half_precision_halves(documents: dict[str, Any]) -> None:
    assert traced(documents, "mlp fp16").weights_mib * MIB == MLP / 2


def test_ddp_keeps_the_gradients_twice(documents: dict[str, Any]) -> None:
    one, two = (marks(documents, name)["optimizer 2"] for name in ("mlp", "mlp ddp"))
    assert MLP <= two - one <= MLP + 2048


def test_checkpointing_saves_activations(documents: dict[str, Any]) -> None:
    assert (
        traced(documents, "deep checkpointed").need_mib < 0.6 * traced(documents, "deep").need_mib
    )


def test_amp_takes_less_of_activations_and_keeps_full_weights(documents: dict[str, Any]) -> None:
    amp, full = traced(documents, "deep amp"), traced(documents, "deep")
    assert amp.weights_mib == full.weights_mib
    assert 0.4 * full.need_mib < amp.need_mib < 0.9 * full.need_mib


def test_dataparallel_halves_the_batch_on_gpu_0(documents: dict[str, Any]) -> None:
    two, one = traced(documents, "deep dp"), traced(documents, "deep")
    assert 0.45 * one.need_mib < two.need_mib < 0.85 * one.need_mib
    assert (two.gpus, two.parallel) == (2, "dp")


def test_a_large_evaluation_batch_counts(documents: dict[str, Any]) -> None:
    small, large = traced(documents, "deep no evaluation"), traced(documents, "deep evaluation")
    assert large.need_mib > small.need_mib + 16384 * 256 * 4 * 4 / MIB


def test_convolutions_are_told(documents: dict[str, Any]) -> None:
    """The depthwise one has PyTorch's own kernel, the other's input needs no gradient."""
    kinds = [kind for _, kind, _ in documents["cnn"]["calls"] if kind >= 2]
    assert kinds == [2, 4, 2, 4, 2]
    assert documents["cnn"]["convolutions"] == [
        [64, 3, 16, [32, 32], [32, 32], [3, 3], [1, 1], 1, 4, 0]
    ]


def test_attention_keeps_no_square_of_the_length(documents: dict[str, Any]) -> None:
    """The fused kernel saves no scores: 64 batches x 4 heads x 128 x 128 in 4 bytes."""
    scores = 64 * 4 * 128 * 128 * 4
    assert scores not in documents["attention"]["events"]


@pytest.mark.parametrize("name", ["lstm", "gru", "encoder"])
def test_fused_operators_are_traced(documents: dict[str, Any], name: str) -> None:
    found = traced(documents, name)
    assert found.gradients_mib == found.weights_mib == found.optimizer_mib / 2


def test_code_that_reads_values_is_guessed_for(documents: dict[str, Any]) -> None:
    assert traced(documents, "reading").need_mib > 0
    assert documents["reading"]["guesses"]


@pytest.mark.parametrize(
    ("name", "size", "said"),
    [
        ("own batch", 256, "batch size: 256, the factory's own default"),
        ("own batch, asked", 16, None),
        ("own batch, command", 64, "batch size: 64, by --batch-size of the job's command"),
        ("both", 16, None),
        ("own sizes", 48, "batch size: 48, the factory's own default"),
        ("own sizes, command", 24, "batch size: 24, by --bs of the job's command"),
        ("fixed batch", 128, "batch size: 128, that of the factory's inputs"),
        ("fixed batch, asked", 128, "batch size: 128, that of the factory's inputs"),
        ("any keywords", 96, "batch size: 96, that of the factory's inputs"),
        ("any keywords, asked", 16, None),
        ("no batch", 32, "batch size: 32, as neither the job nor its factory names one"),
    ],
)
def test_the_factorys_own_batch_size_rules_unless_the_job_says_another(
    documents: Any, name: str, size: int, said: str | None
) -> None:
    assert traced(documents, name).batch_size == size
    told = [line for line in documents[name]["guesses"] if line.startswith("batch size")]
    assert told == ([] if said is None else [said])
    if name.startswith("own batch"):
        assert 4 * size * 64 in documents[name]["events"], "the inputs are that large"


def test_each_guess_is_a_line(documents: dict[str, Any]) -> None:
    known = {name: documents[name]["guesses"] for name in documents if "events" in documents[name]}
    assert "optimizer: adam, as neither the job nor its factory names one" in known["mlp"]
    assert "precision: fp32, as the job names none" in known["mlp"]
    assert not [line for line in known["mlp sgd"] if line.startswith("optimizer")]
    assert not [line for line in known["mlp fp16"] if line.startswith("precision")]
    assert not [line for line in known["own optimizer"] if line.startswith("optimizer")]
    assert "input shape: 3x32x32, that of the factory's inputs" in known["cnn"]
    assert "input shape: 64, the factory's own default" in known["own sizes"]
    assert "sequence length: 7, that of the factory's inputs" in known["fixed batch"]
    assert known["own step"] == ["training step: the factory's own, traced as it is on one GPU"]
    assert any(line.startswith("values: ") for line in known["reading"])


def test_a_launcher_means_a_process_for_each_gpu_and_so_does_silence(documents: Any) -> None:
    for name, why in (("two, launched", "starts torchrun"), ("two, unknown", "does not show")):
        found = traced(documents, name)
        assert (found.gpus, found.parallel) == (2, "ddp")
        assert found.need_mib == traced(documents, "mlp ddp").need_mib
        assert any(line.startswith("GPUs: 2, one") and why in line for line in found.guesses)


def test_a_step_of_ones_own(documents: dict[str, Any]) -> None:
    assert replayed(documents["own step"]).peak_need >= 2 * 4 * (64 * 64 + 64)


def test_the_factorys_optimizer_follows_the_moved_weights(documents: dict[str, Any]) -> None:
    found = traced(documents, "own optimizer")
    assert found.optimizer_mib == 2 * found.weights_mib


def test_every_sound_case_gives_back_what_it_took(documents: dict[str, Any]) -> None:
    """What is alive at the end is weights, gradients, states and the loop's last names."""
    for name, found in documents.items():
        if "error" not in found and name != "own step":
            end = replayed(found).marks[-1][1]
            assert end <= 5 * found["parameter_bytes"] + 200 * MIB, name


def test_printing_disturbs_nothing(documents: dict[str, Any]) -> None:
    assert traced(documents, "printing").weights_mib * MIB == MLP


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("raising", "RuntimeError: first line second line"),
        ("exiting", "called exit(0)"),
        ("nothing", "returned NoneType"),
        ("number", "returned int"),
        ("wrong tuple", "a tuple of 3"),
        ("no weights", "no weights"),
        ("wants more", "path"),
        ("wrong shapes", "batch size 32"),
        ("no shape", "--input-shape"),
        ("no such function", "has no 'absent'"),
        ("no such module", "there is no module 'absent_module'"),
        ("no function", "MODULE:FUNCTION"),
        ("not callable", "cannot be called"),
        ("no such optimizer", "newton"),
        ("bad batch", "--batch-size"),
    ],
)
def test_what_goes_wrong_is_said_in_one_line(documents: Any, name: str, says: str) -> None:
    error = documents[name]["error"]
    assert says in error and len(error.splitlines()) == 1 and len(error) < 600


# ------------------------------------------------------------------ as a process of its own


def run(tmp_path: Path, *words: str) -> tuple[int, str, Any]:
    output = tmp_path / "one.json"
    done = subprocess.run(
        [PYTHON, str(TRACER), *words, "--output", str(output)],
        cwd=HERE, capture_output=True, text=True, timeout=LIMIT_S, check=False,
    )  # fmt: skip
    return (
        done.returncode,
        done.stdout,
        json.loads(output.read_text("utf-8")) if output.exists() else None,
    )


def test_a_factory_that_leaves_takes_its_document_along(documents: dict[str, Any]) -> None:
    assert documents["leaving"] == {"error": "exit code 7", "written": False}


@pytest.mark.nightly
@pytest.mark.usefixtures("documents")
def test_what_is_printed_stays_apart_from_the_document(tmp_path: Path) -> None:
    code, printed, document = run(tmp_path, "factories:printing", "--input-shape", "1024")
    assert (code, printed) == (0, "{" * 100 + "\n")
    assert Traced.from_events(document).weights_mib * MIB == MLP

"""`summary`: what it counts, where it says nothing, and how near the published jobs it comes."""

from __future__ import annotations

import dataclasses
import statistics

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from radrm.core.records import JobSpec, Needs, Role
from radrm.core.units import WHOLE_DEVICE_MIB
from radrm.estimators.interface import Description
from radrm.estimators.memory import LARGE_SEGMENT, overheads
from radrm.estimators.summaries.read import read_summary
from radrm.estimators.summaries.text import BadSummary
from radrm.estimators.summary import CONTEXT_MIB, CUDNN_MIB, Summary, network_for
from radrm.estimators.symbolic.operations import (
    Network,
    Operation,
    Optimizer,
    convolution_fit,
    optimizer,
    precision,
    role_of,
)
from radrm.estimators.symbolic.operations import Role as LayerRole
from radrm.estimators.symbolic.replay import replay
from radrm.jobfile.radfile import read_job_file
from radrm.structs import replace
from radrm.wiring import describe
from tests.estimators.summary_texts import (
    BERT,
    CNN,
    MIB,
    MLP,
    SPEC,
    described,
    memory,
    table,
    told_of,
)
from tests.examples import some
from tests.paths import SHARED_DATA

JOBS = SHARED_DATA / "jobs"


# ------------------------------------------------------------------ what is counted


def test_a_step_by_hand() -> None:
    """Weights, gradients, two states and one temporary; inputs, outputs, one kept tensor."""
    network = Network()
    source = network.root(4 * MIB)
    kept = network.tensor(16 * MIB)
    out = network.tensor(2 * MIB)
    network.operations = [
        Operation((source,), kept, saves=(source,), weights=(32 * MIB,)),
        Operation((kept,), out, saves=(kept,), weights=(2 * MIB,)),
    ]
    network.kept = [out]
    peak = replay(network, Optimizer(states=2, temporaries=1), overheads())
    held = 5 * 34 + 4 + 2
    assert peak.live == held * MIB
    assert held * MIB <= peak.reserved <= (held + 40) * MIB
    lighter = replay(network, Optimizer(states=0, temporaries=0), overheads())
    assert lighter.live < peak.live


def test_a_huge_network_is_followed_less_closely(monkeypatch: pytest.MonkeyPatch) -> None:
    block = [("Conv2d", (64, 28, 28), 36_864), ("BatchNorm2d", (64, 28, 28), 128),
             ("ReLU", (64, 28, 28), 0)]  # fmt: skip
    job = described(table(*block * 500), batch_size=8)
    roughly = memory(job)
    monkeypatch.setattr("radrm.estimators.symbolic.replay.HUGE", 10**9)
    assert roughly == pytest.approx(memory(job), rel=0.2)


def test_a_branch_keeps_its_source_until_both_have_read_it() -> None:
    network = Network()
    source = network.root(MIB)
    one, two = network.tensor(64 * MIB), network.tensor(64 * MIB)
    total = network.tensor(64 * MIB)
    network.operations = [
        Operation((source,), one),
        Operation((one,), two),
        Operation((one, two), total, passes=True),
    ]
    network.kept = [total]
    peak = replay(network, Optimizer(0, 0), overheads())
    assert peak.live == (1 + 64 * 3) * MIB


@pytest.mark.parametrize(
    ("kind", "parameters", "role"),
    [
        ("Conv2d", 10, LayerRole.CONVOLUTION),
        ("conv2d", 10, LayerRole.CONVOLUTION),
        ("StdConv2d", 10, LayerRole.CONVOLUTION),
        ("ConvBlock", 0, LayerRole.OTHER),
        ("torch.nn.ReLU", 0, LayerRole.KEEPS_OUTPUT),
        ("ReLU6", 0, LayerRole.KEEPS_INPUT),
        ("BatchNormalization", 4, LayerRole.NORM),
        ("Dense", 4, LayerRole.LINEAR),
        ("MaxPooling2D", 0, LayerRole.MAX_POOL),
        ("Bottleneck", 0, LayerRole.OTHER),
    ],
)
def test_kinds(kind: str, parameters: int, role: LayerRole) -> None:
    assert role_of(kind, parameters) is role


@pytest.mark.parametrize(
    ("channels", "outputs", "parameters", "area", "groups"),
    [
        (3, 64, 9408, 49, 1),
        (64, 64, 36_864, 9, 1),
        (96, 96, 864, 9, 96),
        (256, 512, 131_072, 1, 1),
        (192, 192, 258_048, 7, 1),
        (128, 128, 4608, 9, 32),
    ],
)
def test_the_kernel_that_so_many_parameters_make(
    channels: int, outputs: int, parameters: int, area: int, groups: int
) -> None:
    fit = convolution_fit(channels, outputs, parameters, 2, False)
    assert (fit.area, fit.groups) == (area, groups)
    assert not convolution_fit(channels, outputs, parameters + 1, 2, False).score


def test_a_shortcut_is_read_from_where_the_block_began() -> None:
    """ResNet's: the 1x1 convolution reads the block's input, as its parameters say."""
    rows = table(
        ("Conv2d", (64, 8, 8), 1728),
        ("ReLU", (64, 8, 8), 0),
        ("Conv2d", (128, 4, 4), 73_728),
        ("BatchNorm2d", (128, 4, 4), 256),
        ("Conv2d", (128, 4, 4), 8192),
        ("BatchNorm2d", (128, 4, 4), 256),
        ("ReLU", (128, 4, 4), 0),
        ("BasicBlock", (128, 4, 4), 0),
    )
    job = described(rows)
    summary = read_summary(rows, 64)
    network = network_for(summary, job, precision(None) or pytest.fail(), overheads())
    shortcut = next(o for o in network.operations if o.weights == (8192 * 4,))
    block = next(o for o in network.operations if o.weights == (73_728 * 4,))
    assert shortcut.inputs == block.inputs
    total = next(o for o in network.operations if o.passes)
    assert len(total.inputs) == 2


def test_context_parameters_and_state_of_a_perceptron() -> None:
    parameters_mib = (1024 * 4096 + 4096 + 40_970) * 4 / MIB
    adam = memory(described(MLP, batch_size=1)) - CONTEXT_MIB
    assert 5 * parameters_mib < adam < 5 * parameters_mib + 50
    plain = memory(described(MLP, batch_size=1, optimizer="SGD")) - CONTEXT_MIB
    assert 3 * parameters_mib < plain < adam


def test_convolutions_load_cudnn() -> None:
    assert memory(described(CNN, batch_size=1)) > CONTEXT_MIB + CUDNN_MIB
    without = Summary(cudnn_mib=0).estimate(described(CNN, batch_size=1))[0].value
    assert memory(described(CNN, batch_size=1)) == without + CUDNN_MIB


@pytest.mark.parametrize("summary", [CNN, BERT])
def test_half_precision_takes_less(summary: str) -> None:
    job = described(summary, batch_size=128, sequence_length=128)
    full = memory(job)
    assert memory(replace(job, precision="tf32")) == full
    for word in ("amp", "bf16", "fp16"):
        assert memory(replace(job, precision=word)) < full


def test_a_sequence_twice_as_long_takes_more() -> None:
    job = described(BERT, batch_size=32)
    short, long = (memory(replace(job, sequence_length=n)) for n in (256, 512))
    assert 1.5 < (long - CONTEXT_MIB) / (short - CONTEXT_MIB) < 2.5


def test_data_parallel_shares_the_batch_and_gathers_the_outputs() -> None:
    two = replace(SPEC, roles=(Role(needs=Needs(gpus=2)),))
    wrapped = f"DataParallel(\n  (module): {BERT.rstrip()}\n)\n"
    alone = memory(described(BERT, batch_size=64, sequence_length=256))
    shared = memory(described(wrapped, batch_size=64, sequence_length=256, spec=two))
    half = memory(described(BERT, batch_size=32, sequence_length=256))
    assert half < shared < alone


def test_an_image_model_takes_its_tokens_from_the_image() -> None:
    vit = BERT.replace(
        "(word_embeddings): Embedding(5000, 256, padding_idx=0)",
        "(projection): Conv2d(3, 256, kernel_size=(16, 16), stride=(16, 16))",
    ).replace("(position_embeddings): Embedding(512, 256)", "(nothing): None")
    job = described(vit, batch_size=8, input_shape=(3, 224, 224))
    assert memory(job) == memory(replace(job, input_shape=None, sequence_length=197))


# ------------------------------------------------------------------ where it says nothing


def test_what_it_takes_for_granted_it_names() -> None:
    text = table(("Linear", (1024,), 1_049_600))
    (told,) = told_of(described(text, batch_size=8))
    assert told.guesses[:2] == (
        "optimizer: adam, as the job names none",
        "precision: fp32, as the job names none",
    )
    (told,) = told_of(described(text, batch_size=8, optimizer="sgd", precision="fp32"))
    assert not [line for line in told.guesses if not line.startswith("CUDA context")]
    two = JobSpec(name="a", user="ann", uid=1000, roles=(Role(needs=Needs(gpus=2)),))
    (told,) = told_of(replace(described(text, batch_size=8), spec=two))
    assert any(line.startswith("GPUs: 2, one process for each") for line in told.guesses)


def test_without_a_summary_it_says_nothing() -> None:
    assert Summary().estimate(described(None)) == ()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"summary": ""}, "there is no model summary in the text"),
        ({"summary": "no table"}, "there is no model summary in the text"),
        ({"summary": CNN[: CNN.index("Linear")]}, "incomplete"),
        ({"summary": CNN.replace("MaxPool2d-4 [-1", "MaxPool2d-4 [?")}, "incomplete.*MaxPool2d-4"),
        ({"summary": BERT, "sequence_length": None}, "add --sequence-length=N"),
        ({"summary": BERT, "sequence_length": 2**62}, "add --sequence-length=N"),
        ({"batch_size": None}, "any batch size; add --batch-size=N"),
        ({"optimizer": "my-own"}, "the optimizer 'my-own' is unknown"),
        ({"precision": "fp3"}, "the precision 'fp3' is unknown"),
        ({"summary": CNN.replace("[-1, 64, 56, 56] 0", "[-1, 0, 56, 56] 0")}, "output of size 0"),
        (
            {
                "summary": CNN.replace(
                    "MaxPool2d-4 [-1, 64, 56, 56] 0", "Sequential-4 [-1, 64, 56, 56] 9999"
                )
            },
            "has no shapes of its layers",
        ),
        ({"summary": "x" * (50 << 20)}, "too long"),
        (
            {"summary": "Net(\n  (a): Linear(in_features=1, out_features=1, bias=True)\n)\n"},
            "has no shapes of its layers",
        ),
    ],
)
def test_what_it_cannot_tell_it_names_and_does_not_guess(
    changes: dict[str, object], said: str
) -> None:
    with pytest.raises(BadSummary, match=said):
        Summary().estimate(replace(described(CNN), **changes))


def test_an_absurd_size_asks_for_a_whole_device() -> None:
    vast = CNN.replace("112, 112", "99999999, 99999999")
    assert memory(described(vast)) == WHOLE_DEVICE_MIB


# ------------------------------------------------------------------ properties


KINDS = ("Conv2d", "BatchNorm2d", "ReLU", "ReLU6", "MaxPool2d", "AvgPool2d", "Dropout", "Linear",
         "Block", "Flatten", "LSTM", "Upsample", "SEModule", "Softmax", "Embedding")  # fmt: skip
SIZES = st.lists(st.integers(1, 64), max_size=4).map(tuple)
ROWS = st.lists(
    st.tuples(st.sampled_from(KINDS), SIZES, st.integers(0, 10_000)), min_size=1, max_size=12
)


@settings(max_examples=some(60))
@given(rows=ROWS, batch=st.integers(1, 64))
def test_any_table_gets_a_figure_that_grows_with_the_batch(
    rows: list[tuple[str, tuple[int, ...], int]], batch: int
) -> None:
    job = described(table(*rows), batch_size=batch)
    few = told_of(job)
    if few:
        many = memory(replace(job, batch_size=8 * batch))
        # By one segment of the allocator it may fall: what fits a cached block changes with sizes.
        assert CONTEXT_MIB < few[0].value <= many + LARGE_SEGMENT / 2**20


@pytest.mark.parametrize("name", ["adam", "AdamW", "sgd", "RMSprop", "momentum", "adagrad", "Lion"])
def test_the_optimizers_that_are_known(name: str) -> None:
    assert optimizer(name) is not None


# ------------------------------------------------------------------ against the published


def as_submitted(name: str) -> Description:
    job_file = read_job_file((JOBS / name).read_bytes(), name, {})
    summaries = {path.name.lower(): path for path in JOBS.glob("*.model")}
    summary = summaries.get((job_file.options.model_summary or "").lower())
    return describe(dataclasses.replace(job_file, summary=summary.read_text() if summary else None))


@pytest.mark.parametrize("first", ["(a): Dropout(p=0.1, inplace=False)", "(a): ReLU()"])
def test_what_stands_before_the_first_layer_costs_nothing(first: str) -> None:
    before = BERT.replace("(\n", f"(\n  {first}\n", 1)
    job = described(BERT, sequence_length=128)
    assert memory(described(before, sequence_length=128)) == memory(job)


@pytest.mark.skipif(not JOBS.is_dir(), reason="the published job files are not here")
def test_the_published_cnn_jobs() -> None:
    """MobileNet's CIFAR jobs name EfficientNet's summary and MNIST's is of another model."""
    off = []
    for path in sorted(JOBS.glob("*.rad")):
        job = as_submitted(path.name)
        measured = job.published.get("measured")
        told = told_of(job)
        if told and measured and "mobilenet_cifar" not in path.name and "mnist" not in path.name:
            off.append(abs(told[0].value - measured) / measured)
    assert len(off) >= 30
    assert statistics.mean(off) < 0.04
    assert statistics.median(off) < 0.025


@pytest.mark.skipif(not JOBS.is_dir(), reason="the published job files are not here")
@pytest.mark.parametrize("name", ["BERT_base", "BERT_large", "gpt2_large_2", "xlnet_base_cased_2"])
def test_the_published_transformers_at_512_tokens(name: str) -> None:
    job = as_submitted(f"{name}.rad")
    assert memory(replace(job, sequence_length=512)) == pytest.approx(
        job.published["measured"], rel=0.15
    )

"""`print(model)`: nested modules, annotated or not, equal neighbours printed once."""

from __future__ import annotations

import pytest

from radrm.estimators.summaries.arguments import parameters_of
from radrm.estimators.summaries.layers import Form, Layer
from radrm.estimators.summaries.read import read_summary
from radrm.estimators.summaries.text import MAX_LAYERS, BadSummary

MODEL = """\
DataParallel(
  (module): Net(
    (words): Embedding(100, 8, padding_idx=0)
    (layer): ModuleList(
      (0-1): 2 x Block(
        (dense): Linear(in_features=8, out_features=8, bias=True)
        (conv): Conv1D(nf=4, nx=8)
        (norm): LayerNorm((8,), eps=1e-12, elementwise_affine=True)
        (nothing): None
      )
    )
    (drop): Dropout(p=0.1, inplace=False)
  )
)
"""
ANNOTATED = """\
Net(
  (words): Embedding(100, 8), 800 params
  (attn): Attention(
    (c_attn): Conv1D(), 36 params
  ), 50 params
), 850 params
=======================================================================
Total params: 850
Trainable params: 850
Non-trainable params: 0
-----------------------------------------------------------------------
"""
# fmt: off
COUNTS = [
    ("Linear", {"in_features": "8", "out_features": "4", "bias": "False"}, 32),
    ("NonDynamicallyQuantizableLinear", {"in_features": "8", "out_features": "4"}, 36),
    ("Conv2d", {"in_channels": "8", "out_channels": "4", "kernel_size": "(3, 3)",
                "groups": "2"}, 8 * 4 * 9 // 2 + 4),
    ("BatchNorm2d", {"num_features": "4"}, 8),
    ("BatchNorm2d", {"num_features": "4", "affine": "False"}, 0),
    ("LlamaRMSNorm", {"normalized_shape": "(16,)"}, 16),
    ("LayerNorm", {"normalized_shape": "(16,)", "bias": "False"}, 16),
    ("LSTM", {"input_size": "10", "hidden_size": "5"}, 4 * 5 * (10 + 5 + 2)),
    ("LSTM", {"input_size": "10", "hidden_size": "5", "num_layers": "2",
              "bidirectional": "True"}, 2 * 20 * (10 + 5 + 2 + 10 + 5 + 2)),
    ("Bilinear", {"in1_features": "2", "in2_features": "3", "out_features": "5"}, 35),
    ("Conv1D", {}, None),
    ("Dropout", {"p": "0.1"}, None),
]
# fmt: on


def test_the_modules_and_their_parameters() -> None:
    found = read_summary(MODEL)
    block = 8 * 8 + 8 + 8 * 4 + 4 + 16
    assert found.form is Form.REPR
    assert [(each.name, each.kind, each.depth) for each in found.layers[:5]] == [
        ("", "DataParallel", 0),
        ("module", "Net", 1),
        ("words", "Embedding", 2),
        ("layer", "ModuleList", 2),
        ("0", "Block", 3),
    ]
    assert [each.name for each in found.layers if each.kind == "Block"] == ["0", "1"]
    assert found.parameters == 800 + 2 * block
    assert found.layers[2].attributes["padding_idx"] == "0"
    assert found.complete and not found.problems


def test_annotations_tell_what_arguments_do_not() -> None:
    found = read_summary(ANNOTATED)
    assert [(each.kind, each.parameters) for each in found.layers] == [
        ("Net", 0),
        ("Embedding", 800),
        ("Attention", 14),
        ("Conv1D", 36),
    ]
    assert (found.parameters, found.trainable, found.problems) == (850, 850, ())


def test_without_annotations_a_bare_conv1d_is_named() -> None:
    found = read_summary("Net(\n  (c_attn): Conv1D()\n)\n")
    assert found.problems == ("line 2: Conv1D does not say how many parameters it has",)


@pytest.mark.parametrize(("kind", "attributes", "count"), COUNTS)
def test_parameters_follow_from_arguments(
    kind: str, attributes: dict[str, str], count: int | None
) -> None:
    assert parameters_of(kind, attributes) == count


def test_a_log_around_it_and_a_total_that_contradicts() -> None:
    found = read_summary(f"2026-01-01 INFO loading\nmodel = {ANNOTATED}done\n")
    assert found.layers == read_summary(ANNOTATED).layers
    wrong = read_summary(ANNOTATED.replace("Total params: 850", "Total params: 851"))
    assert wrong.parameters == 850
    assert wrong.trainable is None
    assert "850 parameters, the printed total is 851" in wrong.problems[0]


def test_what_is_cut_off_says_so() -> None:
    found = read_summary(MODEL[: MODEL.index("(norm)")])
    assert not found.complete
    assert "cut off" in found.problems[-1]


@pytest.mark.parametrize(
    "text",
    [
        "Net(\n  (0-9): 999999999 x Block(\n    (a): ReLU()\n  )\n)\n",
        "Net(\n" + "  (a): Net(\n" * 1000 + ")\n" * 1001,
        "Net(\n" + "  (a): ReLU()\n" * (MAX_LAYERS + 1) + ")\n",
    ],
)
def test_too_many_modules_are_refused(text: str) -> None:
    with pytest.raises(BadSummary, match="too many to be read"):
        read_summary(text)


def test_shapes_are_not_made_up() -> None:
    assert all(each.shapes == () for each in read_summary(MODEL).layers)
    assert Layer("ReLU").elements == 0

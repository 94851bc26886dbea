"""Model summaries that users save, in every form, up to an estimate from each."""

from __future__ import annotations

from proofs.fuzz.judging import Target
from radrm.core.records import JobSpec
from radrm.estimators.gpumemnet.estimator import GPUMemNet
from radrm.estimators.horus import Horus
from radrm.estimators.interface import Description
from radrm.estimators.summaries.read import read_summary
from radrm.estimators.summary import Summary
from radrm.estimators.trace import Trace
from radrm.estimators.traces import Traced
from radrm.structs import replace
from tests.estimators.summary_texts import BERT

_TORCHSUMMARY = """----------------------------------------------------------------
        Layer (type)               Output Shape         Param #
================================================================
            Conv2d-1         [-1, 64, 32, 32]           1,792
       BatchNorm2d-2         [-1, 64, 32, 32]             128
              ReLU-3         [-1, 64, 32, 32]               0
              LSTM-4     [[-1, 5, 20], [-1, 20]]        3,360
            Linear-5                   [-1, 10]         650
================================================================
Total params: 5,930
Trainable params: 5,930
Non-trainable params: 0
----------------------------------------------------------------
Input size (MB): 0.01
Params size (MB): 0.02
"""
_TORCHINFO = """==========================================================================
Layer (type:depth-idx)                   Output Shape              Param #
==========================================================================
ResNet                                   [8, 10]                   --
├─Conv2d: 1-1                            [8, 64, 32, 32]           1,728
├─Sequential: 1-2                        [8, 64, 32, 32]           --
│    └─BatchNorm2d: 2-1                  [8, 64, 32, 32]           128
│    └─ReLU: 2-2                         [8, 64, 32, 32]           --
├─Linear: 1-3                            [8, 10]                   650
==========================================================================
Total params: 2,506
Trainable params: 2,506
Non-trainable params: 0
"""
_KERAS = """Model: "sequential"
_________________________________________________________________
 Layer (type)                Output Shape              Param #
=================================================================
 conv2d (Conv2D)             (None, 26, 26, 32)        320
 flatten (Flatten)           (None, 21632)             0
 dense (Dense)               (None, 10)                216330
=================================================================
Total params: 216,650
Trainable params: 216,650
Non-trainable params: 0
"""
_KERAS_DRAWN = """┏━━━━━━━━━━━━━━━━━━━━┳━━━━━━━━━━━━━━━━━━━━━━━━┳━━━━━━━━━━━━━━━┓
┃ Layer (type)       ┃ Output Shape           ┃       Param # ┃
┡━━━━━━━━━━━━━━━━━━━━╇━━━━━━━━━━━━━━━━━━━━━━━━╇━━━━━━━━━━━━━━━┩
│ conv2d (Conv2D)    │ (None, 26, 26, 32)     │           320 │
├────────────────────┼────────────────────────┼───────────────┤
│ dense (Dense)      │ (None, 10)             │       216,330 │
└────────────────────┴────────────────────────┴───────────────┘
 Total params: 216,650 (846.29 KB)
 Trainable params: 216,650 (846.29 KB)
"""
_SMALL_BERT = BERT.replace("(0-3): 4 x ", "(0): ")
_TRACED = Traced(1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8, guesses=("batch size: 8",)).to_text()

DESCRIPTION = Description(
    spec=JobSpec(name="a", user="ann", uid=1000),
    batch_size=64,
    sequence_length=128,
    input_shape=(3, 32, 32),
)


def _summary(text: str) -> None:
    read_summary(text, 8)


def _estimate(text: str) -> None:
    job = replace(DESCRIPTION, summary=text)
    for estimator in (Summary(), Horus(), GPUMemNet()):
        for each in estimator.estimate(job):
            assert 0 < each.value <= each.upper < float("inf"), each


def _traced(text: str) -> None:
    traced = Traced.from_text(text)
    assert traced is None or all(map(str.isprintable, traced.guesses))
    for each in Trace().estimate(replace(DESCRIPTION, trace=text)):
        assert 0 <= each.value <= each.upper < float("inf"), each


TARGETS = (
    Target(
        "model-summary",
        (
            *(_TORCHSUMMARY, _TORCHINFO, _KERAS, _KERAS_DRAWN, BERT),
            BERT.replace("bias=True)", "bias=True), 65,792 params", 2),
        ),
        _summary,
        most=1 << 20,
    ),
    Target(
        "summary-estimate", (_TORCHSUMMARY, _TORCHINFO, _KERAS, _SMALL_BERT), _estimate, part=0.2
    ),
    Target("traced-text", (_TRACED, f"{_TORCHSUMMARY}\n{_TRACED}"), _traced, most=1 << 20),
)

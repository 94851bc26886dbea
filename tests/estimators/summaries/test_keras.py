"""Keras's summaries: drawn and plain, cells over several lines, several inputs."""

from __future__ import annotations

import pytest

from radrm.estimators.summaries.layers import Form, Layer
from radrm.estimators.summaries.read import read_summary
from radrm.estimators.summaries.text import BadSummary

DRAWN = """\
Model: "functional"
┏━━━━━━━━━━━━━━━━━━━━━┳━━━━━━━━━━━━━━━━━━━┳━━━━━━━━━━━━┳━━━━━━━━━━━━━━━━━━━┓
┃ Layer (type)        ┃ Output Shape      ┃    Param # ┃ Connected to      ┃
┡━━━━━━━━━━━━━━━━━━━━━╇━━━━━━━━━━━━━━━━━━━╇━━━━━━━━━━━━╇━━━━━━━━━━━━━━━━━━━┩
│ input_layer_1       │ (None, 8, 8, 3)   │          0 │ -                 │
│ (InputLayer)        │                   │            │                   │
├─────────────────────┼───────────────────┼────────────┼───────────────────┤
│ conv2d (Conv2D)     │ (None, 6, 6, 32)  │        896 │ input_layer_1[0]… │
├─────────────────────┼───────────────────┼────────────┼───────────────────┤
│ lstm (LSTM)         │ [(None, 4),       │      1,344 │ conv2d[0][0],     │
│                     │ (None, 4)]        │            │ conv2d[0][1]      │
└─────────────────────┴───────────────────┴────────────┴───────────────────┘
 Total params: 6,722 (26.26 KB)
 Trainable params: 2,240 (8.75 KB)
 Non-trainable params: 0 (0.00 B)
 Optimizer params: 4,482 (17.51 KB)
"""
PLAIN = """\
Model: "sequential"
_________________________________________________________________
 Layer (type)                Output Shape              Param #
=================================================================
 conv2d (Conv2D)             (None, 26, 26, 32)        320

 max_pooling2d (MaxPooling2D  (None, 13, 13, 32)       0
 )

 dense (Dense)               (None, 10)                54090

=================================================================
Total params: 54,410
Trainable params: 54,410
Non-trainable params: 0
_________________________________________________________________
"""
LAYERS = (
    Layer("Conv2D", "conv2d", shapes=((26, 26, 32),), parameters=320),
    Layer("MaxPooling2D", "max_pooling2d", shapes=((13, 13, 32),)),
    Layer("Dense", "dense", shapes=((10,),), parameters=54_090),
)


def test_the_drawn_table() -> None:
    found = read_summary(DRAWN)
    assert found.form is Form.KERAS
    assert found.layers == (
        Layer("InputLayer", "input_layer_1", shapes=((8, 8, 3),)),
        Layer("Conv2D", "conv2d", shapes=((6, 6, 32),), parameters=896),
        Layer("LSTM", "lstm", shapes=((4,), (4,)), parameters=1344),
    )
    assert (found.parameters, found.trainable, found.batch_size) == (2240, 2240, None)
    assert found.inputs == ((8, 8, 3),)
    assert found.complete and not found.problems, "the optimizer's own are not the layers'"


def test_the_same_in_ascii() -> None:
    drawn = str.maketrans("┏┳┓┡╇┩├┼┤└┴┘━─┃│…", "+++++++++++++" + "-" + "||.")
    assert len(drawn) == 17
    text = DRAWN.translate(drawn).replace("━", "-")
    assert read_summary(text).layers == read_summary(DRAWN).layers


def test_the_plain_table() -> None:
    found = read_summary(PLAIN)
    assert found.layers == LAYERS
    assert found.complete and not found.problems
    assert read_summary(PLAIN, 32).batch_size == 32


def test_a_plain_table_with_rules_between_its_rows_and_what_is_connected() -> None:
    rule = "_" * 98
    text = (
        'Model: "model"\n'
        f"{rule}\nLayer (type)                    Output Shape         Param #     Connected to\n"
        f"{'=' * 98}\n"
        "input_1 (InputLayer)            [(None, 784)]        0\n"
        f"{rule}\n"
        "dense (Dense)                   (None, 64)           50240       input_1[0][0]\n"
        "                                                                 input_1[0][1]\n"
        f"{'=' * 98}\nTotal params: 50,240\n{rule}\n"
    )
    found = read_summary(text)
    assert found.layers == (
        Layer("InputLayer", "input_1", shapes=((784,),)),
        Layer("Dense", "dense", shapes=((64,),), parameters=50_240),
    )
    assert found.complete and found.inputs == ((784,),)


def test_a_batch_size_of_its_own() -> None:
    assert read_summary(PLAIN.replace("(None, ", "(16, ")).batch_size == 16
    assert read_summary(PLAIN.replace("(None, 10)", "(16, 10)  ")).batch_size is None


def test_an_output_of_unknown_size_is_named() -> None:
    found = read_summary(PLAIN.replace("(None, 26, 26, 32)", "(None, None, None, 32)"))
    assert found.problems == ("line 5: Conv2D conv2d has an output of unknown size",)


@pytest.mark.parametrize("text", [PLAIN, DRAWN])
def test_a_table_that_is_cut_off_says_so(text: str) -> None:
    found = read_summary(text[: text.index("Total")])
    assert found.layers
    whole = not found.problems
    assert not whole


@pytest.mark.parametrize("text", ["┃Layer (type)\n┃\n┃", "┃Layer (type)\n┃\n \n┃ a (B)"])
def test_a_header_without_a_column_is_none(text: str) -> None:
    with pytest.raises(BadSummary):
        read_summary(text)

"""torchsummary's table: what is one is read whole, what is not is no table."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radrm.estimators.torchsummary import MAX_CHARS, Layer, Summary, read_table

TABLE = """\
----------------------------------------------------------------
        Layer (type)               Output Shape         Param #
================================================================
            Conv2d-1         [-1, 64, 112, 112]           9,408
              LSTM-2     [[-1, 5, 20], [-1, 20]]           3,360
              Tuple-3    [[[-1, 5], [-1, 2]], [-1, 1]]         0
              Empty-4                       []               0
            Linear-5                  [-1, 1000]       2,049,000
================================================================
Total params: 2,061,768
Trainable params: 2,061,768
Non-trainable params: 0
----------------------------------------------------------------
Input size (MB): 0.57
Forward/backward pass size (MB): 1,286.56
Params size (MB): 97
Estimated Total Size (MB): 384.62
----------------------------------------------------------------"""


def row(text: str) -> str:
    """A table of one row."""
    rule = "=" * 64
    return f"Layer (type)   Output Shape   Param #\n{rule}\n{text}\n{rule}\nTotal params: 1\n"


def test_a_table_is_read_whole() -> None:
    assert read_table(TABLE) == Summary(
        layers=(
            Layer("Conv2d", ((-1, 64, 112, 112),), 9408),
            Layer("LSTM", ((-1, 5, 20), (-1, 20)), 3360),
            Layer("Tuple", ((-1, 5), (-1, 2), (-1, 1)), 0),
            Layer("Empty", (), 0),
            Layer("Linear", ((-1, 1000),), 2_049_000),
        ),
        parameters=2_061_768,
        input_mib=0.57,
        forward_backward_mib=1286.56,
        parameters_mib=97.0,
    )


def test_elements_are_those_of_all_outputs_of_one_sample() -> None:
    found = read_table(TABLE)
    assert found is not None
    assert [layer.elements for layer in found.layers] == [64 * 112 * 112, 120, 8, 0, 1000]


def test_text_around_a_table_and_windows_line_ends_do_not_matter() -> None:
    around = f"loading...\nTotal params: 5\n{TABLE}\nTotal params: 7\ndone\n"
    assert read_table(around) == read_table(TABLE)
    assert read_table(TABLE.replace("\n", "\r\n")) == read_table(TABLE)


@pytest.mark.parametrize(
    "shapes, size",
    [
        (["[-1, 3]", "[-1, 4]"], None),
        (["[32, 3]", "[32, 4]"], 32),
        (["[32, 3]", "[64, 4]"], None),
        (["[32, 3]", "[-1, 4]"], None),
        (["[0, 3]"], None),
        (["[]"], None),
    ],
)
def test_the_batch_size_that_a_table_was_made_for(shapes: list[str], size: int | None) -> None:
    found = read_table(row("\n".join(f"Linear-1 {shape} 1" for shape in shapes)))
    assert found is not None
    assert found.batch_size == size


@pytest.mark.parametrize(
    "text",
    [
        "",
        "BertModel(\n  (dense): Linear(in_features=768), 1 params\n)\nTotal params: 1\n",
        row(""),
        row("Linear-1 [-1, 3]"),
        row("Linear-1 [-1, 3] many"),
        row("Linear-1 [-1, 3] -5"),
        row("Linear-1 [-1, 3.5] 5"),
        row("Linear-1 [-1, -3] 5"),
        row("Linear-1 [-1, 3 5"),
        row("Linear-1 [-1, 3, [-1, 4]] 5"),
        row("Linear-1 torch.Size([-1, 3]) 5"),
        row("Linear [-1, 3] 5"),
        row("-1 [-1, 3] 5"),
        row("conv2d (Conv2D) (None, 26, 26, 32) 320"),
        row("├─Conv2d: 1-1 [1, 64, 112, 112] 9,408"),
        row("Linear-1 [-1, ٣] 5"),
        row(f"Linear-1 [-1, {'9' * 16}] 5"),
        row(f"Linear-1 [-1{', 2' * 13}] 5"),
        row(f"Linear-1 [-1, 3] {' ' * 3000} 5"),
        row("Linear-1 [-1, 3] 5").replace("Total", "Grand"),
        row("Linear-1 [-1, 3] 5").replace(": 1", ": 1e3"),
        row("Linear-1 [-1, 3] 5").replace("Param #\n", "Param #\n\n"),
        TABLE[: TABLE.rindex("====")],
        TABLE[: TABLE.index("LSTM")],
        TABLE + " " * MAX_CHARS,
    ],
)
def test_what_is_not_a_whole_table_is_none(text: str) -> None:
    assert read_table(text) is None


@pytest.mark.parametrize("figure", ["", "nan", "inf", "1e9", "-1", "1.5.5", "1.5,5", "9" * 400])
def test_a_size_that_cannot_be_read_is_left_out(figure: str) -> None:
    found = read_table(row("Linear-1 [-1, 3] 5") + f"Input size (MB): {figure}\n")
    assert found is not None
    assert found.input_mib is None


@given(st.text(alphabet="[]-,1 9\n=:x٣", max_size=300))
def test_any_text_between_the_lines_is_read_or_is_none(text: str) -> None:
    for whole in (text, row(text), TABLE + text):
        found = read_table(whole)
        if found is not None:
            assert all(layer.elements >= 0 and layer.kind for layer in found.layers)
            assert found.parameters >= 0


@pytest.mark.parametrize(
    "piece", ["[", "]", "[]", "[-1, ", "[[-1, 3], ", "9", ",", "-", "x-1 [", " ", "=", "\n"]
)
def test_hostile_text_costs_no_more_than_its_length(piece: str) -> None:
    """Each piece, a megabyte of it, in one line and in many: a slow reader would hang here."""
    many = piece * (900_000 // len(piece))
    lines = "\n".join([f"L-1 {piece * (900 // len(piece))}"] * 900)
    for text in (many, row(many), row(f"Linear-1 [-1, 3] 5\n{lines}"), TABLE + many):
        read_table(text)

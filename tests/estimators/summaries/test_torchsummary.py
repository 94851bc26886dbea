"""torchsummary's table: rows are read one by one, and what cannot be read is named."""

from __future__ import annotations

import pytest

from radrm.estimators.summaries.layers import Form, Layer
from radrm.estimators.summaries.read import read_summary
from radrm.estimators.summaries.text import BadSummary

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


def table(*rows: str, total: int = 1) -> str:
    rule = "=" * 64
    text = "\n".join(rows)
    return f"Layer (type)   Output Shape   Param #\n{rule}\n{text}\n{rule}\nTotal params: {total}\n"


def test_a_table_is_read_whole() -> None:
    found = read_summary(TABLE)
    assert found.form is Form.TORCHSUMMARY
    assert found.layers == (
        Layer("Conv2d", "Conv2d-1", shapes=((64, 112, 112),), parameters=9408),
        Layer("LSTM", "LSTM-2", shapes=((5, 20), (20,)), parameters=3360),
        Layer("Tuple", "Tuple-3", shapes=((5,), (2,), (1,))),
        Layer("Empty", "Empty-4"),
        Layer("Linear", "Linear-5", shapes=((1000,),), parameters=2_049_000),
    )
    assert [layer.elements for layer in found.layers] == [64 * 112 * 112, 120, 8, 0, 1000]
    assert (found.parameters, found.trainable, found.batch_size) == (2_061_768, 2_061_768, None)
    assert found.input_mib == 0.57
    assert found.complete and not found.problems


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("\n", "\r\n"),
        lambda text: f"$ python show.py\nloading...\nTotal params: 5\n{text}\nTotal params: 7\n$",
        lambda text: text.replace("Conv2d-1", "\x1b[1;32mConv2d-1\x1b[0m"),
        lambda text: text.replace("        ", "\t"),
        lambda text: text.replace("Layer (type)", "LAYER (TYPE)").replace("Total", "TOTAL"),
    ],
)
def test_what_surrounds_and_decorates_a_table_does_not_matter(change: object) -> None:
    assert callable(change)
    assert read_summary(change(TABLE)) == read_summary(TABLE)


@pytest.mark.parametrize(
    "shapes, size",
    [
        (["[-1, 3]", "[-1, 4]"], None),
        (["[32, 3]", "[32, 4]"], 32),
        (["[32, 3]", "[64, 4]"], None),
        (["[32, 3]", "[-1, 4]"], None),
        (["[0, 3]"], None),
    ],
)
def test_the_batch_size_is_the_tables_unless_the_job_has_its_own(
    shapes: list[str], size: int | None
) -> None:
    text = table(*(f"Linear-1 {shape} 1" for shape in shapes), total=len(shapes))
    assert read_summary(text).batch_size == size
    assert read_summary(text, 7).batch_size == 7


@pytest.mark.parametrize(
    "row",
    [
        "Linear-1 [-1, 3]",
        "Linear-1 [-1, 3] many",
        "Linear-1 [-1, 3] -5",
        "Linear-1 [-1, 3.5] 5",
        "Linear-1 [-1, -3] 5",
        "Linear-1 [-1, 3 5",
        "Linear-1 [-1, 3, [-1, 4]] 5",
        "Linear-1 torch.Size([-1, 3]) 5",
        "Linear [-1, 3] 5",
        "-1 [-1, 3] 5",
        "Linear-1 [-1, ٣] 5",
        f"Linear-1 [-1, {'9' * 16}] 5",
        f"Linear-1 [-1{', 2' * 13}] 5",
        f"Linear-1 [-1, 3] {' ' * 5000} 5",
    ],
)
def test_a_row_that_cannot_be_read_is_named_and_the_others_stay(row: str) -> None:
    found = read_summary(table("ReLU-0 [-1, 3] 0", row, "ReLU-2 [-1, 3] 0"))
    assert [layer.name for layer in found.layers] == ["ReLU-0", "ReLU-2"]
    assert not found.complete
    assert found.problems[0].startswith("line 4: no layer can be read from '")
    with pytest.raises(BadSummary, match="line 1: no layer can be read below this header"):
        read_summary(table(row))


def test_a_table_that_is_cut_off_says_so() -> None:
    found = read_summary(TABLE[: TABLE.rindex("====")].rstrip("="))
    assert len(found.layers) == 5
    assert not found.complete
    assert found.problems == ("line 2: the summary that begins here is cut off before its end",)


def test_a_total_that_contradicts_the_layers_is_told() -> None:
    found = read_summary(table("Linear-1 [-1, 3] 5", total=6))
    assert found.parameters == 5
    assert found.complete
    assert "have 5 parameters, the printed total is 6" in found.problems[0]


def test_the_first_whole_one_of_several_is_taken() -> None:
    cut = "Layer (type)   Output Shape   Param #\n====\nLinear-1 [-1, 3] 5\n\n"
    whole = table("ReLU-1 [-1, 4] 0", total=0)
    assert read_summary(cut + whole + TABLE).layers == read_summary(whole).layers
    assert read_summary(TABLE + "\n" + whole).layers == read_summary(TABLE).layers


@pytest.mark.parametrize(
    "piece",
    ["[", "]", "[]", "[-1, ", "[[-1, 3], ", "9", ",", "-", "x-1 [", " ", "=", "\n", "\x1b["],
)
def test_hostile_text_costs_no_more_than_its_length(piece: str) -> None:
    """Each piece, half a megabyte of it, in one line and in many: a slow reader would hang."""
    many = piece * (500_000 // len(piece))
    lines = "\n".join([f"L-1 {piece * (900 // len(piece))}"] * 500)
    for text in (many, table(many), table(f"Linear-1 [-1, 3] 5\n{lines}"), TABLE + many):
        try:
            read_summary(text)
        except BadSummary:
            continue

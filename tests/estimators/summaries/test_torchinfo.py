"""torchinfo's tree: any columns, any row settings, cut off at any depth."""

from __future__ import annotations

import pytest

from radrm.estimators.summaries.layers import Form
from radrm.estimators.summaries.read import read_summary

RULE = "=" * 90
TREE = f"""\
{RULE}
Layer (type:depth-idx)                   Output Shape              Param #
{RULE}
Net                                      [8, 10]                   7
├─Conv2d: 1-1                            [8, 64, 32, 32]           9,408
├─Sequential: 1-2                        [8, 64, 16, 16]           --
│    └─Block: 2-1                        [8, 64, 16, 16]           --
│    │    └─ReLU: 3-1                    [8, 64, 16, 16]           --
├─Linear: 1-3                            [8, 10]                   (650)
├─Linear: 1-4                            [8, 10]                   (recursive)
├─Embedding: 1-5                         [1, 12]                   24
{RULE}
Total params: 10,089
Trainable params: 9,439
Non-trainable params: 650
Total mult-adds (M): 1.19
{RULE}
Input size (MB): 0.39
{RULE}
"""
WIDE = f"""\
{RULE}
Layer (type (var_name):depth-idx)   Input Shape      Output Shape     Param #   Param %   \
Kernel Shape   Mult-Adds   Trainable
{RULE}
Net (Net)                           [8, 3, 64, 64]   [8, 10]          --             --   \
--             --          True
├─Conv2d (conv1): 1-1               [8, 3, 64, 64]   [8, 4, 32, 32]   588       98.00%   \
[7, 7]         77,070      True
├─MaxPool2d (pool): 1-2             [8, 4, 32, 32]   [8, 4, 16, 16]   --             --   \
3              --          --
├─Frozen (head): 1-3                [8, 4, 16, 16]   [8, 10]          12         2.00%   \
--             --          False
{RULE}
Total params: 600
{RULE}
"""


def test_the_tree_is_read() -> None:
    found = read_summary(TREE)
    assert found.form is Form.TORCHINFO
    assert [(each.kind, each.depth, each.leaf, each.parameters) for each in found.layers] == [
        ("Net", 0, False, 7),
        ("Conv2d", 1, True, 9408),
        ("Sequential", 1, False, 0),
        ("Block", 2, False, 0),
        ("ReLU", 3, True, 0),
        ("Linear", 1, True, 650),
        ("Linear", 1, True, 0),
        ("Embedding", 1, True, 24),
    ]
    assert found.layers[1].shapes == ((64, 32, 32),)
    assert found.layers[-1].shapes == ((1, 12),), "a table of positions has no batch dimension"
    assert found.layers[5].attributes == {"trainable": "False"}
    assert found.layers[6].attributes == {"recursive": "True"}
    assert (found.parameters, found.trainable, found.batch_size) == (10_089, 9439, 8)
    assert found.complete and not found.problems


def test_every_column_in_its_place() -> None:
    found = read_summary(WIDE)
    conv = found.layers[1]
    assert (conv.name, conv.inputs, conv.shapes) == ("conv1", ((3, 64, 64),), ((4, 32, 32),))
    assert conv.attributes == {"kernel_size": "[7, 7]"}
    assert found.layers[3].attributes == {"trainable": "False"}
    assert found.inputs == ((3, 64, 64),)
    assert (found.parameters, found.batch_size, found.problems) == (600, 8, ())


def test_ascii_and_no_depths_tell_the_same_tree() -> None:
    ascii_only = TREE.replace("│", "|").replace("├─", "+ ").replace("└─", "+ ")
    assert read_summary(ascii_only).layers == read_summary(TREE).layers
    plain = TREE.replace("(type:depth-idx)", "(type)          ")
    for index in ("1-1", "1-2", "1-3", "1-4", "1-5", "2-1", "3-1"):
        plain = plain.replace(f": {index}", "     ")
    assert read_summary(plain).layers == read_summary(TREE).layers


def test_a_tree_without_shapes_is_read_too() -> None:
    text = (
        f"{RULE}\nLayer (type:depth-idx)      Param #\n{RULE}\nNet      --\n"
        f"├─Linear: 1-1       650\n{RULE}\nTotal params: 650\n{RULE}\n"
    )
    found = read_summary(text)
    assert [(each.kind, each.shapes, each.parameters) for each in found.layers] == [
        ("Net", (), 0),
        ("Linear", (), 650),
    ]


@pytest.mark.parametrize(
    "cells", ["[8, 64", "[8, 64] many", "[8, 64]", "8 64 9", "[8, x] 9", "[8]] 9"]
)
def test_a_row_that_cannot_be_read_is_named(cells: str) -> None:
    bad = TREE.replace("[8, 10]                   (650)", cells)
    found = read_summary(bad)
    assert len(found.layers) == 7
    assert not found.complete
    assert found.problems[0].startswith("line 9: no layer can be read from '├─Linear: 1-3")

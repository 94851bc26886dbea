"""Summaries of three small models, and what `summary` says of one."""

from __future__ import annotations

from radrm.core.records import Estimate, JobSpec
from radrm.core.words import Quantity
from radrm.estimators.interface import Description
from radrm.estimators.summaries.text import BadSummary
from radrm.estimators.summary import Summary
from radrm.structs import replace

SPEC = JobSpec(name="a", user="ann", uid=1000)
MIB = 2**20


def table(*rows: tuple[str, tuple[int, ...], int]) -> str:
    lines = [
        f"{kind}-{place} {[-1, *shape]} {count:,}"
        for place, (kind, shape, count) in enumerate(rows, 1)
    ]
    total = sum(count for _, _, count in rows)
    rule = "=" * 64
    return "\n".join(
        ["Layer (type)  Output Shape  Param #", rule, *lines, rule, f"Total params: {total:,}", ""]
    )


MLP = table(
    ("Linear", (4096,), 1024 * 4096 + 4096), ("ReLU", (4096,), 0), ("Linear", (10,), 40_970)
)
CNN = table(
    ("Conv2d", (64, 112, 112), 9408),
    ("BatchNorm2d", (64, 112, 112), 128),
    ("ReLU", (64, 112, 112), 0),
    ("MaxPool2d", (64, 56, 56), 0),
    ("Conv2d", (64, 56, 56), 36_864),
    ("BatchNorm2d", (64, 56, 56), 128),
    ("ReLU", (64, 56, 56), 0),
    ("BasicBlock", (64, 56, 56), 0),
    ("AdaptiveAvgPool2d", (64, 1, 1), 0),
    ("Linear", (1000,), 65_000),
)
BERT = """\
BertForMaskedLM(
  (bert): BertModel(
    (embeddings): BertEmbeddings(
      (word_embeddings): Embedding(5000, 256, padding_idx=0)
      (position_embeddings): Embedding(512, 256)
      (LayerNorm): LayerNorm((256,), eps=1e-12, elementwise_affine=True)
      (dropout): Dropout(p=0.1, inplace=False)
    )
    (encoder): BertEncoder(
      (layer): ModuleList(
        (0-3): 4 x BertLayer(
          (attention): BertAttention(
            (self): BertSdpaSelfAttention(
              (query): Linear(in_features=256, out_features=256, bias=True)
              (key): Linear(in_features=256, out_features=256, bias=True)
              (value): Linear(in_features=256, out_features=256, bias=True)
            )
            (output): BertSelfOutput(
              (dense): Linear(in_features=256, out_features=256, bias=True)
              (LayerNorm): LayerNorm((256,), eps=1e-12, elementwise_affine=True)
              (dropout): Dropout(p=0.1, inplace=False)
            )
          )
          (intermediate): BertIntermediate(
            (dense): Linear(in_features=256, out_features=1024, bias=True)
            (intermediate_act_fn): GELUActivation()
          )
          (output): BertOutput(
            (dense): Linear(in_features=1024, out_features=256, bias=True)
            (LayerNorm): LayerNorm((256,), eps=1e-12, elementwise_affine=True)
            (dropout): Dropout(p=0.1, inplace=False)
          )
        )
      )
    )
  )
  (decoder): Linear(in_features=256, out_features=5000, bias=True)
)
"""


def described(summary: str | None, **changes: object) -> Description:
    return replace(Description(spec=SPEC, summary=summary, batch_size=64), **changes)


def told_of(job: Description) -> tuple[Estimate, ...]:
    """What it says, nothing where it says why it cannot."""
    try:
        return Summary().estimate(job)
    except BadSummary as error:
        assert len(str(error).splitlines()) == 1
        return ()


def memory(job: Description) -> float:
    told = Summary().estimate(job)
    assert len(told) == 1
    assert told[0].quantity is Quantity.MEMORY
    assert told[0].source == "summary"
    assert told[0].value == told[0].upper
    return told[0].value

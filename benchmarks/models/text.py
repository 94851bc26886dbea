"""Language models of transformers, built from their configurations with random weights.

The published files give batch sizes and layers. Not given, and taken as usual for these
models on WikiText: 512 tokens, AdamW. `layers`: fewer of them, for a try on a CPU.
"""

from __future__ import annotations

import torch

from benchmarks.models import allow_torchvision


def _tokens(batch_size: int, length: int) -> torch.Tensor:
    return torch.zeros(batch_size, length, dtype=torch.long)


def _batch(batch_size: int, length: int, masked: bool = True) -> dict[str, torch.Tensor]:
    names = ("input_ids", "attention_mask", "labels") if masked else ("input_ids", "labels")
    return {name: _tokens(batch_size, length) for name in names}


def _adamw(weights: object) -> object:
    return torch.optim.AdamW(weights)


def _made(model: torch.nn.Module, inputs: object) -> dict[str, object]:
    return {"model": model, "inputs": inputs, "optimizer": _adamw}


def _bert(batch_size: int, length: int, **sizes: int) -> object:
    allow_torchvision()
    from transformers import BertConfig, BertForMaskedLM

    config = BertConfig(vocab_size=28996, **sizes)
    return _made(BertForMaskedLM(config), _batch(batch_size, length))


def bert_base(batch_size: int = 32, sequence_length: int = 512, layers: int = 12) -> object:
    return _bert(batch_size, sequence_length, num_hidden_layers=layers)


def bert_large(batch_size: int = 8, sequence_length: int = 512, layers: int = 24) -> object:
    return _bert(
        batch_size,
        sequence_length,
        hidden_size=1024,
        num_hidden_layers=layers,
        num_attention_heads=16,
        intermediate_size=4096,
    )


def _gpt2(batch_size: int, length: int, **sizes: int) -> object:
    allow_torchvision()
    from transformers import GPT2Config, GPT2LMHeadModel

    model = GPT2LMHeadModel(GPT2Config(**sizes))
    return _made(model, _batch(batch_size, length))


def gpt2_large(batch_size: int = 8, sequence_length: int = 512, layers: int = 36) -> object:
    return _gpt2(batch_size, sequence_length, n_embd=1280, n_layer=layers, n_head=20)


def gpt2_xl(batch_size: int = 2, sequence_length: int = 512, layers: int = 48) -> object:
    return _gpt2(batch_size, sequence_length, n_embd=1600, n_layer=layers, n_head=25)


def _xlnet(batch_size: int, length: int, **sizes: int) -> object:
    allow_torchvision()
    from transformers import XLNetConfig, XLNetForSequenceClassification

    model = XLNetForSequenceClassification(XLNetConfig(vocab_size=32000, num_labels=2, **sizes))
    inputs = _batch(batch_size, length)
    inputs["labels"] = torch.zeros(batch_size, dtype=torch.long)
    return _made(model, inputs)


def xlnet_base(batch_size: int = 8, sequence_length: int = 512, layers: int = 12) -> object:
    sizes = {"d_model": 768, "n_layer": layers, "n_head": 12, "d_inner": 3072}
    return _xlnet(batch_size, sequence_length, **sizes)


def xlnet_large(batch_size: int = 4, sequence_length: int = 512, layers: int = 24) -> object:
    sizes = {"d_model": 1024, "n_layer": layers, "n_head": 16, "d_inner": 4096}
    return _xlnet(batch_size, sequence_length, **sizes)

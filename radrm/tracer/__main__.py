"""Trace the training step of a model without a GPU: `PYTHON radrm/tracer MODULE:FUNCTION`.

This folder runs in the *user's* Python (3.9 or later, with PyTorch 2.1 or later), as a
program of its own: it imports nothing of radrm, and its files import one another by their
plain names. It builds the model, runs two training steps and an evaluation step on a GPU
that is not there, and writes one JSON document to `--output`: which tensors came and went.
What the user's code prints goes where it always goes.

**What FUNCTION is.** MODULE is looked for in the current directory first. FUNCTION is
called once, with those of the keywords `batch_size`, `sequence_length` and `input_shape`
(one sample's, as a tuple) that it accepts and that the job says something of: elsewhere its
own defaults stand. It returns one of

- a module: the input is random, `batch_size` samples of `--input-shape`, and the loss is
  a cross-entropy where the output looks like classes, else the sum of the output;
- a tuple: (model, inputs), (model, inputs, targets) or (model, inputs, loss), or
  (model, inputs, targets, loss);
- a dict, or an object with attributes, of `model` and any of `inputs`, `targets`, `loss`,
  `optimizer`;
- a function without arguments: one whole training step, called twice.

`inputs` are a tensor, a tuple of positional or a dict of keyword arguments. `loss` is
called as `loss(output, targets)`, or as `loss(output)` where there are no targets. A
model whose output has a `loss`, as those of `transformers` do, needs none. `optimizer` is an
optimizer, or a function that makes one of the model's parameters. Tensors may lie on the
CPU: they are moved. `torch.cuda.is_available()` is true here.

The files, in the order in which they may import one another:
    problem    what stops a trace, in one line
    pretend    a GPU that is not there
    kernels    what CUDA kernels take for themselves while they run
    watch      storages that come and go
    factory    the user's function, found, and what it returns
    batches    batches on their way to the GPU, and the loss where none is given
    command    what the job's command says of batch size and GPUs
    guesses    what nobody says, and what is taken instead
    parallel   DataParallel and DistributedDataParallel, as GPU 0 sees them
    table      the layers' table
    step       training and evaluation steps
    probe      what a CUDA context takes: a program of its own, for a real GPU
"""

from __future__ import annotations

import os
import sys

# Before PyTorch is imported: no GPU is touched, even where there is one, and a trace
# computes nothing that threads could share.
os.environ["CUDA_VISIBLE_DEVICES"] = ""
for _name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS"):
    os.environ[_name] = "1"
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_OFFLINE"] = "1"

import argparse  # noqa: E402
import json  # noqa: E402
import time  # noqa: E402
from typing import NoReturn  # noqa: E402

from problem import Problem, in_one_line  # noqa: E402

VERSION = 1
COMMAND_VARIABLE = "RADRM_TRACED_COMMAND"
"""Holds the command's text: arguments of a process can be read by anybody."""
PRECISIONS = ("fp32", "tf32", "fp16", "bf16", "amp", "amp-bf16")


def main(argv: list[str]) -> int:
    """0 where the step was traced; 1 where not, and the document says why."""
    output = _output(argv)
    writer = os.getpid()
    started = time.monotonic()
    try:
        asked = _arguments(argv)
        document = _traced(asked)
        document["seconds"] = round(time.monotonic() - started, 3)
    except Problem as problem:
        document = {"version": VERSION, "error": str(problem)}
    except SystemExit as ended:
        line = f"the factory's code called exit({ended.code!r}); remove the call"
        document = {"version": VERSION, "error": in_one_line(line)}
    except KeyboardInterrupt:
        document = {"version": VERSION, "error": "interrupted"}
    except BaseException as error:
        line = f"{type(error).__name__}: {error}"
        document = {"version": VERSION, "error": in_one_line(line)}
    if os.getpid() != writer:
        # The user's code forked, and the child came back here.
        os._exit(1)
    _write(document, output)
    return 1 if "error" in document else 0


class _Parser(argparse.ArgumentParser):
    """What is wrong with the arguments is told in the document, as all else."""

    def error(self, message: str) -> NoReturn:
        raise Problem(in_one_line(message))


def _output(argv: list[str]) -> str:
    """Where to write, before anything can go wrong."""
    parser = argparse.ArgumentParser(prog="radrm tracer", add_help=False, allow_abbrev=False)
    parser.add_argument("--output", required=True)
    return str(parser.parse_known_args(argv)[0].output)


def _arguments(argv: list[str]) -> argparse.Namespace:
    parser = _Parser(prog="radrm tracer", allow_abbrev=False)
    parser.add_argument("factory", metavar="MODULE:FUNCTION")
    parser.add_argument("--output", required=True, help="a path, or the number of an open file")
    parser.add_argument(
        "--batch-size", type=_count, help="default: the command's, the factory's, 32"
    )
    parser.add_argument("--input-shape", type=_shape, help="of one sample, such as 3,224,224")
    parser.add_argument("--sequence-length", type=_count)
    parser.add_argument("--optimizer", help="adam, adamw, sgd, ...; default: the factory's")
    parser.add_argument("--precision", choices=PRECISIONS, help="default: fp32")
    parser.add_argument("--gradient-checkpointing", action="store_true")
    parser.add_argument("--gpus", type=_count, default=1)
    parser.add_argument(
        "--parallel",
        choices=("none", "dp", "ddp", "auto"),
        default="none",
        help="auto: as the job's command tells",
    )
    parser.add_argument(
        "--command",
        default=os.environ.pop(COMMAND_VARIABLE, ""),
        help="the text of what the job runs",
    )
    parser.add_argument(
        "--evaluation-batch", type=int, help="0: no evaluation; default: the batch size"
    )
    parser.add_argument("--summary", action="store_true", help="the layers' table, too")
    return parser.parse_args(argv)


def _traced(asked: argparse.Namespace) -> dict[str, object]:
    try:
        import torch
    except Exception as error:
        raise Problem(f"this Python cannot import torch: {in_one_line(error)}") from None
    torch.set_num_threads(1)
    import step

    return {"version": VERSION, **step.traced(asked)}


def _count(text: str) -> int:
    number = int(text)
    if not 1 <= number <= 1 << 24:
        raise argparse.ArgumentTypeError("must be from 1 to 16777216")
    return number


def _shape(text: str) -> tuple[int, ...]:
    sizes = tuple(_count(word) for word in text.replace("x", ",").split(",") if word.strip())
    if not 1 <= len(sizes) <= 8:
        raise argparse.ArgumentTypeError("must have 1 to 8 sizes, such as 3,224,224")
    return sizes


def _write(document: dict[str, object], output: str) -> None:
    """Whole or not at all: a reader of a path never sees half a document."""
    text = json.dumps(document, separators=(",", ":"))
    if output.isdigit():
        with os.fdopen(int(output), "w", encoding="utf-8") as file:
            file.write(text)
        return
    part = f"{output}.{os.getpid()}.part"
    with open(part, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(part, output)


if __name__ == "__main__":
    _status = 1
    try:
        _status = main(sys.argv[1:])
    except SystemExit as _ended:
        _status = _ended.code if isinstance(_ended.code, int) else 2
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        # Threads and exit handlers of the user's code are not waited for.
        os._exit(_status)

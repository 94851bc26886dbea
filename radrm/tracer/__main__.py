"""Trace the training step of a model without a GPU: `PYTHON radrm/tracer MODULE:FUNCTION`.

Theory of operation:

- This folder runs in the *user's* Python (3.9 or later, with PyTorch 2.1 or later), as its
  own program. It imports nothing of radrm; its files import one another by their plain names.
- It builds the model and runs two training steps and an evaluation step on a GPU that does
  not exist. The result is one JSON document in `--output`: each allocation and each free.
- A failure is the document's `error`. There is no document if the process is killed, or if
  the user's code calls `os._exit`.
- The user's code prints where it always prints. If it forks, only the first process writes.

**What FUNCTION is.** MODULE is looked for in the current directory first. FUNCTION is
called once. It gets those of the keywords `batch_size`, `sequence_length` and `input_shape`
(of one sample, a tuple) that it accepts and the job specifies; else its defaults apply. It
returns one of

- a module: the input is random, `batch_size` samples of `--input-shape`. The loss is a
  cross-entropy if the output looks like classes, else the sum of the output;
- a tuple: (model, inputs), (model, inputs, targets) or (model, inputs, loss), or
  (model, inputs, targets, loss);
- a dict, or an object with attributes, of `model` and any of `inputs`, `targets`, `loss`,
  `optimizer`;
- a function without arguments: one whole training step, called twice.

`inputs` are a tensor, a tuple of positional or a dict of keyword arguments. `loss` is
called as `loss(output, targets)`, without targets as `loss(output)`. A model whose output
has a `loss`, as in `transformers`, needs none. `optimizer` is an optimizer, or a function
that makes one from the model's parameters. Tensors on the CPU are moved to the GPU.
`torch.cuda.is_available()` is true here.

**Unmodified scripts** are traced by the same files: `site/sitecustomize.py` is their start, and
`script` has their theory of operation.

The files, in the order in which they may import one another:
    problem    an error that ends a trace, in one line
    lines      finds the user's line that a message names
    devices    lets every way to name the GPU mean the first one
    values     the values of tensors on the GPU: known ones, and made-up ones
    pretend    makes PyTorch believe in a GPU that does not exist
    kernels    the memory that CUDA kernels use while they run
    watch      records when storages are allocated and freed
    mixed      runs code that is real on the CPU and pretended on the GPU
    factory    finds the user's function and reads its result
    batches    copies batches to the GPU; the loss if the user gives none
    command    finds batch size and use of GPUs in the job's command
    guesses    chooses values that the job does not specify
    parallel   DataParallel and DistributedDataParallel, as GPU 0 sees them
    table      the table of layers
    step       training and evaluation steps
For scripts:
    program    which program an interpreter runs; launchers; ranks
    imports    runs functions when a module is imported
    weights    large parameters without data
    steps      counts optimizer steps and backward passes
    data       loaders in this process; the end of an epoch
    evaluation answers repeated calls without gradient
    groups     process groups, DDP, DataParallel, mp.spawn
    omissions  what a trace leaves out: compilation, checkpoints, loggers
    refusals   what gets no answer, by name
    ahead      lines that need more later on
    script     the trace of one program, and its end
By itself:
    probe      measures a CUDA context: its own program, for a real GPU
"""

from __future__ import annotations

import os
import sys

# Set before PyTorch is imported: PyTorch must not touch a real GPU. A trace computes almost
# nothing, so threads would only cost memory.
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
"""The text of the job's command. It is not an argument: every user can read these."""
PRECISIONS = ("fp32", "tf32", "fp16", "bf16", "amp", "amp-bf16")


def main(argv: list[str]) -> int:
    """Trace the step and write the document. Return 0, or 1 if the document has an error."""
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
        # A child that the user's code forked has returned here: only its parent writes.
        os._exit(1)
    _write(document, output)
    return 1 if "error" in document else 0


class _Parser(argparse.ArgumentParser):
    """A parser that reports wrong arguments in the document, like all other errors."""

    def error(self, message: str) -> NoReturn:
        raise Problem(in_one_line(message))


def _output(argv: list[str]) -> str:
    """Return the output first, so that every later error can be written there."""
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
        help="auto: as in the job's command",
    )
    parser.add_argument(
        "--command",
        default=os.environ.pop(COMMAND_VARIABLE, ""),
        help="the text of the job's command",
    )
    parser.add_argument(
        "--evaluation-batch", type=int, help="0: no evaluation; default: the batch size"
    )
    parser.add_argument("--summary", action="store_true", help="add the table of layers")
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
    """Write the document atomically: a reader of the path never sees a part of it."""
    text = json.dumps(document, separators=(",", ":"))
    if output.isdigit():
        with os.fdopen(int(output), "w", encoding="utf-8") as file:
            file.write(text)
        return
    in_place = os.path.exists(output) and not os.path.isfile(output)  # /dev/null stays what it is
    part = output if in_place else f"{output}.{os.getpid()}.part"
    with open(part, "w", encoding="utf-8") as file:
        file.write(text)
    if not in_place:
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
        # Do not wait for threads and exit handlers of the user's code: they may never end.
        os._exit(_status)

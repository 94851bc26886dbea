"""Operations of a training step: the tensors that each reads, makes and keeps for backward."""

from __future__ import annotations

import math
from enum import Enum
from functools import lru_cache

from msgspec import Struct, field

from radrm.estimators.memory import Overheads


class Operation(Struct):
    """One operation. Its tensors are indices into `Network.sizes`.

    `output` is one of the inputs if the operation works in place or is a view. `saves` are the
    tensors that the backward pass reads, `extra` the bytes kept beside them (masks, indices,
    statistics). `weights` are the bytes of each parameter. `forward_workspace` and
    `backward_workspaces` are borrowed while it runs; the latter one after the other. `passes`
    says that its gradient is passed on unchanged. `temporary` are the bytes of tensors that
    the backward pass makes beside the gradients.
    """

    inputs: tuple[int, ...]
    output: int
    saves: tuple[int, ...] = ()
    extra: tuple[int, ...] = ()
    weights: tuple[int, ...] = ()
    forward_workspace: int = 0
    backward_workspaces: tuple[int, ...] = ()
    passes: bool = False
    temporary: int = 0


class Network(Struct):
    """A model's forward pass: `sizes` has the bytes of each tensor, `roots` are the inputs.

    Weights that several operations share are counted once, in the first.
    """

    sizes: list[int] = field(default_factory=list)
    operations: list[Operation] = field(default_factory=list)
    roots: list[int] = field(default_factory=list)
    kept: list[int] = field(default_factory=list)
    """The outputs, which the script holds until the next step."""
    uses_matrix_products: bool = False
    copied_weights: int = 0
    """Bytes of the copies of weights in lower precision that autocast keeps in the forward pass."""

    reduced: bool = False
    """The gradients have one more copy, for their sum over GPUs."""

    def tensor(self, size: int) -> int:
        self.sizes.append(size)
        return len(self.sizes) - 1

    def root(self, size: int) -> int:
        self.roots.append(self.tensor(size))
        return self.roots[-1]


# ------------------------------------------------------------------
# The tensors that each kind of layer keeps for its backward pass.
#
# They follow from PyTorch's derivative formulas (`tools/autograd/derivatives.yaml`, 2.x). Names
# are compared in lower case. Keras's names of the same layers are included.


class Role(Enum):
    CONVOLUTION = "convolution"
    """Keeps its input and weights."""
    LINEAR = "linear"
    """Keeps its input and weights."""
    NORM = "norm"
    """Keeps its input, and statistics per channel or row."""
    KEEPS_OUTPUT = "keeps output"
    """ReLU, sigmoid, tanh, softmax: they can work in place."""
    KEEPS_INPUT = "keeps input"
    """ReLU6, SiLU, GELU, Softplus, ...: in-place ones keep a copy of their input."""
    DROPOUT = "dropout"
    """Keeps a mask of one byte an element."""
    MAX_POOL = "max pool"
    """Keeps its input, and an index of eight bytes an element."""
    POOL = "pool"
    """Keeps its input."""
    MEAN = "mean"
    """Keeps nothing."""
    RESIZE = "resize"
    """Makes a tensor, keeps nothing."""
    VIEW = "view"
    """Neither makes nor keeps anything."""
    EMBEDDING = "embedding"
    RECURRENT = "recurrent"
    ATTENTION = "attention"
    JOIN = "join"
    """Keras's layers that join tensors: Add, Concatenate, ..."""
    OTHER = "other"
    """A container, or a user's own layer."""


_NAMED = {
    Role.KEEPS_OUTPUT: "relu sigmoid tanh softmax softmax2d logsoftmax hardtanhinplace",
    Role.KEEPS_INPUT: "relu6 silu swish gelu hardswish hardsigmoid hardtanh elu selu celu"
    " mish softplus softsign leakyrelu prelu rrelu logsigmoid glu threshold newgelu"
    " newgeluactivation geluactivation quickgelu quickgeluactivation fastgeluactivation"
    " siluactivation geglu swiglu softshrink hardshrink tanhshrink activation gelutanh",
    Role.DROPOUT: "dropout dropout1d dropout2d dropout3d alphadropout spatialdropout1d"
    " spatialdropout2d gaussiandropout featurealphadropout",
    Role.MAX_POOL: "maxpool1d maxpool2d maxpool3d maxpooling1d maxpooling2d maxpooling3d"
    " adaptivemaxpool1d adaptivemaxpool2d globalmaxpooling1d globalmaxpooling2d",
    Role.POOL: "avgpool1d avgpool2d avgpool3d averagepooling1d averagepooling2d"
    " averagepooling3d lppool2d adaptiveavgpool1d adaptiveavgpool2d adaptiveavgpool3d"
    " blurpool blurpool2d"
    " globalaveragepooling1d globalaveragepooling2d globalaveragepooling3d",
    Role.RESIZE: "upsample upsamplingnearest2d upsamplingbilinear2d upsampling1d upsampling2d"
    " zeropad2d zeropadding2d zeropadding1d reflectionpad2d replicationpad2d constantpad2d"
    " pixelshuffle pixelunshuffle channelshuffle cropping2d cropping1d rescaling"
    " normalization resizing",
    Role.VIEW: "identity flatten unflatten reshape permute droppath stochasticdepth"
    " inputlayer selectadaptivepool2d repeatvector sequential modulelist dataparallel",
    Role.RECURRENT: "lstm gru rnn simplernn bidirectional",
    Role.ATTENTION: "multiheadattention",
    Role.JOIN: "add concatenate multiply subtract average maximum minimum",
}
ROLES = {name: role for role, names in _NAMED.items() for name in names.split()}


def role_of(kind: str, parameters: int) -> Role:
    """Return the role of a layer. A user's own layer with parameters has the role that its name
    contains: `StdConv2d` is a convolution. `ConvBlock` without parameters is a container."""
    kind = kind.rpartition(".")[2].casefold()
    known = ROLES.get(kind)
    if known is not None:
        return known
    if "norm" in kind and (parameters or kind.endswith(("norm", "norm1d", "norm2d", "norm3d"))):
        return Role.NORM
    if kind.endswith("embedding"):
        return Role.EMBEDDING
    if parameters and "conv" in kind:
        return Role.CONVOLUTION
    if parameters and (kind.endswith("linear") or kind in ("dense", "bilinear")):
        return Role.LINEAR
    return Role.OTHER


# ------------------------------------------------------------------
# The optimizer and the precision of a job, in bytes.


class Optimizer(Struct, frozen=True):
    """The state and the temporary tensors of a step, as multiples of the parameters.

    From `torch/optim/*.py` (2.x), which on a GPU handles all parameters at once (`foreach`):
    Adam keeps two averages and makes one square root.
    """

    states: int
    temporaries: int


_OPTIMIZERS = {
    "adam": Optimizer(2, 1),
    "adamw": Optimizer(2, 1),
    "nadam": Optimizer(2, 2),
    "radam": Optimizer(2, 2),
    "adamax": Optimizer(2, 1),
    "adafactor": Optimizer(0, 1),
    "lion": Optimizer(1, 1),
    "lamb": Optimizer(2, 2),
    "rmsprop": Optimizer(1, 1),
    "adagrad": Optimizer(1, 2),
    "adadelta": Optimizer(2, 2),
    "momentum": Optimizer(1, 0),
    "sgd": Optimizer(1, 0),
    "asgd": Optimizer(1, 1),
    "rprop": Optimizer(2, 1),
}
DEFAULT_OPTIMIZER = "adam"


def optimizer(name: str | None) -> Optimizer | None:
    """Return an optimizer by its name, in any case; without a name Adam. None: unknown.

    `sgd` counts with momentum, which needs more.
    """
    plain = (name or DEFAULT_OPTIMIZER).casefold().replace("-", "").replace("_", "")
    return _OPTIMIZERS.get(plain.removeprefix("fused"))


class Precision(Struct, frozen=True):
    """The bytes of a parameter and of an activation. `autocast` keeps copies of weights.

    `wide` are the bytes of what stays in 32 bits under autocast (norms of rows, softmax, loss).
    """

    parameter: int = 4
    activation: int = 4
    wide: int = 4
    autocast: bool = False


_PRECISIONS = {
    "fp32": Precision(),
    "float32": Precision(),
    "tf32": Precision(),
    "32": Precision(),
    "amp": Precision(4, 2, 4, True),
    "mixed": Precision(4, 2, 4, True),
    "fp16": Precision(2, 2, 2),
    "bf16": Precision(2, 2, 2),
    "float16": Precision(2, 2, 2),
    "bfloat16": Precision(2, 2, 2),
    "half": Precision(2, 2, 2),
}


def precision(name: str | None) -> Precision | None:
    """Return a precision by its name, in any case; without a name 32 bits. None: unknown."""
    return _PRECISIONS.get((name or "fp32").casefold().replace("-", "").replace("_", ""))


# ------------------------------------------------------------------
# The inputs that fit a convolution's parameters and shapes, and its workspace.


Shape = tuple[int, ...]

# The memory that cuDNN borrows while a convolution runs, as a multiple of the bytes that it reads
# and writes. A 1 x 1 kernel needs copies with the channels last; larger kernels also transform
# them (Winograd). Fitted on the published jobs (docs/summaries.md).
POINTWISE_WORKSPACE = 1.0
SPATIAL_WORKSPACE = 3.0


class Fit(Struct, frozen=True):
    """How well an input fits: from 4 (well) to 1 (only with rare groups), 0 for not at all."""

    score: int
    area: int = 1
    """Elements of the kernel per pair of channels."""
    groups: int = 1


NO_FIT = Fit(0)


@lru_cache(maxsize=4096)
def convolution_fit(
    channels: int, outputs: int, parameters: int, dimensions: int, with_bias: bool
) -> Fit:
    """Return how well a convolution from `channels` to `outputs` fits this number of parameters."""
    weights = parameters - outputs if with_bias else parameters
    if channels <= 0 or outputs <= 0 or weights <= 0 or weights % outputs:
        return NO_FIT
    per_output = weights // outputs
    if per_output % channels == 0:
        area = per_output // channels
        if _regular(area, dimensions):
            return Fit(4 if area % 2 else 3, area)
        if area in (2, 3, 5, 7, 11, 13, 15, 21, 35) and dimensions == 2:
            return Fit(2, area)
    if outputs % channels == 0 and per_output > 1 and _odd(per_output, dimensions):
        return Fit(4, per_output, channels)
    # Groups: 32 of them (ResNeXt), or a fixed number of channels in each (RegNet).
    for area in (9, 25, 49, 1):
        if dimensions == 2 and per_output % area == 0:
            width = per_output // area
            if width < channels and channels % width == 0 and outputs % (channels // width) == 0:
                return Fit(2 if area == 9 else 1, area, channels // width)
    return NO_FIT


def _regular(area: int, dimensions: int) -> bool:
    """Return whether this number of elements makes a square kernel of a usual size."""
    if dimensions <= 1:
        return 1 <= area <= 4096
    if dimensions == 3:
        return area in (1, 8, 27, 125, 343)
    side = math.isqrt(area)
    return side * side == area and (side % 2 == 1 or side in (2, 4, 8, 14, 16, 32)) and side <= 64


def _odd(area: int, dimensions: int) -> bool:
    """Return whether the kernel has a middle, as the kernels of depthwise convolutions have."""
    return area % 2 == 1 and _regular(area, dimensions)


def borrowed_bytes(read: int, made: int, area: int, on: Overheads) -> int:
    """Return the workspace of one pass of a convolution that is not depthwise."""
    if not on.tensor_cores:
        return 0
    times = POINTWISE_WORKSPACE if area == 1 else SPATIAL_WORKSPACE
    return int(times * (read + made))

"""Operations of a training step: the tensors that each reads, makes and keeps for backward."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct, field


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

"""Which kind of layer keeps what for its backward pass: PyTorch's derivative formulas.

From `tools/autograd/derivatives.yaml` of PyTorch 2.x. Kinds are matched in small letters;
Keras's names of the same layers stand beside PyTorch's.
"""

from __future__ import annotations

from enum import Enum


class Role(Enum):
    CONVOLUTION = "convolution"
    """Keeps its input and weights."""
    LINEAR = "linear"
    """Keeps its input and weights."""
    NORM = "norm"
    """Keeps its input, and statistics per channel or row."""
    KEEPS_OUTPUT = "keeps output"
    """So may work in place: ReLU, sigmoid, tanh, softmax."""
    KEEPS_INPUT = "keeps input"
    """A copy of it, where it works in place: ReLU6, SiLU, GELU, Softplus ..."""
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
    """Keras's layers that join others: Add, Concatenate, ..."""
    OTHER = "other"
    """A container, or a layer of the user's own."""


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
    """What a layer of this kind does. A layer of a user's own goes by what its name holds,
    where it has parameters: `StdConv2d` is a convolution, `ConvBlock` a container."""
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

"""The layers, in files named as PyTorch names them where it has one for the family."""

from maquette.nn.base import Module
from maquette.nn.modules import batchnorm, container, conv, instancenorm, linear
from maquette.nn.modules import module as module
from maquette.nn.modules import utils as utils
from maquette.nn.modules.activation import (
    CELU,
    ELU,
    GELU,
    GLU,
    SELU,
    Hardshrink,
    Hardsigmoid,
    Hardswish,
    Hardtanh,
    LeakyReLU,
    LogSigmoid,
    LogSoftmax,
    Mish,
    PReLU,
    ReLU,
    ReLU6,
    RReLU,
    Sigmoid,
    SiLU,
    Softmax,
    Softmax2d,
    Softmin,
    Softplus,
    Softshrink,
    Softsign,
    Tanh,
    Tanhshrink,
    Threshold,
)
from maquette.nn.modules.adaptive import AdaptiveLogSoftmaxWithLoss
from maquette.nn.modules.attention import MultiheadAttention
from maquette.nn.modules.batchnorm import (
    BatchNorm1d,
    BatchNorm2d,
    BatchNorm3d,
    SyncBatchNorm,
)
from maquette.nn.modules.container import Container, ModuleDict, ModuleList, Sequential
from maquette.nn.modules.conv import (
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
)
from maquette.nn.modules.cross_map import CrossMapLRN2d
from maquette.nn.modules.distance import CosineSimilarity, PairwiseDistance
from maquette.nn.modules.dropout import (
    AlphaDropout,
    Dropout,
    Dropout1d,
    Dropout2d,
    Dropout3d,
    FeatureAlphaDropout,
)
from maquette.nn.modules.instancenorm import InstanceNorm1d, InstanceNorm2d, InstanceNorm3d
from maquette.nn.modules.lazy import (
    LazyBatchNorm1d,
    LazyBatchNorm2d,
    LazyBatchNorm3d,
    LazyConv1d,
    LazyConv2d,
    LazyConv3d,
    LazyConvTranspose1d,
    LazyConvTranspose2d,
    LazyConvTranspose3d,
    LazyInstanceNorm1d,
    LazyInstanceNorm2d,
    LazyInstanceNorm3d,
    LazyLinear,
)
from maquette.nn.modules.linear import Bilinear, Identity, Linear
from maquette.nn.modules.loss import (
    BCELoss,
    BCEWithLogitsLoss,
    CrossEntropyLoss,
    CTCLoss,
    GaussianNLLLoss,
    HuberLoss,
    KLDivLoss,
    L1Loss,
    LinearCrossEntropyLoss,
    LinearCrossEntropyOptions,
    MSELoss,
    MultiLabelMarginLoss,
    MultiLabelSoftMarginLoss,
    MultiMarginLoss,
    NLLLoss,
    NLLLoss2d,
    PoissonNLLLoss,
    SmoothL1Loss,
    SoftMarginLoss,
)
from maquette.nn.modules.normalization import GroupNorm, LayerNorm, LocalResponseNorm, RMSNorm
from maquette.nn.modules.parameter_container import ParameterDict, ParameterList
from maquette.nn.modules.pooling import (
    AdaptiveAvgPool1d,
    AdaptiveAvgPool2d,
    AdaptiveAvgPool3d,
    AdaptiveMaxPool1d,
    AdaptiveMaxPool2d,
    AdaptiveMaxPool3d,
    AvgPool1d,
    AvgPool2d,
    AvgPool3d,
    LPPool1d,
    LPPool2d,
    LPPool3d,
    MaxPool1d,
    MaxPool2d,
    MaxPool3d,
)
from maquette.nn.modules.ranking import (
    CosineEmbeddingLoss,
    HingeEmbeddingLoss,
    MarginRankingLoss,
    TripletMarginLoss,
    TripletMarginWithDistanceLoss,
)
from maquette.nn.modules.rnn import GRU, LSTM, RNN, GRUCell, LSTMCell, RNNBase, RNNCell, RNNCellBase
from maquette.nn.modules.shaping import channelshuffle as channelshuffle
from maquette.nn.modules.shaping import flatten as flatten
from maquette.nn.modules.shaping import fold as fold
from maquette.nn.modules.shaping import padding as padding
from maquette.nn.modules.shaping import pixelshuffle as pixelshuffle
from maquette.nn.modules.shaping import upsampling as upsampling
from maquette.nn.modules.shaping.channelshuffle import ChannelShuffle
from maquette.nn.modules.shaping.flatten import Flatten, Unflatten
from maquette.nn.modules.shaping.fold import Fold, Unfold
from maquette.nn.modules.shaping.padding import (
    CircularPad1d,
    CircularPad2d,
    CircularPad3d,
    ConstantPad1d,
    ConstantPad2d,
    ConstantPad3d,
    ReflectionPad1d,
    ReflectionPad2d,
    ReflectionPad3d,
    ReplicationPad1d,
    ReplicationPad2d,
    ReplicationPad3d,
    ZeroPad1d,
    ZeroPad2d,
    ZeroPad3d,
)
from maquette.nn.modules.shaping.pixelshuffle import PixelShuffle, PixelUnshuffle
from maquette.nn.modules.shaping.unpooling import (
    FractionalMaxPool2d,
    FractionalMaxPool3d,
    MaxUnpool1d,
    MaxUnpool2d,
    MaxUnpool3d,
)
from maquette.nn.modules.shaping.upsampling import (
    Upsample,
    UpsamplingBilinear2d,
    UpsamplingNearest2d,
)
from maquette.nn.modules.sparse import Embedding, EmbeddingBag
from maquette.nn.modules.transformer import (
    Transformer,
    TransformerDecoder,
    TransformerDecoderLayer,
    TransformerEncoder,
    TransformerEncoderLayer,
)

# PyTorch has these classes in the files of their families, and programs take them from there.
for _family, _classes in (
    (batchnorm, (LazyBatchNorm1d, LazyBatchNorm2d, LazyBatchNorm3d)),
    (container, (ParameterDict, ParameterList)),
    (conv, (LazyConv1d, LazyConv2d, LazyConv3d)),
    (conv, (LazyConvTranspose1d, LazyConvTranspose2d, LazyConvTranspose3d)),
    (instancenorm, (LazyInstanceNorm1d, LazyInstanceNorm2d, LazyInstanceNorm3d)),
    (linear, (LazyLinear,)),
):
    for _class in _classes:
        setattr(_family, _class.__name__, _class)

__all__ = [
    "NLLLoss2d", "Container",
    "Sigmoid", "Tanh", "LogSigmoid", "Softsign", "Tanhshrink", "ReLU", "SELU", "SiLU", "Mish",
    "Hardswish", "Hardsigmoid", "Threshold", "RReLU", "Hardtanh", "ReLU6", "ELU", "CELU",
    "LeakyReLU", "GELU", "GLU", "Softplus", "Hardshrink", "Softshrink", "PReLU", "Softmax",
    "Softmin", "LogSoftmax", "Softmax2d", "MultiheadAttention", "BatchNorm1d", "BatchNorm2d",
    "BatchNorm3d", "ChannelShuffle", "Sequential", "ModuleList", "ModuleDict", "Conv1d", "Conv2d",
    "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d", "CosineSimilarity",
    "PairwiseDistance", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout",
    "FeatureAlphaDropout", "Flatten", "Unflatten", "Unfold", "Fold", "InstanceNorm1d",
    "InstanceNorm2d", "InstanceNorm3d", "Identity", "Linear", "Bilinear", "L1Loss", "MSELoss",
    "SoftMarginLoss", "MultiLabelMarginLoss", "NLLLoss", "CrossEntropyLoss", "BCELoss",
    "BCEWithLogitsLoss", "MultiLabelSoftMarginLoss", "MultiMarginLoss", "KLDivLoss",
    "SmoothL1Loss", "HuberLoss", "PoissonNLLLoss", "GaussianNLLLoss", "CTCLoss", "LayerNorm",
    "RMSNorm", "GroupNorm", "LocalResponseNorm", "CrossMapLRN2d",
    "LinearCrossEntropyLoss", "LinearCrossEntropyOptions",
    "ConstantPad1d", "ConstantPad2d", "ConstantPad3d",
    "ZeroPad1d", "ZeroPad2d", "ZeroPad3d", "ReflectionPad1d", "ReflectionPad2d", "ReflectionPad3d",
    "ReplicationPad1d", "ReplicationPad2d", "ReplicationPad3d", "CircularPad1d", "CircularPad2d",
    "CircularPad3d", "ParameterList", "ParameterDict", "PixelShuffle", "PixelUnshuffle",
    "MaxPool1d", "MaxPool2d", "MaxPool3d", "AvgPool1d", "AvgPool2d", "AvgPool3d", "LPPool1d",
    "LPPool2d", "LPPool3d", "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d",
    "AdaptiveMaxPool1d", "AdaptiveMaxPool2d", "AdaptiveMaxPool3d", "CosineEmbeddingLoss",
    "MarginRankingLoss", "HingeEmbeddingLoss", "TripletMarginLoss",
    "TripletMarginWithDistanceLoss", "Embedding", "EmbeddingBag", "TransformerEncoderLayer",
    "TransformerDecoderLayer", "TransformerEncoder", "TransformerDecoder", "Transformer",
    "Upsample", "UpsamplingNearest2d", "UpsamplingBilinear2d", "FractionalMaxPool2d",
    "FractionalMaxPool3d", "MaxUnpool1d", "MaxUnpool2d", "MaxUnpool3d",
    "GRU", "LSTM", "RNN", "GRUCell", "LSTMCell", "RNNBase", "RNNCell", "RNNCellBase",
    "AdaptiveLogSoftmaxWithLoss", "LazyBatchNorm1d", "LazyBatchNorm2d", "LazyBatchNorm3d",
    "LazyConv1d", "LazyConv2d", "LazyConv3d", "LazyConvTranspose1d", "LazyConvTranspose2d",
    "LazyConvTranspose3d", "LazyInstanceNorm1d", "LazyInstanceNorm2d", "LazyInstanceNorm3d",
    "LazyLinear", "Module", "SyncBatchNorm",
]  # fmt: skip

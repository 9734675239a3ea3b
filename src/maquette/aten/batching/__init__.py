"""The batching rules of the operators, a file a family; read when vmap first asks for one.

Most operators need none: pointwise ones broadcast, composite ones are made of others, forms that
write go through their functional twin. A line here serves a whole family (`forms.py`).
"""

from maquette.aten.batching import (  # noqa: F401  # they register
    creation,
    indexing,
    linalg,
    losses,
    norms,
    products,
    reductions,
    spatial,
    views,
)
from maquette.transforms.rules import POINTWISE, family

family(
    "elu_backward hardshrink_backward hardsigmoid_backward hardswish hardswish_backward "
    "hardtanh_backward leaky_relu_backward mish_backward softplus_backward softshrink_backward "
    "log_sigmoid_forward log_sigmoid_backward complex polar rsub.Tensor floor_divide "
    "_prelu_kernel _prelu_kernel_backward hardtanh",
    lambda op: POINTWISE,
)

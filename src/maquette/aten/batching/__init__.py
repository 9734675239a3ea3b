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

# Random operators that draw for each element on its own.
family(
    "bernoulli bernoulli.p bernoulli.float bernoulli.Tensor normal.Tensor_float "
    "normal.float_Tensor normal.Tensor_Tensor normal_functional poisson binomial cauchy "
    "exponential geometric log_normal random random.to random.from uniform native_dropout "
    "rand_like randn_like randint_like randint_like.low_dtype rrelu_with_noise_functional",
    lambda op: POINTWISE,
)

"""Losses and similarities that are made of other operators alone.

They are differentiated through their parts, and modes see only the parts: those that PyTorch's
have, in its order (of an expression's operands, the right one comes first).
"""

from __future__ import annotations

import math
from collections.abc import Callable

from maquette.aten.common.formula_helpers import minus, plus, times
from maquette.aten.common.operators import aten
from maquette.aten.nn.loss.elementwise_losses import reduced_tensor
from maquette.aten.reduction.vector_norms import norm_dim
from maquette.autograd.grad_mode import no_grad
from maquette.core.broadcast import broadcast_shapes
from maquette.core.dtype import result_type_of
from maquette.core.errors import check
from maquette.library.page import define
from maquette.tensor.tensor import Tensor

Lengths = Callable[[Tensor, Tensor, int, float], tuple[Tensor, Tensor]]

# In float32 as PyTorch writes it; it keeps the cosine of a zero vector finite.
_TINY = 9.999999960041972e-13

l1_loss = define("aten::l1_loss(Tensor self, Tensor target, int reduction=1) -> Tensor")
l1_loss.describe("The magnitude of the difference, averaged by default.")
l1_loss.autocast("float32")
l1_loss.composite(lambda self, target, reduction: reduced_tensor((self - target).abs(), reduction))

kl_div = define(
    "aten::kl_div(Tensor self, Tensor target, int reduction=1, *, bool log_target=False) -> Tensor"
)
kl_div.describe(
    "The divergence ``target * (log(target) - self)``, of log-probabilities `self`; averaged."
)
kl_div.autocast("float32")


@kl_div.composite
def kl_div_composite(self: Tensor, target: Tensor, reduction: int, log_target: bool) -> Tensor:
    check(
        self.dtype.category != 1 and target.dtype.category != 1,
        lambda: "kl_div: Integral inputs not supported.",
    )
    check(
        self.dtype.category == target.dtype.category != 3,
        lambda: (
            f"kl_div: Complex inputs not supported, and both operands must be of one kind; "
            f"got {self.meta} and {target.meta}"
        ),
    )
    if log_target:
        apart = target - self
        losses = target.exp() * apart
    else:
        crossed = target * self
        losses = target.xlogy(target) - crossed
    return reduced_tensor(losses, reduction)


poisson_nll_loss = define(
    "aten::poisson_nll_loss(Tensor input, Tensor target, bool log_input, bool full, float eps, "
    "int reduction) -> Tensor"
)
poisson_nll_loss.describe(
    "Minus the log-likelihood of counts `target` at rates `input`, averaged by default."
)
poisson_nll_loss.autocast("float32")


@poisson_nll_loss.composite
def poisson_nll_loss_composite(
    input: Tensor, target: Tensor, log_input: bool, full: bool, eps: float, reduction: int
) -> Tensor:
    if log_input:
        weighted = target * input
        losses = input.exp() - weighted
    else:
        losses = input - target * plus(input, eps).log()
    if full:
        root = times(times(target, 2 * math.pi).log(), 0.5)
        stirling = target * target.log() - target + root
        losses.add_(stirling.masked_fill(target <= 1, 0))
    return reduced_tensor(losses, reduction)


# --- similarities --------------------------------------------------------------------

pairwise_distance = define(
    "aten::pairwise_distance(Tensor x1, Tensor x2, float p=2., float eps=9.9999999999999995e-07, "
    "bool keepdim=False) -> Tensor"
)
pairwise_distance.describe(
    "The distance of order `p` of vectors in the last dimension, which is reduced."
)


@pairwise_distance.composite
def pairwise_distance_composite(
    x1: Tensor, x2: Tensor, p: float, eps: float, keepdim: bool
) -> Tensor:
    last = max(x1.meta.ndim, x2.meta.ndim) - 1
    distance = norm_dim(plus(x1 - x2, eps), p, (last,), keepdim)
    assert isinstance(distance, Tensor)
    return distance


cosine_similarity = define(
    "aten::cosine_similarity(Tensor x1, Tensor x2, int dim=1, float eps=1e-08) -> Tensor"
)
cosine_similarity.describe("The cosine of the angle between vectors along `dim`, which is reduced.")
cosine_similarity.autocast(cuda="float32")


@cosine_similarity.composite
def cosine_similarity_composite(x1: Tensor, x2: Tensor, dim: int, eps: float) -> Tensor:
    """The product of both operands divided by their lengths, which count at least ``eps``."""
    return _cosine(x1, x2, dim, eps, _raised_in_place)


@cosine_similarity.without_mutation
def cosine_similarity_without_mutation(x1: Tensor, x2: Tensor, dim: int, eps: float) -> Tensor:
    return _cosine(x1, x2, dim, eps, _raised)


def _cosine(x1: Tensor, x2: Tensor, dim: int, eps: float, at_least: Lengths) -> Tensor:
    check(eps >= 0, lambda: f"eps must be non-negative, got: {eps}")
    kind = result_type_of((x1.meta, x2.meta))
    check(
        kind.is_floating_point,
        lambda: (
            f"expected common dtype to be floating point, yet common dtype is {kind.scalar_name}"
        ),
    )
    shape = broadcast_shapes(x1.meta.shape, x2.meta.shape)
    x1, x2 = x1.to(kind), x2.to(kind)
    if x1.meta.shape != x2.meta.shape:
        x1, x2 = x1.expand(shape), x2.expand(shape)
    length1, length2 = at_least(x1, x2, dim, eps)
    unit2 = x2 / length2
    return (x1 / length1 * unit2).sum(dim)


# A length that was raised is differentiated as if it had not been.


def _raised_in_place(x1: Tensor, x2: Tensor, dim: int, eps: float) -> tuple[Tensor, Tensor]:
    lengths = [aten.linalg_vector_norm(x, 2, dim, True).clone() for x in (x1, x2)]
    with no_grad():
        kind, device = lengths[0].meta.dtype, lengths[0].meta.device
        least = aten.scalar_tensor(eps, dtype=kind, device=device)
        for length in lengths:
            length.clamp_min_(least)
    return lengths[0], lengths[1]


def _raised(x1: Tensor, x2: Tensor, dim: int, eps: float) -> tuple[Tensor, Tensor]:
    lengths = [aten.linalg_vector_norm(x, 2, dim, True) for x in (x1, x2)]
    raised = [aten.where(n < eps, eps + (n - n.detach()), n) for n in lengths]
    return raised[0], raised[1]


cosine_embedding_loss = define(
    "aten::cosine_embedding_loss(Tensor input1, Tensor input2, Tensor target, float margin=0., "
    "int reduction=1) -> Tensor"
)
cosine_embedding_loss.describe(
    "One minus the cosine of two rows where `target` is 1, else the cosine above `margin`; "
    "averaged."
)
cosine_embedding_loss.autocast("float32")


@cosine_embedding_loss.composite
def cosine_embedding_loss_composite(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float, reduction: int
) -> Tensor:
    dim = target.meta.ndim
    check(
        dim <= 1,
        lambda: "0D or 1D target tensor expected, multi-target not supported",
    )
    check(
        input1.meta.ndim == input2.meta.ndim == dim + 1,
        lambda: (
            f"{dim}D target tensor expects {dim + 1}D input tensors, but found inputs with "
            f"sizes {list(input1.meta.shape)} and {list(input2.meta.shape)}."
        ),
    )
    product = (input1 * input2).sum(dim)
    squares = [plus((x * x).sum(dim), _TINY) for x in (input1, input2)]
    cosine = product / (squares[0] * squares[1]).sqrt_()
    nothing = aten.zeros_like(cosine)
    apart = aten.empty_like(cosine).fill_(1).sub_(cosine)
    beyond = minus(cosine, margin).clamp_min_(0)
    alike: Tensor = aten.where(target == 1, apart, nothing)
    unlike: Tensor = aten.where(target == -1, beyond, nothing)
    return reduced_tensor(alike + unlike, reduction)


# --- margins -------------------------------------------------------------------------

hinge_embedding_loss = define(
    "aten::hinge_embedding_loss(Tensor self, Tensor target, float margin=1., int reduction=1) "
    "-> Tensor"
)
hinge_embedding_loss.describe(
    "`self` where `target` is 1, else ``margin - self`` where that is positive; averaged."
)
hinge_embedding_loss.autocast("float32")


@hinge_embedding_loss.composite
def hinge_embedding_loss_composite(
    self: Tensor, target: Tensor, margin: float, reduction: int
) -> Tensor:
    nothing = aten.zeros_like(self)
    # Of integers the whole part counts: the difference has their dtype.
    beyond = aten.empty_like(self).fill_(margin).sub_(self).clamp_min_(0)
    outside: Tensor = aten.where(target != 1, beyond, nothing)
    inside: Tensor = aten.where(target != -1, self, nothing)
    return reduced_tensor(outside + inside, reduction)


margin_ranking_loss = define(
    "aten::margin_ranking_loss(Tensor input1, Tensor input2, Tensor target, float margin=0., "
    "int reduction=1) -> Tensor"
)
margin_ranking_loss.describe(
    "``margin - target * (input1 - input2)`` where that is positive, averaged by default."
)
margin_ranking_loss.autocast("float32")


@margin_ranking_loss.composite
def margin_ranking_loss_composite(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float, reduction: int
) -> Tensor:
    apart = input1 - input2
    losses = plus(-target * apart, margin).clamp_min_(0)
    return reduced_tensor(losses, reduction)


triplet_margin_loss = define(
    "aten::triplet_margin_loss(Tensor anchor, Tensor positive, Tensor negative, "
    "float margin=1., float p=2., float eps=9.9999999999999995e-07, bool swap=False, "
    "int reduction=1) -> Tensor"
)
triplet_margin_loss.describe(
    "How much farther `negative` should be from `anchor` than `positive` is, averaged by default."
)
triplet_margin_loss.autocast("float32")


@triplet_margin_loss.composite
def triplet_margin_loss_composite(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float,
    p: float,
    eps: float,
    swap: bool,
    reduction: int,
) -> Tensor:
    ranks = [t.meta.ndim for t in (anchor, positive, negative)]
    check(
        len(set(ranks)) == 1,
        lambda: (
            f"The anchor, positive, and negative tensors are expected to have the same number "
            f"of dimensions, but got: anchor {ranks[0]}D, positive {ranks[1]}D, and negative "
            f"{ranks[2]}D inputs"
        ),
    )
    near = pairwise_distance_composite(anchor, positive, p, eps, False)
    far = pairwise_distance_composite(anchor, negative, p, eps, False)
    if swap:
        far = far.minimum(pairwise_distance_composite(positive, negative, p, eps, False))
    return reduced_tensor((plus(near, margin) - far).clamp_min(0), reduction)

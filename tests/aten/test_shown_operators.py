"""The operators that gradients show: those of PyTorch 2.13, in its order.

Modes, traced graphs, counts of FLOPs and planned peaks all depend on them. What PyTorch's formulas
write as three operators in place for ``1 - x`` and ``1 / x`` is one here, so no such formula is
listed. The lists were read off with a `TorchDispatchMode` of PyTorch's around `autograd.grad`.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from op_log import overloads_of

import maquette as mq

Function = Callable[[mq.Tensor, mq.Tensor], mq.Tensor]

SHOWN: dict[str, tuple[Function, str]] = {
    "std(x)": (
        lambda x, y: mq.std(x),
        "mul.Scalar div.Tensor eq.Scalar masked_fill_.Scalar mean sub.Tensor mul.Scalar mul.Tensor",
    ),
    "var(x, 0)": (lambda x, y: mq.var(x, 0), "mean.dim sub.Tensor mul.Scalar mul.Tensor"),
    "norm(x, 3)": (
        lambda x, y: mq.norm(x, 3),
        "abs pow_.Scalar mul.Tensor pow.Tensor_Scalar div.Tensor eq.Scalar "
        "masked_fill_.Scalar mul.Tensor",
    ),
    "norm(x, 0.5)": (
        lambda x, y: mq.norm(x, 0.5),
        "abs pow_.Scalar eq.Scalar masked_fill_.Scalar sgn mul.Tensor pow.Tensor_Scalar "
        "mul.Tensor mul.Tensor",
    ),
    "dist(x, y)": (
        lambda x, y: mq.dist(x, y),
        "sub.Tensor div.Tensor eq.Scalar masked_fill_.Scalar mul.Tensor neg sub.Tensor "
        "div.Tensor eq.Scalar masked_fill_.Scalar mul.Tensor",
    ),
    "amax(x, 0)": (
        lambda x, y: mq.amax(x, 0),
        "view eq.Tensor view sum.dim_IntList div.Tensor mul.Tensor",
    ),
    "aminmax(x)[0]": (
        lambda x, y: mq.aminmax(x)[0],
        "view view eq.Tensor sum.dim_IntList div.Tensor mul.Tensor",
    ),
    "max(x, 0)[0]": (lambda x, y: mq.max(x, 0)[0], "unsqueeze unsqueeze new_zeros scatter.src"),
    "sort(x)[0]": (lambda x, y: mq.sort(x)[0], "new_zeros scatter.src"),
    "nansum(x, 0)": (lambda x, y: mq.nansum(x, 0), "isnan logical_not unsqueeze expand mul.Tensor"),
    "renorm(x.view(2, 2), 2, 0, 0.3)": (
        lambda x, y: mq.renorm(x.view(2, 2), 2, 0, 0.3),
        "linalg_vector_norm mul.Tensor sum.dim_IntList div.Tensor eq.Scalar "
        "masked_fill_.Scalar mul.Tensor add.Scalar reciprocal mul.Tensor sub.Tensor "
        "mul.Scalar mul.Tensor gt.Scalar where.self view",
    ),
    "trapezoid(x, y)": (
        lambda x, y: mq.trapezoid(x, y),
        "div.Scalar unsqueeze expand mul.Tensor mul.Tensor slice_backward slice_backward "
        "add.Tensor neg slice_backward slice_backward add.Tensor view",
    ),
    "addmm(x.view(2, 2), y.view(2, 2), y.view(2, 2), alpha=2)": (
        lambda x, y: mq.addmm(x.view(2, 2), y.view(2, 2), y.view(2, 2), alpha=2),
        "t mm mul.Scalar t mm mul.Scalar view view add.Tensor view",
    ),
    "inverse(x.view(2, 2))": (
        lambda x, y: mq.inverse(x.view(2, 2)),
        "transpose.int mm transpose.int mm neg view",
    ),
    "pinverse(x.view(2, 2))": (
        lambda x, y: mq.pinverse(x.view(2, 2)),
        "transpose.int transpose.int mm mm mm mm sub.Tensor mm mm mm mm transpose.int neg"
        " add.Tensor sub.Tensor add.Tensor clone _unsafe_view",
    ),
    "trace(x.view(2, 2))": (
        lambda x, y: mq.trace(x.view(2, 2)),
        "zeros arange.start_step index_fill.int_Tensor view view",
    ),
    "qr(x.view(2, 2))[0]": (
        lambda x, y: mq.qr(x.view(2, 2))[0],
        "transpose.int mm neg triu transpose.int add.Tensor diagonal mul_.Scalar mm "
        "add.Tensor transpose.int linalg_solve_triangular clone _unsafe_view",
    ),
    "triangular_solve(x.view(2, 2), y.view(2, 2))[0]": (
        lambda x, y: mq.triangular_solve(x.view(2, 2), y.view(2, 2))[0],
        "triangular_solve transpose.int mm neg triu view clone _unsafe_view",
    ),
    "cummax(x, 0)[0]": (lambda x, y: mq.cummax(x, 0)[0], "zeros scatter_add"),
    "exp2(x)": (lambda x, y: mq.exp2(x), "mul.Tensor mul.Scalar"),
    "log(x)": (lambda x, y: mq.log(x), "div.Tensor"),
    "log2(x)": (lambda x, y: mq.log2(x), "mul.Scalar div.Tensor"),
    "log1p(x)": (lambda x, y: mq.log1p(x), "add.Scalar div.Tensor"),
    "sqrt(x)": (lambda x, y: mq.sqrt(x), "mul.Scalar div.Tensor"),
    "rsqrt(x)": (lambda x, y: mq.rsqrt(x), "pow.Tensor_Scalar mul.Scalar mul.Tensor"),
    "cos(x)": (lambda x, y: mq.cos(x), "sin neg mul.Tensor"),
    "tan(x)": (lambda x, y: mq.tan(x), "pow.Tensor_Scalar add.Scalar mul.Tensor"),
    "asin(x)": (lambda x, y: mq.asin(x), "neg mul.Tensor add.Scalar rsqrt mul.Tensor"),
    "atan(x)": (lambda x, y: mq.atan(x), "mul.Tensor add.Scalar div.Tensor"),
    "acosh(x)": (lambda x, y: mq.acosh(x), "mul.Tensor sub.Scalar rsqrt mul.Tensor"),
    "erf(x)": (lambda x, y: mq.erf(x), "pow.Tensor_Scalar neg exp mul.Scalar mul.Tensor"),
    "reciprocal(x)": (lambda x, y: mq.reciprocal(x), "mul.Tensor neg mul.Tensor"),
    "nan_to_num(x)": (
        lambda x, y: mq.nan_to_num(x),
        "abs ne.Scalar eq.Tensor mul.Tensor mul.Tensor",
    ),
    "deg2rad(x)": (lambda x, y: mq.deg2rad(x), "mul.Scalar"),
    "mvlgamma(x + 3, 3)": (
        lambda x, y: mq.mvlgamma(x + 3, 3),
        "arange.start_step unsqueeze add.Tensor digamma_ sum.dim_IntList mul.Tensor",
    ),
    "x ** y": (
        lambda x, y: x**y,
        "ge.Scalar eq.Scalar logical_and log mul.Tensor scalar_tensor where.self "
        "mul.Tensor sub.Scalar pow.Tensor_Tensor mul.Tensor mul.Tensor scalar_tensor "
        "eq.Scalar where.self",
    ),
    "x ** 2.5": (lambda x, y: x**2.5, "pow.Tensor_Scalar mul.Scalar mul.Tensor"),
    "2.0 ** x": (lambda x, y: 2.0**x, "mul.Scalar mul.Tensor"),
    "div(x, y)": (lambda x, y: mq.div(x, y), "div.Tensor div.Tensor neg mul.Tensor div.Tensor"),
    "sub(x, y, alpha=2)": (lambda x, y: mq.sub(x, y, alpha=2), "neg mul.Scalar"),
    "atan2(x, y)": (
        lambda x, y: mq.atan2(x, y),
        "mul.Tensor mul.Tensor add.Tensor reciprocal eq.Scalar masked_fill.Scalar "
        "mul.Tensor mul.Tensor neg mul.Tensor mul.Tensor",
    ),
    "hypot(x, y)": (lambda x, y: mq.hypot(x, y), "mul.Tensor div.Tensor mul.Tensor div.Tensor"),
    "xlogy(x, y)": (
        lambda x, y: mq.xlogy(x, y),
        "mul.Tensor div.Tensor xlogy.Tensor le.Scalar eq.Scalar bitwise_and.Tensor "
        "masked_fill.Scalar",
    ),
    "logaddexp2(x, y)": (
        lambda x, y: mq.logaddexp2(x, y),
        "sub.Tensor pow.Scalar add.Scalar div.Tensor sub.Tensor pow.Scalar add.Scalar div.Tensor",
    ),
    "maximum(x, y)": (
        lambda x, y: mq.maximum(x, y),
        "div.Scalar eq.Tensor where.self gt.Tensor masked_fill_.Scalar div.Scalar "
        "eq.Tensor where.self lt.Tensor masked_fill_.Scalar",
    ),
    "minimum(x, y)": (
        lambda x, y: mq.minimum(x, y),
        "div.Scalar eq.Tensor where.self lt.Tensor masked_fill_.Scalar div.Scalar "
        "eq.Tensor where.self gt.Tensor masked_fill_.Scalar",
    ),
    "fmax(x, y)": (
        lambda x, y: mq.fmax(x, y),
        "ge.Tensor isnan logical_or_ masked_fill.Scalar ge.Tensor isnan logical_or_ "
        "logical_not_ masked_fill.Scalar",
    ),
    "clamp(x, 0.2, 0.6)": (
        lambda x, y: mq.clamp(x, 0.2, 0.6),
        "scalar_tensor ge.Scalar le.Scalar logical_and_ where.self",
    ),
    "clamp(x, y, y)": (
        lambda x, y: mq.clamp(x, y, y),
        "scalar_tensor lt.Tensor lt.Tensor logical_and where.self gt.Tensor lt.Tensor "
        "logical_or where.self scalar_tensor ge.Tensor le.Tensor logical_and where.self "
        "add.Tensor",
    ),
    "clamp_min(x, y)": (
        lambda x, y: mq.clamp_min(x, y),
        "scalar_tensor lt.Tensor where.self scalar_tensor ge.Tensor where.self",
    ),
    "where(x > 0.5, x, y)": (
        lambda x, y: mq.where(x > 0.5, x, y),
        "scalar_tensor where.self scalar_tensor where.self",
    ),
    "lerp(x, y, 0.3)": (lambda x, y: mq.lerp(x, y, 0.3), "mul.Scalar mul.Scalar"),
    "addcmul(x, y, y, value=2)": (
        lambda x, y: mq.addcmul(x, y, y, value=2),
        "mul.Scalar mul.Tensor mul.Scalar mul.Tensor add.Tensor",
    ),
}


@pytest.mark.parametrize("name", SHOWN)
def test_gradient_shows_the_operators_of_pytorch(name: str) -> None:
    function, expected = SHOWN[name]
    x = mq.tensor([0.2, 0.4, 0.6, 0.8], dtype=mq.float64).requires_grad_()
    y = mq.tensor([0.8, 0.6, 0.4, 0.2], dtype=mq.float64).requires_grad_()
    out = function(x, y)

    def gradients() -> object:
        return mq.autograd.grad([out], [x, y], [mq.ones_like(out)], allow_unused=True)

    shown = [name for name in overloads_of(gradients) if name != "detach"][1:]  # after ones_like
    assert shown == expected.split()


X = mq.ones(3, 3)
FORWARD: dict[str, tuple[Callable[[], object], str]] = {
    "norm_except_dim of the first": (lambda: mq.norm_except_dim(X), "view norm.ScalarOpt_dim view"),
    "norm_except_dim of the last": (
        lambda: mq.norm_except_dim(X, 2, 1),
        "view norm.ScalarOpt_dim view",
    ),
    "norm_except_dim between": (
        lambda: mq.norm_except_dim(mq.ones(1, 4, 2), 2, 1),
        "ones transpose.int view norm.ScalarOpt_dim view transpose.int",
    ),
    "norm_except_dim of all": (lambda: mq.norm_except_dim(X, 2, -1), "norm.Scalar"),
    "frobenius_norm": (lambda: mq.frobenius_norm(X, 0), "norm.ScalarOpt_dim"),
    "count_nonzero of a dimension": (lambda: X.count_nonzero(0), "count_nonzero"),
    "count_nonzero of two": (lambda: X.count_nonzero(0, 1), "count_nonzero.dim_IntList"),
    "cosine_similarity of a row": (
        lambda: mq.cosine_similarity(X, X[0]),
        "select.int expand expand linalg_vector_norm clone linalg_vector_norm clone scalar_tensor "
        "clamp_min_.Tensor clamp_min_.Tensor div.Tensor div.Tensor mul.Tensor sum.dim_IntList",
    ),
}


@pytest.mark.parametrize("name", FORWARD)
def test_functions_show_PyTorchs_operators(name: str) -> None:
    function, expected = FORWARD[name]
    assert overloads_of(function) == expected.split()


@pytest.mark.parametrize("dim", [0, 1, 2, -1])
def test_norm_except_dim_is_the_norm_of_what_is_left(dim: int) -> None:
    v = mq.arange(24.0).reshape(4, 3, 2).transpose(0, 2)
    others = [d for d in range(3) if d != dim]
    expected = v.norm() if dim == -1 else mq.linalg_vector_norm(v, 2, others, True)
    assert mq.allclose(mq.norm_except_dim(v, 2, dim), expected)

"""Derivatives and composites call the operators that PyTorch's call, in its order."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from op_log import Recorder

import maquette as mq
from maquette.nn import functional as F
from maquette.tensor.tensor import Tensor

AT = mq.tensor([[0, 1], [1, 0]])
ROWS = mq.tensor([1, 0, 1])


class _Measuring(Recorder):
    measures_memory = True


def backward_operators(
    function: Callable[[Tensor], Tensor], x: Tensor, mode: type[Recorder] = Recorder
) -> str:
    """What the backward of ``function`` at ``x`` calls, of a gradient that is given."""
    x = x.detach().requires_grad_()
    out = function(x)
    given = mq.ones(out.shape)
    with mode() as seen:
        (grad,) = mq.autograd.grad([out], [x], [given])
    assert grad.shape == x.shape
    return " ".join(name for name in seen.names if name != "detach.default")


def forward_operators(function: Callable[[], object]) -> str:
    with Recorder() as seen:
        function()
    return " ".join(seen.names)


CALLS: dict[str, tuple[Callable[[Tensor], Tensor], str]] = {
    "squeeze": (lambda x: x[None, :, None].squeeze(), "unsqueeze.default unsqueeze.default"),
    "squeeze of a dimension": (lambda x: x[:, None].squeeze(1), "unsqueeze.default"),
    "stack": (lambda x: mq.stack([x, x]), "select.int select.int add.Tensor"),
    "repeat": (lambda x: x.repeat(2, 1), "view.default sum.dim_IntList"),
    "repeat along a new dimension": (lambda x: x.repeat(2, 1, 1), "sum.dim_IntList"),
    "expand of a number": (lambda x: x.sum().expand(()), "sum.default expand.default"),
    "gather": (lambda x: x.gather(1, AT), "new_zeros.default scatter_add.default"),
    "index_select": (lambda x: x.index_select(0, ROWS), "new_zeros.default index_add.default"),
    "index": (lambda x: x[ROWS], "new_zeros.default index_put.default"),
    "sort": (lambda x: x.sort(1)[0], "new_zeros.default scatter.src"),
    "index_add": (
        lambda x: mq.zeros(2, 2).index_add(0, mq.tensor([1, 0]), x, alpha=2),
        "index_select.default expand.default mul.Scalar",
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_derivative_calls_pytorchs_operators(name: str) -> None:
    function, expected = CALLS[name]
    x = mq.tensor([[1.0, 2.0], [4.0, 3.0]])
    assert backward_operators(function, x).startswith(expected)


def test_a_formula_writes_in_place_where_a_mode_measures_memory() -> None:
    x = mq.rand(2, 2)
    seen = backward_operators(lambda x: x.gather(1, AT), x, _Measuring)
    assert seen == "new_zeros.default scatter_add_.default"


def test_a_formula_writes_nothing_in_place_into_what_is_batched() -> None:
    x = mq.rand(3, 2, 2)
    at = mq.tensor([[[0, 1], [1, 0]]] * 3)
    grads = mq.func.vmap(mq.func.grad(lambda a, i: a.gather(1, i).sum()))(x, at)
    assert (grads == 1).all()


def test_zeros_beside_a_fake_tensor_are_of_its_mode_where_none_is_active() -> None:
    with mq.FakeTensorMode():
        x = mq.ones(3, 2).requires_grad_()
        values, where = mq.ones(2, 2), mq.tensor([0, 1])
    out = mq.ops.aten.index_put(x, [where], values)
    (grad,) = mq.autograd.grad([out], [x], [mq.ops.aten.ones_like(out)])
    assert grad.shape == (3, 2)


def test_a_write_to_a_view_of_what_needs_no_gradient_makes_none_for_it() -> None:
    def padded(x: Tensor) -> Tensor:
        whole = mq.empty(4, 2)
        whole[:2] = x
        whole[2:] = x
        return whole

    seen = backward_operators(padded, mq.rand(2, 2))
    assert "zero_.default" not in seen


def test_ctc_loss_with_lengths_in_tensors_never_reads_them() -> None:
    scores, labels = mq.rand(3, 1, 4), mq.tensor([[1]])
    frames, sizes = mq.tensor([3]), mq.tensor([1])
    seen = backward_operators(lambda x: F.ctc_loss(x, labels, frames, sizes), scores)
    assert seen == "expand.default div.Scalar div.Tensor _ctc_loss_backward.Tensor"


def test_ctc_losses_backward_is_batched_with_lengths_in_tensors() -> None:
    scores = mq.rand(2, 4, 1, 5).log_softmax(-1)
    labels = mq.tensor([[[1]], [[2]]])
    frames, sizes = mq.tensor([[4], [3]]), mq.tensor([[1], [1]])
    of_one = mq.func.grad(lambda x, t, n, m: F.ctc_loss(x, t, n, m))
    found = mq.func.vmap(of_one)(scores, labels, frames, sizes)
    for i in range(2):
        one = of_one(scores[i], labels[i], frames[i], sizes[i])
        assert mq.allclose(found[i], one, atol=1e-6)


LOSSES: dict[str, tuple[Callable[[Tensor, Tensor], object], str]] = {
    "kl_div": (
        lambda x, y: F.kl_div(x, y, reduction="sum"),
        "mul.Tensor xlogy.Tensor sub.Tensor sum.default",
    ),
    "cosine_similarity": (
        F.cosine_similarity,
        "linalg_vector_norm.default clone.default linalg_vector_norm.default clone.default "
        "scalar_tensor.default clamp_min_.Tensor clamp_min_.Tensor div.Tensor div.Tensor "
        "mul.Tensor sum.dim_IntList",
    ),
    "poisson_nll_loss": (
        lambda x, y: F.poisson_nll_loss(x, y, log_input=False),
        "add.Scalar log.default mul.Tensor sub.Tensor mean.default",
    ),
    "margin_ranking_loss": (
        lambda x, y: F.margin_ranking_loss(x, y, y),
        "sub.Tensor neg.default mul.Tensor add.Scalar clamp_min_.default mean.default",
    ),
    "pairwise_distance": (
        F.pairwise_distance,
        "sub.Tensor add.Scalar norm.ScalarOpt_dim",
    ),
}


@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_is_made_of_pytorchs_operators(name: str) -> None:
    function, expected = LOSSES[name]
    x, y = mq.rand(2, 3), mq.rand(2, 3)
    assert forward_operators(lambda: function(x, y)) == expected


CELLS = {
    "rnn_tanh_cell": (1, "t addmm t addmm add_ tanh"),
    "gru_cell": (
        3,
        "t addmm unsafe_split t addmm unsafe_split add_ sigmoid_ add_ sigmoid_ mul_ add tanh_ "
        "sub mul_ add_",
    ),
}


@pytest.mark.parametrize("name", CELLS)
def test_a_recurrent_step_works_in_place_as_pytorchs(name: str) -> None:
    gates, expected = CELLS[name]
    x, h, bias = mq.rand(2, 3), mq.rand(2, 3), mq.rand(3 * gates)
    weight = mq.rand(3 * gates, 3)
    step = getattr(mq, name)
    seen = forward_operators(lambda: step(x, h, weight, weight, bias, bias))
    assert " ".join(name.split(".")[0] for name in seen.split()) == expected


def test_recurrent_networks_take_batches_that_only_the_input_has() -> None:
    network = mq.nn.GRU(3, 2, batch_first=True)
    inputs = mq.rand(4, 2, 5, 3)
    found = mq.func.vmap(lambda x: network(x)[0])(inputs)
    assert mq.allclose(found, mq.stack([network(x)[0] for x in inputs]), atol=1e-6)

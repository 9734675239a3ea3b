"""Losses: derivatives of both orders, reductions, refusals."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from gradcheck import check_gradients, check_second_gradients

import maquette as mq
from maquette.aten.nn.loss import margin_losses
from maquette.fake.exceptions import DynamicOutputShapeException

random = np.random.default_rng(2)
X = random.standard_normal((4, 5))
Y = random.standard_normal((4, 5))
P = random.uniform(0.1, 0.9, (4, 5))
Q = random.uniform(0.1, 0.9, (4, 5))
CLASSES = np.array([1, 0, 4, 2])

REDUCTIONS = [0, 1, 2]


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize(
    "loss",
    [
        mq.mse_loss,
        lambda x, y, r: mq.smooth_l1_loss(x, y, r, 0.7),
        lambda x, y, r: mq.huber_loss(x, y, r, 0.8),
        mq.l1_loss,
        lambda x, y, r: mq.binary_cross_entropy_with_logits(x, y, None, None, r),
    ],
)
def test_losses_of_numbers_differentiate_twice(loss: Callable[..., object], reduction: int) -> None:
    check_gradients(lambda x, y: loss(x, y, reduction), X, Y)
    check_second_gradients(lambda x, y: loss(x, y, reduction), X, Y)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_binary_cross_entropy_differentiates(reduction: int) -> None:
    weight = mq.from_numpy(P[0].copy())
    check_gradients(lambda p, q: mq.binary_cross_entropy(p, q, weight, reduction), P, Q)
    check_second_gradients(lambda p, q: mq.binary_cross_entropy(p, q, None, reduction), P, Q)
    check_gradients(
        lambda x, q: mq.binary_cross_entropy_with_logits(x, q, weight, weight, reduction), X, Q
    )


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_cross_entropy_of_classes_differentiates(reduction: int, smoothing: float) -> None:
    target, weight = mq.from_numpy(CLASSES), mq.from_numpy(P[0].copy())
    check_gradients(lambda x: mq.cross_entropy_loss(x, target, weight, reduction, 0, smoothing), X)
    check_second_gradients(
        lambda x: mq.cross_entropy_loss(x, target, weight, reduction, 0, smoothing), X
    )


def test_cross_entropy_of_distributions_differentiates() -> None:
    check_gradients(lambda x, q: mq.cross_entropy_loss(x, q, label_smoothing=0.1), X, Q)


@pytest.mark.parametrize(
    "loss",
    [
        lambda x: mq.multi_margin_loss(x, mq.from_numpy(CLASSES), 2, 0.5),
        lambda x: mq.multi_margin_loss(x, mq.from_numpy(CLASSES), reduction=0),
        lambda x: mq.multilabel_margin_loss(
            x, mq.tensor([[1, 2, -1, 0, 0]] * 2 + [[0, -1, 3, 1, 2]] * 2), 0
        ),
        lambda x: mq.soft_margin_loss(x, mq.from_numpy(np.sign(Y))),
        lambda x: mq.hinge_embedding_loss(x, mq.from_numpy(np.sign(Y))),
    ],
)
def test_margin_losses_are_finite_differences(loss: Callable[..., object]) -> None:
    check_gradients(loss, X)


@pytest.mark.parametrize(
    "loss",
    [
        lambda x, y: mq.cosine_similarity(x, y),
        lambda x, y: mq.cosine_embedding_loss(x, y, mq.tensor([1, -1, 1, -1]), -0.5),
        lambda x, y: mq.margin_ranking_loss(x, y, mq.ones((4, 5)), 0.3),
        lambda x, y: mq.triplet_margin_loss(x, y, x + 1, swap=True),
        lambda x, y: mq.kl_div(x, y, log_target=True),
        lambda x, y: mq.poisson_nll_loss(x, y, True, False, 1e-8, 1),
        lambda x, y: mq.pairwise_distance(x, y, 3.0),
        lambda x, y: mq.cdist(x, y, 3.0),
        lambda x, y: mq.cdist(x, y, 2.0, "use_mm_for_euclid_dist"),
        lambda x, y: mq.dist(x, y, 1.5),
    ],
)
def test_losses_of_pairs_are_finite_differences(loss: Callable[..., object]) -> None:
    check_gradients(loss, X, Y)


@pytest.mark.parametrize("p", [0.5, 1.0, 1.5, 2.0, 3.0, float("inf")])
def test_pdist_is_the_upper_triangle_of_cdist(p: float) -> None:
    x = mq.from_numpy(X.copy())
    rows, columns = np.triu_indices(4, 1)
    expected = mq.cdist(x, x, p).numpy()[rows, columns]
    assert mq.pdist(x, p).numpy() == pytest.approx(expected)
    check_gradients(lambda t: mq.pdist(t, p), X)


def test_nll_loss_ignores_what_it_is_told_to() -> None:
    logs = mq.from_numpy(X.copy()).log_softmax(1)
    target = mq.tensor([1, -100, 4, -100])
    losses = mq.nll_loss(logs, target, None, 0)
    assert losses.tolist()[1::2] == [0, 0]
    assert mq.nll_loss(logs, target, None, 1).item() == pytest.approx(losses.sum().item() / 2)


def test_nll_loss_of_a_missing_class_says_which() -> None:
    with pytest.raises(IndexError, match="Target 7 is out of bounds"):
        mq.nll_loss(mq.zeros((1, 5)), mq.tensor([7]))


def test_mean_loss_of_nothing_is_nan() -> None:
    assert mq.mse_loss(mq.zeros((0, 3)), mq.zeros((0, 3)), 1).isnan().item()


def test_huber_loss_needs_a_positive_delta() -> None:
    with pytest.raises(RuntimeError, match="non-positive values for delta"):
        mq.huber_loss(mq.ones(2), mq.ones(2), 1, 0.0)


def test_ctc_loss_of_one_certain_path_is_zero() -> None:
    logs = mq.full((3, 1, 3), -1e9)
    for frame, label in enumerate((1, 0, 2)):
        logs[frame, 0, label] = 0.0
    loss = mq.ctc_loss(logs, mq.tensor([[1, 2]]), (3,), (2,))
    assert loss.item() == pytest.approx(0.0)


def test_ctc_loss_with_lengths_as_tensors_is_an_operator_of_its_own() -> None:
    scores = mq.randn(4, 2, 3, dtype=mq.float64).log_softmax(-1).requires_grad_()
    targets, frames, labels = mq.tensor([[1, 2], [2, 0]]), [4, 3], [2, 1]
    told, found = (mq.tensor(n) for n in (frames, labels))
    for reduction in REDUCTIONS:
        by_tensors = mq.ctc_loss(scores, targets, told, found, 0, reduction).sum()
        by_lists = mq.ctc_loss(scores, targets, frames, labels, 0, reduction).sum()
        assert mq.allclose(by_tensors, by_lists)
        gradients = [mq.autograd.grad(loss, scores)[0] for loss in (by_tensors, by_lists)]
        assert mq.allclose(*gradients)
    with pytest.raises(RuntimeError, match="input_lengths to have value at most 4"):
        mq.ctc_loss(scores, targets, told + 1, found)


def test_F70_ctc_loss_with_lengths_that_only_data_has_is_refused_by_its_name() -> None:
    with mq.FakeTensorMode():
        lengths = mq.empty(2, dtype=mq.int64)
        with pytest.raises(DynamicOutputShapeException, match=r"aten\._ctc_loss\.Tensor"):
            mq.ctc_loss(mq.randn(4, 2, 3), mq.ones(2, 2, dtype=mq.int64), lengths, lengths)


def test_ctc_loss_without_a_path_is_infinite_unless_zeroed() -> None:
    logs = mq.zeros((2, 1, 3)).log_softmax(2)
    target = mq.tensor([[1, 1]])  # a blank must stand between: three frames at least
    assert mq.ctc_loss(logs, target, (2,), (2,)).item() == float("inf")
    assert mq.ctc_loss(logs, target, (2,), (2,), zero_infinity=True).item() == 0


def test_binary_cross_entropy_takes_no_weight_larger_than_the_losses():
    with pytest.raises(RuntimeError, match=r"output with shape \[1\] doesn't match .* \[5\]"):
        mq.ops.aten.binary_cross_entropy(mq.rand(1), mq.rand(1), mq.rand(5))
    assert mq.ops.aten.binary_cross_entropy(mq.rand(2, 5), mq.rand(2, 5), mq.rand(5)).ndim == 0


def test_huber_loss_backward_means_over_its_input_where_the_target_is_larger():
    op = mq.ops.aten.huber_loss_backward.default
    args = mq.ones(()), mq.ones(()), mq.tensor([1.0, 2.0]), 1, 8.0
    rule = mq.fx.decompositions.global_decomposition_table["post_autograd"][op]
    assert op(*args).tolist() == rule(*args).tolist() == [0.0, -1.0]


def test_multilabel_margin_loss_takes_large_batches_in_parts(monkeypatch: pytest.MonkeyPatch):
    x, target = mq.tensor(X), mq.tensor([[1, -1, 2, 0, 0], [0, 3, 4, -1, 1]] * 2)
    expected = mq.multilabel_margin_loss(x, target, 0).tolist()
    monkeypatch.setattr(margin_losses, "_AT_ONCE", 1)
    assert mq.multilabel_margin_loss(x, target, 0).tolist() == expected


def test_the_operator_of_the_margin_ranking_loss_broadcasts() -> None:
    """The function in `nn.functional` refuses other ranks; PyTorch's operator does not."""
    x, y = mq.ones(2, 2), mq.zeros(2, 2)
    assert mq.margin_ranking_loss(x, y, mq.tensor([-1.0, 1.0]), 0.0, 1).item() == 0.5


@pytest.mark.parametrize("name", ["huber", "mse", "smooth_l1", "soft_margin"])
def test_gradients_of_means_are_divided_by_the_size_of_self_alone_under_vmap(name: str) -> None:
    backward = getattr(mq.ops.aten, f"{name}_loss_backward")
    more = {"huber": (1, 8.0), "smooth_l1": (1, 1.0)}.get(name, (1,))
    grad, self, target = mq.tensor([0.5]), mq.tensor([-6.5]), mq.tensor([[0.5, 3.5]])
    found = mq.vmap(lambda g, s, t: backward(g, s, t, *more))(grad, self, target)
    assert found[0].tolist() == pytest.approx(backward(grad[0], self[0], target[0], *more).tolist())


@pytest.mark.parametrize("name", ["huber_loss", "binary_cross_entropy"])
def test_an_unknown_reduction_reduces_nothing(name: str) -> None:
    x = mq.full((2, 3), 0.5)
    args = (None, 3) if name == "binary_cross_entropy" else (3,)
    assert getattr(mq.ops.aten, name)(x, x, *args).shape == (2, 3)


@pytest.mark.parametrize("name", ["mse_loss", "smooth_l1_loss"])
def test_an_unknown_reduction_is_refused(name: str) -> None:
    with pytest.raises(RuntimeError, match=r"expected reduction 0 .* got 3"):
        getattr(mq.ops.aten, name)(mq.ones(2), mq.ones(2), 3)


def test_huber_loss_is_flat_from_delta_on() -> None:
    x = mq.tensor([-1.0, 0.5, 1.0, 2.0], requires_grad=True)
    loss = mq.nn.functional.huber_loss(x, mq.zeros(4), reduction="sum")
    (slope,) = mq.autograd.grad(loss, x, create_graph=True)
    assert mq.autograd.grad(slope.sum(), x)[0].tolist() == [0.0, 1.0, 0.0, 0.0]

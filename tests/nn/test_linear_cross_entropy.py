"""`linear_cross_entropy` is `cross_entropy` of `linear`, with a loss of any dimensions."""

import pytest

import maquette as mq
from maquette import nn
from maquette.nn import functional as F

X, W = mq.randn(4, 3), mq.randn(5, 3)
TARGET = mq.tensor([0, 3, 4, 1])


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("probable", [True, False])
def test_the_loss_is_that_of_the_logits(reduction, probable):
    target = mq.rand(4, 5).softmax(1) if probable else TARGET
    bias, weight = mq.randn(5), mq.rand(5)
    options = {"weight": weight, "reduction": reduction, "label_smoothing": 0.1}
    found = F.linear_cross_entropy(X, W, target, linear_bias=bias, **options)
    assert mq.allclose(found, F.cross_entropy(F.linear(X, W, bias), target, **options))


def test_a_sample_needs_no_batch():
    found = F.linear_cross_entropy(X[0], W, TARGET[0])
    assert mq.allclose(found, F.cross_entropy(F.linear(X[0], W), TARGET[0]))


def test_classes_at_several_places():
    rows, bias, target = mq.randn(5, 2, 3), mq.randn(5, 2), mq.randint(0, 5, (4, 2))
    logits = mq.einsum("nf,ckf->nck", X, rows) + bias
    found = F.linear_cross_entropy(X, rows, target, linear_bias=bias, reduction="none")
    assert mq.allclose(found, F.cross_entropy(logits, target, reduction="none"), atol=1e-6)


def test_an_ignored_class_counts_for_nothing():
    found = F.linear_cross_entropy(X, W, TARGET, ignore_index=3)
    kept = [0, 2, 3]
    assert mq.allclose(found, F.linear_cross_entropy(X[kept], W, TARGET[kept]))


def test_gradients_reach_all_that_was_given():
    x, w, bias = X.clone(), W.clone(), mq.zeros(5)
    for t in (x, w, bias):
        t.requires_grad_()
    F.linear_cross_entropy(x, w, TARGET, linear_bias=bias).backward()
    slope = ((F.linear(X, W)).softmax(1) - F.one_hot(TARGET, 5)) / 4
    assert mq.allclose(x.grad, slope @ W, atol=1e-6)
    assert mq.allclose(w.grad, slope.t() @ X, atol=1e-6)
    assert mq.allclose(bias.grad, slope.sum(0), atol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((X[None], W, TARGET), {}, "input with dimensionality 1 or 2, got 3"),
        ((X, W[0], TARGET), {}, "linear_weight with dimensionality at least 2, got 1"),
        ((X, W[:, :2], TARGET), {}, "got 3 and 2, respectively"),
        ((X[0], mq.ones(5, 2, 3), TARGET), {}, "requires batched input"),
        ((X, W, TARGET), {"linear_bias": mq.ones(3)}, r"linear_bias shape \(5,\), got \(3,\)"),
        ((X, W, mq.rand(4, 5)), {"ignore_index": 1}, "ignore_index cannot be specified"),
    ],
)
def test_shapes_that_do_not_go_together_are_refused(arguments, options, message):
    with pytest.raises(RuntimeError, match=message):
        F.linear_cross_entropy(*arguments, **options)


def test_the_layer_holds_its_rows_flat():
    """Finding 49."""
    layer = nn.LinearCrossEntropyLoss(3, 5, out_features=(2,), bias=True)
    assert {k: tuple(v.shape) for k, v in layer.state_dict().items()} == {
        "linear.weight": (10, 3), "linear.bias": (10,),
    }  # fmt: skip
    rows, bias = layer.linear.weight.reshape(5, 2, 3), layer.linear.bias.reshape(5, 2)
    target = mq.randint(0, 5, (4, 2))
    wanted = F.linear_cross_entropy(X, rows, target, linear_bias=bias)
    assert mq.equal(layer(X, target), wanted)


def test_chunks_change_nothing():
    options = nn.LinearCrossEntropyOptions(batch_chunk_size=2)
    found = F.linear_cross_entropy(X, W, TARGET, options=options)
    assert mq.equal(found, F.linear_cross_entropy(X, W, TARGET))


@pytest.mark.parametrize("options", [{"weight": mq.ones(3)}, {"label_smoothing": 2.0}])
def test_the_loss_refuses_what_does_not_fit_when_it_is_made(options: dict[str, object]) -> None:
    with pytest.raises(RuntimeError, match=r"expected (weight shape|label_smoothing) to be"):
        mq.nn.LinearCrossEntropyLoss(3, 2, **options)

"""Random operators under `vmap`: what each of the three ways of `randomness` gives and refuses."""

import pytest

import maquette as mq
from maquette.transforms import grad, vmap


def drawn(function, *args):
    mq.manual_seed(5)
    return function(*args)


@pytest.mark.parametrize("dim", [0, 1])
def test_T69_different_draws_are_those_of_the_whole_batch(dim):
    mean, std = mq.zeros(4, 33), mq.ones(33, 4)
    found = drawn(vmap(mq.normal, in_dims=(dim, 1 - dim), randomness="different"), mean, std)
    whole = drawn(mq.normal, mean.movedim(dim, 0), std.movedim(1 - dim, 0))
    assert mq.equal(found, whole)


def test_T69_different_draws_in_place_take_batched_probabilities():
    target, p = mq.zeros(4, 20), mq.full((20, 4), 0.5)
    draw = vmap(lambda t, q: t.bernoulli_(q), in_dims=(0, 1), randomness="different")
    assert mq.equal(drawn(draw, target, p), drawn(mq.zeros(4, 20).bernoulli_, p.t()))


def test_T69_dropout_of_what_has_no_batch_differs_over_the_batch():
    drop = vmap(
        lambda x, y: mq.nn.functional.dropout(y, 0.5),
        in_dims=(0, None),
        randomness="different",
    )
    first, second = drop(mq.ones(2), mq.ones(100))
    assert not mq.equal(first, second)


def test_T69_the_same_draw_like_a_batched_tensor_is_one_draw():
    found = vmap(lambda x: mq.rand_like(x) + 0 * x, in_dims=1, randomness="same")(mq.ones(3, 4))
    assert found.shape == (4, 3)
    assert (found == found[0]).all()


@pytest.mark.parametrize(
    ("draw", "match"),
    [
        (lambda x: mq.bernoulli(x), "same randomness with a batched tensor"),
        (lambda x: mq.ones(3).bernoulli_(x), "same randomness with a batched tensor"),
        (lambda x: mq.randn(3, out=mq.ones(3)), "calling out variants of random operations"),
    ],
)
def test_T69_draws_that_cannot_be_the_same_are_refused(draw, match):
    with pytest.raises(RuntimeError, match=match):
        vmap(draw, randomness="same")(mq.ones(2, 3))


def test_generators_go_to_a_state_and_are_given_back():
    generator = mq.Generator()
    assert generator.set_state(generator.get_state()) is generator


X = mq.arange(12.0).reshape(3, 4) + 1


@pytest.mark.parametrize("dim", [0, 1])
def test_members_draw_dropout_in_their_own_order_wherever_they_lie(dim):
    dropped = vmap(lambda t: mq.dropout(t, 0.5, True), in_dims=dim, randomness="different")
    rows = X.movedim(dim, 0)
    assert mq.equal(drawn(dropped, X), drawn(mq.dropout, rows.contiguous(), 0.5, True))


def test_a_gradient_draws_dropout_in_the_order_of_the_dimensions():
    slope = grad(lambda t: mq.dropout(t, 0.5, True).sum())
    assert mq.equal(drawn(slope, X.t()), drawn(slope, X.t().contiguous()))


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("replacement", [True, False])
def test_members_are_sampled_as_the_rows_of_one_tensor(dim, replacement):
    sampled = vmap(lambda t: mq.multinomial(t, 3, replacement), in_dims=dim, randomness="different")
    rows = X.movedim(dim, 0)
    assert mq.equal(drawn(sampled, X), drawn(mq.multinomial, rows, 3, replacement))


def test_one_sample_for_all_members_asks_one_tensor_of_weights():
    sampled = vmap(lambda i: mq.multinomial(X[0], 3) + i, randomness="same")
    assert sampled(mq.zeros(2)).shape == (2, 3)
    with pytest.raises(RuntimeError, match="same randomness with a batched tensor"):
        vmap(lambda t: mq.multinomial(t, 3), randomness="same")(X)

"""Operators that choose by the derivative that is wanted, draw, or read lengths, in transforms."""

import pytest

import maquette as mq
from maquette.transforms import functionalize, grad, jvp, vmap

F = mq.nn.functional
aten = mq.ops.aten


def of(*shape):
    return mq.randn(*shape, dtype=mq.float64)


def each(function, *stacks):
    return mq.stack([function(*members) for members in zip(*stacks, strict=True)])


def bag(weight, mode):
    return F.embedding_bag(mq.tensor([0, 2, 1, 3]), weight, mq.tensor([0, 2]), mode=mode)


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_a_bag_is_differentiated_through_vmap_and_functionalization(mode):
    weights = of(3, 4, 5)
    expected = each(grad(lambda w: (bag(w, mode) ** 2).sum()), weights)
    inside = vmap(lambda w: bag(w, mode))
    assert mq.allclose(grad(lambda w: (inside(w) ** 2).sum())(weights), expected)
    functional = grad(functionalize(lambda w: (bag(w, mode) ** 2).sum()))
    assert mq.allclose(functional(weights[0]), expected[0])


def test_a_mask_of_attention_learns_inside_of_functionalization():
    q, mask = of(1, 2, 4, 8), of(4, 4)

    def loss(mask):
        return (F.scaled_dot_product_attention(q, q, q, attn_mask=mask) ** 2).sum()

    assert mq.allclose(grad(functionalize(loss))(mask), grad(loss)(mask))


@pytest.mark.parametrize(
    "values", [mq.linalg_svdvals, lambda x: mq.linalg_eigvalsh(x @ x.mT)], ids=["svd", "eigh"]
)
def test_values_alone_have_tangents_inside_of_vmap(values):
    x, t = of(3, 4, 4), of(3, 4, 4)
    expected = each(lambda x, t: jvp(values, (x,), (t,))[1], x, t)
    assert mq.allclose(jvp(vmap(values), (x,), (t,))[1], expected)


@pytest.mark.parametrize("mask", [None, (4, 4), (2, 1, 4, 4), (1, 2, 4, 4)])
def test_attention_that_drops_nothing_is_batched(mask):
    given = None if mask is None else of(*mask)

    def attention(q, k):
        return F.scaled_dot_product_attention(q, k, k * 2, attn_mask=given)

    q, k = of(3, 2, 2, 4, 8), of(3, 2, 2, 4, 8)
    assert mq.allclose(vmap(attention)(q, k), each(attention, q, k))
    slope = grad(lambda q, k: (attention(q, k) ** 2).sum(), 1)
    assert mq.allclose(vmap(slope)(q, k), each(slope, q, k))
    assert mq.allclose(vmap(attention, (0, None))(q, k[0]), each(attention, q, k[:1].expand_as(k)))


@pytest.mark.parametrize("targets", ["matrix", "row", "batched"])
def test_ctc_loss_is_batched(targets):
    x, lengths = of(3, 6, 2, 5), (mq.tensor([6, 5]), mq.tensor([2, 1]))
    given = {"matrix": mq.tensor([[1, 2], [3, 0]]), "row": mq.tensor([1, 2, 3])}.get(targets)

    def loss(x, labels):
        return F.ctc_loss(x.log_softmax(-1), labels, *lengths, reduction="none")

    labels = mq.randint(1, 5, (3, 2, 2)) if given is None else mq.stack([given] * 3)
    in_dims = (0, 0 if given is None else None)
    second = labels if given is None else given
    assert mq.allclose(vmap(loss, in_dims)(x, second), each(loss, x, labels))
    slope = grad(lambda x, labels: (loss(x, labels) ** 2).sum())
    assert mq.allclose(vmap(slope, in_dims)(x, second), each(slope, x, labels))


def test_lengths_are_read_inside_of_functionalization():
    x = of(6, 2, 5).log_softmax(-1)

    def loss(x):
        lengths = mq.tensor([6, 5]), mq.tensor([2, 1])
        return F.ctc_loss(x, mq.tensor([[1, 2], [3, 0]]), *lengths)

    assert mq.allclose(functionalize(loss)(x), loss(x))
    twice = functionalize(lambda x: mq.tensor((x * 2).tolist()))
    assert twice(mq.arange(6).view(2, 3)).tolist() == [[0, 2, 4], [6, 8, 10]]


@pytest.mark.parametrize("in_dims", [(0, 0), (0, None), (None, 0)])
def test_the_row_that_pads_an_embedding_learns_nothing_inside_of_vmap(in_dims):
    indices = mq.tensor([[0, 2, 2], [1, 1, 2], [3, 0, 0]])
    weight = of(3, 4, 5)

    def loss(w, i):
        return (F.embedding(i, w, padding_idx=2) ** 2).sum()

    def through(operator):
        def total(w):
            return operator(w if in_dims[0] == 0 else w[0])

        return total

    second = indices if in_dims[1] == 0 else indices[0]
    batched = through(lambda w: vmap(loss, in_dims)(w, second).sum())
    table = [0, 1, 2] if in_dims[0] == 0 else [0, 0, 0]
    row = [0, 1, 2] if in_dims[1] == 0 else [0, 0, 0]

    def looped(w):
        return sum(loss(w[k], indices[r]) for k, r in zip(table, row, strict=True))

    assert mq.allclose(grad(batched)(weight), grad(looped)(weight))
    t = of(3, 4, 5)
    assert mq.allclose(jvp(batched, (weight,), (t,))[1], jvp(looped, (weight,), (t,))[1])

"""Rows of tables and bags of rows: values, gradients, refusals."""

from __future__ import annotations

import numpy as np
import pytest
from gradcheck import check_gradients, check_second_gradients

import maquette as mq

random = np.random.default_rng(10)
aten = mq.ops.aten
TABLE = random.standard_normal((5, 3))
ROWS = mq.from_numpy(np.array([[1, 4, 1], [0, 2, 1]]))
INDICES, OFFSETS = mq.from_numpy(np.array([1, 2, 4, 4, 3, 0])), mq.from_numpy(np.array([0, 3, 3]))


def test_embedding_is_indexing() -> None:
    found = aten.embedding(mq.from_numpy(TABLE), ROWS)
    assert (found.numpy() == TABLE[ROWS.numpy()]).all()


def test_embedding_differentiates_twice() -> None:
    check_gradients(lambda w: aten.embedding(w, ROWS), TABLE)
    check_second_gradients(lambda w: aten.embedding(w, ROWS, 4), TABLE)


def test_rows_that_are_not_read_get_no_gradient_beside_a_padding() -> None:
    rows = mq.tensor([1, 1, 2])
    grad = aten.embedding_dense_backward(mq.ones(3, 2), rows, 4, 1, True)
    assert grad.tolist() == [[0, 0], [0, 0], [1, 1], [0, 0]]


def test_rows_of_no_tables_are_looked_up() -> None:
    tables, rows = mq.zeros(0, 8, 5), mq.zeros(0, dtype=mq.int64)
    assert mq.vmap(lambda w, i: aten.embedding(w, i, 0))(tables, rows).shape == (0, 5)


def test_the_padding_row_gets_no_gradient() -> None:
    grad = aten.embedding_dense_backward(mq.ones(2, 3, 3), ROWS, 5, 1, False)
    assert grad.numpy()[:, 0].tolist() == [1, 0, 1, 0, 1]


def test_frequent_rows_get_the_mean() -> None:
    grad = aten.embedding_dense_backward(mq.ones(2, 3, 3), ROWS, 5, -1, True)
    assert grad.numpy()[:, 0].tolist() == [1, 1, 1, 0, 1]


@pytest.mark.parametrize("row", [-1, 5])
def test_embedding_names_a_row_that_is_not_there(row: int) -> None:
    with pytest.raises(IndexError, match=f"out of range in self: {row} for a table of 5 rows"):
        aten.embedding(mq.from_numpy(TABLE), mq.from_numpy(np.array([row])))


def test_embedding_refuses_fractions() -> None:
    with pytest.raises(RuntimeError, match="Long, Int; but got Double"):
        aten.embedding(mq.from_numpy(TABLE), mq.zeros(2, dtype=mq.float64))


def test_a_sparse_gradient_has_the_rows_that_were_read() -> None:
    table = mq.from_numpy(TABLE).requires_grad_()
    aten.embedding(table, ROWS, -1, False, True).sum().backward()
    assert table.grad.layout is mq.sparse_coo
    assert table.grad._indices().tolist() == [ROWS.flatten().tolist()]


def test_renormalizing_touches_the_rows_used() -> None:
    table = mq.from_numpy(TABLE.copy())
    aten.embedding_renorm_(table, mq.from_numpy(np.array([1, 1])), 0.1, 2.0)
    norms = np.linalg.norm(table.numpy(), axis=1)
    assert norms[1] == pytest.approx(0.1, rel=1e-5)
    assert (table.numpy()[2:] == TABLE[2:]).all()


@pytest.mark.parametrize("mode", [0, 1, 2])
@pytest.mark.parametrize("padding", [-1, 4])
def test_bags_differentiate(mode: int, padding: int) -> None:
    def bags(w: mq.Tensor) -> mq.Tensor:
        result = aten.embedding_bag.padding_idx(
            w, INDICES, OFFSETS, False, mode, False, None, False, None if padding < 0 else padding
        )
        return result[0]

    check_gradients(bags, TABLE)


def test_weighted_bags_differentiate_in_the_weights() -> None:
    check_gradients(
        lambda w, s: aten._embedding_bag(w, INDICES, OFFSETS, False, 0, False, s)[0],
        TABLE,
        random.standard_normal(6),
    )


@pytest.mark.parametrize("mode, expected", [(0, 0), (1, 0), (2, 0)])
def test_an_empty_bag_is_zero(mode: int, expected: int) -> None:
    out = aten._embedding_bag_forward_only(mq.from_numpy(TABLE), INDICES, OFFSETS, False, mode)[0]
    assert (out.numpy()[1] == expected).all()


def test_bags_begin_at_zero() -> None:
    with pytest.raises(RuntimeError, match=r"offsets\[0\] has to be 0"):
        aten._embedding_bag(mq.from_numpy(TABLE), INDICES, OFFSETS + 1)


def test_narrow_gradients_are_added_up_in_their_own_type() -> None:
    grad = mq.full((300, 1), 1.0, dtype=mq.bfloat16)
    rows = mq.zeros(300, dtype=mq.int64)
    assert aten.embedding_dense_backward(grad, rows, 1, -1, False).item() == 256


def test_a_sparse_gradient_does_not_share_the_indices_that_were_looked_up() -> None:
    table, rows = mq.nn.Embedding(4, 1, sparse=True), mq.tensor([1, 2])
    table(rows).sum().backward()
    rows[0] = 3
    assert table.weight.grad._indices().tolist() == [[1, 2]]


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_name_a_row_that_is_not_there(mode: str) -> None:
    bag = mq.nn.functional.embedding_bag
    with pytest.raises(RuntimeError, match="but found idx to be 9"):
        bag(mq.tensor([1, 9]), mq.ones(4, 2), mq.tensor([0]), mode=mode)


@pytest.mark.parametrize("options", [{"padding_idx": 1}, {"scale_grad_by_freq": True}])
def test_linearize_is_jvp_where_gradients_leave_rows_out(options: dict[str, object]) -> None:
    table, direction = mq.from_numpy(TABLE), mq.ones(5, 3, dtype=mq.float64)

    def looked_up(w: mq.Tensor) -> mq.Tensor:
        return mq.nn.functional.embedding(ROWS, w, **options)  # type: ignore[arg-type]  # by name

    expected = looked_up(direction)
    assert mq.equal(mq.func.jvp(looked_up, (table,), (direction,))[1], expected)
    assert mq.equal(mq.func.linearize(looked_up, table)[1](direction), expected)


def test_frequent_rows_get_the_mean_in_every_order_of_vmap_and_grad() -> None:
    tables = mq.from_numpy(random.standard_normal((2, 5, 3)))
    scale = mq.arange(9, dtype=mq.float64).view(3, 3)

    def loss(w: mq.Tensor, rows: mq.Tensor) -> mq.Tensor:
        found = mq.nn.functional.embedding(rows, w, padding_idx=2, scale_grad_by_freq=True)
        return (found * scale).sum()

    alone = [mq.func.grad(loss)(w, rows) for w, rows in zip(tables, ROWS)]
    inside = mq.vmap(mq.func.grad(loss))(tables, ROWS)
    outside = mq.func.grad(lambda w: mq.vmap(loss)(w, ROWS).sum())(tables)
    assert mq.equal(inside, mq.stack(alone))
    assert mq.equal(outside, mq.stack(alone))


def test_a_batch_of_tables_names_a_row_that_its_own_table_lacks() -> None:
    tables, rows = mq.zeros(2, 5, 3), mq.tensor([[0], [5]])
    with pytest.raises(IndexError):
        mq.vmap(lambda w, i: mq.nn.functional.embedding(i, w, scale_grad_by_freq=True))(
            tables,
            rows.flip(0),  # the first table's row 5 would be the second's first
        )


def test_the_gradient_of_frequent_rows_is_differentiated() -> None:
    rows = ROWS.flatten()

    def gradient(g: mq.Tensor) -> mq.Tensor:
        return aten.embedding_dense_backward(g, rows, 5, 4, True)

    check_gradients(gradient, random.standard_normal((6, 3)))


@pytest.mark.parametrize(("rows", "shape"), [(0, (0, 4)), (3, (0, 4)), (3, (2, 0))])
def test_the_gradient_of_no_rows_is_zeros(rows: int, shape: tuple[int, ...]) -> None:
    table = mq.ones(rows, 5, requires_grad=True)
    mq.nn.functional.embedding(mq.zeros(shape, dtype=mq.int64), table).sum().backward()
    assert table.grad is not None
    assert mq.equal(table.grad, mq.zeros(rows, 5))


def test_weights_of_samples_learn_where_the_table_does_not() -> None:
    table, weights = mq.arange(6.0).reshape(3, 2), mq.ones(3, requires_grad=True)
    rows, bags = mq.tensor([2, 0, 1]), mq.tensor([0, 2])
    embedding_bag = mq.nn.functional.embedding_bag
    embedding_bag(rows, table, bags, mode="sum", per_sample_weights=weights).sum().backward()
    assert weights.grad is not None
    assert weights.grad.tolist() == [9.0, 1.0, 5.0]

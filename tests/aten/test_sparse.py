"""Sparse tensors: made, converted, computed with, differentiated, fake. PyTorch's answers to many
more programs are compared in ``tests/peer/test_sparse_programs.py``."""

from __future__ import annotations

import subprocess
import sys

import pytest

import maquette as mq
import maquette.torch as torch
from maquette import ops

LAYOUTS = ["sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc"]


def coo(requires_grad: bool = False) -> mq.Tensor:
    """[[0, 0, 3], [9, 0, 0]], with the 9 in two parts."""
    indices, values = mq.tensor([[0, 1, 1], [2, 0, 0]]), mq.tensor([3.0, 4.0, 5.0])
    return mq.sparse_coo_tensor(indices, values, (2, 3), requires_grad=requires_grad)


def dense() -> mq.Tensor:
    return mq.arange(24.0).reshape(4, 6).tril(1)


def in_layout(name: str, t: mq.Tensor) -> mq.Tensor:
    block = (2, 3) if name in ("sparse_bsr", "sparse_bsc") else None
    return t.to_sparse(layout=getattr(mq, name), blocksize=block)


BLOCKED = ("sparse_bsr", "sparse_bsc")
# Blocks are not converted to compressed rows or columns in one step.
CONVERSIONS = [
    (first, second)
    for first in LAYOUTS
    for second in LAYOUTS
    if first not in BLOCKED or second not in ("sparse_csr", "sparse_csc")
]


@pytest.mark.parametrize("first, second", CONVERSIONS)
def test_layouts_convert_to_one_another(first: str, second: str) -> None:
    made = in_layout(second, in_layout(first, dense()))
    assert made.layout is getattr(mq, second)
    assert made.to_dense().tolist() == dense().tolist()


def test_conversions_that_pytorch_refuses_are_refused() -> None:
    blocks = in_layout("sparse_bsr", dense())
    with pytest.raises(RuntimeError, match="SparseCsr or SparseCsc layout but got SparseBsr"):
        blocks.to_sparse_csr()
    with pytest.raises(RuntimeError, match=r"blocksize changed from \[2, 3\] to \[1, 1\]"):
        blocks.to_sparse_bsc((1, 1))
    with pytest.raises(RuntimeError, match="dense_dim argument given"):
        coo().to_sparse_csr(dense_dim=0)
    with pytest.raises(RuntimeError, match="for batched inputs is not supported"):
        mq.ones(2, 2, 2).to_sparse_csr().to_sparse_bsr((1, 1))
    with pytest.raises(RuntimeError, match=r"sparse_dim argument !=self.sparse_dim\(\)"):
        coo().to_sparse(1)


def test_layouts_tell_the_truth() -> None:
    s, r = coo(), coo().to_sparse_csr()
    assert (s.is_sparse, s.is_sparse_csr, r.is_sparse, r.is_sparse_csr) == (
        True,
        False,
        False,
        True,
    )
    assert (s._nnz(), s.sparse_dim(), s.dense_dim(), s.is_coalesced()) == (3, 2, 0, False)
    assert r.crow_indices().tolist() == [0, 1, 2]
    assert r.col_indices().tolist() == [2, 0]


def test_coalescing_sorts_and_sums() -> None:
    c = coo().coalesce()
    assert (c.indices().tolist(), c.values().tolist()) == ([[0, 1], [2, 0]], [3.0, 9.0])
    assert c.is_coalesced()
    assert c.coalesce() is c


def test_keys_are_the_layouts() -> None:
    s = mq.DispatchKeySet.from_raw_repr(coo()._keys)
    assert s.has("SparseCPU")
    assert not s.has("CPU")
    assert mq.DispatchKeySet.from_raw_repr(dense().to_sparse_csc()._keys).has("SparseCsrCPU")


def test_values_are_a_view_of_their_tensor() -> None:
    c = coo().coalesce()
    values = c.values()
    assert values._base is c
    values.mul_(2)
    assert c.to_dense().sum().item() == 24.0
    assert c._version == 1


@pytest.mark.parametrize("name", ["exp", "cos", "sigmoid", "view", "sort"])
def test_the_rest_is_refused_by_operator_and_layout(name: str) -> None:
    args = (-1,) if name in ("view", "sort") else ()
    with pytest.raises(NotImplementedError, match=f"{name}.*SparseCPU.*to_dense"):
        getattr(coo(), name)(*args)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: coo() + 1, r"add\(sparse, dense\) is not supported"),
        (lambda: coo().values(), r"call \.coalesce\(\) first"),
        (lambda: coo() / mq.ones(2, 3), "requires a scalar or zero-dim dense tensor divisor"),
        (lambda: coo().to_sparse_csr().stride(), "Sparse CSR tensors do not have strides"),
        (lambda: mq.ones(2).values(), "values expected sparse tensor layout but got Strided"),
        (lambda: mq.sparse_coo_tensor([[0, 1]], [1.0], (2,)), "must have same nnz"),
        (lambda: coo() @ mq.ones(2, 2), "mat1 and mat2 shapes cannot be multiplied"),
    ],
)
def test_refusals_say_what_is_wrong(call, words: str) -> None:
    with pytest.raises(RuntimeError, match=words):
        call()


def test_invariants_are_checked_where_asked_for() -> None:
    bad = ([[0, 5]], [1.0, 2.0], (2,))
    assert mq.sparse_coo_tensor(*bad)._nnz() == 2
    with torch.sparse.check_sparse_tensor_invariants():
        with pytest.raises(RuntimeError, match="for dim 0, size is 2 but found index 5"):
            mq.sparse_coo_tensor(*bad)
    with pytest.raises(RuntimeError, match=r"crow_indices\[..., -1\] == nnz"):
        mq.sparse_csr_tensor([0, 1, 1], [2, 0], [1.0, 2.0], (2, 3), check_invariants=True)


@pytest.mark.parametrize("name", LAYOUTS)
def test_products_with_dense_ones(name: str) -> None:
    a, b = dense(), mq.arange(12.0).reshape(6, 2)
    s = in_layout(name, a)
    assert mq.allclose(s @ b, a @ b)
    assert mq.allclose(s.mv(b[:, 0]), a.mv(b[:, 0]))
    if name not in BLOCKED:
        assert mq.allclose(mq.ones(3, 4) @ s, mq.ones(3, 4) @ a)


@pytest.mark.parametrize("left, right", [("sparse_coo", "sparse_csr"), ("strided", "sparse_bsr")])
def test_products_of_mixed_layouts_are_refused(left: str, right: str) -> None:
    a, b = mq.ones(2, 4), in_layout(right, dense())
    with pytest.raises(RuntimeError, match=r"mm: computation on cpu is not implemented for S.* @"):
        mq.mm(a if left == "strided" else in_layout(left, a), b)


def test_a_product_of_columns_is_of_rows() -> None:
    a, b = dense().to_sparse_csc(), dense().t().to_sparse_csc()
    assert (a @ b).layout is mq.sparse_csr
    assert torch.sparse.mm(a, b).layout is mq.sparse_csc


def repeated(*values: float) -> mq.Tensor:
    return mq.sparse_coo_tensor([[2, 0, 2]], list(values), (4,))


def test_sums_of_uncoalesced_tensors_merge_by_two_pointers() -> None:
    a, b = repeated(1, 2, 3), mq.sparse_coo_tensor([[2, 3]], [5.0, 6.0], (4,))
    assert (a + b)._indices().tolist() == [[2, 0, 2, 3]]
    assert (a - b)._values().tolist() == [-4, 2, 3, -6]
    assert not (a + b).is_coalesced()


def test_products_of_uncoalesced_tensors_keep_the_elements_of_one() -> None:
    a, b = repeated(1, 2, 3), mq.tensor([0.0, 1, 10, 0]).to_sparse()
    assert (b * a)._indices().tolist() == [[2, 0, 2]]
    assert (b * a)._values().tolist() == [10, 0, 30]
    assert (a * a).to_dense().tolist() == [4, 0, 16, 0]


def test_a_mask_that_comes_twice_has_the_sum_twice() -> None:
    a = repeated(1, 2, 3)
    assert a.sparse_mask(a * 2)._values().tolist() == [4, 2, 4]


def test_a_tensor_broadcast_keeps_dense_dimensions_and_stored_zeros() -> None:
    s = mq.sparse_coo_tensor([[1, 0]], [[0.0, 3.0], [1.0, 2.0]], (2, 2))
    made = mq._sparse_broadcast_to(s, (2, 2, 2))
    assert (made.sparse_dim(), made.dense_dim(), made._nnz()) == (2, 1, 4)
    assert made.to_dense().tolist() == s.to_dense().expand(2, 2, 2).tolist()
    row = mq.sparse_coo_tensor([[0], [1]], [4.0], (1, 3))
    assert mq._sparse_broadcast_to(row, (2, 3)).to_dense().tolist() == [[0, 4, 0]] * 2


def test_zeros_in_another_layout_keep_blocks_and_dense_dimensions() -> None:
    blocks = in_layout("sparse_bsr", dense())
    assert mq.zeros_like(blocks, layout=mq.sparse_bsc).values().shape == (0, 2, 3)
    hybrid = mq.ones(2, 3, 4).to_sparse(2)
    assert mq.zeros_like(hybrid, layout=mq.sparse_csr).values().shape == (0, 4)
    assert mq.ones_like(hybrid, layout=mq.strided).tolist() == mq.ones(2, 3, 4).tolist()


def test_products_of_sparse_ones_are_sparse() -> None:
    product = torch.sparse.mm(coo(), coo().t())
    assert product.layout is mq.sparse_coo
    assert product.to_dense().tolist() == [[9.0, 0.0], [0.0, 81.0]]


def test_sampled_products() -> None:
    r = coo().to_sparse_csr()
    made = torch.sparse.sampled_addmm(r, mq.ones(2, 4), mq.ones(4, 3))
    assert made.values().tolist() == [7.0, 13.0]


def test_gradients_of_a_sparse_factor_are_sparse() -> None:
    s, d = coo(requires_grad=True), mq.ones(3, 4, requires_grad=True)
    torch.sparse.mm(s, d).sum().backward()
    assert s.grad.layout is mq.sparse_coo
    assert s.grad.coalesce().values().tolist() == [4.0, 4.0]
    assert d.grad[:, 0].tolist() == [9.0, 0.0, 3.0]


def test_gradients_reach_the_values_that_a_tensor_was_made_of() -> None:
    v = mq.tensor([3.0, 4.0, 5.0], requires_grad=True)
    s = mq.sparse_coo_tensor(mq.tensor([[0, 1, 1], [2, 0, 0]]), v, (2, 3))
    (s.coalesce().values() * mq.tensor([1.0, 2.0])).sum().backward()
    assert v.grad.tolist() == [1.0, 2.0, 2.0]


def test_sparse_gradients_meet_dense_ones() -> None:
    table = mq.nn.Embedding(4, 2, sparse=True)
    (table(mq.tensor([1, 1])).sum() + table.weight.sum()).backward()
    assert table.weight.grad.tolist() == [[1.0] * 2, [3.0] * 2, [1.0] * 2, [1.0] * 2]


def test_batches_of_rows_have_one_number_of_elements() -> None:
    with pytest.raises(RuntimeError, match="same number of specified elements per batch"):
        mq.tensor([[[1.0, 0.0]], [[1.0, 2.0]]]).to_sparse_csr()


def test_printing() -> None:
    assert repr(coo()) == (
        "tensor(indices=tensor([[0, 1, 1],\n"
        "                       [2, 0, 0]]),\n"
        "       values=tensor([3., 4., 5.]),\n"
        "       size=(2, 3), nnz=3, layout=torch.sparse_coo)"
    )
    assert repr(coo().to_sparse_csr().requires_grad_()) == (
        "tensor(crow_indices=tensor([0, 1, 2]),\n"
        "       col_indices=tensor([2, 0]),\n"
        "       values=tensor([3., 9.]), size=(2, 3), nnz=2, layout=torch.sparse_csr,\n"
        "       requires_grad=True)"
    )


# --- without data -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", LAYOUTS)
def test_fakes_specify_nothing_and_compute(name: str) -> None:
    mode = mq.FakeTensorMode()
    f = mode.from_tensor(in_layout(name, dense()))
    assert isinstance(f, mq.FakeTensor)
    assert f.layout is getattr(mq, name)
    assert (tuple(f.shape), f._nnz()) == ((4, 6), 0)
    with mode:
        b = mq.ones(6, 2)
    for result in (f @ b, f.to_dense() @ b):
        assert isinstance(result, mq.FakeTensor)
        assert tuple(result.shape) == (4, 2)
    assert (-f).layout is f.layout
    assert (f.t().shape, f.t()._nnz()) == ((6, 4), 0)


def test_fakes_know_how_much_a_constructor_was_given() -> None:
    with mq.FakeTensorMode():
        indices = mq.ones(2, 3, dtype=mq.int64)
        s = mq.sparse_coo_tensor(indices, mq.ones(3), (2, 3))
        assert (s._nnz(), s.coalesce()._nnz(), (s + s).is_coalesced()) == (3, 0, True)
        with pytest.raises(RuntimeError, match="same nnz"):
            mq.sparse_coo_tensor(indices, mq.ones(4), (2, 3))


def test_fakes_have_the_gradients_that_real_tensors_have() -> None:
    with mq.FakeTensorMode():
        table = mq.nn.Embedding(6, 2, sparse=True)
        table(mq.zeros(3, dtype=mq.int64)).sum().backward()
    grad = table.weight.grad
    assert (grad.layout, tuple(grad.shape), grad._nnz()) == (mq.sparse_coo, (6, 2), 3)


def test_meta_tensors_specify_nothing() -> None:
    m = coo().to("meta")
    assert (m.layout, m.device.type, m._nnz()) == (mq.sparse_coo, "meta", 0)
    assert tuple((m @ mq.ones(3, 2, device="meta")).shape) == (2, 2)


def test_operators_are_there_by_name() -> None:
    assert ops.aten._nnz(coo()) == 3
    assert (
        ops.aten._validate_sparse_coo_tensor_args(coo()._indices(), coo()._values(), [2, 3]) is None
    )


def test_sizes_change_in_place() -> None:
    s = coo()
    assert s.t_() is s
    assert (tuple(s.shape), s.to_dense().tolist()) == ((3, 2), coo().to_dense().t().tolist())
    assert tuple(s.resize_as_(coo().coalesce().sparse_resize_(mq.Size((4, 5)), 2, 0)).shape) == (
        4,
        5,
    )


@pytest.mark.parametrize(
    ("call", "words", "error"),
    [
        (lambda: coo().asin_(), "asin_ requires coalesced input", RuntimeError),
        (lambda: coo().permute(1, 0, 0), "does not match the length", RuntimeError),
        (lambda: coo().unsqueeze(4), "out of range", IndexError),
        (lambda: coo().select(0, 5), "out of range", IndexError),
        (lambda: torch.sparse.mm(coo(), coo()), "cannot be multiplied", RuntimeError),
    ],
)
def test_more_refusals(call, words: str, error: type[Exception]) -> None:
    with pytest.raises(error, match=words):
        call()


def test_a_difference_promotes_before_it_negates() -> None:
    ones = mq.ones(2, dtype=mq.uint8).to_sparse()
    for kind in (mq.int8, mq.int64):
        found = mq.ones(2, dtype=kind).to_sparse() - ones
        assert found.to_dense().tolist() == [0, 0]
    with pytest.raises(RuntimeError, match="with a bool tensor is not supported"):
        ones - ones.bool()


def test_a_dense_tensor_takes_the_product_with_a_sparse_one() -> None:
    dense = mq.tensor([2.0, 3.0])
    dense.mul_(mq.tensor([0.0, 4.0]).to_sparse())
    assert dense.tolist() == [0, 12]


@pytest.mark.parametrize(
    ("reduce", "expected"),
    [
        ("mean", [[4, 5.5], [0, 0], [-6, -9]]),
        ("amax", [[8, 10], [0, 0], [-6, -9]]),
        ("amin", [[0, 1], [0, 0], [-6, -9]]),
    ],
)
def test_products_of_rows_are_reduced(reduce: str, expected: list[list[float]]) -> None:
    matrix = mq.tensor([[1.0, 0, 2], [0, 0, 0], [0, -3, 0]]).to_sparse_csr()
    found = torch.sparse.mm(matrix, mq.arange(6.0).reshape(3, 2), reduce)
    assert found.tolist() == expected


def test_reduced_products_have_gradients_for_both() -> None:
    matrix = mq.tensor([[1.0, 2.0]]).to_sparse_csr().requires_grad_()
    dense = mq.tensor([[3.0], [1.0]], requires_grad=True)
    torch.sparse.mm(matrix, dense, "amax").sum().backward()
    assert matrix.grad is not None
    assert matrix.grad.layout is mq.sparse_csr
    assert matrix.grad.values().tolist() == [3, 0]
    assert dense.grad is not None
    assert dense.grad.tolist() == [[1], [0]]


def test_sparse_tensors_are_stacked_and_cleared() -> None:
    row = mq.tensor([0.0, 5.0]).to_sparse()
    assert mq.stack([row, row], 1).to_dense().tolist() == [[0, 0], [5, 5]]
    assert mq.zeros((3, 2), out=row)._nnz() == 0
    assert row.shape == (3, 2)


def test_a_compressed_matrix_stays_compressed_when_summed() -> None:
    found = mq.eye(2).to_sparse_csr().sum(0, keepdim=True)
    assert found.layout is mq.sparse_csr
    assert found.to_dense().tolist() == [[1, 1]]


def test_batches_of_compressed_matrices_without_elements_are_checked() -> None:
    index = mq.zeros(2, 3, dtype=mq.int64)
    made = mq.sparse_csr_tensor(
        index, index[:, :0], mq.zeros(2, 0), (2, 2, 4), check_invariants=True
    )
    assert made.to_dense().shape == (2, 2, 4)


@pytest.mark.parametrize("layout", [mq.sparse_coo, mq.strided])
def test_what_a_mask_leaves_out_gets_no_gradient(layout: mq.layout) -> None:
    x = mq.eye(2) if layout is mq.strided else mq.eye(2).to_sparse()
    x.requires_grad_()
    mask = mq.tensor([[0.0, 1.0], [0.0, 1.0]]).to_sparse()
    x.sparse_mask(mask).to_dense(masked_grad=False).sum().backward()
    assert x.grad is not None
    assert x.grad.to_dense().tolist() == [[0, 1], [0, 1]]


@pytest.mark.parametrize("first, second", [*CONVERSIONS, *(("strided", s) for s in LAYOUTS)])
def test_a_gradient_through_a_conversion_has_the_layout_of_what_was_converted(
    first: str, second: str
) -> None:
    x = dense() if first == "strided" else in_layout(first, dense())
    x.requires_grad_()
    made = in_layout(second, x)
    given = in_layout(second, dense() * 3)
    (grad,) = mq.autograd.grad(made, x, given)
    assert grad.layout is x.layout
    assert grad.to_dense().tolist() == (dense() * 3).tolist()
    if first in ("sparse_bsr", "sparse_bsc"):
        assert grad.values().shape == x.values().shape


def test_a_compressed_gradient_of_another_layout_is_refused() -> None:
    x = coo(requires_grad=True)
    with pytest.raises(
        RuntimeError, match=r"expected layout torch\.sparse_coo but got torch\.sparse_"
    ):
        (x * 2).backward(coo().to_sparse_csr())


@pytest.mark.parametrize("name", ["sparse_coo", "sparse_csr", "sparse_csc"])
def test_factories_make_sparse_tensors_that_specify_nothing_real_and_fake(name: str) -> None:
    layout, x = getattr(mq, name), mq.ones(2, 3)
    makers = [
        lambda: mq.zeros(2, 3, layout=layout),
        lambda: mq.empty(2, 3, layout=layout),
        lambda: mq.zeros_like(x, layout=layout),
        lambda: x.new_zeros((2, 3), layout=layout),
        lambda: x.new_empty((2, 3), layout=layout),
    ]
    for make in makers:
        made = make()
        assert (made.layout, made.shape, made._nnz()) == (layout, (2, 3), 0)
        with mq.FakeTensorMode(allow_non_fake_inputs=True):
            fake = make()
        assert isinstance(fake, mq.FakeTensor)
        assert (fake.layout, fake.shape) == (layout, (2, 3))


@pytest.mark.parametrize("name", ["sparse_coo", "sparse_csr"])
def test_zeros_empty_a_sparse_out(name: str) -> None:
    out = in_layout(name, dense())
    mq.zeros((2, 5), out=out)
    assert (out.shape, out._nnz()) == ((2, 5), 0)
    assert out.to_dense().tolist() == mq.zeros(2, 5).tolist()


def test_the_first_sparse_tensor_of_a_process_may_be_zeros() -> None:
    """Kernels of sparse layouts are loaded with the first name of theirs; `zeros` is none."""
    program = "import maquette as mq; print(mq.zeros(2, 2, layout=mq.sparse_coo)._nnz())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "0\n", done.stderr


@pytest.mark.parametrize(
    ("offsets", "layout", "words"),
    [([1.0, 2.0], None, "dtype Long"), ([1, 2], mq.sparse_bsr, "Only output layouts")],
)
def test_spdiags_refuses_offsets_of_floats_and_blocked_layouts(
    offsets: list[float], layout: mq.layout | None, words: str
) -> None:
    with pytest.raises(RuntimeError, match=words):
        torch.sparse.spdiags(mq.ones(2, 3), mq.tensor(offsets), (4, 3), layout=layout)


# --- what is known of the indices, and factories ------------------------------------------------


@pytest.mark.parametrize(("count", "coalesced"), [(0, True), (1, True), (2, False)])
def test_fewer_than_two_elements_are_coalesced(count: int, coalesced: bool) -> None:
    x = mq.sparse_coo_tensor(mq.arange(count)[None], mq.ones(count), (3,))
    assert (x.is_coalesced(), (x * 2).is_coalesced()) == (coalesced, coalesced)


def test_a_row_with_one_element_is_coalesced() -> None:
    x = mq.sparse_coo_tensor([[0, 1], [0, 1]], [1.0, 2.0], (3, 3))
    assert x.select(0, 0).is_coalesced()
    assert not x.coalesce().t().is_coalesced()


@pytest.mark.parametrize("mode", [None, "floor", "trunc"])
def test_a_quotient_is_rounded(mode: str | None) -> None:
    x = mq.sparse_coo_tensor([[0, 0], [1, 1]], [1.0, 4.0], (1, 2))
    expected = x.to_dense().div(-2, rounding_mode=mode)
    assert mq.equal(x.div(-2, rounding_mode=mode).to_dense(), expected)
    assert mq.equal(x.clone().div_(-2, rounding_mode=mode).to_dense(), expected)


def test_a_sparse_number_multiplies() -> None:
    x = mq.eye(2).to_sparse()
    assert mq.equal((x * mq.tensor(3.0).to_sparse()).to_dense(), 3 * mq.eye(2))


def test_a_tensor_without_elements_is_added_to_one_of_another_density() -> None:
    hybrid = mq.sparse_coo_tensor([[0, 1]], [[1.0, 2.0], [3.0, 4.0]], (3, 2))
    nothing = mq.zeros(3, 2).to_sparse()
    assert mq.equal((hybrid + nothing).to_dense(), hybrid.to_dense())
    assert mq.equal(mq.add(nothing, hybrid, alpha=2).to_dense(), 2 * hybrid.to_dense())


@pytest.mark.parametrize("name", ["empty_like", "ones_like", "randn_like"])
@pytest.mark.parametrize("layout", ["csr", "csc"])
def test_factories_keep_where_compressed_elements_are(name: str, layout: str) -> None:
    x = getattr(mq.eye(3), f"to_sparse_{layout}")()
    made = getattr(mq, name)(x)
    assert (made.layout, made._nnz()) == (x.layout, 3)
    assert mq.full_like(x, 2.0).values().tolist() == [2.0] * 3


def test_new_takes_what_sparse_coo_tensor_does() -> None:
    x = mq.eye(2).to_sparse()
    assert x.new(mq.tensor([[0, 1]]), mq.tensor([1.0, 2.0]), (3,)).to_dense().tolist() == [1, 2, 0]
    assert (x.new(2, 3).layout, x.new(2, 3)._nnz()) == (mq.sparse_coo, 0)


def test_a_sparse_factor_is_broadcast_to_a_dense_one() -> None:
    x, many = mq.eye(2).to_sparse(), mq.arange(8.0).reshape(2, 2, 2)
    assert mq.equal((x * many).to_dense(), mq.eye(2) * many)


def test_to_sparse_of_the_strided_layout_is_dense() -> None:
    assert mq.equal(mq.eye(2).to_sparse_csr().to_sparse(layout=mq.strided), mq.eye(2))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda x: x.narrow_copy(1, -1, 1), "must be a subset of range.0, 2."),
        (lambda x: mq.ops.aten._sparse_sum.dim(x, [0, -2]), "appears multiple times"),
    ],
)
def test_ranges_and_dims_that_do_not_fit_are_refused(call, words: str) -> None:
    with pytest.raises(RuntimeError, match=words):
        call(mq.eye(2).to_sparse())


@pytest.mark.parametrize("rows", [(), (2, 3)])
def test_a_module_with_a_sparse_weight_is_differentiated(rows: tuple[int, ...]) -> None:
    module = mq.nn.Linear(4, 5, dtype=mq.float64)
    dense = module.weight.detach()
    module.weight = mq.nn.Parameter(dense.to_sparse())
    x = mq.arange(4.0, dtype=mq.float64).expand(*rows, 4)
    out = module(x)
    assert mq.allclose(out, x @ dense.t() + module.bias)
    (grad,) = mq.autograd.grad(out.sum(), [module.weight])
    assert mq.allclose(grad, x.reshape(-1, 4).sum(0).expand(5, 4))


@pytest.mark.parametrize("layout", [mq.sparse_coo, mq.sparse_csr, mq.sparse_csc])
def test_a_sparse_tensor_is_detached_in_place(layout: mq.layout) -> None:
    x = mq.eye(2, requires_grad=True)
    y = x.to_sparse(layout=layout)
    assert y.detach_() is y
    assert not y.requires_grad


def test_diagonals_of_spdiags_stand_in_the_order_given() -> None:
    made = torch.sparse.spdiags(mq.ones(2, 3), mq.tensor([0, -1]), (3, 3))
    assert made._indices().tolist() == [[0, 1, 2, 1, 2], [0, 1, 2, 0, 1]]
    assert not made.is_coalesced()


@pytest.mark.parametrize("kept", [0.02, 0.9])
def test_products_at_a_patterns_places_are_those_of_whole_products(kept: float) -> None:
    mq.manual_seed(0)
    pattern = (mq.rand(30, 40) < kept).double().to_sparse_csr()
    left, right = mq.randn(30, 6).double(), mq.randn(6, 40).double()
    found = torch.sparse.sampled_addmm(pattern, left, right, beta=0.0)
    expected = (left @ right) * pattern.to_dense()
    assert mq.allclose(found.to_dense(), expected)


@pytest.mark.parametrize("layout", [mq.sparse_coo, mq.sparse_csr])
def test_log1p_has_a_gradient_at_the_pattern_s_places(layout: mq.layout) -> None:
    dense = mq.tensor([[0.0, 1.0, 2.0], [3.0, 0.0, 0.0]], dtype=mq.float64)
    x = dense.to_sparse(layout=layout).requires_grad_()
    (found,) = mq.autograd.grad(x.log1p().to_dense().sum(), x)
    assert found.layout is layout
    assert mq.allclose(found.to_dense(), (dense > 0) / (dense + 1))


def test_rows_of_values_at_one_place_are_summed() -> None:
    rows = mq.tensor([[70_000, 1, 70_000, 1, 3]])
    t = mq.sparse_coo_tensor(rows, mq.arange(10.0).reshape(5, 2), (80_000, 2)).coalesce()
    assert t.indices().tolist() == [[1, 3, 70_000]]
    assert t.values().tolist() == [[8, 10], [8, 9], [4, 6]]


def test_products_of_rows_refuse_offsets_that_decrease() -> None:
    offsets, columns = mq.tensor([0, 3, 1, 2]), mq.tensor([0, 1])
    broken = mq.sparse_csr_tensor(offsets, columns, mq.ones(2), (3, 2), check_invariants=False)
    with pytest.raises(RuntimeError, match="crow_indices must not decrease"):
        broken @ mq.ones(2, 2)


@pytest.mark.parametrize("sizes", [(0,), (3, 0), (0, 3), (2, 0, 3)])
def test_sparse_tensors_without_elements_are_densified_and_added(sizes: tuple[int, ...]) -> None:
    for sparse_dim in range(1, len(sizes) + 1):
        indices = mq.zeros((sparse_dim, 0), dtype=mq.int64)
        t = mq.sparse_coo_tensor(indices, mq.ones((0, *sizes[sparse_dim:])), sizes)
        for held in (t, t.coalesce()):
            assert held.to_dense().shape == sizes
            assert (mq.zeros(sizes) + held).shape == sizes

"""Calls at the corners of operators (findings 44, 46, 47, 48)."""

import math

import pytest

import maquette.torch as torch
import maquette.torch.nn.functional as F
from maquette.fx import make_fx
from maquette.torch import nn


def test_no_dimensions_are_all() -> None:
    """Finding 44."""
    x = torch.arange(6.0).reshape(2, 3)
    assert torch.amax(x, dim=None).item() == x.amin(None).item() + 5
    assert torch.roll(torch.arange(3), 1, None).tolist() == [2, 0, 1]


@pytest.mark.parametrize("dim", [0, 1, -3])
def test_empty_tensors_are_joined_along_any_dimension(dim: int) -> None:
    """Finding 44."""
    x = torch.empty(0, requires_grad=True)
    joined = torch.cat([x, torch.empty(0)], dim=dim)
    joined.sum().backward()
    assert joined.shape == x.grad.shape == (0,)


def test_unpooling_takes_an_empty_batch() -> None:
    """Finding 44."""
    places = torch.ones(0, 1, 2, 2, dtype=torch.int64)
    assert F.max_unpool2d(torch.ones(0, 1, 2, 2), places, 2).shape == (0, 1, 4, 4)


def test_embedding_bag_names_the_index_that_is_not_there() -> None:
    """Finding 46."""
    with pytest.raises(RuntimeError, match="found idx to be 5 at place 1 of the input, with 3"):
        F.embedding_bag(torch.tensor([[0, 5]]), torch.ones(3, 2))


def test_ctc_lengths_are_integers_of_any_shape() -> None:
    """Finding 46."""
    scores = torch.zeros(5, 3).log_softmax(-1)
    targets = torch.tensor([1, 2])
    found = F.ctc_loss(scores, targets, torch.tensor(5), torch.tensor(2))
    assert found.item() == pytest.approx(F.ctc_loss(scores, targets, (5,), (2,)).item())
    with pytest.raises(RuntimeError, match="must be integral"):
        F.ctc_loss(scores[:, None], targets[None], torch.tensor([5.0]), torch.tensor([2]))


def test_a_number_may_be_read_from_what_is_written() -> None:
    """Finding 47."""
    x = torch.arange(4.0).reshape(2, 2)
    x[1] = x[1][1]
    assert x.tolist() == [[0.0, 1.0], [3.0, 3.0]]


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (nn.CircularPad1d(1), (2, 3)),
        (nn.CircularPad2d(1), (2, 3, 3)),
        (nn.CircularPad3d(1), (2, 3, 3, 3)),
    ],
)
def test_circular_padding_needs_no_batch(layer: nn.Module, shape: tuple[int, ...]) -> None:
    """Finding 48."""
    x = torch.rand(shape)
    assert torch.equal(layer(x), layer(x[None])[0])


@pytest.mark.parametrize("write", ["index_add_", "index_reduce_"])
def test_T44_a_number_is_no_vector_of_one_where_slices_are_combined(write: str) -> None:
    """Finding 60: index_copy_ alone takes one for the other."""
    rest = ("prod",) if write == "index_reduce_" else ()
    call = getattr(torch.zeros(1), write)
    with pytest.raises(RuntimeError, match="source tensor shape must match self tensor shape"):
        call(0, torch.tensor([0]), torch.tensor(2.0), *rest)
    assert torch.zeros(1).index_copy_(0, torch.tensor([0]), torch.tensor(2.0)).tolist() == [2.0]


def test_T44_a_stride_leads_nowhere_in_a_dimension_of_one() -> None:
    """Finding 60: view_as_complex of an unfolded pair."""
    pair = torch.tensor([3.0, 4.0]).unfold(0, 2, 1)
    assert torch.view_as_complex(pair).tolist() == [3 + 4j]


@pytest.mark.parametrize("p", [None, -2, 1, float("inf")])
def test_the_condition_of_matrices_without_elements_is_zero(p: float | None) -> None:
    assert torch.linalg.cond(torch.ones(2, 0, 5), p).tolist() == [0.0, 0.0]


def test_bags_of_rows_without_columns() -> None:
    out = F.embedding_bag(torch.tensor([1, 2]), torch.ones(5, 0), torch.tensor([0, 1]), mode="sum")
    assert out.shape == (2, 0)


def test_neighbours_of_16_bit_floats_towards_integers() -> None:
    x = torch.ones(2, dtype=torch.bfloat16)
    assert x.nextafter_(torch.full((2,), 5, dtype=torch.int32)).tolist() == [1.0078125] * 2


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
def test_one_number_of_16_bits_is_converted_without_a_dimension(kind: torch.dtype) -> None:
    x = torch.tensor(2.0, dtype=kind)
    assert torch.logical_and(x, x).shape == x.to(torch.float8_e4m3fn).shape == ()


def test_a_reduction_of_an_unknown_number_sums_margins() -> None:
    x, target = torch.tensor([[1.0, 2.0], [3.0, 1.0]]), torch.tensor([[0, -1], [1, -1]])
    summed = torch.ops.aten.multilabel_margin_loss_forward(x, target, 2)[0]
    assert torch.ops.aten.multilabel_margin_loss_forward(x, target, 7)[0] == summed


def test_a_target_larger_than_its_input_is_refused() -> None:
    with pytest.raises(RuntimeError, match="expected a target that broadcasts"):
        F.soft_margin_loss(torch.ones(()), torch.ones(2))


def test_a_triangle_with_a_zero_has_no_inverse() -> None:
    factors = torch.stack([torch.eye(2), torch.diag(torch.tensor([1.0, 0.0]))])
    with pytest.raises(RuntimeError, match=r"\(Batch element 1\): The diagonal element 2 is zero"):
        torch.cholesky_inverse(factors)
    assert torch.cholesky_inverse(torch.empty(3, 0, 0)).shape == (3, 0, 0)


def test_the_norm_of_one_element_is_its_absolute_value() -> None:
    assert torch.linalg.vector_norm(torch.tensor([[-100.0]]), 30, dim=1).tolist() == [100]
    assert torch.linalg.vector_norm(torch.tensor(-100.0), 30) == 100
    assert torch.linalg.vector_norm(torch.tensor([3.0]), 0) == 1


def test_normals_of_a_number_for_a_spread_fill_the_shape_of_their_output() -> None:
    out = torch.empty(4, 3)
    assert torch.normal(torch.zeros(3), 2.0, out=out).shape == (4, 3)
    with pytest.raises(RuntimeError, match="more than one element"):
        torch.normal(torch.zeros(3), 2.0, out=torch.empty(1).expand(3))


def test_an_expanded_tensor_is_not_filled_with_a_tensor() -> None:
    with pytest.raises(RuntimeError, match="more than one element"):
        torch.empty(1).expand(3).fill_(torch.ones(()))
    assert torch.fill(torch.empty(1).expand(3), torch.ones(())).tolist() == [1, 1, 1]


def test_padding_of_no_embeddings_is_looked_up_only_where_it_is_written() -> None:
    nothing = torch.empty(0, dtype=torch.int64)
    assert F.embedding(nothing, torch.empty(0, 3), padding_idx=0).shape == (0, 3)
    with pytest.raises(IndexError):
        nn.Embedding(0, 3, padding_idx=0)


@pytest.mark.parametrize("reduce", ["prod", "mean", "amax", "amin"])
def test_slices_reduced_at_indices_of_int32_have_gradients(reduce: str) -> None:
    x, source = (torch.full(size, 2.0, requires_grad=True) for size in ((2, 2), (2, 1)))
    index = torch.ones(1, dtype=torch.int32)
    x.index_reduce(1, index, source, reduce, include_self=False).sum().backward()
    assert (x.grad.tolist(), source.grad.tolist()) == ([[1, 0], [1, 0]], [[1], [1]])


def test_a_transform_over_no_dimensions_leaves_a_batch_as_it_is() -> None:
    x = torch.tensor([[1, 2], [3, 4]], dtype=torch.complex64)
    assert torch.equal(torch.vmap(lambda row: torch.fft.fftn(row, dim=()))(x), x)


def test_one_vector_is_solved_for_all_matrices_of_an_example() -> None:
    A, b = torch.eye(2).expand(3, 4, 2, 2), torch.arange(6.0).reshape(3, 2)
    assert torch.equal(torch.vmap(torch.linalg.solve)(A, b), b[:, None].expand(3, 4, 2))


def test_elu_does_not_bend_at_zero() -> None:
    x = torch.tensor([-1.0, 0.0, 1.0], dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(F.elu(x).sum(), x, create_graph=True)
    (bend,) = torch.autograd.grad(slope.sum(), x)
    assert bend.tolist() == [math.exp(-1), 0, 0]


def test_one_vector_of_scores_has_one_target() -> None:
    with pytest.raises(ValueError, match="1D target must have size 1"):
        F.nll_loss(torch.ones(3), torch.tensor([0, 1]))


@pytest.mark.parametrize("spaced", ["linspace", "logspace"])
def test_integers_between_bounds_of_a_batch_are_those_of_a_loop(spaced: str) -> None:
    make = getattr(torch, spaced)
    ends = torch.tensor([4.7, 5.2, 7.9])
    looped = torch.stack([make(2.5, end, 4, dtype=torch.int64) for end in ends])
    batched = torch.vmap(lambda end: make(2.5, end, 4, dtype=torch.int64))(ends)
    assert torch.equal(batched, looped)


def test_combinations_of_a_symbolic_size_are_those_of_this_size() -> None:
    graph = make_fx(torch.combinations, tracing_mode="symbolic")(torch.arange(4.0))
    assert torch.equal(graph(torch.arange(4.0)), torch.combinations(torch.arange(4.0)))


def test_no_right_hand_sides_read_no_pivots_backward_either() -> None:
    pivots = torch.zeros(1, dtype=torch.int32)
    b, lu = (torch.ones(1, n, dtype=torch.float64, requires_grad=True) for n in (0, 1))
    torch.lu_solve(b, lu, pivots).sum().backward()
    assert lu.grad.tolist() == [[0.0]]


@pytest.mark.parametrize("batched", [False, True])
def test_glu_takes_no_gradient_of_another_dtype(batched: bool) -> None:
    call = torch.ops.aten.glu_backward
    grad, x = torch.ones(2, 1), torch.ones(2, 2, dtype=torch.bfloat16)
    with pytest.raises(RuntimeError, match="Found dtype Float but expected BFloat16"):
        torch.vmap(lambda g, t: call(g, t, 0))(grad, x) if batched else call(grad, x, 1)

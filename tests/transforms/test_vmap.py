"""`vmap`: inputs, outputs, refusals (T68, T69)."""

import math
from collections.abc import Callable

import pytest

import maquette as mq
from maquette import ops
from maquette.transforms import grad, vmap
from maquette.transforms.interpreter import top
from maquette.transforms.wrappers import BatchedTensor


def test_T68_nested_vmap_numbers_its_levels():
    seen = {}

    def inner(x, y):
        seen["both"], seen["outer"] = x + y, x + 1
        return x

    vmap(lambda x: vmap(lambda y: inner(x, y))(mq.ones(2)))(mq.ones(3))
    assert seen["both"]._interpreter.number == 2
    assert seen["both"]._value._interpreter.number == 1
    assert seen["outer"]._interpreter.number == 1


def test_T69_hides_the_dimension_and_gives_it_back():
    x = mq.arange(6.0).view(2, 3)
    shapes = []
    found = vmap(lambda row: (shapes.append(row.shape), row * 2)[1], in_dims=1, out_dims=1)(x)
    assert shapes == [(2,)]
    assert (found == x * 2).all()


def test_T69_unbatched_outputs_expand():
    found = vmap(lambda x: mq.ones(2))(mq.zeros(3))
    assert found.shape == (3, 2)
    assert found.stride() == (0, 1)


def test_T69_dims_are_trees_that_the_inputs_begin_with():
    found = vmap(lambda d: d["a"] + d["b"], in_dims=({"a": 0, "b": None},))(
        {"a": mq.arange(3.0), "b": mq.tensor(1.0)}
    )
    assert found.tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    "call, match",
    [
        (lambda x: vmap(lambda a, b: a)(x, mq.ones(3, 3)), r"same size .* got sizes \[2, 3\]"),
        (lambda x: vmap(lambda a: a, in_dims=3)(x), "in_dim=3 .* dimensionality 2"),
        (lambda x: vmap(lambda a: a, in_dims=(0, 0))(x), "not compatible with the structure"),
        (lambda x: vmap(lambda a: a, in_dims="a")(x), "expected `in_dims` to be int"),
        (lambda x: vmap(lambda: x)(), "got no inputs"),
        (lambda x: vmap(lambda a: a)(1), "cannot vmap over non-Tensor"),
        (lambda x: vmap(lambda a: 3)(x), "must only return Tensors, got type <class 'int'>"),
        (lambda x: vmap(lambda a: a, out_dims=None)(x), "can not return a BatchedTensor"),
        (lambda x: vmap(lambda a: (a, a), out_dims=(0,))(x), "structure of `outputs`"),
        (lambda x: vmap(lambda a: a, chunk_size=0), "chunk_size should be None or greater than 0"),
    ],
)
def test_T69_value_errors(call, match):
    with pytest.raises(ValueError, match=match):
        call(mq.ones(2, 3))


@pytest.mark.parametrize(
    "function, match",
    [
        (lambda x: x.sum().item(), r"calling .item\(\) on a Tensor"),
        (lambda x: bool(x.sum()), "data-dependent control flow"),
        (lambda x: x.nonzero(), "dynamic shape.*nonzero"),
        (lambda x: mq.zeros(3).add_(x), "aten::add_.Tensor.*is not possible"),
        (lambda x: x + mq.rand(3), "randomness error mode"),
    ],
)
def test_T69_runtime_errors(function, match):
    with pytest.raises(RuntimeError, match=match):
        vmap(function)(mq.ones(2, 3))


def test_T69_escaped_tensors_are_refused():
    kept = []
    vmap(lambda x: kept.append(x) or x)(mq.ones(2))
    with pytest.raises(RuntimeError, match="escaped"):
        kept[0] + 1


def test_T69_random_operators_differ_or_agree_over_the_batch():
    x = mq.zeros(2, 50)
    one, other = vmap(lambda x: x + mq.rand(50), randomness="different")(x)
    assert (one != other).any()
    one, other = vmap(lambda x: x + mq.rand(50), randomness="same")(x)
    assert (one == other).all()


def test_T69_in_place_operators_write_through():
    x = mq.zeros(2, 3)
    vmap(lambda row: row.add_(1))(x)
    assert x.sum() == 6


def test_T69_a_batch_in_chunks_is_the_batch():
    x = mq.arange(10.0).view(5, 2)
    assert (vmap(mq.sin, chunk_size=2)(x) == x.sin()).all()


def test_T69_a_rank_0_example_stays_weak_in_promotion():
    x, y = mq.ones(2, dtype=mq.float64), mq.ones(3)
    assert vmap(lambda a: a + y)(x).dtype is mq.float32


def test_D124_the_stack_is_as_before_after_an_error():
    with pytest.raises(ZeroDivisionError):
        vmap(lambda x: 1 / 0)(mq.ones(2))
    assert top() is None
    assert not isinstance(mq.ones(2) + 1, BatchedTensor)


def test_T70_grad_under_vmap_and_vmap_under_grad():
    x = mq.arange(3.0)
    assert vmap(grad(lambda v: v**3))(x).tolist() == [0, 3, 12]
    assert grad(lambda v: vmap(lambda w: w**3)(v).sum())(x).tolist() == [0, 3, 12]


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_T69_examples_reshape_wherever_the_batch_is(dim):
    x = mq.arange(30.0).view(2, 3, 5)
    rows = [part.reshape(-1) for part in x.unbind(dim)]
    assert mq.equal(vmap(lambda t: t.reshape(-1), in_dims=dim)(x), mq.stack(rows))


def test_T69_copies_of_examples_have_the_memory_format_asked_for():
    x = mq.rand(2, 7, 3, 4, 5)
    packed = vmap(lambda t: t.clone(memory_format=mq.contiguous_format), in_dims=1)(x)
    images = vmap(lambda t: t.clone(memory_format=mq.channels_last), in_dims=1)(x)
    assert packed[0].is_contiguous()
    assert images[0].is_contiguous(memory_format=mq.channels_last)
    assert mq.equal(images, x.movedim(1, 0))


def test_T69_a_contiguous_example_is_not_copied():
    x = mq.rand(3, 4, 5).movedim(0, 2)
    assert vmap(lambda t: t.contiguous(), in_dims=2, out_dims=2)(x) is x


def test_T69_solvers_broadcast_below_the_batch():
    matrices = mq.eye(3) * mq.arange(1.0, 13.0).view(4, 3, 1, 1)
    right = mq.arange(24.0).view(4, 3, 2)
    solve = mq.ops.aten.linalg_solve_triangular
    found = vmap(lambda a, b: solve(a, b, upper=True))(matrices, right)
    each = [solve(a, b, upper=True) for a, b in zip(matrices, right)]
    assert found.shape == (4, 3, 3, 2)
    assert mq.equal(found, mq.stack(each))


def test_T69_log_sigmoid_writes_a_batch():
    x, out = mq.arange(6.0).view(2, 3), mq.empty(2, 3)
    vmap(lambda t, o: mq.ops.aten.log_sigmoid.out(t, out=o))(x, out)
    assert mq.equal(out, mq.ops.aten.log_sigmoid(x))


@pytest.mark.parametrize("shapes", [((), ()), ((3,), ()), ((), (1,)), ((3,), (2,))])
def test_gather_takes_examples_of_rank_0_beside_those_of_rank_1(shapes):
    data, index = shapes
    x = mq.arange(float(4 * math.prod(data))).view(4, *data)
    at = mq.zeros(4, *index, dtype=mq.int64)
    each = mq.stack([a.gather(0, i) for a, i in zip(x, at)])
    assert mq.equal(vmap(lambda a, i: a.gather(0, i))(x, at), each)


def test_the_weight_of_one_row_is_told_without_a_reduction():
    rows, target = mq.randn(4, 5), mq.tensor([0, 1, 2, 3])
    op = mq.ops.aten.nll_loss_forward
    total = vmap(lambda x, t: op(x, t, None, 0, -100))(rows, target)[1]
    assert total.tolist() == [op(x, t, None, 0, -100)[1].item() for x, t in zip(rows, target)]


def test_vmap_of_an_empty_batch_knows_the_channels_and_the_values():
    norm = mq.func.vmap(
        lambda x, w: mq.nn.functional.batch_norm(x, None, None, w, training=True), randomness="same"
    )
    assert norm(mq.rand(0, 4, 3), mq.rand(0, 3)).shape == (0, 4, 3)
    found = mq.func.vmap(mq.bucketize)(mq.rand(0, 4, 2), mq.rand(0, 5))
    assert found.shape == (0, 4, 2)


def test_statistics_of_one_input_for_all_examples_move_once():
    x, mean, var = mq.randn(4, 3), mq.zeros(2, 3), mq.ones(3)
    once = [mq.zeros(3), mq.ones(3)]
    norm = mq.nn.functional.batch_norm
    expected = norm(x, *once, training=True)
    found = mq.func.vmap(lambda mean: norm(x, mean, var, training=True))(mean)
    assert mq.allclose(found, expected.expand(2, 4, 3), atol=1e-6)
    assert mq.allclose(var, once[1])
    assert mq.allclose(mean, once[0].expand(2, 3))


def test_kron_of_operands_that_lie_in_different_orders() -> None:
    x, y = mq.rand(4, 2, 3), mq.rand(3, 3, 4).transpose(0, 1)
    found = mq.vmap(mq.kron, in_dims=(0, -1))(x, y)
    assert mq.equal(found, mq.stack([mq.kron(x[i], y[..., i]) for i in range(4)]))
    assert mq.equal(found[0], mq.kron(x[0].contiguous(), y[..., 0].contiguous()))


@pytest.mark.parametrize(
    "function",
    [lambda t: t.flip(()), lambda t: ops.aten.any.dims(t, []), lambda t: ops.aten.all.dims(t, [])],
)
def test_an_empty_list_of_dimensions_that_means_none_means_it_in_a_batch(
    function: Callable[[mq.Tensor], mq.Tensor],
) -> None:
    batch = mq.arange(12).reshape(2, 2, 3)
    for given in (batch, batch[0, 0]):
        assert mq.equal(mq.vmap(function)(given), mq.stack([function(t) for t in given]))

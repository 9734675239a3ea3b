"""`jvp`, `jacfwd`, `hessian`, `linearize` and dual numbers (T71)."""

import pytest

import maquette as mq
from maquette.transforms import grad, hessian, jacfwd, jacrev, jvp, linearize, vmap
from maquette.transforms.forward_ad import dual_level, make_dual, unpack_dual

ONE = mq.ones(())


def test_T71_jvp_of_jvp():
    def slope(x):
        return jvp(lambda y: y**3, (x,), (ONE,))[1]

    assert jvp(slope, (mq.tensor(2.0),), (ONE,))[1] == 12


def test_T71_jvp_of_grad_and_grad_of_jvp():
    x, v = mq.arange(3.0), mq.ones(3)
    assert jvp(grad(lambda y: (y**3).sum()), (x,), (v,))[1].tolist() == [0, 6, 12]
    assert grad(lambda y: jvp(lambda z: (z**3).sum(), (y,), (v,))[1])(x).tolist() == [0, 6, 12]


def test_T71_writes_carry_tangents_through_views():
    def f(x):
        y = mq.zeros(3)
        y[1] = x
        return y * y

    value, tangent = jvp(f, (mq.tensor(2.0),), (ONE,))
    assert value.tolist() == [0, 4, 0]
    assert tangent.tolist() == [0, 4, 0]


def test_T71_an_operator_without_a_tangent_rule_goes_by_its_backward():
    x = mq.tensor([1.0, 2.0, 4.0])
    forward = jacfwd(lambda x: mq.nn.functional.layer_norm(x, (3,)))(x)
    backward = jacrev(lambda x: mq.nn.functional.layer_norm(x, (3,)))(x)
    assert mq.allclose(forward, backward, atol=1e-6)


def test_T71_hessian():
    assert hessian(lambda x: (x**3).sum())(mq.arange(2.0)).tolist() == [[0, 0], [0, 6]]


def test_T71_linearize_runs_the_function_once():
    calls = []
    output, push = linearize(lambda x: (calls.append(1), x.exp())[1], mq.zeros(2))
    assert output.tolist() == [1, 1]
    assert push(mq.tensor([2.0, 3.0])).tolist() == [2, 3]
    assert push(mq.ones(2)).tolist() == [1, 1]
    assert calls == [1]


def test_T71_linearize_gives_zeros_for_results_without_derivative():
    _, push = linearize(lambda x: {"s": x.sin(), "n": mq.arange(2)}, mq.zeros(2))
    found = push(mq.tensor([2.0, 3.0]))
    assert found["s"].tolist() == [2, 3]
    assert found["n"].dtype is mq.int64
    assert found["n"].tolist() == [0, 0]


@pytest.mark.parametrize(
    "primals, tangents, match",
    [
        (mq.ones(2), mq.ones(2), "Expected primals to be a tuple"),
        ((mq.ones(2),), (mq.ones(2), mq.ones(2)), "same python structure"),
        ((mq.ones(2),), (mq.ones(3),), r"of size \[2\] while the given .* size \[3\]"),
        ((), (), "at least one Tensor"),
        ((2,), (2,), "only contain Tensors, got <class 'int'>"),
    ],
)
def test_T71_jvp_refuses(primals, tangents, match):
    with pytest.raises(RuntimeError, match=match):
        jvp(lambda x: x, primals, tangents)


def test_T71_dual_numbers():
    x = mq.tensor([1.0, 2.0])
    with dual_level():
        primal, tangent = unpack_dual(make_dual(x, mq.ones(2)) ** 2)
    assert primal.tolist() == [1, 4]
    assert tangent.tolist() == [2, 4]


def test_T71_dual_levels_do_not_nest():
    with dual_level(), pytest.raises(RuntimeError, match="Nested forward mode"), dual_level():
        pass


@pytest.mark.parametrize(
    "still",
    [lambda x: x.detach(), lambda x: x.data, lambda x: x.clone().detach_()],
)
def test_T71_what_is_detached_does_not_move(still):
    x, v = mq.tensor([1.0, 2.0]), mq.tensor([3.0, 4.0])
    _, moved = jvp(lambda t: still(t) * t, (x,), (v,))
    assert moved.tolist() == [3.0, 8.0]


@pytest.mark.parametrize(
    "run", [vmap, grad, lambda f: lambda x: jvp(f, (x,), (x,))], ids=["vmap", "grad", "jvp"]
)
def test_T8_data_is_not_set_under_a_transform(run):
    def put(x):
        x.data = mq.ones(3)
        return x.sum()

    with pytest.raises(RuntimeError, match=r"mutating directly with `\.data`"):
        run(put)(mq.ones(2) if run is vmap else mq.ones(()))


def test_what_is_no_tuple_is_put_in_one() -> None:
    from maquette.torch._functorch.eager_transforms import _as_tuple

    assert _as_tuple(1) == (1,)
    assert _as_tuple((1, 2)) == (1, 2)

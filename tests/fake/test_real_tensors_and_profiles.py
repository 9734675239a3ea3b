"""Which rule serves an operator, and how fakes meet real data (F91, F92, F94, F95, F103, F104)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import maquette as mq
from maquette.fake import UnsupportedOperatorException, try_convert_fake_to_real
from maquette.fx.passes.fake_tensor_prop import FakeTensorProp
from maquette.symbolic import ShapeEnv


@pytest.fixture
def m() -> mq.FakeTensorMode:
    return mq.FakeTensorMode()


@pytest.fixture
def users() -> Iterator[Any]:
    lib = mq.library.Library("rules", "DEF")
    yield lib
    lib._destroy()


@pytest.fixture
def vision() -> Iterator[Any]:
    lib = mq.library.Library("vision", "FRAGMENT")
    yield lib
    lib._destroy()


def test_F91_a_fake_implementation_goes_before_a_decomposition(
    m: mq.FakeTensorMode, users: Any
) -> None:
    users.define("both(Tensor x) -> Tensor")
    users.impl("both", lambda x: x.sum(), "CompositeExplicitAutograd")
    assert mq.ops.rules.both(m.from_tensor(mq.ones(3))).shape == ()
    mq.library.register_fake("rules::both", lambda x: x.new_empty(7), lib=users)
    assert mq.ops.rules.both(m.from_tensor(mq.ones(3))).shape == (7,)


def test_F92_an_operator_that_only_writes_gives_none(m: mq.FakeTensorMode, users: Any) -> None:
    users.define("writes(Tensor(a!) x) -> ()")
    assert mq.ops.rules.writes(m.from_tensor(mq.ones(3))) is None


def test_F92_doing_nothing_is_no_rule(m: mq.FakeTensorMode, users: Any) -> None:
    users.define("nothing(Tensor x) -> ()")
    with pytest.raises(UnsupportedOperatorException) as caught:
        mq.ops.rules.nothing(m.from_tensor(mq.ones(3)))
    assert caught.value.func is mq.ops.rules.nothing.default


def test_F92_tags_tell_which_arguments_are_given_back(m: mq.FakeTensorMode, users: Any) -> None:
    x, y = m.from_tensor(mq.ones(3)), m.from_tensor(mq.ones(3))
    users.define("into(Tensor x, *, Tensor(a!) out) -> Tensor(a!)", tags=(mq.Tag.out,))
    users.define("on(Tensor(a!) x, Tensor y) -> Tensor(a!)", tags=(mq.Tag.inplace,))
    assert mq.ops.rules.into(x, out=y) is y
    assert mq.ops.rules.on(x, y) is x


def test_F94_the_real_kernel_runs_on_zeros(m: mq.FakeTensorMode, vision: Any) -> None:
    seen = []

    def kernel(x: Any) -> Any:
        seen.append((x.sum().item(), x.stride(), x.fake_mode))
        return x.new_empty(2, 5), x.sum().item()

    vision.define("shrink(Tensor x) -> (Tensor, Scalar)")
    vision.impl("shrink", kernel, "CPU")
    made, number = mq.ops.vision.shrink(m.from_tensor(mq.ones(3, 4).t()))
    assert seen == [(0.0, (1, 4), None)]
    assert (made.fake_mode, made.shape, number) == (m, (2, 5), 0.0)


def test_F94_a_result_that_is_an_input_is_its_fake(m: mq.FakeTensorMode, vision: Any) -> None:
    vision.define("same_(Tensor(a!) x) -> Tensor(a!)")
    vision.impl("same_", lambda x: x, "CPU")
    x = m.from_tensor(mq.ones(3))
    assert mq.ops.vision.same_(x) is x


def test_F94_other_namespaces_symbols_and_modes_do_not_fall_back(users: Any, vision: Any) -> None:
    for lib in (users, vision):
        lib.define("plain(Tensor x) -> Tensor")
        lib.impl("plain", lambda x: x + 1, "CPU")
    x, op = mq.ones(3), mq.ops.vision.plain
    symbolic = mq.FakeTensorMode(shape_env=ShapeEnv())
    refusing = mq.FakeTensorMode(allow_fallback_kernels=False)
    for run, mode in (
        (mq.ops.rules.plain, mq.FakeTensorMode()), (op, symbolic), (op, refusing)
    ):  # fmt: skip
        with pytest.raises(UnsupportedOperatorException):
            run(mode.from_tensor(x))
    assert op(mq.FakeTensorMode().from_tensor(x)).shape == (3,)


def test_F95_an_undeclared_view_is_refused(m: mq.FakeTensorMode, vision: Any) -> None:
    vision.define("flat(Tensor x) -> Tensor")
    vision.impl("flat", lambda x: x.view(-1), "CPU")
    with pytest.raises(UnsupportedOperatorException):
        mq.ops.vision.flat(m.from_tensor(mq.ones(3, 3)))


def test_F95_an_error_of_the_kernel_surfaces(m: mq.FakeTensorMode, vision: Any) -> None:
    vision.define("broken(Tensor x) -> Tensor")
    vision.impl("broken", lambda x: 1 / 0, "CPU")
    with pytest.raises(ZeroDivisionError):
        mq.ops.vision.broken(m.from_tensor(mq.ones(3)))


def test_F103_a_graph_that_runs_again_keeps_its_symbols() -> None:
    graph = mq.fx.Graph()
    found = graph.call_function(mq.ops.aten.nonzero.default, (graph.placeholder("x"),))
    graph.output(found)
    module = mq.fx.GraphModule(mq.nn.Module(), graph)
    mode = mq.FakeTensorMode(shape_env=ShapeEnv(), static_shapes=True)
    for _ in range(2):
        FakeTensorProp(module, mode).propagate(mq.ones(3))
        assert str(found.meta["val"].shape[0]) == "u0"
        assert [str(s) for s in found.meta["unbacked_bindings"]] == ["u0"]


def test_F103_a_later_write_leaves_the_fake_of_a_node_as_it_was() -> None:
    graph = mq.fx.Graph()
    x = graph.placeholder("x")
    graph.output(graph.call_function(mq.ops.aten.t_.default, (x,)))
    FakeTensorProp(mq.fx.GraphModule(mq.nn.Module(), graph)).propagate(mq.ones(2, 3))
    assert x.meta["val"].shape == (2, 3)


def test_F104_fakes_of_real_tensors_have_their_data(m: mq.FakeTensorMode) -> None:
    x = mq.arange(4)
    fakes = [m.from_tensor(x), m.from_tensor(x[1:]), m.from_tensor(x) + 1]
    whole, part, new = try_convert_fake_to_real(fakes)
    assert (whole.tolist(), part.tolist()) == ([0, 1, 2, 3], [1, 2, 3])
    assert whole._storage is not x._storage
    assert new is fakes[2]

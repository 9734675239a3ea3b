"""Fakes with real data beside them, and what is compared with it (F97-F100)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import maquette as mq
from maquette.fake import MetadataMismatchError, UnsupportedOperatorException
from maquette.symbolic import ShapeEnv


@pytest.fixture
def m() -> mq.FakeTensorMode:
    return mq.FakeTensorMode(shape_env=ShapeEnv(), propagate_real_tensors=True)


@pytest.fixture
def users() -> Iterator[Any]:
    lib = mq.library.Library("followed", "DEF")
    yield lib
    lib._destroy()


def _defined(lib: Any, real: Callable[..., Any], fake: Callable[..., Any] | None = None) -> Any:
    lib.define("op(Tensor x) -> Tensor")
    lib.impl("op", real, "CPU")
    if fake is not None:
        mq.library.register_fake("followed::op", fake, lib=lib)
    return mq.ops.followed.op


def _static(m: mq.FakeTensorMode, t: mq.Tensor) -> Any:
    return m.from_tensor(t, static_shapes=True)


def test_F97_results_have_data(m: mq.FakeTensorMode) -> None:
    x = mq.arange(3)
    assert (_static(m, x)[1:] + 1).real_tensor.tolist() == [2, 3]


def test_F97_the_data_is_a_copy(m: mq.FakeTensorMode) -> None:
    x = mq.zeros(3)
    fake = _static(m, x)
    fake[1:].add_(1)
    assert (x.tolist(), fake.real_tensor.tolist()) == ([0, 0, 0], [0, 1, 1])


def test_F97_aliases_share_their_data(m: mq.FakeTensorMode) -> None:
    x = mq.zeros(4)
    whole, part = _static(m, x), _static(m, x[2:])
    part.add_(1)
    assert whole.real_tensor.tolist() == [0, 0, 1, 1]


def test_F97_what_meets_a_fake_without_data_has_none(m: mq.FakeTensorMode) -> None:
    bare = _static(m, mq.empty(3, device="meta"))
    assert bare.real_tensor is None
    assert (bare + bare).real_tensor is None


def test_F97_a_write_that_was_not_followed_ends_the_data(m: mq.FakeTensorMode) -> None:
    x = _static(m, mq.zeros(3))
    view = x[:2]
    with m:
        x.copy_(mq.empty_strided((3,), (1,), device="cuda"))
    assert x.real_tensor is None
    assert (view + 1).real_tensor is None


def test_F97_division_by_zero_in_the_real_run_is_no_error(m: mq.FakeTensorMode, users: Any) -> None:
    op = _defined(users, lambda x: 1 / 0, lambda x: x.clone())
    assert op(_static(m, mq.ones(2))).real_tensor is None


def test_F97_factories_and_literals_have_data(m: mq.FakeTensorMode) -> None:
    with m:
        both: Any = mq.tensor([1, 2, 3]) * mq.full((3,), 2)
    assert both.real_tensor.tolist() == [2, 4, 6]


def test_F97_gradients_have_data(m: mq.FakeTensorMode) -> None:
    w = _static(m, mq.ones(2, requires_grad=True))
    (w * 3).sum().backward()
    assert w.grad.real_tensor.tolist() == [3, 3]


def test_F23_the_cache_is_off(m: mq.FakeTensorMode) -> None:
    assert not m.cache_enabled


def test_F98_a_branch_on_data_is_answered_and_deferred(m: mq.FakeTensorMode) -> None:
    found = _static(m, mq.tensor([1.0, 0.0, 2.0, 3.0])).nonzero()
    assert bool(found.shape[0] > 2)
    assert not bool(found.shape[0] > 3)
    [asserts] = m.shape_env.deferred_runtime_asserts.values()  # type: ignore[union-attr]
    assert [str(a.expr) for a in asserts] == ["2 < u0", "u0 <= 3"]


def test_F98_an_item_is_what_it_is(m: mq.FakeTensorMode) -> None:
    item: Any = _static(m, mq.tensor([2, 5])).sum().item()
    assert str(item) == "u0"
    assert int(item) == 7


@pytest.mark.parametrize(
    ("real", "fake", "told"),
    [
        (lambda x: x[:2].clone(), lambda x: x.new_empty(4, 3), ["size(0)", "4", "2"]),
        (lambda x: x.clone(), lambda x: x.new_empty(3, 3, dtype=mq.int8), ["int8", "float32"]),
        (lambda x: x.to_sparse(), lambda x: x.clone(), ["sparse_coo", "strided"]),
        (lambda x: x.clone()[1:], lambda x: x.new_empty(2, 3), ["storage_offset()", "3"]),
        (lambda x: x.clone(), lambda x: x.view(3, 3), ["aliasing", "shares memory"]),
    ],
)
def test_F99_what_differs_is_told(
    m: mq.FakeTensorMode, users: Any, real: Any, fake: Any, told: list[str]
) -> None:
    op = _defined(users, real, fake)
    with pytest.raises(MetadataMismatchError) as caught:
        op(_static(m, mq.ones(3, 3)))
    assert all(text in caught.value.reason for text in [*told, "followed.op.default"])


def test_F99_numbers_and_None_are_compared(m: mq.FakeTensorMode, users: Any) -> None:
    users.define("both(Tensor x) -> (int, Tensor?)")
    users.impl("both", lambda x: (3, None), "CPU")
    mq.library.register_fake("followed::both", lambda x: (4, None), lib=users)
    with pytest.raises(MetadataMismatchError, match=r"output value 4 .* 3, at output\[0\]"):
        mq.ops.followed.both(_static(m, mq.ones(3)))
    mq.library.register_fake("followed::both", lambda x: (3, x.clone()), lib=users)
    with pytest.raises(MetadataMismatchError, match=r"None, at output\[1\]"):
        mq.ops.followed.both(_static(m, mq.ones(3)))


def test_F99_strides_are_not_compared(m: mq.FakeTensorMode, users: Any) -> None:
    op = _defined(users, lambda x: x.t().clone(), lambda x: x.new_empty(3, 3))
    assert op(_static(m, mq.ones(3, 3))).real_tensor.stride() == (1, 3)


def test_F99_a_value_outside_a_fresh_sizes_range_is_told(m: mq.FakeTensorMode, users: Any) -> None:
    op = _defined(
        users,
        lambda x: x.clone(),
        lambda x: x.new_empty(mq.library.get_ctx().new_dynamic_size(max=2)),
    )
    with pytest.raises(MetadataMismatchError, match=r"size\(0\)"):
        op(_static(m, mq.ones(3)))


@pytest.mark.parametrize("real", [lambda x: x.add_(1).clone(), lambda x: x.view(-1)])
def test_F99_undeclared_effects_of_users_operators_are_refused(
    m: mq.FakeTensorMode, users: Any, real: Any
) -> None:
    op = _defined(users, real, lambda x: x.new_empty(9))
    with pytest.raises(RuntimeError, match=r"followed::op\(Tensor x\) -> Tensor"):
        op(_static(m, mq.ones(3, 3)))


def test_F100_an_operator_without_rule_gets_one(m: mq.FakeTensorMode, users: Any) -> None:
    made = _defined(users, lambda x: x.repeat(2, 1))(_static(m, mq.ones(3, 3)))
    assert [str(n) for n in (*made.shape, *made.stride())] == ["u0", "u1", "u1", "1"]
    assert made.real_tensor.shape == (6, 3)


def test_F100_the_order_of_strides_is_the_real_one(m: mq.FakeTensorMode, users: Any) -> None:
    made = _defined(users, lambda x: x.clone().t())(_static(m, mq.ones(2, 3)))
    assert [str(n) for n in made.stride()] == ["1", "u0"]


@pytest.mark.parametrize(
    ("real", "why"),
    [
        (lambda x: x.clone()[1:], "storage offset 3"),
        (lambda x: x.clone()[:, :2], "not dense"),
    ],
)
def test_F100_what_cannot_be_inferred_points_to_register_fake(
    m: mq.FakeTensorMode, users: Any, real: Any, why: str
) -> None:
    op = _defined(users, real)
    with pytest.raises(RuntimeError, match=rf"(?s){why}.*register_fake"):
        op(_static(m, mq.ones(3, 3)))


def test_F100_numbers_cannot_be_inferred(m: mq.FakeTensorMode, users: Any) -> None:
    users.define("count(Tensor x) -> int")
    users.impl("count", lambda x: 3, "CPU")
    with pytest.raises(RuntimeError, match=r"non-Tensors.*register_fake"):
        mq.ops.followed.count(_static(m, mq.ones(3)))


def test_F100_not_without_an_environment(users: Any) -> None:
    mode = mq.FakeTensorMode(propagate_real_tensors=True)
    op = _defined(users, lambda x: x.clone())
    with pytest.raises(UnsupportedOperatorException):
        op(mode.from_tensor(mq.ones(3)))


def test_F100_real_results_may_be_believed(users: Any) -> None:
    mode = mq.FakeTensorMode(
        shape_env=ShapeEnv(),
        propagate_real_tensors=True,
        generate_fake_kernels_from_real_mismatches=True,
    )
    op = _defined(users, lambda x: x[:2].clone(), lambda x: x.new_empty(4, 3))
    assert [str(n) for n in op(_static(mode, mq.ones(3, 3))).shape] == ["u0", "u1"]

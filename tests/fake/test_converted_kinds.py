"""Fakes of unusual tensors, and fakes inside function transforms (F37-F82)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import maquette as mq
from maquette.fake import is_fake, maybe_get_fake_mode
from maquette.fx import symbolic_trace
from maquette.fx.passes.fake_tensor_prop import FakeTensorProp
from maquette.symbolic import DimDynamic, ShapeEnv, StatelessSymbolicContext
from maquette.tensor.wrapper_subclasses import make_wrapper_subclass
from maquette.transforms import functionalize, grad, vmap
from maquette.transforms.inspection import get_unwrapped, is_batchedtensor

aten = mq.ops.aten


class Pair(mq.Tensor):
    """A wrapper of two tensors."""

    a: mq.Tensor
    b: mq.Tensor

    def __tensor_flatten__(self):
        return ["a", "b"], None

    @staticmethod
    def __tensor_unflatten__(inner, context, size, stride):
        return pair(inner["a"], inner["b"])

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return NotImplemented  # nobody calls operators on it here


def pair(a: mq.Tensor, b: mq.Tensor) -> Pair:
    made = make_wrapper_subclass(Pair, (2,))
    made.a, made.b = a, b
    return made


@pytest.fixture
def m() -> mq.FakeTensorMode:
    return mq.FakeTensorMode()


def test_F37_a_new_propagation_raises_the_epoch(m: mq.FakeTensorMode) -> None:
    assert m.epoch == 0
    m.nt_tensor_id_counter = 3
    FakeTensorProp(symbolic_trace(lambda x: x + 1), m)
    assert (m.epoch, m.nt_tensor_id_counter) == (1, 0)


@pytest.mark.parametrize("transform", [vmap, grad, functionalize])
def test_F39_fakes_are_seen_inside_transforms(m: mq.FakeTensorMode, transform: Callable) -> None:
    seen = []

    def program(x: mq.Tensor) -> mq.Tensor:
        seen.append((is_fake(x), maybe_get_fake_mode(x)))
        return (x * 2).sum()

    transform(program)(m.from_tensor(mq.ones(3)))
    transform(program)(mq.ones(3))
    assert seen == [(True, m), (False, None)]


def test_F39_a_level_inside_a_level_is_seen_through(m: mq.FakeTensorMode) -> None:
    seen = []
    program = vmap(grad(lambda x: (seen.append(is_fake(x)), x.sum())[1]))
    program(m.from_tensor(mq.ones(2, 3)))
    assert seen == [True]


def test_F45_a_sparse_fake_has_no_entries(m: mq.FakeTensorMode) -> None:
    fake = m.from_tensor(mq.eye(3).to_sparse())
    assert fake._nnz() == 0
    assert (fake.is_coalesced(), fake.sparse_dim(), fake.dense_dim()) == (True, 2, 0)
    assert m.from_tensor(mq.eye(3).to_sparse_csr())._nnz() == 0


def test_F46_a_wrapper_keeps_its_type_and_its_parts_become_fake(m: mq.FakeTensorMode) -> None:
    fake = m.from_tensor(pair(mq.ones(2), mq.ones(3)))
    assert type(fake) is Pair
    assert (fake.a.fake_mode, fake.b.fake_mode, fake.b.shape) == (m, m, (3,))


def test_F46_a_wrappers_symbolic_context_must_name_its_parts() -> None:
    mode = mq.FakeTensorMode(shape_env=ShapeEnv())
    context = StatelessSymbolicContext([DimDynamic.DYNAMIC])
    with pytest.raises(AssertionError, match="SubclassSymbolicContext"):
        mode.from_tensor(pair(mq.ones(2), mq.ones(2)), symbolic_context=context)


def test_F46_a_batched_tensor_converts_to_one_of_a_fake(m: mq.FakeTensorMode) -> None:
    seen = []
    vmap(lambda x: (seen.append(m.from_tensor(x)), x)[1], in_dims=1, out_dims=1)(mq.ones(2, 3))
    assert is_batchedtensor(seen[0])
    assert is_fake(seen[0])
    assert get_unwrapped(seen[0]).shape == (2, 3)


def test_F62_making_a_sparse_fake_dense_takes_no_dtype(m: mq.FakeTensorMode) -> None:
    sparse = m.from_tensor(mq.eye(3).to_sparse())
    assert aten._to_dense(sparse).is_contiguous()
    with pytest.raises(RuntimeError, match="dtype"):
        aten._to_dense(sparse, mq.float64)


def test_F82_plain_arguments_are_keys_with_their_types(m: mq.FakeTensorMode) -> None:
    x = m.from_tensor(mq.ones(4, 5))
    mq.FakeTensorMode.cache_clear()
    for number in (2, 2.0, True):
        x + number
    info = mq.FakeTensorMode.cache_info()
    assert (info.hits, info.misses) == (0, 3)


def test_F82_the_default_dtype_is_part_of_the_key(
    m: mq.FakeTensorMode, request: pytest.FixtureRequest
) -> None:
    x = m.from_tensor(mq.ones(3, dtype=mq.int64))
    mq.FakeTensorMode.cache_clear()
    assert (x / 2).dtype is mq.float32
    request.addfinalizer(lambda: mq.set_default_dtype(mq.float32))
    mq.set_default_dtype(mq.float64)
    assert (x / 2).dtype is mq.float64
    assert mq.FakeTensorMode.cache_info().misses == 2

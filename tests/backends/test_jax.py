"""JAX as an array library: functional operators, views, gradients, and `jax.jit` around them."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import maquette as mq
from maquette.backends.jax import JaxBackend
from maquette.library import register_backend
from maquette.tensor import backend as backends
from maquette.tensor.keys import keys_for
from maquette.tensor.storage import UntypedStorage
from maquette.tensor.tensor import wrap

needs_jax = pytest.mark.skipif(
    importlib.util.find_spec("jax") is None, reason="JAX is not installed; pip install jax"
)


@pytest.fixture
def jax() -> Iterator[Any]:
    before = backends._PROVIDERS["cuda"]
    register_backend("cuda", JaxBackend)
    yield importlib.import_module("jax")
    register_backend("cuda", before)


def test_T3_without_jax_the_error_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jax", None)
    with pytest.raises(NotImplementedError, match=r"pip install 'maquette\[jax\]'"):
        JaxBackend()


@needs_jax
def test_T2_views_read_the_storage_of_their_base(jax: Any) -> None:
    a = mq.arange(24.0).reshape(2, 3, 4)
    there = a.cuda()
    for view in (lambda t: t.transpose(0, 2), lambda t: t[:, 1:, ::2], lambda t: t.view(mq.int32)):
        assert mq.equal(view(there).cpu(), view(a))


@needs_jax
def test_T3_channels_last_comes_back_as_it_went(jax: Any) -> None:
    a = mq.randn(2, 3, 4, 5).to(memory_format=mq.channels_last)
    assert a.cuda().stride() == a.stride()
    assert mq.equal(a.cuda()[1].cpu(), a[1])


@needs_jax
def test_T41_an_operator_that_mutates_is_refused(jax: Any) -> None:
    with pytest.raises(NotImplementedError, match="JAX arrays cannot be changed"):
        mq.ones(2, device="cuda").add_(1)


@needs_jax
def test_F49_gradients_agree_with_numpys(jax: Any) -> None:
    def gradient(x: mq.Tensor) -> mq.Tensor:
        x = x.detach().requires_grad_()
        loss = (x.softmax(1) @ x.t()).tanh().sum()
        (found,) = mq.autograd.grad(loss, [x])
        assert found is not None
        return found

    a = mq.randn(3, 4)
    assert mq.allclose(gradient(a.cuda()).cpu(), gradient(a), atol=1e-6)


@needs_jax
def test_T3_a_function_of_tensors_is_compiled_by_jit(jax: Any) -> None:
    def step(array: Any) -> Any:
        x = _over(array)
        return mq.nn.functional.gelu(x @ x.t()).sum(0)._mq_data

    values = np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)
    expected = mq.nn.functional.gelu(mq.from_numpy(values @ values.T)).sum(0)
    assert np.allclose(jax.jit(step)(values), expected.numpy(), atol=1e-5)


def _over(array: Any) -> mq.Tensor:
    """A tensor on the device of JAX's arrays with the values of an array or tracer."""
    like = mq.empty(array.shape, dtype=mq.float32, device="cuda").meta
    memory, data = backends.backend_of("cuda").laid_out(like, array)
    storage = UntypedStorage(like.storage_bytes, like.device, memory)
    return wrap(like, storage, data, keys_for(like))

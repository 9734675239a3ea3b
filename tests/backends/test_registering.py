"""Another array library behind a device: tensors on cuda whose arrays NumPy does not know.

`tools/strict_arrays.py` is that library; `tools/conformance.py --backend strict` replays records.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator

import numpy as np
import pytest

import maquette as mq
import strict_arrays
from maquette.dispatch.registry import remove_overload
from maquette.library import Backend, register_backend
from maquette.tensor import backend as backends


@pytest.fixture(autouse=True)
def strict() -> Iterator[None]:
    before = backends._PROVIDERS["cuda"]
    strict_arrays.register("cuda")
    yield
    register_backend("cuda", before)


def test_T3_data_lives_in_the_arrays_of_the_registered_library() -> None:
    a = mq.ones(2, 3, device="cuda")
    assert isinstance(a._mq_data, strict_arrays.Array)
    assert (a + 1).sum().item() == 12.0


def test_T2_views_share_the_memory_of_the_registered_library() -> None:
    a = mq.zeros(2, 3, device="cuda")
    a.t()[1].add_(5)
    assert a.tolist() == [[0, 5, 0], [0, 5, 0]]


def test_T16_copies_cross_between_libraries_in_both_directions() -> None:
    a = mq.arange(6.0).reshape(2, 3)
    there = a.t().cuda()
    assert there.device.type == "cuda"
    assert there.stride() == (1, 3)
    assert mq.equal(there.cpu(), a.t())


def test_T16_copy_to_a_target_that_lives_elsewhere_writes_it() -> None:
    here = mq.zeros(3)
    here.copy_(mq.ones(3, device="cuda"))
    assert here.tolist() == [1, 1, 1]


def test_F49_a_number_on_the_cpu_goes_to_the_operands_library() -> None:
    assert (mq.ones(2, device="cuda") * mq.tensor(3.0)).tolist() == [3, 3]


def test_T41_kernels_cannot_write_to_operands_that_the_schema_does_not_mutate() -> None:
    op = mq.library.page.define("strict::worse(Tensor x) -> Tensor")
    op.shape(lambda x: x.like())

    @op.kernel
    def kernel(xp: object, x: np.ndarray) -> np.ndarray:
        x[...] = 0
        return x

    with pytest.raises(ValueError, match="read-only"):
        op(mq.ones(2, device="cuda"))
    remove_overload(op.op)


def test_T51_numpy_refuses_a_tensor_that_is_elsewhere() -> None:
    with pytest.raises(TypeError, match="to numpy"):
        mq.ones(2, device="cuda").numpy()


def test_T55_T56_copies_and_pickles_keep_the_device_and_its_library() -> None:
    a = mq.arange(3.0, device="cuda")
    for made in (copy.deepcopy(a), pickle.loads(pickle.dumps(a))):
        assert isinstance(made._mq_data, strict_arrays.Array)
        assert made.tolist() == [0, 1, 2]


def test_T3_a_storage_on_the_device_grows_and_keeps_its_bytes() -> None:
    a = mq.arange(2.0, device="cuda")
    a.resize_(3)
    assert a.tolist() == [0, 1, 0]


def test_F49_gradients_are_computed_where_the_data_lives() -> None:
    a = mq.ones(2, device="cuda", requires_grad=True)
    (a * a).sum().backward()
    assert a.grad is not None
    assert a.grad.device.type == "cuda"
    assert a.grad.tolist() == [2, 2]


def test_T3_a_library_may_refuse_a_dtype_that_it_lacks() -> None:
    class Without(strict_arrays.StrictBackend):
        unsupported = frozenset({"bfloat16"})

    register_backend("cuda", Without)
    with pytest.raises(NotImplementedError, match="no bfloat16 arrays"):
        mq.ones(2, dtype=mq.bfloat16, device="cuda")


def test_D90_a_device_without_array_kernels_is_refused() -> None:
    with pytest.raises(RuntimeError, match="array kernels run on cpu, cuda"):
        register_backend("mps", Backend)


def test_T3_a_namespace_of_no_backend_is_refused() -> None:
    with pytest.raises(NotImplementedError, match="the namespace of no backend; known: "):
        backends.backend_for(pytest)

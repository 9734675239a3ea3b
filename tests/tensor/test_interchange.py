"""DLPack and the other doors to array libraries."""

import ml_dtypes
import numpy as np
import pytest

import maquette as mq
from maquette.tensor.interchange import from_dlpack, to_dlpack
from maquette.tensor.keys import CONJUGATE


def test_T52_numpy_shares_the_memory() -> None:
    x = mq.ones(2, 3)
    array = np.from_dlpack(x)
    assert array.ctypes.data == x.data_ptr()
    assert array.shape == (2, 3)


def test_T52_tensors_share_the_memory_of_arrays() -> None:
    array = np.ones(3)
    from_dlpack(array).add_(1)
    assert array.tolist() == [2.0, 2.0, 2.0]


@pytest.mark.parametrize("kind", ["bool", "bfloat16", "float8_e4m3fn", "int16", "complex64"])
def test_T52_dtypes_pass(kind: str) -> None:
    x = mq.ones(3).to(getattr(mq, kind))
    made = from_dlpack(x)
    assert made.dtype is x.dtype
    assert made.data_ptr() == x.data_ptr()


def test_T52_strides_pass() -> None:
    assert from_dlpack(mq.ones(2, 3).t()).stride() == (1, 3)


def test_T52_copy_copies() -> None:
    x = mq.ones(2)
    assert from_dlpack(x, copy=True).data_ptr() != x.data_ptr()
    assert np.from_dlpack(x, copy=True).ctypes.data != x.data_ptr()


def test_T52_a_capsule_is_consumed_once() -> None:
    capsule = to_dlpack(mq.ones(2))
    assert from_dlpack(capsule).tolist() == [1.0, 1.0]
    with pytest.raises(RuntimeError, match="once"):
        from_dlpack(capsule)


def test_T52_memory_lives_as_long_as_its_last_user() -> None:
    capsule = to_dlpack(mq.ones(1000))
    made = from_dlpack(capsule)
    del capsule
    assert made.sum().item() == 1000


def test_T52_what_cannot_be_handed_over_says_why() -> None:
    conj = mq.tensor([1j])
    conj._keys |= CONJUGATE
    cases = {
        "requires gradient": mq.ones(2, requires_grad=True),
        "conjugate": conj,
        "no data": mq.empty(2, device="meta"),
        "fake": mq.FakeTensorMode().from_tensor(mq.ones(2)),
    }
    for reason, given in cases.items():
        with pytest.raises(BufferError, match=reason):
            given.__dlpack__()


def test_T52_the_namespace_is_the_package() -> None:
    assert mq.ones(2).__array_namespace__() is mq.array_api


def test_T52_cuda_array_interface_is_for_cuda() -> None:
    assert not hasattr(mq.ones(2), "__cuda_array_interface__")


def test_F16_from_dlpack_stays_real_under_a_mode() -> None:
    with mq.FakeTensorMode():
        assert from_dlpack(np.ones(2)).fake_mode is None


def test_T52_bfloat16_goes_to_numpy_as_ml_dtypes() -> None:
    assert mq.ones(2, dtype=mq.bfloat16).numpy().dtype == ml_dtypes.bfloat16


@pytest.mark.parametrize("where", ["cpu", "cpu:0", mq.device("cpu", 0)])
def test_dlpack_takes_the_host_by_any_index(where):
    assert mq.from_dlpack(np.arange(3), device=where).device == mq.device("cpu")


def test_a_stream_on_cpu_is_none_or_one_that_waits_for_nothing() -> None:
    x = mq.ones(2)
    assert type(x.__dlpack__(stream=-1)).__name__ == "PyCapsule"
    with pytest.raises(AssertionError, match="should be None on cpu"):
        x.__dlpack__(stream=1)
    with pytest.raises(TypeError, match="must be an int or None, got object"):
        x.__dlpack__(stream=object())


@pytest.mark.parametrize("make", [mq.tensor, mq.Tensor])
def test_T33_a_copy_of_an_array_keeps_the_order_of_its_dimensions(make):
    array = np.arange(24.0).reshape(2, 3, 4).transpose(2, 0, 1)
    copied = make(array)
    assert copied.stride() == (1, 12, 4)
    assert copied.tolist() == array.tolist()
    array[:] = 0
    assert copied.sum() == 276
    assert make(array[:, :, ::2]).stride() == (1, 8, 4)


@pytest.mark.parametrize("where", ["cpu:0", "cpu:1", mq.device("cpu", 0)])
def test_T10_tensors_of_one_cpu_meet_whatever_index_it_was_asked_for_by(where: object) -> None:
    x = mq.ones(2, device=where)
    assert x.device == mq.device("cpu")
    assert mq.equal(x + mq.ones(2), mq.full((2,), 2.0))
    assert mq.zeros(1, device="meta:0").device == mq.device("meta")


def test_T17_a_cpu_asked_for_by_index_copies_as_in_pytorch() -> None:
    x = mq.ones(2)
    assert x.to("cpu") is x
    assert x.to("cpu:0").data_ptr() != x.data_ptr()

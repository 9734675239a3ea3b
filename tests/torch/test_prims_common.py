"""`torch._prims_common` and `torch._functorch.config`, as programs call them."""

from __future__ import annotations

from unittest import mock

import pytest

import maquette as mq
import maquette.torch as torch
from maquette.fake import MetadataMismatchError, config
from maquette.torch import prims_common
from maquette.torch._functorch import config as functorch_config
from maquette.torch.prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND as KIND


def test_equal_metadata_passes() -> None:
    a, b = mq.empty(2, 3), mq.empty(3, 2).t()
    assert torch._prims.utils.compare_tensor_meta(a, b) is None


@pytest.mark.parametrize(
    ("other", "told"),
    [
        (mq.empty(2, 4), "Shapes"),
        (mq.empty(2, 3, dtype=mq.float64), "Dtypes"),
        (mq.empty(2, 3, device="meta"), "Devices cpu and meta"),
        (mq.empty(3, 2).t(), r"Stride mismatch.*\(3, 1\) and \(1, 2\)"),
    ],
)
def test_other_metadata_is_told(other: mq.Tensor, told: str) -> None:
    with pytest.raises(MetadataMismatchError, match=told):
        prims_common.compare_tensor_meta(mq.empty(2, 3), other, check_strides=True)


@pytest.mark.parametrize(
    ("given", "kind", "found"),
    [
        (mq.int64, KIND.DEFAULT, (mq.int64, mq.int64)),
        (mq.int64, KIND.INT_TO_FLOAT, (mq.float32, mq.float32)),
        (mq.bfloat16, KIND.DEFAULT, (mq.float32, mq.bfloat16)),
        (mq.float16, KIND.NO_OPMATH, (mq.float16, mq.float16)),
        (mq.complex64, KIND.COMPLEX_TO_FLOAT, (mq.complex64, mq.float32)),
        (mq.float32, KIND.ALWAYS_BOOL, (mq.float32, mq.bool)),
        (mq.bool, KIND.BOOL_TO_LONG, (mq.int64, mq.int64)),
    ],
)
def test_dtypes_of_elementwise_operators(
    given: mq.dtype, kind: KIND, found: tuple[mq.dtype, mq.dtype]
) -> None:
    dtypes = prims_common.elementwise_dtypes(mq.ones(2, dtype=given), type_promotion_kind=kind)
    assert dtypes == found


def test_settings_of_fakes_are_patched_and_come_back() -> None:
    with mock.patch.object(functorch_config, "fake_tensor_allow_meta", False):
        assert config.allow_meta is False
    assert config.allow_meta is True
    with functorch_config.patch(fake_tensor_propagate_real_tensors=True):
        assert mq.FakeTensorMode().propagate_real_tensors
    assert not mq.FakeTensorMode().propagate_real_tensors


def test_strides_count_where_they_reach_another_element() -> None:
    a, b = mq.empty(2, 1, 3), mq.empty(2, 3, 1).transpose(1, 2)
    assert prims_common.check_all_strides(a, b, only_cuda=False) == (False, 1)
    assert prims_common.check_significant_strides(a, b, only_cuda=False) == (True, None)
    turned = mq.empty(3, 1, 2).transpose(0, 2)
    assert prims_common.check_significant_strides(a, turned, only_cuda=False) == (False, 0)
    assert prims_common.check_significant_strides(a, turned) == (True, None)

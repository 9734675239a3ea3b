"""float8_e8m0fnu, a power of two in a byte, and dtypes that nothing computes with."""

import copy
import math
import pickle

import pytest

import maquette as mq
from maquette import torch


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (1.0, 127),
        (1.4, 127),
        (1.5, 128),
        (5.99, 129),
        (6.0, 130),
        (-5.0, 129),
        (0.0, 0),
        (1e-40, 0),
        (2.0**127, 254),
        (3.4e38, 255),
        (math.inf, 255),
        (math.nan, 255),
    ],
)
def test_e8m0_keeps_the_nearest_power_of_two(number: float, code: int) -> None:
    kept = mq.tensor([number]).to(mq.float8_e8m0fnu)
    assert kept.view(mq.uint8).item() == code
    same = mq.tensor([number], dtype=mq.float64).to(mq.float8_e8m0fnu)
    assert same.view(mq.uint8).item() == code


def test_e8m0_goes_back_to_float() -> None:
    codes = mq.tensor([0, 127, 254, 255], dtype=mq.uint8).view(mq.float8_e8m0fnu)
    assert codes.float().tolist()[:3] == [2.0**-127, 1.0, 2.0**127]
    assert codes.float()[3].isnan()


def test_e8m0_has_no_sign_and_no_fraction() -> None:
    limits = mq.finfo(mq.float8_e8m0fnu)
    assert not mq.float8_e8m0fnu.is_signed
    assert (limits.min, limits.max, limits.eps) == (2.0**-127, 2.0**127, 1.0)
    with pytest.raises(RuntimeError, match="Promotion for Float8 Types"):
        mq.promote_types(mq.float8_e8m0fnu, mq.float32)


@pytest.mark.parametrize(
    ("name", "size"), [("uint1", 1), ("int7", 1), ("bits16", 2), ("qint32", 4), ("quint4x2", 1)]
)
def test_an_opaque_tensor_is_made_and_seen_as_bytes(name: str, size: int) -> None:
    kind = getattr(torch, name)
    made = mq.empty(3, dtype=kind)
    assert (kind.itemsize, made.dtype) == (size, kind)
    assert made.view(mq.uint8).shape == (3 * size,)
    assert pickle.loads(pickle.dumps(kind)) is copy.deepcopy(kind) is kind


def test_nothing_computes_with_opaque_elements() -> None:
    with pytest.raises(NotImplementedError, match="nothing computes with opaque"):
        mq.empty(2, dtype=torch.uint4).to(mq.int32)
    with pytest.raises(TypeError, match="iinfo"):
        mq.iinfo(torch.int4)


def test_names_of_opaque_dtypes_are_those_of_torch() -> None:
    assert torch.bit is torch.uint1
    assert repr(torch.float4_e2m1fn_x2) == "torch.float4_e2m1fn_x2"
    assert torch.float4_e2m1fn_x2.is_floating_point
    assert not torch.bits8.is_signed
    assert torch.int3.is_signed

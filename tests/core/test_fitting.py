"""Whether a number fits in a type, and what C++ calls the type (`maquette.core.fitting`)."""

import math

import pytest

import maquette as mq
from maquette.core.fitting import c_name, c_source_name, check_fits

FITS = [
    (65504.0, mq.float16), (math.inf, mq.float16), (math.nan, mq.float16), (1j, mq.complex64),
    (-255, mq.uint8), (255, mq.uint8), (2.5, mq.int8), (True, mq.uint8), (1e300, mq.bool),
    (math.inf, mq.float8_e5m2), (448, mq.float8_e4m3fn), (3 + 0j, mq.int8), (2**63, mq.uint64),
]  # fmt: skip
OVERFLOWS = [
    (65519.0, mq.float16, "c10::Half"), (70000, mq.float16, "c10::Half"), (1j, mq.float32, "float"),
    (1e39, mq.bfloat16, "c10::BFloat16"), (1e39, mq.float32, "float"), (-256, mq.uint8, "uint8_t"),
    (128, mq.int8, "int8_t"), (math.nan, mq.int32, "int"), (2**63, mq.int64, "int64_t"),
    (1e39j, mq.complex64, "c10::complex<float>"), (-1.0, mq.uint8, "uint8_t"),
    (math.inf, mq.float8_e4m3fn, "c10::Float8_e4m3fn"), (449, mq.float8_e4m3fn, "c10::Float8"),
]  # fmt: skip


@pytest.mark.parametrize("value, kind", FITS)
def test_T34_a_number_that_a_type_holds_passes(value: complex, kind: mq.dtype) -> None:
    check_fits(value, kind)


@pytest.mark.parametrize("value, kind, name", OVERFLOWS)
def test_T34_a_number_that_overflows_is_refused(value: complex, kind: mq.dtype, name: str) -> None:
    with pytest.raises(RuntimeError, match=f"cannot be converted to type {name}.* without over"):
        check_fits(value, kind)


def test_names_of_types_in_messages() -> None:
    assert [c_name(k) for k in (mq.int64, mq.uint8, mq.float16)] == [
        "long int", "unsigned char", "c10::Half"
    ]  # fmt: skip
    assert [c_source_name(k) for k in (mq.int64, mq.uint16)] == ["int64_t", "uint16_t"]


MASK, INDEX = mq.tensor([True, False]), mq.tensor([0])
REFUSING = {
    "full": lambda: mq.full((2,), 70000.0, dtype=mq.float16),
    "full_like": lambda: mq.full_like(half(), 70000),
    "fill_": lambda: half().fill_(70000.0),
    "masked_fill": lambda: half().masked_fill(MASK, 70000.0),
    "index_fill": lambda: half().index_fill(0, INDEX, 70000.0),
    "scatter": lambda: half().scatter(0, INDEX, 70000.0),
    "clamp": lambda: half().clamp(max=70000.0),
    "hardtanh": lambda: mq.nn.functional.hardtanh(half(), -1, 70000.0),
    "threshold": lambda: mq.nn.functional.threshold(half(), 0.1, 70000.0),
    "pad": lambda: mq.nn.functional.pad(half(), (1, 1), value=70000.0),
    "fill_diagonal_": lambda: mq.zeros(2, 2, dtype=mq.float16).fill_diagonal_(70000.0),
}


def half() -> mq.Tensor:
    return mq.zeros(2, dtype=mq.float16)


@pytest.mark.parametrize("name", REFUSING)
def test_T34_every_operator_that_fills_refuses_what_does_not_fit(name: str) -> None:
    with pytest.raises(RuntimeError, match="c10::Half without overflow"):
        REFUSING[name]()
    with mq.FakeTensorMode(allow_non_fake_inputs=True):
        with pytest.raises(RuntimeError, match="c10::Half without overflow"):
            REFUSING[name]()


ROUNDING = {
    "where": lambda: mq.where(MASK, 70000.0, half()),
    "setitem": lambda: assigned(slice(0, 1)),
    "set by a mask": lambda: assigned(MASK),
    "scalar_tensor": lambda: mq.scalar_tensor(70000.0, dtype=mq.float16),
    "tensor": lambda: mq.tensor(70000.0, dtype=mq.float16),
}


def assigned(index: object) -> mq.Tensor:
    x = half()
    x[index] = 70000.0
    return x


@pytest.mark.parametrize("name", ROUNDING)
def test_T34_what_makes_a_tensor_of_the_number_rounds_it_to_infinity(name: str) -> None:
    assert ROUNDING[name]().flatten()[0].item() == math.inf


def test_T34_factors_are_held_in_the_type_that_is_computed_in() -> None:
    x = half()
    assert mq.lerp(x, x, 70000.0).tolist() == [0, 0]
    assert mq.addcmul(x, x, x, value=70000.0).tolist() == [0, 0]
    with pytest.raises(RuntimeError, match="type float without overflow"):
        mq.lerp(x, x, 1e39)

"""Fakes by operator profiles (L108)."""

import io

import pytest

import maquette as mq
from maquette.library import custom_op, unsafe_generate_fake_kernels
from maquette.library.fake_profile import (
    MissingOpProfile,
    OpProfile,
    TensorMetadata,
    generate_yaml_from_profiles,
    load_op_profiles,
    read_profiles_from_yaml,
    save_op_profiles,
)
from maquette.symbolic import ShapeEnv

MATRIX = TensorMetadata(2, mq.float32, mq.device("cpu"), mq.strided)
ROW = TensorMetadata(1, mq.float64, mq.device("cuda:1"), mq.strided)
MADE = OpProfile((MATRIX,), MATRIX)


@pytest.fixture
def op(ns):
    schema = "(Tensor x) -> Tensor"
    return custom_op(f"{ns}::f", lambda x: x + 1, mutates_args=(), schema=schema)


def name_of(op):
    return op._qualname.replace("::", ".") + ".default"


@pytest.fixture
def fake():
    return mq.FakeTensorMode(shape_env=ShapeEnv()).from_tensor


def test_L108_results_have_the_recorded_rank_dtype_device_with_dynamic_sizes(op, fake):
    with unsafe_generate_fake_kernels({name_of(op): {OpProfile((MATRIX,), ROW)}}):
        made = op(fake(mq.ones(2, 2)))
    assert (made.ndim, made.dtype, made.device) == (1, mq.float64, mq.device("cuda:1"))
    assert str(made.shape[0]) == "u0"


def test_L108_no_match_is_a_missing_op_profile(op, fake):
    with unsafe_generate_fake_kernels({name_of(op): {MADE}}):
        op(fake(mq.ones(2, 2)))
        with pytest.raises(MissingOpProfile, match=op._qualname):
            op(fake(mq.ones(2)))


def test_L108_afterwards_no_fake_is_no_fake_again(op, fake):
    with unsafe_generate_fake_kernels({name_of(op): {MADE}}):
        op(fake(mq.ones(2, 2)))
    with pytest.raises(RuntimeError, match="no fake impl"):
        op(fake(mq.ones(2, 2)))


def test_L108_afterwards_the_former_fake_is_back_also_by_exception(op, fake):
    op.register_fake(mq.empty_like)
    with unsafe_generate_fake_kernels({name_of(op): {MADE}}):
        assert "u0" in str(op(fake(mq.ones(2, 2))).shape)
    with pytest.raises(KeyError), unsafe_generate_fake_kernels({name_of(op): {MADE}}):
        raise KeyError
    assert op(fake(mq.ones(2, 2))).shape == (2, 2)


def test_L108_an_operator_of_a_library_gets_its_fake_back(lib, fake):
    lib.define("f(Tensor x) -> (Tensor, Tensor)")
    mq.library.register_fake(f"{lib.ns}::f", lambda x: (x.clone(), x.clone()), lib=lib)
    op = getattr(mq.ops, lib.ns).f
    with unsafe_generate_fake_kernels(
        {f"{lib.ns}.f.default": {OpProfile((MATRIX,), (ROW, MATRIX))}}
    ):
        assert [t.ndim for t in op(fake(mq.ones(2, 2)))] == [1, 2]
    assert [t.shape for t in op(fake(mq.ones(2, 2)))] == [(2, 2), (2, 2)]


PROFILES = {"ns.f.default": {MADE, OpProfile((MATRIX, ROW), (ROW, ROW))}, "ns.g": set()}


def test_L108_profiles_go_through_yaml(tmp_path):
    save_op_profiles(PROFILES, tmp_path / "p.yaml")
    assert load_op_profiles(tmp_path / "p.yaml") == PROFILES
    file = io.BytesIO()
    save_op_profiles(PROFILES, file)
    file.seek(0)
    assert load_op_profiles(file) == PROFILES


def test_L108_another_version_is_a_runtime_error():
    text = generate_yaml_from_profiles(PROFILES)
    assert text.startswith("torch_version: '2.13'\n")
    with pytest.raises(RuntimeError, match=r"torch version.* 1\.0"):
        read_profiles_from_yaml(text.replace("2.13", "1.0"))

"""Fakes by what was seen of operators (F96)."""

from __future__ import annotations

import io
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest

import maquette as mq
from maquette.fake import UnsupportedOperatorException, config
from maquette.library import fake_profile
from maquette.library.fake_profile import MissingOpProfile, OpProfile, TensorMetadata
from maquette.symbolic import ShapeEnv

MATRIX = TensorMetadata(2, mq.float32, mq.device("cpu"), mq.strided)
VECTOR = TensorMetadata(1, mq.int64, mq.device("cuda:0"), mq.strided)
SQUARE = OpProfile((MATRIX,), MATRIX)
OTHER = OpProfile((MATRIX, None), (MATRIX, VECTOR))


@pytest.fixture
def users() -> Iterator[Any]:
    lib = mq.library.Library("profiled", "DEF")
    lib.define("op(Tensor x) -> Tensor")
    yield lib
    lib._destroy()


@pytest.fixture
def m() -> mq.FakeTensorMode:
    return mq.FakeTensorMode(shape_env=ShapeEnv(), static_shapes=True)


def test_F96_a_call_like_the_profile_gives_what_was_seen(m: mq.FakeTensorMode, users: Any) -> None:
    x = m.from_tensor(mq.ones(3, 3))
    with fake_profile.unsafe_generate_fake_kernels({"profiled.op.default": {SQUARE}}):
        made = mq.ops.profiled.op(x)
    assert [str(n) for n in (*made.shape, *made.stride())] == ["u0", "u1", "u1", "1"]


def test_F96_another_call_is_refused_with_its_arguments(m: mq.FakeTensorMode, users: Any) -> None:
    x = m.from_tensor(mq.ones(3))
    with fake_profile.unsafe_generate_fake_kernels({"profiled.op.default": {SQUARE}}):
        with pytest.raises(MissingOpProfile, match=r"profiled::op.*size=\(3,\)"):
            mq.ops.profiled.op(x)


def test_F96_the_former_fake_comes_back(m: mq.FakeTensorMode, users: Any) -> None:
    x = m.from_tensor(mq.ones(3, 3))
    with fake_profile.unsafe_generate_fake_kernels({"profiled.op.default": {SQUARE}}):
        pass
    with pytest.raises(UnsupportedOperatorException):
        mq.ops.profiled.op(x)
    mq.library.register_fake("profiled::op", lambda x: x.new_empty(7), lib=users)
    with fake_profile.unsafe_generate_fake_kernels({"profiled.op.default": {SQUARE}}):
        assert mq.ops.profiled.op(x).ndim == 2
    assert mq.ops.profiled.op(x).shape == (7,)


def test_F96_an_unknown_operator_is_refused() -> None:
    with (
        pytest.raises(RuntimeError, match="operator profiled::nothing does not exist"),
        fake_profile.unsafe_generate_fake_kernels({"profiled.nothing.default": {SQUARE}}),
    ):
        pass


class _Profiles:
    def __init__(self, op: Any) -> None:
        self.data = {op: None}

    def generic_fake_kernel(self, op: Any, mode: Any, *args: Any, **kwargs: Any) -> Any:
        return args[0].new_empty(5)


def test_F96_profiles_of_the_configuration_go_before_a_registered_fake(
    m: mq.FakeTensorMode, users: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    mq.library.register_fake("profiled::op", lambda x: x.new_empty(7), lib=users)
    monkeypatch.setattr(config, "op_profiles", _Profiles(mq.ops.profiled.op.default))
    with m:
        assert mq.ops.profiled.op(mq.ones(3)).shape == (5,)


def test_F96_files_keep_all_there_is_to_a_profile(tmp_path: pathlib.Path) -> None:
    profiles = {"a.b.default": {SQUARE, OTHER}, "a.c.x": set[OpProfile]()}
    text = fake_profile.generate_yaml_from_profiles(profiles)
    assert fake_profile.read_profiles_from_yaml(text) == profiles
    fake_profile.save_op_profiles(profiles, tmp_path / "kept.yaml")
    assert fake_profile.load_op_profiles(tmp_path / "kept.yaml") == profiles
    fake_profile.save_op_profiles(profiles, file := io.BytesIO())
    assert fake_profile.load_op_profiles(file) == profiles


def test_F96_files_of_other_versions_and_other_files_are_refused() -> None:
    with pytest.raises(RuntimeError, match=r"outdated profile.*2\.1 "):
        fake_profile.read_profiles_from_yaml("torch_version: '2.1'\noperators: {}\n")
    for odd in ("", "a: 1", "- 1", "torch_version: '2.13'\n", "{a: [1]}", "x\n"):
        with pytest.raises(ValueError, match=r"no file of operator profiles|not a YAML block"):
            fake_profile.read_profiles_from_yaml(odd)


def test_F96_a_file_of_pytorch_is_read() -> None:
    text = (
        "torch_version: '2.13'\noperators:\n  mylib.foo.default:\n  - args_profile:\n    - rank: 2"
        "\n      dtype: 7\n      device: cpu\n      layout: 7\n    out_profile:\n      rank: 2\n"
        "      dtype: 7\n      device: cpu\n      layout: 7\n"
    )
    assert fake_profile.read_profiles_from_yaml(text) == {"mylib.foo.default": {SQUARE}}
    assert fake_profile.generate_yaml_from_profiles({"mylib.foo.default": {SQUARE}}) == text

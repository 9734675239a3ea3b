"""FakeTensor: it answers every question about metadata (F1-F22)."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import maquette as mq
from maquette.dispatch import DispatchKey, DispatchKeySet


@pytest.fixture
def mode() -> mq.FakeTensorMode:
    return mq.FakeTensorMode()


def keyset(t: mq.Tensor) -> DispatchKeySet:
    return DispatchKeySet.from_raw_repr(t._keys)


def test_F1_fake_of_a_view_answers_as_the_view(mode: mq.FakeTensorMode) -> None:
    t = mode.from_tensor(mq.ones(4, 5).t()[1:])
    assert (t.shape, t.stride(), t.storage_offset()) == ((4, 4), (1, 5), 1)
    assert t.untyped_storage().nbytes() == 80
    assert t._is_view()


def test_F2_device_is_the_modelled_one_inside_shape_rules(mode: mq.FakeTensorMode) -> None:
    with mode:
        t = mq.empty(2, device="cuda")
    assert (t.is_cuda, t.get_device(), str((t + t).device)) == (True, 0, "cuda:0")


def test_F3_an_accelerator_without_index_gets_zero(mode: mq.FakeTensorMode) -> None:
    with mode:
        found = [str(mq.empty(2, device=d).device) for d in ("cuda", "cuda:3", "cpu", "meta")]
    assert found == ["cuda:0", "cuda:3", "cpu", "meta"]


def test_F4_meta_may_be_forbidden() -> None:
    mode = mq.FakeTensorMode(allow_meta=False)
    with pytest.raises(AssertionError, match="meta"):
        mode.from_tensor(mq.empty(2, device="meta"))


def test_F5_repr_shows_metadata(mode: mq.FakeTensorMode) -> None:
    assert repr(mode.from_tensor(mq.ones(2, 3))) == "FakeTensor(..., size=(2, 3))"


def test_F6_values_never_print(mode: mq.FakeTensorMode) -> None:
    with mode:
        t = mq.tensor(3)
    assert "3" not in repr(t)
    with pytest.raises(TypeError):
        f"{mode.from_tensor(mq.ones(())):.2f}"


def test_F7_gradients_are_fakes_of_the_mode(mode: mq.FakeTensorMode) -> None:
    w = mode.from_tensor(mq.ones(3, 3, requires_grad=True))
    (w @ w).sum().backward()
    assert w.grad is not None
    assert w.grad.fake_mode is mode


def test_F7_leaf_rules_hold(mode: mq.FakeTensorMode) -> None:
    w = mode.from_tensor(mq.ones(3, 3, requires_grad=True))
    with pytest.raises(RuntimeError, match="leaf"):
        w.add_(1)


def test_F8_a_fake_of_a_parameter_is_a_parameter(mode: mq.FakeTensorMode) -> None:
    with mode:
        weight = mq.nn.Linear(2, 2).weight
    assert isinstance(weight, mq.FakeTensor)
    assert isinstance(weight, mq.nn.Parameter)


def test_F8_an_optimizer_steps_in_fake_mode(mode: mq.FakeTensorMode) -> None:
    with mode:
        model = mq.nn.Linear(2, 2)
        optimizer = mq.optim.AdamW(model.parameters())
        model(mq.ones(3, 2)).sum().backward()
        optimizer.step()
    state = optimizer.state[model.weight]
    assert isinstance(state["exp_avg"], mq.FakeTensor)


def test_F9_data_is_refused(mode: mq.FakeTensorMode) -> None:
    t = mode.from_tensor(mq.ones(2))
    with pytest.raises(RuntimeError):
        t.numpy()
    with pytest.raises((RuntimeError, BufferError)):
        np.from_dlpack(t)


def test_F9_there_is_no_address_unless_it_is_asked_for(mode: mq.FakeTensorMode) -> None:
    with pytest.raises(RuntimeError, match=r"data pointer.*allow_unsafe_data_ptr_access"):
        mode.from_tensor(mq.ones(2)).data_ptr()
    unsafe = mq.FakeTensorMode(allow_unsafe_data_ptr_access=True)
    with pytest.warns(UserWarning, match="data pointer of a fake"):
        assert unsafe.from_tensor(mq.ones(2)).data_ptr() == 0


def test_F41_a_deep_copy_of_a_module_is_fake(mode: mq.FakeTensorMode) -> None:
    model = mq.nn.Sequential(mq.nn.Linear(2, 2), mq.nn.Linear(2, 2))
    model[1].weight = model[0].weight
    with mq.fake.FakeCopyMode(mode):
        made = copy.deepcopy(model)
    assert made[0].weight is made[1].weight
    assert isinstance(made[0].weight, mq.nn.Parameter)
    assert made[0].weight.fake_mode is mode
    assert model[0].weight.fake_mode is None


def test_F41_the_copy_is_static() -> None:
    mode = mq.FakeTensorMode(shape_env=mq.symbolic.ShapeEnv())
    with mq.fake.FakeCopyMode(mode):
        assert copy.deepcopy(mq.ones(3)).meta.shape == (3,)


def test_F63_a_tensor_is_held_to_its_metadata(mode: mq.FakeTensorMode) -> None:
    check = mq.ops.aten._assert_tensor_metadata
    x = mode.from_tensor(mq.ones(2))
    check(x, [2], [1], mq.float32, device="cpu", layout=mq.strided)
    for wrong, told in (
        ({"dtype": mq.float64}, r"float64.*float32"),
        ({"size": [3]}, r"\[3\].*\[2\]"),
        ({"stride": [2]}, r"\[2\].*\[1\]"),
        ({"device": "cuda"}, r"cuda:0.*cpu"),
        ({"layout": mq.sparse_coo}, r"sparse_coo.*strided"),
    ):
        # PyTorch raises AssertionError for fakes; ours raise what eager raises (F22).
        with pytest.raises(RuntimeError, match=told):
            check(x, **wrong)


@pytest.mark.parametrize("kind", [mq.float16, mq.bfloat16])
def test_F63_statistics_of_halves_are_floats_where_accelerators_keep_them(kind: mq.dtype) -> None:
    for where, wanted in (("cpu", kind), ("cuda", mq.float32), ("meta", mq.float32)):
        with mq.FakeTensorMode():
            x = mq.empty(2, 3, dtype=kind, device=where)
            made = mq.native_layer_norm(x, [3], None, None, 1e-5)
        assert [t.dtype for t in made] == [kind, wanted, wanted]


@pytest.fixture
def lengths() -> mq.Tensor:
    mode = mq.FakeTensorMode(shape_env=mq.symbolic.ShapeEnv())
    return mode.from_tensor(mq.tensor([0, 2, 5]), static_shapes=True)


def test_F77_a_nested_int_outlives_writes_and_epochs(lengths: mq.FakeTensor) -> None:
    with lengths.fake_mode as mode:
        n = lengths.get_nested_int()
        lengths.add_(1)
        mode.epoch += 1
        again = lengths.get_nested_int()
    assert again == n
    assert hash(again) == hash(n)
    assert mode.nt_tensor_id_counter == 1


def test_F77_a_nested_int_is_compared_and_multiplied_no_more(lengths: mq.FakeTensor) -> None:
    with lengths.fake_mode:
        n, twice = lengths.get_nested_int(), lengths.get_nested_int(coeff=2)
    assert n * 2 == twice != n
    assert all(n >= k for k in (0, 1, 2))
    with pytest.raises(ValueError, match="indeterminate"):
        n >= 3  # noqa: B015  # it raises
    with pytest.raises(AttributeError, match="ragged"):
        n + 1


def test_F77_a_nested_int_needs_the_mode_and_an_environment(
    lengths: mq.FakeTensor, mode: mq.FakeTensorMode
) -> None:
    with pytest.raises(AssertionError, match="not active"):
        lengths.get_nested_int()
    with mode, pytest.raises(AssertionError, match="shape_env"):
        mode.from_tensor(mq.tensor([0, 2])).get_nested_int()


def test_F10_reading_a_number_is_data_dependent(mode: mq.FakeTensorMode) -> None:
    t = mode.from_tensor(mq.ones(3))
    for read in (lambda: t[0].item(), lambda: bool(t[0]), lambda: int(t[0]), lambda: t.tolist()):
        with pytest.raises(mq.fake.DataDependentOutputException):
            read()


def test_F11_deepcopy_keeps_mode_and_aliasing(mode: mq.FakeTensorMode) -> None:
    x = mode.from_tensor(mq.ones(4))
    a, b = copy.deepcopy([x, x.view(-1)])
    assert a.fake_mode is mode
    assert a.untyped_storage() is b.untyped_storage()
    assert a.untyped_storage() is not x.untyped_storage()


def test_F12_a_fake_cannot_be_pickled(mode: mq.FakeTensorMode) -> None:
    with pytest.raises(TypeError):
        pickle.dumps(mode.from_tensor(mq.ones(2)))


def test_F13_there_are_no_named_tensors(mode: mq.FakeTensorMode) -> None:
    with pytest.raises(AttributeError):
        mode.from_tensor(mq.ones(2)).names  # noqa: B018  # the look-up is the test


def test_F14_D4_a_fake_carries_fake_and_its_own_devices_keys(mode: mq.FakeTensorMode) -> None:
    with mode:
        found = keyset(mq.empty(2, device="cuda"))
    assert all(found.has(k) for k in ("CUDA", "AutogradCUDA", "Fake"))
    assert not found.has(DispatchKey.Python)


def test_F15_a_fake_of_a_meta_tensor(mode: mq.FakeTensorMode) -> None:
    elem = mq.empty(2, 3, device="meta")
    t = mq.FakeTensor(mode, elem, "cuda")
    assert (t.shape, str(t.device)) == ((2, 3), "cuda:0")


@pytest.mark.parametrize("arguments", [(), ("mode",), ("mode", "elem")])
def test_F15_missing_parts_are_named(mode: mq.FakeTensorMode, arguments: tuple[str, ...]) -> None:
    parts = {"mode": mode, "elem": mq.empty(2, device="meta")}
    with pytest.raises(TypeError, match="missing"):
        mq.FakeTensor(*[parts[a] for a in arguments])


def test_F16_constructors_give_fakes(mode: mq.FakeTensorMode) -> None:
    with mode:
        made = [mq.Tensor([1.0]), mq.as_tensor([1.0]), mq.from_numpy(np.ones(2))]
    assert [type(t) for t in made] == [mq.FakeTensor] * 3


def test_F17_a_storage_may_be_emptied_and_still_infer(mode: mq.FakeTensorMode) -> None:
    x = mode.from_tensor(mq.ones(2, 3))
    x.untyped_storage().resize_(0)
    assert x.untyped_storage().nbytes() == 0
    assert (x + 1).shape == (2, 3)


def test_F18_resize_grows_storage_and_never_shrinks_it(mode: mq.FakeTensorMode) -> None:
    x = mode.from_tensor(mq.ones(4, 4))
    sizes = [x.resize_(8, 8).untyped_storage().nbytes(), x.resize_(2).untyped_storage().nbytes()]
    assert sizes == [256, 256]


def test_F18_views_share_the_version(mode: mq.FakeTensorMode) -> None:
    x = mode.from_tensor(mq.ones(4, 4))
    view = x[1]
    x.add_(1)
    assert view._version == 1


def test_F19_out_refuses_an_unsafe_cast(mode: mq.FakeTensorMode) -> None:
    x = mode.from_tensor(mq.ones(2))
    out = mode.from_tensor(mq.zeros(2, dtype=mq.int32))
    with pytest.raises(RuntimeError, match=r"Float.*Int"):
        mq.add(x, x, out=out)


@pytest.mark.parametrize(
    "program",
    [
        lambda x: x @ x,
        lambda x: x.view(7),
        lambda x: x[::-1],
        lambda x: x.select(0, 5),
        lambda x: x.sum(3),
    ],
)
def test_F22_wrong_programs_fail_as_eager_does(mode: mq.FakeTensorMode, program) -> None:
    real = mq.ones(2, 3)
    with pytest.raises(Exception) as eager:  # its class and words are compared below
        program(real)
    with pytest.raises(type(eager.value)) as fake:
        program(mode.from_tensor(real))
    assert str(fake.value) == str(eager.value)


@pytest.mark.parametrize(
    "name",
    [
        "DynamicOutputShapeException",
        "DataDependentOutputException",
        "UnsupportedOperatorException",
    ],
)
def test_F106_errors_about_an_operator_read_as_it_does(name: str) -> None:
    error, op = getattr(mq.fake, name), mq.ops.aten.nonzero.default
    assert str(error(op)) == str(op)
    assert error(op) == error(op) != error(mq.ops.aten.mm.default)
    assert isinstance(error(op), RuntimeError)


@pytest.mark.parametrize(
    "name",
    [
        "UnsupportedFakeTensorException",
        "UnsupportedMutationAliasingException",
        "MetadataMismatchError",
    ],
)
def test_F106_errors_with_a_reason_compare_by_it(name: str) -> None:
    error = getattr(mq.fake, name)
    assert error("why").reason == "why"
    assert error("why") == error("why") != error("why not")
    assert isinstance(error("why"), RuntimeError)

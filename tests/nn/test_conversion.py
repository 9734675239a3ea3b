"""Moving and casting modules: what is converted, what keeps its identity."""

import pytest

import maquette as mq
from maquette import nn


def test_casting_converts_floats_only_and_keeps_parameters():
    module = nn.BatchNorm1d(2)
    weight = module.weight
    assert module.double() is module
    assert module.weight is weight
    assert weight.dtype == mq.float64
    assert module.running_mean.dtype == mq.float64
    assert module.num_batches_tracked.dtype == mq.int64


@pytest.mark.parametrize(
    "cast, dtype",
    [("half", mq.float16), ("bfloat16", mq.bfloat16), ("float", mq.float32)],
)
def test_casts_by_name(cast, dtype):
    assert getattr(nn.Linear(1, 1), cast)().weight.dtype == dtype


@pytest.mark.parametrize(
    "args, kwargs",
    [
        ((mq.float64,), {}),
        (("cpu", mq.float64), {}),
        ((mq.device("cpu"), mq.float64, True), {}),
        ((), {"dtype": mq.float64}),
        ((mq.zeros(1, dtype=mq.float64),), {}),
    ],
)
def test_to_takes_a_device_a_dtype_both_or_a_tensor(args, kwargs):
    assert nn.Linear(1, 1).to(*args, **kwargs).weight.dtype == mq.float64


def test_to_refuses_integers_and_unknown_arguments():
    with pytest.raises(TypeError, match="floating point or complex"):
        nn.Linear(1, 1).to(mq.int64)
    with pytest.raises(TypeError, match="invalid combination"):
        nn.Linear(1, 1).to(3.5)
    with pytest.raises(TypeError, match="invalid combination"):
        nn.Linear(1, 1).to(color="red")


def test_gradients_move_along():
    module = nn.Linear(1, 1)
    module(mq.ones(1, 1)).sum().backward()
    module.double()
    assert module.weight.grad.dtype == mq.float64


def test_memory_format_reorders_images_only():
    module = nn.Conv2d(2, 3, 3).to(memory_format=mq.channels_last)
    assert module.weight.is_contiguous(memory_format=mq.channels_last)
    assert module.bias.is_contiguous()


def test_meta_modules_hold_no_data_and_leave_by_to_empty():
    module = nn.Linear(2, 2, device="meta")
    assert module.weight.is_meta
    with pytest.raises(NotImplementedError, match="to_empty"):
        module.to("cpu")
    old = module.weight
    module.to_empty(device="cpu")
    assert not module.weight.is_meta
    assert module.weight is not old
    assert isinstance(module.weight, nn.Parameter)


def test_conversion_of_children_comes_with_the_parent():
    module = nn.Sequential(nn.Linear(1, 1), nn.Sequential(nn.BatchNorm1d(1))).double()
    assert {t.dtype for t in module.parameters()} == {mq.float64}


def test_F8_modules_made_under_a_fake_mode_are_fake():
    with mq.FakeTensorMode() as mode:
        module = nn.Linear(2, 2)
    assert isinstance(module.weight, mq.FakeTensor)
    assert isinstance(module.weight, nn.Parameter)
    assert module.weight.fake_mode is mode


def test_F8_loading_keeps_a_fake_module_fake():
    with mq.FakeTensorMode():
        module = nn.Linear(2, 2)
        state = nn.Linear(2, 2).state_dict()
        module.load_state_dict(state)
        module.load_state_dict(state, assign=True)
    assert isinstance(module.weight, mq.FakeTensor)


def test_a_fake_module_moves_to_a_device_that_is_not_there():
    with mq.FakeTensorMode():
        module = nn.Linear(2, 2)
        weight = module.weight
        module.cuda()
    assert module.weight is weight
    assert str(weight.device) == "cuda:0"


def test_a_fake_module_keeps_its_step_on_another_device():
    with mq.FakeTensorMode():
        module = nn.Linear(2, 1, device="cuda")
        module(mq.ones(3, 2, device="cuda")).sum().backward()
    assert str(module.weight.grad.device) == "cuda:0"


@pytest.mark.parametrize(
    ("args", "options"),
    [(("cpu", True), {}), ((None, True), {}), (([],), {}), (("cpu", mq.tensor(3)), {})],
)
def test_arguments_of_to_stand_in_order(args, options):
    with pytest.raises(TypeError):
        nn.Linear(1, 1).to(*args, **options)


def test_a_module_is_not_copied_by_to():
    with pytest.raises(RuntimeError, match="does not accept copy"):
        nn.Linear(1, 1).to("cpu", copy=True)


@pytest.mark.parametrize("name", ["cuda", "xpu", "ipu"])
def test_a_method_of_a_kind_of_device_refuses_another_kind(name: str) -> None:
    for moved in (mq.nn.Linear(1, 1), mq.zeros(1)):
        with pytest.raises(RuntimeError, match=f"must be {name} device, got cpu"):
            getattr(moved, name)("cpu")
        with mq.FakeTensorMode(), pytest.raises(RuntimeError, match=f"must be {name} device"):
            getattr(moved, name)(mq.device("meta"))

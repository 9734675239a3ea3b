"""Autocast: regions, what they do to operators, weights that are cast once, scaled losses."""

import pickle

import pytest

import maquette as mq
import maquette.torch as torch
from maquette import nn, optim


def test_products_run_in_the_dtype_of_the_region():
    x = mq.ones(2, 2)
    with torch.autocast("cpu"):
        assert (x @ x).dtype is mq.bfloat16
        assert nn.functional.linear(x, x).dtype is mq.bfloat16
    with torch.autocast("cpu", dtype=mq.float16):
        assert mq.mm(x, x).dtype is mq.float16
    assert (x @ x).dtype is mq.float32


def test_losses_run_in_float32_and_doubles_stay():
    x = mq.ones(3, 3, dtype=mq.bfloat16)
    with torch.autocast("cpu"):
        assert nn.functional.mse_loss(x, x).dtype is mq.float32
        assert (x.double() @ x.double()).dtype is mq.float64
        assert (x + x).dtype is mq.bfloat16


def test_joined_tensors_are_promoted():
    x = mq.ones(2)
    with torch.autocast("cpu"):
        assert mq.stack([x, x.bfloat16()]).dtype is mq.float32


def test_F14_cuda_regions_serve_fake_cuda_tensors():
    with mq.FakeTensorMode(), torch.autocast("cuda", dtype=mq.float16):
        x = mq.ones(2, 2, device="cuda")
        assert (x @ x).dtype is mq.float16
        assert mq.softmax((x @ x), -1).dtype is mq.float32
        assert (x @ x).sum().dtype is mq.float32
        assert (mq.ones(2, 2) @ mq.ones(2, 2)).dtype is mq.float32  # another device


def test_binary_cross_entropy_is_refused_on_cuda():
    with mq.FakeTensorMode(), torch.autocast("cuda"):
        x = mq.ones(2, device="cuda")
        with pytest.raises(RuntimeError, match="unsafe to autocast"):
            nn.functional.binary_cross_entropy(x, x)


def test_regions_nest_and_have_holes():
    x = mq.ones(2, 2)
    with torch.autocast("cpu"):
        with torch.autocast("cpu", enabled=False):
            assert (x @ x).dtype is mq.float32
            assert not torch.is_autocast_enabled("cpu")
        with torch.autocast("cpu", dtype=mq.float16):
            assert torch.get_autocast_dtype("cpu") is mq.float16
        assert (x @ x).dtype is mq.bfloat16
    assert torch.get_autocast_dtype("cpu") is mq.bfloat16


def test_an_error_leaves_the_region():
    with pytest.raises(RuntimeError), torch.autocast("cpu"):
        mq.mm(mq.ones(2, 3), mq.ones(2, 3))
    assert not torch.is_autocast_enabled("cpu")


def test_a_function_may_be_decorated():
    @torch.autocast("cpu")
    def product(x):
        return x @ x

    assert product(mq.ones(2, 2)).dtype is mq.bfloat16


def _casts(program):
    seen = []

    class Watch(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    with Watch():
        program()
    return seen.count("aten._to_copy.default")


def test_weights_are_cast_once_in_a_region():
    layer = nn.Linear(2, 2, bias=False)

    def twice(cache):
        with torch.autocast("cpu", cache_enabled=cache):
            layer(layer(mq.ones(1, 2)))

    assert _casts(lambda: twice(True)) == 2  # the weight and the first input
    assert _casts(lambda: twice(False)) == 3


def test_gradients_have_the_dtype_of_the_weights():
    layer = nn.Linear(2, 2)
    with torch.autocast("cpu"):
        loss = layer(mq.ones(1, 2)).sum()
    loss.backward()
    assert layer.weight.grad.dtype is mq.float32


def test_unsupported_dtypes_switch_the_region_off():
    with pytest.warns(UserWarning, match="target dtype is not supported"):
        region = torch.autocast("cpu", dtype=mq.float64)
    with region:
        assert (mq.ones(2, 2) @ mq.ones(2, 2)).dtype is mq.float32


def test_devices_without_regions_are_refused():
    with pytest.raises(RuntimeError, match="unsupported autocast device_type 'vulkan'"):
        torch.autocast("vulkan")
    with pytest.raises(ValueError, match="Expected `device_type` of type `str`"):
        torch.autocast(1)


def test_functions_take_the_region_of_their_forward_into_backward():
    seen = []

    class Product(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="cpu")
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x @ x

        @staticmethod
        @torch.amp.custom_bwd(device_type="cpu")
        def backward(ctx, grad):
            seen.append(torch.is_autocast_enabled("cpu"))
            return grad

    x = mq.ones(2, 2, requires_grad=True)
    with torch.autocast("cpu"):
        y = Product.apply(x)
    y.sum().backward()
    assert seen == [True]


def test_custom_fwd_casts_inputs_and_leaves_the_region():
    seen = []

    class Same(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="cpu", cast_inputs=mq.float32)
        def forward(ctx, x):
            seen.append((x.dtype, torch.is_autocast_enabled("cpu")))
            return x.clone()

        @staticmethod
        @torch.amp.custom_bwd(device_type="cpu")
        def backward(ctx, grad):
            return grad

    with torch.autocast("cpu"):
        Same.apply(mq.ones(2, dtype=mq.bfloat16))
    assert seen == [(mq.float32, False)]


# --- scaled losses --------------------------------------------------------------------


def _scaled_step(scaler, p, optimizer, factor=1.0):
    optimizer.zero_grad()
    scaler.scale((p * factor).sum()).backward()
    scaler.step(optimizer)
    scaler.update()


def test_a_scaler_steps_with_unscaled_gradients_and_grows():
    p = nn.Parameter(mq.ones(1))
    optimizer = optim.SGD([p], lr=0.5)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0, growth_interval=2)
    _scaled_step(scaler, p, optimizer)
    assert (p.item(), scaler.get_scale()) == (0.5, 4.0)
    _scaled_step(scaler, p, optimizer)
    assert scaler.get_scale() == 8.0


def test_a_scaler_leaves_out_steps_that_overflow():
    p = nn.Parameter(mq.ones(1))
    optimizer = optim.SGD([p], lr=0.5)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    _scaled_step(scaler, p, optimizer, float("inf"))
    assert (p.item(), scaler.get_scale()) == (1.0, 2.0)


def test_a_scaler_says_what_was_done_out_of_order():
    p = nn.Parameter(mq.ones(1))
    optimizer = optim.SGD([p], lr=0.5)
    scaler = torch.amp.GradScaler("cpu")
    with pytest.raises(AssertionError, match="_scale is None"):
        scaler.step(optimizer)
    scaler.scale(p.sum()).backward()
    scaler.unscale_(optimizer)
    with pytest.raises(RuntimeError, match="already been called"):
        scaler.unscale_(optimizer)
    scaler.step(optimizer)
    with pytest.raises(RuntimeError, match="already been called since the last update"):
        scaler.step(optimizer)


def test_a_scaler_is_restored_from_its_state():
    p = nn.Parameter(mq.ones(1))
    optimizer = optim.SGD([p], lr=0.5)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0, growth_interval=1)
    _scaled_step(scaler, p, optimizer)
    other = torch.amp.GradScaler("cpu")
    other.load_state_dict(scaler.state_dict())
    assert other.state_dict() == scaler.state_dict()
    assert pickle.loads(pickle.dumps(scaler)).get_scale() == 8.0
    with pytest.raises(RuntimeError, match="source state dict is empty"):
        other.load_state_dict({})


def test_a_scaler_for_an_absent_device_switches_itself_off():
    p = nn.Parameter(mq.ones(1))
    optimizer = optim.SGD([p], lr=0.5)
    with pytest.warns(UserWarning, match="CUDA is not available"):
        scaler = torch.amp.GradScaler("cuda")
    loss = (2 * p).sum()
    assert scaler.scale(loss) is loss
    loss.backward()
    scaler.step(optimizer)
    scaler.update()
    assert p.item() == 0.0
    assert (scaler.get_scale(), scaler.is_enabled()) == (1.0, False)


def test_the_old_names_say_where_they_went():
    with pytest.warns(FutureWarning, match=r"torch\.amp\.autocast\('cuda'"):
        torch.cuda.amp.autocast(enabled=False)


@pytest.mark.parametrize("device", ["mps", "xpu", "hpu"])
def test_regions_of_devices_that_are_not_here_leave_others_alone(device):
    x = mq.ones(2, 2)
    assert torch.amp.is_autocast_available(device)
    assert not torch.is_autocast_enabled(device)
    with torch.autocast(device, dtype=mq.bfloat16):
        assert torch.is_autocast_enabled(device)
        assert not torch.is_autocast_enabled("cpu")
        assert (x @ x).dtype is mq.float32
    assert not torch.is_autocast_enabled(device)


def test_every_layer_of_an_lstm_gives_the_lower_dtype():
    module = mq.nn.LSTM(4, 5, num_layers=2, bidirectional=True)
    with torch.autocast("cpu", dtype=mq.bfloat16):
        output, (hidden, cell) = module(mq.randn(3, 2, 4))
    assert {t.dtype for t in (output, hidden, cell)} == {mq.bfloat16}
    output.float().sum().backward()
    assert module.weight_hh_l1.grad.dtype is mq.float32

"""Lazy layers, modules without initial values, and layers fused with what follows them."""

import copy
import pickle

import pytest

import maquette as mq
from maquette import nn
from maquette.nn.modules.utils import consume_prefix_in_state_dict_if_present
from maquette.nn.parameter import UninitializedParameter, is_lazy

LAZY = [
    (lambda: nn.LazyLinear(4), (2, 3)),
    (lambda: nn.LazyConv1d(4, 3), (2, 6, 5)),
    (lambda: nn.LazyConv2d(4, 3, groups=2, bias=False), (2, 6, 5, 5)),
    (lambda: nn.LazyConv3d(4, 3), (2, 6, 5, 5, 5)),
    (lambda: nn.LazyConvTranspose1d(4, 3), (2, 6, 5)),
    (lambda: nn.LazyConvTranspose2d(4, 3, stride=2), (2, 6, 5, 5)),
    (lambda: nn.LazyBatchNorm1d(), (2, 6)),
    (lambda: nn.LazyBatchNorm2d(affine=False), (2, 6, 5, 5)),
    (lambda: nn.LazyInstanceNorm2d(track_running_stats=False), (2, 6, 5, 5)),
]


@pytest.mark.parametrize("make, shape", LAZY)
def test_a_lazy_layer_becomes_ordinary_with_its_first_input(make, shape):
    layer = make()
    ordinary = type(layer).cls_to_become
    assert layer.has_uninitialized_params()
    out = layer(mq.randn(*shape))
    assert type(layer) is ordinary
    assert not any(is_lazy(p) for p in (*layer.parameters(), *layer.buffers()))
    assert mq.equal(layer.eval()(mq.ones(*shape)), layer(mq.ones(*shape)))
    assert out.shape[0] == shape[0]


@pytest.mark.parametrize("make, shape", LAZY)
def test_a_lazy_layer_becomes_ordinary_by_loading(make, shape):
    known = make()
    known(mq.randn(*shape))
    layer = make()
    layer.load_state_dict(known.state_dict())
    assert layer.state_dict().keys() == known.state_dict().keys()
    for name, value in known.state_dict().items():
        assert mq.equal(layer.state_dict()[name], value)
    layer(mq.ones(*shape))
    assert type(layer) is type(known)


def test_lazy_parameters_are_listed_and_say_what_they_are():
    layer = nn.LazyLinear(4)
    assert isinstance(layer.weight, UninitializedParameter)
    assert isinstance(layer.weight, nn.Parameter)
    assert [name for name, _ in layer.named_parameters()] == ["weight", "bias"]
    assert "Uninitialized" in repr(layer.weight)


def test_skip_init_draws_nothing():
    before = mq.get_rng_state()
    layer = nn.utils.skip_init(nn.Linear, 3, 4, dtype=mq.float64)
    assert layer.weight.device.type == "cpu"
    assert layer.weight.dtype == mq.float64
    assert mq.equal(mq.get_rng_state(), before)
    with pytest.raises(RuntimeError, match="'device'"):
        nn.utils.skip_init(nn.Identity)


@pytest.mark.parametrize("layer", [nn.Conv2d(2, 3, 3), nn.Conv2d(2, 3, 3, bias=False)])
def test_a_fused_convolution_does_what_both_did(layer):
    norm = nn.BatchNorm2d(3)
    norm(layer(mq.randn(4, 2, 5, 5)))
    layer.eval(), norm.eval()
    fused = nn.utils.fuse_conv_bn_eval(layer, norm)
    x = mq.randn(2, 2, 5, 5)
    assert mq.allclose(fused(x), norm(layer(x)), atol=1e-5)
    with pytest.raises(RuntimeError, match="eval"):
        nn.utils.fuse_conv_bn_eval(layer.train(), norm)


def test_a_fused_dense_layer_does_what_both_did():
    layer, norm = nn.Linear(3, 4), nn.BatchNorm1d(4)
    norm(layer(mq.randn(8, 3)))
    layer.eval(), norm.eval()
    x = mq.randn(2, 3)
    fused = nn.utils.fuse_linear_bn_eval(layer, norm)
    assert mq.allclose(fused(x), norm(layer(x)), atol=1e-5)


def test_adaptive_softmax_gives_probabilities():
    layer = nn.AdaptiveLogSoftmaxWithLoss(6, 10, [4, 7], div_value=2.0)
    x, target = mq.randn(5, 6), mq.tensor([0, 3, 4, 8, 9])
    log_probabilities = layer.log_prob(x)
    assert mq.allclose(log_probabilities.exp().sum(1), mq.ones(5))
    out = layer(x, target)
    assert mq.allclose(out.output, log_probabilities[mq.arange(5), target])
    assert mq.allclose(out.loss, -out.output.mean())
    assert mq.equal(layer.predict(x), log_probabilities.argmax(1))
    assert mq.allclose(layer(x[0], target[0]).output, out.output[0])
    with pytest.raises(ValueError, match="cutoffs"):
        nn.AdaptiveLogSoftmaxWithLoss(6, 10, [7, 4])


@pytest.mark.parametrize("align_corners", [True, False])
def test_the_grid_of_the_identity_samples_what_is_there(align_corners):
    x = mq.arange(2 * 3 * 4 * 5.0).reshape(2, 3, 4, 5)
    theta = mq.eye(2, 3).expand(2, 2, 3)
    grid = nn.functional.affine_grid(theta, x.shape, align_corners)
    assert grid.shape == (2, 4, 5, 2)
    sampled = nn.functional.grid_sample(x, grid, align_corners=align_corners)
    assert mq.allclose(sampled, x, atol=1e-3)


def test_one_process_has_nothing_to_synchronize_or_distribute():
    layer = nn.Linear(2, 2)
    assert nn.DataParallel(layer).module is layer
    assert mq.equal(nn.DataParallel(layer)(mq.ones(1, 2)), layer(mq.ones(1, 2)))
    norms = nn.SyncBatchNorm.convert_sync_batchnorm(nn.Sequential(nn.BatchNorm1d(2)))
    x = mq.randn(3, 2)
    assert isinstance(norms[0], nn.SyncBatchNorm)
    assert mq.equal(norms(x), nn.BatchNorm1d(2)(x))
    with pytest.raises(NotImplementedError, match="not supported by maquette yet"):
        nn.DataParallel(layer, device_ids=[0, 1])
    with pytest.raises(ValueError, match="process group has not been initialized"):
        nn.parallel.DistributedDataParallel(layer)


def test_one_process_normalizes_by_its_own_batch():
    layer = nn.Sequential(nn.Conv1d(2, 3, 1), nn.BatchNorm1d(3))
    x = mq.randn(4, 2, 5)
    expected = layer(x)
    layer[1].reset_running_stats()
    synchronized = nn.SyncBatchNorm.convert_sync_batchnorm(layer)
    assert type(synchronized[1]) is nn.SyncBatchNorm
    assert mq.equal(synchronized(x), expected)


def test_the_kernel_of_attention_changes_no_result():
    q = mq.randn(1, 2, 3, 4)
    with nn.attention.sdpa_kernel(nn.attention.SDPBackend.MATH):
        chosen = nn.functional.scaled_dot_product_attention(q, q, q)
    assert mq.allclose(chosen, nn.functional.scaled_dot_product_attention(q, q, q), atol=1e-6)


def test_a_prefix_is_taken_from_a_state_dict():
    layer = nn.Linear(2, 2)
    state = nn.DataParallel(layer).state_dict()
    consume_prefix_in_state_dict_if_present(state, "module.")
    assert list(state) == ["weight", "bias"]
    nn.Linear(2, 2).load_state_dict(state)


# --- places without a shape (finding 51) ---------------------------------------------


def test_a_place_gets_its_shape_in_place():
    """Finding 51: an optimizer that holds it goes on."""
    layer = nn.LazyLinear(2)
    weight = layer.weight
    layer(mq.ones(1, 3))
    assert layer.weight is weight
    assert type(weight) is nn.Parameter
    assert weight.shape == (2, 3)


def test_the_state_of_a_lazy_module_holds_its_places():
    """Finding 51."""
    state = nn.LazyLinear(2).state_dict()
    assert isinstance(state["weight"], UninitializedParameter)
    other = nn.LazyLinear(2)
    other.load_state_dict(state)
    assert other.has_uninitialized_params()
    with pytest.raises(RuntimeError, match="shape of an uninitialized"):
        nn.Linear(3, 2).load_state_dict(state)


def test_a_lazy_module_is_copied_and_pickled():
    """Finding 51."""
    layer = nn.LazyLinear(2)
    for made in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert made.has_uninitialized_params()
        assert made(mq.ones(1, 3)).shape == (1, 2)
        assert type(made) is nn.Linear
        assert not made._forward_pre_hooks
    assert layer.has_uninitialized_params()


def test_a_lazy_module_of_ones_own():
    """Finding 51."""

    class Scale(nn.modules.lazy.LazyModuleMixin, nn.Module):
        def __init__(self):
            super().__init__()
            self.factor = UninitializedParameter()

        def initialize_parameters(self, x):
            if self.has_uninitialized_params():
                self.factor.materialize(x.shape[-1:])
                nn.init.ones_(self.factor)

        def forward(self, x):
            return x * self.factor

    assert Scale()(mq.ones(2, 3)).tolist() == [[1.0] * 3] * 2


@pytest.mark.filterwarnings("ignore:.*weight_norm:FutureWarning")
def test_what_needs_values_is_refused():
    """Finding 51."""
    for call in (mq.exp, nn.utils.weight_norm):
        with pytest.raises(ValueError, match="uninitialized parameter"):
            call(nn.LazyLinear(2) if call is nn.utils.weight_norm else UninitializedParameter())
    with pytest.raises(RuntimeError, match="share memory on an uninitialized"):
        nn.LazyLinear(2).share_memory()


def test_lazy_convolutions_take_every_option_by_place() -> None:
    conv = mq.nn.LazyConv2d(8, 3, 1, 0, 1, 1, False, "reflect")
    assert (conv.bias, conv.padding_mode, conv.groups) == (None, "reflect", 1)
    back = mq.nn.LazyConvTranspose1d(8, 3, 2, 0, 1, 1, False, 2)
    assert (back.bias, back.output_padding, back.dilation) == (None, (1,), (2,))
    assert conv(mq.ones(1, 2, 5, 5)).shape == (1, 8, 3, 3)

"""Parametrizations: the mechanism, and the normalizations built on it."""

import copy
import pickle

import pytest

import maquette as mq
from maquette import nn
from maquette.dispatch.modes import TorchDispatchMode
from maquette.nn.utils import parametrizations, parametrize


class Symmetric(nn.Module):
    """The upper triangle, mirrored."""

    def forward(self, x):
        return x.triu() + x.triu(1).mT

    def right_inverse(self, x):
        return x.triu()


class Doubled(nn.Module):
    """Twice the value, counting how often it is computed."""

    calls = 0

    def forward(self, x):
        Doubled.calls += 1
        return 2 * x


def square():
    return nn.Linear(3, 3)


def test_a_parametrized_weight_is_computed_from_its_original():
    layer = parametrize.register_parametrization(square(), "weight", Symmetric())
    assert mq.equal(layer.weight, layer.weight.mT)
    assert type(layer).__name__ == "ParametrizedLinear"
    assert isinstance(layer, nn.Linear)
    assert sorted(dict(layer.named_parameters())) == ["bias", "parametrizations.weight.original"]
    assert parametrize.is_parametrized(layer, "weight")
    assert not parametrize.is_parametrized(layer, "bias")


def test_gradients_reach_the_original():
    layer = parametrize.register_parametrization(square(), "weight", Symmetric())
    layer(mq.ones(2, 3)).sum().backward()
    assert layer.parametrizations.weight.original.grad.shape == (3, 3)


def test_the_original_keeps_its_identity_for_optimizers():
    layer = square()
    before = layer.weight
    parametrize.register_parametrization(layer, "weight", Symmetric())
    assert layer.parametrizations.weight.original is before


def test_assigning_goes_through_the_inverse():
    layer = parametrize.register_parametrization(square(), "weight", Symmetric())
    layer.weight = mq.eye(3)
    assert mq.equal(layer.weight, mq.eye(3))
    other = parametrize.register_parametrization(square(), "weight", Doubled())
    with pytest.raises(RuntimeError, match="right_inverse"):
        other.weight = mq.eye(3)


def test_parametrizations_are_chained():
    layer = parametrize.register_parametrization(square(), "weight", Symmetric())
    once = layer.weight.detach()
    parametrize.register_parametrization(layer, "weight", Doubled())
    assert mq.allclose(layer.weight, 2 * once)


def test_a_cached_block_computes_once():
    layer = parametrize.register_parametrization(square(), "weight", Doubled())
    Doubled.calls = 0
    with parametrize.cached():
        assert layer.weight is layer.weight
    assert Doubled.calls == 1
    assert layer.weight is not layer.weight


def test_removing_leaves_the_value_or_the_original():
    layer = parametrize.register_parametrization(square(), "weight", Doubled())
    value, original = layer.weight.detach().clone(), layer.parametrizations.weight.original
    parametrize.remove_parametrizations(layer, "weight")
    assert type(layer) is nn.Linear
    assert layer.weight is original
    assert mq.equal(layer.weight, value)
    assert sorted(layer.state_dict()) == ["bias", "weight"]
    parametrize.register_parametrization(layer, "weight", Doubled())
    parametrize.remove_parametrizations(layer, "weight", leave_parametrized=False)
    assert mq.equal(layer.weight, value)


def test_shape_and_dtype_must_stay_unless_unsafe():
    class Flat(nn.Module):
        def forward(self, x):
            return x.flatten()

    with pytest.raises(ValueError, match="shape"):
        parametrize.register_parametrization(square(), "weight", Flat())
    layer = parametrize.register_parametrization(square(), "weight", Flat(), unsafe=True)
    assert layer.weight.shape == (9,)
    with pytest.raises(ValueError, match="frobnicate"):
        parametrize.register_parametrization(square(), "frobnicate", Flat())


def test_copies_are_independent_and_pickling_is_refused():
    layer = parametrize.register_parametrization(square(), "weight", Symmetric())
    other = copy.deepcopy(layer)
    other.weight = mq.eye(3)
    assert not mq.equal(layer.weight, other.weight)
    with pytest.raises(RuntimeError, match="state_dict"):
        pickle.dumps(layer)


@pytest.mark.parametrize("dim", [0, 1, None])
@pytest.mark.parametrize("make", [parametrizations.weight_norm, nn.utils.weight_norm])
@pytest.mark.filterwarnings("ignore:.*weight_norm:FutureWarning")  # the older one says so
def test_weight_norm_keeps_the_value_and_parts_length_from_direction(make, dim):
    layer = square()
    before = layer.weight.detach().clone()
    make(layer, dim=dim)
    assert mq.allclose(layer.weight, before, atol=1e-6)
    length = next(p for name, p in layer.named_parameters() if name.endswith(("0", "_g")))
    with mq.no_grad():
        length.mul_(3)
    layer(mq.ones(1, 3)).sum().backward()
    assert mq.allclose(layer.weight, 3 * before, atol=1e-5)
    assert length.grad is not None


def test_the_older_weight_norm_can_be_removed_and_loaded_into_the_newer():
    with pytest.warns(FutureWarning, match="parametrizations.weight_norm"):
        old = nn.utils.weight_norm(square())
    new = parametrizations.weight_norm(square())
    new.load_state_dict(old.state_dict())
    assert mq.allclose(new.weight, old.weight)
    nn.utils.remove_weight_norm(old)
    assert sorted(dict(old.named_parameters())) == ["bias", "weight"]
    with pytest.raises(ValueError, match="not found"):
        nn.utils.remove_weight_norm(old)


@pytest.mark.parametrize("make", [parametrizations.spectral_norm, nn.utils.spectral_norm])
def test_spectral_norm_makes_the_largest_singular_value_one(make):
    layer = make(nn.Conv2d(2, 4, 3), n_power_iterations=100)
    layer(mq.ones(1, 2, 3, 3))
    largest = mq.linalg_svdvals(layer.weight.detach().flatten(1)).max()
    assert float(largest) == pytest.approx(1, rel=1e-4)


def test_spectral_norm_stands_still_in_evaluation():
    layer = parametrizations.spectral_norm(square()).eval()
    assert mq.equal(layer.weight, layer.weight)


@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 4)])
@pytest.mark.parametrize("kind", ["matrix_exp", "cayley"])
@pytest.mark.parametrize("trivial", [True, False])
def test_orthogonal_weights_stay_orthonormal(shape, kind, trivial):
    layer = nn.Linear(*shape[::-1]).double()
    parametrizations.orthogonal(layer, orthogonal_map=kind, use_trivialization=trivial)
    with mq.no_grad():
        layer.parametrizations.weight.original.add_(0.1)
    w = layer.weight if shape[0] <= shape[1] else layer.weight.mT
    assert mq.allclose(w @ w.mT, mq.eye(min(shape), dtype=mq.float64))


def test_an_orthogonal_weight_keeps_its_value():
    layer = nn.Linear(3, 3)
    nn.init.orthogonal_(layer.weight)
    before = layer.weight.detach().clone()
    parametrizations.orthogonal(layer)
    assert mq.allclose(layer.weight, before, atol=1e-5)


def test_matrices_that_are_not_square_are_made_orthogonal_by_reflectors():
    layer = nn.Linear(3, 5)
    parametrizations.orthogonal(layer, use_trivialization=False)
    wanted = nn.init.orthogonal_(mq.empty(5, 3))
    layer.weight = wanted
    assert layer.parametrizations.weight[0].orthogonal_map.name == "householder"
    assert mq.allclose(layer.weight, wanted, atol=1e-5)
    with pytest.raises(ValueError, match="matrices of shape"):
        layer.weight = mq.ones(5, 5)


def test_a_further_parametrization_acts_on_the_value_and_leaves_the_originals():
    layer = square()
    before = layer.weight.detach().clone()
    parametrize.register_parametrization(layer, "weight", Inverted())
    original = layer.parametrizations.weight.original.detach().clone()
    parametrize.register_parametrization(layer, "weight", Inverted())
    assert mq.equal(layer.parametrizations.weight.original, original)
    assert mq.allclose(layer.weight, 2 * before)


class Inverted(nn.Module):
    """Twice the value, and back."""

    def forward(self, x):
        return 2 * x

    def right_inverse(self, x):
        return x / 2


@pytest.mark.parametrize(
    ("inverse", "words"),
    [
        (lambda x: (x, x), "right_inverse must return a tensor"),
        (lambda x: x.double(), "must have the same dtype"),
        (lambda x: x[:-1], "must have the same shape"),
    ],
)
def test_inverses_that_do_not_fit_are_refused_and_nothing_is_registered(inverse, words):
    layer, wrong = square(), Inverted()
    parametrize.register_parametrization(layer, "weight", Inverted())
    wrong.right_inverse = inverse
    with pytest.raises(ValueError, match=words):
        parametrize.register_parametrization(layer, "weight", wrong)
    assert len(layer.parametrizations.weight) == 1


def test_a_spectral_norm_of_before_there_was_v_is_loaded():
    layer = nn.utils.spectral_norm(nn.Linear(3, 3))
    for _ in range(40):
        layer(mq.ones(1, 3))
    old = layer.state_dict()
    del old._metadata[""]["spectral_norm"], old["weight_v"]
    old["weight"] = layer.weight.detach().clone()
    other = nn.utils.spectral_norm(nn.Linear(3, 3))
    other.load_state_dict(old)
    assert mq.allclose(other.eval()(mq.ones(1, 3)), layer.eval()(mq.ones(1, 3)), atol=1e-4)


def test_weight_norm_calls_one_operator_for_the_first_and_last_dimension():
    seen = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    for dim in (0, 2):
        layer = parametrizations.weight_norm(nn.Conv1d(4, 4, 3), dim=dim)
        with Watch():
            layer.weight  # noqa: B018  # computed when it is read
    assert seen.count("aten._weight_norm_interface.default") == 2
    assert not any("vector_norm" in name for name in seen)


def test_what_is_no_module_has_no_parametrizations():
    assert not parametrize.is_parametrized(None)
    assert parametrize.type_before_parametrizations(3) is int

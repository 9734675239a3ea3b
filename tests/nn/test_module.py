"""Modules: members and how they are registered, copied, walked, printed and called."""

import copy
import pickle

import pytest

import maquette as mq
from maquette import nn


class Pair(nn.Module):
    """Two layers, a parameter and two buffers."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(2, 3)
        self.scale = nn.Parameter(mq.ones(3))
        self.second = nn.Linear(3, 2, bias=False)
        self.register_buffer("mean", mq.zeros(3))
        self.register_buffer("cache", mq.zeros(1), persistent=False)

    def forward(self, x, *, shift=0.0):
        return self.second(self.first(x) * self.scale + self.mean + shift)


# --- Members -------------------------------------------------------------------------


def test_parameters_are_listed_in_order_own_before_children():
    names = [name for name, _ in Pair().named_parameters()]
    assert names == ["scale", "first.weight", "first.bias", "second.weight"]


def test_a_member_is_an_instance_attribute_with_one_owner():
    module = Pair()
    module._parameters["scale"] = new = nn.Parameter(mq.zeros(3))
    assert module.scale is new
    assert module._mq_attributes["scale"] is new
    del module._buffers["mean"]
    assert not hasattr(module, "mean")


def test_none_holds_the_place_of_a_parameter():
    layer = nn.Linear(2, 2, bias=False)
    assert layer.bias is None
    assert list(layer._parameters) == ["weight", "bias"]
    assert [name for name, _ in layer.named_parameters()] == ["weight"]


def test_assigning_the_wrong_kind_to_a_member_is_refused():
    module = Pair()
    with pytest.raises(TypeError, match=r"as parameter 'scale' \(torch.nn.Parameter or None"):
        module.scale = mq.ones(3)
    with pytest.raises(TypeError, match="as child module 'first'"):
        module.first = 3
    with pytest.raises(TypeError, match="as buffer 'mean'"):
        module.mean = 3


def test_a_buffer_may_be_replaced_by_a_tensor_or_none():
    module = Pair()
    module.mean = new = mq.ones(3)
    assert dict(module.named_buffers())["mean"] is new
    module.mean = None
    assert "mean" not in dict(module.named_buffers())


def test_assignment_before_init_says_so():
    class Hasty(nn.Module):
        def __init__(self):
            self.layer = nn.Linear(1, 1)

    with pytest.raises(AttributeError, match=r"before Module.__init__\(\) call"):
        Hasty()


@pytest.mark.parametrize(
    "name, error", [("a.b", KeyError), ("", KeyError), ("forward", KeyError), (3, TypeError)]
)
def test_bad_names_are_refused(name, error):
    with pytest.raises(error):
        nn.Module().register_parameter(name, None)


def test_a_non_leaf_is_no_parameter():
    module = nn.Module()
    computed = nn.Parameter(mq.ones(1))
    computed = nn.Parameter(mq.ones(1)) * 2
    with pytest.raises(TypeError, match="required"):
        module.register_parameter("p", computed)


def test_buffer_class_registers_with_its_persistence():
    module = nn.Module()
    module.kept = nn.Buffer(mq.ones(1))
    module.lost = nn.Buffer(mq.ones(1), persistent=False)
    assert [name for name, _ in module.named_buffers()] == ["kept", "lost"]
    assert list(module.state_dict()) == ["kept"]


def test_reassigning_a_name_changes_its_kind_once():
    module = Pair()
    module.scale = None
    module.scale = nn.Parameter(mq.zeros(3))
    assert next(name for name, _ in module.named_parameters()) == "scale"
    del module.scale
    module.scale = nn.Linear(1, 1)
    assert "scale" in dict(module.named_children())
    assert "scale" not in module._parameters


def test_a_missing_attribute_names_module_and_attribute():
    with pytest.raises(AttributeError, match="'Pair' object has no attribute 'third'"):
        _ = Pair().third


def test_a_shallow_copy_can_gain_members_of_its_own():
    module = Pair()
    other = copy.copy(module)
    other.extra = nn.Parameter(mq.ones(1))
    assert "extra" in other._parameters
    assert "extra" not in module._parameters


def test_deepcopy_copies_tensors_and_keeps_ties():
    module = Pair()
    module.tied = module.scale
    other = copy.deepcopy(module)
    assert other.tied is other.scale
    assert other.scale is not module.scale
    assert mq.equal(other.first.weight, module.first.weight)


def test_pickling_keeps_state():
    module = Pair()
    other = pickle.loads(pickle.dumps(module))
    assert list(other.state_dict()) == list(module.state_dict())
    assert mq.equal(other.first.weight, module.first.weight)


# --- Walking -------------------------------------------------------------------------


def test_shared_modules_and_parameters_are_met_once():
    module = nn.Module()
    module.a = nn.Linear(1, 1)
    module.b = module.a
    assert [name for name, _ in module.named_modules()] == ["", "a"]
    assert len(list(module.parameters())) == 2
    assert len(list(module.named_parameters(remove_duplicate=False))) == 4


def test_get_and_set_submodule_by_path():
    module = nn.Sequential(Pair())
    assert module.get_submodule("0.first") is module[0].first
    module.set_submodule("0.first", nn.Identity())
    assert isinstance(module[0].first, nn.Identity)
    with pytest.raises(AttributeError, match="has no attribute `nothing`"):
        module.get_submodule("0.nothing")
    with pytest.raises(AttributeError, match=r"is not an nn\.Module"):
        module.get_submodule("0.scale")


def test_get_parameter_and_buffer_by_path():
    module = nn.Sequential(Pair())
    assert module.get_parameter("0.first.weight") is module[0].first.weight
    assert module.get_buffer("0.mean") is module[0].mean
    with pytest.raises(AttributeError, match=r"not an nn\.Parameter"):
        module.get_parameter("0.mean")
    with pytest.raises(AttributeError, match="not a buffer"):
        module.get_buffer("0.scale")


def test_apply_visits_children_first():
    seen = []
    nn.Sequential(nn.Identity(), nn.ReLU()).apply(lambda m: seen.append(type(m).__name__))
    assert seen == ["Identity", "ReLU", "Sequential"]


def test_train_and_eval_reach_every_module():
    module = nn.Sequential(nn.Dropout(), nn.Sequential(nn.Dropout())).eval()
    assert not any(m.training for m in module.modules())
    assert all(m.training for m in module.train().modules())
    with pytest.raises(ValueError, match="boolean"):
        module.train(1)


def test_requires_grad_and_zero_grad():
    module = nn.Linear(2, 1)
    module(mq.ones(1, 2)).sum().backward()
    module.zero_grad(set_to_none=False)
    assert mq.equal(module.weight.grad, mq.zeros(1, 2))
    module.zero_grad()
    assert module.weight.grad is None
    assert not module.requires_grad_(False).weight.requires_grad


# --- Printing ------------------------------------------------------------------------


def test_repr_indents_children():
    assert repr(nn.Sequential(nn.Linear(1, 2), nn.Sequential(nn.ReLU()))) == (
        "Sequential(\n"
        "  (0): Linear(in_features=1, out_features=2, bias=True)\n"
        "  (1): Sequential(\n"
        "    (0): ReLU()\n"
        "  )\n"
        ")"
    )


def test_repr_of_a_list_counts_equal_neighbours():
    text = repr(nn.ModuleList([nn.ReLU(), nn.ReLU(), nn.Linear(1, 1)]))
    assert text == (
        "ModuleList(\n  (0-1): 2 x ReLU()\n"
        "  (2): Linear(in_features=1, out_features=1, bias=True)\n)"
    )
    assert repr(nn.ModuleList()) == "ModuleList()"


# --- Calling -------------------------------------------------------------------------


def test_forward_must_be_defined():
    with pytest.raises(NotImplementedError, match='missing the required "forward"'):
        nn.Module()(1)


def test_functional_call_uses_other_values_once():
    module = nn.Linear(2, 1, bias=False)
    before = module.weight
    out = nn.utils.functional_call(module, {"weight": mq.ones(1, 2)}, mq.ones(1, 2))
    assert out.item() == 2.0
    assert module.weight is before


def test_functional_call_replaces_tied_members_together():
    module = nn.Sequential(nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False))
    module[1].weight = module[0].weight
    out = nn.utils.functional_call(module, {"0.weight": mq.full((1, 1), 3.0)}, mq.ones(1))
    assert out.item() == 9.0
    both = {"0.weight": mq.ones(1, 1), "1.weight": mq.zeros(1, 1)}
    with pytest.raises(ValueError, match="tied"):
        nn.utils.functional_call(module, both, mq.ones(1))


def test_functional_call_strict_names_what_is_missing():
    with pytest.raises(RuntimeError, match=r"Missing key\(s\): 'bias'"):
        nn.utils.functional_call(
            nn.Linear(1, 1), {"weight": mq.ones(1, 1)}, mq.ones(1), strict=True
        )


def test_a_replica_shares_all_but_the_parameters():
    layer = nn.BatchNorm1d(2)
    replica = layer._replicate_for_data_parallel()
    replica.weight = layer.weight.view_as(layer.weight)
    assert list(replica.parameters()) == []
    assert replica.running_mean is layer.running_mean
    assert replica.weight._base is layer.weight

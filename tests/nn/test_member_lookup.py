"""Modules whose classes have, or call, a `__getattr__`: it is asked for members, as in PyTorch."""

import copy
import gc
import pickle
import weakref

import pytest

import maquette as mq
from maquette import nn


class Asking(nn.Module):
    def __init__(self):
        super().__init__()
        self.asked = []
        self.weight = nn.Parameter(mq.ones(2))
        self.layer = nn.Linear(2, 2)
        self.register_buffer("mean", mq.zeros(1))

    def __getattr__(self, name):
        if name != "asked":
            self.asked.append(name)
        return super().__getattr__(name)


def test_a_class_with_getattr_is_asked_for_members():
    module = Asking()
    module.asked.clear()
    assert module.weight.shape == (2,)
    assert module.layer(mq.ones(1, 2)).shape == (1, 2)
    assert module.mean.shape == (1,)
    assert module.training
    assert module.asked == ["weight", "layer", "mean"]


def test_what_is_no_member_is_named():
    with pytest.raises(AttributeError, match="'Asking' object has no attribute 'nothing'"):
        _ = Asking().nothing


def test_a_class_that_calls_getattr_by_name_finds_members():
    class Calling(nn.Linear):
        def read(self, name):
            return self.__getattr__(name)

    module = Calling(2, 3)
    assert module.read("weight") is module.weight
    with pytest.raises(AttributeError, match="'Calling' object has no attribute 'gain'"):
        module.read("gain")


def test_a_getattr_of_a_mixin_or_of_a_later_class_counts():
    class Forwarding:
        def __getattr__(self, name):
            return name if name.startswith("made_") else super().__getattr__(name)

    class Mixed(Forwarding, nn.Linear):
        pass

    module = Mixed(2, 3)
    assert module.made_up == "made_up"
    assert module.weight.shape == (3, 2)
    assert not hasattr(module, "gain")


def test_modules_without_getattr_are_read_as_plain_attributes():
    assert not hasattr(nn.Linear, "__getattr__")
    assert nn.Linear.__getattribute__ is object.__getattribute__


def test_the_dicts_of_members_can_be_read_backwards():
    module = nn.Sequential(nn.Linear(1, 1), nn.ReLU())
    assert [name for name, _ in reversed(module._modules.items())] == ["1", "0"]
    assert list(reversed(module._modules)) == ["1", "0"]


class Wrapper(nn.Module):
    """Finds members, and what its inner module has, in PyTorch's dict."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(2, 3)

    def __getattr__(self, name):
        if "_modules" not in self.__dict__:
            raise AttributeError(name)
        modules = self.__dict__["_modules"]
        return modules[name] if name in modules else getattr(modules["inner"], name)


def test_a_getattr_finds_members_in_the_dict_of_the_module():
    wrapper = Wrapper()
    assert wrapper.inner.weight is wrapper.weight
    assert list(wrapper.state_dict()) == ["inner.weight", "inner.bias"]


def test_a_setattr_writes_to_the_dict_of_parameters():
    class Setting(nn.Module):
        def __setattr__(self, name, value):
            parameters = self.__dict__.get("_parameters")
            if parameters is not None and name in parameters:
                parameters[name] = value
            else:
                super().__setattr__(name, value)

    module = Setting()
    module.weight = nn.Parameter(mq.ones(2))
    module.weight = mq.zeros(2)  # which Module would refuse
    assert module.weight.tolist() == module._parameters["weight"].tolist() == [0, 0]


@pytest.mark.parametrize(
    "again", [copy.copy, copy.deepcopy, lambda w: pickle.loads(pickle.dumps(w))]
)
def test_copies_read_their_own_dicts(again):
    wrapper = Wrapper()
    copied = again(wrapper)
    copied.inner = nn.Linear(4, 5)
    assert copied.weight.shape == (5, 4)
    assert wrapper.weight.shape == (3, 2)


def test_the_dicts_do_not_keep_a_module_alive():
    wrapper = Wrapper()
    gone = weakref.ref(wrapper)
    gc.disable()
    del wrapper
    gc.enable()
    assert gone() is None


def test_a_module_is_a_plain_attribute_if_modules_setattr_is_passed_by():
    class Holding(nn.Sequential):
        def __setattr__(self, name, value):
            above = super(nn.Module, self) if name == "activation" else super()
            above.__setattr__(name, value)

    module = Holding(nn.Linear(2, 2))
    module.activation = nn.Sigmoid()
    assert [name for name, _ in module.named_children()] == ["0"]
    super(nn.Module, module).__delattr__("activation")
    assert not hasattr(module, "activation")


class Shadowing(nn.Module):
    def __init__(self):
        super().__init__()
        self.parameters = nn.ParameterList([nn.Parameter(mq.ones(2))])


def test_a_child_with_the_name_of_a_method_leaves_the_method():
    module = Shadowing()
    assert [len(p) for p in module.parameters()] == [2]
    assert [name for name, _ in module.named_parameters()] == ["parameters.0"]
    assert list(dict(module.named_children())) == ["parameters"]

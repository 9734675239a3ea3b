"""`vars(module)` in PyTorch's form: what it shows, and that what is set there is set."""

import abc
import copy
import pickle

import pytest

import maquette as mq
from maquette import nn


class Mixin:
    """A class that gives its instances a dict of attributes before `Module` does."""


class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(mq.ones(2))
        self.register_buffer("count", mq.zeros(1), persistent=False)
        self.inner = nn.Linear(2, 3)
        self.size = 5


class Mixed(Mixin, Plain):
    pass


class Abstract(abc.ABC, Plain):
    pass


class Another:
    """One more."""


class MixedAgain(Another, Mixed):
    pass


class Concrete(Abstract):
    pass


@pytest.fixture(params=[Plain, Mixed, MixedAgain, Abstract, Concrete])
def module(request):
    return request.param()


def test_members_stand_in_their_dicts_alone(module):
    shown = vars(module)
    assert not {"weight", "count", "inner"} & shown.keys()
    assert shown["_parameters"]["weight"] is module.weight
    assert list(shown["_buffers"]) == ["count"]
    assert shown["_non_persistent_buffers_set"] == {"count"}
    assert shown["_modules"]["inner"] is module.inner
    assert shown["size"] == 5
    assert not any(name.startswith("_mq_") for name in shown)


def test_what_is_set_there_is_set(module):
    module.__dict__["size"] = 6
    module.__dict__.update(more=7)
    module.__dict__["_parameters"]["bias"] = nn.Parameter(mq.zeros(2))
    assert (module.size, module.more, len(list(module.parameters()))) == (6, 7, 4)
    assert module.__dict__.pop("more") == 7
    assert not hasattr(module, "more")
    del module.__dict__["size"]
    assert not hasattr(module, "size")


def test_a_member_is_not_taken_away_as_an_attribute(module):
    assert module.__dict__.pop("weight", None) is None
    with pytest.raises(KeyError, match="weight"):
        del module.__dict__["weight"]
    assert module.weight is not None


def test_a_copy_of_the_dict_is_a_shallow_copy_of_the_module(module):
    made = type(module).__new__(type(module))
    made.__dict__ = module.__dict__.copy()
    made._parameters = {}
    assert made.inner is module.inner
    assert made.size == 5
    assert list(made._non_persistent_buffers_set) == ["count"]
    assert not hasattr(made, "weight")
    assert module.weight is not None


def test_hooks_go_along_with_the_dict(module):
    calls = []
    module.inner.register_forward_hook(
        lambda m, args, kwargs, out: calls.append(1), with_kwargs=True
    )
    made = nn.Linear.__new__(nn.Linear)
    made.__dict__.update(module.inner.__dict__)
    made(mq.ones(2))
    assert calls == [1]


def test_attributes_are_set_on_another_module_by_name(module):
    made = nn.Module()
    for name, value in vars(module).items():
        setattr(made, name, value)
    assert made.state_dict().keys() == module.state_dict().keys()
    assert made.size == 5
    assert made.count is module.count


@pytest.mark.parametrize("again", [copy.deepcopy, lambda d: pickle.loads(pickle.dumps(d))])
def test_the_dict_is_copied_as_plain_dicts(module, again):
    copied = again(module.__dict__)
    assert type(copied) is dict
    assert type(copied["_parameters"]) is dict
    assert copied["_parameters"]["weight"] is not module.weight


def test_attributes_are_read_without_it(module):
    assert Plain.__getattribute__ is object.__getattribute__
    assert {"weight", "size", "inner"} <= set(dir(module))
    assert module._mq_attributes["weight"] is module.weight


def test_a_dict_is_rebuilt_by_its_class(module):
    shown = vars(module)
    for mapping in (shown, shown["_parameters"]):
        rebuilt = type(mapping)((name, 0) for name in mapping)
        assert type(rebuilt) is dict
        assert rebuilt == dict.fromkeys(mapping, 0)

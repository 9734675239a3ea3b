"""Containers of modules and of parameters."""

from collections import OrderedDict

import pytest

import maquette as mq
from maquette import nn


def test_sequential_chains_and_slices():
    chain = nn.Sequential(nn.Identity(), nn.ReLU(), nn.Tanh())
    assert chain(mq.full((1,), -1.0)).item() == 0.0
    assert [type(m).__name__ for m in chain[1:]] == ["ReLU", "Tanh"]
    assert isinstance(chain[-1], nn.Tanh)
    with pytest.raises(IndexError, match="out of range"):
        chain[3]


def test_sequential_takes_names():
    chain = nn.Sequential(OrderedDict(first=nn.ReLU(), second=nn.Tanh()))
    assert isinstance(chain.second, nn.Tanh)
    assert isinstance(chain[0], nn.ReLU)


def test_sequential_edits_renumber():
    chain = nn.Sequential(nn.ReLU(), nn.Tanh())
    chain.insert(0, nn.Identity())
    chain[1] = nn.Sigmoid()
    del chain[0]
    chain.append(nn.ReLU())
    assert list(chain._modules) == ["0", "1", "2"]
    assert [type(m).__name__ for m in chain] == ["Sigmoid", "Tanh", "ReLU"]
    assert isinstance(chain.pop(1), nn.Tanh)
    with pytest.raises(IndexError, match="out of range"):
        chain.insert(5, nn.ReLU())


def test_sequential_arithmetic():
    chain = nn.Sequential(nn.ReLU()) + nn.Sequential(nn.Tanh())
    assert [type(m).__name__ for m in chain * 2] == ["ReLU", "Tanh", "ReLU", "Tanh"]
    chain *= 3
    assert len(chain) == 6
    with pytest.raises(ValueError, match="Non-positive"):
        chain * 0
    with pytest.raises(ValueError, match="Sequential"):
        chain + [nn.ReLU()]


def test_module_list_behaves_as_a_list():
    modules = nn.ModuleList([nn.Linear(1, 1) for _ in range(3)])
    modules += [nn.ReLU()]
    assert len(modules) == 4
    assert isinstance(modules[1:], nn.ModuleList)
    assert modules[-1] is modules[3]
    del modules[0]
    assert [name for name, _ in modules.named_children()] == ["0", "1", "2"]
    with pytest.raises(TypeError, match="iterable"):
        modules.extend(3)
    with pytest.raises(NotImplementedError, match="forward"):
        modules(1)


def test_module_dict_behaves_as_a_dict():
    modules = nn.ModuleDict({"a": nn.ReLU()})
    modules["b"] = nn.Tanh()
    modules.update([("c", nn.Identity())])
    assert list(modules) == ["a", "b", "c"]
    assert "b" in modules
    assert isinstance(modules.pop("b"), nn.Tanh)
    assert [name for name, _ in modules.items()] == ["a", "c"]
    with pytest.raises(KeyError):
        modules["keys"] = nn.ReLU()
    with pytest.raises(ValueError, match="2 is required"):
        modules.update([("a",)])
    modules.clear()
    assert len(modules) == 0


def test_parameter_list_makes_parameters():
    values = nn.ParameterList([mq.ones(2), nn.Parameter(mq.zeros(1)), "text"])
    assert isinstance(values[0], nn.Parameter)
    assert values[2] == "text"
    assert [name for name, _ in values.named_parameters()] == ["0", "1"]
    values[0] = mq.zeros(3)
    assert values[-3].shape == (3,)
    assert "(0): Parameter containing: [torch.float32 of size 3]" in repr(values)
    with pytest.raises(RuntimeError, match="should not be called"):
        values()


def test_parameter_dict_behaves_as_a_dict():
    values = nn.ParameterDict({"b": mq.ones(1), "a": mq.zeros(2)})
    assert list(values) == ["a", "b"]
    assert isinstance(values["a"], nn.Parameter)
    merged = values | nn.ParameterDict({"c": mq.ones(3)})
    assert list(merged.keys()) == ["a", "b", "c"]
    assert values.popitem()[0] == "b"
    assert values.get("b", 3) == 3
    with pytest.raises(KeyError):
        values["missing"]
    with pytest.raises(TypeError, match="not a string"):
        values[3] = mq.ones(1)

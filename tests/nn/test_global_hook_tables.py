"""The tables of hooks on all modules, under PyTorch's private names."""

from collections import OrderedDict

import pytest

import maquette as mq
from maquette import nn
from maquette.nn.modules import module


def test_an_empty_table_takes_the_hooks_away():
    seen = []
    module.register_module_forward_hook(lambda *args: seen.append(1))
    assert len(module._global_forward_hooks) == 1
    module._global_forward_hooks = OrderedDict()
    nn.ReLU()(mq.ones(1))
    assert (seen, len(module._global_forward_hooks)) == ([], 0)


def test_hooks_that_are_always_called_are_listed():
    handle = module.register_module_forward_hook(lambda *args: None, always_call=True)
    assert list(module._global_forward_hooks_always_called) == [handle.id]
    handle.remove()
    assert not module._global_forward_hooks_always_called


def test_a_table_is_a_dictionary():
    with pytest.raises(TypeError, match="_global_forward_pre_hooks is a dictionary"):
        module._global_forward_pre_hooks = []

"""Hooks around calls: their order, what they may change, and when they run."""

import copy
import gc
import weakref

import pytest

import maquette as mq
from maquette import nn


class Adder(nn.Module):
    """x + y, or an error."""

    def forward(self, x, y=0, *, fail=False):
        if fail:
            raise ValueError("forward failed")
        return x + y


def test_pre_hooks_and_hooks_run_in_order_and_may_replace():
    module, seen = Adder(), []
    module.register_forward_pre_hook(lambda m, args: seen.append("pre"))
    module.register_forward_pre_hook(lambda m, args: args[0] * 10)
    module.register_forward_hook(lambda m, args, out: out + 1)
    module.register_forward_hook(lambda m, args, out: seen.append((args, out)))
    assert module(2) == 21
    assert seen == ["pre", ((20,), 21)]


def test_prepend_puts_a_hook_first():
    module, seen = Adder(), []
    module.register_forward_hook(lambda *_: seen.append("second"))
    module.register_forward_hook(lambda *_: seen.append("first"), prepend=True)
    module(1)
    assert seen == ["first", "second"]


def test_hooks_with_kwargs_see_and_replace_them():
    module, seen = Adder(), []
    module.register_forward_pre_hook(
        lambda m, args, kwargs: (args, {"y": kwargs["y"] + 1}), with_kwargs=True
    )
    module.register_forward_hook(
        lambda m, args, kwargs, out: seen.append((args, kwargs, out)), with_kwargs=True
    )
    assert module(1, y=2) == 4
    assert seen == [((1,), {"y": 3}, 4)]


def test_a_pre_hook_with_kwargs_must_return_a_pair():
    module = Adder()
    module.register_forward_pre_hook(lambda m, args, kwargs: 3, with_kwargs=True)
    with pytest.raises(RuntimeError, match="None or a tuple of"):
        module(1)


def test_a_handle_removes_its_hook_also_as_a_context():
    module, seen = Adder(), []
    handle = module.register_forward_hook(lambda *_: seen.append(1))
    module(1)
    handle.remove()
    handle.remove()
    module(1)
    with module.register_forward_hook(lambda *_: seen.append(2)):
        module(1)
    module(1)
    assert seen == [1, 2]


def test_pytorchs_dicts_of_hooks_write_through():
    module, seen = Adder(), []
    module.register_forward_hook(lambda *_: seen.append(1))
    module._forward_hooks.clear()
    module(1)
    module._forward_pre_hooks[0] = lambda *_: seen.append(2)
    module(1)
    assert seen == [2]


def test_only_always_called_hooks_run_when_forward_raises():
    module, seen = Adder(), []
    module.register_forward_hook(lambda *_: seen.append("never"))
    module.register_forward_hook(lambda m, a, out: seen.append(out), always_call=True)
    with pytest.raises(ValueError, match="forward failed"):
        module(1, fail=True)
    assert seen == [None]


def test_an_error_of_an_always_called_hook_does_not_hide_the_first():
    module = Adder()

    def broken(*_):
        raise KeyError("broken")

    module.register_forward_hook(broken, always_call=True)
    with pytest.warns(UserWarning, match="silenced"), pytest.raises(ValueError, match="failed"):
        module(1, fail=True)


def test_an_always_called_hook_runs_once():
    module, seen = Adder(), []

    def broken(*_):
        raise KeyError("broken")

    module.register_forward_hook(lambda *_: seen.append(1), always_call=True)
    module.register_forward_hook(broken)
    with pytest.raises(KeyError, match="broken"):
        module(1)
    assert seen == [1]


def test_global_hooks_see_every_module_before_its_own_hooks():
    module, seen = nn.Sequential(Adder(), Adder()), []
    module[0].register_forward_pre_hook(lambda *_: seen.append("own"))
    pre = nn.register_module_forward_pre_hook(lambda m, a: seen.append(type(m).__name__))
    post = nn.register_module_forward_hook(lambda m, a, out: seen.append(out))
    with pre, post:
        module(1)
    module(1)
    assert seen == ["Sequential", "Adder", "own", 1, "Adder", 1, 1, "own"]


def test_full_backward_hook_sees_gradients_of_outputs_and_inputs():
    module, seen = nn.Linear(2, 1, bias=False), []
    x = mq.ones(1, 2, requires_grad=True)
    module.register_full_backward_hook(
        lambda m, grad_in, grad_out: seen.append((grad_in, grad_out))
    )
    (module(x) * 3).sum().backward()
    (((grad_in,), (grad_out,)),) = seen
    assert grad_out.item() == 3.0
    assert mq.equal(grad_in, 3 * module.weight.detach())


def test_full_backward_hooks_may_replace_gradients():
    module = nn.Linear(1, 1, bias=False)
    x = mq.ones(1, 1, requires_grad=True)
    module.register_full_backward_pre_hook(lambda m, grad_out: (grad_out[0] * 2,))
    module.register_full_backward_hook(lambda m, grad_in, grad_out: (grad_in[0] * 5,))
    module(x).sum().backward()
    assert mq.allclose(x.grad, module.weight.detach() * 10)
    assert mq.equal(module.weight.grad, mq.full((1, 1), 2.0))


def test_full_backward_hook_without_inputs_that_require_grad():
    module, seen = nn.Linear(2, 1, bias=False), []
    module.register_full_backward_hook(lambda m, grad_in, grad_out: seen.append(grad_in))
    module(mq.ones(1, 2)).sum().backward()
    assert seen == [(None,)]


def test_a_backward_hook_of_the_wrong_length_is_refused():
    module = nn.Linear(1, 1)
    module.register_full_backward_hook(lambda m, grad_in, grad_out: (None, None))
    with pytest.raises(RuntimeError, match="invalid number of grad_input"):
        module(mq.ones(1, 1, requires_grad=True)).sum().backward()


def test_no_hook_no_gate_in_the_graph():
    x = mq.ones(1, requires_grad=True)
    module = Adder()
    handle = module.register_full_backward_hook(lambda *_: None)
    assert module(x, 1).grad_fn.name() == "BackwardHookFunctionBackward"
    handle.remove()
    assert module(x, 1).grad_fn.name() == "AddBackward0"


# --- as in PyTorch (findings 6 and 50) ------------------------------------------------


def test_a_detached_input_arrives_detached():
    """Finding 6."""
    seen = []

    class Both(nn.Module):
        def forward(self, a, b):
            seen.append((a.requires_grad, b.requires_grad))
            return a + b

    module, x = Both(), mq.ones(1, requires_grad=True)
    module.register_full_backward_hook(lambda *_: None)
    module(x, x.detach())
    assert seen == [(True, False)]


def test_a_hooked_output_is_not_written_to():
    """Finding 6."""
    module, x = nn.Linear(1, 1), mq.ones(1, 1, requires_grad=True)
    module.register_full_backward_hook(lambda *_: None)
    with pytest.raises(RuntimeError, match="is a view and is being modified inplace"):
        module(x).add_(1)


def test_a_hook_on_loading_makes_no_cycle():
    """Finding 50."""
    module = nn.Linear(1, 1)
    module.register_load_state_dict_pre_hook(lambda m, *_: None)
    gone = weakref.ref(module)
    gc.disable()
    try:
        del module
        assert gone() is None
    finally:
        gc.enable()


def test_copies_of_hooks_belong_to_the_copy():
    """Finding 50."""
    module = Adder()
    module.handle = module.register_forward_hook(lambda m, args, out: out * 2)
    made = copy.deepcopy(module)
    made.handle.remove()
    assert (module(1, 1), made(1, 1)) == (4, 2)


def test_registrations_are_seen():
    """Finding 50."""
    seen = []
    register = nn.modules.module.register_module_parameter_registration_hook
    with register(lambda module, name, parameter: seen.append(name)):
        nn.Linear(1, 1)
    nn.Linear(1, 1)
    assert seen == ["weight", "bias"]

"""`torch._C._dispatch_*`: questions about operators, kernels and keys."""

import pytest

import maquette.torch as torch

C = torch._C
ADD = "aten::add.Tensor"


def test_which_operators_and_kernels_there_are() -> None:
    """Finding 29."""
    assert C._dispatch_has_kernel(ADD)
    assert not C._dispatch_has_kernel("aten::nothing")
    assert C._dispatch_has_kernel_for_dispatch_key(ADD, "CPU")
    assert not C._dispatch_has_kernel_for_dispatch_key(ADD, "Functionalize")
    assert C._dispatch_has_computed_kernel_for_dispatch_key(ADD, "Functionalize")
    assert ADD in C._dispatch_get_all_op_names()
    assert ADD in C._dispatch_get_registrations_for_dispatch_key("CPU")


def test_an_unknown_operator_has_no_answers() -> None:
    """Finding 29."""
    for ask in (C._dispatch_dump, C._dispatch_dump_table, C._dispatch_check_invariants):
        with pytest.raises(RuntimeError, match="operator aten::nothing does not exist"):
            ask("aten::nothing")


def test_an_operator_is_dumped_with_its_schema_and_its_kernels() -> None:
    """Finding 29."""
    dump = C._dispatch_dump("aten::alias")
    assert dump.startswith("name: aten::alias\nschema: aten::alias(Tensor(a) self) -> Tensor(a)\n")
    assert "CPU: registered" in dump
    assert "Functionalize: [backend fallback]" in C._dispatch_dump_table("aten::alias")
    assert C._dispatch_check_invariants("aten::alias") is None
    assert C._dispatch_find_dangling_impls() == []


def test_a_library_of_the_dispatcher_takes_back_what_it_registered() -> None:
    """Finding 29: `_dispatch_library` was a module of ours."""
    library = C._dispatch_library("FRAGMENT", "finding29", "")
    library.define("plus_one(Tensor x) -> Tensor")
    library.impl("plus_one", "CPU", lambda x: x + 1)
    assert torch.ops.finding29.plus_one(torch.ones(1)).item() == 2.0
    library.reset()
    assert not C._dispatch_has_kernel("finding29::plus_one")


def test_the_stack_for_pre_dispatch_can_be_read() -> None:
    """Finding 29."""
    assert torch._ops._get_current_dispatch_mode_pre_dispatch() is None
    assert torch._ops._len_torch_dispatch_stack_pre_dispatch() == 0


def test_what_stands_for_other_tensors_is_told() -> None:
    class Sub(torch.Tensor):
        pass

    assert C._dispatch_isTensorSubclassLike(torch.ones(1).as_subclass(Sub))
    assert not C._dispatch_isTensorSubclassLike(torch.nn.Parameter(torch.ones(1)))


def test_an_operator_is_called_by_its_handle() -> None:
    handle = C._dispatch_find_schema_or_throw("aten::sin", "")
    assert C._dispatch_call_boxed(handle, torch.zeros(2)).tolist() == [0, 0]


def test_the_python_dispatcher_is_on_while_its_guard_lives() -> None:
    key = torch._C.DispatchKey.PythonDispatcher
    guard = C._EnablePythonDispatcher()
    assert C._dispatch_tls_is_dispatch_key_included(key)
    assert torch.add(torch.ones(1), 1).item() == 2
    del guard
    assert not C._dispatch_tls_is_dispatch_key_included(key)


def test_a_stream_has_the_numbers_that_it_is_made_of() -> None:
    stream = torch.Stream(stream_id=3, device_index=1, device_type=2)
    assert (stream.stream_id, stream.device_index, stream.device_type) == (3, 1, 2)

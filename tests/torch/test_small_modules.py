"""Modules of PyTorch's that programs import (finding 52), and words that they match (59)."""

import io

import pytest

import maquette.torch as torch
from maquette.torch import nn


def test_gradients_of_convolutions_by_themselves() -> None:
    """Finding 52."""
    x = torch.rand(1, 2, 5, 5, requires_grad=True)
    w = torch.rand(3, 2, 3, 3, requires_grad=True)
    out = nn.functional.conv2d(x, w, stride=2, padding=1)
    out.sum().backward()
    ones = torch.ones_like(out)
    found = nn.grad.conv2d_input(x.shape, w.detach(), ones, stride=2, padding=1)
    assert torch.allclose(found, x.grad)
    found = nn.grad.conv2d_weight(x.detach(), w.shape, ones, stride=2, padding=1)
    assert torch.allclose(found, w.grad)


def test_reductions_by_their_old_flags() -> None:
    """Finding 52."""
    assert nn._reduction.get_enum("sum") == 2
    with pytest.warns(UserWarning, match="reduction='none'"):
        assert nn._reduction.legacy_get_string(None, False) == "none"


def test_settings_that_programs_ask_for() -> None:
    """Finding 52."""
    assert torch.__future__.get_swap_module_params_on_conversion() is False
    assert "NumPy" in torch.__config__.show()
    assert torch._VF.relu is torch.relu
    assert torch.cuda.is_tf32_supported() is False
    assert torch.backends.cpu.get_cpu_capability() in ("DEFAULT", "AVX2", "AVX512")
    assert issubclass(torch.jit.TracerWarning, Warning)
    with torch.compiler.set_stance("force_eager"):
        pass
    with pytest.raises(ValueError, match="stance must be one of"):
        torch.compiler.set_stance("still")


def test_modules_may_go_on_to_the_next_class() -> None:
    """Finding 50."""

    class Named:
        def __init__(self, name: str) -> None:
            self.name = name

    class Both(nn.Module, Named):
        call_super_init = True

    assert Both("x").name == "x"
    with pytest.raises(TypeError, match="takes 1 positional argument but 2 were given"):
        nn.Module("x")


def test_what_only_an_lstm_takes() -> None:
    """Finding 50."""
    with pytest.raises(ValueError, match="only supported for LSTM"):
        nn.RNN(1, 1, proj_size=1)


def test_spectral_norm_notes_itself_in_the_state() -> None:
    """Finding 50."""
    state = nn.utils.spectral_norm(nn.Linear(2, 2)).state_dict()
    assert state._metadata[""]["spectral_norm"] == {"weight.version": 1}


def test_complex_modules_are_warned_of() -> None:
    """Finding 58."""
    with pytest.warns(UserWarning, match="Complex modules are a new feature"):
        assert nn.Linear(1, 1).to(torch.complex64).weight.dtype is torch.complex64


def test_sequences_out_of_order_are_refused_in_pytorchs_words() -> None:
    """Finding 59."""
    with pytest.raises(RuntimeError, match="You can pass `enforce_sorted=False`"):
        nn.utils.rnn.pack_padded_sequence(torch.ones(2, 2), torch.tensor([1, 2]))


def test_settings_of_mkldnn_hold_for_a_block():
    with torch.backends.mkldnn.flags(enabled=False):
        assert torch.nn.functional.grad is torch.nn.grad


def test_the_precision_of_products_has_two_names() -> None:
    before = torch.get_float32_matmul_precision()
    try:
        torch.backends.cuda.matmul.allow_tf32 = True
        assert torch.get_float32_matmul_precision() == "high"
        torch.set_float32_matmul_precision("highest")
        assert not torch.backends.cuda.matmul.allow_tf32
        with pytest.warns(UserWarning, match="low is not one of"):
            torch.set_float32_matmul_precision("low")
        assert torch.get_float32_matmul_precision() == "highest"
    finally:
        torch.set_float32_matmul_precision(before)


def test_typed_storages_take_attributes_of_programs() -> None:
    storage = torch.storage.TypedStorage(dtype=torch.float32, device="meta")
    storage.archiveinfo = "here"
    assert storage.archiveinfo == "here"


def test_tensors_of_files_are_rebuilt_without_memory_on_meta() -> None:
    storage = torch.storage.TypedStorage(dtype=torch.float16, device="meta")
    made = torch._utils._rebuild_tensor_v2(storage, 3, (2, 4), (4, 1), False, {})
    assert (made.device.type, made.dtype, made.shape) == ("meta", torch.float16, (2, 4))


def test_a_record_is_read_as_bytes_or_as_elements() -> None:
    file = io.BytesIO()
    torch.save(torch.arange(3.0), file)
    reader = torch.PyTorchFileReader(file)
    as_bytes = reader.get_storage_from_record("data/0", 12, torch.UntypedStorage)
    assert as_bytes._typed_storage()._untyped_storage.nbytes() == 12
    assert reader.get_storage_from_record("data/0", 3, torch.float32).tolist() == [0.0, 1.0, 2.0]


def test_nothing_is_ever_traced_for_a_script_compiler() -> None:
    assert (torch._C._is_tracing(), torch._C._get_tracing_state()) == (False, None)

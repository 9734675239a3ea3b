"""Names of the face: what is there, and what a missing one says."""

import pickle
from copy import deepcopy

import pytest

import maquette as mq
import maquette.torch as torch
from maquette.dispatch import modes
from maquette.torch.face import paths


def test_names_of_maquette_are_handed_on() -> None:
    assert torch.Tensor is mq.Tensor
    assert torch.float32 is mq.float32
    assert torch.ones is mq.ones
    assert torch.ops is mq.ops
    assert torch.nn is mq.nn


def test_a_missing_name_says_so() -> None:
    with pytest.raises(AttributeError, match=r"'torch'.*'frobnicate'"):
        torch.frobnicate  # noqa: B018
    assert not hasattr(torch, "frobnicate")


def test_a_missing_name_of_a_submodule_says_so() -> None:
    with pytest.raises(AttributeError, match=r"'torch\.utils'.*'frobnicate'"):
        torch.utils.frobnicate  # noqa: B018


@pytest.mark.parametrize("name", ["nn", "optim", "cuda", "utils", "Tensor", "save", "pi"])
def test_dir_lists_names_before_they_are_used(name: str) -> None:
    assert name in dir(torch)


def test_dispatcher_names_are_at_their_torch_paths() -> None:
    c = torch._C
    assert c.DispatchKey is mq.DispatchKey
    assert c._dispatch_tls_local_include_set() == mq.dispatch.tls_local_include_set()
    assert c._ExcludeDispatchKeyGuard is mq.dispatch.ExcludeDispatchKeyGuard
    assert c._parse_dispatch_key("CPU") is mq.DispatchKey.CPU


def test_modes_are_at_their_torch_paths() -> None:
    path = torch.utils._python_dispatch
    assert path.TorchDispatchMode is modes.TorchDispatchMode
    assert path._get_current_dispatch_mode is modes.get_current_dispatch_mode


def test_fake_tensors_are_at_their_torch_path() -> None:
    assert torch._subclasses.fake_tensor.FakeTensorMode is mq.FakeTensorMode
    assert torch._subclasses.FakeTensor is mq.FakeTensor


def test_cuda_is_not_there() -> None:
    assert not torch.cuda.is_available()
    assert torch.cuda.device_count() == 0
    assert torch.cuda.memory_allocated() == 0
    torch.cuda.synchronize()
    with pytest.raises(RuntimeError, match="no CUDA device"):
        torch.cuda.current_device()


@pytest.mark.parametrize("kind", ["mps", "xpu", "mtia"])
def test_other_devices_are_not_there(kind: str) -> None:
    assert not getattr(torch, kind).is_available()


def test_settings_of_backends_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", True)
    assert torch.backends.cudnn.benchmark
    assert not torch.backends.cudnn.is_available()
    assert not torch.backends.cuda.matmul.allow_tf32


def test_compile_gives_the_function_back() -> None:
    def double(x: float) -> float:
        return 2 * x

    assert torch.compile(double) is double
    assert torch.compile(mode="max-autotune")(double) is double
    module = mq.nn.Linear(1, 1)
    module.compile()
    assert list(module.state_dict()) == ["weight", "bias"]


def test_a_compiled_module_has_the_module_and_its_attributes() -> None:
    base = mq.nn.Sequential(mq.nn.Linear(2, 2))
    base.depth = 1
    made = torch.compile(base, backend="eager")
    assert isinstance(made, torch._dynamo.OptimizedModule)
    assert made._orig_mod is base
    assert list(made.state_dict()) == ["_orig_mod.0.weight", "_orig_mod.0.bias"]
    assert repr(made).startswith("OptimizedModule(\n  (_orig_mod): Sequential(")
    assert made(mq.ones(1, 2)).shape == (1, 2)
    made.depth = made.depth + 1
    assert base.depth == 2
    made.eval()
    assert not base.training
    base.train()
    assert made.training
    assert "depth" in dir(made)
    with pytest.raises(AttributeError, match="'Sequential' object has no attribute 'width'"):
        made.width  # noqa: B018  # reading it raises
    assert torch.compile(made) is made


def test_a_compiled_module_is_copied_loaded_and_hooked() -> None:
    made = torch.compile(mq.nn.Linear(2, 2))
    copy = pickle.loads(pickle.dumps(deepcopy(made)))
    assert type(copy) is type(made)
    assert copy._orig_mod is not made._orig_mod
    copy.load_state_dict({name: value * 0 for name, value in made.state_dict().items()})
    assert not copy.weight.any()
    calls: list[int] = []
    made.register_forward_hook(lambda *_: calls.append(1))
    made._orig_mod(made(mq.ones(1, 2)))
    assert calls == [1]
    made.weight = mq.nn.Parameter(mq.ones(2, 2))
    assert made._orig_mod.weight.sum() == 4
    del made.bias
    assert not hasattr(made._orig_mod, "bias")


def test_checks_raise_their_kind() -> None:
    torch._check(True)
    with pytest.raises(ValueError, match="too small"):
        torch._check_value(False, lambda: "too small")
    with pytest.raises(RuntimeError):
        torch._check(False)


def test_questions_about_objects() -> None:
    assert torch.is_tensor(torch.ones(1))
    assert not torch.is_tensor(1.0)
    assert torch.is_storage(torch.ones(1).untyped_storage())
    assert torch.typename(torch.ones(1)) == "torch.FloatTensor"
    assert torch.typename(torch.nn.Linear(1, 1)) == "torch.nn.modules.linear.Linear"
    assert torch.typename(torch.float32) == "torch.dtype"
    assert torch.typename(3) == "int"
    assert torch.broadcast_shapes((2, 1), (3,)) == torch.Size([2, 3])


def test_questions_about_tensors() -> None:
    x = torch.ones(2, 3)
    assert torch.numel(x) == 6
    assert torch.is_signed(x)
    assert not torch.is_signed(x.to(torch.uint8))
    assert not torch.is_inference(x)
    assert not torch.is_conj(x)
    assert not torch.is_neg(x)
    assert torch.get_device(x) == -1


def test_a_flat_place_is_unravelled() -> None:
    places = torch.arange(24).reshape(2, 3, 4)
    for i, found in enumerate(torch.unravel_index(places, (2, 3, 4))):
        expected = torch.arange((2, 3, 4)[i]).reshape([-1 if d == i else 1 for d in range(3)])
        assert torch.equal(found, expected.expand(2, 3, 4))
    with pytest.raises(TypeError, match="integer dtype"):
        torch.unravel_index(torch.ones(1), (2, 3))


def test_flat_places_of_any_dtype_are_unravelled_to_int64() -> None:
    found = torch.unravel_index(torch.tensor([3, 5], dtype=torch.int32), (2, 3))
    assert [(f.dtype, f.tolist(), f.stride()) for f in found] == [
        (torch.int64, [1, 1], (2,)),
        (torch.int64, [0, 2], (2,)),
    ]
    assert torch.unravel_index(torch.tensor([3], dtype=torch.uint8), (2, 300))[1].item() == 3


def test_version_says_what_this_is() -> None:
    assert torch.__version__ == torch.version.__version__ == "2.13.0+maquette"
    assert torch.version.cuda is None


def test_nothing_is_compiled_or_scripted() -> None:
    assert not torch.compiler.is_compiling()
    assert not torch.jit.is_scripting()

    @torch.jit.ignore
    def ignored() -> int:
        return 1

    @torch.jit.script
    def scripted() -> int:
        return ignored() + 1

    assert scripted() == 2


def test_operators_of_a_family_are_in_its_module() -> None:
    assert torch.linalg.vector_norm is mq.linalg_vector_norm
    assert torch.special.zeta is mq.special_zeta


def test_F16_typed_constructors_make_their_dtype() -> None:
    assert torch.LongTensor([1, 2]).dtype is torch.int64
    assert torch.FloatTensor(2, 3).shape == (2, 3)
    assert isinstance(torch.ones(1), torch.FloatTensor)
    assert not isinstance(torch.ones(1), torch.DoubleTensor)
    with torch._subclasses.FakeTensorMode():
        assert type(torch.FloatTensor([1.0])) is mq.FakeTensor


def test_F16_cuda_types_are_of_cuda_tensors():
    assert not isinstance(torch.ones(1), torch.cuda.FloatTensor)
    with torch._subclasses.FakeTensorMode():
        made = torch.cuda.FloatTensor(2, 3)
        assert made.device.type == "cuda"
        assert isinstance(made, torch.cuda.FloatTensor)
        assert not isinstance(made, torch.FloatTensor)
        assert torch.ones(2).type(torch.cuda.HalfTensor).type() == "torch.cuda.HalfTensor"


def test_every_name_that_dir_lists_is_there():
    for name in dir(torch):
        assert hasattr(torch, name), name


def test_a_star_of_a_family_takes_its_functions() -> None:
    assert {"fft", "rfftfreq", "fftshift"} <= set(torch.fft.__all__)
    assert not any(name.startswith("_") for name in torch.special.__all__)


def test_masked_operators_are_found_where_they_are_defined() -> None:
    assert torch.masked._ops.amax is torch.masked.amax


def test_modules_of_old_training_scripts_are_found():
    assert paths.resolve("cuda.amp.grad_scaler") == "maquette.torch.cuda.amp"
    assert paths.resolve("cpu.amp.autocast_mode") == "maquette.torch.devices.cpu_amp"
    with pytest.raises(RuntimeError, match="NVTX functions not installed"):
        torch.cuda.nvtx.range_push("step")


def test_a_file_baton_is_held_by_one(tmp_path):
    first, second = (torch.utils.file_baton.FileBaton(str(tmp_path / "lock")) for _ in range(2))
    assert first.try_acquire()
    assert not second.try_acquire()
    first.release()
    second.wait()
    assert second.try_acquire()

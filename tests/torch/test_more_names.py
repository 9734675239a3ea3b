"""Names of torch.cuda, torch.jit, checkpoints and others: what they do, or what is absent."""

import importlib
from types import ModuleType

import pytest

import maquette as mq
import maquette.torch as torch
from maquette.torch.face.paths import torch_path
from maquette.torch.utils import checkpoint
from maquette.torch.utils.data.collate import collate, default_collate_fn_map


@pytest.mark.parametrize(
    "place",
    [
        "cuda.CUDAPluggableAllocator",
        "sparse.to_sparse_semi_structured",
        "multiprocessing.reductions.rebuild_tensor",
        "profiler.ExecutionTraceObserver",
        "cudnn_convolution",
        "AliasDb",
    ],
)
def test_an_absent_name_says_so_when_called(place: str) -> None:
    found: object = torch
    for part in place.split("."):
        found = getattr(found, part)
    with pytest.raises(NotImplementedError, match=f"torch.{place} is not supported"):
        found()


def test_a_module_with_several_paths_is_known_by_its_own() -> None:
    assert torch_path("maquette.torch.cuda") == "cuda"
    assert torch_path("maquette.torch.profiler") == "profiler"
    assert torch_path("maquette.nn.modules.conv") == "nn.modules.conv"


def test_old_names_of_cuda_memory_warn() -> None:
    with pytest.warns(FutureWarning, match="memory_reserved"):
        assert torch.cuda.memory_cached() == 0


def test_a_checkpoint_without_gradients_is_warned_of() -> None:
    with pytest.warns(UserWarning, match="Gradients will be None"):
        checkpoint.check_backward_validity([mq.ones(1)])
    assert checkpoint.get_device_states(mq.ones(1)) == ([], [])
    assert checkpoint.DefaultDeviceType.get_device_type() == "cuda"


def test_samples_are_collated_by_a_map() -> None:
    kinds = {**default_collate_fn_map, str: lambda batch, *, collate_fn_map: "-".join(batch)}
    found = collate([{"a": 1, "b": "x"}, {"a": 2, "b": "y"}], collate_fn_map=kinds)
    assert found["a"].tolist() == [1, 2]
    assert found["b"] == "x-y"


def test_annotations_with_parts_are_asked_after() -> None:
    assert torch.jit.isinstance([1, 2], list[int])
    assert not torch.jit.isinstance({"a": "b"}, dict[str, int])


def test_only_python_runs_what_is_compiled() -> None:
    assert torch.compiler.list_backends() == ["eager"]
    with pytest.raises(ValueError, match="there is 'eager'"):
        torch.compiler.set_default_backend("inductor")


def test_files_of_layers_are_attributes_of_their_package() -> None:
    files = torch.nn.modules
    assert files.padding.ReflectionPad2d is torch.nn.ReflectionPad2d
    assert files.pixelshuffle.PixelShuffle is torch.nn.PixelShuffle
    assert files.channelshuffle.ChannelShuffle is torch.nn.ChannelShuffle
    assert files.flatten.Flatten is torch.nn.Flatten
    assert files.fold.Unfold is torch.nn.Unfold
    assert files.upsampling.Upsample is torch.nn.Upsample


def test_names_that_files_of_pytorch_import_are_found_in_them() -> None:
    assert torch.nn.functional._Reduction is torch.nn.modules.loss._Reduction
    assert torch.nn.functional._Reduction.get_enum("mean") == 1
    assert torch.nn.modules.conv._pair(3) == (3, 3)
    assert torch.cuda.OutOfMemoryError is torch.OutOfMemoryError
    assert torch.optim.lr_scheduler.Optimizer is torch.optim.Optimizer


def test_a_script_class_that_is_not_registered_is_refused_when_it_is_asked_for() -> None:
    with pytest.raises(RuntimeError, match=r"class 'xielu\.XIELU'"):
        torch.classes.xielu.XIELU()


@pytest.mark.parametrize(
    "place",
    [
        "autograd.no_grad",
        "autograd.backward",
        "random.manual_seed",
        "cuda.Stream",
        "cuda.MemPool",
        "sparse.to_sparse_semi_structured",
        "AliasDb",
    ],
)
def test_dir_tells_the_names_that_a_module_hands_on(place: str) -> None:
    path, _, name = f"torch.{place}".rpartition(".")
    found = torch
    for part in path.split(".")[1:]:
        found = getattr(found, part)
    assert name in dir(found)
    assert hasattr(found, name)


def test_a_star_brings_no_methods_that_hide_a_programs_names() -> None:
    told = set(torch.__all__)
    assert told.isdisjoint({"slice", "data", "index", "values", "view", "to", "check", "gelu"})
    assert {"tensor", "matmul", "relu", "dropout", "gather", "nn"} - told == {"nn"}


def test_a_star_of_autograd_brings_what_pytorchs_does() -> None:
    told = set(torch.autograd.__all__)
    assert {"Function", "backward", "enable_grad", "grad", "inference_mode", "no_grad"} <= told
    assert told <= set(dir(torch.autograd))


def test_names_that_libraries_import_or_call_are_there() -> None:
    assert torch.profiler._default_schedule_fn(3) is torch.profiler.ProfilerAction.RECORD
    assert issubclass(torch._dynamo.exc.TensorifyScalarRestartAnalysis, RuntimeError)
    assert torch.fx.passes.utils.lift_subgraph_as_module is not None
    assert (torch.nn.Container, torch.nn.NLLLoss2d) == (
        torch.nn.modules.Container,
        torch.nn.modules.NLLLoss2d,
    )


def test_a_programs_kernel_may_say_that_it_is_not_deterministic() -> None:
    alert = torch._prims_common.alert_not_deterministic
    alert("mine")
    try:
        torch.use_deterministic_algorithms(True)
        with pytest.raises(RuntimeError, match="mine does not have a deterministic"):
            alert("mine")
        torch.use_deterministic_algorithms(True, warn_only=True)
        with pytest.warns(UserWarning, match="mine does not have a deterministic"):
            alert("mine")
    finally:
        torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize(
    "place",
    [
        "accelerator.max_memory_allocated",
        "cuda.FloatTensor",
        "cuda.random.seed_all",
        "func.debug_unwrap",
        "fx.replace_pattern",
        "jit.trace",
        "library.triton_op",
        "masked.MaskedTensor",
        "return_types.all_return_types",
        "utils.hooks.RemovableHandle",
        "xpu.get_device_properties",
    ],
)
def test_dir_tells_what_a_module_looks_up_itself(place: str) -> None:
    path, _, name = place.rpartition(".")
    module = importlib.import_module(f"maquette.torch.{path}")
    assert name in dir(module)
    assert hasattr(module, name)


def test_a_device_that_is_not_there_says_so_in_any_form_of_call() -> None:
    with pytest.raises(RuntimeError, match="no such device"):
        torch.xpu.set_rng_state(torch.ones(1), "xpu")


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("accelerator.memory", "max_memory_allocated"),
        ("backends.mha", "get_fastpath_enabled"),
        ("backends.xnnpack", "enabled"),
        ("compiler.config", "dynamic_sources"),
        ("mps.event", "Event"),
        ("nn.modules.linear_cross_entropy_options", "LinearCrossEntropyOptions"),
        ("signal.windows.windows", "hann"),
        ("xpu.streams", "Stream"),
    ],
)
def test_modules_of_pytorch_can_be_imported(path: str, name: str, installed: ModuleType) -> None:
    importlib.import_module(f"torch.{path.partition('.')[0]}")
    assert hasattr(importlib.import_module(f"torch.{path}"), name)


@pytest.mark.parametrize(
    "path",
    ["cuda.sparse", "distributed.config", "jit.frontend", "fx.experimental.validator"],
)
def test_modules_that_are_absent_say_so_when_used(path: str) -> None:
    module = importlib.import_module(f"maquette.torch.{path}")
    with pytest.raises(NotImplementedError, match=f"torch.{path}.Any is not supported"):
        module.Any()


def test_each_kind_of_operators_has_its_precision() -> None:
    backends = torch.backends
    assert (backends.cudnn.conv.fp32_precision, backends.mkldnn.rnn.fp32_precision) == (
        "tf32",
        "none",
    )
    assert backends.cuda.matmul.fp32_precision == "none"


def test_no_language_of_kernels_is_installed() -> None:
    """PyTorch's table of samples, which test suites import, walks through them."""
    native = torch.backends.python_native
    assert list(native.available_dsls) == native.all_dsls == []
    assert native.get_dsl_operations("triton") == []
